"""Sums that do not depend on the order of their terms.

A floating-point sum changes its last digits with the order of the rows, and with it every figure that is
derived from it.  Here each term is rounded onto a fixed grid, on which addition is exact and therefore
commutes; what the rounding leaves is rounded onto a second, finer grid (Demmel & Nguyen 2015, "Parallel
reproducible summation").  Two grids of 39 bits leave an error below 2^-77 of the largest term in each term:
far less than the rounding of the result, unless the sum is tiny against its largest term.  Then, and only
then, `math.fsum` adds exactly.

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
#: a sum below this share of n times the bound is added exactly instead
_TINY = 2.0**-30


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

    def each() -> Iterator[float]:
        for part in chunks(n):
            yield from terms(part, out[: part.stop - part.start]).tolist()

    return math.fsum(each())
