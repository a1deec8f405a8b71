"""The result of a scoring rule: a mean with its sample size, range and convention."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from evalkit.exact_sums import Floats, order_free_sum

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.uncertainty import MeanInterval


@dataclass(frozen=True, eq=False)
class Score:
    """Mean score of n items, negatively oriented (small is good).

    ``value`` is the (weighted) mean, ``n`` the number of items that count (weight above zero), ``n_dropped``
    the number left out for a missing value, ``low`` and ``high`` the range that an item score can take.
    """

    name: str
    convention: str
    value: float
    n: int
    n_dropped: int
    low: float
    high: float
    weights: Floats | None = field(repr=False, default=None)
    cluster: NDArray[Any] | None = field(repr=False, default=None)
    _item_scores: Callable[[], Floats] = field(repr=False, kw_only=True)

    def __float__(self) -> float:
        return self.value

    @cached_property
    def items(self) -> Floats:
        """Score of each item, shape (n,), computed when first asked for.

        Raises `ValueError` where the arrays that were scored have been changed since.
        """
        scores = self._item_scores()
        again = mean(scores, self.weights)
        # the sum was bounded in another way while it was computed, which may change its last bit
        if not math.isclose(again, self.value, rel_tol=1e-14) and self.value == self.value:
            raise ValueError(
                f"the arrays of this {self.name} were changed after it was computed: score them again, or "
                "score copies"
            )
        return scores

    def interval(self, alpha: float = 0.05) -> MeanInterval:
        """Interval of the expected score at level 1 - alpha, by the routes of `evalkit.uncertainty`.

        ``.low`` and ``.high``, with the method, the reason for it and its caveats; NaN with the reason where
        there is none, as for an infinite score or a single cluster.
        """
        from evalkit.uncertainty import mean_interval

        # probabilities that sum to one but for rounding may score beyond the range by as much
        scores = np.clip(self.items, self.low, self.high)
        return mean_interval(
            scores, lo=self.low, hi=self.high, weights=self.weights, cluster=self.cluster, alpha=alpha
        )

    def summary(self) -> str:
        found = self.interval()
        count = found.n_clusters
        clusters = "" if count is None else f", {count} cluster" + "s" * (count != 1)
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        interval = (
            f"no interval: {found.reason.rstrip('.')}"
            if math.isnan(found.low)
            else f"95 % interval {found.low:.4f} to {found.high:.4f}, {found.method}"
        )
        notes = "".join(f"  {caveat}" for caveat in found.caveats)
        return f"{self.name} {self.value:.4f} ({interval}; n = {self.n}{clusters}{dropped}; {self.convention}){notes}"

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        found = self.interval()
        row: dict[str, Any] = {
            "score": self.name,
            "value": self.value,
            "low": found.low,
            "high": found.high,
            "interval": found.method,
            "n": self.n,
            "n_clusters": found.n_clusters,
            "n_dropped": self.n_dropped,
            "convention": self.convention,
            "caveats": " ".join(found.caveats),
        }
        return pd.DataFrame([row])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def mean(items: Floats, weights: Floats | None) -> float:
    """(Weighted) mean of item scores, the same to the bit in any order."""
    if weights is None:
        return order_free_sum(items) / len(items)
    counted = weights > 0  # an item of weight zero does not count, even where its score is infinite
    return order_free_sum(weights[counted] * items[counted]) / order_free_sum(weights)
