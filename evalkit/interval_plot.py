"""Estimates with their intervals, one below the other: the one way to draw them, for results and for reports.

Made for 360 px: one column, a row for each estimate, n at its right.  Marks differ by shape and filling, never
by colour alone.
"""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from evalkit.figure_style import COLOURS, WIDTH, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: where a label breaks, so that it leaves room for the marks, and where the text below the axis does
_LABEL_CHARACTERS, _BELOW_CHARACTERS = 25, 50
#: inches a row, and for axis, its label and a key
_ROW, _REST, _KEY = 0.42, 0.9, 0.3


@dataclass(frozen=True)
class Estimate:
    """An estimate with its interval and the number of units it rests on."""

    label: str
    value: float
    low: float
    high: float
    n: int | None = None


@styled
def interval_plot(
    rows: Sequence[Estimate],
    ax: Axes | None = None,
    *,
    reference: float | None = 0.0,
    xlabel: str = "",
    raw: Sequence[float] | None = None,
    filled: Sequence[bool] | None = None,
) -> Axes:
    """Estimates with intervals, the first on top; a dashed line at ``reference``.

    ``raw``: a further value of each row, as a cross, with a key.  ``filled``: rows whose mark is filled, all by
    default.
    """
    if ax is None:
        ax = new_axes(WIDTH, _REST + _ROW * len(rows) + (_KEY if raw is not None else 0.0))
    blue, paper = COLOURS["blue"], COLOURS["paper"]
    if reference is not None:
        ax.axvline(reference, color=COLOURS["vermilion"], linewidth=1.2, linestyle=(0, (4, 2)), zorder=1)
    for i, row in enumerate(rows):
        ax.plot([row.low, row.high], [i, i], color=blue, linewidth=2.2, solid_capstyle="butt", zorder=2)
        solid = filled is None or filled[i]
        ax.plot(
            [row.value],
            [i],
            marker="o",
            markersize=7.5,
            color=blue,
            markerfacecolor=blue if solid else paper,
            markeredgecolor=paper if solid else blue,
            markeredgewidth=1 if solid else 1.4,
            zorder=3,
        )
        if row.n is not None:
            ax.text(
                1.02,
                i,
                f"n = {row.n:,}",
                transform=ax.get_yaxis_transform(),
                va="center",
                fontsize=9.5,
                color=COLOURS["muted"],
            )
    if raw is not None:
        ax.plot([], [], marker="o", color=blue, linestyle="none", markersize=7.5, label="adjusted")
        ax.plot(
            raw,
            range(len(rows)),
            "x",
            color=COLOURS["vermilion"],
            markersize=6,
            markeredgewidth=1.5,
            label="raw",
        )
        ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=2, borderaxespad=0.1)
    ax.set_yticks(range(len(rows)), [textwrap.fill(row.label, _LABEL_CHARACTERS) for row in rows])
    ax.tick_params(axis="y", length=0)
    ax.set_ylim(len(rows) - 0.4, -0.6)
    ax.margins(x=0.06)
    ax.locator_params(axis="x", nbins=5)
    if xlabel:
        lines = (textwrap.wrap(line, _BELOW_CHARACTERS) for line in xlabel.split("\n"))
        ax.set_xlabel("\n".join(part for line in lines for part in line))
    ax.spines["left"].set_visible(False)
    return ax
