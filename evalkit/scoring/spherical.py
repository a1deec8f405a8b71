"""Spherical score (Good 1971; Gneiting & Raftery 2007): 1 - p_y / ‖p‖, the angle to what happened.

The reward p_y / ‖p‖ is turned round so that, as everywhere here, small is good and 0 is best.
"""

from __future__ import annotations

from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing, binary_items, categorical_items
from evalkit.scoring.rules import Common, Rule, scored
from evalkit.scoring.score import Score


@overload
def spherical_score(
    y: ArrayLike, p: ArrayLike, *, reduce: Literal["mean"] = ..., **common: Unpack[Common]
) -> Score: ...
@overload
def spherical_score(y: ArrayLike, p: ArrayLike, *, reduce: None, **common: Unpack[Common]) -> Floats: ...
def spherical_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
) -> Score | Floats:
    """Spherical score; shapes and errors as in `brier_score`."""
    p = floats(p, "p") if not hasattr(p, "index") else p
    rule: Rule
    if np.ndim(p) == 2:
        items = categorical_items(y, p, weights=weights, cluster=cluster, missing=missing)
        rule = _multiclass
    else:
        items = binary_items(y, p, weights=weights, cluster=cluster, missing=missing)
        rule = _binary
    convention = "1 - realized probability / length of the forecast vector, range 0-1, 0 is best"
    return scored(
        items, rule, name="spherical score", convention=convention, low=0.0, high=1.0, reduce=reduce
    )


# 1 - a/√(a² + b²) loses its digits where b is small: b²/(h (h + a)) with h = √(a² + b²) keeps them.
def _binary(y: Floats, p: Floats, out: Floats) -> Floats:
    happened, other = np.where(y == 1, p, 1 - p), np.where(y == 1, 1 - p, p)
    length = np.hypot(happened, other)
    np.divide(np.square(other), length * (length + happened), out)
    return out


def _multiclass(y: Floats, p: Floats, out: Floats) -> Floats:
    at = np.arange(len(p)), y.astype(np.intp)
    happened = p[at]
    squares = np.square(p)
    squares[at] = 0.0
    squares.sort(axis=1)  # the order of the classes must not change a bit
    others = squares.sum(axis=1)
    length = np.sqrt(others + np.square(happened))
    np.divide(others, length * (length + happened), out)
    return out
