"""The table of scores for a terminal: numbers with their n and interval, conventions below."""

from __future__ import annotations

import math
import textwrap
import unicodedata
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from evalkit.visible import visible

if TYPE_CHECKING:
    from evalkit.forecasts.score_table import Row, ScoreTable

#: characters of a forecaster's name that are shown, and of a line of prose
_NAME, _WIDTH = 36, 100


def number(value: float | None, digits: int = 4) -> str:
    """A score: four decimals, inf in words, a dash for what there is none of."""
    if value is None:
        return "-"
    return "inf" if math.isinf(value) else f"{value:.{digits}f}"


def text_table(board: ScoreTable) -> str:
    """Lines of the table, then conventions and notes."""
    level = f"{100 * (1 - board.alpha):g}%"
    columns: list[tuple[str, Callable[[Row], str]]] = [
        ("forecaster", lambda r: shortened(r.forecaster)),
        ("n", lambda r: f"{r.n:,}"),
    ]
    if any(r.n_clusters != r.n for r in board.rows):
        columns.append(("clusters", lambda r: f"{r.n_clusters:,}"))
    for title, of in (("missing", "n_missing"), ("unresolved", "n_unresolved"), ("absent", "n_absent")):
        if any(getattr(r, of) for r in board.rows):
            columns.append((title, lambda r, of=of: f"{getattr(r, of):,}"))  # type: ignore[misc]
    if board.kind == "binary":
        columns.append(("base rate", lambda r: number(r.base_rate, 3)))
    columns += [
        ("Brier", lambda r: number(r.brier)),
        (f"{level} interval", lambda r: _interval(r.brier_low, r.brier_high)),
    ]
    if board.kind == "ordinal":
        columns.append(("RPS", lambda r: number(r.rps)))
    columns.append(("log", lambda r: number(r.log)))
    if board.kind == "binary":
        columns += [
            ("MCB", lambda r: number(r.mcb)),
            ("DSC", lambda r: number(r.dsc)),
            ("UNC", lambda r: number(r.unc)),
        ]
    if board.adjusted:
        columns += [
            ("adjusted", lambda r: number(r.adjusted)),
            (f"{level} interval", lambda r: _interval(r.adjusted_low, r.adjusted_high)),
        ]
    if any(r.rank is not None for r in board.rows):
        columns.append(("rank", _rank))
    cells = [[title for title, _ in columns], *([of(row) for _, of in columns] for row in board.rows)]
    lines = _aligned(cells)
    said = [*board.conventions, *_counts(board), *board.notes]
    return "\n".join([*lines, "", *(line for text in said for line in _prose(text))])


def _counts(board: ScoreTable) -> list[str]:
    """What the columns of counts mean, for those that are shown."""
    said = []
    if any(r.n_missing for r in board.rows):
        said.append("missing: forecasts that are not there although the outcome is known; none is filled in")
    if any(r.n_unresolved for r in board.rows):
        said.append("unresolved: forecasts whose outcome is not known; not scored")
    if any(r.n_absent for r in board.rows):
        said.append("absent: resolved questions for which the forecaster has no row")
    if board.adjusted:
        said.append(
            "adjusted: Brier score adjusted for the difficulty of the questions that were answered; whoever answered "
            "everything keeps the raw score (Karger et al. 2025)"
        )
    if any(r.rank is not None for r in board.rows):
        said.append("rank: in brackets those that the data leave open (Mogstad et al. 2024)")
    return said


def _rank(row: Row) -> str:
    if row.rank is None:
        return "-"
    return f"{row.rank} ({row.rank_low}-{row.rank_high})"


def _interval(low: float | None, high: float | None) -> str:
    return "-" if low is None or high is None else f"{low:.4f} to {high:.4f}"


def shortened(name: str, most: int = _NAME) -> str:
    shown = visible(name)
    return shown if len(shown) <= most else shown[: most - 1] + "…"


def _aligned(cells: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(_width(row[i]) for row in cells) for i in range(len(cells[0]))]
    return [
        "  ".join(
            cell + " " * (width - _width(cell)) if i == 0 else " " * (width - _width(cell)) + cell
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in cells
    ]


def _width(text: str) -> int:
    """Columns on a terminal: wide letters take two, combining marks none."""
    return sum(
        0 if unicodedata.combining(c) else 2 if unicodedata.east_asian_width(c) in "WF" else 1 for c in text
    )


def _prose(text: str) -> list[str]:
    return textwrap.wrap(visible(text), _WIDTH, subsequent_indent="  ")
