"""Recalibration: held-out items, monotone maps, extreme data."""

from __future__ import annotations

import math
from typing import Any, get_args

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalkit.calibration import recalibrate
from evalkit.calibration.recalibration_maps import EDGE, Method

METHODS = get_args(Method)
ITEMS = st.lists(
    st.tuples(st.integers(0, 1), st.one_of(st.sampled_from([0.0, 0.2, 0.5, 1.0]), st.floats(0, 1))),
    min_size=2,
    max_size=40,
)


def overconfident(n: int, seed: int = 0) -> tuple[Any, Any]:
    """Log odds of the forecasts are twice those of the truth, and shifted by 1/2."""
    rng = np.random.default_rng(seed)
    truth = rng.normal(size=n)
    y = rng.random(n) < 1 / (1 + np.exp(-truth))
    return y.astype(float), 1 / (1 + np.exp(-2 * truth - 0.5))


def columns(items: list[tuple[int, float]]) -> tuple[Any, Any]:
    y, p = (np.array(column, dtype=float) for column in zip(*items, strict=True))
    return y, p


@settings(max_examples=60, deadline=None)
@given(ITEMS, st.sampled_from(METHODS))
@example([(0, 0.2), (1, 0.25)], "platt")  # so steep that float64 would round it to certainty
def test_maps_never_turn_forecasts_round_and_stay_probabilities(
    items: list[tuple[int, float]], method: Method
) -> None:
    y, p = columns(items)
    found = recalibrate(y, p, method, folds=3)
    q = found.predict(np.linspace(0, 1, 501))
    assert (np.diff(q) >= -1e-12).all()
    for values in (q, found.held_out):
        assert values.min() >= 0
        assert values.max() <= 1
    if method != "isotonic":
        assert 0 < q.min() <= q.max() < 1
    assert len(found.held_out) == len(items)


@settings(max_examples=40, deadline=None)
@given(ITEMS, st.sampled_from(METHODS), st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_no_bit(
    items: list[tuple[int, float]], method: Method, random: Any
) -> None:
    shuffled = items.copy()
    random.shuffle(shuffled)
    one, other = (recalibrate(*columns(rows), method, folds=4) for rows in (items, shuffled))
    assert repr(one.changes) == repr(other.changes)
    grid = np.linspace(0, 1, 101)
    assert (one.predict(grid) == other.predict(grid)).all()
    # items of equal content are exchangeable: the held-out forecasts agree as a set of (y, p, held out)
    sets = [
        sorted(zip(*columns(rows), found.held_out.tolist(), strict=True))
        for rows, found in ((items, one), (shuffled, other))
    ]
    assert sets[0] == sets[1]


@pytest.mark.parametrize("method", ["isotonic", "platt", "beta"])
def test_an_overconfident_forecaster_gains_on_held_out_items(method: Method) -> None:
    found = recalibrate(*overconfident(2000), method)
    brier, log = found.changes
    assert brier.difference < 0
    assert brier.high < 0
    assert brier.after == pytest.approx(brier.before + brier.difference)
    assert math.isnan(log.low) == math.isinf(log.after)


def test_platt_finds_the_map_that_made_the_forecasts() -> None:
    """log odds of truth = (log odds of p - .5)/2: slope 1/2, shift -1/4."""
    found = recalibrate(*overconfident(50_000), "platt", folds=2)
    grid = np.array([0.05, 0.3, 0.5, 0.9])
    expected = 1 / (1 + np.exp(-(np.log(grid / (1 - grid)) - 0.5) / 2))
    assert found.predict(grid) == pytest.approx(expected, abs=0.012)
    assert recalibrate(*overconfident(50_000), "beta", folds=2).predict(grid) == pytest.approx(
        expected, abs=0.012
    )


def test_a_calibrated_forecaster_gains_nothing() -> None:
    rng = np.random.default_rng(5)
    p = rng.random(3000)
    y = rng.random(3000) < p
    for method in METHODS:
        change = recalibrate(y, p, method).changes[0]
        assert -0.001 < change.difference < 0.004
        assert change.high > 0


def test_held_out_items_are_not_judged_by_what_they_taught() -> None:
    """Outcomes at random and distinct forecasts: an isotonic map judged on its own items would gain much."""
    rng = np.random.default_rng(1)
    p, y = rng.random(200), rng.integers(0, 2, 200)
    found = recalibrate(y, np.full(200, 0.5) + 1e-3 * p, "isotonic")
    own = np.mean(np.square(found.predict(0.5 + 1e-3 * p) - y))
    assert own < 0.245
    assert found.changes[0].after > 0.25


def test_platt_against_the_definition() -> None:
    """At the optimum the residuals of Platt's targets are orthogonal to 1 and to the log odds."""
    y, p = overconfident(300, 3)
    q = recalibrate(y, p, "platt").predict(p)
    events = y.sum()
    targets = np.where(y == 1, (events + 1) / (events + 2), 1 / (len(y) - events + 2))
    assert abs(np.mean(q - targets)) < 1e-8
    assert abs(np.mean((q - targets) * np.log(p / (1 - p)))) < 1e-7


@pytest.mark.parametrize("method", METHODS)
def test_forecasts_that_go_the_wrong_way_are_not_turned_round(method: Method) -> None:
    p = np.linspace(0.05, 0.95, 60)
    y = (p < 0.5).astype(float)
    found = recalibrate(y, p, method)
    # by symmetry no non-decreasing map does better than the base rate
    assert found.predict([0.1, 0.9]) == pytest.approx([0.5, 0.5], abs=1e-6)
    assert ("held at 0" in found.summary()) == (method != "isotonic")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.3, 0.7, 0.8, 0.9]),
        ([1, 1, 1, 1], [0.2, 0.4, 0.6, 0.8]),
        ([0, 0, 0, 0], [0.2, 0.4, 0.6, 0.8]),
        ([0, 1, 0, 1], [0.0, 1.0, 1.0, 0.0]),
        ([0, 1, 0, 1, 1], [0.5, 0.5, 0.5, 0.5, 0.5]),
        ([0, 1], [0.0, 1.0]),
    ],
    ids=["separable", "events only", "no event", "certain", "one forecast", "two items"],
)
def test_extreme_data(method: Method, y: list[int], p: list[float]) -> None:
    found = recalibrate(y, p, method)
    q = found.predict([0.0, 0.25, 0.5, 0.75, 1.0])
    assert np.isfinite(q).all()
    assert (np.diff(q) >= 0).all()
    if method != "isotonic":
        assert np.isfinite(found.changes[1].after)
        assert q[0] == found.predict([EDGE / 10])[0]


def test_clusters_stay_whole() -> None:
    """Twins: with one in the training folds, an isotonic map of distinct forecasts would know the other."""
    rng = np.random.default_rng(6)
    p = np.repeat(rng.random(60), 2)
    y = np.repeat(rng.integers(0, 2, 60), 2)
    apart = recalibrate(y, p, "isotonic")
    whole = recalibrate(y, p, "isotonic", cluster=np.repeat(np.arange(60), 2))
    assert apart.changes[0].after < whole.changes[0].after
    assert whole.n_clusters == 60
    assert "60 clusters" in whole.summary()


def test_temperature_of_classes() -> None:
    """Forecasts sharpened by T = 1/2 are flattened again."""
    rng = np.random.default_rng(7)
    truth = rng.dirichlet([1, 1, 1], 4000)
    y = np.array([rng.choice(3, p=row) for row in truth])
    sharp = truth**2 / (truth**2).sum(axis=1, keepdims=True)
    found = recalibrate(y, sharp, "temperature")
    assert found.predict(sharp[:50]) == pytest.approx(truth[:50], abs=0.03)
    assert found.held_out.sum(axis=1) == pytest.approx(np.ones(4000))
    assert (found.held_out.argmax(axis=1) == sharp.argmax(axis=1)).all()
    assert all(change.high < 0 for change in found.changes)
    with pytest.raises(ValueError, match="one class"):
        found.plot()
    with pytest.raises(ValueError, match="shape"):
        found.predict([0.5, 0.5])
    with pytest.raises(ValueError, match="use 'temperature'"):
        recalibrate(y, sharp, "platt")


def test_two_classes_have_the_temperature_of_the_binary_forecast() -> None:
    """The targets of a few hundred items differ a little: (n + 1)/(n + 2) for all against each class."""
    y, p = overconfident(2000, 9)
    binary = recalibrate(y, p, "temperature").predict(p)
    both = recalibrate(y, np.column_stack([1 - p, p]), "temperature").predict(np.column_stack([1 - p, p]))
    assert both[:, 1] == pytest.approx(binary, abs=2e-3)


def test_classes_that_separate_and_go_wrong() -> None:
    right = recalibrate([0, 1, 2, 0], np.eye(3)[[0, 1, 2, 0]], "temperature")
    assert np.isfinite(right.held_out).all()
    wrong = recalibrate([1, 2, 0, 1], np.eye(3)[[0, 1, 2, 0]] * 0.7 + 0.1, "temperature")
    assert wrong.predict([[0.8, 0.1, 0.1]])[0] == pytest.approx([1 / 3] * 3)
    assert "held at 0" in wrong.summary()


def test_new_forecasts_and_bad_ones() -> None:
    found = recalibrate([0, 1, 1, 0], [0.2, 0.7, 0.9, 0.4], "platt", new=[0.1, 0.9])
    assert found.new is not None
    assert (found.new == found.predict([0.1, 0.9])).all()
    assert len(found.predict([])) == 0
    for p, message in (([1.5], "item 0"), ([0.5, math.nan], "item 1 of p is NaN"), ([[0.5, 0.5]], "shape")):
        with pytest.raises(ValueError, match=message):
            found.predict(p)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "spline"}, "method='spline'"),
        ({"folds": 1}, "folds=1"),
        ({"cluster": [0, 0, 0]}, "1 cluster"),
        ({"p": [0.5, 0.5, math.nan]}, "item 2 is NaN"),
    ],
)
def test_bad_input_is_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        recalibrate(**({"y": [0, 1, 1], "p": [0.2, 0.5, 0.7]} | options))


def test_missing_items_are_dropped_and_results_print() -> None:
    found = recalibrate([0, 1, 1, 0], [0.2, 0.7, math.nan, 0.4], missing="drop")
    assert (found.n, found.n_dropped, len(found.held_out)) == (3, 1, 3)
    assert "1 dropped" in found.summary()
    assert list(found.to_frame()["rule"]) == ["Brier score", "log score"]
    assert "<p>" in found._repr_html_()


def test_plot_draws_the_map_and_the_identity() -> None:
    axes = recalibrate(*overconfident(200), "platt").plot()
    lines = {line.get_label(): line for line in axes.get_lines()}
    assert set(lines) == {"identity", "platt"}
    assert axes is recalibrate(*overconfident(200)).plot(axes)
