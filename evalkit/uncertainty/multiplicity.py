"""Many p-values at once: adjusted ones, to be held against the level that one of them would be.

NaN marks a comparison that was not made: it stays NaN and does not count.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray


def holm(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values (the shape of ``p``) that control the chance of any false claim (Holm 1979).

    Valid under any dependence.  Raises `ValueError` where a value is outside [0, 1].
    """
    values, counted, order = _sorted(p)
    m = len(order)
    steps = np.maximum.accumulate((m - np.arange(m)) * counted[order])
    return _restored(values, order, steps)


def benjamini_hochberg(p: ArrayLike) -> NDArray[np.float64]:
    """Adjusted p-values (the shape of ``p``) that control the expected share of false claims among those made.

    Benjamini & Hochberg 1995; valid for independent or positively dependent tests.  Raises `ValueError` where a
    value is outside [0, 1].
    """
    values, counted, order = _sorted(p)
    m = len(order)
    steps = m / np.arange(m, 0, -1) * counted[order[::-1]]
    return _restored(values, order, np.minimum.accumulate(steps)[::-1])


def _sorted(p: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.intp]]:
    values = np.asarray(p, dtype=np.float64)
    wrong = (values < 0) | (values > 1)
    if wrong.any():
        raise ValueError(f"p holds {float(values[wrong][0]):g}: expected values in [0, 1], or NaN")
    counted = values[~np.isnan(values)]
    return values, counted, np.argsort(counted, kind="stable")


def _restored(
    values: NDArray[np.float64], order: NDArray[np.intp], steps: NDArray[np.float64]
) -> NDArray[np.float64]:
    adjusted = np.empty(len(order))
    adjusted[order] = np.minimum(steps, 1.0)
    result = np.full(values.shape, np.nan)
    result[~np.isnan(values)] = adjusted
    return result
