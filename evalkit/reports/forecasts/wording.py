"""How names, scores and intervals of forecasters are written in a report."""

from __future__ import annotations

import math
from collections.abc import Sequence
from html import escape

from evalkit.reports.tables import Html
from evalkit.visible import visible

#: characters of a name that a table or figure shows
_LONGEST = 40
#: characters of a name that is never broken
_SHORT = 14


def name(text: str, most: int = _LONGEST) -> str:
    """A name made safe to show, without its middle where it is long: models differ at both ends."""
    shown = visible(text)
    if len(shown) <= most:
        return shown
    head = (most - 1) * 2 // 3
    return f"{shown[:head]}…{shown[len(shown) - (most - 1 - head) :]}"


def named(text: str) -> Html:
    """A name in a cell: one that is long gets room for about half of it in a line."""
    shown = name(text)
    kind = ' class="name"' if len(shown) > _SHORT else ""
    return Html(f"<span{kind}>{escape(shown)}</span>", shown)


def distinct(names: Sequence[str]) -> list[str]:
    """The names, numbered where shortening made two of them the same."""
    return [
        text if names.count(text) == 1 else f"{text} #{names[: at + 1].count(text)}"
        for at, text in enumerate(names)
    ]


def interval(low: float | None, high: float | None, digits: int = 3) -> str | None:
    """``0.112 to 0.140``; None where there is none."""
    if low is None or high is None or math.isnan(low) or math.isnan(high):
        return None
    return f"{low:.{digits}f} to {high:.{digits}f}".replace("-", "−")


def level(alpha: float) -> str:
    return f"{100 * (1 - alpha):g}%"


def counted(count: int, one: str, more: str = "") -> str:
    return f"{count:,} {one if count == 1 else more or one + 's'}"


def p_value(p: float) -> str | None:
    if math.isnan(p):
        return None
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def finite(value: float | None) -> float | None:
    """For JSON: None where a number is not finite."""
    return None if value is None or not math.isfinite(value) else float(value)
