"""What every estimator here accepts: values, and optionally weights and clusters, checked once.

Rules
- Values are one-dimensional and not NaN.  Infinite ones are accepted (a log score may be infinite): the mean
  is then infinite and no interval exists.
- Weights are finite and not negative, with a positive sum.  Items of weight 0 are left out and not counted.
- Masked values are missing, as NaN is; pandas objects that are paired have the same index.
- Clusters are labels of any type that can be hashed.  Only which items share a label matters.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.arrays import first_missing, floats, same_index

#: largest absolute value that is accepted: its square, summed, must stay finite
LARGEST = 1e140
#: weights outside of this range are scaled into it: only ratios matter, and their fourth powers must stay in float64
LIGHTEST, HEAVIEST = 2.0**-200, 2.0**200


class Sample(NamedTuple):
    """Checked values with their weights and cluster codes (0 … n_clusters - 1), items of weight 0 left out."""

    x: NDArray[np.float64]
    weights: NDArray[np.float64] | None
    codes: NDArray[np.intp] | None
    n_clusters: int | None

    @property
    def finite(self) -> bool:
        return bool(np.isfinite(self.x).all())


def checked_sample(
    x: ArrayLike, weights: ArrayLike | None = None, cluster: ArrayLike | None = None
) -> Sample:
    """Values, weights and clusters, each of shape (n,); `ValueError` says what is wrong and where."""
    same_index(x=x, weights=weights, cluster=cluster)
    values = floats(x, "x")
    if values.ndim != 1:
        raise ValueError(f"x has shape {values.shape}: expected (n,)")
    if np.isnan(values).any():
        at = int(np.flatnonzero(np.isnan(values))[0])
        raise ValueError(f"x[{at}] is NaN: leave missing items out")
    too_large = np.isfinite(values) & (np.abs(values) > LARGEST)
    if too_large.any():
        at = int(np.flatnonzero(too_large)[0])
        raise ValueError(f"x[{at}] = {values[at]:g} is beyond ±{LARGEST:g}: rescale the values")
    labels = None if cluster is None else _labels(cluster, len(values))
    if weights is None:
        kept_weights = None
    else:
        kept_weights = _checked_weights(weights, len(values))
        kept = kept_weights > 0
        if not kept.all():
            values, kept_weights = values[kept], kept_weights[kept]
            labels = None if labels is None else labels[kept]
        if (kept_weights == kept_weights[0]).all():  # equal weights are no weights
            kept_weights = None
    if labels is None:
        return Sample(values, kept_weights, None, None)
    codes, n_clusters = cluster_codes(labels)
    return Sample(values, kept_weights, codes, n_clusters)


def _checked_weights(weights: ArrayLike, n: int) -> NDArray[np.float64]:
    checked = floats(weights, "weights")
    if checked.shape != (n,):
        raise ValueError(f"weights have shape {checked.shape}: expected ({n},) as x has")
    wrong = ~(np.isfinite(checked) & (checked >= 0))
    if wrong.any():
        at = int(np.flatnonzero(wrong)[0])
        raise ValueError(f"weights[{at}] = {checked[at]:g}: expected finite and not negative")
    if not (checked > 0).any():
        raise ValueError("no weight is positive: at least one item must count")
    return scaled_weights(checked)


def scaled_weights(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same ratios in a range whose fourth powers stay finite and above zero, and zero where a weight is.

    Weights in an ordinary range are returned as they are.  Others are scaled by a power of two, which changes no
    bit of their ratios; a weight below 2^-400 of the largest is raised to that share, which changes no sum.
    """
    positive = weights > 0
    heaviest = float(weights.max(initial=0.0))
    lightest = float(weights.min(initial=heaviest, where=positive))
    if heaviest <= HEAVIEST and lightest >= LIGHTEST:
        return weights
    exponent = math.frexp(heaviest)[1]
    with np.errstate(under="ignore"):
        scaled = np.ldexp(weights, 200 - exponent)
    return np.where(positive, np.maximum(scaled, LIGHTEST), 0.0)


def _labels(cluster: ArrayLike, n: int) -> NDArray[np.generic]:
    labels = np.asarray(cluster)
    if labels.shape != (n,):
        raise ValueError(f"cluster has shape {labels.shape}: expected ({n},) as x has")
    return labels


def cluster_codes(labels: NDArray[np.generic]) -> tuple[NDArray[np.intp], int]:
    """Codes 0 … G - 1 of ``labels`` (n,), and G.  Equal labels get equal codes; their numbers mean nothing.

    Raises `ValueError` for a missing label (None, NaN, NaT, pandas.NA).
    """
    if labels.dtype.kind in "ib" or (labels.dtype.kind == "u" and labels.dtype.itemsize < 8):
        return _integer_codes(labels.astype(np.int64))
    if labels.dtype.kind == "O":
        return _object_codes(labels)
    missing = labels != labels  # NaN and NaT
    if np.any(missing):
        raise ValueError(f"cluster[{int(np.flatnonzero(missing)[0])}] is missing: every item needs a cluster")
    distinct, codes = np.unique(labels, return_inverse=True)
    return codes.astype(np.intp), len(distinct)


def _integer_codes(labels: NDArray[np.int64]) -> tuple[NDArray[np.intp], int]:
    if labels.size == 0:
        return labels.astype(np.intp), 0
    low, high = int(labels.min()), int(labels.max())
    if high - low > 4 * labels.size + 1000:  # a table of all labels in between would be too large
        distinct, codes = np.unique(labels, return_inverse=True)
        return codes.astype(np.intp), len(distinct)
    offsets = (labels - low).astype(np.intp)
    present = np.bincount(offsets) > 0
    if present.all():
        return offsets, len(present)
    return (np.cumsum(present) - 1)[offsets], int(present.sum())


def _object_codes(labels: NDArray[np.generic]) -> tuple[NDArray[np.intp], int]:
    numbers: dict[object, int] = {}
    codes = np.empty(len(labels), dtype=np.intp)
    if (missing := first_missing(labels.tolist())) is not None:
        raise ValueError(f"cluster[{missing}] is missing: every item needs a cluster")
    for at, label in enumerate(labels.tolist()):
        codes[at] = numbers.setdefault(label, len(numbers))
    return codes, len(numbers)
