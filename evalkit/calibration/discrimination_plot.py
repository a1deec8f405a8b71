"""Discrimination against miscalibration of several forecasters (Gneiting, Wolffram, Resin et al. 2023).

Forecasters to the left are well calibrated, those at the top tell events from non-events; forecasters on one
slanted line have the same score S = MCB - DSC + UNC, and lines to the upper left are better.

Rules
- Names stand beside their marks.  Where they would overlap, all marks have numbers in the order given,
  and a key beneath: no colours to be looked up.
- Where forecasters answered different questions, their UNC differs: the lines then say S - UNC.
- An infinite MCB (log score) stands at the right edge, as an arrow.
"""

from __future__ import annotations

import itertools
import math
import textwrap
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from evalkit.calibration.corp import CorpDecomposition
from evalkit.exact_sums import Floats
from evalkit.figure_style import COLOURS, WIDTH, new_axes, styled

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: relative difference of UNC that is rounding
_SAME = 1e-9
#: about as many slanted lines
_LINES = 6
_FONT = 8.5
_HEIGHT = WIDTH * 0.95
#: least extent of an axis
_LEAST = 0.01


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
    axes = new_axes(WIDTH, _HEIGHT) if ax is None else ax
    order = list(decompositions)
    terms = [decompositions[name] for name in order]
    mcb, dsc = np.array([d.mcb for d in terms]), np.array([d.dsc for d in terms])
    finite = np.isfinite(mcb)
    axes.set_xlim(_range(mcb[finite]))
    axes.set_ylim(_range(dsc))
    axes.set_xlabel("miscalibration MCB (left is better)")
    axes.set_ylabel("discrimination DSC (up is better)")
    axes.locator_params(nbins=5)
    x = np.where(finite, mcb, axes.get_xlim()[1])
    for at, y, inside in zip(x, dsc, finite, strict=True):
        axes.plot(
            [at],
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
    labels = [name if f else f"{name} (MCB ∞)" for name, f in zip(order, finite, strict=True)]
    _arrange(axes)
    places = _places(_Boxes(axes, x, dsc), labels, x, dsc, near=True)
    if places is None:
        _key(axes, labels, terms, own=ax is None)
        labels = [str(i + 1) for i in range(len(labels))]
        _arrange(axes)
        places = _places(_Boxes(axes, x, dsc), labels, x, dsc, near=False)
        assert places is not None
    taken = _Boxes(axes, x, dsc)
    for label, at, y, place in zip(labels, x, dsc, places, strict=True):
        _name(axes, label, float(at), float(y), place)
        taken.boxes.append(place)
    _score_lines(axes, taken, float(unc[0]) if same else 0.0, "S" if same else "S − UNC")
    return axes


def _range(values: Floats) -> tuple[float, float]:
    """From 0, unless the values lie close together and far from it."""
    low, high = float(values.min(initial=math.inf)), float(values.max(initial=0.0))
    room = max(high - low, _LEAST) if math.isfinite(low) else _LEAST
    if not math.isfinite(low) or low - 0.5 * room < 0:
        return 0.0, max(high * 1.12, _LEAST)
    return low - 0.3 * room, high + 0.15 * room


def _arrange(axes: Axes) -> None:
    """Where things stand is known only once the layout is made."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.draw_without_rendering()


def _key(axes: Axes, labels: list[str], terms: list[CorpDecomposition], own: bool) -> None:
    """Number, name and score of each forecaster, beneath the axes."""
    columns = 2 if max(map(len, labels)) <= 22 else 1
    rows = math.ceil(len(labels) / columns)
    lines = [
        f"{i + 1:>2} {textwrap.shorten(label, 40, placeholder='…')}  {d.score:.3f}".replace("inf", "∞")
        for i, (label, d) in enumerate(zip(labels, terms, strict=True))
    ]
    if own:
        figure = axes.get_figure(root=True)
        assert figure is not None
        figure.set_figheight(_HEIGHT + (rows + 1) * _FONT * 1.4 / 72)
    for column in range(columns):
        head = "number, forecaster, S\n" if column == 0 else "\n"
        axes.annotate(
            head + "\n".join(lines[column * rows : (column + 1) * rows]),
            (column / columns, 0),
            xycoords="axes fraction",
            xytext=(0, -40),
            textcoords="offset points",
            va="top",
            fontsize=_FONT,
            linespacing=1.3,
        )


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
    """What of the axes is taken, in points from their lower left corner: at first the marks."""

    def __init__(self, axes: Axes, x: Floats, y: Floats) -> None:
        figure = axes.get_figure(root=True)
        assert figure is not None
        self._axes = axes
        self._points = 72 / figure.dpi
        window = axes.get_window_extent()
        self._corner = (window.x0, window.y0)
        self.width, self.height = window.width * self._points, window.height * self._points
        self.boxes: list[_Box] = []
        for px, py in (self.place(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)):
            self.boxes.append(_Box(px - 4, py - 4, px + 4, py + 4))

    def place(self, x: float, y: float) -> tuple[float, float]:
        """Points from the corner, of data coordinates."""
        pixel = self._axes.transData.transform((x, y))
        return (
            float(pixel[0] - self._corner[0]) * self._points,
            float(pixel[1] - self._corner[1]) * self._points,
        )

    def cost(self, box: _Box) -> float:
        """Area that is taken already, or lies outside the axes."""
        inside = _Box(0, 0, self.width, self.height + 4)
        outside = (box.right - box.left) * (box.top - box.bottom) - box.overlap(inside)
        return outside * 3 + sum(box.overlap(other) for other in self.boxes)


def _size(text: str, fontsize: float) -> tuple[float, float]:
    """Width and height of a text, in points."""
    from matplotlib.textpath import TextPath

    extents = TextPath((0, 0), text if text.strip() else "x", size=fontsize).get_extents()
    return float(extents.width) + 2, fontsize * 1.15


def _around(width: float, height: float, near: bool) -> Iterator[tuple[float, float]]:
    """Lower left corners of a text around a mark, near ones first."""
    for distance in (6.0, 9.0) if near else (5.5, 8.0, 12.0, 17.0, 23.0, 30.0, 40.0, 55.0):
        for angle in (0, 90, 270, 180, 45, 315, 135, 225, 20, 340, 160, 200, 70, 290, 110, 250):
            dx, dy = math.cos(math.radians(angle)), math.sin(math.radians(angle))
            # the text's nearest edge, not its middle, lies at the distance
            yield dx * distance + width * (dx - 1) / 2, dy * distance + height * (dy - 1) / 2


def _places(taken: _Boxes, labels: list[str], x: Floats, y: Floats, near: bool) -> list[_Box] | None:
    """A box for each label beside its mark, crowded marks first; None where ``near`` ones would overlap."""
    points = [taken.place(a, b) for a, b in zip(x.tolist(), y.tolist(), strict=True)]
    crowd = [sum(math.dist(p, q) < 45 for q in points) for p in points]
    chosen: dict[int, _Box] = {}
    for i in sorted(range(len(labels)), key=lambda i: (-crowd[i], labels[i])):
        width, height = _size(labels[i], _FONT)
        px, py = points[i]
        best, least = None, math.inf
        for dx, dy in _around(width, height, near):
            box = _Box(px + dx, py + dy, px + dx + width, py + dy + height)
            cost = taken.cost(box)
            if cost < least:
                best, least = box, cost
            if cost == 0:
                break
        if best is None or (near and least > 0):
            return None
        taken.boxes.append(best)
        chosen[i] = best
    return [chosen[i] for i in range(len(labels))]


def _name(axes: Axes, text: str, x: float, y: float, box: _Box) -> None:
    """The text in its box, with a thin line from its mark where that is not beside it."""
    window = axes.get_window_extent()
    figure = axes.get_figure(root=True)
    assert figure is not None
    points = 72 / figure.dpi
    pixel = axes.transData.transform((x, y))
    px, py = float(pixel[0] - window.x0) * points, float(pixel[1] - window.y0) * points
    dx, dy = box.left - px, box.bottom - py
    axes.annotate(
        text,
        (x, y),
        xytext=(dx + 1, dy + (box.top - box.bottom) * 0.18),
        textcoords="offset points",
        fontsize=_FONT,
        color=COLOURS["ink"],
        bbox={"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 0.4},
        annotation_clip=False,
        zorder=3.5,
    ).set_in_layout(False)
    near = (min(max(0.0, dx), box.right - px), min(max(0.0, dy), box.top - py))
    if math.hypot(*near) > 9:
        line = {"arrowstyle": "-", "color": COLOURS["muted"], "linewidth": 0.6, "shrinkB": 3, "shrinkA": 0}
        axes.annotate(
            "",
            (x, y),
            xytext=near,
            textcoords="offset points",
            arrowprops=line,
            annotation_clip=False,
            zorder=3,
        ).set_in_layout(False)


def _score_lines(axes: Axes, taken: _Boxes, unc: float, what: str) -> None:
    """Lines of equal score, each labelled where there is room."""
    from matplotlib.ticker import MaxNLocator

    (left, right), (bottom, top) = axes.get_xlim(), axes.get_ylim()
    scores = MaxNLocator(_LINES, steps=[1, 2, 5, 10]).tick_values(unc + left - top, unc + right - bottom)
    step = float(scores[1] - scores[0])
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    named = False
    for score in scores:
        # DSC = MCB + UNC - S
        low, high = max(left, bottom + score - unc), min(right, top + score - unc)
        if high - low < 0.03 * (right - left):
            continue
        axes.plot(
            [low, high],
            [low + unc - score, high + unc - score],
            color=COLOURS["line"],
            linewidth=0.8,
            zorder=1,
        )
        text = f"{score:.{digits}f}" if named else f"{what} = {score:.{digits}f}"
        width, height = _size(text, 7.5)
        for share in itertools.chain((0.97, 0.9), np.linspace(0.85, 0.05, 17)):
            at = low + share * (high - low)
            px, py = taken.place(at, at + unc - score)
            box = _Box(px - width / 2, py - height / 2, px + width / 2, py + height / 2)
            if taken.cost(box) == 0:
                taken.boxes.append(box)
                named = True
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
