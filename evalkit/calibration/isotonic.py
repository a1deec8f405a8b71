"""Isotonic regression of binary outcomes on forecasts: pool-adjacent-violators, exactly.

The recalibrated forecast r of a forecast p is the non-decreasing function of p that is closest to the
outcomes, for every proper score at once (Ayer et al. 1955; Dimitriadis, Gneiting & Jordan 2021).  It is
constant on blocks of neighbouring forecasts, with the frequency of events in the block as its value.

Rules
- Equal forecasts are one group before anything is pooled: otherwise the fit depends on the order of rows.
- Counts are integers and blocks are compared by cross-multiplication: the blocks are exact, in any order
  of the rows.  Neighbouring blocks of equal value are one block.
- With weights or fractional outcomes the counts are sums of floats, added in an order that only depends on
  the items: the blocks are the same to the bit in any order of the rows, and exact but for rounding.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from evalkit.exact_sums import Floats, chunks

Counts = NDArray[np.int64]

#: passes of vectorised pooling before the last blocks are pooled one by one
_PASSES = 48


@dataclass(frozen=True, eq=False)
class Blocks:
    """Blocks in ascending order, each array of shape (B,).

    ``n``: items, or their weight; ``events``: items with outcome 1, or the weighted sum of outcomes;
    ``first`` and ``last``: lowest and highest forecast.
    """

    n: Counts | Floats
    events: Counts | Floats
    first: Floats
    last: Floats

    @property
    def value(self) -> Floats:
        """Frequency of events in each block: the recalibrated forecast."""
        return self.events / self.n

    def of(self, p: Floats) -> Floats:
        """Recalibrated forecast of items that were fitted."""
        return self.value[np.searchsorted(self.first, p, side="right") - 1]

    def at(self, p: Floats) -> Floats:
        """Recalibrated forecast at ``p``: interpolated linearly between blocks, constant beyond the ends."""
        x, value = np.column_stack([self.first, self.last]).ravel(), np.repeat(self.value, 2)
        after = np.searchsorted(x, p, side="right")
        low, high = np.maximum(after - 1, 0), np.minimum(after, len(x) - 1)
        # not np.interp: its slope overflows where two forecasts nearly are one
        width = x[high] - x[low]
        share = np.divide(np.asarray(p) - x[low], width, where=width > 0, out=np.zeros_like(width))
        share = np.clip(share, 0.0, 1.0)
        return np.asarray(np.minimum(value[low] + share * (value[high] - value[low]), value[high]))


def sorted_keys(y: Floats, p: Floats) -> NDArray[np.uint64]:
    """Each item as one integer, sorted by forecast and, within equal forecasts, events first.

    The bits of a float in [0, 1] order as the number does and leave one bit free for the outcome, so that
    one sort of integers does what would take a stable sort of pairs.
    """
    keys = np.empty(len(p), dtype=np.uint64)
    for part in chunks(len(p)):
        key = keys[part]
        np.left_shift((p[part] + 0.0).view(np.uint64), np.uint64(1), key)  # + 0.0 turns -0 into 0
        np.bitwise_or(key, y[part] == 0.0, key, casting="unsafe")
    keys.sort()
    return keys


def isotonic(y: Floats, p: Floats) -> Blocks:
    """Isotonic fit of outcomes 0 or 1 (n,) on forecasts (n,), n ≥ 1; validated by the caller."""
    return pool_keys(sorted_keys(y, p))


def weighted_isotonic(y: Floats, p: Floats, weights: Floats | None) -> Blocks:
    """The same for outcomes in [0, 1] and items of positive weight (n,), at the cost of a slower sort."""
    order = np.lexsort((y, p) if weights is None else (weights, y, p))
    y, p = y[order], p[order] + 0.0
    starts = np.flatnonzero(np.concatenate([[True], p[1:] != p[:-1]]))
    weight = np.ones(len(p)) if weights is None else weights[order]
    n, events, kept = pool(np.add.reduceat(weight, starts), np.add.reduceat(weight * y, starts))
    starts = starts[kept]
    return Blocks(n, events, p[starts], p[np.append(starts[1:], len(p)) - 1])


def pool_keys(keys: NDArray[np.uint64]) -> Blocks:
    """Isotonic fit of items from `sorted_keys`."""
    # Events stand before non-events among equal forecasts, so any run of events and the non-events behind
    # it decreases and is pooled in the fit; a block can start only where an event follows a non-event.
    happened = (keys & np.uint64(1)) == 0
    turns = np.flatnonzero(happened[1:] != happened[:-1]) + 1
    edges = np.concatenate([[0], turns, [len(keys)]])
    if not happened[0]:
        edges = np.concatenate([[0], edges])  # no event in the first run
    if len(edges) % 2 == 0:
        edges = np.append(edges, len(keys))  # no non-event in the last one
    starts, tops = edges[:-1:2], edges[1::2]
    n, events, kept = pool(np.diff(edges[::2]), tops - starts)
    starts = starts[kept]
    lasts = np.append(starts[1:], len(keys)) - 1
    return Blocks(n, events, forecast_of(keys[starts]), forecast_of(keys[lasts]))


def forecast_of(keys: NDArray[np.uint64]) -> Floats:
    return (keys >> np.uint64(1)).view(np.float64)


N = TypeVar("N", Counts, Floats)
E = TypeVar("E", Counts, Floats)


def pool(n: N, events: E) -> tuple[N, E, Counts]:
    """Pool-adjacent-violators of groups in ascending order: items, events and first group of each block."""
    kept = np.arange(len(n))
    for _ in range(_PASSES):
        rising = events[:-1] * n[1:] < events[1:] * n[:-1]
        if rising.all():
            return n, events, kept
        # every maximal run that does not rise lies within one block of the fit
        starts = np.concatenate([[0], np.flatnonzero(rising) + 1])
        n, events, kept = np.add.reduceat(n, starts), np.add.reduceat(events, starts), kept[starts]
    return _one_by_one(n, events, kept)


def _one_by_one(n: N, events: E, kept: Counts) -> tuple[N, E, Counts]:
    """The same for groups that pool in a long chain, where each vectorised pass would pool a few."""
    blocks: list[tuple[Any, Any, int]] = []
    for size, count, first in zip(n.tolist(), events.tolist(), kept.tolist(), strict=True):
        while blocks and blocks[-1][1] * size >= count * blocks[-1][0]:
            before, so_far, first = blocks.pop()
            size, count = size + before, count + so_far
        blocks.append((size, count, first))
    sizes, counts, firsts = zip(*blocks, strict=True)
    return (
        np.array(sizes, dtype=n.dtype),
        np.array(counts, dtype=events.dtype),
        np.array(firsts, dtype=np.int64),
    )
