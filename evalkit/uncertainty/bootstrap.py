"""Bootstrap of a mean: what would it be in other samples of the same size (Efron 1979)?

Units are drawn with replacement: items, or whole clusters, of which the mean is then the ratio of the drawn sums
to the drawn weights (Davison & Hinkley 1997, section 3.8).  Each replicate is an exact draw:

- Where few values differ, only their counts are drawn, from a multinomial distribution: the cost does not grow
  with n.  It is taken where the number of different values is below n / `DRAWS_PER_CELL`.
- Otherwise n units are drawn a replicate, about 1 ns each.

The seed comes from the data, in sorted order, and from the user's ``seed``: the same data give the same
replicates in any order of the rows and under any names of the clusters.  Memory does not grow with
the number of replicates times n.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, field
from statistics import NormalDist
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.exact_sums import grouped_sums, order_free_sum
from evalkit.uncertainty.gaffke import Interval
from evalkit.uncertainty.sample import Sample, checked_sample
from evalkit.uncertainty.sandwich import sample_mean

if TYPE_CHECKING:
    import pandas as pd

IntervalKind = Literal["percentile", "bca"]

#: an entry of a multinomial draw costs about as much as this many draws of a unit
DRAWS_PER_CELL = 60
#: counts, or draws, that are held in memory at once
BLOCK = 1 << 22
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
        size = f"n = {self.n}" + (
            "" if self.n_clusters is None else f", {self.n_clusters} cluster{'s' * (self.n_clusters != 1)}"
        )
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
        return grouped_sums(codes, x, sample.n_clusters), size
    return (
        grouped_sums(codes, weights * x, sample.n_clusters),
        grouped_sums(codes, weights, sample.n_clusters),
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
        method = "drawn units"
        _add_drawn_units(totals, np.repeat(distinct, counts), generator)
    if denominators is None:
        return totals / n, method
    return totals.real / totals.imag, method


def _add_drawn_units(totals: NDArray[Any], units: NDArray[Any], generator: np.random.Generator) -> None:
    """Add n draws out of the n ``units`` to each of the ``totals``.

    How many fall into each block of 256 is multinomial.  Within a block two random bytes draw two units, whose sum
    a table of all 65,536 pairs holds: half of the random numbers, and no look-up outside of the cache.
    """
    n = len(units)
    whole, rest = divmod(n, 256)
    chances = np.append(np.full(whole, 256 / n), [rest / n] if rest else [])
    rows = max(1, BLOCK // max(256, len(chances)))
    for start in range(0, len(totals), rows):
        part = totals[start : start + rows]
        drawn = generator.multinomial(n, chances, size=len(part))
        for block in range(whole):
            values = units[256 * block : 256 * (block + 1)]
            pairs, single = drawn[:, block] >> 1, drawn[:, block] & 1
            table = np.add.outer(values, values).ravel()
            count = int(pairs.sum())
            bits = generator.integers(0, 1 << 64, size=-(-count // 4), dtype=np.uint64)
            looked_up = bits.astype("<u8", copy=False).view("<u2")[:count]
            _add_runs(part, np.take(table, looked_up), pairs)
            part += single * values[generator.integers(0, 256, len(part))]
        if rest:
            _add_runs(
                part, units[256 * whole + generator.integers(0, rest, drawn[:, -1].sum())], drawn[:, -1]
            )


def _add_runs(totals: NDArray[Any], values: NDArray[Any], lengths: NDArray[np.int64]) -> None:
    """Add to each total the sum of its run of ``values``."""
    some = lengths > 0
    starts = np.cumsum(lengths) - lengths
    if some.any():
        totals[some] += np.add.reduceat(values, starts[some])


def _acceleration(numerators: NDArray[np.float64], denominators: NDArray[np.float64] | None) -> float:
    """Skewness of the jackknife over units, divided by 6 (Efron 1987); 0 where the units do not vary."""
    if denominators is None:
        denominators = np.ones(len(numerators))
    left_out = (order_free_sum(numerators) - numerators) / (order_free_sum(denominators) - denominators)
    pull = order_free_sum(left_out) / len(left_out) - left_out
    largest = float(np.abs(pull).max())
    if largest <= TIE * float(np.abs(left_out).max()):
        return 0.0
    pull /= largest
    return order_free_sum(pull**3) / (6 * math.pow(order_free_sum(pull**2), 1.5))
