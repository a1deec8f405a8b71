"""Smooth calibration error: definition, self-consistent bandwidth, ends, invariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.calibration import smooth_calibration_error

ITEMS = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=60)


def smoothed_error(y: Any, p: Any, sigma: float) -> float:
    """smECE at bandwidth σ from its definition: a kernel for each item, with images on either side."""
    t = np.linspace(0, 1, 20001)
    total = np.zeros_like(t)
    for outcome, forecast in zip(y, p, strict=True):
        for k in range(-4, 5):
            for image in (2 * k + forecast, 2 * k - forecast):
                total += (outcome - forecast) * np.exp(-0.5 * ((t - image) / sigma) ** 2)
    total /= sigma * math.sqrt(2 * math.pi) * len(y)
    return float(np.trapezoid(np.abs(total), t))


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=12))
def test_the_error_is_its_own_bandwidth(items: list[tuple[int, float]]) -> None:
    y, p = (list(column) for column in zip(*items, strict=True))
    found = float(smooth_calibration_error(y, p))
    if found > 0.005:
        assert smoothed_error(y, p, found) == pytest.approx(found, rel=2e-4, abs=2e-6)


def test_one_constant_forecast() -> None:
    """All residuals at one place: smoothing keeps their mean, for p at an end too."""
    for p, y, expected in ((0.3, [1, 0, 0, 0], 0.05), (1.0, [1, 0], 0.5), (0.0, [1, 0, 0, 0], 0.25)):
        assert float(smooth_calibration_error(y, [p] * len(y))) == pytest.approx(expected, abs=1e-6)


def test_certainty_that_is_right_has_no_error() -> None:
    assert float(smooth_calibration_error([1, 0, 1], [1.0, 0.0, 1.0])) == 0.0


@settings(max_examples=60, deadline=None)
@given(ITEMS, st.randoms(use_true_random=False))
def test_in_range_and_the_same_in_any_order(items: list[tuple[int, float]], random: Any) -> None:
    shuffled = items.copy()
    random.shuffle(shuffled)
    one, other = (smooth_calibration_error(*zip(*rows, strict=True)).value for rows in (items, shuffled))
    assert 0 <= one <= 1
    assert one == other


@settings(max_examples=60, deadline=None)
@given(ITEMS)
def test_turning_outcomes_and_forecasts_round_changes_nothing(items: list[tuple[int, float]]) -> None:
    y, p = (np.array(column, dtype=float) for column in zip(*items, strict=True))
    one = smooth_calibration_error(y, p).value
    assert smooth_calibration_error(1 - y, 1 - p).value == pytest.approx(one, abs=1e-8)


def test_forecasts_that_move_a_little_move_it_a_little() -> None:
    """At .5 ± ε a binned error jumps: bins of one tenth would see 0 or .5."""
    y = [0, 1] * 20
    one = smooth_calibration_error(y, [0.5 - 1e-6, 0.5 + 1e-6] * 20).value
    other = smooth_calibration_error(y, [0.5 + 1e-6, 0.5 - 1e-6] * 20).value
    assert max(one, other) < 0.01


def test_missing_and_bad_input() -> None:
    with pytest.raises(ValueError, match="item 1 is NaN"):
        smooth_calibration_error([1, 0], [0.5, math.nan])
    found = smooth_calibration_error([1, 0, 1], [0.5, math.nan, 0.6], missing="drop")
    assert (found.n, found.n_dropped) == (2, 1)
    assert "1 dropped" in found.summary()
    assert found.to_frame().loc[0, "n_dropped"] == 1
    assert "smooth" in found._repr_html_()


def test_weights_are_repetitions() -> None:
    y, p, times = np.array([1, 0, 1, 0]), np.array([0.9, 0.3, 0.32, 0.5]), np.array([2, 0, 3, 1])
    weighted = smooth_calibration_error(y, p, weights=times).value
    assert weighted == pytest.approx(
        smooth_calibration_error(np.repeat(y, times), np.repeat(p, times)).value, abs=1e-8
    )


def test_items_of_weight_zero_do_not_count() -> None:
    y, p = [0, 1, 1, 0, 1], [0.2, 0.7, 0.9, 0.4, 0.1]
    one = smooth_calibration_error(y, p, weights=[1, 2, 1, 1, 0])
    two = smooth_calibration_error(y[:4], p[:4], weights=[1, 2, 1, 1])
    assert (one.value, one.n, *one.interval()) == (two.value, two.n, *two.interval())
