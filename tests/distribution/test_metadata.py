"""Locks, environment file and metadata say the same."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

import evalkit

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins(lock: str) -> dict[str, set[str]]:
    """Name -> pinned versions (a universal lock may pin one per Python version)."""
    found: dict[str, set[str]] = {}
    for name, version in re.findall(r"^([A-Za-z0-9._-]+)==([^ ;\\]+)", (ROOT / lock).read_text(), re.M):
        found.setdefault(canonicalize_name(name), set()).add(version)
    return found


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_lock_pins_every_dependency_within_its_range_with_hashes(lock: str) -> None:
    locked = pins(lock)
    wanted = list(PROJECT["project"]["dependencies"])
    if "dev" in lock:
        wanted += PROJECT["dependency-groups"]["dev"]
        wanted += [d for extra in PROJECT["project"]["optional-dependencies"].values() for d in extra]
    for text in wanted:
        requirement = Requirement(text)
        name = canonicalize_name(requirement.name)
        assert name in locked, f"{name} is not in {lock}: make lock"
        assert all(requirement.specifier.contains(v) for v in locked[name]), (name, locked[name])
    text = (ROOT / lock).read_text()
    entries = re.split(r"^(?=[A-Za-z0-9])", text, flags=re.M)[1:]
    assert all("--hash=sha256:" in entry for entry in entries)


@pytest.mark.parametrize("lock", ["requirements.lock", "requirements-dev.lock"])
def test_lock_names_no_index(lock: str) -> None:
    assert not re.search(r"(--index|--extra-index|--find-links|://)", (ROOT / lock).read_text())


def test_the_two_locks_agree() -> None:
    demo, dev = pins("requirements.lock"), pins("requirements-dev.lock")
    assert {n: dev.get(n) for n in demo} == demo


def test_environment_file_uses_the_lock() -> None:
    """conda cannot be run in the tests: the file is parsed, so that it does not drift."""
    value = yaml.safe_load((ROOT / "environment.yml").read_text())
    (pip,) = [d for d in value["dependencies"] if isinstance(d, dict)]
    assert pip == {"pip": ["-r requirements.lock"]}
    (python,) = [d for d in value["dependencies"] if str(d).startswith("python")]
    assert python.removeprefix("python") == PROJECT["project"]["requires-python"]


def test_version_is_in_the_changelog() -> None:
    assert f"## {evalkit.__version__}" in (ROOT / "CHANGELOG.md").read_text()


HEAVY = (
    "numpy",
    "pandas",
    "scipy",
    "matplotlib",
    "papermill",
    "nbconvert",
    "pydantic",
    "cryptography",
    "httpx2",
)


@pytest.mark.parametrize(
    "statement",
    ["import evalkit", "import evalkit.sealing", "import evalkit.decisions", "import evalkit.reports",
     "import evalkit.forecasts", "import evalkit.importers",
     "from evalkit.cli import app; app.main(['--help'], standalone_mode=False)"],
)  # fmt: skip
def test_imports_stay_light(statement: str) -> None:
    """Nothing heavy is loaded before it is used; the figures are in benchmarks/."""
    code = f"{statement}\nimport sys; print([m for m in {HEAVY!r} if m in sys.modules])"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert out.strip().splitlines()[-1] == "[]"


def test_nothing_names_a_foreign_path() -> None:
    """No absolute home or workspace path is committed."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=True).stdout
    bad = []
    for name in filter(None, listed.decode().split("\0")):
        path = ROOT / name
        if (
            path.suffix in {".py", ".md", ".ipynb", ".toml", ".yml", ".json", ".lock", ".j2", ".css", ""}
            and path.is_file()
        ):
            text = path.read_text(errors="replace")
            bad += [name] if re.search(r"(?<![\w.])/(work|root|Users)/\w", text) else []
    assert bad == []
