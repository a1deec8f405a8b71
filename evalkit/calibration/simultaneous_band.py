"""Confidence band that holds the whole reliability curve at once, at any sample size.

The only assumption is that the frequency of events does not fall as the forecast rises.  Then the frequency
at a forecast x is at most the mean frequency of any interval of forecasts that starts at x or above, and at
least that of any interval that ends at x or below.  Each interval bounds its mean; the sharpest bounds make
the band, and Bonferroni's inequality over all intervals makes it simultaneous (Dimitriadis, Dümbgen, Henzi,
Puke & Ziegel 2022, "Honest calibration assessment for binary outcome predictions").

- Independent items: Clopper-Pearson bounds.  They are exact here too, where the items of an interval differ
  in probability: their sum is stochastically larger than with the smallest one throughout.
- Clusters: their means lie in [0, 1] and are independent, which gives Chernoff's bound in its Kullback-
  Leibler form for as many items as the largest cluster fits into the interval, and Hoeffding's (1963) for
  1/Σ(share of a cluster)² items; each gets half of the error.  Nothing is assumed about the dependence within
  a cluster, so the band is wide.  The same for outcomes between 0 and 1, each a cluster of its own.

Intervals start and end at no more than `MOST_CELLS` places and have lengths that grow by a fifth: fewer
intervals than all n²/2 cost little width, and leave more error to each.  They depend on forecasts alone.
Where the bounds cross, or leave out the isotonic fit, they are widened to hold it.
"""

from __future__ import annotations

import numpy as np

from evalkit.calibration.bands import Band, cluster_caveats
from evalkit.calibration.isotonic import pool
from evalkit.calibration.sorted_items import Indices, SortedItems
from evalkit.exact_sums import Floats

#: cells, of equal mass where forecasts allow, whose runs are the intervals
MOST_CELLS = 512
_GROWTH = 1.2
_HALVINGS = 50


def simultaneous_confidence_band(data: SortedItems, *, level: float) -> Band:
    """Band of (m,) groups in which the whole curve lies with probability ``level`` or more.

    Raises `ValueError` for weighted items, for which there is no such bound.
    """
    if data.weights is not None:
        raise ValueError(
            "no simultaneous confidence band for weighted items: leave out weights, or simultaneous"
        )
    m, events = len(data.x), data.events
    caveats = cluster_caveats(data.n_clusters)
    if data.n_clusters is not None and data.n_clusters < 2:
        nothing = np.full(m, np.nan)
        return Band("confidence", level, True, data.x, nothing, nothing, "none", caveats)
    edges = _cell_edges(data)
    start, end = _intervals(len(edges) - 1)
    error = (1 - level) / 2 / len(start)
    items = np.append(0, np.cumsum(data.n))[edges]
    happened = np.append(0.0, np.cumsum(events))[edges]
    n, k = items[end] - items[start], happened[end] - happened[start]
    method = f"bounds of {len(start):,} intervals"
    if data.cluster is not None:
        largest, squares = _cluster_shares(data.cluster, items, start, end)
        below, above = _bounded_means(k / n, largest, squares, error)
        method = f"Chernoff-Hoeffding {method}, {data.n_clusters} clusters"
    elif not ((data.y == 0) | (data.y == 1)).all():
        below, above = _bounded_means(k / n, 1 / n, 1 / n, error)
        method = f"Chernoff-Hoeffding {method}"
    else:
        below, above = _clopper_pearson(n, k, error)
        method = f"Clopper-Pearson {method}"
    cells = len(edges) - 1
    high, low = np.ones(cells), np.zeros(cells)
    np.minimum.at(high, start, above)
    np.maximum.at(low, end - 1, below)
    # an interval that starts above x bounds x from above too, if less sharply
    high, low = np.minimum.accumulate(high[::-1])[::-1], np.maximum.accumulate(low)
    cell = np.repeat(np.arange(cells), np.diff(edges))
    # within a cell only its first forecast has the cell's upper bound, only its last one the lower
    first = np.append(True, np.diff(cell) > 0)
    last = np.append(np.diff(cell) > 0, True)
    upper = np.where(first, high[cell], np.append(high, 1.0)[cell + 1])
    lower = np.where(last, low[cell], np.append(0.0, low)[cell])
    size, count, begins = pool(data.weight, events)
    fitted = np.repeat(count / size, np.diff(np.append(begins, m)))
    return Band(
        "confidence",
        level,
        True,
        data.x,
        np.minimum(lower, fitted),
        np.maximum(upper, fitted),
        method,
        caveats,
    )


def _cell_edges(data: SortedItems) -> Indices:
    """First group of each cell, and the number of groups."""
    m = len(data.x)
    if m <= MOST_CELLS:
        return np.arange(m + 1)
    wanted = np.linspace(0, len(data), MOST_CELLS, endpoint=False)
    return np.append(np.unique(np.searchsorted(data.starts, wanted, side="right") - 1), m)


def _intervals(cells: int) -> tuple[Indices, Indices]:
    """Runs of cells, as first cell and the one behind the last."""
    lengths = [1]
    while lengths[-1] < cells:
        lengths.append(max(lengths[-1] + 1, int(lengths[-1] * _GROWTH)))
    lengths[-1] = cells
    start = np.concatenate([np.arange(cells - length + 1) for length in lengths])
    end = np.concatenate([np.arange(length, cells + 1) for length in lengths])
    return start, end


def _clopper_pearson(n: Floats, k: Floats, error: float) -> tuple[Floats, Floats]:
    from scipy.special import betaincinv

    missed = n - k
    low = np.where(k > 0, betaincinv(np.maximum(k, 1), missed + 1, error), 0.0)
    high = np.where(missed > 0, betaincinv(k + 1, np.maximum(missed, 1), 1 - error), 1.0)
    return low, high


def _cluster_shares(cluster: Indices, items: Indices, start: Indices, end: Indices) -> tuple[Floats, Floats]:
    """Share of the largest cluster in each interval, and the sum of the squared shares."""
    cell = np.repeat(np.arange(len(items) - 1), np.diff(items))
    cells, clusters = len(items) - 1, int(cluster.max()) + 1
    largest, squares = np.zeros(len(start)), np.zeros(len(start))
    step = max(1, 2_000_000 // (cells + 1))
    for at in range(0, clusters, step):
        mine = (cluster >= at) & (cluster < at + step)
        rows = min(step, clusters - at)
        counts = np.bincount((cluster[mine] - at) * cells + cell[mine], minlength=rows * cells)
        so_far = np.hstack([np.zeros((rows, 1)), np.cumsum(counts.reshape(rows, cells), axis=1)])
        for row in so_far:
            inside = row[end] - row[start]
            np.maximum(largest, inside, out=largest)
            squares += np.square(inside)
    n = items[end] - items[start]
    return largest / n, squares / np.square(n)


def _bounded_means(mean: Floats, largest: Floats, squares: Floats, error: float) -> tuple[Floats, Floats]:
    reach = np.log(2 / error)
    hoeffding = np.sqrt(reach * squares / 2)
    divergence = reach * largest
    high = np.minimum(_chernoff(mean, divergence), mean + hoeffding)
    low = np.maximum(1 - _chernoff(1 - mean, divergence), mean - hoeffding)
    return np.clip(low, 0.0, 1.0), np.clip(high, 0.0, 1.0)


def _chernoff(mean: Floats, divergence: Floats) -> Floats:
    """Largest probability whose Kullback-Leibler divergence from ``mean`` is no more than ``divergence``."""
    from scipy.special import rel_entr

    inside, outside = mean.copy(), np.ones(len(mean))
    for _ in range(_HALVINGS):
        middle = (inside + outside) / 2
        near = rel_entr(mean, middle) + rel_entr(1 - mean, 1 - middle) <= divergence
        inside, outside = np.where(near, middle, inside), np.where(near, outside, middle)
    return outside
