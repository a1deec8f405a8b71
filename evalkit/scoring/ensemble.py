"""Continuous ranked probability score of an ensemble (Matheson & Winkler 1976; Gneiting & Raftery 2007).

CRPS = E|X - y| - ½ E|X - X'|, in the units of y.  ``estimator="empirical"`` takes the M members as the whole
distribution; ``"fair"`` (Ferro 2014) as a sample of it: the second term divides by M(M - 1), which makes
ensembles of different size comparable.
"""

from __future__ import annotations

import math
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing, real_items
from evalkit.scoring.rules import Common, scored
from evalkit.scoring.score import Score

Estimator = Literal["empirical", "fair"]


@overload
def crps_ensemble(
    y: ArrayLike,
    p: ArrayLike,
    *,
    reduce: Literal["mean"] = ...,
    estimator: Estimator = ...,
    **common: Unpack[Common],
) -> Score: ...
@overload
def crps_ensemble(
    y: ArrayLike, p: ArrayLike, *, reduce: None, estimator: Estimator = ..., **common: Unpack[Common]
) -> Floats: ...
def crps_ensemble(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
    estimator: Estimator = "empirical",
) -> Score | Floats:
    """CRPS of ensembles ``p`` (n, M) of M members, or of point forecasts (n,): then the absolute error.

    An item with a missing member is missing as a whole.  ``"fair"`` needs M ≥ 2.
    """
    if estimator not in ("empirical", "fair"):
        raise ValueError(f"estimator={estimator!r}: expected 'empirical' or 'fair'")
    items = real_items(y, p, weights=weights, cluster=cluster, missing=missing)
    members = 1 if items.p.ndim == 1 else items.p.shape[1]
    if estimator == "fair" and members < 2:
        raise ValueError("estimator='fair' needs at least two members an item")
    pairs = members * members if estimator == "empirical" else members * (members - 1)
    # Σ_{i,j} |x_i - x_j| = 2 Σ_i (2i - M + 1) x_(i) over the sorted members
    spread_weights = (2.0 * np.arange(members) - members + 1) / pairs

    def rule(y: Floats, p: Floats, out: Floats) -> Floats:
        off = p.reshape(len(p), -1) - y[:, None]  # about y, so that large values lose no digits
        off = np.sort(off, axis=1)  # sorted, so that the order of the members does not change a bit
        np.subtract(np.abs(off).mean(axis=1), (off * spread_weights).sum(axis=1), out)
        return out

    convention = f"{estimator} ensemble of {members}, units of y, 0 is best"
    low = 0.0 if estimator == "empirical" else -math.inf
    return scored(items, rule, name="CRPS", convention=convention, low=low, high=math.inf, reduce=reduce)
