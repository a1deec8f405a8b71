"""Sums that do not depend on the order of their terms.

A floating-point sum changes its last digits with the order of the rows, and with it every figure that is
derived from it.  Here each term is rounded onto a fixed grid, on which addition is exact and therefore
commutes; what the rounding leaves is rounded onto a second, finer grid (Demmel & Nguyen 2015, "Parallel
reproducible summation").  Two grids of 39 bits leave an error below 2^-77 of the largest term in each term:
less than an eighth of the rounding of the result, unless the sum is tiny against its largest term.  Then, and
only then, `math.fsum` adds exactly.

Sums by group use the same idea with grids that leave room for n terms, since a group may hold them all.

Terms are taken in chunks that stay in the processor's cache, so that memory does not grow with n.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: terms in a chunk (128 KiB of float64)
CHUNK = 16384
#: bits of a grid: CHUNK terms of 39 bits add up to no more than the 53 of a float64
_BITS = 53 - (CHUNK.bit_length() - 1)
#: a sum below this share of n times the bound is added exactly instead: n errors of 2^-78 of the bound would not
#: be small against the 2^-53 of the result
_TINY = 2.0**-22


def chunks(n: int, size: int = CHUNK) -> Iterator[slice]:
    """Slices that cover 0 … n in order."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def order_free_sum(terms: Floats) -> float:
    """Sum of ``terms`` (shape (n,)), the same to the bit in any order; inf or NaN as IEEE 754 would have it."""
    if len(terms) == 0:
        return 0.0
    bound = max(float(np.maximum.reduce(terms)), -float(np.minimum.reduce(terms)))
    if not math.isfinite(bound):
        return _not_finite(terms)
    if bound == 0.0:
        return 0.0
    return streamed_sum(len(terms), lambda part, _: terms[part], bound)


def _not_finite(terms: Floats) -> float:
    """NaN where a term is NaN or both infinities occur, else the infinity."""
    with np.errstate(invalid="ignore"):
        return float(terms[~np.isfinite(terms)].sum())


def streamed_sum(n: int, terms: Callable[[slice, Floats], Floats], bound: float) -> float:
    """Sum over n terms of absolute value up to ``bound``, of which ``terms(part, out)`` computes a slice.

    ``out``: float64 scratch of the slice's length, which may hold the answer.
    """
    # An exponent that leaves the grids inside the range of float64; terms beyond are added exactly.
    exponent = math.frexp(bound)[1]
    if not -900 < exponent < 900:
        return _exact(n, terms)
    coarse, fine = 1.5 * 2.0 ** (52 - _BITS + exponent), 1.5 * 2.0 ** (52 - 2 * _BITS + exponent)
    out, grid = np.empty(min(n, CHUNK)), np.empty(min(n, CHUNK))
    add, subtract, total = np.add, np.subtract, np.add.reduce
    parts: list[float] = []
    for part in chunks(n):
        size = part.stop - part.start
        x = terms(part, out[:size])
        g = grid[:size]
        add(x, coarse, g)
        subtract(g, coarse, g)
        parts.append(total(g))
        subtract(x, g, g)
        add(g, fine, g)
        subtract(g, fine, g)
        parts.append(total(g))
    value = math.fsum(parts)
    if abs(value) < _TINY * n * bound:
        return _exact(n, terms)
    return value


def _exact(n: int, terms: Callable[[slice, Floats], Floats]) -> float:
    out = np.empty(min(n, CHUNK))

    def each(share: float = 1.0) -> Iterator[float]:
        for part in chunks(n):
            yield from (terms(part, out[: part.stop - part.start]) * share).tolist()

    try:
        return math.fsum(each())
    except OverflowError:  # a sum on the way was too large; the result need not be
        return math.fsum(each(2.0**-64)) * 2.0**64


class GroupedSums:
    """Sums of n terms by group, the same to the bit in any order of the terms.

    ``size`` groups; ``n`` terms or fewer will be added, of absolute value up to ``bound``.  The error of a
    group is below its number of terms times 2^-53 of the bound.
    """

    def __init__(self, size: int, n: int, bound: float) -> None:
        exponent = math.frexp(bound)[1]
        self._scale = 0 if -900 < exponent < 900 else exponent  # else the grids leave the range of float64
        bits = 52 - int(n).bit_length()
        self._grids = [
            1.5 * 2.0 ** (52 - level * bits + exponent - self._scale)
            for level in range(1, math.ceil(54 / bits) + 1)
        ]
        self._sums = [np.zeros(size) for _ in self._grids]
        self._size = size

    def add(self, group: NDArray[np.intp], terms: Floats) -> None:
        """Add ``terms`` (m,) to their groups (m,), numbered from 0; best in chunks."""
        rest = np.ldexp(terms, -self._scale) if self._scale else terms
        for grid, sums in zip(self._grids, self._sums, strict=True):
            on_grid = rest + grid
            on_grid -= grid
            sums += np.bincount(group, on_grid, self._size)
            rest = rest - on_grid
            if not rest.any():  # counts, and short binary fractions
                return

    def total(self) -> Floats:
        """Sum of each group, shape (size,)."""
        total = self._sums[-1].copy()
        for sums in reversed(self._sums[:-1]):
            total += sums
        return np.ldexp(total, self._scale) if self._scale else total


def grouped_sums(group: NDArray[np.intp], terms: Floats, size: int) -> Floats:
    """Sum of finite ``terms`` (n,) in each of ``size`` groups, numbered from 0 by ``group`` (n,)."""
    if len(terms) == 0:
        return np.zeros(size)
    bound = max(float(np.maximum.reduce(terms)), -float(np.minimum.reduce(terms)))
    sums = GroupedSums(size, len(terms), bound)
    # a chunk of fewer terms than groups would spend its time on the groups
    for part in chunks(len(terms), max(CHUNK, 4 * size)):
        sums.add(group[part], terms[part])
    return sums.total()
