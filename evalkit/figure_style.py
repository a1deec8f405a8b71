"""How every figure of evalkit looks: readable in light, dark, in print and at 360 px.

The colours are named after Okabe and Ito (Color Universal Design, 2008), which people with any colour vision
can tell apart.  The exported report turns them into CSS variables, so that axes and marks follow light and
dark; a colour outside the list stays as it is.  Colour is never the only sign: series have their own marks.

The results of an analysis plot themselves, on floors below the reports; hence this floor.
"""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = ParamSpec("P")
R = TypeVar("R")

# Each is a CSS variable ``--fig-<name>`` in the report's style sheet, which has its dark counterpart.
COLOURS = {
    "ink": "#1f242b",
    "muted": "#5c6571",
    "line": "#c9cdd3",
    "faint": "#e9ebee",
    "paper": "#fefefd",
    "blue": "#0072b2",
    "vermilion": "#d55e00",
    "green": "#009e73",
    "sky": "#56b4e9",
    "purple": "#cc79a7",
    "orange": "#e69f00",
}
SERIES = ("blue", "vermilion", "green", "purple", "orange", "sky")
MARKERS = ("o", "s", "D", "^", "v", "P")

# Inches.  518 CSS px wide at 14 px type: shrunk to a phone's 328 px the type is still 9 px.
WIDTH = 4.5


@contextlib.contextmanager
def figure_style() -> Iterator[None]:
    """Matplotlib's settings for the figures of a report, within the ``with`` block."""
    import matplotlib as mpl
    from cycler import cycler

    ink, muted, line = COLOURS["ink"], COLOURS["muted"], COLOURS["line"]
    # Typed loosely: matplotlib's stubs list every key it knows, and those differ between its releases.
    settings: Any = {
        # labels are texts of people and models, never formulas
        "text.parse_math": False,
        "svg.fonttype": "none",
        "svg.hashsalt": "evalkit",
        "font.family": "sans-serif",
        "font.sans-serif": ["DejaVu Sans"],  # ships with matplotlib: the same layout everywhere
        "font.size": 10.5,
        "axes.titlesize": 10.5,
        "axes.titleweight": "bold",
        "axes.titlelocation": "left",
        "axes.labelsize": 10.5,
        "xtick.labelsize": 9.5,
        "ytick.labelsize": 9.5,
        "legend.fontsize": 9.5,
        "legend.frameon": False,
        "figure.figsize": (WIDTH, 3.2),
        "figure.facecolor": "none",
        "savefig.facecolor": "none",
        "axes.facecolor": "none",
        "text.color": ink,
        "axes.labelcolor": ink,
        "axes.titlecolor": ink,
        "axes.edgecolor": line,
        "xtick.color": line,
        "ytick.color": line,
        "xtick.labelcolor": muted,
        "ytick.labelcolor": ink,
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.grid": False,
        "grid.color": COLOURS["faint"],
        "axes.axisbelow": True,
        "lines.linewidth": 1.8,
        "hatch.linewidth": 1.0,
        "axes.prop_cycle": cycler(color=[COLOURS[name] for name in SERIES]),
        "figure.constrained_layout.use": True,
    }
    with mpl.rc_context(settings), warnings.catch_warnings():
        # text stays text in SVG: matplotlib only measures with its font, and the reader's has the letter
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        yield


def styled(plot: Callable[P, R]) -> Callable[P, R]:
    """Matplotlib reads many settings late (a tick when it is made), so a whole plot is drawn in the style."""

    @functools.wraps(plot)
    def drawn(*args: P.args, **kwargs: P.kwargs) -> R:
        with figure_style():
            return plot(*args, **kwargs)

    return drawn


@styled
def new_axes(width: float = WIDTH, height: float = 3.2) -> Axes:
    """Axes in a figure of their own, outside pyplot's registry: nothing is left open."""
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height)).add_subplot()
