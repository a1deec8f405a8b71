"""The report of a sealed run: which notebook reports it, and where the page goes.

A sealed run is recognised by its plan, and the plan's format says which protocol it belongs to.
"""

from __future__ import annotations

import json
import shlex
from pathlib import Path

from evalkit.decisions.verification import verify_run
from evalkit.errors import EvalkitError
from evalkit.reports.folders import REPORT
from evalkit.reports.page import refuse_target, write_page

PLAN = "plan.json"
#: format of the plan -> the notebook that reports such a run
NOTEBOOKS = {"evalkit/decisions-precommit/1": "report-decisions"}


def is_sealed_run(path: Path) -> bool:
    return (path / PLAN).is_file()


def report_sealed_run(run_dir: Path, *, out: Path | None = None, trust: Path | None = None) -> Path:
    """Run the report notebook on a sealed run and put the page at ``out`` or RUN/report.html.

    Raises `BindingError` or `Blocked` where the run does not verify, `EvalkitError` where it is not evaluated.
    """
    try:
        plan = json.loads((run_dir / PLAN).read_bytes())
        notebook = NOTEBOOKS[plan["schema"]]
    except (ValueError, KeyError, TypeError):
        raise EvalkitError(
            "this plan is of no protocol that evalkit can report",
            where=str(run_dir / PLAN),
            expected=" or ".join(NOTEBOOKS),
            do="check that it is a run folder of this version",
        ) from None
    target = Path(out) if out else run_dir / REPORT
    refuse_target(target, "--out")
    if verify_run(run_dir, trust=trust).ex_ante is None:
        raise EvalkitError(
            "the run is not evaluated yet",
            where=str(run_dir),
            expected="a run with ex-ante/run.json",
            do=f"evalkit decisions evaluate {shlex.quote(str(run_dir))} --write-run",
        )
    parameters = {"runs": [str(run_dir)], "trust": str(trust) if trust else None}
    # half of a page beside the run, not in it: what a crash leaves must not look like tampering
    beside = run_dir.absolute().parent if out is None else target.absolute().parent
    return write_page(notebook, parameters, target, beside=beside)
