"""Chromium without network, and one executed sample for it to look at."""

from __future__ import annotations

import os
import runpy
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.reports import Execution, execute

SAMPLE = Path(__file__).parents[1] / "reports" / "sample.py"

ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def chromium_path() -> str:
    found = os.environ.get("EVALKIT_CHROMIUM") or shutil.which("chromium") or shutil.which("google-chrome")
    if not found:
        pytest.skip("no Chromium: install it or set EVALKIT_CHROMIUM")
    return found


@pytest.fixture(scope="module")
def chromium(chromium_path: str) -> Iterator[Any]:
    # a module's own: as long as playwright is started, its event loop runs in this thread
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=chromium_path, args=ARGUMENTS)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def executed(tmp_path_factory: pytest.TempPathFactory) -> Execution:
    sample = runpy.run_path(str(SAMPLE))["sample"]
    folder = tmp_path_factory.mktemp("sample")
    environ = {"MPLCONFIGDIR": str(folder / "matplotlib")}
    return execute(
        sample(folder / "sample.ipynb"),
        {"samples": 50},
        out=folder / "runs",
        progress=False,
        environ=environ,
    )
