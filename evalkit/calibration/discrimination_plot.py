"""Discrimination against miscalibration of several forecasters (Gneiting, Wolffram, Resin et al. 2023).

Forecasters to the left are well calibrated, those at the top tell events from non-events; forecasters on one
slanted line have the same score S = MCB - DSC + UNC, and lines to the upper left are better.

Rules
- Names stand beside their marks, without overlap, up to about twenty of them; a thin line leads to a name
  that had to move away.  Marks have no colours to be looked up.
- Where forecasters answered different questions, their UNC differs: the lines then say S - UNC.
- An infinite MCB (log score) stands at the right edge, as an arrow.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evalkit.calibration.corp import CorpDecomposition
from evalkit.figure_style import COLOURS, WIDTH, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: relative difference of UNC that is rounding
_SAME = 1e-9
#: about as many slanted lines
_LINES = 6
_FONT = 8.5


@styled
def discrimination_plot(decompositions: Mapping[str, CorpDecomposition], ax: Axes | None = None) -> Axes:
    """A mark for each forecaster at (MCB, DSC), with lines of equal score.

    ``decompositions``: by the forecaster's name, of one and the same score.  Raises `ValueError` where there is
    none, or scores differ.
    """
    if not decompositions:
        raise ValueError("no decompositions: expected at least one forecaster")
    conventions = sorted({d.convention for d in decompositions.values()})
    if len(conventions) > 1:
        raise ValueError(f"decompositions of different scores cannot be compared: {'; '.join(conventions)}")
    axes = new_axes(WIDTH, WIDTH * 0.95) if ax is None else ax
    terms = list(decompositions.values())
    mcb = np.array([d.mcb for d in terms])
    dsc = np.array([d.dsc for d in terms])
    finite = np.isfinite(mcb)
    widest = float(mcb[finite].max(initial=0.0))
    highest = float(dsc.max())
    span = max(widest, highest, 1e-3)
    right, top = max(widest * 1.12, span * 0.15), max(highest * 1.12, span * 0.15)
    axes.set_xlim(0, right)
    axes.set_ylim(0, top)
    axes.set_xlabel("miscalibration MCB  (left is better)")
    axes.set_ylabel("discrimination DSC  (up is better)")
    axes.locator_params(nbins=5)
    shown = np.where(finite, mcb, right)
    for x, y, inside in zip(shown, dsc, finite, strict=True):
        axes.plot(
            [x],
            [y],
            marker="o" if inside else ">",
            markersize=6,
            color=COLOURS["blue"],
            markeredgecolor=COLOURS["paper"],
            markeredgewidth=0.8,
            clip_on=False,
            zorder=4,
        )
    unc = np.array([d.unc for d in terms])
    same = bool(np.ptp(unc) <= _SAME * (1 + abs(unc[0])))
    axes.set_title(_heading(terms, conventions[0], same), fontsize=9.0, fontweight="normal", pad=8)
    # where things stand is known only once the layout is
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()
    names = [n if f else f"{n} (MCB ∞)" for n, f in zip(decompositions, finite, strict=True)]
    taken = _Boxes(axes)
    for x, y in zip(shown, dsc, strict=True):
        taken.add_point(float(x), float(y))
    _names(axes, taken, names, shown, dsc)
    _score_lines(axes, taken, float(unc[0]) if same else 0.0, "S" if same else "S − UNC")
    return axes


def _heading(terms: list[CorpDecomposition], convention: str, same: bool) -> str:
    sizes = sorted({d.n for d in terms})
    n = f"n = {sizes[0]:,}" if len(sizes) == 1 else f"n = {sizes[0]:,} to {sizes[-1]:,}"
    unc = sorted(d.unc for d in terms)
    if same:
        words = f"UNC = {unc[0]:.3f}, lines: equal score S"
    else:
        words = f"UNC {unc[0]:.3f} to {unc[-1]:.3f}: not the same\nquestions; lines: equal S − UNC"
    return f"{convention.split(',')[0]}, {n}\n{words}"


class _Box(NamedTuple):
    left: float
    bottom: float
    right: float
    top: float

    def overlap(self, other: _Box) -> float:
        wide = min(self.right, other.right) - max(self.left, other.left)
        high = min(self.top, other.top) - max(self.bottom, other.bottom)
        return max(wide, 0.0) * max(high, 0.0)


class _Boxes:
    """What of the axes is taken, in points from their lower left corner."""

    def __init__(self, axes: Axes) -> None:
        figure = axes.get_figure(root=True)
        assert figure is not None
        self._axes = axes
        self._points = 72 / figure.dpi
        window = axes.get_window_extent()
        self._corner = (window.x0, window.y0)
        self.width, self.height = window.width * self._points, window.height * self._points
        self.boxes: list[_Box] = []

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Points from the corner, of data coordinates."""
        pixel = self._axes.transData.transform((x, y))
        return (
            float(pixel[0] - self._corner[0]) * self._points,
            float(pixel[1] - self._corner[1]) * self._points,
        )

    def size(self, text: str, fontsize: float) -> tuple[float, float]:
        """Width and height of a text, in points."""
        from matplotlib.textpath import TextPath

        if not text.strip():
            return 0.0, fontsize
        return float(TextPath((0, 0), text, size=fontsize).get_extents().width) + 2, fontsize * 1.15

    def add_point(self, x: float, y: float) -> None:
        px, py = self.place(x, y)
        self.boxes.append(_Box(px - 4, py - 4, px + 4, py + 4))

    def cost(self, box: _Box) -> float:
        """Area that is taken already, or lies outside the axes."""
        inside = _Box(0, 0, self.width, self.height + 4)
        outside = (box.right - box.left) * (box.top - box.bottom) - box.overlap(inside)
        return outside * 3 + sum(box.overlap(other) for other in self.boxes)


def _around(width: float, height: float) -> Iterator[tuple[float, float]]:
    """Lower left corners of a text around a mark, near ones first."""
    for distance in (6.0, 14.0, 24.0, 36.0, 50.0, 66.0, 84.0, 104.0):
        for angle in (0, 90, 270, 180, 45, 315, 135, 225, 20, 340, 160, 200, 70, 290, 110, 250):
            dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            # the text's nearest edge, not its middle, lies at the distance
            yield (
                dx * distance + width * (dx - 1) / 2,
                dy * distance + height * (dy - 1) / 2,
            )


def _names(axes: Axes, taken: _Boxes, names: list[str], x: np.ndarray, y: np.ndarray) -> None:  # type: ignore[type-arg]
    """Each name beside its mark, crowded marks first."""
    points = [taken.place(float(a), float(b)) for a, b in zip(x, y, strict=True)]
    crowd = [sum(math.dist(p, q) < 45 for q in points) for p in points]
    for i in sorted(range(len(names)), key=lambda i: (-crowd[i], names[i])):
        text = names[i] if len(names[i]) <= 24 else f"{names[i][:23]}…"
        width, height = taken.size(text, _FONT)
        px, py = points[i]
        best, least = None, math.inf
        for dx, dy in _around(width, height):
            box = _Box(px + dx, py + dy, px + dx + width, py + dy + height)
            cost = taken.cost(box)
            if cost < least:
                best, least = (dx, dy, box), cost
            if cost == 0:
                break
        assert best is not None
        dx, dy, box = best
        taken.boxes.append(box)
        near = (np.clip(0, dx, dx + width), np.clip(0, dy, dy + height))
        far = math.hypot(*near) > 9
        axes.annotate(
            text,
            (float(x[i]), float(y[i])),
            xytext=(dx, dy + height * 0.18),
            textcoords="offset points",
            fontsize=_FONT,
            color=COLOURS["ink"],
            ha="left",
            va="baseline",
            annotation_clip=False,
            zorder=5,
        ).set_in_layout(False)
        if far:
            axes.annotate(
                "",
                (float(x[i]), float(y[i])),
                xytext=(float(near[0]), float(near[1])),
                textcoords="offset points",
                arrowprops={
                    "arrowstyle": "-",
                    "color": COLOURS["muted"],
                    "linewidth": 0.6,
                    "shrinkB": 3,
                    "shrinkA": 0,
                },
                annotation_clip=False,
                zorder=3,
            ).set_in_layout(False)


def _score_lines(axes: Axes, taken: _Boxes, unc: float, what: str) -> None:
    """Lines of equal score, each labelled where there is room."""
    from matplotlib.ticker import MaxNLocator

    right, top = axes.get_xlim()[1], axes.get_ylim()[1]
    scores = MaxNLocator(_LINES, steps=[1, 2, 2.5, 5, 10]).tick_values(unc - top, unc + right)
    step = float(scores[1] - scores[0])
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (1 if f"{step:e}".startswith("2.5") else 0)
    for score in scores:
        # DSC = MCB + UNC - S
        low, high = max(0.0, score - unc), min(right, top + score - unc)
        if high - low < 0.03 * right:
            continue
        axes.plot(
            [low, high],
            [low + unc - score, high + unc - score],
            color=COLOURS["line"],
            linewidth=0.8,
            zorder=1,
        )
        text = f"{score:.{digits}f}"
        if not any(b for b in axes.texts if b.get_text().startswith(f"{what} =")):
            text = f"{what} = {text}"
        width, height = taken.size(text, 7.5)
        for share in itertools.chain((0.97, 0.9), np.linspace(0.85, 0.05, 17)):
            at = low + share * (high - low)
            px, py = taken.place(at, at + unc - score)
            box = _Box(px - width / 2, py - height / 2, px + width / 2, py + height / 2)
            if taken.cost(box) == 0:
                taken.boxes.append(box)
                axes.annotate(
                    text,
                    (at, at + unc - score),
                    xytext=(0, -7.5 * 0.36),
                    textcoords="offset points",
                    ha="center",
                    va="baseline",
                    fontsize=7.5,
                    color=COLOURS["muted"],
                    bbox={"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 0.8},
                    zorder=2,
                ).set_in_layout(False)
                break
