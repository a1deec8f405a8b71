"""Brier score (Brier 1950) and log score (Good 1952): definitions, errors, invariances."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import brier_score, log_score


def test_binary_brier_is_the_mean_squared_error() -> None:
    score = brier_score([1, 0, 1], [0.8, 0.3, 0.5])
    assert float(score) == pytest.approx((0.04 + 0.09 + 0.25) / 3, rel=1e-15)
    assert (score.low, score.high, score.n) == (0.0, 1.0, 3)


def test_multiclass_brier_is_briers_own_sum_over_classes() -> None:
    """Range 0-2: certainty in the right class gives 0, in a wrong one 2."""
    assert float(brier_score([0], [[1.0, 0.0, 0.0]])) == 0.0
    assert float(brier_score([0], [[0.0, 1.0, 0.0]])) == 2.0
    assert float(brier_score([2], [[0.25] * 4])) == pytest.approx(0.75)
    score = brier_score([1], [[0.2, 0.5, 0.3]])
    assert float(score) == pytest.approx(0.04 + 0.25 + 0.09)
    assert (score.low, score.high) == (0.0, 2.0)
    assert "0-2" in score.convention


def test_half_of_two_classes_is_the_binary_score() -> None:
    p = [0.1, 0.6, 0.99]
    two = [[1 - x, x] for x in p]
    y = [0, 1, 1]
    half = brier_score(y, two, scale="half", reduce=None)
    assert half == pytest.approx(brier_score(y, p, reduce=None))
    assert brier_score(y, two, scale="half").high == 1.0


@pytest.mark.parametrize(("p", "expected"), [(1e-17, 39.14394658), (0.5, math.log(2)), (1.0, 0.0)])
def test_log_score_keeps_small_probabilities(p: float, expected: float) -> None:
    assert float(log_score([1], [p])) == pytest.approx(expected, rel=1e-9)


def test_log_score_is_infinite_at_zero_and_says_so() -> None:
    assert float(log_score([1], [0.0])) == math.inf
    assert float(log_score([0], [1.0])) == math.inf
    assert float(log_score([0], [[0.0, 1.0]])) == math.inf
    assert log_score([1, 1], [0.0, 0.5]).high == math.inf


def test_log_score_of_the_complement_is_exact() -> None:
    """log1p: a forecast of 1e-17 for what did not happen costs 1e-17, not 0."""
    assert float(log_score([0], [1e-17])) == pytest.approx(1e-17)


def test_no_negative_zero() -> None:
    assert math.copysign(1, float(log_score([1], [1.0]))) == 1
    assert math.copysign(1, float(brier_score([1], [1.0]))) == 1


@pytest.mark.parametrize(
    ("y", "p", "message"),
    [
        ([1, 0], [0.5, 1.5], r"item 1 .*1\.5"),
        ([1, 0], [-0.2, 0.5], r"item 0 .*-0\.2"),
        ([1, 2], [0.5, 0.5], r"item 1 .*2\.0"),
        ([0.5], [0.5], r"item 0 .*0\.5"),
        ([0, 3], [[0.5, 0.5], [0.5, 0.5]], r"item 1 .*3\.0"),
        ([-1], [[0.5, 0.5]], r"item 0 .*-1\.0"),
        ([0, 1], [[0.5, 0.5], [0.5, 0.4]], r"item 1 .*0\.9"),
        ([1, 1], [0.5, math.nan], r"item 1 is NaN"),
        ([math.nan], [0.5], r"item 0 is NaN"),
        ([1, 0], [0.5], r"shape \(2,\).*shape \(1,\)"),
        ([], [], "no item"),
        ([[1]], [[0.5]], "shape"),
        ([1], [[[0.5]]], "shape"),
        ([1], [math.inf], r"item 0 .*inf"),
    ],
)
@pytest.mark.parametrize("rule", [brier_score, log_score])
def test_errors_name_index_and_value(rule: Any, y: Any, p: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        rule(y, p)


def test_missing_items_are_counted_when_dropped() -> None:
    score = brier_score([1, 0, math.nan], [0.5, math.nan, 0.5], missing="drop")
    assert (score.n, score.n_dropped) == (1, 2)
    assert "2 dropped" in score.summary()
    with pytest.raises(ValueError, match="no item"):
        brier_score([1], [math.nan], missing="drop")


def test_weights() -> None:
    score = brier_score([1, 0], [0.8, 0.3], weights=[3, 1])
    assert float(score) == pytest.approx((3 * 0.04 + 0.09) / 4)
    assert float(log_score([1, 1], [0.0, 1.0], weights=[0, 1])) == 0.0, "weight zero does not count"
    for bad in ([-1, 1], [0, 0], [math.nan, 1], [1]):
        with pytest.raises(ValueError, match="weights"):
            brier_score([1, 0], [0.8, 0.3], weights=bad)


def test_a_fractional_outcome_only_where_it_is_allowed() -> None:
    assert float(brier_score([0.5], [0.5], allow_fractional=True)) == 0.0
    with pytest.raises(ValueError, match="item 0"):
        brier_score([1.5], [0.5], allow_fractional=True)


def test_the_interval_knows_clusters_ranges_and_what_it_cannot_say() -> None:
    """Routes of `mean_interval`: Gaffke, CR2 by cluster, and NaN with a reason."""
    independent = brier_score([1, 0], [0.8, 0.3]).interval()
    assert independent.method == "gaffke"
    assert 0 <= independent.low < independent.high <= 1
    single = brier_score([1, 0], [0.8, 0.3], cluster=["a", "a"])
    assert math.isnan(single.interval().low)
    assert "one cluster" in single.summary()
    generator = np.random.default_rng(0)
    y = np.repeat(generator.integers(0, 2, 20), 10)
    p = np.full(200, 0.3)
    clustered = brier_score(y, p, cluster=np.repeat(np.arange(20), 10)).interval()
    assert (clustered.method, clustered.n_clusters) == ("cr2-t", 20)
    plain = brier_score(y, p).interval()
    assert clustered.high - clustered.low > 2 * (plain.high - plain.low), "20 clusters are not 200 items"
    infinite = log_score([1, 0], [0.0, 0.3])
    assert math.isnan(infinite.interval().low)
    assert "infinite" in infinite.summary()
    low, high = log_score([1, 0, 1], [0.8, 0.3, 0.6]).interval()
    assert 0 <= low < high


def test_weighted_items_get_the_interval_of_a_ratio() -> None:
    generator = np.random.default_rng(1)
    p, w = generator.random(300), generator.random(300)
    found = brier_score((generator.random(300) < p).astype(float), p, weights=w).interval()
    assert found.method == "linearised-t"
    assert found.low < found.mean < found.high


forecasts = st.lists(st.tuples(st.integers(0, 1), st.floats(0, 1)), min_size=1, max_size=40)


@settings(max_examples=100, deadline=None)
@given(forecasts, st.randoms(use_true_random=False))
def test_the_order_of_the_items_does_not_change_a_bit(items: list[tuple[int, float]], order: Any) -> None:
    shuffled = list(items)
    order.shuffle(shuffled)
    for rule in (brier_score, log_score):
        one, two = (float(rule(*zip(*x, strict=True))) for x in (items, shuffled))
        assert one == two or (math.isnan(one) and math.isnan(two))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.floats(0.01, 1), min_size=2, max_size=6), st.data())
def test_the_order_of_the_classes_does_not_change_a_bit(raw: list[float], data: Any) -> None:
    p = [x / math.fsum(raw) for x in raw]
    y = data.draw(st.integers(0, len(p) - 1))
    order = data.draw(st.permutations(range(len(p))))
    moved = [p[i] for i in order]
    for rule in (brier_score, log_score):
        assert float(rule([y], [p])) == float(rule([order.index(y)], [moved]))


@settings(max_examples=100, deadline=None)
@given(st.floats(0.01, 0.99), st.floats(0.01, 0.99))
def test_both_rules_are_proper(truth: float, other: float) -> None:
    """In expectation the true probability is best."""
    for rule in (brier_score, log_score):

        def expected(p: float, rule: Any = rule) -> float:
            return truth * float(rule([1], [p])) + (1 - truth) * float(rule([0], [p]))

        assert expected(truth) <= expected(other) + 1e-12


def test_item_scores_come_as_an_array() -> None:
    items = brier_score([1, 0], [0.8, 0.3], reduce=None)
    assert isinstance(items, np.ndarray)
    assert items.tolist() == pytest.approx([0.04, 0.09])
    with pytest.raises(ValueError, match="reduce"):
        brier_score([1], [0.5], reduce="sum")


@pytest.mark.parametrize("clip", [1e-3, 1e-9, 1e-15, 1e-17, 1e-300])
def test_clipping_is_the_same_for_events_and_non_events(clip: float) -> None:
    """1 - ε would lose the digits of a small ε, and be 1 below 1e-16: the score would be infinite after all."""
    worst = [-math.log(clip)] * 2
    assert log_score([0, 1], [1.0, 0.0], clip=clip, reduce=None).tolist() == worst
    assert log_score([0, 1], [[0.0, 1.0], [1.0, 0.0]], clip=clip, reduce=None).tolist() == worst
    assert log_score([0, 1], [0.0, 1.0], clip=clip, reduce=None).tolist() == [-math.log1p(-clip)] * 2


def test_a_class_far_beyond_the_forecast_costs_no_memory() -> None:
    assert float(brier_score([10**12], [[0.5, 0.5]], missing_branch="zero")) == 1.5
    assert float(log_score([3], [[0.5, 0.5]], missing_branch="zero")) == math.inf
    with pytest.raises(ValueError, match="inf"):
        brier_score([math.inf], [[0.5, 0.5]], missing_branch="zero")
