"""The interval of a mean, by the method that its data can bear.

`ROUTES` is the table: the first row whose condition holds decides, and its reason is part of the result.  What
the rows rest on: below about a thousand items the t interval of a bounded variable misses rare large values
(coverage .40 at n = 5 where one item in ten is a large regression), while Gaffke's does not; clustered items are
worth less than independent ones (`evalkit.uncertainty.sandwich`); equal values have a standard error of zero,
which is no evidence of certainty.  A large n alone makes no mean normal: with three events expected in 1001 items,
or in a million, t covers .84; from about a hundred on it covers .947.  So lopsided values stay with Gaffke's, and
where there is no other interval than t a caveat says so.  An interval never reaches beyond [lo, hi].
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from evalkit.exact_sums import order_free_sum
from evalkit.uncertainty.gaffke import Interval, gaffke_interval
from evalkit.uncertainty.sample import Sample, checked_sample
from evalkit.uncertainty.sandwich import ClusterSE, cluster_totals, sample_se

if TYPE_CHECKING:
    import pandas as pd

#: up to this many independent items in a bounded range, Gaffke's interval is the primary one
GAFFKE_UP_TO = 1000
#: fewest clusters with which Bell-McCaffrey intervals hold their level, and fewest that allow a statement
ENOUGH_CLUSTERS, SOME_CLUSTERS = 12, 6
#: below this many items, an unbounded t interval leans on near-normal values
NEAR_NORMAL_BELOW = 30
#: lopsidedness of the mean (its skewness) above which bounded items stay with Gaffke's interval, and t is doubted
LOPSIDED, VERY_LOPSIDED = 0.1, 0.25
#: a standard error below this share of the largest value is what rounding leaves of zero
ROUNDING = 1e-14


LOPSIDED_CAVEAT = "Few values decide the mean: where large ones are rare the interval may be too short."


@dataclass(frozen=True)
class MeanInterval:
    """A two-sided interval of a mean at level 1 - ``alpha``, and why it was computed so.

    ``low`` and ``high`` are NaN where no interval exists.  ``n`` counts items, ``n_clusters`` is None where
    items are independent.  ``caveats`` are sentences for the reader.
    """

    mean: float
    low: float
    high: float
    alpha: float
    method: str
    reason: str
    n: int
    n_clusters: int | None
    caveats: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[float]:
        """Low and high: ``low, high = mean_interval(x)``."""
        return iter((self.low, self.high))

    def summary(self) -> str:
        size = f"n = {self.n}" + (
            "" if self.n_clusters is None else f", {self.n_clusters} cluster{'s' * (self.n_clusters != 1)}"
        )
        if math.isnan(self.low):
            return f"{self.mean:.6g}, no interval: {self.reason} ({size})"
        level = f"{100 * (1 - self.alpha):g} %"
        notes = "".join(f" {caveat}" for caveat in self.caveats)
        return f"{self.mean:.6g} [{self.low:.6g}, {self.high:.6g}] ({level}, {self.method}; {size}){notes}"

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame(
            [
                {"mean": self.mean, "low": self.low, "high": self.high, "alpha": self.alpha,
                 "method": self.method, "reason": self.reason, "n": self.n, "n_clusters": self.n_clusters,
                 "caveats": " ".join(self.caveats)}
            ]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


@dataclass(frozen=True)
class Case:
    """What the table decides on."""

    sample: Sample
    se: ClusterSE
    lo: float
    hi: float
    alpha: float

    @property
    def bounded(self) -> bool:
        return math.isfinite(self.lo) and math.isfinite(self.hi)

    @property
    def clustered(self) -> bool:
        return self.sample.codes is not None

    @property
    def clusters(self) -> int:
        return self.se.n_clusters

    @property
    def n(self) -> int:
        return self.se.n

    @property
    def weighted(self) -> bool:
        return self.sample.weights is not None

    @property
    def no_spread(self) -> bool:
        """All items are equal, or all cluster means are, up to rounding: the standard error is zero."""
        return self.se.se <= ROUNDING * float(np.abs(self.sample.x).max())

    @cached_property
    def lopsidedness(self) -> float:
        """Absolute skewness of the mean, from 0 to 1, estimated from items or cluster sums; 0 without spread."""
        residual = cluster_totals(self.sample, self.se.mean)[2]
        largest = float(np.abs(residual).max(initial=0.0))
        if largest == 0:
            return 0.0
        shares = residual / largest
        return abs(order_free_sum(shares**3)) / math.pow(order_free_sum(shares**2), 1.5)


def _none(case: Case) -> Interval:
    return Interval(math.nan, math.nan)


def _gaffke(case: Case) -> Interval:
    return gaffke_interval(case.sample.x, case.lo, case.hi, case.alpha)


def _gaffke_of_equal_units(case: Case) -> Interval:
    units = np.full(case.clusters, min(max(case.se.mean, case.lo), case.hi))
    return gaffke_interval(units, case.lo, case.hi, case.alpha)


def _t(case: Case) -> Interval:
    low, high = case.se.interval(case.alpha)
    return Interval(max(low, case.lo), min(high, case.hi))


@dataclass(frozen=True)
class Route:
    """One row: where it applies, what is computed, and why."""

    applies: Callable[[Case], bool]
    method: str
    interval: Callable[[Case], Interval]
    reason: str
    caveat: str = ""


ROUTES = (
    Route(lambda c: c.n == 0, "none", _none,
          "There are no items."),
    Route(lambda c: not c.sample.finite, "none", _none,
          "An item is infinite, so the mean is, and no interval exists."),
    Route(lambda c: c.clustered and c.clusters < 2, "none", _none,
          "All items are of one cluster: nothing says how clusters vary."),
    Route(lambda c: not c.clustered and c.n < 2 and not c.bounded, "none", _none,
          "One item in an unbounded range: nothing says how items vary."),
    Route(lambda c: c.no_spread and not c.bounded, "none", _none,
          "All values are equal in an unbounded range: a standard error of zero is no evidence of certainty."),
    Route(lambda c: c.no_spread and c.clustered, "gaffke on cluster means", _gaffke_of_equal_units,
          "All cluster means are equal, so their spread is unknown: Gaffke's interval has width all the same."),
    Route(lambda c: c.clustered and c.clusters < SOME_CLUSTERS, "cr2-t", _t,
          "Clustered items: CR2 standard error, t with Bell-McCaffrey degrees of freedom.",
          f"With fewer than {SOME_CLUSTERS} clusters the interval shows the scale of the uncertainty only."),
    Route(lambda c: c.clustered and c.clusters < ENOUGH_CLUSTERS, "cr2-t", _t,
          "Clustered items: CR2 standard error, t with Bell-McCaffrey degrees of freedom.",
          f"With fewer than {ENOUGH_CLUSTERS} clusters the level holds for similar clusters only."),
    Route(lambda c: c.clustered, "cr2-t", _t,
          "Clustered items: CR2 standard error, t with Bell-McCaffrey degrees of freedom."),
    Route(lambda c: c.bounded and (c.n < 2 or c.no_spread), "gaffke", _gaffke,
          "No spread to estimate from: Gaffke's interval has width all the same."),
    Route(lambda c: c.weighted, "linearised-t", _t,
          "Weighted independent items: linearised standard error of the ratio, each item a cluster of its own (CR2)."),
    Route(lambda c: c.bounded and c.n <= GAFFKE_UP_TO, "gaffke", _gaffke,
          f"Independent items in a bounded range, n ≤ {GAFFKE_UP_TO}: Gaffke's interval holds at any n."),
    Route(lambda c: c.bounded and c.lopsidedness > LOPSIDED, "gaffke", _gaffke,
          f"Independent items in a bounded range, n > {GAFFKE_UP_TO}, but few of them decide the mean: it is not near "
          "normal, and Gaffke's interval holds all the same."),
    Route(lambda c: c.n > GAFFKE_UP_TO, "t", _t,
          f"Independent items, n > {GAFFKE_UP_TO}: Student t."),
    Route(lambda c: c.n < NEAR_NORMAL_BELOW, "t", _t,
          "Independent items in an unbounded range: Student t.",
          f"With n < {NEAR_NORMAL_BELOW} it holds for nearly normal values only; a bounded range would allow more."),
    Route(lambda c: True, "t", _t,
          "Independent items in an unbounded range: Student t."),
)  # fmt: skip


def mean_interval(
    x: ArrayLike,
    *,
    lo: float | None = None,
    hi: float | None = None,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    alpha: float = 0.05,
) -> MeanInterval:
    """Two-sided interval of the (weighted) mean of ``x`` (n,) at level 1 - alpha, by `ROUTES`.

    ``lo`` and ``hi`` are the range that a value can take, None where there is no bound; ``cluster`` (n,) labels
    dependent items.  Infinite values, too few items or clusters: NaN with a reason.  Raises `ValueError` on NaN,
    bad shapes, a value outside of the range.
    """
    lowest = -math.inf if lo is None else float(lo)
    highest = math.inf if hi is None else float(hi)
    if not lowest < highest:
        raise ValueError(f"the range [{lowest}, {highest}] must have lo < hi")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
    sample = checked_sample(x, weights, cluster)
    outside = (sample.x < lowest) | (sample.x > highest)
    if outside.any():
        wrong = float(sample.x[outside].min())
        raise ValueError(f"x holds {wrong:g}, outside of its range [{lowest:g}, {highest:g}]")
    case = Case(sample, sample_se(sample, "cr2"), lowest, highest, alpha)
    route = next(row for row in ROUTES if row.applies(case))
    low, high = route.interval(case)
    caveats: tuple[str, ...] = ()
    if route.interval is _t:
        doubt = LOPSIDED_CAVEAT if case.lopsidedness > VERY_LOPSIDED else ""
        caveats = tuple(note for note in (route.caveat, *case.se.caveats, doubt) if note)
    return MeanInterval(
        case.se.mean, low, high, alpha, route.method, route.reason, case.n, sample.n_clusters, caveats
    )
