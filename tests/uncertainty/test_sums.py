"""Sums that do not depend on order: to the bit, and at least as accurate as a plain sum."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.uncertainty.sums import exact_sum, sums_by_cluster

numbers = st.floats(-1e100, 1e100)


@settings(max_examples=200, deadline=None)
@given(st.lists(numbers, max_size=40), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_bits(values: list[float], shuffle: object) -> None:
    x = np.array(values)
    total = exact_sum(x)
    shuffle.shuffle(values)  # type: ignore[attr-defined]
    assert exact_sum(np.array(values)) == total
    size = max((abs(v) for v in values), default=0.0)
    assert total == pytest.approx(math.fsum(values), rel=3e-16, abs=1e-16 * size + 1e-300)


def test_large_addends_that_cancel_leave_the_small_ones() -> None:
    x = np.concatenate([[1e10], np.full(1000, 1e-3), [-1e10]])
    assert exact_sum(x) == pytest.approx(1.0, abs=1e-9)
    assert exact_sum(np.array([1e16, 1.0, -1e16])) == 1.0


def test_a_million_addends() -> None:
    generator = np.random.default_rng(3)
    x = generator.normal(size=1_000_000)
    assert exact_sum(x) == math.fsum(x)
    assert exact_sum(generator.permutation(x)) == exact_sum(x)


def test_subnormal_numbers_are_kept() -> None:
    assert exact_sum(np.array([5e-324, 5e-324])) == 1e-323


def test_sums_by_cluster_are_those_of_each_cluster() -> None:
    generator = np.random.default_rng(4)
    x, codes = generator.lognormal(0, 3, 5000), generator.integers(0, 50, 5000)
    totals = sums_by_cluster(codes, x, 51)
    assert totals[:50] == pytest.approx([math.fsum(x[codes == g]) for g in range(50)], rel=1e-14)
    assert totals[50] == 0
    order = generator.permutation(5000)
    assert (sums_by_cluster(codes[order], x[order], 51) == totals).all()
