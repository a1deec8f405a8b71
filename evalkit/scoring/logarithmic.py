"""Logarithmic score (Good 1952): the negative log of the probability of what happened, in nats.

It is infinite where the impossible happened.  Nothing is clipped silently: ``clip=ε`` moves probabilities
into [ε, 1 - ε] and the convention of the result says so.
"""

from __future__ import annotations

import math
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing, binary_items, categorical_items
from evalkit.scoring.rules import Common, Rule, scored
from evalkit.scoring.score import Score


@overload
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    reduce: Literal["mean"] = ...,
    clip: float | None = ...,
    missing_branch: Literal["raise", "zero"] = ...,
    **common: Unpack[Common],
) -> Score: ...
@overload
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    reduce: None,
    clip: float | None = ...,
    missing_branch: Literal["raise", "zero"] = ...,
    **common: Unpack[Common],
) -> Floats: ...
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
    clip: float | None = None,
    missing_branch: Literal["raise", "zero"] = "raise",
) -> Score | Floats:
    """Logarithmic score (Good 1952); shapes and errors as in `brier_score`.

    ``clip``: ε in (0, ½); probabilities are moved into [ε, 1 - ε] (binary) or up to ε (multiclass) first.
    """
    if clip is not None and not 0 < clip < 0.5:
        raise ValueError(f"clip={clip!r}: expected None or a number between 0 and 0.5")
    least = 0.0 if clip is None else clip
    p = floats(p, "p") if not hasattr(p, "index") else p
    if np.ndim(p) == 2:
        items = categorical_items(
            y, p, weights=weights, cluster=cluster, missing=missing, missing_branch=missing_branch
        )
        rule = _multiclass(least)
    else:
        items = binary_items(y, p, weights=weights, cluster=cluster, missing=missing)
        rule = _binary(least)
    convention = "negative log of the realized probability, nats, range 0 to infinity, 0 is best"
    if clip is not None:
        convention += f"; probabilities clipped at {clip:g}"
    high = math.inf if clip is None else -math.log(clip)
    return scored(items, rule, name="log score", convention=convention, low=0.0, high=high, reduce=reduce)


def _binary(least: float) -> Rule:
    def rule(y: Floats, p: Floats, out: Floats) -> Floats:
        # the probability of what happened would lose its digits near 1: log1p keeps them
        with np.errstate(divide="ignore"):
            np.log(p, where=y == 1, out=out)
            np.log1p(-p, where=y == 0, out=out)
        np.subtract(0.0, out, out)  # not np.negative: a certain forecast scores 0, not -0
        # the score is clipped, not the probability: 1 - ε loses the digits of ε, and is 1 below 1e-16
        return np.clip(out, -math.log1p(-least), -math.log(least), out=out) if least else out

    return rule


def _multiclass(least: float) -> Rule:
    def rule(y: Floats, p: Floats, out: Floats) -> Floats:
        with np.errstate(divide="ignore"):
            np.log(np.maximum(p[np.arange(len(p)), y.astype(np.intp)], least), out)
        np.subtract(0.0, out, out)
        return np.minimum(out, -math.log(least), out=out) if least else out

    return rule
