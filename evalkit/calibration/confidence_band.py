"""Confidence band of a reliability curve, pointwise: which event frequencies go with a forecast of x?

The curve r is non-decreasing.  A value θ for r(x) is in the interval unless the likelihood of the isotonic
fit is much better than that of the isotonic fit which is forced through (x, θ): a likelihood-ratio test,
inverted (Banerjee & Wellner 2001, "Likelihood ratio tests for monotone functions").  Twice the log ratio is
compared with

- the chi-square quantile, where all the items that determine the value share one forecast, and
- .7 of it, where forecasts are all different.  The quantiles of Banerjee and Wellner's limit D are .58 to .61
  of those of chi-square(1) at levels .5 to .99; with .6 a 90 % interval covered .86 at n = 50 and .87 at 300,
  with .7 it covers .89 and .90, and .92 at 1000.

Between the two cases the share of the forecast in its block decides.

Why not draw y* ~ Bernoulli(r̂) and refit?  The fit is 0 or 1 at its ends in most samples, where such draws do
not vary: the coverage of a 90 % band was 0 to .7 in the outer tenths (n = 50 … 1000), and the bootstrap of an
isotonic fit is inconsistent elsewhere too (Kosorok 2008; Sen, Banerjee & Woodroofe 2010).  The test needs no
draws, no smoothing and no derivative.

Weights and clusters.  The log ratio is divided by the design effect of the block and its neighbours (Rao &
Scott 1981), from the dependence of `evalkit.calibration.dependence`; the quantile is that of t² with G - 1
degrees of freedom, for G clusters.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.calibration.bands import Band, cluster_caveats
from evalkit.calibration.dependence import dependence, quantile, variance_inflation
from evalkit.calibration.isotonic import pool
from evalkit.calibration.sorted_items import Indices, SortedItems
from evalkit.exact_sums import Floats

#: forecasts at which an interval is computed; linear between them
MOST_PLACES = 200
#: quantiles of the ratio among different forecasts, as a share of those of chi-square(1)
_D_SHARE = 0.7
#: halvings of [0, 1] in search of an end
_HALVINGS = 24


def confidence_band(data: SortedItems, *, level: float) -> Band:
    """Pointwise confidence band for the frequency of events at each forecast, (m,) or fewer places."""
    m, events = len(data.x), data.events
    places = np.unique(np.linspace(0, m - 1, min(m, MOST_PLACES)).round().astype(np.intp))
    caveats = cluster_caveats(data.n_clusters)
    if data.n_clusters is not None and data.n_clusters < 2:
        nothing = np.full(len(places), np.nan)
        return Band("confidence", level, False, data.x[places], nothing, nothing, "none", caveats)
    n, k, first = pool(data.weight, events)
    block = np.repeat(np.arange(len(n)), np.diff(np.append(first, m)))
    value = k / n
    of_item = np.repeat(block, data.n)
    strength = dependence(data, value[of_item])
    inflation = _with_neighbours(variance_inflation(data, strength, of_item), n)[block]
    share = data.weight / n[block]
    limit = quantile((1 + level) / 2, data.n_clusters) ** 2 * (_D_SHARE + (1 - _D_SHARE) * share) * inflation
    low, high = np.empty(len(places)), np.empty(len(places))
    free = _log_likelihood(k, n, value)
    sides = zip(_fits(data.weight, events, places), _from_above(data.weight, events, places), strict=True)
    for i, (place, (below, above)) in enumerate(zip(places, sides, strict=True)):
        ratio = _ratio(free, below, (data.weight[place], events[place]), above)
        fitted = value[block[place]]
        low[i] = _end(ratio, float(fitted), 0.0, limit[place] / 2)
        high[i] = _end(ratio, float(fitted), 1.0, limit[place] / 2)
    method = "likelihood-ratio test of an isotonic curve, inverted"
    if data.cluster is not None:
        method += f", dependence λ = {strength:.2f} within {data.n_clusters} clusters"
    return Band("confidence", level, False, data.x[places], low, high, method, caveats)


def _with_neighbours(inflation: Floats, weight: Floats) -> Floats:
    """Mean design effect of a block and the two beside it, to which its interval extends, by their weight."""

    def of_three(values: Floats) -> Floats:
        around = np.pad(values, 1)
        return around[:-2] + around[1:-1] + around[2:]

    return of_three(inflation * weight) / of_three(weight)


Fit = tuple[Floats, Floats]


def _fits(n: Floats, events: Floats, places: Indices) -> list[Fit]:
    """Isotonic fit (weight and events by block) of the groups before each place, each from the last one."""
    blocks, done, fits = (n[:0], events[:0]), 0, []
    for place in places:
        n_now: Floats = np.concatenate([blocks[0], n[done:place]])
        k_now: Floats = np.concatenate([blocks[1], events[done:place]])
        if len(n_now):
            size, count, _ = pool(n_now, k_now)
            blocks = (size, count)
        done = int(place)
        fits.append(blocks)
    return fits


def _from_above(n: Floats, events: Floats, places: Indices) -> list[Fit]:
    """The same for the groups behind each place: of events that did not happen, from the other end."""
    mirrored = _fits(n[::-1], (n - events)[::-1], (len(n) - 1 - places)[::-1])[::-1]
    return [(size[::-1], (size - other)[::-1]) for size, other in mirrored]


def _ratio(free: float, below: Fit, here: tuple[float, float], above: Fit) -> Callable[[float], float]:
    """Log likelihood that is lost by a curve through the value θ here."""
    n = np.concatenate([below[0], [here[0]], above[0]])
    k = np.concatenate([below[1], [here[1]], above[1]])
    best = np.clip(k / n, 0.0, 1.0)
    at = len(below[0])

    def lost(theta: float) -> float:
        value = best.copy()
        np.minimum(value[:at], theta, out=value[:at])
        value[at] = theta
        np.maximum(value[at + 1 :], theta, out=value[at + 1 :])
        return free - _log_likelihood(k, n, value)

    return lost


def _log_likelihood(k: Floats, n: Floats, value: Floats) -> float:
    from scipy.special import xlog1py, xlogy

    return float(np.sum(xlogy(k, value) + xlog1py(np.maximum(n - k, 0.0), -value)))


def _end(lost: Callable[[float], float], inside: float, bound: float, limit: float) -> float:
    """The value farthest from ``inside`` towards ``bound`` at which no more than ``limit`` is lost."""
    if lost(bound) <= limit:
        return bound
    outside = bound
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        if lost(middle) <= limit:
            inside = middle
        else:
            outside = middle
    return outside
