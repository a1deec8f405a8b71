"""The views of a report on forecasts: every kind and size of set, hostile names, numbers with their n and interval."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evalkit.forecasts import ForecastSet
from evalkit.reports.figures import svg
from evalkit.reports.forecasts import ForecastReport, write_report
from evalkit.reports.forecasts.wording import distinct, name
from evalkit.reports.results import plain
from evalkit.reports.tables import Html, Table

EVIL = "<img src=x onerror=alert(1)>\x1b[2J$x^2$"


def panel(forecasters: int, n: int = 60, seed: int = 0) -> ForecastSet:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, n)
    p = np.clip(0.5 + (y[:, None] - 0.5) * 0.4 + 0.25 * rng.normal(size=(n, forecasters)), 0.01, 0.99)
    return ForecastSet.from_frame(
        pd.DataFrame(p, columns=[f"forecaster {i:02}" for i in range(forecasters)]).assign(obs=y)
    )


def one_item() -> ForecastSet:
    return ForecastSet.from_frame(pd.DataFrame({"p": [0.3], "y": [1]}))


def classes(kind: Any = "ordinal", forecasters: int = 1) -> ForecastSet:
    rng = np.random.default_rng(1)
    p = rng.dirichlet([1, 2, 1], 40 * forecasters)
    frame = pd.DataFrame(p, columns=["low", "middle", "high"])
    frame["model"] = np.repeat([f"m{i}" for i in range(forecasters)], 40)
    frame["id"] = np.tile(np.arange(40), forecasters)
    frame["y"] = np.tile(rng.integers(0, 3, 40), forecasters)
    return ForecastSet.from_frame(frame, {"forecast": ["low", "middle", "high"]}, kind)


def hostile() -> ForecastSet:
    frame = pd.DataFrame({"model": [EVIL] * 3 + ["=1+1"] * 3, "id": [1, 2, 3] * 2, "p": [0.2, 0.5, 0.9] * 2})
    return ForecastSet.from_frame(frame.assign(y=[0, 1, 1] * 2))


def with_gaps() -> ForecastSet:
    frame = panel(3).to_frame()
    frame.loc[::7, "forecast"] = None
    return ForecastSet.from_frame(frame)


def one_cluster() -> ForecastSet:
    frame = panel(3, n=12).to_frame().iloc[1:]
    return ForecastSet.from_frame(frame.assign(cluster="all"))


def apart() -> ForecastSet:
    frame = pd.DataFrame({"model": ["a"] * 5 + ["b"] * 5, "id": range(10), "p": [0.4] * 10, "y": [0, 1] * 5})
    return ForecastSet.from_frame(frame)


def with_ties() -> ForecastSet:
    return ForecastSet.from_frame(pd.DataFrame({"p": [0.2, 0.5, 0.7], "y": [0, 0.5, 1]}), fractional=True)


SETS: dict[str, Callable[[], ForecastSet]] = {
    "one forecaster": lambda: panel(1),
    "four": lambda: panel(4),
    "eighteen": lambda: panel(18),
    "twenty": lambda: panel(20, n=12),
    "n = 1": one_item,
    "two forecasters, n = 1": lambda: panel(2, n=1),
    "ordinal": classes,
    "categorical, seven forecasters": lambda: classes("categorical", 7),
    "hostile names": hostile,
    "gaps": with_gaps,
    "one cluster": one_cluster,
    "disconnected": apart,
    "ties": with_ties,
}


@pytest.fixture(params=SETS, ids=list(SETS))
def report(request: pytest.FixtureRequest) -> ForecastReport:
    return ForecastReport(SETS[request.param]())


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str, str]]:
    """Figures as (SVG, alternative text, caption) instead of displayed."""
    figures: list[tuple[str, str, str]] = []
    for module in ("scores", "reliability", "comparison"):
        monkeypatch.setattr(
            f"evalkit.reports.forecasts.{module}.show",
            lambda fig, *, alt, caption=None: figures.append((svg(fig), alt, caption or "")),
        )
    return figures


def parts(report: ForecastReport) -> list[Table | Html]:
    return [
        report.scores.cards(),
        report.scores.cautions(),
        report.scores.table(),
        report.reliability.errors(),
        report.comparison.table(),
        report.sources.missing(),
        report.sources.data(),
        report.sources.methods(),
    ]


def test_every_section_of_every_set(
    report: ForecastReport, shown: list[tuple[str, str, str]], recwarn: pytest.WarningsRecorder
) -> None:
    for part in parts(report):
        markup = part._repr_html_()
        assert "nan" not in re.sub(r"<[^>]*>", "", markup).lower().split()
        assert "<img" not in markup
        assert "\x1b" not in markup
    report.scores.figure()
    report.reliability.figure()
    report.reliability.mcb_dsc()
    report.comparison.figure()
    for _, alt, caption in shown:
        assert alt.strip()
        assert caption.strip()
        assert "\x1b" not in alt + caption
    results = plain(report.results())
    json.dumps(results, allow_nan=False)
    # an event loop that an earlier test left to the garbage collector is not this test's
    assert [str(w.message) for w in recwarn if not issubclass(w.category, ResourceWarning)] == []


def test_headline_has_n_interval_and_convention() -> None:
    text = ForecastReport(panel(4)).scores.cards()._repr_html_()
    for words in ("<i>n</i> = 60", "95% interval", "range 0-1, 0 is best", "Base rate", "would have scored"):
        assert words in text, words


def test_few_questions_are_a_warning() -> None:
    assert "Few questions" in ForecastReport(panel(4, n=12)).scores.cautions().markup
    assert "Few questions" not in ForecastReport(panel(4)).scores.cautions().markup


def test_scores_that_do_not_compare_say_so() -> None:
    report = ForecastReport(apart())
    assert "do not compare" in report.scores.cautions().markup
    assert "Lowest raw Brier score" in report.scores.cards().markup
    assert report.scores.table().caption == "Raw scores, lowest first"


def test_one_forecaster_has_nothing_to_compare(shown: list[tuple[str, str, str]]) -> None:
    report = ForecastReport(panel(1))
    assert "nothing to compare" in str(report.comparison.table())
    report.comparison.figure()
    report.scores.figure()
    report.reliability.mcb_dsc()
    assert shown == []
    assert report.comparison.results() == []


def test_pairs_beyond_eighteen_are_left_out_and_said() -> None:
    report = ForecastReport(panel(20, n=12))
    table = report.comparison.table()
    assert isinstance(table, Table)
    assert "of the 18 best" in table.note
    assert len(report.comparison.results()) == 18 * 17 / 2


def test_pairs_that_were_not_tested_are_not_corrected_for() -> None:
    frame = panel(4).to_frame()
    first = frame["question"].isin(frame["question"].unique()[:30])
    frame = frame[first == frame["forecaster"].isin(["forecaster 00", "forecaster 01"])]
    table = ForecastReport(ForecastSet.from_frame(frame)).comparison.table()
    assert isinstance(table, Table)
    assert "Holm over 2 pairs. 4 pairs without a common question left out." in table.note


def test_a_small_p_beside_an_interval_with_zero_is_explained() -> None:
    y = np.arange(16) % 2
    frame = pd.DataFrame({"a": np.where(y, 0.7, 0.3), "b": np.where(y, 0.6, 0.4), "y": y})
    frame.loc[0, "b"] = 0.1
    report = ForecastReport(ForecastSet.from_frame(frame, {"forecast": ["a", "b"]}))
    (pair,) = report.comparison.comparison.pairs
    assert pair.p < 0.01
    assert pair.low < 0 < pair.high
    assert "two methods" in report.comparison.table().note
    frame = frame.loc[frame.index.repeat(100)].reset_index(drop=True)
    clear = ForecastReport(ForecastSet.from_frame(frame, {"forecast": ["a", "b"]})).comparison
    assert clear.comparison.pairs[0].high < 0
    assert "two methods" not in clear.table().note


def test_the_same_set_gives_the_same_figures(shown: list[tuple[str, str, str]]) -> None:
    for _ in range(2):
        report = ForecastReport(panel(4))
        report.reliability.figure()
        report.scores.figure()
    assert shown[:2] == shown[2:]


def test_many_diagrams_take_several_figures(shown: list[tuple[str, str, str]]) -> None:
    """Six in each, every one with its numbers; those beyond eighteen are counted."""
    ForecastReport(panel(20, n=12)).reliability.figure()
    assert len(shown) == 3
    assert [alt.count("n = 12") for _, alt, _ in shown] == [6, 6, 6]
    for number, (drawn, _, caption) in enumerate(shown, 1):
        assert f"({number} of 3)" in caption
        assert "2 more are not shown" in caption
        assert drawn.count("n = 12, base rate") == 6


def test_long_names_lose_their_middle() -> None:
    assert name("a" * 50 + "-v2").endswith("-v2")
    assert len(name("a" * 50, 20)) == 20
    assert name("\u202ex") == r"\u202ex"


def test_names_that_become_the_same_are_numbered(shown: list[tuple[str, str, str]]) -> None:
    assert distinct(["a", "b", "a"]) == ["a #1", "b", "a #2"]
    frame = panel(6).to_frame()
    frame["forecaster"] = "m" * 30 + frame["forecaster"].str[-1] + "m" * 30
    report = ForecastReport(ForecastSet.from_frame(frame))
    report.reliability.figure()
    report.reliability.mcb_dsc()
    for drawn, alt, _ in shown:
        assert "#6" in drawn
        assert "#6" in alt


def test_options_reach_the_reading(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("good,bad,y\n.2,.8,bad\n")
    report = ForecastReport.load(path, columns={"forecast": ["good", "bad"]}, kind="ordinal")
    assert report.forecasts.classes == ("good", "bad")
    assert ForecastReport.load().forecasts.provenance.name == "panel.csv"


@pytest.mark.slow
def test_a_page_is_written_whole_and_nothing_else(tmp_path: Path) -> None:
    path, page = tmp_path / "x.csv", tmp_path / "page.html"
    path.write_text(f'model,id,p,y\n"{EVIL}",q,.3,1\n')
    assert write_report(path, page) == page
    assert sorted(p.name for p in tmp_path.iterdir()) == ["page.html", "x.csv"]
    text = page.read_text()
    assert "<img" not in text
    assert "&lt;img src=x" in text
    assert "report-forecasts" in text
