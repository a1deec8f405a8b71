"""Ranks with their uncertainty: which places a forecaster may hold (Mogstad, Romano, Shaikh & Wilhelm 2024).

A rank jumps where two scores cross, so its bootstrap distribution does not cover the truth when forecasters
are close.  Differences do not jump: forecaster i is placed behind those who are significantly better and in
front of those who are significantly worse.  Her G - 1 differences are tested together, so that the whole set
covers her true rank with probability 1 - alpha: the level of a single test is the one at which the largest |z|
of normal variables with the same correlations errs with alpha, and each test then uses Student's t with its
own degrees of freedom.  The sets hold for each forecaster by herself, not for all of them at once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalkit.exact_sums import Floats

#: draws of the correlated normal variables
DRAWS = 4000
#: values closer than this share of the largest differ by rounding only
_ROUNDING = 1e-12


class RankSets(NamedTuple):
    """Rank 1 is best.  ``low`` to ``high`` covers the true rank; ties in value share the better rank."""

    rank: NDArray[np.intp]
    low: NDArray[np.intp]
    high: NDArray[np.intp]


def rank_sets(value: Floats, covariance: Floats, df: Floats, alpha: float, seed: int) -> RankSets:
    """Ranks of ``value`` (G,), small is good, with ``covariance`` (G, G) and degrees of freedom ``df`` (G,).

    A forecaster without a variance (NaN) may hold any place, and no other is placed against her.
    """
    from scipy.special import ndtr, stdtrit

    n = len(value)
    slack = _ROUNDING * float(np.max(np.abs(value), initial=0.0, where=np.isfinite(value)))
    rank = 1 + (value[:, None] > value[None, :] + slack).sum(axis=1)
    low, high = np.ones(n, dtype=np.intp), np.full(n, n, dtype=np.intp)
    known = np.flatnonzero(np.isfinite(np.diag(covariance)) & (df > 0) & np.isfinite(value))
    cov = covariance[np.ix_(known, known)]
    size, vectors = np.linalg.eigh(cov)
    root = vectors * np.sqrt(np.clip(size, 0.0, None))
    draws = np.random.default_rng(seed).standard_normal((DRAWS, len(known))) @ root.T
    for at, i in enumerate(known):
        variance = cov[at, at] + np.diag(cov) - 2 * cov[at]
        # the variance between two who always score the same is rounding
        others = np.flatnonzero(variance > _ROUNDING * (cov[at, at] + np.diag(cov)))
        others = others[others != at]
        if len(others) == 0:
            continue
        se = np.sqrt(variance[others])
        largest = np.abs((draws[:, [at]] - draws[:, others]) / se).max(axis=1)
        level = 2 * float(ndtr(-np.quantile(largest, 1 - alpha)))
        # between Bonferroni and a single test, which is exact where there is one other
        level = alpha if len(others) == 1 else min(max(level, alpha / len(others)), alpha)
        limit = stdtrit(np.minimum(df[i], df[known[others]]), 1 - level / 2)
        t = (value[i] - value[known[others]]) / se
        low[i] += int((t > limit).sum())
        high[i] -= int((t < -limit).sum())
    return RankSets(rank.astype(np.intp), low, high)
