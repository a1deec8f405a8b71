"""Brier score and logarithmic score, for binary and multiclass outcomes.

* Brier (1950): binary mean of (p - y)^2, range 0-1; multiclass sum over classes of (p_k - o_k)^2,
  range 0-2, halved with ``scale="half"`` so that two classes give the binary score.
* Log (Good 1952): -ln of the probability of what happened, in nats; infinite at p = 0, never clipped
  silently.

Means are exactly rounded sums (`math.fsum`) divided once, so that they do not depend on the order of
the items.
"""

from __future__ import annotations

import math
from typing import Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.scoring.score import Score

#: how far outside [0, 1] a probability may lie through rounding
_OUTSIDE = 1e-12
#: how far the probabilities of one item may be from summing to one
_UNNORMALISED = 1e-6

Missing = Literal["raise", "drop"]


@overload
def brier_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = ...,
    cluster: ArrayLike | None = ...,
    reduce: Literal["mean"] = ...,
    missing: Missing = ...,
    scale: Literal["full", "half"] = ...,
    allow_fractional: bool = ...,
) -> Score: ...
@overload
def brier_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = ...,
    cluster: ArrayLike | None = ...,
    reduce: None,
    missing: Missing = ...,
    scale: Literal["full", "half"] = ...,
    allow_fractional: bool = ...,
) -> NDArray[np.float64]: ...
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
) -> Score | NDArray[np.float64]:
    """Brier score.

    ``y``: shape (n,), 0 or 1 where ``p`` has shape (n,), a 0-based class where ``p`` has shape (n, K).
    ``weights``: shape (n,), non-negative.  ``cluster``: shape (n,), labels of dependent items.
    ``allow_fractional``: admit a binary y between 0 and 1.  Raises `ValueError` with index and value.
    """
    outcome, forecast, dropped = _inputs(y, p, missing, allow_fractional)
    if forecast.ndim == 1:
        items = (forecast - outcome) ** 2
        convention, high = "binary, range 0-1, 0 is best", 1.0
    else:
        happened = np.zeros_like(forecast)
        happened[np.arange(len(forecast)), outcome.astype(np.intp)] = 1.0
        items = np.array([math.fsum(row) for row in (forecast - happened) ** 2])
        convention, high = "multiclass, sum over classes, range 0-2, 0 is best", 2.0
        if scale == "half":
            items = items / 2
            convention, high = "multiclass, half the sum over classes, range 0-1, 0 is best", 1.0
    return _reduce("Brier score", convention, items, weights, cluster, reduce, dropped, high)


@overload
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = ...,
    cluster: ArrayLike | None = ...,
    reduce: Literal["mean"] = ...,
    missing: Missing = ...,
) -> Score: ...
@overload
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = ...,
    cluster: ArrayLike | None = ...,
    reduce: None,
    missing: Missing = ...,
) -> NDArray[np.float64]: ...
def log_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
) -> Score | NDArray[np.float64]:
    """Logarithmic score in nats; shapes and errors as in `brier_score`."""
    outcome, forecast, dropped = _inputs(y, p, missing, False)
    with np.errstate(divide="ignore"):
        if forecast.ndim == 1:
            items = np.where(outcome == 1, -np.log(forecast), -np.log1p(-forecast))
        else:
            items = -np.log(forecast[np.arange(len(forecast)), outcome.astype(np.intp)])
    items = items + 0.0  # -log(1) is -0.0
    convention = "negative log of the realized probability, nats, range 0 to infinity, 0 is best"
    return _reduce("log score", convention, items, weights, cluster, reduce, dropped, math.inf)


def _inputs(
    y: ArrayLike, p: ArrayLike, missing: Missing, allow_fractional: bool
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Validated outcome and forecast, and which of the given items were dropped."""
    outcome = np.asarray(y, dtype=np.float64)
    forecast = np.asarray(p, dtype=np.float64)
    if outcome.ndim != 1 or forecast.ndim not in (1, 2) or len(outcome) != len(forecast):
        raise ValueError(
            f"y has shape {outcome.shape} and p has shape {forecast.shape}: expected (n,) with (n,) or (n, K)"
        )
    if len(outcome) == 0:
        raise ValueError("no item to score")
    nan = np.isnan(outcome) | np.isnan(forecast.reshape(len(forecast), -1)).any(axis=1)
    if nan.any():
        if missing != "drop":
            raise ValueError(
                f"item {int(np.argmax(nan))} is NaN: correct it, or pass missing='drop' to count and drop"
            )
        outcome, forecast = outcome[~nan], forecast[~nan]
    if len(outcome) == 0:
        raise ValueError("no item to score")
    _check((forecast < -_OUTSIDE) | (forecast > 1 + _OUTSIDE), forecast, "a probability outside [0, 1]")
    forecast = np.clip(forecast, 0.0, 1.0)
    if forecast.ndim == 1:
        fractional = (outcome != 0) & (outcome != 1)
        wrong = (outcome < 0) | (outcome > 1) if allow_fractional else fractional
        _check(wrong, outcome, "an outcome that is neither 0 nor 1 (is y first, p second?)")
    else:
        classes = forecast.shape[1]
        wrong = (outcome != np.floor(outcome)) | (outcome < 0) | (outcome >= classes)
        _check(wrong, outcome, f"an outcome that is no class 0 … {classes - 1}")
        sums = np.array([math.fsum(row) for row in forecast])
        _check(np.abs(sums - 1) > _UNNORMALISED, sums, "probabilities that do not sum to one, but to")
    return outcome, forecast, nan


def _check(wrong: NDArray[np.bool_], values: NDArray[np.float64], what: str) -> None:
    if wrong.any():
        index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
        place = ", ".join(str(int(i)) for i in index)
        raise ValueError(f"item {place} has {what}: {float(values[index])!r}")


def _reduce(
    name: str,
    convention: str,
    items: NDArray[np.float64],
    weights: ArrayLike | None,
    cluster: ArrayLike | None,
    reduce: Literal["mean"] | None,
    dropped: NDArray[np.bool_],
    high: float,
) -> Score | NDArray[np.float64]:
    weight = _aligned(weights, dropped, "weights")
    _aligned(cluster, dropped, "cluster")
    if reduce is None:
        return items
    if reduce != "mean":
        raise ValueError(f"reduce={reduce!r}: expected 'mean' or None")
    if weight is None:
        value = math.fsum(items) / len(items)
    else:
        w = weight.astype(np.float64)
        if not np.isfinite(w).all() or (w < 0).any() or not (w > 0).any():
            raise ValueError("weights must be finite, not negative, and not all zero")
        # an item of weight zero does not count, even where its score is infinite
        counted = w > 0
        value = math.fsum(w[counted] * items[counted]) / math.fsum(w)
    return Score(
        name=name,
        convention=convention,
        value=value,
        n=len(items),
        n_dropped=int(dropped.sum()),
        low=0.0,
        high=high,
        items=items,
        weighted=weight is not None,
        clustered=cluster is not None,
    )


def _aligned(values: ArrayLike | None, dropped: NDArray[np.bool_], name: str) -> NDArray[Any] | None:
    if values is None:
        return None
    array = np.asarray(values)
    if array.shape != dropped.shape:
        raise ValueError(f"{name} has shape {array.shape}: expected {dropped.shape}")
    kept: NDArray[Any] = array[~dropped]
    return kept
