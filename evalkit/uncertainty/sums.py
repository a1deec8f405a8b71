"""Sums that are the same to the bit in any order of the addends.

Floating-point addition is not associative, so a plain sum changes when rows are shuffled.  Here every addend
is rounded to a grid so coarse that sums of these parts are exact, and what remains goes to a finer grid
(Rump, Ogita & Oishi 2008; Demmel & Nguyen 2013).  The grid depends on the largest absolute value and on the
number of addends only, so the result does not depend on their order, and it is at least as accurate as a
plain sum.  It takes a few passes and no sort.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

#: largest absolute value that is accepted: its square, summed, must stay finite
LARGEST = 1e140


def exact_sum(x: NDArray[np.float64]) -> float:
    """Sum of ``x`` (shape (n,), finite, at most `LARGEST` in absolute value), in any order the same."""
    return math.fsum(float(part.sum()) for part in _exact_parts(x))


def sums_by_cluster(codes: NDArray[np.intp], x: NDArray[np.float64], n_clusters: int) -> NDArray[np.float64]:
    """Sum of ``x`` within each cluster; ``codes`` (n,) number the clusters from 0."""
    total = np.zeros(n_clusters)
    for part in _exact_parts(x):
        total += np.bincount(codes, weights=part, minlength=n_clusters)
    return total


def _exact_parts(x: NDArray[np.float64]) -> Iterator[NDArray[np.float64]]:
    """Arrays that add up to ``x`` and of which any selection sums without rounding.

    Adding and subtracting 1.5 * 2^k rounds to a multiple of 2^(k - 52).  With 2^k above n * max|x| each
    partial sum of such multiples fits into 53 bits.
    """
    if x.size == 0:
        return
    bits_for_count = int(x.size).bit_length()
    rest = x
    # one level keeps 52 - bits_for_count bits below the largest addend; 54 bits are wanted
    for _ in range(math.ceil(54 / (52 - bits_for_count))):
        largest = max(float(rest.max()), -float(rest.min()))
        if largest == 0:
            return
        grid = 1.5 * 2.0 ** (math.frexp(largest)[1] + bits_for_count)
        part = (rest + grid) - grid
        yield part
        rest = rest - part
