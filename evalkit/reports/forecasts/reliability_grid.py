"""Many reliability diagrams in one figure: small multiples with the same axes.

Rules
- Across: the forecast; up: how often it happened.  The dashed diagonal is perfect calibration; the shade is where a
  calibrated forecaster's curve would lie; the bars at the bottom say how often what was forecast.
- Only the outer panels carry labels, so that the type stays readable at 360 px.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evalkit.figure_style import COLOURS, WIDTH, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Floats = NDArray[np.float64]

#: inches: a row of panels, and the labels around the whole
_ROW = {1: 3.9, 2: 2.35, 3: 1.85}
_BELOW = 0.45
#: bars of the histogram, and the share of the height that the tallest takes
_BARS, _TALLEST = 20, 0.2


@dataclass(frozen=True, eq=False)
class Panel:
    """One diagram: curve through (x, y), arrays of one shape; ``band`` is (x, low, high); ``forecasts`` (n,)."""

    title: str
    below: str
    x: Floats
    y: Floats
    forecasts: Floats
    band: tuple[Floats, Floats, Floats] | None = None


@styled
def reliability_grid(panels: Sequence[Panel]) -> Figure:
    """The panels row by row: two abreast up to four of them, three beyond."""
    from matplotlib.figure import Figure

    across = 1 if len(panels) == 1 else 2 if len(panels) <= 4 else 3
    down = math.ceil(len(panels) / across)
    fig = Figure(figsize=(WIDTH, down * _ROW[across] + _BELOW))
    axes = fig.subplots(down, across, squeeze=False)
    for number, ax in enumerate(axes.flat):
        if number >= len(panels):
            ax.set_axis_off()
            continue
        # the lowest panel of each column says what the axis is
        lowest = number + across >= len(panels)
        _draw(ax, panels[number], left=number % across == 0, lowest=lowest, small=across == 3)
    fig.supxlabel("forecast", fontsize=10.5)
    fig.supylabel("how often it happened", fontsize=10.5)
    return fig


def _draw(ax: Axes, panel: Panel, *, left: bool, lowest: bool, small: bool) -> None:
    ax.plot([0, 1], [0, 1], color=COLOURS["muted"], linewidth=0.9, linestyle=(0, (4, 2)), zorder=1)
    if panel.band is not None:
        x, low, high = panel.band
        ax.fill_between(x, low, high, color=COLOURS["sky"], alpha=0.35, linewidth=0, zorder=1)
    counts, edges = np.histogram(panel.forecasts, _BARS, (0.0, 1.0))
    ax.bar(
        edges[:-1],
        _TALLEST * counts / max(int(counts.max()), 1),
        width=1 / _BARS,
        align="edge",
        color=COLOURS["line"],
        linewidth=0,
        zorder=0,
    )
    mark = "o" if len(np.unique(panel.y)) == 1 and len(np.unique(panel.x)) == 1 else None
    ax.plot(panel.x, panel.y, color=COLOURS["blue"], linewidth=1.5, marker=mark, zorder=3)
    size = 8.5 if small else 9.5
    ax.set_title(panel.title, fontsize=size, pad=13 if panel.below else 4)
    if panel.below:
        ax.text(0, 1.02, panel.below, transform=ax.transAxes, fontsize=size - 1, color=COLOURS["muted"])
    ax.set_xlim(-0.02, 1.02)
    ax.set_ylim(-0.02, 1.02)
    ax.set_aspect("equal")
    ax.set_xticks([0, 0.5, 1], ["0", ".5", "1"] if lowest else [])
    ax.set_yticks([0, 0.5, 1], ["0", ".5", "1"] if left else [])
    ax.tick_params(labelsize=size - 0.5)
