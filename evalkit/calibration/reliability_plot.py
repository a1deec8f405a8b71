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
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.calibration.bands import Band
from evalkit.calibration.reliability import HISTOGRAM_BARS, ReliabilityDiagram
from evalkit.figure_style import COLOURS, WIDTH, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TICKS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
#: height of the histogram and its distance from the diagram, in heights of the diagram
_BARS, _GAP = 0.16, 0.05
#: inches of height besides the square
_BESIDES = 1.55


@styled
def reliability_plot(
    diagram: ReliabilityDiagram, ax: Axes | None = None, *, title: str | None = None
) -> Axes:
    """The diagram in square axes, its numbers above them and the histogram of forecasts beneath."""
    axes = new_axes(WIDTH, WIDTH + _BESIDES - 0.75) if ax is None else ax
    _curve(diagram, axes, size=1.0)
    _histogram(diagram, axes, labels=True)
    lines = [_counts(diagram), *_terms(diagram)]
    if diagram.band is not None:
        lines.append(_band_words(diagram.band))
    _heading(axes, title, lines, width=54)
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
    if axes is None:
        from matplotlib.figure import Figure

        columns = min(columns, len(diagrams))
        rows = math.ceil(len(diagrams) / columns)
        side = WIDTH / columns
        figure = Figure(figsize=(WIDTH, rows * (side + 1.0) + 0.25))
        drawn = list(np.atleast_1d(figure.subplots(rows, columns)).flat)
        for empty in drawn[len(diagrams) :]:
            empty.remove()
        drawn = drawn[: len(diagrams)]
        kinds = {str(d.band) for d in diagrams.values() if d.band is not None}
        words = f"Area: {kinds.pop()}.  " if len(kinds) == 1 else ""
        figure.supxlabel(
            f"{words}Dashed: calibrated.\nBars: forecasts.",
            fontsize=8.5,
            color=COLOURS["muted"],
            x=0.02,
            ha="left",
        )
    else:
        drawn, columns = list(axes), 1
        if len(drawn) != len(diagrams):
            raise ValueError(f"{len(drawn)} axes for {len(diagrams)} diagrams: expected as many")
    for i, (panel, (name, diagram)) in enumerate(zip(drawn, diagrams.items(), strict=True)):
        _curve(diagram, panel, size=0.75)
        _histogram(diagram, panel, labels=False)
        t = diagram.decomposition
        lines = [
            _counts(diagram, short=True),
            f"S {_number(t.score)}",
            f"MCB {_number(t.mcb)} DSC {_number(t.dsc)}",
        ]
        _heading(panel, name, [lines[0], f"{lines[1]}  {lines[2]}"], width=30, fontsize=7.5)
        if i % columns:
            panel.tick_params(axis="y", labelleft=False)
            panel.set_ylabel("")
    return drawn


def _curve(diagram: ReliabilityDiagram, axes: Axes, size: float) -> None:
    axes.plot([0, 1], [0, 1], color=COLOURS["muted"], linewidth=1.1, linestyle=(0, (4, 3)), zorder=2)
    axes.plot(
        [0, 1], [diagram.base_rate] * 2, color=COLOURS["line"], linewidth=1.0, linestyle=(0, (1, 2)), zorder=1
    )
    if diagram.band is not None and not np.isnan(diagram.band.low).any():
        _band(diagram, diagram.band, axes)
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
        axes.plot(diagram.low[single], diagram.value[single], linestyle="none", marker="o", **mark)
    axes.set_aspect("equal", adjustable="box")
    axes.set_xlim(-0.015, 1.015)
    axes.set_ylim(-0.015, 1.015)
    ticks = _TICKS if size == 1.0 else (0.0, 0.5, 1.0)
    axes.set_yticks(ticks, [f"{t:g}" for t in ticks])
    axes.set_ylabel("frequency of events", fontsize=10.5 if size == 1.0 else 8.5)
    axes.tick_params(axis="y", labelsize=9.5 if size == 1.0 else 8.0)


def _band(diagram: ReliabilityDiagram, band: Band, axes: Axes) -> None:
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
    axes.fill_between(band.x, band.low, band.high, color=COLOURS["sky"], alpha=0.28, linewidth=0, zorder=2)
    for line in (band.low, band.high):
        axes.plot(band.x, line, color=COLOURS["sky"], linewidth=0.8, zorder=3)


def _histogram(diagram: ReliabilityDiagram, axes: Axes, *, labels: bool) -> None:
    bars = axes.inset_axes((0, -_GAP - _BARS, 1, _BARS))
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
    bars.set_yticks([most], [f"{most:,}"], fontsize=size - 1)
    axes.set_xticks(ticks, [])
    if labels:
        bars.set_xlabel("forecast probability, and how many items have it")


def _counts(diagram: ReliabilityDiagram, short: bool = False) -> str:
    words = f"n = {diagram.n:,}"
    if diagram.n_clusters is not None:
        words += f" in {diagram.n_clusters:,} clusters" if not short else f" ({diagram.n_clusters:,} cl.)"
    if diagram.n_dropped and not short:
        words += f" ({diagram.n_dropped:,} dropped)"
    return f"{words}, {'base rate' if not short else 'base'} {_number(diagram.base_rate)}"


def _terms(diagram: ReliabilityDiagram) -> list[str]:
    t = diagram.decomposition
    return [f"Brier {_number(t.score)} = MCB {_number(t.mcb)} − DSC {_number(t.dsc)} + UNC {_number(t.unc)}"]


def _band_words(band: Band) -> str:
    if np.isnan(band.low).any():
        return "no band: a single cluster"
    return f"area: {band}"


def _number(value: float) -> str:
    return "∞" if math.isinf(value) else f"{value:.3f}"


def _heading(axes: Axes, title: str | None, lines: list[str], width: int, fontsize: float = 9.0) -> None:
    """Title and numbers, left-aligned above the axes."""
    axes.annotate(
        "\n".join(lines),
        (0, 1),
        xycoords="axes fraction",
        xytext=(0, 5),
        textcoords="offset points",
        va="bottom",
        ha="left",
        fontsize=fontsize,
        color=COLOURS["ink"],
        linespacing=1.35,
    )
    if title is not None:
        axes.set_title(
            textwrap.fill(title, width), pad=6 + fontsize * 1.35 * 1.17 * len(lines), fontsize=fontsize + 1.5
        )


def _legend(diagram: ReliabilityDiagram, axes: Axes) -> None:
    """Words beside the lines, in the corner that they leave free."""
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    marker = "o" if diagram.method == "binned" else None
    handles: list[Any] = [
        Line2D([], [], color=COLOURS["blue"], linewidth=2.8, marker=marker, label="these forecasts"),
        Line2D([], [], color=COLOURS["muted"], linewidth=1.1, linestyle=(0, (4, 3)), label="calibrated"),
        Line2D([], [], color=COLOURS["line"], linewidth=1.0, linestyle=(0, (1, 2)), label="base rate"),
    ]
    if diagram.band is not None and not np.isnan(diagram.band.low).any():
        handles.insert(
            1,
            Patch(
                facecolor=COLOURS["sky"], alpha=0.45, label=f"{diagram.band.level:.0%} {diagram.band.kind}"
            ),
        )
    upper = lower = 0.0
    grid = np.linspace(0, 1, 101)
    lines = [diagram.at(grid)]
    if diagram.band is not None:
        lines.extend(diagram.band.at(grid))
    for line in lines:
        upper += float(np.nansum(np.maximum(line[:45] - 0.66, 0)))
        lower += float(np.nansum(np.maximum(0.34 - line[56:], 0)))
    axes.legend(
        handles=handles,
        loc="upper left" if upper <= lower else "lower right",
        borderaxespad=0.2,
        handlelength=1.8,
        labelspacing=0.3,
        fontsize=8.5,
    )
