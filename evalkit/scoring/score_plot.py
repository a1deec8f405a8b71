"""Figures of scores: intervals one below the other, and a matrix of pairs.

Made for 360 px: one column, a row of text height for each forecaster, labels cut in the middle when long.
Marks differ by shape and filling, never by colour alone.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from evalkit.exact_sums import Floats
from evalkit.figure_style import COLOURS, WIDTH, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: inches a row, and for title, axis and its label
_ROW, _REST = 0.25, 0.95
#: characters of a name that fit beside the axes
_LONGEST = 22


@styled
def interval_plot(
    labels: Sequence[str],
    value: Floats,
    low: Floats,
    high: Floats,
    *,
    raw: Floats | None = None,
    filled: Sequence[bool] | None = None,
    zero: bool = False,
    xlabel: str = "",
    ax: Axes | None = None,
) -> Axes:
    """Values with intervals, the first on top.  ``raw``: crosses beside; ``zero``: a line at no difference."""
    count = len(labels)
    if ax is None:
        ax = new_axes(WIDTH, _REST + _ROW * max(count, 2) + (0.3 if raw is not None else 0.0))
    y = np.arange(count)
    for at in range(count):
        ax.plot([low[at], high[at]], [y[at]] * 2, color=COLOURS["blue"], lw=1.8, solid_capstyle="butt")
    solid = np.ones(count, dtype=bool) if filled is None else np.asarray(filled, dtype=bool)
    for kind, face in ((solid, COLOURS["blue"]), (~solid, COLOURS["paper"])):
        label = "adjusted" if raw is not None and kind is solid else None
        ax.plot(value[kind], y[kind], "o", ms=5.5, mfc=face, mec=COLOURS["blue"], mew=1.4, ls="", label=label)
    if raw is not None:
        ax.plot(raw, y, "x", ms=5.5, mew=1.4, color=COLOURS["vermilion"], ls="", label="raw", zorder=1)
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.1)
    if zero:
        ax.axvline(0, color=COLOURS["muted"], lw=1.2, zorder=1)
    ax.set_yticks(y, [_cut(label) for label in labels])
    ax.set_ylim(count - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.grid(axis="x")
    ax.locator_params(axis="x", nbins=5)
    _below(ax, xlabel)
    return ax


@styled
def pair_matrix(
    labels: Sequence[str],
    difference: Sequence[Sequence[float]],
    clear: Sequence[Sequence[bool]],
    *,
    ax: Axes | None = None,
) -> Axes:
    """Row against column: shape says who is better, size by how much, filled where the test is clear."""
    count = len(labels)
    if ax is None:
        ax = new_axes(WIDTH, 1.25 + WIDTH * 0.7 * min(1.0, 0.3 + count / 14))
    values = np.array(difference, dtype=np.float64)
    largest = float(np.nanmax(np.abs(values), initial=0.0)) or 1.0
    cell = 150.0 / count  # points
    for sign, marker, name, colour in ((-1, "v", "row better", "blue"), (1, "^", "row worse", "vermilion")):
        for shown in (True, False):
            cells = [
                (i, j)
                for i in range(count)
                for j in range(count)
                if sign * values[i, j] > 0 and math.isfinite(values[i, j]) and clear[i][j] == shown
            ]
            sizes = [(cell * (0.3 + 0.55 * math.sqrt(abs(values[i, j]) / largest))) ** 2 for i, j in cells]
            ax.scatter(
                [j for _, j in cells],
                [i for i, _ in cells],
                sizes,
                marker=marker,
                facecolor=COLOURS[colour] if shown else COLOURS["paper"],
                edgecolor=COLOURS[colour],
                linewidth=1.0,
            )
        ax.plot([], [], marker, color=COLOURS[colour], ls="", ms=7, label=name)
    ax.plot([], [], "o", mfc=COLOURS["paper"], mec=COLOURS["muted"], ls="", ms=6, label="open: not clear")
    for i, j in zip(*np.nonzero(~np.eye(count, dtype=bool)), strict=True):
        if not abs(values[i, j]) > 0:  # no common question, or no difference
            mark = "=" if values[i, j] == 0 else "·"
            ax.text(j, i, mark, ha="center", va="center", color=COLOURS["muted"])
    ax.plot([-0.5, count - 0.5], [-0.5, count - 0.5], color=COLOURS["line"], lw=1, zorder=0)
    ax.set_yticks(range(count), [f"{_cut(label, 16)}  {at + 1}" for at, label in enumerate(labels)])
    ax.set_xticks(range(count), [str(at + 1) if count <= 12 or at % 2 == 0 else "" for at in range(count)])
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    ax.set_xlim(-0.5, count - 0.5)
    ax.set_ylim(count - 0.5, -0.5)
    ax.spines[:].set_visible(False)
    ax.set_xticks(np.arange(count + 1) - 0.5, minor=True)
    ax.set_yticks(np.arange(count + 1) - 0.5, minor=True)
    ax.tick_params(which="minor", length=0)
    ax.grid(which="minor")
    ax.set_title("Row against column", pad=6)
    _below(ax, f"largest mark: mean score differs by {largest:.3g}")
    ax.legend(loc="upper center", bbox_to_anchor=(0.35, -0.09), ncols=3, columnspacing=1.0, handletextpad=0.2)
    return ax


def _below(ax: Axes, text: str) -> None:
    """A label that ends with the axes and may begin below the names, in lines that fit the figure."""
    ax.set_xlabel("\n".join(textwrap.wrap(text, 50)), loc="right", multialignment="right")


def _cut(label: str, longest: int = _LONGEST) -> str:
    """A long name without its middle: models differ at both ends."""
    if len(label) <= longest:
        return label
    head = (longest - 1) * 2 // 3
    return f"{label[:head]}…{label[len(label) - (longest - 1 - head) :]}"
