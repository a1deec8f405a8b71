"""Items sorted by forecast, in groups of (nearly) equal forecasts: what bands are drawn on.

Rules
- The order depends only on what the items hold, so that random draws are the same in any order of the rows.
- Equal forecasts are never parted.  Above `MOST_GROUPS` distinct forecasts, neighbours share a group, with
  their mean forecast: a band has no finer features, and the time of a draw stays bounded.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from evalkit.calibration.canonical import canonical
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Items

#: groups in which a band is computed
MOST_GROUPS = 2048

Indices = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class SortedItems:
    """Items by ascending forecast, arrays of shape (n,), in groups, arrays of shape (m,).

    ``cluster``: numbers 0 … ``n_clusters`` - 1 of each item's cluster, or None; ``starts``: first item of
    each group; ``x``: (weighted) mean forecast of a group, ``n``: its items, ``weight``: its weight;
    ``bundled``: whether some group holds different forecasts.
    """

    items: Items
    y: Floats
    p: Floats
    weights: Floats | None
    cluster: Indices | None
    n_clusters: int | None
    starts: Indices
    x: Floats
    n: NDArray[np.int64]
    weight: Floats
    bundled: bool

    def __len__(self) -> int:
        return len(self.y)

    @property
    def events(self) -> Floats:
        """(Weighted) sum of outcomes in each group."""
        return self.sums(self.y)

    def sums(self, values: Floats) -> Floats:
        """(Weighted) sum of the items' values in each group."""
        return np.add.reduceat(values if self.weights is None else values * self.weights, self.starts)


def sort_items(items: Items, boundaries: Floats | None = None, most: int = MOST_GROUPS) -> SortedItems:
    """Items sorted and grouped; no group spans one of the ``boundaries`` (ascending forecasts)."""
    same, _ = canonical(items)
    order = np.argsort(same.p, kind="stable")
    y, p = same.y[order] + 0.0, same.p[order] + 0.0
    weights = None if same.weights is None else same.weights[order]
    cluster = None if same.cluster is None else same.cluster[order].astype(np.intp)
    fresh = np.append(True, p[1:] != p[:-1])
    starts = np.flatnonzero(fresh)
    bundled = len(starts) > most
    if bundled:
        wanted = np.linspace(0, len(p), most, endpoint=False).astype(np.intp)
        wanted = starts[np.searchsorted(starts, wanted, side="right") - 1]
        if boundaries is not None:
            wanted = np.append(wanted, np.searchsorted(p, boundaries, side="left"))
        starts = np.unique(wanted[wanted < len(p)])
    n = np.diff(np.append(starts, len(p)))
    weight = n.astype(np.float64) if weights is None else np.add.reduceat(weights, starts)
    x = p[starts]
    if bundled:
        x = np.add.reduceat(p if weights is None else p * weights, starts) / weight
    return SortedItems(
        items=same,
        y=y,
        p=p,
        weights=weights,
        cluster=cluster,
        n_clusters=None if cluster is None else int(cluster.max()) + 1,
        starts=starts,
        x=x,
        n=n,
        weight=weight,
        bundled=bundled,
    )
