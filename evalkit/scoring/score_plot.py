"""Figures of scores: rows for the plot of intervals, and a matrix of pairs.

Made for 360 px: labels are cut in the middle when long.  Marks differ by shape and filling, never by colour
alone.
"""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from evalkit.exact_sums import Floats
from evalkit.figure_style import COLOURS, WIDTH, new_axes, styled
from evalkit.interval_plot import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: characters of a name that fit beside the axes
_LONGEST = 22


def estimates(
    labels: Sequence[str],
    value: Floats,
    low: Floats,
    high: Floats,
    n: Sequence[int] | NDArray[np.intp] | None = None,
) -> list[Estimate]:
    """Rows of `evalkit.interval_plot`, long names without their middle."""
    sizes = [None] * len(labels) if n is None else [int(size) for size in n]
    return [
        Estimate(_cut(label), float(v), float(lo), float(hi), size)
        for label, v, lo, hi, size in zip(labels, value, low, high, sizes, strict=True)
    ]


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
