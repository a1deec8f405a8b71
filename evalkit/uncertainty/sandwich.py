"""Standard error of a mean whose items come in clusters, with degrees of freedom that few clusters deserve.

Items of one cluster (questions of a document, attempts at a task, days of a race) share luck, so n items are
worth less than n independent ones.  With residuals e_i = x_i - mean, the residual sum u_g of cluster g and
weights w_i (1 where none are given, W their sum):

``cr0``  sum_g u_g^2 / W^2 (Liang & Zeger 1986); t with G - 1 degrees of freedom
``cr1``  the same times G / (G - 1)
``cr2``  each u_g^2 is scaled so that it is unbiased where items are in truth independent with one variance;
         Satterthwaite degrees of freedom under the same working model (Bell & McCaffrey 2002)

Without weights the scale is 1 / (1 - n_g / n), the same as of the general matrix formula.  With weights the mean
is a ratio estimator, and each squared sum is scaled by q_g / Var(u_g), where q_g = sum of w_i^2 in g and
Var(u_g) = q_g (1 - s_g)^2 + s_g^2 (Q - q_g) with s_g = W_g / W and Q = sum_g q_g.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.exact_sums import grouped_sums, order_free_sum
from evalkit.uncertainty.gaffke import Interval
from evalkit.uncertainty.sample import Sample, checked_sample

if TYPE_CHECKING:
    import pandas as pd

Kind = Literal["cr0", "cr1", "cr2"]

#: below this many clusters a result says that they are few
FEW_CLUSTERS = 30


@dataclass(frozen=True)
class ClusterSE:
    """Item-weighted mean of clustered items with its standard error.

    ``se`` and ``df`` are NaN where they are undefined; ``reason`` then says why.  ``n`` counts items,
    ``n_clusters`` the independent units.  ``caveats`` are sentences for the reader.
    """

    mean: float
    se: float
    df: float
    n: int
    n_clusters: int
    kind: Kind
    reason: str = ""
    caveats: tuple[str, ...] = ()

    def interval(self, alpha: float = 0.05) -> Interval:
        """Two-sided interval at level 1 - alpha: Student t with ``df`` degrees of freedom."""
        return t_interval(self.mean, self.se, self.df, alpha)

    def summary(self) -> str:
        said = f"{self.mean:.6g} ± {self.se:.4g} ({self.kind.upper()}, df = {self.df:.1f}"
        notes = " ".join(note for note in (self.reason, *self.caveats) if note)
        return f"{said}; n = {self.n}, {self.n_clusters} cluster{'s' * (self.n_clusters != 1)})" + (
            f" {notes}" if notes else ""
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        return pd.DataFrame(
            [
                {"mean": self.mean, "se": self.se, "df": self.df, "low": low, "high": high,
                 "n": self.n, "n_clusters": self.n_clusters, "kind": self.kind,
                 "reason": self.reason, "caveats": " ".join(self.caveats)}
            ]
        )  # fmt: skip

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def cluster_se(
    x: ArrayLike, cluster: ArrayLike, kind: Kind = "cr2", weights: ArrayLike | None = None
) -> ClusterSE:
    """Mean of ``x`` (n,) with a standard error that is robust to dependence within ``cluster`` (n,).

    ``weights`` (n,), not negative, make it the ratio estimator sum(w x) / sum(w).  Fewer than two clusters or
    an infinite value: the standard error is NaN with a reason.  Raises `ValueError` on NaN and bad shapes.
    """
    if kind not in get_args(Kind):
        raise ValueError(f"kind = {kind!r}: expected one of {', '.join(get_args(Kind))}")
    return sample_se(checked_sample(x, weights, cluster), kind)


def sample_se(sample: Sample, kind: Kind = "cr2") -> ClusterSE:
    """`cluster_se` of a checked sample; without clusters each item is one of its own."""
    n = len(sample.x)
    n_clusters = n if sample.n_clusters is None else sample.n_clusters
    mean = sample_mean(sample)
    if n_clusters < 2:
        unit = "cluster" if sample.codes is not None else "item"
        reason = f"{n_clusters} {unit}{'' if n_clusters == 1 else 's'}: a standard error needs at least two."
        return ClusterSE(mean, math.nan, math.nan, n, n_clusters, kind, reason)
    if not sample.finite:
        reason = "An item is infinite: no standard error exists."
        return ClusterSE(mean, math.nan, math.nan, n, n_clusters, kind, reason)
    weight, squared_weight, residual = cluster_totals(sample, mean)
    total = order_free_sum(weight)
    if kind == "cr2":
        scale, df = bell_mccaffrey(weight / total, squared_weight)
    else:
        scale = np.full(n_clusters, n_clusters / (n_clusters - 1) if kind == "cr1" else 1.0)
        df = float(n_clusters - 1)
    largest = float(np.abs(residual).max())
    se = 0.0
    if largest > 0:  # the squares of shares of the largest do not underflow
        se = largest * math.sqrt(order_free_sum(scale * (residual / largest) ** 2)) / total
    caveats: tuple[str, ...] = ()
    if sample.codes is not None and n_clusters < FEW_CLUSTERS:
        caveats = (
            f"Only {n_clusters} clusters: below {FEW_CLUSTERS} the standard error is itself uncertain.",
        )
    return ClusterSE(mean, se, df, n, n_clusters, kind, caveats=caveats)


def sample_mean(sample: Sample) -> float:
    """Weighted mean; infinite where an item is, NaN where there is none or where +inf meets -inf."""
    x, weights = sample.x, sample.weights
    if x.size == 0:
        return math.nan
    if not sample.finite:
        infinite = x[np.isinf(x)]
        return float(infinite[0]) if (infinite == infinite[0]).all() else math.nan
    if x.min() == x.max():
        return float(x[0])
    if weights is None:
        return order_free_sum(x) / len(x)
    return order_free_sum(weights * x) / order_free_sum(weights)


def t_interval(mean: float, se: float, df: float, alpha: float) -> Interval:
    """mean ± t * se with ``df`` degrees of freedom, NaN where a part is."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
    if math.isnan(se) or math.isnan(df) or not math.isfinite(mean):
        return Interval(math.nan, math.nan)
    from scipy.special import stdtrit

    reach = -float(stdtrit(df, alpha / 2)) * se  # 1 - alpha / 2 would be 1 for a tiny alpha
    return Interval(mean - reach, mean + reach)


def cluster_totals(
    sample: Sample, mean: float
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """For each cluster: sum of weights, of squared weights, and of weighted residuals."""
    x, weights, codes = sample.x, sample.weights, sample.codes
    residuals = x - mean if weights is None else weights * (x - mean)
    if codes is None:
        ones = np.ones(len(x))
        return (ones, ones, residuals) if weights is None else (weights, weights**2, residuals)
    assert sample.n_clusters is not None
    residual = grouped_sums(codes, residuals, sample.n_clusters)
    if weights is None:
        size = np.bincount(codes, minlength=sample.n_clusters).astype(np.float64)
        return size, size, residual
    weight = grouped_sums(codes, weights, sample.n_clusters)
    return weight, grouped_sums(codes, weights**2, sample.n_clusters), residual


def cr2_scale(
    share: NDArray[np.float64], squared_weight: NDArray[np.float64], everything: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Scale of each squared residual sum, for clusters of a share of the weights; shapes broadcast.

    ``squared_weight``: sum of squared weights in the cluster, ``everything``: in all clusters.
    """
    return squared_weight / (squared_weight * (1 - share) ** 2 + share**2 * (everything - squared_weight))


def bell_mccaffrey(
    share: NDArray[np.float64], squared_weight: NDArray[np.float64]
) -> tuple[NDArray[np.float64], float]:
    """Scale of each squared residual sum, and the degrees of freedom of their total.

    With the vectors v_g = c_g (w on g, minus s_g w everywhere), Satterthwaite's formula is
    (sum_g v_g.v_g)^2 / sum_gh (v_g.v_h)^2.  Here v_g.v_g = q_g, and off the diagonal
    v_g.v_h = -c_g c_h (s_h t_g + s_g t_h) with t = q - s Q / 2: prefix sums do in O(G) what the matrix does in
    O(G^2).  Clusters are taken from small to large, so that nothing is lost to cancellation where one dominates.
    """
    everything = order_free_sum(squared_weight)
    scale = cr2_scale(share, squared_weight, everything)
    if (share == share[0]).all() and (squared_weight == squared_weight[0]).all():
        return scale, float(len(share) - 1)
    order = np.lexsort((squared_weight, share))
    s, q, c2 = share[order], squared_weight[order], scale[order]
    t = q - s * (everything / 2)
    products = (c2 * t**2, 2 * c2 * s * t, c2 * s**2)
    before_t2, before_st, before_s2 = (np.append(0.0, np.cumsum(p)[:-1]) for p in products)
    off_diagonal = 2 * float(np.sum(c2 * (s**2 * before_t2 + s * t * before_st + t**2 * before_s2)))
    return scale, everything**2 / (float(np.sum(q**2)) + off_diagonal)
