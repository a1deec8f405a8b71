"""How a reliability diagram is drawn: one, or several as small multiples.

Rules
- The picture says what it rests on: n, clusters, base rate, the score and its terms, the kind of band.
- The forecasts themselves are shown as a histogram on the same axis: a curve means little where few lie.
- Colour is never the only sign: the curve is a thick line with marks, the diagonal is dashed, the band is an
  area with edges.
- Axes are square and run from 0 to 1 in every picture, so that pictures can be compared.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from evalkit.calibration.bands import Band
from evalkit.calibration.reliability import HISTOGRAM_BARS, ReliabilityDiagram
from evalkit.figure_style import COLOURS, WIDTH, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure
    from matplotlib.transforms import Affine2DBase, Transform

_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
#: points between diagram and histogram, height of the histogram, and height of its tick labels
_GAP, _BARS, _LABELS = 12, 42, 18
_SMALL_GAP_POINTS, _SMALL_BARS = 6, 20
#: inches beside, below and above the square of one diagram, and of one in a grid
_LEFT, _RIGHT, _BELOW, _ABOVE = 0.76, 0.2, 1.85, 0.5
_SMALL_LEFT, _SMALL_GAP, _SMALL_BELOW, _SMALL_ABOVE = 0.55, 0.22, 0.6, 0.62
#: inches for the key beneath a grid
_KEY = 0.45
_TITLE_LINE = 0.2
#: columns in which a band is drawn, and one in a grid
_COLUMNS, _SMALL_COLUMNS = 400, 64
#: inches in which the terms of the score do not fit on one line
_NARROW = 3.2


@styled
def reliability_plot(
    diagram: ReliabilityDiagram, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """The diagram in square axes, its numbers above them, the histogram of forecasts and the key beneath.

    In ``ax`` it takes the room above and below from the figure's layout ("constrained" makes it).
    """
    title = None if title is None else textwrap.fill(title, 44)
    axes = ax
    if axes is None:
        side = WIDTH - _LEFT - _RIGHT
        above = _ABOVE + (0 if title is None else _TITLE_LINE * (1 + title.count("\n")) + 0.05)
        figure = _unarranged(WIDTH, _BELOW + side + above)
        axes = _square(figure, _LEFT, _BELOW, side)
    _curve(diagram, axes, size=1.0)
    _histogram(diagram, axes, labels=True)
    inches = axes.get_window_extent().transformed(_dpi_scale(axes).inverted()).width
    _heading(axes, title, [_counts(diagram), *_terms(diagram, narrow=inches < _NARROW)], fontsize=9.0)
    _legend(diagram, axes)
    return axes


@styled
def reliability_grid(
    diagrams: Mapping[str, ReliabilityDiagram], axes: Sequence[Axes] | None = None, *, columns: int = 2
) -> list[Axes]:
    """One diagram for each forecaster, in the order given; returns their axes.

    ``axes``: as many axes as forecasters; by default a figure of their own with ``columns`` columns.
    """
    if not diagrams:
        raise ValueError("no diagrams: expected at least one forecaster")
    drawn = _panels(len(diagrams), min(columns, len(diagrams))) if axes is None else list(axes)
    if len(drawn) != len(diagrams):
        raise ValueError(f"{len(drawn)} axes for {len(diagrams)} diagrams: expected as many")
    for i, (panel, (name, diagram)) in enumerate(zip(drawn, diagrams.items(), strict=True)):
        _curve(diagram, panel, size=0.75)
        _histogram(diagram, panel, labels=False)
        t = diagram.decomposition
        terms = f"S {_number(t.score)}, MCB {_number(t.mcb)}, DSC {_number(t.dsc)}"
        _heading(
            panel, textwrap.shorten(name, 26, placeholder="…"), [_counts(diagram, short=True), terms], 7.5
        )
        if axes is None and i % min(columns, len(diagrams)):
            panel.tick_params(axis="y", labelleft=False)
            panel.set_ylabel("")
    if axes is None:
        figure = drawn[0].get_figure(root=True)
        assert figure is not None
        bands = {str(d.band) for d in diagrams.values() if d.band is not None}
        words = [f"area: {', '.join(sorted(bands))}"] if bands else []
        words.append("line: these forecasts; dashed: calibrated; dotted: base rate")
        items = "; n: items in so many clusters" if any(d.n_clusters for d in diagrams.values()) else ""
        words.append(f"across: forecast probability, bars: items by forecast{items}")
        figure.text(
            0.02, 0.06 / figure.get_figheight(), "\n".join(words), fontsize=7.5, color=COLOURS["muted"]
        )
    return drawn


def _unarranged(width: float, height: float) -> Figure:
    """A figure whose axes keep their places: squares of known size need no layout engine."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    figure.set_layout_engine("none")
    return figure


def _square(figure: Figure, left: float, bottom: float, side: float) -> Axes:
    """Square axes, in inches from the figure's lower left corner."""
    width, height = figure.get_size_inches()
    return figure.add_axes((left / width, bottom / height, side / width, side / height))


def _panels(count: int, columns: int) -> list[Axes]:
    rows = math.ceil(count / columns)
    side = (WIDTH - _SMALL_LEFT - _RIGHT - (columns - 1) * _SMALL_GAP) / columns
    row = _SMALL_BELOW + side + _SMALL_ABOVE
    figure = _unarranged(WIDTH, rows * row + _KEY)
    return [
        _square(
            figure,
            _SMALL_LEFT + (i % columns) * (side + _SMALL_GAP),
            _KEY + (rows - 1 - i // columns) * row + _SMALL_BELOW,
            side,
        )
        for i in range(count)
    ]


def _curve(diagram: ReliabilityDiagram, axes: Axes, size: float) -> None:
    axes.plot([0, 1], [0, 1], color=COLOURS["muted"], linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)
    axes.plot(
        [0, 1],
        [diagram.base_rate] * 2,
        color=COLOURS["muted"],
        linewidth=1.0,
        linestyle=(0, (1, 2)),
        zorder=1,
    )
    if diagram.band is not None and not np.isnan(diagram.band.low).any():
        _band(diagram, diagram.band, axes, columns=_COLUMNS if size == 1.0 else _SMALL_COLUMNS)
    colour = COLOURS["blue"]
    mark: dict[str, Any] = {
        "color": colour,
        "markersize": 5.5 * size,
        "markeredgecolor": COLOURS["paper"],
        "markeredgewidth": 0.6,
        "zorder": 5,
        "clip_on": False,
    }
    if diagram.method == "binned":
        axes.plot(diagram.x, diagram.value, color=colour, linewidth=1.2 * size, zorder=4, clip_on=False)
        axes.plot(diagram.x, diagram.value, linestyle="none", marker="o", **mark)
    else:
        ends = np.column_stack([diagram.low, diagram.high]).ravel()
        axes.plot(ends, np.repeat(diagram.value, 2), color=colour, linewidth=0.9, zorder=4, clip_on=False)
        axes.hlines(
            diagram.value,
            diagram.low,
            diagram.high,
            color=colour,
            linewidth=2.8 * size,
            zorder=4,
            clip_on=False,
        )
        single = diagram.low == diagram.high
        if single.any():  # marks of nothing would have a place, and squeeze the axes
            axes.plot(diagram.low[single], diagram.value[single], linestyle="none", marker="o", **mark)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlim(-0.015, 1.015)
    axes.set_ylim(-0.015, 1.015)
    ticks = _TICKS if size == 1.0 else (0.0, 0.5, 1.0)
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_ylabel("frequency of events", fontsize=10.5 if size == 1.0 else 8.5)
    axes.tick_params(axis="y", labelsize=9.5 if size == 1.0 else 8.0)


def _band(diagram: ReliabilityDiagram, band: Band, axes: Axes, columns: int) -> None:
    edge = COLOURS["sky"] if band.kind == "consistency" else COLOURS["blue"]
    if diagram.method == "binned" or len(band.x) == 1:
        middle = np.clip(band.x if band.kind == "consistency" else diagram.at(band.x), band.low, band.high)
        axes.errorbar(
            band.x,
            middle,
            yerr=[middle - band.low, band.high - middle],
            fmt="none",
            ecolor=edge,
            elinewidth=5 if band.kind == "consistency" else 1.6,
            alpha=0.6 if band.kind == "consistency" else 1.0,
            capsize=4,
            capthick=1.2,
            zorder=3,
        )
        return
    # the first and last point of what one would see as one column: a band may have a million
    column = np.floor(band.x * columns)
    turn = column[1:] != column[:-1]
    seen = np.append(True, turn) | np.append(turn, True)
    x, low, high = band.x[seen], band.low[seen], band.high[seen]
    area = axes.fill_between(x, low, high, linewidth=0.8, zorder=2)
    area.set_facecolor((COLOURS["sky"], 0.28))
    area.set_edgecolor(COLOURS["sky"])


def _histogram(diagram: ReliabilityDiagram, axes: Axes, *, labels: bool) -> None:
    gap, height = (_GAP, _BARS) if labels else (_SMALL_GAP_POINTS, _SMALL_BARS)
    bars = axes.inset_axes((0, -gap - height, 1, height), transform=_points_below(axes))
    bars.set_in_layout(False)
    width = 1 / HISTOGRAM_BARS
    bars.bar(
        (np.arange(HISTOGRAM_BARS) + 0.5) * width,
        diagram.histogram,
        width=width * 0.86,
        color=COLOURS["muted"],
        linewidth=0,
    )
    ticks = _TICKS if labels else (0.0, 0.5, 1.0)
    size = 9.5 if labels else 8.0
    bars.set_xlim(axes.get_xlim())
    bars.set_xticks(ticks, [f"{t:g}" for t in ticks], fontsize=size)
    most = int(diagram.histogram.max())
    bars.set_ylim(0, most * 1.05)
    axes.set_xticks(ticks, [])
    if labels:
        bars.set_yticks([most], [f"{most:,}"], fontsize=size - 1)
        # the axes' own label keeps room for what stands beneath them: a layout sees labels, but not their width
        axes.set_xlabel("forecast probability (bars: items)\n\n\n", labelpad=_GAP + _BARS + _LABELS - 6)
    else:
        bars.set_yticks([])
        axes.set_xlabel(" ", labelpad=_SMALL_GAP_POINTS + _SMALL_BARS)


def _points_below(axes: Axes) -> Transform:
    """Across in widths of the axes, up and down in points from their lower edge."""
    from matplotlib.transforms import Affine2D, ScaledTranslation, blended_transform_factory

    corner = ScaledTranslation(0, 0, cast("Affine2DBase", axes.transAxes))
    points = Affine2D().scale(1 / 72) + _dpi_scale(axes) + corner
    return blended_transform_factory(axes.transAxes, points)


def _dpi_scale(axes: Axes) -> Transform:
    """From inches to the figure's pixels."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    return figure.dpi_scale_trans


def _counts(diagram: ReliabilityDiagram, short: bool = False) -> str:
    words = f"n = {diagram.n:,}"
    if diagram.n_clusters is not None:
        words += f" in {diagram.n_clusters:,}" + ("" if short else " clusters")
    if diagram.n_dropped and not short:
        words += f" ({diagram.n_dropped:,} dropped)"
    return f"{words}, base rate {_number(diagram.base_rate)}"


def _terms(diagram: ReliabilityDiagram, narrow: bool) -> list[str]:
    t = diagram.decomposition
    parts = [
        f"Brier {_number(t.score)} = MCB {_number(t.mcb)}",
        f"− DSC {_number(t.dsc)} + UNC {_number(t.unc)}",
    ]
    return parts if narrow else [" ".join(parts)]


def _number(value: float) -> str:
    return f"{value:.3f}"


def _heading(axes: Axes, title: str | None, lines: list[str], fontsize: float) -> None:
    """Title and numbers, left-aligned above the axes.

    Both are titles of the axes, the only texts whose width does not squeeze them in a layout; the upper one
    stands on empty lines.
    """
    axes.set_title("\n".join(lines), loc="left", fontsize=fontsize, fontweight="normal", linespacing=1.35)
    if title is not None:
        axes.set_title(
            title + "\n" * len(lines),
            loc="center",
            x=0.0,
            ha="left",
            fontsize=fontsize + 1.5,
            linespacing=1.3,
        )


def _legend(diagram: ReliabilityDiagram, axes: Axes) -> None:
    """The key, beneath everything: inside the square it would sooner or later stand on a line."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marker = "o" if diagram.method == "binned" else None
    handles: list[Any] = [
        Line2D([], [], color=COLOURS["blue"], linewidth=2.8, marker=marker, label="these forecasts"),
        Line2D([], [], color=COLOURS["muted"], linewidth=1.1, linestyle=(0, (4, 3)), label="calibrated"),
        Line2D([], [], color=COLOURS["muted"], linewidth=1.2, linestyle=(0, (1, 2)), label="base rate"),
    ]
    if diagram.band is not None:
        missing = bool(np.isnan(diagram.band.low).any())
        words = str(diagram.band).replace(", ", ",\n") if not missing else "no band:\na single cluster"
        handles.append(Patch(facecolor=COLOURS["sky"], alpha=0.0 if missing else 0.45, label=words))
    axes.legend(
        handles=handles,
        loc="upper center",
        bbox_to_anchor=(0.5, -_GAP - _BARS - _LABELS - 18),
        bbox_transform=_points_below(axes),
        ncols=2,
        borderaxespad=0,
        handlelength=1.8,
        labelspacing=0.35,
        columnspacing=1.2,
        fontsize=8.5,
    ).set_in_layout(False)
