"""Gaffke's interval: analytic cases, the exact spline, Clopper-Pearson, draws, coverage, never zero width."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalkit.uncertainty import gaffke, gaffke_interval


def test_one_observation_has_the_analytic_interval() -> None:
    """n = 1, x = 1/2: the mean of {x, 1} under a uniform weight is uniform on [1/2, 1]."""
    low, high = gaffke_interval([0.5], 0, 1)
    assert low == pytest.approx(0.0125, abs=1e-9)
    assert high == pytest.approx(0.9875, abs=1e-9)


@pytest.mark.parametrize("n", range(1, 7))
def test_all_zeros_give_the_binomial_bound(n: int) -> None:
    low, high = gaffke_interval([0.0] * n, 0, 1)
    assert low == 0.0
    assert high == pytest.approx(1 - 0.025 ** (1 / n), abs=1e-7)


@pytest.mark.parametrize("n", range(1, 7))
def test_all_ones_mirror_all_zeros(n: int) -> None:
    zeros, ones = gaffke_interval([0.0] * n, 0, 1), gaffke_interval([1.0] * n, 0, 1)
    assert ones.low == pytest.approx(1 - zeros.high, abs=1e-9)
    assert ones.high == 1.0


def spline_distribution(knots: list[float], t: float) -> Fraction:
    """P(spacings-weighted mean <= t) by divided differences in exact arithmetic; the knots must differ."""
    exact, at = [Fraction(knot) for knot in knots], Fraction(t)
    n = len(exact) - 1
    total = Fraction(0)
    for i, knot in enumerate(exact):
        if knot < at:
            others = math.prod(other - knot for j, other in enumerate(exact) if j != i)
            total += (at - knot) ** n / others
    return total


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 9999), min_size=1, max_size=12, unique=True),
    st.sampled_from([0.05, 0.2, 0.9, 1e-6]),
)
def test_the_bounds_are_quantiles_of_the_exact_spline(ten_thousandths: list[int], alpha: float) -> None:
    values = [v / 10_000 for v in ten_thousandths]
    low, high = gaffke_interval(values, 0, 1, alpha)
    assert float(spline_distribution([0.0, *values], low)) == pytest.approx(alpha / 2, rel=1e-8)
    assert float(1 - spline_distribution([*values, 1.0], high)) == pytest.approx(alpha / 2, rel=1e-8)


@pytest.mark.parametrize("alpha", [0.05, 0.9, 1e-6])
@pytest.mark.parametrize("n", [1, 2, 3, 10, 50, 1000, 100_000])
def test_two_point_data_give_the_interval_of_clopper_and_pearson(n: int, alpha: float) -> None:
    from scipy.stats import beta

    for k in {0, 1, 2, 5, n // 3, n - 5, n - 1, n} & set(range(n + 1)):
        low, high = gaffke_interval([0.0] * (n - k) + [1.0] * k, 0, 1, alpha)
        assert low == pytest.approx(beta.ppf(alpha / 2, k, n - k + 1) if k else 0.0, rel=1e-9, abs=1e-15)
        missing = beta.ppf(alpha / 2, n - k, k + 1) if k < n else 0.0
        assert 1 - high == pytest.approx(missing, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("n", [7, 40, 300])
@pytest.mark.parametrize("power", [0.1, 1.0, 8.0])
def test_draws_of_the_spacings_fall_below_the_bounds_as_often_as_they_should(n: int, power: float) -> None:
    generator = np.random.default_rng(n)
    x = np.append(generator.random(n) ** power, [0.0, 0.0, 1.0])
    low, high = gaffke_interval(x, 0, 1, alpha=0.2)
    weights = generator.standard_exponential((20_000, len(x) + 1))
    weights /= weights.sum(axis=1, keepdims=True)
    below = np.mean(weights @ np.append(x, 0.0) <= low)
    above = np.mean(weights @ np.append(x, 1.0) >= high)
    assert below == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 20_000))
    assert above == pytest.approx(0.1, abs=4 * math.sqrt(0.09 / 20_000))


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.floats(-9, 0), min_size=1, max_size=4),
    st.integers(1, 400),
    st.integers(0, 2**32 - 1),
)
def test_a_finer_rule_on_another_contour_gives_the_same(exponents: list[float], n: int, seed: int) -> None:
    """Values on scales from 1e-9 to 1, in runs of ties and alone: where a contour could go wrong."""
    generator = np.random.default_rng(seed)
    x = 10.0 ** generator.choice(exponents, n) * np.where(generator.random(n) < 0.5, 1.0, generator.random(n))
    usual = gaffke_interval(x, 0, 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(gaffke, "FIRST_STEP", 0.05)
        patch.setattr(gaffke, "WIDTHS", 1.0)
        assert gaffke_interval(x, 0, 1) == pytest.approx(usual, rel=1e-9)


def test_an_independent_program_gives_the_same_for_paired_differences() -> None:
    """113 wins, 59 losses, 557 ties: the reference comes from an independent program."""
    x = [1.0] * 113 + [-1.0] * 59 + [0.0] * 557
    assert gaffke_interval(x, -1, 1) == pytest.approx([0.03780915255214268, 0.11035692109470574], abs=1e-9)


def test_the_range_only_shifts_and_scales() -> None:
    unit = gaffke_interval([0.25, 0.5], 0, 1)
    wide = gaffke_interval([0.5, 1.0], 0, 2)
    assert wide == pytest.approx([2 * x for x in unit])
    moved = gaffke_interval([-0.75, -0.5], -1, 0)
    assert moved == pytest.approx([x - 1 for x in unit])


@settings(max_examples=150, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=6))
@example([0.0, 1.0])
@example([0.0, 5e-324])
@example([0.9999999999999999])
@example([0.0, 0.0, 0.0, 1.0, 1.0, 1.0])
def test_never_of_zero_width_and_always_around_the_mean(values: list[float]) -> None:
    low, high = gaffke_interval(values, 0, 1)
    mean = math.fsum(values) / len(values)
    assert 0 <= low <= high <= 1
    assert high - low > 0.3
    assert low - 1e-9 <= mean <= high + 1e-9


def test_constant_data_has_width_at_any_size() -> None:
    for n in (2, 6, 7, 40):
        low, high = gaffke_interval([0.5] * n, 0, 1)
        assert low < 0.5 < high


def test_the_same_data_give_the_same_interval_in_any_order() -> None:
    values = list(np.random.default_rng(1).random(12))
    assert gaffke_interval(values, 0, 1) == gaffke_interval(values[::-1], 0, 1)


def test_a_higher_level_is_wider() -> None:
    narrow, wide = gaffke_interval([0.2, 0.6, 0.7], 0, 1, alpha=0.2), gaffke_interval([0.2, 0.6, 0.7], 0, 1)
    assert wide.low < narrow.low
    assert narrow.high < wide.high


def coverage(draw: object, mean: float, n: int, repeats: int) -> float:
    generator = np.random.default_rng(20261130)
    hits = 0
    for _ in range(repeats):
        low, high = gaffke_interval(draw(generator, n), 0, 1)
        hits += low <= mean <= high
    return hits / repeats


@pytest.mark.parametrize(
    ("draw", "mean"),
    [
        (lambda g, n: (g.random(n) < 0.05).astype(float), 0.05),
        (lambda g, n: g.random(n), 0.5),
        (lambda g, n: g.beta(0.2, 1.8, n), 0.1),
    ],
    ids=["rare", "uniform", "skewed"],
)
def test_it_covers_the_mean_at_least_as_often_as_it_says(draw: object, mean: float) -> None:
    """250 repeats: three standard errors below 0.95 would be 0.909."""
    assert coverage(draw, mean, 4, 250) >= 0.91


@pytest.mark.slow
def test_it_covers_the_mean_in_a_larger_simulation() -> None:
    assert coverage(lambda g, n: (g.random(n) < 0.1).astype(float), 0.1, 5, 4000) >= 0.94


@pytest.mark.parametrize(
    ("x", "lo", "hi", "alpha"),
    [([], 0, 1, 0.05), ([[0.5]], 0, 1, 0.05), ([1.5], 0, 1, 0.05), ([-0.1], 0, 1, 0.05),
     ([math.nan], 0, 1, 0.05), ([0.5], 0, math.inf, 0.05), ([0.5], 1, 0, 0.05), ([0.5], 0, 1, 0.0),
     ([0.5], 0, 1, 1.0), ([0.5], 0.5, 0.5, 0.05)],
)  # fmt: skip
def test_bad_input_is_refused(x: list[float], lo: float, hi: float, alpha: float) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the messages differ
        gaffke_interval(x, lo, hi, alpha)
