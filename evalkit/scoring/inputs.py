"""Outcomes and forecasts, checked once and in one way for every rule and every diagram.

Rules
- The observation comes first, the forecast second.  A Brier score is the same with the two swapped, so the
  check that an outcome is 0 or 1 is the only guard.
- A probability outside [0, 1] by more than rounding (1e-12) is an error with its index and value; within
  rounding it is moved to the end.  The probabilities of one item may miss one by 1e-6 and are used as given.
- NaN, None and masked values are missing.  They are an error, or dropped and counted; never filled in.
- Two pandas objects must carry the same index: nothing is paired by position that has names.
- Nothing is copied that is float64 already, and memory does not grow with n while checking.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.arrays import first_missing, floats, same_index
from evalkit.exact_sums import Floats, chunks
from evalkit.uncertainty.sample import cluster_codes, scaled_weights

#: how far outside [0, 1] a probability may lie through rounding
OUTSIDE = 1e-12
#: how far the probabilities of one item may be from summing to one
UNNORMALISED = 1e-6
#: how large a real outcome or forecast may be, so that squares of scores stay finite
LARGEST = 1e130

Missing = Literal["raise", "drop"]
Labels = NDArray[Any]


@dataclass(frozen=True)
class Items:
    """Validated items: outcome ``y`` (n,), forecast ``p`` (n,) or (n, K), float64.

    ``weights`` (n,) float64 or None, ``cluster`` (n,) labels or None, ``n_dropped`` items left out because
    y or p was missing.
    """

    y: Floats
    p: Floats
    weights: Floats | None
    cluster: Labels | None
    n_dropped: int

    def __len__(self) -> int:
        return len(self.y)

    @property
    def n_counted(self) -> int:
        """Items that count: those of a weight above zero."""
        return len(self.y) if self.weights is None else int(np.count_nonzero(self.weights))


def binary_items(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    allow_fractional: bool = False,
) -> Items:
    """Items with outcomes 0 or 1 and one probability each, shapes (n,) and (n,).

    ``allow_fractional`` admits outcomes between 0 and 1 (ties, market values).  Raises `ValueError` with
    index and value.
    """
    given = floats(p, "p")
    sound = given.ndim == 1 and given.size > 0 and bool(given.min() >= 0 and given.max() <= 1)
    p = given if type(p) is np.ndarray else p  # what has an index keeps it for the comparison
    items = _aligned(y, p, (1,), weights, cluster, missing, complete=sound)
    forecast = items.p if sound else _probabilities(items.p)
    _outcomes(items.y, allow_fractional)
    return (
        items
        if forecast is items.p
        else Items(items.y, forecast, items.weights, items.cluster, items.n_dropped)
    )


def categorical_items(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    missing_branch: Literal["raise", "zero"] = "raise",
) -> Items:
    """Items with 0-based classes as outcomes and K probabilities each, shapes (n,) and (n, K).

    ``missing_branch="zero"``: an outcome K or above is a class that the forecast left out, with
    probability 0; all of these become class K, with a column of its own.  Raises `ValueError` with index and value.
    """
    given = floats(p, "p")
    sound = given.ndim == 2 and given.size > 0 and _all_distributions(given)
    p = given if type(p) is np.ndarray else p  # what has an index keeps it for the comparison
    items = _aligned(y, p, (2,), weights, cluster, missing, complete=sound)
    forecast = items.p
    classes = forecast.shape[1]
    if not sound:
        forecast = _probabilities(forecast)
        for part in chunks(len(items)):
            sums = forecast[part].sum(axis=1)
            wrong = np.abs(sums - 1) > UNNORMALISED
            if wrong.any():
                _fail(
                    wrong, sums, part.start, "probabilities that do not sum to one, but to", "normalise them"
                )
    highest = classes - 1 if missing_branch == "raise" else sys.float_info.max
    for part in chunks(len(items)):
        outcome = items.y[part]
        wrong = (outcome != np.floor(outcome)) | (outcome < 0) | (outcome > highest)
        if wrong.any():
            _fail(
                wrong,
                outcome,
                part.start,
                f"an outcome that is no class 0 … {classes - 1}",
                "number the classes from 0; missing_branch='zero' gives classes that have no forecast "
                "probability 0",
            )
    outcome = items.y
    if outcome.max() >= classes:  # one column will do: all classes without a forecast had probability 0
        forecast = np.hstack([forecast, np.zeros((len(forecast), 1))])
        outcome = np.minimum(outcome, classes)
    return Items(outcome, forecast, items.weights, items.cluster, items.n_dropped)


def real_items(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
) -> Items:
    """Items with real outcomes (n,) and one or more real numbers forecast for each, (n,) or (n, M).

    All are finite, and so small that the squares of their differences are.
    """
    items = _aligned(y, p, (1, 2), weights, cluster, missing)
    for name, values in (("an outcome", items.y), ("a forecast", items.p)):
        wrong = ~np.isfinite(values)
        if wrong.any():
            _fail(wrong, values, 0, f"{name} that is not finite", "")
        wrong = np.abs(values) > LARGEST
        if wrong.any():
            _fail(wrong, values, 0, f"{name} beyond ±{LARGEST:g}", "rescale y and p")
    return items


def _aligned(
    y: ArrayLike,
    p: ArrayLike,
    dimensions: Sequence[int],
    weights: ArrayLike | None,
    cluster: ArrayLike | None,
    missing: Missing,
    complete: bool = False,
) -> Items:
    """Arrays of one length, with the missing items gone or refused; ``complete``: p is known to have no NaN."""
    if missing not in ("raise", "drop"):
        raise ValueError(f"missing={missing!r}: expected 'raise' or 'drop'")
    same_index(y=y, p=p, weights=weights, cluster=cluster)
    outcome, forecast = floats(y, "y"), floats(p, "p")
    if outcome.ndim != 1 or forecast.ndim not in dimensions or len(outcome) != len(forecast):
        shapes = " or ".join("(n,)" if d == 1 else "(n, K)" for d in dimensions)
        several = forecast.ndim == 2 and 2 not in dimensions
        raise ValueError(
            f"y has shape {outcome.shape} and p has shape {forecast.shape}: expected (n,) with {shapes}"
            + (
                "; pass the column of the event, or ask for several classes where there is a kind"
                if several
                else ""
            )
        )
    weight = None if weights is None else item_weights(weights, len(outcome))
    label = None if cluster is None else labels(cluster, len(outcome))
    dropped = 0
    # A minimum passes NaN on; which items are NaN is looked for only then.
    if len(outcome) and (np.isnan(np.minimum.reduce(outcome)) or (not complete and np.isnan(forecast.min()))):
        lost = np.isnan(outcome) | np.isnan(forecast.reshape(len(forecast), -1)).any(axis=1)
        if missing == "raise":
            raise ValueError(
                f"item {int(np.argmax(lost))} is NaN ({int(lost.sum())} of {len(lost)} items are): correct "
                "it, or pass missing='drop' to count and drop"
            )
        dropped = int(lost.sum())
        outcome, forecast = outcome[~lost], forecast[~lost]
        weight = None if weight is None else weight[~lost]
        label = None if label is None else label[~lost]
    if len(outcome) == 0:
        raise ValueError("no item to score" + (f": all {dropped} have missing values" if dropped else ""))
    if weight is not None and not (weight > 0).any():
        raise ValueError("weights are zero for every item: expected at least one above zero")
    return Items(outcome, forecast, weight, label, dropped)


def labels(cluster: ArrayLike, n: int) -> Labels:
    """Cluster labels, shape (n,), none of them missing."""
    array = np.asarray(cluster)
    if array.shape != (n,):
        raise ValueError(f"cluster has shape {array.shape}: expected ({n},), one label an item")
    if array.dtype.kind in "fcmMO":
        place = first_missing(array.tolist())
        if place is not None:
            raise ValueError(f"cluster has no label for item {place}: every item needs one")
    if array.dtype.kind == "O" and not all(isinstance(label, str) for label in array.tolist()):
        return cluster_codes(array)[0]  # labels of different types do not sort: numbers in their place
    return array


def item_weights(weights: ArrayLike, n: int) -> Floats:
    """Weights, shape (n,), finite and not negative, in a range whose powers stay finite."""
    array = floats(weights, "weights")
    if array.shape != (n,):
        raise ValueError(f"weights has shape {array.shape}: expected ({n},), one an item")
    wrong = ~(np.isfinite(array) & (array >= 0))
    if wrong.any():
        _fail(
            wrong, array, 0, "a weight that is negative or not finite", "weights are finite and not negative"
        )
    return scaled_weights(array)


def _all_distributions(p: Floats) -> bool:
    """Whether each row (n, K) is in [0, 1] and sums to one, in one pass; what is wrong is looked for after it."""
    ones = np.ones(p.shape[1])
    for part in chunks(len(p)):
        rows = p[part]
        sums = rows @ ones  # numpy's sum over a short axis is ten times slower
        low, high = np.minimum.reduce(sums), np.maximum.reduce(sums)
        if not (low >= 1 - UNNORMALISED and high <= 1 + UNNORMALISED):
            return False
        if not (rows.min() >= 0 and rows.max() <= 1):
            return False
    return True


def _probabilities(p: Floats) -> Floats:
    """The probabilities, moved into [0, 1] where only rounding put them outside."""
    low, high = float(p.min()), float(p.max())
    if low >= 0 and high <= 1:
        return p
    if low < -OUTSIDE or high > 1 + OUTSIDE:
        wrong = (p < -OUTSIDE) | (p > 1 + OUTSIDE)
        percent = "divide percentages by 100" if high > 1.5 and low >= 0 and high <= 100 else ""
        _fail(wrong, p, 0, "a probability outside [0, 1]", percent)
    return np.clip(p, 0.0, 1.0)


def _outcomes(y: Floats, allow_fractional: bool) -> None:
    if allow_fractional:
        if float(np.minimum.reduce(y)) < 0 or float(np.maximum.reduce(y)) > 1:
            _fail((y < 0) | (y > 1), y, 0, "an outcome outside [0, 1]", "")
        return
    square, same = np.empty(min(len(y), 16384)), np.empty(min(len(y), 16384), dtype=bool)
    for part in chunks(len(y)):
        chunk = y[part]
        size = len(chunk)
        with np.errstate(over="ignore"):
            np.multiply(chunk, chunk, square[:size])
        np.equal(square[:size], chunk, same[:size])  # 0, 1 and infinity equal their square
        if not np.logical_and.reduce(same[:size]) or square[:size].max() > 1:
            wrong = (chunk != 0) & (chunk != 1)
            _fail(
                wrong,
                chunk,
                part.start,
                "an outcome that is neither 0 nor 1",
                "y comes first, p second; allow_fractional=True admits outcomes between 0 and 1",
            )


def _fail(wrong: NDArray[np.bool_], values: Floats, offset: int, what: str, do: str) -> None:
    index = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    place = ", ".join(str(int(i) + (offset if axis == 0 else 0)) for axis, i in enumerate(index))
    more = int(wrong.sum()) - 1
    others = f" (and {more} more)" if more else ""
    raise ValueError(f"item {place} has {what}: {float(values[index])!r}{others}" + (f"; {do}" if do else ""))
