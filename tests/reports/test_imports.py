"""What importing costs: the package is light, papermill comes without its tax and only when needed."""

from __future__ import annotations

import subprocess
import sys

HEAVY = (
    "papermill",
    "nbconvert",
    "nbclient",
    "nbformat",
    "matplotlib",
    "pandas",
    "numpy",
    "pydantic",
    "IPython",
)


def python(source: str) -> str:
    done = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def test_importing_reports_and_its_commands_loads_nothing_heavy() -> None:
    source = "import sys, evalkit.reports, evalkit.progress, evalkit.cli.notebooks\n"
    assert python(source + f"print([m for m in {HEAVY!r} if m in sys.modules])") == "[]"


def test_papermill_is_imported_without_its_tax_and_the_tax_stays_payable() -> None:
    source = """import sys
from evalkit.reports import kernel
assert kernel.papermill().execute_notebook
print("rfc3987_syntax" in sys.modules)"""
    assert python(source) == "False"
