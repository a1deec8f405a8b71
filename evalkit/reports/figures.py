"""Figures that are readable in light, dark, in print and at 360 px, with words for who cannot see them.

Rules
- A figure is SVG with text as text, a fixed hash salt and no date: the same data gives the same bytes.
- Its colours are the names in `COLOURS` (after Okabe and Ito, Color Universal Design, 2008, which people with
  any colour vision can tell apart).  The exported report turns them into CSS variables, so that axes and
  marks follow light and dark; a colour outside the list stays as it is.
- Colour is never the only sign: the realized scenario is hatched and labelled, groups have their own marks.
- No figure without alternative text: `show` demands it.
- Nothing here knows a protocol; the plots take names and numbers.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from evalkit.errors import EvalkitError
from evalkit.figure_style import COLOURS, MARKERS, SERIES, WIDTH, figure_style, styled
from evalkit.interval_plot import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MIME = "image/svg+xml"

# Where labels break, so that they leave room for the marks.
_LABEL_CHARACTERS, _TITLE_CHARACTERS = 25, 46


def svg(fig: Figure) -> str:
    """The figure as SVG text: same figure, same bytes."""
    buffer = io.StringIO()
    with figure_style():
        fig.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, transparent=True)
    return buffer.getvalue()


def show(fig: Figure, *, alt: str, caption: str | None = None) -> None:
    """Display the figure as SVG and close it.

    alt: what the figure shows, in a sentence or two, for people who do not see it; may not be empty.
    caption: printed below it, numbered in the report.
    """
    from IPython.display import display
    from matplotlib import pyplot as plt

    if not alt.strip():
        raise EvalkitError(
            "a figure has no alternative text",
            expected="alt: what the figure shows, in a sentence or two",
        )
    # JupyterLab honours needs_background: our ink would be lost on its dark theme.
    note: dict[str, str] = {"alt": alt.strip(), "needs_background": "light"}
    if caption:
        note["caption"] = caption.strip()
    data = {MIME: svg(fig), "text/plain": f"Figure: {alt.strip()}"}
    display(data, metadata={MIME: note}, raw=True)  # type: ignore[no-untyped-call]
    # An open figure would be shown a second time by the inline backend, as PNG and without alt text.
    plt.close(fig)


@dataclass(frozen=True)
class CaseProbabilities:
    """A forecast over the scenarios of one case; ``realized`` is None before the reveal."""

    case: str
    probabilities: Mapping[str, float]
    realized: str | None = None


@dataclass(frozen=True)
class DimensionScore:
    """Points that one case earned in one dimension, out of its weight."""

    case: str
    dimension: str
    points: float
    weight: float


@styled
def probability_bars(cases: Sequence[CaseProbabilities], ax: Axes | None = None) -> Figure:
    """Per case one bar a scenario; a tick at the uniform probability; the realized scenario is hatched."""
    _some(cases, "cases")
    for case in cases:
        if case.realized is not None and case.realized not in case.probabilities:
            raise EvalkitError(
                f"the realized scenario {case.realized!r} of {case.case} has no probability",
                expected=f"one of {', '.join(case.probabilities)}",
            )
    # Rows are laid out in units of a bar's pitch first; the figure is then as high as they need.
    y = 0.0
    titles: list[tuple[float, str]] = []
    bars: list[tuple[float, str, float, bool]] = []
    uniform: list[tuple[float, float, float]] = []
    for case in cases:
        title = textwrap.fill(case.case, _TITLE_CHARACTERS)
        titles.append((y, title))
        y += 0.95 + 0.7 * title.count("\n")
        top = y - 0.45
        for scenario, probability in case.probabilities.items():
            name = textwrap.fill(scenario, _LABEL_CHARACTERS)
            y += 0.35 * name.count("\n")
            bars.append((y, name, probability, scenario == case.realized))
            y += 0.85 + 0.35 * name.count("\n")
        uniform.append((1 / len(case.probabilities), top, y - 0.4))
        y += 0.55
    fig, axes = _axes(ax, height=0.55 + 0.32 * y)
    for at, title in titles:
        # Out of the layout: a long title may stand over the whole width, and must not squeeze the bars.
        axes.text(
            0,
            at,
            title,
            transform=axes.get_yaxis_transform(),
            va="center_baseline" if "\n" not in title else "top",
            weight="bold",
            fontsize=10,
        ).set_in_layout(False)
    for at, _, probability, real in bars:
        axes.barh(
            at,
            probability,
            height=0.66,
            color=COLOURS["blue"] if real else COLOURS["sky"],
            # The edge is the hatch's colour too, and gives the light bars enough contrast.
            edgecolor=COLOURS["paper"] if real else COLOURS["blue"],
            linewidth=0.8,
            hatch="////" if real else None,
        )
        axes.annotate(
            f"{probability:.2f}" + ("  realized" if real else ""),
            (probability, at),
            xytext=(5, 0),
            textcoords="offset points",
            va="center",
            fontsize=9.5,
            weight="bold" if real else "normal",
            bbox={"facecolor": COLOURS["paper"], "edgecolor": "none", "pad": 1.0},
            zorder=4,
        )
    for share, top, bottom in uniform:
        axes.plot(
            [share, share], [top, bottom], color=COLOURS["vermilion"], linewidth=1.2, linestyle=(0, (4, 2))
        )
    axes.set_yticks([at for at, *_ in bars], [name for _, name, *_ in bars])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(y - 0.45, -0.6)
    highest = max(max(case.probabilities.values()) for case in cases)
    axes.set_xlim(0, min(1.28, max(0.5, highest) * 1.28))
    axes.set_xticks([tick for tick in (0, 0.2, 0.4, 0.6, 0.8, 1.0) if tick <= axes.get_xlim()[1]])
    axes.set_xlabel("probability (dashed: uniform)")
    axes.spines["left"].set_visible(False)
    return fig


@styled
def dimension_dots(rows: Sequence[DimensionScore], ax: Axes | None = None) -> Figure:
    """Per dimension the points that each case earned, on a line as long as the dimension's weight."""
    _some(rows, "rows")
    dimensions = list(dict.fromkeys(row.dimension for row in rows))
    cases = list(dict.fromkeys(row.case for row in rows))
    fig, axes = _axes(ax, height=1.1 + 0.36 * len(dimensions))
    step = min(0.2, 0.62 / max(1, len(cases)))
    weight = {row.dimension: max(r.weight for r in rows if r.dimension == row.dimension) for row in rows}
    for i, dimension in enumerate(dimensions):
        axes.plot([0, weight[dimension]], [i, i], color=COLOURS["line"], linewidth=1.0, zorder=1)
        axes.plot(
            [weight[dimension]],
            [i],
            marker="|",
            markersize=11,
            color=COLOURS["muted"],
            markeredgewidth=1.4,
            zorder=1,
        )
    for j, case in enumerate(cases):
        mine = [row for row in rows if row.case == case]
        axes.plot(
            [row.points for row in mine],
            [dimensions.index(row.dimension) + (j - (len(cases) - 1) / 2) * step for row in mine],
            linestyle="none",
            marker=MARKERS[j % len(MARKERS)],
            color=COLOURS[SERIES[j % len(SERIES)]],
            markersize=6.5,
            markeredgecolor=COLOURS["paper"],
            markeredgewidth=0.6,
            label=case,
            zorder=3,
            clip_on=False,
        )
    axes.set_yticks(range(len(dimensions)), [textwrap.fill(d, _LABEL_CHARACTERS) for d in dimensions])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(len(dimensions) - 0.4, -0.6)
    axes.set_xlim(0, max(weight.values()) * 1.03)
    axes.set_xlabel("points earned")
    axes.spines["left"].set_visible(False)
    if len(cases) > 1:
        longest = max(map(len, cases))
        columns = 3 if longest <= 14 else 2 if longest <= 26 else 1
        fig.legend(
            loc="outside upper left",
            ncols=2 if len(cases) == 4 and columns == 3 else min(columns, len(cases)),
            handletextpad=0.2,
            columnspacing=1.2,
        )
    return fig


def interval_plot(
    rows: Sequence[Estimate], ax: Axes | None = None, *, reference: float | None = 0.0, xlabel: str = ""
) -> Figure:
    """The figure of `evalkit.interval_plot`: estimates with their intervals above a reference line."""
    from evalkit.interval_plot import interval_plot as drawn

    _some(rows, "rows")
    return drawn(rows, ax, reference=reference, xlabel=xlabel).get_figure(root=True)  # type: ignore[return-value]


def _axes(ax: Axes | None, height: float) -> tuple[Figure, Axes]:
    """The given axes and their figure, or new ones."""
    if ax is not None:
        return ax.get_figure(root=True), ax  # type: ignore[return-value]
    from matplotlib.figure import Figure

    fig = Figure(figsize=(WIDTH, height))
    return fig, fig.add_subplot()


def _some(items: Sequence[Any], what: str) -> None:
    if not items:
        raise EvalkitError(f"there are no {what} to plot", expected="at least one")
