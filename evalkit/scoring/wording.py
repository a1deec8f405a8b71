"""Words that the summaries of results share."""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence


def counted(n: int, one: str, many: str | None = None) -> str:
    """1 question, 2 questions."""
    return f"{n} {one if n == 1 else many or one + 's'}"


def interval_text(low: float, high: float, form: str = ".4f") -> str:
    """[0.1000, 0.2000], or that there is none."""
    return "(no interval)" if math.isnan(low) or math.isnan(high) else f"[{low:{form}}, {high:{form}}]"


def named_list(names: Sequence[Hashable], most: int = 8) -> str:
    """'a', 'b' and 3 more."""
    said = ", ".join(repr(name) for name in names[:most])
    return said + (f" and {len(names) - most} more" if len(names) > most else "")
