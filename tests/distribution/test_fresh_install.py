"""The wheel alone, in an empty environment, away from the repository: `evalkit demo` ends with the report."""

from __future__ import annotations

import json
import os
import re
import subprocess
import venv
from pathlib import Path

import pytest

from evalkit.reports.demo import run_demo

OFFLINE = re.compile(r"NewConnectionError|Temporary failure in name resolution|Network is unreachable")


def reported(out: Path) -> dict[str, object]:
    """The numbers of the demo's report, without what differs from run to run."""
    (results,) = out.glob("report-decisions/*/results.json")
    value: dict[str, object] = json.loads(results.read_text())
    value = value.get("results", value)
    return {k: v for k, v in value.items() if k in ("process", "calibration")}


@pytest.mark.slow
def test_demo_from_the_wheel_alone(wheel: Path, tmp_path: Path) -> None:
    """Also: the same numbers as from the checkout (determinism)."""
    environment = tmp_path / "empty"
    venv.create(environment, with_pip=True)
    python = environment / "bin" / "python"
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    installed = subprocess.run(
        [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", str(wheel)],
        env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if installed.returncode != 0 and OFFLINE.search(installed.stderr):
        pytest.skip("no package index can be reached from here")
    assert installed.returncode == 0, installed.stderr
    away = tmp_path / "away"
    away.mkdir()
    done = subprocess.run(
        [environment / "bin" / "evalkit", "demo", "--out", "runs"],
        cwd=away, env=environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    report = Path(re.findall(r"^report: (.+)$", done.stdout, re.M)[-1])
    assert report.is_file()
    assert report.stat().st_size > 50_000
    where = subprocess.run(
        [python, "-c", "import evalkit; print(evalkit.__file__)"],
        cwd=away, env=environ, capture_output=True, text=True, check=True,
    ).stdout  # fmt: skip
    assert Path(where.strip()).is_relative_to(environment)
    here = tmp_path / "here"
    run_demo(here, progress=False)
    assert reported(away / "runs") == reported(here)
