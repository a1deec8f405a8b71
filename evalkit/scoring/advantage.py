"""Advantage over a reference: mean reference score minus mean score, in the units of the score.

Positive is better than the reference.  ForecastBench prints this difference as "BSS"; the Brier skill score of
the literature is the ratio 1 - S / S_ref (`skill_score`), so the difference has a name of its own here.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats, same_index
from evalkit.scoring.diebold_mariano import equal_differences
from evalkit.scoring.score import mean
from evalkit.scoring.wording import counted, interval_text

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Advantage:
    """``value`` = ``reference_score`` - ``score`` over n common items; ``low`` to ``high`` by ``method``."""

    value: float
    low: float
    high: float
    score: float
    reference_score: float
    n: int
    alpha: float
    method: str
    reason: str
    n_clusters: int | None = None
    caveats: tuple[str, ...] = ()

    def __float__(self) -> float:
        return self.value

    def summary(self) -> str:
        clusters = "" if self.n_clusters is None else f", {counted(self.n_clusters, 'cluster')}"
        why = f": {self.reason.rstrip('.')}" if math.isnan(self.low) else ""
        notes = "".join(f"  {caveat}" for caveat in self.caveats)
        return (
            f"advantage {self.value:+.4f} {interval_text(self.low, self.high, '+.4f')} = reference "
            f"{self.reference_score:.4f} - score {self.score:.4f} (n = {self.n}{clusters}, {self.method}{why}; "
            f"positive is better than the reference){notes}"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([self.__dict__ | {"caveats": " ".join(self.caveats)}])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def score_advantage(
    score: ArrayLike,
    reference_score: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    bounds: tuple[float, float] | None = None,
    alpha: float = 0.05,
) -> Advantage:
    """Mean of ``reference_score`` - ``score``, item scores of shape (n,) of the same items, small when good.

    ``bounds``: range of an item score, (0, 1) for Brier, which makes the interval hold at small n.
    """
    from evalkit.uncertainty import mean_interval

    same_index(score=score, reference_score=reference_score, weights=weights, cluster=cluster)
    ours, theirs = floats(score, "score"), floats(reference_score, "reference_score")
    if ours.ndim != 1 or ours.shape != theirs.shape or len(ours) == 0:
        raise ValueError(
            f"score has shape {ours.shape} and reference_score {theirs.shape}: expected (n,) twice, n ≥ 1"
        )
    lost = np.isnan(ours) | np.isnan(theirs)
    if lost.any():
        raise ValueError(f"item {int(np.argmax(lost))} is NaN: leave it out of both")
    both_infinite = np.isinf(ours) & np.isinf(theirs)
    if both_infinite.any():
        raise ValueError(
            f"item {int(np.argmax(both_infinite))} is infinite in both: their difference is undefined"
        )
    difference = theirs - ours
    if np.isfinite(difference).all() and equal_differences(theirs, ours):
        difference = np.full(len(ours), difference[0])  # rounding is no spread
    width = None if bounds is None else float(bounds[1]) - float(bounds[0])
    found = mean_interval(
        difference,
        lo=None if width is None else -width,
        hi=width,
        weights=weights,
        cluster=cluster,
        alpha=alpha,
    )
    w = None if weights is None else floats(weights, "weights")
    return Advantage(
        value=found.mean,
        low=found.low,
        high=found.high,
        score=mean(ours, w),
        reference_score=mean(theirs, w),
        n=found.n,
        alpha=alpha,
        method=found.method,
        reason=found.reason,
        n_clusters=found.n_clusters,
        caveats=found.caveats,
    )
