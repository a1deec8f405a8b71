"""What the wheel holds: all that a user needs, and nothing that is private."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
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


@pytest.mark.slow
def test_wheel_ships_notebooks_templates_and_cases(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {
        f"evalkit/_data/{path.relative_to(ROOT)}"
        for folder in ("notebooks", "templates", "data/cases")
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and ".ipynb_checkpoints" not in path.parts
    }
    assert shipped
    assert shipped <= names
    assert "evalkit/py.typed" in names
    assert {f"evalkit/{p.relative_to(ROOT / 'evalkit')}" for p in (ROOT / "evalkit").rglob("*.py")} <= names


@pytest.mark.slow
def test_wheel_ships_nothing_else(wheel: Path) -> None:
    """A run left under data/ or notebooks/ must not be published (force-include would do that)."""
    names = zipfile.ZipFile(wheel).namelist()
    assert [n for n in names if "secret" in n or "/runs/" in n or "checkpoints" in n] == []
    allowed = ("evalkit/", "evalkit_sealed-")
    assert [n for n in names if not n.startswith(allowed)] == []
    kinds = {Path(n).suffix for n in names if not n.startswith("evalkit_sealed-")}
    assert kinds <= {".py", ".typed", ".ipynb", ".json", ".md", ".j2", ".css"}
