"""Gaffke's interval for the mean of a bounded variable (Gaffke 2005; Learned-Miller & Thomas 2020).

Sort the n observations, put the upper end of the range behind them and weight all n + 1 with the
spacings of n uniform points: the (1 - alpha) quantile of that random mean is an upper confidence bound.
The lower bound follows by reflection.  It assumes only independent, identically distributed observations and
the range, and it never has zero width for n < infinity.  On two-point data it is the interval of Clopper and
Pearson.  Coverage is guaranteed for two-point distributions and, so far, in every case that was examined; no
proof for all distributions is known.

The quantile is computed, not drawn.  Let y_i be the distances of the n + 1 values from the end of the range,
and E_i independent exponentials: their normalised values are the spacings, so the mean of the y_i lies below
d with probability P(sum E_i (d - y_i) > 0), and

    P = (1 / 2 pi i) * integral of  1 / (s * prod_i (1 - a_i s))  ds,    a_i = d - y_i,

up a vertical line with 0 < Re s < 1 / max a_i.  (It is the B-spline of Curry & Schoenberg 1966, without its
divided differences, which fail on ties.)  The line goes through the saddle point c, where the integrand is smallest
between its singularities and from where it only falls along the line.  All singularities are real, so that with
s = c + i w sinh(u) the trapezoidal rule in u converges geometrically (Trefethen & Weideman 2014): its step is halved
until nothing changes, which takes tens of nodes for some twelve digits (many equal values, like an exponential
function, oscillate and take hundreds), at any n and with any ties.  The same nodes give the density, so Newton's
method finds the quantile.
"""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

#: step of the trapezoidal rule and number of nodes to begin with
FIRST_STEP, FIRST_NODES = 0.4, 16
#: the step is halved until the integral changes by less than this share
CHANGE = 1e-9
#: the integration ends where a term is below this share of the sum, or at this u
NEGLIGIBLE, LAST = 1e-17, 150.0
#: w at most, in widths of the integrand at the saddle point
WIDTHS = 1.5
#: values times nodes that are held in memory at once
BLOCK = 1 << 18


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
    high = hi - (hi - lo) * _margin(1 - unit[::-1], alpha / 2)
    low = lo + (hi - lo) * _margin(unit, alpha / 2)
    return Interval(low, high)


def _margin(distances: NDArray[np.float64], tail: float) -> float:
    """How far the bound stays away from the end of the range, given the sorted distances from it in [0, 1].

    It is the ``tail`` quantile of the spacings-weighted mean of 0 and the distances.
    """
    y, repeats = np.unique(np.append(0.0, distances), return_counts=True)
    counts = repeats.astype(np.float64)
    n = len(distances)
    farthest = float(y[-1])
    if farthest == 0:
        return 0.0
    y /= farthest
    # P(mean < d)^(1/n) is concave in d (Brunn-Minkowski), 0 at 0 and 1 at 1: the quantile is at most tail^(1/n)
    below, above = 0.0, math.pow(tail, 1 / n)
    if len(y) == 2 and counts[0] == 1:
        return above * farthest
    d = min(_first_guess(y, counts, tail), above)
    saddle = 0.5
    for _ in range(100):
        log_probability, elasticity, saddle = _distribution(y, counts, d, saddle)
        missing = math.log(tail) - log_probability
        if missing >= 0:
            below = d
        if missing <= 0:
            above = d
        # in logarithms: exact where the probability is a power of d, as it is near the end of the range
        step = missing / elasticity if elasticity > 0 else math.inf
        proposed = d * math.exp(max(min(step, 30.0), -30.0))
        if not below <= proposed <= above:
            proposed = math.sqrt(max(below, above * 1e-6) * above)
            step = math.inf
        d = proposed
        if abs(step) < 1e-8:  # the next step would be of the order of its square
            break
    return d * farthest


def _first_guess(y: NDArray[np.float64], counts: NDArray[np.float64], tail: float) -> float:
    """Quantile of the lognormal distribution with the mean and the variance of the weighted mean."""
    n = int(counts.sum())
    mean = float(counts @ y) / n
    variance = max(float(counts @ (y - mean) ** 2) / n, 0.0) / (n + 1)
    spread = math.sqrt(math.log1p(variance / mean**2))
    return mean * math.exp(NormalDist().inv_cdf(tail) * spread - spread**2 / 2)


def _distribution(
    y: NDArray[np.float64], counts: NDArray[np.float64], d: float, start: float
) -> tuple[float, float, float]:
    """log P(mean < d), its derivative in log d, and the saddle point as a share of its largest value."""
    a = d - y
    share = _saddle_point(a, counts, start)
    c = share / d  # the largest of a is d, since the smallest y is 0
    at_saddle = 1 - a * c
    b = a / at_saddle
    probability, density = _integrals(b, counts, c, 1 / d - c)
    n = int(counts.sum()) - 1
    log_probability = math.log(probability / c) - float(counts @ np.log(at_saddle))
    return log_probability, n * c * d * density / probability, share


def _integrals(
    b: NDArray[np.float64], counts: NDArray[np.float64], left: float, right: float
) -> tuple[float, float]:
    """The integral for the probability and that for the density, over the integrand at the saddle point.

    The factors of the integrand, over those at the saddle point c, are 1 / (1 - b_i (s - c)).  ``left`` = c and
    ``right`` are the distances from there to the nearest singularities.
    """
    width = 1 / math.sqrt(float(counts @ b**2) + 1 / left**2)
    scale = min(left, right, WIDTHS * width)

    def terms(u: NDArray[np.floating]) -> NDArray[np.float64]:
        """What the nodes u add to both integrals, and the modulus of what they add to the first."""
        height = scale * np.sinh(u)
        turn = np.outer(height, b)
        modulus = np.exp(-0.5 * (np.log1p(turn * turn) @ counts)) * scale * np.cosh(u)
        angle = np.arctan(turn) @ counts
        pole = height / left  # the factor 1 / s
        size = modulus / np.hypot(1, pole)
        return np.stack([size * np.cos(angle - np.arctan(pole)), modulus * np.cos(angle), size])

    # the trapezoidal rule over the whole line, by symmetry from 0 on
    step, end = FIRST_STEP, 0
    total = -0.5 * terms(np.zeros(1)).sum(axis=1)
    block = max(1, min(FIRST_NODES, BLOCK // len(b)))
    while True:
        found = terms(step * np.arange(end, end + block))
        total += found.sum(axis=1)
        end += block
        if found[2, -1] <= NEGLIGIBLE * total[0] or step * end > LAST:
            break
    block = max(1, BLOCK // len(b))
    while True:  # halve the step until nothing changes: the error is about the square of the change
        between = np.zeros(3)
        for first in range(0, end, block):
            between += terms(step * (np.arange(first, min(first + block, end)) + 0.5)).sum(axis=1)
        change = between[0] - total[0]
        total += between
        step, end = step / 2, 2 * end
        if abs(change) <= CHANGE * total[0] or step < FIRST_STEP / 4096:
            return float(total[0] * step / math.pi), float(total[1] * step / math.pi)


def _saddle_point(a: NDArray[np.float64], counts: NDArray[np.float64], start: float) -> float:
    """Where 1 / (s prod (1 - a s)) is smallest on (0, 1 / max a), as a share of 1 / max a.

    Its logarithm is convex and infinite at both ends.  The contour may miss the point a little, so two digits
    are enough.
    """
    scaled = a / float(a.max())
    below, above = 0.0, 1.0
    share = start
    for _ in range(60):
        ratio = scaled / (1 - scaled * share)
        slope = float(counts @ ratio) - 1 / share
        curvature = float(counts @ ratio**2) + 1 / share**2
        if slope > 0:
            above = share
        else:
            below = share
        step = -slope / curvature
        if abs(step) * math.sqrt(curvature) < 0.03:
            break
        proposed = share + step
        share = proposed if below < proposed < above else (below + above) / 2
    return share
