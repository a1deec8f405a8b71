"""Brier score (Brier 1950): squared distance of the forecast from what happened.

Binary: mean of (p - y)², range 0-1.  Multiclass: mean of Σ_k (p_k - o_k)², range 0-2; ``scale="half"``
halves it, so that two classes give the binary score.  Also called the quadratic score.
"""

from __future__ import annotations

from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing, binary_items, categorical_items
from evalkit.scoring.rules import Common, scored
from evalkit.scoring.score import Score


@overload
def brier_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    reduce: Literal["mean"] = ...,
    scale: Literal["full", "half"] = ...,
    allow_fractional: bool = ...,
    missing_branch: Literal["raise", "zero"] = ...,
    **common: Unpack[Common],
) -> Score: ...
@overload
def brier_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    reduce: None,
    scale: Literal["full", "half"] = ...,
    allow_fractional: bool = ...,
    missing_branch: Literal["raise", "zero"] = ...,
    **common: Unpack[Common],
) -> Floats: ...
def brier_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
    scale: Literal["full", "half"] = "full",
    allow_fractional: bool = False,
    missing_branch: Literal["raise", "zero"] = "raise",
) -> Score | Floats:
    """Brier score (Brier 1950).

    ``y``: shape (n,), 0 or 1 where ``p`` has shape (n,), a 0-based class where ``p`` has shape (n, K).
    ``weights``: shape (n,), non-negative.  ``cluster``: shape (n,), labels of dependent items, for the
    interval.  ``allow_fractional``: admit a binary y between 0 and 1.  ``missing_branch="zero"``: a class
    without a forecast column had probability 0.  Raises `ValueError` with index and value.
    """
    if scale not in ("full", "half"):
        raise ValueError(f"scale={scale!r}: expected 'full' or 'half'")
    p = floats(p, "p") if not hasattr(p, "index") else p
    if np.ndim(p) == 2:
        items = categorical_items(
            y, p, weights=weights, cluster=cluster, missing=missing, missing_branch=missing_branch
        )
        convention, high, rule = "multiclass, sum over classes, range 0-2, 0 is best", 2.0, _multiclass
        if scale == "half":
            convention, high = "multiclass, half the sum over classes, range 0-1, 0 is best", 1.0
            rule = _half
    else:
        items = binary_items(
            y, p, weights=weights, cluster=cluster, missing=missing, allow_fractional=allow_fractional
        )
        convention, high, rule = "binary, range 0-1, 0 is best", 1.0, _binary
    return scored(items, rule, name="Brier score", convention=convention, low=0.0, high=high, reduce=reduce)


def _binary(y: Floats, p: Floats, out: Floats) -> Floats:
    np.subtract(p, y, out)
    return np.multiply(out, out, out)


def _multiclass(y: Floats, p: Floats, out: Floats) -> Floats:
    happened = np.zeros_like(p)
    happened[np.arange(len(p)), y.astype(np.intp)] = 1.0
    squares = np.square(p - happened)
    squares.sort(axis=1)  # the order of the classes must not change a bit either
    return squares.sum(axis=1, out=out)


def _half(y: Floats, p: Floats, out: Floats) -> Floats:
    return np.multiply(_multiclass(y, p, out), 0.5, out)
