"""The report on forecasts in a browser without network: one forecaster and eighteen, ordinal ones, a single item."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.reports.forecasts import write_report
from evalkit.resources import resource

pytestmark = [pytest.mark.browser, pytest.mark.slow]


def eighteen(folder: Path) -> tuple[Path, dict[str, Any]]:
    rng = np.random.default_rng(5)
    truth = rng.random(300)
    y = (rng.random(300) < truth).astype(int)
    spread = np.linspace(0.05, 1.5, 18)
    odds = np.log(truth / (1 - truth))[:, None] + spread * rng.normal(size=(300, 18))
    p = 1 / (1 + np.exp(-odds))
    names = [f"model-{i:02}-with-a-long-name-2026-11" for i in range(18)]
    rows = [",".join([*(f"{v:.4f}" for v in row), str(o)]) for row, o in zip(p, y, strict=True)]
    path = folder / "eighteen.csv"
    path.write_text(",".join([*names, "outcome"]) + "\n" + "\n".join(rows) + "\n")
    return path, {}


def single(folder: Path) -> tuple[Path, dict[str, Any]]:
    path = folder / "single.csv"
    path.write_text("p,y\n.3,1\n")
    return path, {}


def ordinal(folder: Path) -> tuple[Path, dict[str, Any]]:
    rng = np.random.default_rng(6)
    rows = [[*(f"{v:.6f}" for v in row), str(rng.integers(3))] for row in rng.dirichlet([2, 1, 2], 80)]
    for row in rows:
        row[2] = f"{1 - float(row[0]) - float(row[1]):.6f}"
    path = folder / "ordinal.csv"
    path.write_text("forecast_0,forecast_1,forecast_2,outcome\n" + "\n".join(map(",".join, rows)) + "\n")
    return path, {"kind": "ordinal"}


def example(folder: Path) -> tuple[Path, dict[str, Any]]:
    return resource("data", "forecasts", "panel.csv"), {"columns": {"cluster": "topic"}}


SETS = {"example": example, "eighteen": eighteen, "single": single, "ordinal": ordinal}


@pytest.fixture(scope="module", params=SETS, ids=list(SETS))
def page_of(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    folder = tmp_path_factory.mktemp("page")
    path, options = SETS[request.param](folder)
    return request.param, write_report(path, folder / "report.html", **options)


@pytest.mark.parametrize(("width", "scheme"), [(360, "light"), (800, "light"), (1280, "dark")])
def test_report_is_self_contained_and_fits(
    page_of: tuple[str, Path], chromium: Any, width: int, scheme: str
) -> None:
    name, report = page_of
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
    assert len(figures) == {"example": 3, "eighteen": 6, "single": 1, "ordinal": 1}[name]
    assert all(figure.query_selector("svg[role=img][aria-label]") for figure in figures)
    # type in figures stays readable
    small = page.evaluate(
        "[...document.querySelectorAll('figure svg text')].filter("
        "t => t.textContent.trim() && t.getBoundingClientRect().height < 7).map(t => t.textContent)"
    )
    assert small == []
    text = page.inner_text("body").lower()
    for words in (
        "Headline",
        "Scores",
        "Calibration",
        "Comparison",
        "n = ",
        "95% interval",
        "0 is best",
        "SHA-256",
    ):
        assert words.lower() in text, words
    assert page.query_selector_all("pre.code, .input_area, script") == []
    assert "report-forecasts" in page.inner_text("footer")
    if os.environ.get("EVALKIT_SCREENSHOTS"):
        folder = Path(os.environ["EVALKIT_SCREENSHOTS"])
        page.screenshot(path=folder / f"forecasts-{name}-{width}-{scheme}.png", full_page=True)
    page.close()


def test_report_stays_small(page_of: tuple[str, Path]) -> None:
    """Text and tables below 100 KB; figures below 500 KB, at eighteen forecasters too."""
    page = page_of[1].read_text()
    figures = sum(len(part.partition("</svg>")[0]) for part in page.split("<svg")[1:])
    assert len(page) - figures < 100_000
    assert figures < 500_000
