"""Settle what a killed process left in a run: recover its phases by the ledger, or say TAMPERED."""

from __future__ import annotations

from pathlib import Path

from evalkit.decisions.chain import OpenPlan
from evalkit.decisions.layout import EX_ANTE, EX_ANTE_FILE, JOURNAL, REVEAL, REVEAL_FILE
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
    """Recover both phases of a run.  Raises `BindingError` ``run`` where something was tampered with."""
    return recover(
        run_dir,
        phases=PHASES,
        ledger=ledger,
        trust=opened.trust,
        run_id=opened.plan.run_id,
        segment_from=opened.plan.ledger_head.size,
        expected=[*REQUIRED, *(name for name in OPTIONAL if (run_dir / name).exists())],
    )
