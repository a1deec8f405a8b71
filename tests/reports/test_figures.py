from __future__ import annotations

import re

import pytest
from matplotlib.figure import Figure

from evalkit.errors import EvalkitError
from evalkit.reports import figures
from evalkit.reports.figures import (
    COLOURS,
    CaseProbabilities,
    DimensionScore,
    Estimate,
    dimension_dots,
    interval_plot,
    probability_bars,
    svg,
)
from evalkit.resources import resource

CASES = [CaseProbabilities("A", {"x": 0.7, "y": 0.3}, "x"), CaseProbabilities("B", {"x": 0.5, "y": 0.5})]
ROWS = [DimensionScore(case, f"d{i}", i / 2, i) for case in ("A", "B") for i in range(1, 11)]
ESTIMATES = [Estimate("one", 0.1, -0.1, 0.3, 4), Estimate("two", 0.2, 0.1, 0.3)]


@pytest.mark.parametrize(
    "make",
    [lambda: probability_bars(CASES), lambda: dimension_dots(ROWS), lambda: interval_plot(ESTIMATES)],
    ids=["bars", "dots", "intervals"],
)
def test_same_data_same_bytes_with_text_as_text(make: object) -> None:
    first, second = svg(make()), svg(make())
    assert first == second
    assert "<text" in first
    assert "<dc:date>" not in first
    used = set(re.findall(r"#[0-9a-f]{6}", first))
    assert used <= set(COLOURS.values()), used - set(COLOURS.values())


def test_the_realized_scenario_is_labelled_and_hatched() -> None:
    revealed = svg(probability_bars(CASES))
    assert "realized" in revealed
    assert "<pattern" in revealed
    sealed = svg(probability_bars([CaseProbabilities("A", {"x": 0.7, "y": 0.3})]))
    assert "realized" not in sealed
    assert "<pattern" not in sealed


def test_n_is_printed() -> None:
    assert "n = 4" in svg(interval_plot(ESTIMATES))


def test_plots_draw_into_given_axes() -> None:
    fig = Figure()
    axes = fig.subplots(3)
    assert probability_bars(CASES, axes[0]) is fig
    assert dimension_dots(ROWS, axes[1]) is fig
    assert interval_plot(ESTIMATES, axes[2]) is fig


def test_bad_input_is_named() -> None:
    with pytest.raises(EvalkitError, match="'z' of A"):
        probability_bars([CaseProbabilities("A", {"x": 1.0}, "z")])
    with pytest.raises(EvalkitError, match="no rows"):
        dimension_dots([])
    with pytest.raises(EvalkitError, match="alternative text"):
        figures.show(Figure(), alt=" ")


def test_the_style_sheet_has_every_colour_in_light_and_dark() -> None:
    css = resource("templates", "report", "report.css").read_text()
    light, dark = css.split("@media screen and (prefers-color-scheme: dark)", 1)
    dark = dark.split("@media", 1)[0]
    for name, colour in COLOURS.items():
        assert f"--fig-{name}: {colour};" in light
        assert f"--fig-{name}: #" in dark


def contrast(a: str, b: str) -> float:
    def luminance(colour: str) -> float:
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        r, g, b = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
        return 0.2126 * r + 0.7152 * g + 0.0722 * b

    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_text_and_marks_have_enough_contrast_in_light_and_dark() -> None:
    """WCAG 2.2: 4.5 for text (1.4.3), 3 for graphics (1.4.11)."""
    css = resource("templates", "report", "report.css").read_text()
    light, rest = css.split("@media screen and (prefers-color-scheme: dark)", 1)
    for part in (light, rest.split("@media", 1)[0]):
        colour = dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", part))
        for text in ("ink", "muted", "accent", "ok", "warn", "bad", "fig-ink", "fig-muted"):
            assert contrast(colour[text], colour["paper"]) >= 4.5, text
        for kind in ("ok", "warn", "bad"):
            assert contrast(colour[kind], colour[f"{kind}-soft"]) >= 4.5, kind
        assert contrast(colour["muted"], colour["surface"]) >= 4.5
        for mark in ("blue", "vermilion", "green"):
            assert contrast(colour[f"fig-{mark}"], colour["paper"]) >= 3, mark
