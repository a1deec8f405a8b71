"""What chance does to sums of residuals.

Residuals y - p are summed at places: bins, or points of a grid.  The sums are means of independent units
(items, or clusters), so their error is normal with the covariance of the units' contributions, which is
estimated from the residuals (Liang & Zeger 1986).  Where forecasts are taken to be calibrated and outcomes
to be independent, the outcomes are drawn from the forecasts instead (Bröcker & Smith 2007).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from evalkit.exact_sums import Floats

Places = NDArray[np.intp]

#: outcomes that are drawn one by one; where it takes more, their sums are drawn as normal
_OUTCOMES = 40_000_000


def sums_at(place: Places, values: Floats, size: int) -> Floats:
    """Sum of the values at each of ``size`` places."""
    return np.asarray(np.bincount(place, values, size), dtype=np.float64)


def residual_noise(
    values: Floats,
    place: Places,
    size: int,
    unit: Places | None,
    share: Floats | None,
    draws: int,
    rng: np.random.Generator,
    *,
    centred: bool = True,
) -> Floats:
    """Errors of the sums of ``values`` (m,) at ``size`` places: draws, shape (draws, size).

    ``unit``: number of the independent unit of each value, None where each is its own.  ``share``: share of
    each unit in the whole, shape (G,), for a ratio of sums; None for equal shares.  ``centred=False``: the
    values have expectation 0 and their squares estimate variances as they are.
    """
    if unit is None:
        count = len(values)
        variance = sums_at(place, np.square(values), size)
        if centred:
            variance = np.maximum(variance - np.square(sums_at(place, values, size)) / count, 0.0)
        noise = rng.standard_normal((draws, size)) * np.sqrt(variance * count / (count - 1))
    else:
        covariance, count = _covariance(values, place, size, unit, share, centred)
        value, vector = np.linalg.eigh(covariance)
        # the symmetric root: eigenvectors are free in sign, their product is not
        root = (vector * np.sqrt(np.maximum(value, 0.0))) @ vector.T
        noise = rng.standard_normal((draws, size)) @ root * math.sqrt(count / (count - 1))
    # few units know their variance badly: Student's t instead of the normal distribution
    noise *= np.sqrt((count - 1) / rng.chisquare(count - 1, (draws, 1)))
    return np.asarray(noise)


def consistency_noise(
    p: Floats, shares: Floats, place: Places, size: int, draws: int, rng: np.random.Generator
) -> Floats:
    """Sums of (y - p) · shares at ``size`` places for y drawn from the forecasts p (n,): (draws, size)."""
    if len(p) * draws > _OUTCOMES:
        variance = sums_at(place, np.square(shares) * p * (1 - p), size)
        return np.asarray(rng.standard_normal((draws, size)) * np.sqrt(variance))
    sums = np.empty((draws, size))
    for row in range(draws):
        sums[row] = sums_at(place, shares * ((rng.random(len(p)) < p) - p), size)
    return sums


def _covariance(
    values: Floats, place: Places, size: int, unit: Places, share: Floats | None, centred: bool
) -> tuple[Floats, int]:
    from scipy.sparse import csr_array

    count = int(unit.max()) + 1
    sums = csr_array((values, (unit, place)), shape=(count, size))
    covariance = np.asarray((sums.T @ sums).toarray())
    if centred:
        part = np.full(count, 1 / count) if share is None else share
        total = sums_at(place, values, size)
        cross = np.outer(sums.T @ part, total)
        covariance += np.outer(total, total) * float(part @ part) - cross - cross.T
    return covariance, count
