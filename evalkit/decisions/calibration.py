"""Reveal: after everything is verified, open what was sealed and score the probabilities.

Where a custodian keeps the key, her opening takes its place: then no key is loaded here at all.

The order is the point.  `open_ex_ante` has verified the attestation and replayed every binding of both
cases, and no record is blocked, before the unsealing key is even loaded; only then are mapping, catalog
and Part B opened, and each must be what the plan committed to.  Process quality (the ex-ante score) and
calibration (this record) are two results.  Nothing here or elsewhere adds, averages or plots them as one.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.decisions.chain import (
    OpenExAnte,
    OpenPlan,
    load_trust,
    open_evidence,
    open_ex_ante,
    open_plan,
    read_attested,
    run_directory,
)
from evalkit.decisions.custody.opening import check_revealed_after, read_opening
from evalkit.decisions.evaluation import has_signer, signer_of
from evalkit.decisions.layout import EX_ANTE, JOURNAL, REVEAL, REVEAL_FILE, read_bound
from evalkit.decisions.moments import instant, stamp
from evalkit.decisions.openings import Opened, interpret, published, sealed_packets
from evalkit.decisions.releasable import not_evaluated, refuse_blocked
from evalkit.decisions.reveal_document import document_of, predicate_of
from evalkit.decisions.run_keys import discard_ephemeral
from evalkit.decisions.settling import settle
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Ledger,
    Places,
    canonical_json,
    commit_phase,
    digest,
    load_unsealing_key,
)

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Calibration:
    """The post-reveal record, and where it was written, if it was."""

    document: dict[str, Any]
    written: Path | None

    def summary(self) -> dict[str, Any]:
        """Phase, identity, realized probabilities and scores per case; nothing of the process score."""
        d = self.document
        return {
            "phase": d["phase"],
            "run_id": d["run_id"],
            "label": d["label"],
            "replayed": d["replayed"],
            "revealed_at": d["revealed_at"],
            "conventions": d["conventions"],
            "cases": [
                {
                    k: c[k]
                    for k in (
                        "case_id",
                        "realized_scenario_id",
                        "realized_probability",
                        "nontrivial",
                        "brier",
                        "brier_uniform",
                        "log",
                        "log_uniform",
                        "n_scenarios",
                    )
                }
                for c in d["cases"]
            ],
            "bindings": d["bindings"],
            "written": str(self.written) if self.written else None,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per case: probability of the realized scenario and its scores."""
        import pandas as pd

        return pd.DataFrame(self.summary()["cases"]).astype({"realized_probability": float})

    def _repr_html_(self) -> str:
        html: str = self.to_frame().to_html(index=False)
        return html


def reveal(
    run_dir: Path | str,
    *,
    write_calibration: bool = False,
    revealed_at: str | None = None,
    opening: Path | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    observe: Callable[[str], None] = lambda step: None,
) -> Calibration:
    """Verify a run and reveal it.

    ``revealed_at``: offset-aware time, not before the ex-ante run was final and not in the future.
    ``opening``: the file that the custodian made for this run, where it has one; then no key opens anything here.
    Raises `BindingError` (which binding failed; nothing sealed was opened unless it is
    ``sealed-packet``), `Blocked` (a blocker, or revealed already) or `EvalkitError`.
    """
    places = places or Places.from_environment()
    run_dir = run_directory(Path(run_dir))
    opened = open_plan(run_dir, load_trust(run_dir, trust, places))
    plan = opened.plan
    _check_way(opened, opening)
    if (run_dir / REVEAL).is_dir() and not has_signer(plan, places):
        raise _revealed_already(run_dir)
    with signer_of(plan, places, run_dir) as signer:
        ledger = Ledger(places.ledger(signer.key_id), clock=clock)
        evidence = open_evidence(opened)
        if (run_dir / EX_ANTE).exists():
            read_attested(opened)  # says which section differs, where settling could say only that one does
        settle(run_dir, opened, ledger)
        run = open_ex_ante(evidence)
        _check_journal(run, ledger)
        refuse_blocked(run)
        at = _revealed_at(revealed_at, run, clock())
        if any(a.state == "committed" for a in ledger.attempts(plan.run_id, REVEAL)):
            if plan.ephemeral_keys:  # a crash may have come just before they were deleted
                discard_ephemeral(places, plan.run_id)
            raise _revealed_already(run_dir)
        opened.trust.refuse_unable(signer.key_id, PREDICATES["decisions/reveal"], plan.run_id, clock())
        # before the attempt: a file that is not for this run opens nothing, and is no attempt
        release = read_opening(opening, run) if opening is not None else None
        if release is not None:
            check_revealed_after(release, at)
            sealed = published(run_dir, plan, release.openings)
        attempt = ledger.begin_attempt(plan.run_id, REVEAL, write_calibration=write_calibration)
        if release is None:
            sealed = _open_sealed(run, places)
        document = document_of(run, sealed, at, release.envelope if release else None)
        if not write_calibration:
            ledger.append(
                "abandoned",
                run_id=plan.run_id,
                phase=REVEAL,
                attempt=attempt,
                document=digest(canonical_json(document)),
                reason="nothing was to be written",
            )
            return Calibration(document, None)
        commit_phase(
            run_dir,
            REVEAL,
            REVEAL_FILE,
            canonical_json(document),
            predicate_type=PREDICATES["decisions/reveal"],
            predicate=lambda head, number: predicate_of(document),
            signer=signer,
            trust=opened.trust,
            ledger=ledger,
            run_id=plan.run_id,
            attempt=attempt,
            segment_from=plan.ledger_head.size,
            observe=observe,
        )
    if plan.ephemeral_keys:
        discard_ephemeral(places, plan.run_id)
    return Calibration(document, run_dir / REVEAL)


def _revealed_already(run_dir: Path) -> Blocked:
    return Blocked(
        "this run is revealed already",
        where=f"{run_dir}/{REVEAL}",
        expected="one reveal a run",
        do="read its calibration.json; `evalkit verify` checks it",
    )


def _check_way(opened: OpenPlan, opening: Path | None) -> None:
    """A run with a custodian is revealed by her opening, and a run without one by its own key.

    Where she would not release the outcomes anyway, that is said before she is asked.
    """
    plan = opened.plan
    if plan.custodian is None and opening is not None:
        raise EvalkitError(
            "this run has no custodian: its custody is self",
            where="--opening",
            expected="the run's own unsealing key, and no option",
            do="leave --opening out",
        )
    if plan.custodian is not None and opening is None:
        if not (opened.run_dir / EX_ANTE).exists():
            raise not_evaluated(str(opened.run_dir))
        refuse_blocked(open_ex_ante(open_evidence(opened)))
        raise EvalkitError(
            f"the custodian of this run keeps the key to its outcomes (custody {plan.custody})",
            where=f"custodian {plan.custodian.key_id}",
            expected="--opening with the file that the custodian made for this run",
            do="evalkit custodian request RUN --out REQUEST; the custodian: evalkit custodian open REQUEST --out"
            " OPENING; then: evalkit decisions reveal RUN --opening OPENING --write-calibration",
        )


def _check_journal(run: OpenExAnte, ledger: Ledger) -> None:
    """The run's copy of the ledger must be the ledger's, to its last line."""
    opened = run.evidence.opened
    copy = read_bound(opened.run_dir, JOURNAL, Binding.RUN)
    if not ledger.segment(opened.plan.ledger_head.size).startswith(copy):
        raise BindingError(
            Binding.RUN,
            "the journal is not a copy of the signer's ledger",
            where=JOURNAL,
            expected="the ledger's lines from the plan on",
            do="restore the journal",
        )


def _revealed_at(given: str | None, run: OpenExAnte, now: datetime) -> str:
    try:
        at = now if given is None else instant(given)
    except ValueError as error:
        raise EvalkitError(
            f"--revealed-at {given!r} is no time with an offset ({error})",
            where="--revealed-at",
            expected="for example 2026-11-30T12:00:00+00:00",
            do="correct it, or leave it out",
        ) from None
    finalized = run.document["finalized_at"]
    if now < instant(finalized):
        raise EvalkitError(
            f"this machine's clock ({stamp(now)}) is behind the time at which the run was final",
            where="clock",
            expected=f"a time from {finalized} on",
            do="set the clock, or wait",
        )
    if at < instant(finalized) or at > now:
        raise EvalkitError(
            f"the reveal cannot be dated {stamp(at)}",
            where="--revealed-at",
            expected=f"not before the ex-ante run was final ({finalized}), and not after now ({stamp(now)})",
            do="correct it, or leave it out",
        )
    return stamp(at)


def _open_sealed(run: OpenExAnte, places: Places) -> Opened:
    """Load the unsealing key and open the packets: the first step that touches ``RUN/sealed``."""
    plan = run.evidence.opened.plan
    path = places.ephemeral(plan.run_id) / "unsealing.pem" if plan.ephemeral_keys else places.unsealing_key
    private = load_unsealing_key(path, workspace=[run.evidence.opened.run_dir])
    openings = {
        kind: packet.reveal(private)
        for kind, packet in sealed_packets(run.evidence.opened.run_dir, plan).items()
    }
    return interpret(plan, openings)
