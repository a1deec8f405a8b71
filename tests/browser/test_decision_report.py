"""The report that a person gets, in a browser without network: the page of a real sealed run."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions.session import demo_run
from evalkit.reports.sealed import report_sealed_run

pytestmark = [pytest.mark.browser, pytest.mark.slow]


@pytest.fixture
def report() -> Path:
    return report_sealed_run(demo_run(revealed=True))


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (1100, "light"), (1100, "dark")])
def test_report_is_self_contained_and_fits(report: Path, chromium: Any, width: int, scheme: str) -> None:
    page = chromium.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
    requests: list[str] = []
    messages: list[str] = []
    page.on("request", lambda request: requests.append(request.url))
    page.on("console", lambda message: messages.append(message.text))
    page.goto(report.as_uri())
    assert requests == [report.as_uri()]
    assert messages == []
    assert page.evaluate("document.documentElement.scrollWidth") == width
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    figures = page.query_selector_all("figure")
    assert len(figures) == 3
    assert all(figure.query_selector("svg[role=img][aria-label]") for figure in figures)
    text = page.inner_text("body")
    for words in ("Process, before the outcome", "Calibration, after the reveal", "Not blind", "n = 2",
                  "range 0-2", "95% interval", "not proven", "How to reproduce"):  # fmt: skip
        assert words.lower() in text.lower(), words
    assert page.query_selector_all("pre.code, .input_area, script") == []
    # nothing repeated for one run, and no name of a file that nobody has
    assert "1 of 1 run" not in text.replace("\u00a0", " ")
    assert "attempt 1 of 1" in text
    assert "Custody: who kept the outcomes" in text
    assert "report-decisions" in page.inner_text("footer")
    assert "run.ipynb" not in page.inner_text("footer")
    if os.environ.get("EVALKIT_SCREENSHOTS"):
        folder = Path(os.environ["EVALKIT_SCREENSHOTS"])
        page.screenshot(path=folder / f"decisions-{width}-{scheme}.png", full_page=True)
    page.close()


def test_report_stays_small(report: Path) -> None:
    """The goal is 100 KB and figures: measured, so that growth is noticed."""
    page = report.read_text()
    figures = sum(len(part.partition("</svg>")[0]) for part in page.split("<svg")[1:])
    assert len(page) - figures < 100_000
