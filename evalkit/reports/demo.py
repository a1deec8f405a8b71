"""The demo: every shipped pair through the run, reveal and report notebooks."""

from __future__ import annotations

from pathlib import Path

from evalkit.decisions.catalog import CATALOG, Catalog, read
from evalkit.decisions.precommitment import new_run_id
from evalkit.decisions.session import shipped_cases
from evalkit.reports.execution import execute


def run_demo(out: Path, *, progress: bool = True) -> Path:
    """Run the demo below ``out`` and return the path of the report.

    Sealed runs lie in ``out/decisions/<run id>``, executed notebooks in ``out/<notebook>/<run id>``.
    Raises `CellError` or `KernelLost` where a notebook fails.
    """
    out = out.absolute()
    catalog, _ = read(Catalog, shipped_cases() / CATALOG)
    runs: list[str] = []
    for pair in catalog.pairs:
        run_id = new_run_id()
        run_dir = out / "decisions" / run_id
        execute(
            "run-decisions",
            {"pair": pair.pair_id, "out": str(run_dir), "run_id": run_id},
            out=out,
            key=run_id,
            progress=progress,
        )
        execute("reveal-decisions", {"run": str(run_dir)}, out=out, key=run_id, progress=progress)
        runs.append(str(run_dir))
    # the report of these very runs: keyed by the last run id, as it can never be "done already"
    done = execute("report-decisions", {"runs": runs}, out=out, key=run_id, progress=progress)
    return done.report
