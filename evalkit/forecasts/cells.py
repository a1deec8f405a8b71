"""What a cell of a table says: a text, a number, an outcome, or nothing.

Rules
- Missing is an empty cell, NA, N/A, NaN, null or None, in any case, and what pandas calls missing.
- A number is a decimal with a point.  ``45%`` and ``0,45`` are refused with a hint, never understood.
- An outcome is 0 or 1, true or false, yes or no.
- Nothing here raises: what cannot be read is a `Problem` with its row, and the caller collects them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]

MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "<na>", "nat"})
_WORDS = {"true": 1.0, "yes": 1.0, "false": 0.0, "no": 0.0}
_LONGEST = 40


@dataclass(frozen=True)
class Problem:
    """What is wrong in a cell, or (``row`` None) in a column; what was expected, and what to do."""

    what: str
    row: int | None = None
    column: str = ""
    expected: str = ""
    do: str = ""


def quoted(value: Any) -> str:
    """A cell in an error: short, and quoted."""
    text = value if isinstance(value, str) else str(value)
    return repr(text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…")


def is_missing(values: pd.Series) -> NDArray[np.bool_]:
    """Which cells say nothing, shape (n,)."""
    gone = values.isna().to_numpy(dtype=bool)
    if values.dtype.kind in "biufMm":
        return gone
    return np.array(
        [lost or (isinstance(v, str) and v.strip().lower() in MISSING)
         for v, lost in zip(values.tolist(), gone.tolist(), strict=True)],
        dtype=bool,
    )  # fmt: skip


def texts(values: pd.Series) -> list[str | None]:
    """Cells as text without surrounding space, None where missing."""
    gone = is_missing(values)
    return [None if lost else _text(v) for v, lost in zip(values.tolist(), gone.tolist(), strict=True)]


def _text(value: Any) -> str:
    if hasattr(value, "isoformat"):
        return str(value.isoformat()).removesuffix("T00:00:00")
    # 7.0 of a column that pandas made floating for its missing cells is 7
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value).strip()


def numbers(values: pd.Series, column: str, what: str) -> tuple[Floats, list[Problem]]:
    """Cells as float64, NaN where missing or unreadable; a problem for each cell that is no number."""
    gone = is_missing(values)
    if values.dtype.kind in "biuf":
        return np.where(gone, np.nan, values.to_numpy(dtype=np.float64, na_value=np.nan)), []
    cells = ["nan" if lost else v for v, lost in zip(values.tolist(), gone.tolist(), strict=True)]
    try:
        return np.array(cells, dtype=np.float64), []
    except (TypeError, ValueError):
        pass
    out = np.full(len(cells), np.nan)
    problems = []
    for row, cell in enumerate(cells):
        try:
            out[row] = float(cell)
        except (TypeError, ValueError):
            problems.append(
                Problem(f"{quoted(cell)} is no {what}", row, column, "a decimal such as 0.25", _hint(cell))
            )
    return out, problems


def outcomes(values: pd.Series, column: str, *, fractional: bool) -> tuple[Floats, list[Problem]]:
    """Binary outcomes as float64, NaN where missing; between 0 and 1 only where ``fractional``."""
    words = values
    if values.dtype.kind == "O" or not hasattr(values.dtype, "kind"):
        words = values.map(lambda v: _WORDS.get(v.strip().lower(), v) if isinstance(v, str) else v)
    out, problems = numbers(words, column, "outcome")
    wrong = (out < 0) | (out > 1) if fractional else (out != 0) & (out != 1)
    expected = "a number from 0 to 1" if fractional else "0 or 1 (true or false, yes or no)"
    problems = [Problem(p.what, p.row, column, expected, p.do) for p in problems]
    for row in np.flatnonzero(wrong & ~np.isnan(out)).tolist():
        between = 0 < out[row] < 1
        problems.append(
            Problem(
                f"{out[row]:g} is no outcome",
                row,
                column,
                expected,
                "allow outcomes between 0 and 1 (--fractional), or correct it" if between else "correct it",
            )
        )
        out[row] = np.nan
    return out, problems


def class_outcomes(values: pd.Series, column: str, classes: Sequence[str]) -> tuple[Floats, list[Problem]]:
    """Outcomes as class numbers from 0, NaN where missing: names of classes, or their numbers."""
    said = texts(values)
    index = {name: float(i) for i, name in enumerate(classes)}
    # one way of saying it a column: numbers where no cell is the name of a class
    if not any(text in index for text in said if text is not None):
        index = {str(i): float(i) for i in range(len(classes))}
        said = [None if text is None else text.removesuffix(".0") for text in said]
    expected = f"one of {', '.join(map(repr, classes))}, or 0 … {len(classes) - 1}"
    problems = [
        Problem(f"{quoted(text)} is no class", row, column, expected, "correct it, or name the classes")
        for row, text in enumerate(said)
        if text is not None and text not in index
    ]
    return np.array([np.nan if t is None else index.get(t, np.nan) for t in said]), problems


def probabilities(values: Floats, column: str) -> list[Problem]:
    """Problems of numbers that ought to be probabilities: one for the column where they look like percentages."""
    wrong = ((values < -1e-12) | (values > 1 + 1e-12)) & ~np.isnan(values)
    if not wrong.any():
        return []
    high, low = float(np.nanmax(values)), float(np.nanmin(values))
    if low >= 0 and 1.5 < high <= 100:
        return [
            Problem(
                f"the forecasts go up to {high:g} and look like percentages",
                int(np.argmax(wrong)),
                column,
                "probabilities from 0 to 1",
                "divide them by 100",
            )
        ]
    return [
        Problem(
            f"{float(values[row])!r} is no probability",
            row,
            column,
            "a number from 0 to 1",
            "correct it; or where it stands for a missing forecast: --na VALUE",
        )
        for row in np.flatnonzero(wrong).tolist()
    ]


def _hint(cell: Any) -> str:
    text = str(cell).strip()
    if text.endswith("%"):
        return "write percentages as fractions: 45% is 0.45"
    if "," in text:
        return "write a decimal point, not a comma"
    return "correct it, or leave it empty if it is missing"
