"""Bootstrap of a mean: what would it be in other samples of the same size (Efron 1979)?

Units are drawn with replacement: items, or whole clusters, of which the mean is then the ratio of the drawn sums
to the drawn weights (Davison & Hinkley 1997, section 3.8).  Each replicate is an exact draw:

- Where few values differ, only their counts are drawn, from a multinomial distribution: the cost does not grow
  with n.  It is taken where the number of different values is below n / `DRAWS_PER_CELL`.
- Otherwise n indices are drawn a replicate, about 3 ns each; a million different values take seconds.

The seed comes from the data, in sorted order, and from the user's ``seed``: the same data give the same
replicates in any order of the rows and under any names of the clusters.  Memory does not grow with
the number of replicates times n.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.uncertainty.gaffke import Interval
from evalkit.uncertainty.sample import Sample, checked_sample
from evalkit.uncertainty.sandwich import sample_mean
from evalkit.uncertainty.sums import exact_sum, sums_by_cluster

if TYPE_CHECKING:
    import pandas as pd

IntervalKind = Literal["percentile", "bca"]

#: an entry of a multinomial draw costs about as much as this many draws of an index
DRAWS_PER_CELL = 25
#: draws that are held in memory at once
BLOCK = 1 << 20
#: replicates closer than this share of their largest absolute value are tied
TIE = 1e-12


@dataclass(frozen=True)
class BootstrapMean:
    """Mean, its bootstrap standard error and the ``replicates`` (B,).

    ``n`` counts items, ``n_clusters`` is None where items were drawn.  ``acceleration`` is BCa's, from the
    jackknife over the units.  Where nothing can be resampled the replicates are NaN and ``reason`` says why.
    """

    mean: float
    se: float
    replicates: NDArray[np.float64] = field(repr=False)
    acceleration: float
    n: int
    n_clusters: int | None
    method: str
    reason: str = ""

    def interval(self, alpha: float = 0.05, kind: IntervalKind = "bca") -> Interval:
        """Two-sided interval at level 1 - alpha: percentiles, or bias-corrected and accelerated (Efron 1987).

        NaN where the replicates do not vary: a width of zero would be no evidence of certainty.
        """
        if kind not in get_args(IntervalKind):
            raise ValueError(f"kind = {kind!r}: expected one of {', '.join(get_args(IntervalKind))}")
        if not 0 < alpha < 1:
            raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
        if not self.se > 0:
            return Interval(math.nan, math.nan)
        levels = [alpha / 2, 1 - alpha / 2]
        if kind == "bca":
            levels = [self._bca_level(level) for level in levels]
        low, high = np.quantile(self.replicates, levels)
        return Interval(float(low), float(high))

    def _bca_level(self, level: float) -> float:
        normal = NormalDist()
        tie = TIE * float(np.abs(self.replicates).max())
        below = int((self.replicates < self.mean - tie).sum())
        tied = int((np.abs(self.replicates - self.mean) <= tie).sum())
        b = len(self.replicates)
        share = min(max((below + tied / 2) / b, 0.5 / b), 1 - 0.5 / b)
        bias = normal.inv_cdf(share)
        shifted = bias + normal.inv_cdf(level)
        return normal.cdf(bias + shifted / (1 - self.acceleration * shifted))

    def summary(self) -> str:
        size = f"n = {self.n}" + ("" if self.n_clusters is None else f", {self.n_clusters} clusters")
        notes = f" {self.reason}" if self.reason else ""
        return (
            f"{self.mean:.6g} ± {self.se:.4g} (bootstrap, {self.method}, {len(self.replicates)} replicates; {size})"
            f"{notes}"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        return pd.DataFrame(
            [
                {"mean": self.mean, "se": self.se, "low": low, "high": high, "n": self.n,
                 "n_clusters": self.n_clusters, "replicates": len(self.replicates), "method": self.method,
                 "reason": self.reason}
            ]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def bootstrap_mean(
    x: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    weights: ArrayLike | None = None,
    replicates: int = 1000,
    seed: int = 0,
) -> BootstrapMean:
    """Bootstrap of the (weighted) mean of ``x`` (n,), over items or, where given, over ``cluster`` (n,).

    Raises `ValueError` on NaN, bad shapes and fewer than two replicates.
    """
    if replicates < 2:
        raise ValueError(f"replicates = {replicates}: expected at least 2")
    sample = checked_sample(x, weights, cluster)
    mean, n = sample_mean(sample), len(sample.x)
    n_units = n if sample.n_clusters is None else sample.n_clusters
    reason = ""
    if n_units < 2:
        unit = "item" if sample.codes is None else "cluster"
        reason = f"{n_units} {unit}{'' if n_units == 1 else 's'}: resampling needs at least two."
    elif not sample.finite:
        reason = "An item is infinite: no replicate has a finite mean."
    if reason:
        nothing = np.full(replicates, math.nan)
        return BootstrapMean(mean, math.nan, nothing, math.nan, n, sample.n_clusters, "none", reason)
    numerators, denominators = _units(sample)
    means, method = _replicates(numerators, denominators, replicates, seed)
    acceleration = _acceleration(numerators, denominators)
    spread = float(np.ptp(means))
    se = float(np.std(means, ddof=1)) if spread > TIE * float(np.abs(means).max()) else 0.0
    if se == 0:
        reason = "All replicates are equal: resampling shows no variation, which is no evidence of certainty."
    return BootstrapMean(mean, se, means, acceleration, n, sample.n_clusters, method, reason)


def _units(sample: Sample) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:
    """What is drawn: sums and, unless all are 1, weights of each unit."""
    x, weights, codes = sample.x, sample.weights, sample.codes
    if codes is None:
        return (x, None) if weights is None else (weights * x, weights)
    assert sample.n_clusters is not None
    if weights is None:
        size = np.bincount(codes, minlength=sample.n_clusters).astype(np.float64)
        return sums_by_cluster(codes, x, sample.n_clusters), size
    return (
        sums_by_cluster(codes, weights * x, sample.n_clusters),
        sums_by_cluster(codes, weights, sample.n_clusters),
    )


def _replicates(
    numerators: NDArray[np.float64], denominators: NDArray[np.float64] | None, replicates: int, seed: int
) -> tuple[NDArray[np.float64], str]:
    n = len(numerators)
    # a pair is one complex number: it is sorted, looked up and added as one
    units = numerators if denominators is None else numerators + 1j * denominators
    distinct, counts = np.unique(units, return_counts=True)
    digest = hashlib.sha256(distinct.tobytes() + counts.astype("<i8").tobytes() + str(seed).encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:16], "big"))
    totals = np.zeros(replicates, dtype=distinct.dtype)
    if len(distinct) * DRAWS_PER_CELL <= n:
        method = "multinomial counts"
        rows = max(1, BLOCK // len(distinct))
        for start in range(0, replicates, rows):
            part = totals[start : start + rows]
            part += generator.multinomial(n, counts / n, size=len(part)) @ distinct
    else:
        method = "indices"
        ordered = np.repeat(distinct, counts)
        rows, columns = max(1, BLOCK // n), min(n, BLOCK)
        for start in range(0, replicates, rows):
            part = totals[start : start + rows]
            for first in range(0, n, columns):
                size = (len(part), min(columns, n - first))
                part += ordered[generator.integers(0, n, size=size)].sum(axis=1)
    if denominators is None:
        return totals / n, method
    return totals.real / totals.imag, method


def _acceleration(numerators: NDArray[np.float64], denominators: NDArray[np.float64] | None) -> float:
    """Skewness of the jackknife over units, divided by 6 (Efron 1987); 0 where the units do not vary."""
    if denominators is None:
        denominators = np.ones(len(numerators))
    left_out = (exact_sum(numerators) - numerators) / (exact_sum(denominators) - denominators)
    pull = exact_sum(left_out) / len(left_out) - left_out
    largest = float(np.abs(pull).max())
    if largest <= TIE * float(np.abs(left_out).max()):
        return 0.0
    pull /= largest
    return exact_sum(pull**3) / (6 * math.pow(exact_sum(pull**2), 1.5))
