"""Bins of forecasts: edges, counts and sums in each bin, in one pass and the same in any order.

Rules
- A bin is [a, b), the last one [a, b]: p = 1 has no bin of its own.
- Edges of equal width are ``np.linspace(0, 1, bins + 1)`` in float64, in which a forecast of .3 lies below
  the edge 3 · .1 = .30000000000000004.  The edges that were used are part of every result.
- Edges of equal mass are quantiles of the forecasts; equal quantiles are one edge.
- Counts are integers.  Sums are those of `evalkit.exact_sums`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.arrays import floats
from evalkit.calibration.isotonic import forecast_of, sorted_keys
from evalkit.exact_sums import Floats, GroupedSums, chunks
from evalkit.scoring.inputs import Items

Binning = Literal["width", "mass"]
Cells = NDArray[np.intp]

#: up to this many edges, counting the edges below a forecast is faster than searching among them
_FEW = 64


@dataclass(frozen=True, eq=False)
class Bins:
    """Bins that hold an item, ascending; arrays of shape (B,).

    ``number``: place among all bins, from 0; ``low``, ``high``: edges; ``n``: items; ``weight``: sum of
    weights (n without weights); ``events``: (weighted) sum of y; ``forecast``: (weighted) mean of p.
    """

    number: Cells
    low: Floats
    high: Floats
    n: NDArray[np.int64]
    weight: Floats
    events: Floats
    forecast: Floats

    def __len__(self) -> int:
        return len(self.n)

    @property
    def share(self) -> Floats:
        return self.weight / math.fsum(self.weight)

    @property
    def frequency(self) -> Floats:
        """Frequency of events in each bin."""
        return self.events / self.weight

    def lookup(self, values: Floats, size: int) -> Floats:
        """``values`` (B,) of these bins, placed among all ``size`` bins; 0 for the empty ones."""
        placed = np.zeros(size)
        placed[self.number] = values
        return placed


def bin_edges(p: Floats, bins: int | ArrayLike, binning: Binning) -> Floats:
    """Edges, ascending, shape (B + 1,): ``bins`` of them for ``binning``, or the edges that ``bins`` lists.

    Raises `ValueError` where there is no bin, or listed edges do not ascend or leave a forecast outside.
    """
    if np.ndim(bins) == 1:
        edges = floats(bins, "bins")
        if len(edges) < 2 or not (np.diff(edges) > 0).all() or not np.isfinite(edges).all():
            raise ValueError(f"bins lists the edges {edges.tolist()}: expected at least two, ascending")
        if p.min() < edges[0] or p.max() > edges[-1]:
            raise ValueError(f"bins from {edges[0]} to {edges[-1]} leave forecasts outside: extend them")
        return edges
    if isinstance(bins, bool) or not isinstance(bins, (int, np.integer)) or bins < 1:
        raise ValueError(f"bins={bins!r}: expected a number of at least 1, or a list of edges")
    if binning not in ("width", "mass"):
        raise ValueError(f"binning={binning!r}: expected 'width' or 'mass'")
    shares = np.linspace(0.0, 1.0, int(bins) + 1)
    if binning == "width":
        return shares
    # numpy sorts with vector instructions, and takes four times as long to select among what is not sorted
    edges = np.unique(np.quantile(np.sort(p), shares, overwrite_input=True) + 0.0)
    return np.repeat(edges, 2) if len(edges) == 1 else edges


def cells(p: Floats, edges: Floats) -> Cells:
    """Number of the bin of each forecast, shape (n,)."""
    inner = edges[1:-1]
    if len(inner) > _FEW:
        return np.searchsorted(inner, p, side="right")
    below = np.zeros(len(p), dtype=np.uint8)
    reached = np.empty(len(p), dtype=bool)
    for edge in inner:
        np.greater_equal(p, edge, reached)
        np.add(below, reached.view(np.uint8), below)
    return below.astype(np.intp)


def binned(y: Floats, p: Floats, edges: Floats, weights: Floats | None = None) -> Bins:
    """Items (n,) in bins between ``edges``; validated by the caller, y within [0, 1]."""
    size = len(edges) - 1
    counts = np.zeros(size, dtype=np.int64)
    bound = 1.0 if weights is None else float(weights.max())
    forecasts, events, mass = (GroupedSums(size, len(p), bound) for _ in range(3))
    for part in chunks(len(p)):
        forecast, outcome, cell = p[part], y[part], cells(p[part], edges)
        counts += np.bincount(cell, minlength=size)
        if weights is not None:
            weight = weights[part]
            mass.add(cell, weight)
            forecast, outcome = forecast * weight, outcome * weight
        forecasts.add(cell, forecast)
        events.add(cell, outcome)
    total = counts.astype(np.float64) if weights is None else mass.total()
    full = total > 0  # bins that hold nothing, or items of weight zero only, say nothing
    return Bins(
        np.flatnonzero(full),
        edges[:-1][full],
        edges[1:][full],
        counts[full],
        total[full],
        events.total()[full],
        forecasts.total()[full] / total[full],
    )


def distinct(y: Floats, p: Floats) -> Bins:
    """One bin for each distinct forecast, whose mean is that forecast exactly."""
    if ((y == 0) | (y == 1)).all():
        keys = sorted_keys(y, p)
        value = forecast_of(keys)
        starts = np.flatnonzero(np.concatenate([[True], value[1:] != value[:-1]]))
        events = np.add.reduceat((keys & np.uint64(1)) == 0, starts, dtype=np.int64).astype(np.float64)
        value = value[starts]
    else:
        order = np.lexsort((y, p + 0.0))
        ordered = p[order] + 0.0
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
        events = np.add.reduceat(y[order], starts)
        value = ordered[starts]
    n = np.diff(np.append(starts, len(p)))
    return Bins(np.arange(len(n)), value, value, n, n.astype(np.float64), events, value)


def frequency_variance(
    bins: Bins, items: Items, number: Callable[[], Cells]
) -> tuple[Floats, NDArray[np.int64]]:
    """Variance of the frequency in each bin, and the number of clusters in it, each of shape (B,).

    Independent items: ȳ(1 - ȳ)/(n - 1) (Bröcker 2012; Ferro & Fricker 2012).  Items in clusters: the sum of
    squared cluster totals (Liang & Zeger 1986), times G/(G - 1).  A bin of one item or cluster shows no
    variance: 0.  ``number``: gives the number of each item's bin, and is asked only where needed.
    """
    weights, cluster = items.weights, items.cluster
    if cluster is None and weights is None and _binary(items.y):
        independent = np.maximum(bins.n - 1, 1)
        return bins.frequency * (1 - bins.frequency) / independent, bins.n
    cell = number()
    residual = items.y - bins.lookup(bins.frequency, int(cell.max()) + 1)[cell]
    if weights is not None:
        residual = residual * weights
        cell, residual = cell[weights > 0], residual[weights > 0]
    if cluster is None:
        group = np.arange(len(cell))
    else:
        group = np.unique(cluster, return_inverse=True)[1]
        group = group if weights is None else group[weights > 0]
    order = np.lexsort((residual, group, cell))  # residuals ascend, so that their sums keep every bit
    group, cell, residual = group[order], cell[order], residual[order]
    starts = np.flatnonzero(np.append(True, (np.diff(group) != 0) | (np.diff(cell) != 0)))
    squares, cell = np.square(np.add.reduceat(residual, starts)), cell[starts]
    order = np.lexsort((squares, cell))
    firsts = np.flatnonzero(np.append(True, np.diff(cell) != 0))
    groups = np.diff(np.append(firsts, len(cell)))
    total = np.add.reduceat(squares[order], firsts)
    return np.where(
        groups > 1, total / np.square(bins.weight) * groups / np.maximum(groups - 1, 1), 0.0
    ), groups


def _binary(y: Floats) -> bool:
    """Whether all outcomes are 0 or 1: halves may add up to whole numbers of events too."""
    return all(bool((y[part] * y[part] == y[part]).all()) for part in chunks(len(y)))
