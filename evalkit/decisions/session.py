"""Starting runs from a notebook: resolved paths, a precommit in its own process, and demo runs.

A demo run is a real run on cases that evalkit ships, in a temporary folder, with keys made for it.
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from evalkit.decisions.apart import precommit_apart
from evalkit.decisions.calibration import reveal
from evalkit.decisions.evaluation import evaluate
from evalkit.resources import resource

DEMO_PAIR = "pair-1-video-rental-2007"


def shipped_cases() -> Path:
    """The folder of cases that comes with evalkit."""
    return resource("data", "cases")


def start_run(
    *,
    cases: str = "",
    pair: str = DEMO_PAIR,
    model: str | None = None,
    base_url: str | None = None,
    replay: str | None = None,
    out: str = "",
    run_id: str = "",
    trust: str | None = None,
) -> Path:
    """Precommit a pair in a process of its own and return the run folder.

    Empty ``cases``: those that evalkit ships; a custodian's bundle has its pair, so that ``pair`` may be empty.
    Empty ``out``: a temporary folder.
    """
    run_dir = Path(out) if out else Path(tempfile.mkdtemp(prefix="evalkit-")) / "run"
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    precommit_apart(
        Path(cases) if cases else shipped_cases(),
        pair=pair or None,
        out=run_dir,
        model=None if replay else model,
        base_url=base_url,
        replay=Path(replay) if replay else None,
        run_id=run_id or None,
        trust=Path(trust) if trust else None,
    )
    return run_dir


def demo_run(*, revealed: bool) -> Path:
    """A temporary run of the shipped demo pair with the baseline, evaluated and perhaps revealed."""
    run_dir = start_run()
    evaluate(run_dir, write_run=True)
    if revealed:
        reveal(run_dir, write_calibration=True)
    return run_dir
