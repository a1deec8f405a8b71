"""A plan that takes the place of another: the first stays as it is, and the second says so.

As with amendments of a preregistration, what counts is that both can be seen: the new plan names the
old one by digest, why it gives way, and how many attempts had been begun at it.  A plan that has its
ex-ante run gives way to nothing: its result is there, and another plan is a rival.
"""

from __future__ import annotations

from dataclasses import dataclass
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

    run_id: Text
    plan_digest: Text
    reason: Text
    attempts: int = Field(ge=0)


@dataclass(frozen=True)
class Superseding:
    """What the new plan is to say, and the ledger of the signer of the old one."""

    says: Supersedes
    ledger: Ledger

    def record(self, by: str, own: Ledger) -> None:
        """Tell the ledgers: that of the old plan, which then begins no attempt, and that of the new one."""
        fields: dict[str, Any] = {"plan": self.says.plan_digest, "reason": self.says.reason}
        self.ledger.supersede(self.says.run_id, by=by, attempts=self.says.attempts, **fields)
        if own.path != self.ledger.path:
            own.append("superseded", run_id=self.says.run_id, by=by, attempts=self.says.attempts, **fields)


def supersede(run: Path, reason: str, *, trust: Trust, places: Places) -> Superseding:
    """Check that the plan of the run folder ``run`` can give way, and what is to be said of it.

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
    ledger = Ledger(places.ledger(plan.signing_key_id))
    records = [entry.record for entry in ledger.entries()]
    _require_own(opened, records, ledger)
    refuse_superseded(records, plan.run_id)
    settled = any(a.state in ("committed", "intent") for a in ledger.attempts(plan.run_id, EX_ANTE))
    if settled or (run / EX_ANTE).exists():
        raise Blocked(
            "the plan has its ex-ante run, or a crash left one open",
            where=str(run / EX_ANTE),
            expected="a plan of which nothing came yet",
            do="make another plan without --supersedes: it stays a rival of this one",
        )
    attempts = attempts_of_run(records, plan.run_id)
    says = Supersedes(run_id=plan.run_id, plan_digest=opened.digest, reason=reason, attempts=attempts)
    return Superseding(says, ledger)


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


def check_superseded(says: Supersedes | None, run_id: str, journal: list[dict[str, Any]]) -> list[Line]:
    """What a plan says of the one that it supersedes, which the journal must say as well.

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
    wanted = (says.run_id, run_id, says.plan_digest, says.reason, says.attempts)
    if not any(
        r["event"] == "superseded"
        and tuple(r.get(name) for name in ("run_id", "by", "plan", "reason", "attempts")) == wanted
        for r in journal
    ):
        raise BindingError(
            Binding.RUN,
            "the journal does not tell of the plan that this one supersedes",
            where="journal.jsonl",
            expected=f"superseded: run {says.run_id}",
            do="restore the journal",
        )
    return [
        Line(
            "proven",
            "the plan takes the place of an earlier one, and the signer gave this reason before the evaluation",
            f"run {says.run_id}, plan {says.plan_digest}: {says.reason}",
        ),
        Line(
            "not proven" if says.attempts else "policy",
            "what attempts at the earlier plan gave: the signer says how many were begun",
            str(says.attempts),
        ),
    ]
