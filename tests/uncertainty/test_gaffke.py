"""Gaffke's interval: analytic cases, exact against drawn, coverage, never zero width."""

from __future__ import annotations

import math

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


@pytest.mark.parametrize(
    "values",
    [
        [0.2, 0.7],
        [0.1, 0.4, 0.9],
        [0.0, 0.0, 0.5, 1.0],
        [0.3] * 5,
        [0, 1] * 3,
        [0, 1],
        [0, 1, 1, 1, 1],
        [0, 0, 0, 0, 0, 1],
        [0.5, 1.0],
    ],
)
def test_exact_and_drawn_agree(values: list[float], monkeypatch: pytest.MonkeyPatch) -> None:
    exact = gaffke_interval(values, 0, 1)
    monkeypatch.setattr(gaffke, "EXACT", 0)
    drawn = gaffke_interval(values, 0, 1)
    assert drawn == pytest.approx(exact, abs=0.01)
    assert drawn != exact


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
        low, high = gaffke_interval(draw(generator, n), 0, 1)  # type: ignore[operator]
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
