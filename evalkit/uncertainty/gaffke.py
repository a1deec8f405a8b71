"""Gaffke's interval for the mean of a bounded variable (Gaffke 2005; Learned-Miller & Thomas 2020).

Sort the n observations, put the upper end of the range behind them and weight all n + 1 with the
spacings of n uniform points: the (1 - alpha) quantile of that random mean is an upper confidence bound.
The lower bound follows by reflection.  It assumes only independent, identically distributed observations and the range, and it never
has zero width for n < infinity.  Coverage is guaranteed for two-point distributions and, so far, in
every case that was examined; no proof for all distributions is known.

The distribution of a spacings-weighted mean is a B-spline with the values as knots (Curry & Schoenberg
1966).  Up to `EXACT` observations its distribution function is used; beyond that the quantile comes from
`DRAWS` draws, seeded by the data.
"""

from __future__ import annotations

import hashlib
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: largest n for the exact distribution: scipy's BSpline.integrate is limited to degree 5 (n - 1)
EXACT = 6
#: draws of the spacings beyond that
DRAWS = 50_000


class Interval(NamedTuple):
    """A two-sided interval."""

    low: float
    high: float


def gaffke_interval(x: ArrayLike, lo: float, hi: float, alpha: float = 0.05) -> Interval:
    """Interval for the mean of ``x`` (shape (n,), within [lo, hi]) at level 1 - alpha.

    Raises `ValueError` where the range is not finite or an observation lies outside it.
    """
    values = np.sort(np.asarray(x, dtype=np.float64))
    if not (np.isfinite(lo) and np.isfinite(hi) and lo < hi):
        raise ValueError(f"the range [{lo}, {hi}] must be finite with lo < hi")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
    if values.ndim != 1 or len(values) == 0:
        raise ValueError(f"x has shape {values.shape}: expected (n,) with n >= 1")
    if not np.isfinite(values).all() or values[0] < lo or values[-1] > hi:
        raise ValueError(f"an observation lies outside [{lo}, {hi}] or is NaN")
    unit = (values - lo) / (hi - lo)
    upper = _upper(unit, alpha / 2)
    lower = 1 - _upper(np.sort(1 - unit), alpha / 2)
    return Interval(lo + lower * (hi - lo), lo + upper * (hi - lo))


def _upper(unit: NDArray[np.float64], tail: float) -> float:
    """Upper bound for the mean of sorted values in [0, 1], with probability 1 - tail."""
    knots = np.append(unit, 1.0)
    if knots[0] == 1.0:
        return 1.0
    if len(unit) > EXACT:
        return _drawn(knots, tail)
    return _exact(knots, tail)


def _exact(knots: NDArray[np.float64], tail: float) -> float:
    from scipy.interpolate import BSpline
    from scipy.optimize import brentq

    knots = np.round(knots, 12)  # knots closer than that overflow scipy's divided differences
    if knots[0] == knots[-1]:
        return float(knots[0])
    density = BSpline.basis_element(knots, extrapolate=False)
    # the integral of a B-spline of this degree; scipy's own is NaN where the last knot is repeated
    total = (knots[-1] - knots[0]) / (len(knots) - 1)

    def missing(t: float) -> float:
        if t <= knots[0] or t >= knots[-1]:
            return float(t >= knots[-1]) - (1 - tail)
        return float(density.integrate(knots[0], t) / total) - (1 - tail)

    return float(brentq(missing, knots[0], knots[-1], xtol=1e-12))


def _drawn(knots: NDArray[np.float64], tail: float) -> float:
    seed = int.from_bytes(hashlib.sha256(knots.tobytes()).digest()[:8], "big")
    generator = np.random.default_rng(seed)
    means = np.empty(DRAWS)
    for start in range(0, DRAWS, 500):  # in blocks: memory stays flat in the number of draws
        weights = generator.standard_exponential((min(500, DRAWS - start), len(knots)))
        means[start : start + 500] = (weights @ knots) / weights.sum(axis=1)
    return float(np.quantile(means, 1 - tail, method="higher"))
