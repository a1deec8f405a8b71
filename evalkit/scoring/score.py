"""The result of a scoring rule: a mean with its sample size, range and convention."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.uncertainty import Interval


@dataclass(frozen=True)
class Score:
    """Mean score of n items.

    ``value`` is the (weighted) mean, ``n`` the number of items that count, ``n_dropped`` the number left
    out for a missing value, ``low`` and ``high`` the range that an item score can take.
    """

    name: str
    convention: str
    value: float
    n: int
    n_dropped: int
    low: float
    high: float
    items: NDArray[np.float64] = field(repr=False)
    weighted: bool = False
    clustered: bool = False

    def __float__(self) -> float:
        return self.value

    def interval(self, alpha: float = 0.05) -> Interval:
        """Two-sided interval for the mean of independent, unweighted items in a bounded range.

        Raises `ValueError` where items are weighted or clustered, or the range is unbounded.
        """
        from evalkit.uncertainty import gaffke_interval

        if self.weighted or self.clustered:
            raise ValueError("no interval for weighted or clustered items yet: pass independent items")
        return gaffke_interval(self.items, self.low, self.high, alpha=alpha)

    def summary(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        return f"{self.name} {self.value:.4f} (n = {self.n}{dropped}; {self.convention})"

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        row: dict[str, Any] = {
            "score": self.name,
            "value": self.value,
            "n": self.n,
            "n_dropped": self.n_dropped,
            "convention": self.convention,
        }
        return pd.DataFrame([row])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"
