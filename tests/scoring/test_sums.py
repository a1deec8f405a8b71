"""Order-free sums: the same to the bit in any order, and as good as exactly rounded ones."""

from __future__ import annotations

import math
import tracemalloc
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import brier_score
from evalkit.scoring.sums import CHUNK, order_free_sum

finite = st.floats(allow_nan=False, allow_infinity=False, width=64, min_value=-1e300, max_value=1e300)


@settings(max_examples=300, deadline=None)
@given(st.lists(finite, max_size=60), st.randoms(use_true_random=False))
def test_any_order_gives_the_same_bits(terms: list[float], order: object) -> None:
    shuffled = list(terms)
    order.shuffle(shuffled)  # type: ignore[attr-defined]
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
