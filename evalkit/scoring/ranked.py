"""Ranked probability score (Epstein 1969; Murphy 1971) for ordered classes.

RPS = Σ_{k<K} (F_k - O_k)² with the cumulative forecast F and the cumulative outcome O: a forecast is judged
by how far from the outcome it put its probability, not only by how much it put elsewhere.  Range 0 to K - 1;
``normalize=True`` divides by K - 1.
"""

from __future__ import annotations

from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing, categorical_items
from evalkit.scoring.rules import Common, scored
from evalkit.scoring.score import Score


@overload
def ranked_probability_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    reduce: Literal["mean"] = ...,
    normalize: bool = ...,
    **common: Unpack[Common],
) -> Score: ...
@overload
def ranked_probability_score(
    y: ArrayLike, p: ArrayLike, *, reduce: None, normalize: bool = ..., **common: Unpack[Common]
) -> Floats: ...
def ranked_probability_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
    normalize: bool = False,
) -> Score | Floats:
    """Ranked probability score of ``p`` (n, K), K ≥ 2 ordered classes, with ``y`` (n,) 0-based classes.

    Raises `ValueError` with index and value, as `brier_score` does.
    """
    items = categorical_items(y, p, weights=weights, cluster=cluster, missing=missing)
    steps = items.p.shape[1] - 1
    if steps < 1:
        raise ValueError("p has one class: expected at least two ordered classes")
    factor, high = (1.0 / steps, 1.0) if normalize else (1.0, float(steps))

    def rule(y: Floats, p: Floats, out: Floats) -> Floats:
        # Class by class, so that every step runs over the items of the chunk: K is small, n is not.
        ahead = np.zeros(len(p))
        step = np.empty(len(p))
        out.fill(0.0)
        for k in range(steps):
            np.add(ahead, p[:, k], ahead)
            np.subtract(ahead, y <= k, step)
            np.multiply(step, step, step)
            np.add(out, step, out)
        return np.multiply(out, factor, out) if normalize else out

    convention = f"{steps + 1} ordered classes, " + (
        "divided by classes - 1, range 0-1, 0 is best"
        if normalize
        else f"sum over thresholds, range 0-{steps}, 0 is best"
    )
    return scored(
        items,
        rule,
        name="ranked probability score",
        convention=convention,
        low=0.0,
        high=high,
        reduce=reduce,
    )
