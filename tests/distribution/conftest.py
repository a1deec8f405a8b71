"""One wheel for all tests of the distribution, built as a user's checkout would build it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel built from a copy of the checkout in which private runs lie where people leave them."""
    copy = tmp_path_factory.mktemp("checkout") / "evalkit"
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=ROOT, capture_output=True, check=True
    ).stdout
    for name in filter(None, listed.decode().split("\0")):
        source, target = ROOT / name, copy / name
        if source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
    for private in (
        "runs/secret.json",
        "data/runs/secret.json",
        "data/cases/runs/secret.json",
        "data/forecasts/runs/secret.csv",
        "notebooks/runs/secret.ipynb",
        "notebooks/.ipynb_checkpoints/secret.ipynb",
        "templates/runs/secret.json",
    ):
        (copy / private).parent.mkdir(parents=True, exist_ok=True)
        (copy / private).write_text("private")
    out = tmp_path_factory.mktemp("dist")
    subprocess.run(
        [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(out), str(copy)],
        check=True,
        capture_output=True,
    )
    (built,) = out.glob("*.whl")
    return built
