"""Settle what a killed process left in a run: recover its phases by the ledger, or say TAMPERED."""

from __future__ import annotations

from pathlib import Path

from evalkit.decisions.chain import OpenPlan
from evalkit.decisions.layout import EX_ANTE, EX_ANTE_FILE, JOURNAL, REVEAL, REVEAL_FILE, read_bound
from evalkit.decisions.plan import PLAN, PLAN_ATTESTATION
from evalkit.errors import Binding
from evalkit.sealing import PREDICATES, Ledger, Phase, Recovered, load_canonical, recover
from evalkit.sealing.files import directory, locked, replace_at

PHASES = (
    Phase(EX_ANTE, EX_ANTE_FILE, PREDICATES["decisions/ex-ante"]),
    Phase(REVEAL, REVEAL_FILE, PREDICATES["decisions/reveal"]),
)
#: what else lies in a run folder; report files are derived and never read back
REQUIRED = (PLAN, PLAN_ATTESTATION, "part-a", "instructions", "sealed", JOURNAL)
OPTIONAL = ("model", "report.html")


def settle(run_dir: Path, opened: OpenPlan, ledger: Ledger) -> list[Recovered]:
    """Recover both phases of a run.  Raises `BindingError` ``run`` where something was tampered with."""
    done = recover(
        run_dir,
        phases=PHASES,
        ledger=ledger,
        trust=opened.trust,
        run_id=opened.plan.run_id,
        segment_from=opened.plan.ledger_head.size,
        expected=[*REQUIRED, *(name for name in OPTIONAL if (run_dir / name).exists())],
    )
    _refresh_journal(run_dir, opened, ledger)
    return done


def _refresh_journal(run_dir: Path, opened: OpenPlan, ledger: Ledger) -> None:
    """Finish the last step of a commit: the run's copy of the ledger has the ``committed`` line.

    A process killed just after that line was written leaves a copy that ends before it.  The ledger is
    the original and the copy is replaced by it only where it is the beginning of it, so nothing that
    somebody wrote into a journal is ever covered up.
    """
    segment = ledger.segment(opened.plan.ledger_head.size)
    copy = read_bound(run_dir, JOURNAL, Binding.RUN)
    rest = segment[len(copy) :]
    if (
        copy.endswith(b"\n")
        and segment.startswith(copy)
        and any(
            (record["event"], record.get("run_id")) == ("committed", opened.plan.run_id)
            for record in map(load_canonical, rest.splitlines())
        )
    ):
        with directory(run_dir, binding=Binding.RUN) as run_fd, locked(run_fd):
            replace_at(run_fd, JOURNAL, segment, where=str(run_dir / JOURNAL))
