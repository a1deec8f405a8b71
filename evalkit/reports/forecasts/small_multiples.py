"""Many reliability diagrams in one figure: three abreast, with nothing but curve, area and bars.

`evalkit.calibration.reliability_grid` draws a few with their numbers; from five on there is no room for those.

Rules
- Across: the forecast; up: how often it happened.  The dashed diagonal is perfect calibration; the area is the band;
  the bars at the bottom say how often what was forecast.
- Only the outer panels carry labels, so that the type stays readable at 360 px.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np

from evalkit.figure_style import COLOURS, WIDTH, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from evalkit.calibration import ReliabilityDiagram

_ACROSS = 3
#: inches: a row of panels, the labels around the whole, and a further line of titles
_ROW, _BELOW, _LINE = 1.85, 0.45, 0.15
#: share of the height that the tallest bar takes
_TALLEST = 0.2
#: places at which the area is drawn: it is a few millimetres wide
_PLACES = 60


@styled
def small_multiples(diagrams: Mapping[str, ReliabilityDiagram]) -> Figure:
    """A panel for each diagram, in their order, row by row."""
    from matplotlib.figure import Figure

    down = math.ceil(len(diagrams) / _ACROSS)
    lines = max(title.count("\n") for title in diagrams)
    fig = Figure(figsize=(WIDTH, down * (_ROW + lines * _LINE) + _BELOW))
    axes = list(fig.subplots(down, _ACROSS, squeeze=False).flat)
    for empty in axes[len(diagrams) :]:
        empty.set_axis_off()
    for number, (title, diagram) in enumerate(diagrams.items()):
        ax = axes[number]
        _draw(ax, title, diagram)
        # the lowest panel of each column says what the axis is
        lowest = number + _ACROSS >= len(diagrams)
        ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"] if lowest else [])
        ax.set_yticks([0, 0.5, 1], ["0", ".5", "1"] if number % _ACROSS == 0 else [])
    fig.supxlabel("forecast", fontsize=10.5)
    fig.supylabel("how often it happened", fontsize=10.5)
    return fig


def _draw(ax: Axes, title: str, diagram: ReliabilityDiagram) -> None:
    ax.plot([0, 1], [0, 1], color=COLOURS["muted"], linewidth=0.9, linestyle=(0, (4, 2)), zorder=2)
    band = diagram.band
    if band is not None and not np.isnan(band.low).any():
        x = np.unique(np.append(np.linspace(band.x[0], band.x[-1], _PLACES), band.x[[0, -1]]))
        low, high = band.at(x)
        ax.fill_between(x, low, high, color=COLOURS["sky"], alpha=0.35, linewidth=0, zorder=1)
    bars = len(diagram.histogram)
    heights = _TALLEST * diagram.histogram / max(int(diagram.histogram.max()), 1)
    ax.bar(np.arange(bars) / bars, heights, width=1 / bars, align="edge", color=COLOURS["line"], zorder=0)
    ends = np.column_stack([diagram.low, diagram.high]).ravel()
    lone = len(np.unique(ends)) == 1
    ax.plot(
        ends,
        np.repeat(diagram.value, 2),
        color=COLOURS["blue"],
        linewidth=1.6,
        marker="o" if lone else None,
        markersize=4,
        zorder=3,
    )
    ax.set_title(title, fontsize=8.5, pad=13)
    numbers = f"n = {diagram.n:,}, MCB {diagram.decomposition.mcb:.3f}"
    ax.text(0, 1.02, numbers, transform=ax.transAxes, fontsize=7.5, color=COLOURS["muted"])
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    ax.tick_params(labelsize=8)
