"""What the wheel holds: all that a user needs, and nothing that is private."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_wheel_ships_notebooks_templates_and_cases(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    shipped = {
        f"evalkit/_data/{path.relative_to(ROOT)}"
        for folder in ("notebooks", "templates", "data/cases", "data/forecasts")
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
    assert kinds <= {".py", ".typed", ".ipynb", ".json", ".md", ".j2", ".css", ".csv"}
