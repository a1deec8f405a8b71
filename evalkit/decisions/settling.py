"""Settle what a killed process left in a run: recover its phases by the ledger, or say TAMPERED."""

from __future__ import annotations

from pathlib import Path

from evalkit.decisions.chain import OpenPlan
from evalkit.decisions.layout import EX_ANTE, EX_ANTE_FILE, JOURNAL, REVEAL, REVEAL_FILE
from evalkit.decisions.own_ledgers import second_plan
from evalkit.decisions.plan import PLAN, PLAN_ATTESTATION
from evalkit.sealing import PREDICATES, Ledger, Phase, Recovered, recover
from evalkit.sealing.timestamp_folder import FOLDER

PHASES = (
    Phase(EX_ANTE, EX_ANTE_FILE, PREDICATES["decisions/ex-ante"]),
    Phase(REVEAL, REVEAL_FILE, PREDICATES["decisions/reveal"]),
)
#: what else lies in a run folder; report files are derived and never read back
REQUIRED = (PLAN, PLAN_ATTESTATION, "part-a", "instructions", "sealed", JOURNAL)
REPORTS = ("report.html", "report.pdf")
OPTIONAL = ("model", FOLDER, *REPORTS)


def settle(run_dir: Path, opened: OpenPlan, ledger: Ledger) -> list[Recovered]:
    """Recover both phases of a run.

    Raises `BindingError` ``run`` where something was tampered with, and `Blocked` where it was another plan of
    the same run that was evaluated: then nothing is gone from this folder.
    """
    _refuse_second_plan(run_dir, opened, ledger)
    return recover(
        run_dir,
        phases=PHASES,
        ledger=ledger,
        trust=opened.trust,
        run_id=opened.plan.run_id,
        segment_from=opened.plan.ledger_head.size,
        expected=[*REQUIRED, *(name for name in OPTIONAL if (run_dir / name).exists())],
    )


def _refuse_second_plan(run_dir: Path, opened: OpenPlan, ledger: Ledger) -> None:
    """A bundle gives its run id to every plan that is made of it, and the ledger counts by run id."""
    run_id = opened.plan.run_id
    if opened.plan.custodian is None or (run_dir / EX_ANTE).exists():
        return
    plans = {
        e.record.get("document"): e.seq
        for e in ledger.entries()
        if (e.record["event"], e.record.get("run_id")) == ("precommit", run_id)
    }
    others = [seq for document, seq in plans.items() if document != opened.digest]
    if others and any(a.state == "committed" for a in ledger.attempts(run_id, EX_ANTE)):
        raise second_plan(run_id, "evaluated", f"{ledger.path}: seq {others[0]}")
