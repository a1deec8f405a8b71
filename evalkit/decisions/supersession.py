"""A plan that takes the place of another: the first stays as it is, and the second says so.

As with amendments of a preregistration, what counts is that both can be seen: the new plan names the
old one by digest, why it gives way, and how many attempts had been begun at it.  A plan that has its
ex-ante run gives way to nothing: its result is there, and another plan is a rival.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import Field

from evalkit.decisions.claims import Line
from evalkit.decisions.packet import Frozen, Text
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing.ledger import Ledger, attempts_of_run, refuse_superseded

if TYPE_CHECKING:
    from evalkit.decisions.chain import OpenPlan
    from evalkit.sealing import Places, Trust


class Supersedes(Frozen):
    """What a plan says of the one whose place it takes."""

    run_id: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$")
    plan_digest: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    signing_key_id: str = Field(pattern=r"^sha256:[0-9a-f]{64}$")
    reason: Text = Field(max_length=1000)
    attempts: int = Field(ge=0)


def supersede(run: Path, reason: str, *, by: str, trust: Trust, places: Places) -> Supersedes:
    """Check that the plan of the run folder ``run`` can give way to that of ``by``, and say so.

    Raises `Blocked` (it has its result, or gave way already) or `EvalkitError`.
    """
    from evalkit.decisions.chain import open_plan, run_directory
    from evalkit.decisions.layout import EX_ANTE

    if not reason.strip():
        raise EvalkitError(
            "no reason is given why the plan is superseded",
            where="--reason",
            expected="what was wrong with the first plan, in a sentence: it is sealed word for word",
            do="add --reason",
        )
    opened = open_plan(run_directory(run), trust)
    plan = opened.plan
    if plan.run_id == by:
        raise EvalkitError(
            f"the new plan has the run id of the plan that it is to supersede ({by})",
            where="--supersedes",
            expected="another run: a bundle serves one run only",
            do="ask the custodian for another bundle",
        )
    ledger = Ledger(places.ledger(plan.signing_key_id))
    records = [entry.record for entry in ledger.entries()]
    _require_own(opened, records, ledger)
    refuse_superseded(records, plan.run_id)
    settled = any(a.state in ("committed", "intent") for a in ledger.attempts(plan.run_id, EX_ANTE))
    if settled or os.path.lexists(run / EX_ANTE):
        raise Blocked(
            "the plan has its ex-ante run, or a crash left one open",
            where=str(run / EX_ANTE),
            expected="a plan of which nothing came yet",
            do="make another plan without --supersedes: it stays a rival of this one",
        )
    return Supersedes(
        run_id=plan.run_id,
        plan_digest=opened.digest,
        signing_key_id=plan.signing_key_id,
        reason=reason,
        attempts=attempts_of_run(records, plan.run_id),
    )


def record_superseded(says: Supersedes | None, by: str, own: Ledger, places: Places) -> None:
    """Tell the ledgers: that of the old plan, which then begins no attempt, and that of the new one.

    Done once the new plan is on disk, and again before its first attempt, where a crash came in between.
    """
    if says is None or _told([entry.record for entry in own.entries()], says, by):
        return
    fields: dict[str, Any] = {"plan": says.plan_digest, "reason": says.reason}
    old = Ledger(places.ledger(says.signing_key_id), clock=own.clock)
    if not _told([entry.record for entry in old.entries()], says, by):
        old.supersede(says.run_id, by=by, attempts=says.attempts, **fields)
    if own.path != old.path:
        own.append("superseded", run_id=says.run_id, by=by, attempts=says.attempts, **fields)


def _told(records: Iterable[dict[str, Any]], says: Supersedes, by: str) -> bool:
    wanted = (says.run_id, by, says.plan_digest, says.reason, says.attempts)
    return any(
        r["event"] == "superseded"
        and tuple(r.get(name) for name in ("run_id", "by", "plan", "reason", "attempts")) == wanted
        for r in records
    )


def _require_own(opened: OpenPlan, records: list[dict[str, Any]], ledger: Ledger) -> None:
    from evalkit.decisions.journal import tells_of_plan

    if not tells_of_plan(records, opened):
        raise BindingError(
            Binding.RUN,
            "the ledger here does not tell of the plan that is to be superseded",
            where=str(ledger.path),
            expected="the ledger in which its precommit was recorded",
            do="supersede it where it was made",
        )


def check_superseded(
    says: Supersedes | None, run_id: str, journal: list[dict[str, Any]], *, attempted: bool
) -> list[Line]:
    """What a plan says of the one that it supersedes, which the journal must say before the first attempt.

    Raises `BindingError` ``run`` where it does not, or where this plan was itself superseded.
    """
    if any(r["event"] == "superseded" and r.get("run_id") == run_id for r in journal):
        raise BindingError(
            Binding.RUN,
            "the plan of this run was superseded, and still something came of it",
            where="journal.jsonl",
            expected="no attempt at a plan that gave way to another",
            do="ask the signer for the run that took its place",
        )
    if says is None:
        return []
    if attempted and not _told(journal, says, run_id):
        raise BindingError(
            Binding.RUN,
            "the journal does not tell of the plan that this one supersedes",
            where="journal.jsonl",
            expected=f"superseded: run {says.run_id}",
            do="restore the journal",
        )
    return [
        Line(
            "policy",
            "the signer says that the plan takes the place of an earlier one, and why",
            f"run {says.run_id}, plan {says.plan_digest}: {says.reason}",
        ),
        Line(
            "not proven",
            "what came of the earlier plan: the signer says how many attempts at it had been begun",
            str(says.attempts),
        ),
    ]
