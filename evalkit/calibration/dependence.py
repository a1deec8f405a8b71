"""How much the outcomes of a cluster hang together, and draws of outcomes that hang together as much.

The model.  With probability √λ an item's outcome is decided by a number that its cluster shares, else by
one of its own: y = 1{u < p}, u uniform on (0, 1).  Each outcome is Bernoulli(p) exactly, whatever λ is; two
items of a cluster are independent at λ = 0, and as alike as their forecasts allow at λ = 1 (for equal
forecasts λ is their correlation).

λ is the ratio of what pairs of the same cluster and of like forecasts (a tenth of the items) covary to what
they could covary at most.  Pairs of unlike forecasts say nothing about a curve's variance at one place:
two candidates of a race mirror each other, yet each one's days move together.

What it assumes: one λ for all clusters and the whole range of forecasts.  Both sides of one event (win and
loss) are mirror images and lower λ where they meet, near ½: pass one side only.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from evalkit.calibration.sorted_items import Indices, SortedItems
from evalkit.exact_sums import Floats

#: neighbourhoods of like forecasts
_TENTHS = 10


def dependence(data: SortedItems, probability: Floats) -> float:
    """λ in [0, 1]; 0 where no cluster has two like items.

    ``probability`` (n,) says how much outcomes may covary: the forecasts, or what they were recalibrated to.
    Residuals are those of the forecasts in both cases: a fit would follow the clusters that are to be judged.
    """
    if data.cluster is None or data.n_clusters is None:
        return 0.0
    n = len(data)
    # Equal forecasts stay together: what parts them is their content, and that is no neighbourhood.
    fresh = np.flatnonzero(np.append(True, data.p[1:] != data.p[:-1]))
    size = np.diff(np.append(fresh, n))
    tenth = np.repeat((2 * fresh + size) * _TENTHS // (2 * n), size)
    order = np.lexsort((np.arange(n), data.cluster, tenth))
    cluster, tenth = data.cluster[order], tenth[order]
    q, residual = probability[order], (data.y - data.p)[order]
    cell = np.cumsum(np.append(False, (np.diff(cluster) != 0) | (np.diff(tenth) != 0)))
    starts = np.flatnonzero(np.append(True, np.diff(cell) != 0))
    size = np.diff(np.append(starts, n))
    total = np.add.reduceat(residual, starts)
    # What a forecaster is off in a tenth is no dependence: residuals are centred on the other clusters'.
    place = tenth[starts]
    others = np.bincount(place, size)[place] - size
    elsewhere = np.bincount(place, total)[place] - total
    centre = np.divide(elsewhere, others, out=np.zeros(len(total)), where=others > 0)
    residual = residual - centre[cell]
    shared = np.square(np.add.reduceat(residual, starts)) - np.add.reduceat(np.square(residual), starts)
    # forecasts ascend within a cell, so the smaller of a pair is the earlier one
    behind = (starts + size)[cell] - 1 - np.arange(n)
    most = 2 * np.add.reduceat(q * behind, starts) - (
        np.square(np.add.reduceat(q, starts)) - np.add.reduceat(np.square(q), starts)
    )
    possible = math.fsum(most)
    return min(1.0, max(0.0, math.fsum(shared) / possible)) if possible > 0 else 0.0


def draws(data: SortedItems, strength: float) -> Callable[[np.random.Generator], Floats]:
    """A function that draws outcomes at the forecasts and returns their (weighted) sums by group, (m,)."""
    n, m = len(data), len(data.x)
    if strength == 0 and data.weights is None and (data.bundled or m < n / 4):
        counts, p = data.n, np.minimum(data.x, 1.0)
        return lambda rng: rng.binomial(counts, p).astype(np.float64)
    if strength == 0 or data.cluster is None:
        return lambda rng: data.sums((rng.random(n) < data.p).astype(np.float64))
    cluster, clusters, chance = data.cluster, int(data.n_clusters or 1), math.sqrt(strength)

    def draw(rng: np.random.Generator) -> Floats:
        shared = rng.random(clusters)[cluster]
        decided = np.where(rng.random(n) < chance, shared, rng.random(n))
        return data.sums((decided < data.p).astype(np.float64))

    return draw


def quantile(tail: float, clusters: int | None) -> float:
    """Of the normal distribution, or of Student's t with G - 1 degrees of freedom for G clusters."""
    from scipy.special import ndtri, stdtrit

    return float(ndtri(tail) if clusters is None else stdtrit(clusters - 1, tail))


def variance_inflation(data: SortedItems, strength: float, region: Indices) -> Floats:
    """Design effect of the mean of each region (``region``: number of each item's, (n,)), shape (R,).

    With λ = ``strength``: ((1 - λ) Σw² + λ Σ_c W_c²) / Σw, W_c the weight of a cluster in the region (Kish
    1965); 1 for items without weights and clusters.
    """
    w = np.ones(len(data)) if data.weights is None else data.weights
    regions = int(region.max()) + 1
    total, own = np.bincount(region, w, regions), np.bincount(region, np.square(w), regions)
    if data.cluster is None:
        return np.asarray(own / total)
    order = np.lexsort((np.arange(len(data)), data.cluster, region))
    ordered, cluster = region[order], data.cluster[order]
    starts = np.flatnonzero(np.append(True, (np.diff(ordered) != 0) | (np.diff(cluster) != 0)))
    whole = np.square(np.add.reduceat(w[order], starts))
    together = np.bincount(ordered[starts], whole, regions)
    return np.asarray(((1 - strength) * own + strength * together) / total)
