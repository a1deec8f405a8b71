"""Order-free sums: the same to the bit in any order, and as good as exactly rounded ones."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.exact_sums import CHUNK, GroupedSums, chunks, grouped_sums, order_free_sum
from evalkit.scoring import brier_score

finite = st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e300, max_value=1e300)


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, max_size=60), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_bits(terms: list[float], order: object) -> None:
    shuffled = list(terms)
    order.shuffle(shuffled)
    one, two = order_free_sum(np.array(terms)), order_free_sum(np.array(shuffled))
    assert one.hex() == two.hex()


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, min_size=1, max_size=60))
def test_the_error_is_far_below_the_rounding_of_the_largest_term(terms: list[float]) -> None:
    exact = sum(map(Fraction, terms), Fraction(0))
    bound = Fraction(max(map(abs, terms)))
    error = abs(Fraction(order_free_sum(np.array(terms))) - exact)
    assert error <= len(terms) * bound / 2**76 + abs(exact) / 2**53


@pytest.mark.parametrize("n", [1, CHUNK - 1, CHUNK, CHUNK + 1, 5 * CHUNK + 7])
@pytest.mark.parametrize("scale", [1e-250, 1e-12, 1.0, 1e12, 1e250])
def test_across_chunks_and_scales(n: int, scale: float) -> None:
    terms = np.random.default_rng(n).random(n) * scale
    total = order_free_sum(terms)
    assert total == pytest.approx(math.fsum(terms), rel=4e-16)
    assert order_free_sum(terms[::-1].copy()) == total
    assert order_free_sum(np.random.default_rng(1).permutation(terms)) == total


def test_tiny_terms_beside_large_ones_are_not_lost() -> None:
    """The sum of what cancels is tiny against its terms: there the exact sum steps in."""
    terms = np.array([1.0, 1e-30, -1.0])
    assert order_free_sum(terms) == 1e-30
    assert order_free_sum(np.full(100_000, 1e-200)) == pytest.approx(1e-195, rel=1e-15)


def test_subnormal_numbers_are_kept() -> None:
    assert order_free_sum(np.array([5e-324, 5e-324])) == 1e-323


groups = st.lists(st.tuples(st.integers(0, 3), finite), min_size=1, max_size=60)


@settings(max_examples=200, deadline=None)
@given(groups, st.randoms(use_true_random=False))
def test_sums_by_group_in_any_order(rows: list[tuple[int, float]], order: object) -> None:
    def sums(rows: list[tuple[int, float]]) -> list[float]:
        return grouped_sums(np.array([g for g, _ in rows]), np.array([x for _, x in rows]), 4).tolist()

    shuffled = list(rows)
    order.shuffle(shuffled)
    assert sums(rows) == sums(shuffled)
    bound = Fraction(max(abs(x) for _, x in rows))
    for g, total in enumerate(sums(rows)):
        exact = sum((Fraction(x) for h, x in rows if h == g), Fraction(0))
        assert abs(Fraction(total) - exact) <= len(rows) * bound / 2**53 + abs(exact) / 2**52


@pytest.mark.parametrize("scale", [1e-300, 1.0, 1e300])
def test_sums_by_group_of_many_terms(scale: float) -> None:
    generator = np.random.default_rng(4)
    x, group = generator.lognormal(0, 3, 50_000) * scale, generator.integers(0, 50, 50_000)
    x = np.minimum(x, 1e300)
    totals = grouped_sums(group, x, 51)
    assert totals[:50] == pytest.approx([math.fsum(x[group == g]) for g in range(50)], rel=1e-13)
    assert totals[50] == 0
    order = generator.permutation(50_000)
    assert (grouped_sums(group[order], x[order], 51) == totals).all()
    # in chunks of any size, and where all terms are of one group
    sums = GroupedSums(51, 50_000, float(x.max()))
    for part in chunks(50_000, 777):
        sums.add(group[part], x[part])
    assert (sums.total() == totals).all()
    assert grouped_sums(np.zeros(50_000, dtype=np.intp), x, 1)[0] == pytest.approx(math.fsum(x), rel=1e-13)


def test_infinities_and_nan_as_in_ieee_754() -> None:
    assert order_free_sum(np.array([1.0, math.inf])) == math.inf
    assert order_free_sum(np.array([1.0, -math.inf])) == -math.inf
    assert math.isnan(order_free_sum(np.array([math.inf, -math.inf])))
    assert math.isnan(order_free_sum(np.array([1.0, math.nan])))
    assert order_free_sum(np.array([])) == 0.0


def test_a_score_of_tiny_forecasts_keeps_its_digits() -> None:
    """Forecasts of 1e-9 of what never happened: a mean of 1e-18, not 0."""
    n = 20_000
    assert float(brier_score(np.zeros(n), np.full(n, 1e-9))) == pytest.approx(1e-18, rel=1e-15)


def test_memory_does_not_grow_with_n() -> None:
    """Below 1 MB beside the inputs, at a million items."""
    generator = np.random.default_rng(0)
    p = generator.random(1_000_000)
    y = (generator.random(1_000_000) < p).astype(np.float64)
    brier_score(y, p)
    tracemalloc.start()
    try:
        brier_score(y, p)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 1_000_000, "an array of a million floats takes 8 MB"


@pytest.mark.parametrize("n", [1, 2, 50, 1000])
def test_a_sum_that_is_small_against_its_bound_keeps_its_digits(n: int) -> None:
    """Brier scores of good forecasts are summed with the bound 1: each must come out as if added exactly."""
    p = np.random.default_rng(n).uniform(2.0**-15, 2.0**-10, n)
    exact = math.fsum((p * p).tolist()) / n
    assert abs(float(brier_score(np.zeros(n), p)) - exact) <= math.ulp(exact)


@pytest.mark.parametrize("terms", [[1e308, 1e308], [1.7e308, 1.7e308, -1.7e308, -1.7e308, 3.0], [-1e308] * 3])
def test_a_sum_beyond_the_range_on_the_way_is_no_error(terms: list[float]) -> None:
    exact = sum(map(Fraction, terms))
    expected = float(exact) if abs(exact) < 2**1024 else (math.inf if exact > 0 else -math.inf)
    assert order_free_sum(np.array(terms)) == expected
