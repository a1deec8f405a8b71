"""Plots: what they say, where they draw, that they are readable, in every case."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
from matplotlib.figure import Figure

from evalkit.calibration import (
    CorpDecomposition,
    corp_decomposition,
    discrimination_plot,
    reliability_diagram,
    reliability_grid,
)
from evalkit.figure_style import COLOURS, figure_style
from evalkit.reports.figures import svg


def data(n: int = 60, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    p = rng.uniform(size=n)
    return (rng.uniform(size=n) < p).astype(float), p


def texts(figure: Any) -> str:
    return "\n".join(re.findall(r"<text[^>]*>([^<]*)<", svg(figure)))


def panel(count: int, spread: float = 0.4) -> dict[str, CorpDecomposition]:
    rng = np.random.default_rng(count)
    z = rng.normal(size=300)
    y = (rng.uniform(size=300) < 1 / (1 + np.exp(-z))).astype(float)
    return {
        f"forecaster {i} with a name": corp_decomposition(
            y, 1 / (1 + np.exp(-z - rng.normal(size=300) * spread * (1 + i / count)))
        )
        for i in range(count)
    }


def boxes(axes: Any, pattern: str) -> list[Any]:
    figure = axes.get_figure(root=True)
    figure.draw_without_rendering()
    found = [t for t in axes.texts if re.search(pattern, t.get_text())]
    return [t.get_window_extent() for t in found]


def overlaps(found: list[Any]) -> int:
    from matplotlib.transforms import Bbox

    def shrunk(b: Any) -> Any:
        return Bbox.from_extents(b.x0 + 1, b.y0 + 1.5, b.x1 - 1, b.y1 - 1.5)

    small = [shrunk(b) for b in found]
    return sum(a.overlaps(b) for i, a in enumerate(small) for b in small[i + 1 :])


def test_the_plot_says_what_it_rests_on() -> None:
    y, p = data()
    diagram = reliability_diagram(y, p, cluster=np.arange(60) // 2, replicates=50)
    said = texts(diagram.plot(title="Weather of $one^day").figure)
    t = diagram.decomposition
    for words in (
        "n = 60 in 30 clusters",
        f"base rate {diagram.base_rate:.3f}",
        f"Brier {t.score:.3f} = MCB {t.mcb:.3f}",
        f"DSC {t.dsc:.3f}",
        "90% consistency band",
        "pointwise",
        "calibrated",
        "Weather of $one^day",
        "frequency of events",
    ):
        assert words in said, words


def area(axes: Any) -> set[tuple[float, float]]:
    """The corners of the band's area."""
    [collection] = [c for c in axes.collections if c.get_facecolor().size and len(c.get_paths()[0]) > 2]
    [path] = collection.get_paths()
    return {(float(x), float(y)) for x, y in path.vertices}


def test_the_area_is_the_band_and_the_line_the_curve() -> None:
    y, p = data()
    diagram = reliability_diagram(y, p, replicates=50)
    axes = diagram.plot()
    assert diagram.band is not None
    drawn = area(axes)
    for x, low, high in zip(diagram.band.x, diagram.band.low, diagram.band.high, strict=True):
        assert {(x, low), (x, high)} <= drawn
    assert any(np.array_equal(line.get_ydata(), np.repeat(diagram.value, 2)) for line in axes.lines)
    [bars] = axes.child_axes
    assert [bar.get_height() for bar in bars.patches] == diagram.histogram.tolist()


@pytest.mark.parametrize("method", ["corp", "binned"])
@pytest.mark.parametrize("band", ["consistency", "confidence", None])
def test_only_colours_that_follow_light_and_dark(method: Any, band: Any) -> None:
    y, p = data()
    made = svg(reliability_diagram(y, p, method, band, replicates=50).plot().figure)
    assert set(re.findall(r"#[0-9a-f]{6}", made)) <= set(COLOURS.values())
    assert made == svg(reliability_diagram(y, p, method, band, replicates=50).plot().figure)


def test_a_picture_does_not_grow_with_the_data() -> None:
    y, p = data(20_000)
    diagram = reliability_diagram(y, p, band="confidence", simultaneous=True)
    assert diagram.band is not None
    assert len(diagram.band.x) == 20_000
    axes = diagram.plot()
    assert len(svg(axes.figure)) < 150_000
    drawn = area(axes)
    x = np.array(sorted({x for x, _ in drawn}))
    assert len(x) > 300, "a place for each column that one sees"
    low, high = diagram.band.at(x)
    assert drawn == set(zip(x, low, strict=True)) | set(zip(x, high, strict=True))


def test_plots_draw_into_given_axes() -> None:
    y, p = data()
    with figure_style():
        figure = Figure(figsize=(9, 6))
        axes = list(figure.subplots(1, 3))
    diagram = reliability_diagram(y, p, replicates=50)
    assert diagram.plot(axes[0]) is axes[0]
    assert reliability_grid({"a": diagram}, [axes[1]]) == [axes[1]]
    assert discrimination_plot({"a": diagram.decomposition}, axes[2]) is axes[2]
    assert "MCB" in texts(figure)


def test_everything_is_inside_the_figure() -> None:
    y, p = data()
    diagram = reliability_diagram(y, p, cluster=np.arange(60), replicates=50, simultaneous=True)
    several = dict.fromkeys(("one", "two", "three"), diagram)
    for figure in (
        diagram.plot(title="A title").figure,
        diagram.plot(title="A title that is long enough to need a second line in the picture").figure,
        reliability_grid(several)[0].figure,
        discrimination_plot(panel(18)).figure,
        discrimination_plot(panel(2)).figure,
    ):
        with figure_style():
            figure.draw_without_rendering()
            tight = figure.get_tightbbox()
        width, height = figure.get_size_inches()
        assert tight.x0 > -0.02
        assert tight.y0 > -0.02
        assert tight.x1 < width + 0.02
        assert tight.y1 < height + 0.02


def test_no_warning_whatever_the_data() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for y, p in (([1], [0.7]), ([1, 1], [0.2, 0.4]), ([0, 1, 1], [0.5] * 3), data(2000)):
            diagram = reliability_diagram(y, p, replicates=50)
            svg(diagram.plot().figure)
            svg(discrimination_plot({"x": diagram.decomposition}).figure)
        svg(reliability_diagram([1, 0], [0.7, 0.5], cluster=["a", "a"]).plot().figure)


def test_small_multiples_name_each_forecaster() -> None:
    y, p = data()
    diagrams = {f"forecaster {i}": reliability_diagram(y, p**i, replicates=50) for i in (1, 2, 3)}
    drawn = reliability_grid(diagrams)
    assert len(drawn) == 3
    said = texts(drawn[0].figure)
    for name, diagram in diagrams.items():
        assert name in said
        assert f"MCB {diagram.decomposition.mcb:.3f}" in said
    with pytest.raises(ValueError, match="at least one"):
        reliability_grid({})
    with pytest.raises(ValueError, match="expected as many"):
        reliability_grid(diagrams, drawn[:1])


def test_few_forecasters_are_named_beside_their_marks() -> None:
    found = panel(3)
    axes = discrimination_plot(found)
    for name in found:
        assert name in texts(axes.figure)
    assert overlaps(boxes(axes, "forecaster")) == 0


@pytest.mark.parametrize("count", [10, 18])
@pytest.mark.parametrize("spread", [0.4, 0.05])
def test_many_forecasters_have_numbers_that_do_not_overlap(count: int, spread: float) -> None:
    found = panel(count, spread)
    axes = discrimination_plot(found)
    said = texts(axes.figure)
    for number, (name, terms) in enumerate(found.items(), 1):  # in the order given
        assert f"{number:2} {name}" in said
        assert f"{terms.score:.3f}" in said
    numbers = boxes(axes, r"^\d+$")
    assert len(numbers) == count
    assert overlaps(numbers) <= (0 if spread > 0.1 else 2)


def test_lines_of_equal_score_run_through_equal_scores() -> None:
    found = panel(5)
    axes = discrimination_plot(found)
    unc = next(iter(found.values())).unc
    slanted = [line for line in axes.lines if len(line.get_xdata()) == 2]
    assert len(slanted) >= 3
    for line in slanted:
        x, y = np.asarray(line.get_xdata()), np.asarray(line.get_ydata())
        score = x - y + unc
        assert score[0] == pytest.approx(score[1])
        assert score[0] * 1000 == pytest.approx(round(score[0] * 1000), abs=1e-6)


def test_forecasters_of_different_questions_share_no_score_lines() -> None:
    y, p = data(200)
    said = texts(
        discrimination_plot(
            {"all": corp_decomposition(y, p), "half": corp_decomposition(y[:90], p[:90])}
        ).figure
    )
    assert "not the same" in said
    assert "S − UNC" in said
    assert "n = 90 to 200" in said


def test_an_infinite_miscalibration_stands_at_the_edge() -> None:
    y, p = [1, 0, 1, 0], [0.6, 0.4, 0.7, 0.2]
    axes = discrimination_plot(
        {"bold": corp_decomposition(y, [0.0, 0.4, 0.7, 0.2], "log"), "mild": corp_decomposition(y, p, "log")}
    )
    assert "bold (MCB ∞)" in texts(axes.figure)


def test_different_scores_are_not_compared() -> None:
    y, p = data()
    with pytest.raises(ValueError, match="different scores"):
        discrimination_plot({"a": corp_decomposition(y, p), "b": corp_decomposition(y, p, "log")})
    with pytest.raises(ValueError, match="at least one"):
        discrimination_plot({})
