"""Items in an order of their own, whatever the order of the rows: for folds, draws and sums.

What is random must not depend on the order of the rows, nor on what clusters are called.  So items are
sorted by content, clusters by the hash of what they hold, and seeds derive from the sorted content.  Items
(or clusters) of equal content are exchangeable: which of them comes first changes no figure.
"""

from __future__ import annotations

import hashlib

import numpy as np
from numpy.typing import NDArray

from evalkit.scoring.inputs import Items

Order = NDArray[np.intp]


def canonical(items: Items) -> tuple[Items, Order]:
    """The items sorted by cluster and content, clusters numbered 0 … G - 1, and the order that did it."""
    columns = [items.y + 0.0, *(np.atleast_2d(items.p.T)[::-1] + 0.0)]
    if items.weights is not None:
        columns.insert(0, items.weights)
    if items.cluster is None:
        order = np.lexsort(columns)
        return _taken(items, order, None), order
    codes = np.unique(items.cluster, return_inverse=True)[1]
    order = np.lexsort([*columns, codes])
    content = np.column_stack(columns)[order]
    starts = np.flatnonzero(np.append(True, np.diff(codes[order]) != 0))
    ends = np.append(starts[1:], len(order))
    digests = [hashlib.sha256(content[a:b].tobytes()).digest() for a, b in zip(starts, ends, strict=True)]
    rank = np.empty(len(digests), dtype=np.intp)
    rank[sorted(range(len(digests)), key=digests.__getitem__)] = np.arange(len(digests))
    codes = rank[codes]
    order = np.lexsort([*columns, codes])
    return _taken(items, order, codes), order


def _taken(items: Items, order: Order, codes: Order | None) -> Items:
    weights = None if items.weights is None else items.weights[order]
    cluster = None if codes is None else codes[order]
    return Items(items.y[order], items.p[order], weights, cluster, items.n_dropped)


def units(items: Items) -> tuple[Order, int]:
    """Number of each item's independent unit (its cluster, or the item itself), and how many there are."""
    if items.cluster is None:
        return np.arange(len(items)), len(items)
    return items.cluster, int(items.cluster.max()) + 1


def generator(items: Items, seed: int, purpose: str) -> np.random.Generator:
    """Random numbers that derive from the (canonical) items, the user's seed and what they are for."""
    digest = hashlib.sha256(f"{purpose} {seed}".encode())
    for array in (items.y, items.p, items.weights, items.cluster):
        digest.update(b"|" if array is None else np.ascontiguousarray(array + 0).tobytes())
    return np.random.default_rng(int.from_bytes(digest.digest()[:16], "big"))


def folds(items: Items, k: int, seed: int) -> Order:
    """Fold 0 … k - 1 of each (canonical) item; a cluster lies in one fold, and folds hold as many units."""
    unit, count = units(items)
    place = generator(items, seed, "folds").permutation(count)
    return np.asarray(place % min(k, count))[unit]
