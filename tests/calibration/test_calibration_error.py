"""Calibration error in bins: worked cases, the ends of bins, debiasing, invariances."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.calibration import calibration_error
from evalkit.calibration.bins import bin_edges, cells

FORECASTS = st.one_of(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]), st.floats(0, 1))
ITEMS = st.lists(st.tuples(st.integers(0, 1), FORECASTS, st.integers(0, 4)), min_size=1, max_size=60)


def test_worked_by_hand() -> None:
    """Bins of .1: {.05, .05} without event, {.85, .81} with one event of two, {1} with its event."""
    y, p = [0, 0, 1, 0, 1], [0.05, 0.05, 0.85, 0.81, 1.0]
    assert float(calibration_error(y, p)) == pytest.approx((2 * 0.05 + 2 * 0.33) / 5)
    assert float(calibration_error(y, p, "l2")) == pytest.approx(math.sqrt((2 * 0.05**2 + 2 * 0.33**2) / 5))
    assert float(calibration_error(y, p, "max")) == pytest.approx(0.33)
    squared = calibration_error(y, p, "l2", debiased=True)
    assert float(squared) == pytest.approx((2 * 0.05**2 + 2 * (0.33**2 - 0.25)) / 5)
    assert squared.value < 0
    assert "squared" in squared.summary()


def test_certainty_goes_into_the_last_bin() -> None:
    """p = 1 in a bin of its own would give .525: it shares [.9, 1] with .95."""
    found = calibration_error([0, 1], [0.95, 1.0])
    assert found.n_bins == 1
    assert float(found) == pytest.approx(0.475)


def test_bins_are_closed_below() -> None:
    edges = bin_edges(np.array([0.0, 1.0]), 4, "width")
    assert cells(np.array([0.0, 0.2499, 0.25, 0.5, 0.75, 1.0]), edges).tolist() == [0, 0, 1, 2, 3, 3]


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=40), st.integers(1, 200))
def test_both_ways_to_find_a_bin_agree_with_its_edges(p: list[float], bins: int) -> None:
    for binning in ("width", "mass"):
        x = np.array(p)
        edges = bin_edges(x, bins, binning)
        cell = cells(x, edges)
        assert (edges[cell] <= x).all()
        last = len(edges) - 2
        assert all(v < edges[c + 1] or (c == last and v == edges[-1]) for v, c in zip(p, cell, strict=True))


def test_bins_of_equal_mass_merge_equal_quantiles() -> None:
    p = [0.2] * 8 + [0.4, 0.9]
    found = calibration_error([0] * 10, p, binning="mass", bins=5)
    assert found.to_frame()["n"].sum() == 10
    assert found.n_bins < 5
    assert float(calibration_error([1], [0.3], binning="mass")) == pytest.approx(0.7)


@settings(max_examples=150, deadline=None)
@given(
    ITEMS,
    st.sampled_from(["l1", "l2", "max"]),
    st.sampled_from(["width", "mass"]),
    st.integers(1, 100),
    st.randoms(use_true_random=False),
)
def test_in_range_and_the_same_in_any_order(
    items: list[tuple[int, float, int]], norm: Any, binning: Any, bins: int, random: Any
) -> None:
    def of(rows: list[tuple[int, float, int]], **options: Any) -> float:
        y, p, weights = (np.array(column) for column in zip(*rows, strict=True))
        if options.pop("weighted", False):
            options["weights"] = 0.1 + weights / 3
        return calibration_error(y, p, norm, binning, bins, **options).value

    shuffled = items.copy()
    random.shuffle(shuffled)
    for options in ({}, {"weighted": True}):
        assert 0 <= of(items, **options) <= 1
        assert of(items, **options) == of(shuffled, **options)
    if norm != "max":
        assert of(items, debiased=True) == of(shuffled, debiased=True)
        assert of(items, debiased=True, weighted=True) == of(shuffled, debiased=True, weighted=True)
        assert of(items, debiased=True) <= of(items) ** (2 if norm == "l2" else 1) + 1e-15


@settings(max_examples=100, deadline=None)
@given(ITEMS, st.randoms(use_true_random=False))
def test_debiasing_by_cluster_knows_neither_order_nor_names(
    items: list[tuple[int, float, int]], random: Any
) -> None:
    def of(rows: list[tuple[int, float, int]], sign: int) -> list[float]:
        y, p, cluster = (np.array(column) for column in zip(*rows, strict=True))
        return [
            calibration_error(y, p, norm, debiased=True, bins=3, cluster=sign * cluster).value
            for norm in ("l1", "l2")
        ]

    shuffled = items.copy()
    random.shuffle(shuffled)
    assert of(items, 1) == of(shuffled, -1)


def test_l1_is_at_most_l2_at_most_the_largest() -> None:
    rng = np.random.default_rng(1)
    p = rng.random(300)
    y = rng.integers(0, 2, 300)
    l1, l2, largest = (float(calibration_error(y, p, norm)) for norm in ("l1", "l2", "max"))
    assert 0 < l1 < l2 < largest


def test_debiased_estimates_are_unbiased_where_the_plain_ones_are_not() -> None:
    """A calibrated forecaster, 400 samples of 200: the plain error is far from 0, the debiased ones are not."""
    rng = np.random.default_rng(7)
    values = []
    for _ in range(400):
        p = rng.random(200)
        y = rng.random(200) < p
        values.append(
            [
                calibration_error(y, p).value,
                calibration_error(y, p, debiased=True).value,
                calibration_error(y, p, "l2", debiased=True).value,
            ]
        )
    plain, l1, l2 = np.mean(values, axis=0)
    # no estimate is unbiased at the kink of L1 (E|X| depends on what is estimated): a part of the bias goes
    assert plain > 0.06
    assert abs(l1) < 0.65 * plain
    # the variance of a frequency in a bin has the spread of the forecasts in it: slightly too large
    assert abs(l2) < 0.001


def test_clusters_that_repeat_items_are_debiased_as_if_taken_once() -> None:
    rng = np.random.default_rng(2)
    p = rng.random(150)
    y = (rng.random(150) < p).astype(float)
    for norm in ("l1", "l2"):
        once = calibration_error(y, p, norm, debiased=True).value
        again = calibration_error(
            np.tile(y, 3),
            np.tile(p, 3),
            norm,
            debiased=True,
            cluster=np.tile(np.arange(150), 3),
        ).value
        assert again == pytest.approx(once, rel=1e-9)


def test_weights_are_repetitions() -> None:
    y, p, times = np.array([1, 0, 1, 0]), np.array([0.9, 0.3, 0.32, 0.5]), np.array([2, 0, 3, 1])
    weighted = calibration_error(y, p, weights=times)
    repeated = calibration_error(np.repeat(y, times), np.repeat(p, times))
    assert weighted.value == pytest.approx(repeated.value, rel=1e-15)


def test_top_label_and_classwise() -> None:
    """Two items of three classes, worked by hand in one bin."""
    y, p = [0, 2], [[0.6, 0.3, 0.1], [0.5, 0.2, 0.3]]
    top = calibration_error(y, p, kind="top-label", bins=1)
    assert float(top) == pytest.approx(abs(0.5 - 0.55))
    classwise = calibration_error(y, p, kind="classwise", bins=1)
    assert float(classwise) == pytest.approx((abs(0.5 - 0.55) + 0.25 + abs(0.5 - 0.2)) / 3)
    assert set(classwise.to_frame()["class"]) == {0, 1, 2}
    assert "classwise" in classwise.summary()


def test_two_classes_classwise_are_the_binary_error() -> None:
    rng = np.random.default_rng(3)
    p = rng.random(200)
    y = rng.integers(0, 2, 200)
    binary = calibration_error(y, p, bins=[0, 0.25, 0.75, 1]).value
    assert calibration_error(
        y, np.column_stack([1 - p, p]), kind="classwise", bins=[0, 0.25, 0.75, 1]
    ).value == pytest.approx(binary, rel=1e-12)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"y": [1, 0], "p": [0.5, math.nan]}, "item 1 is NaN"),
        ({"y": [1, 0], "p": [0.5, 1.5]}, "item 1"),
        ({"y": [1, 0], "p": [0.5, 0.5], "norm": "l3"}, "norm='l3'"),
        ({"y": [1, 0], "p": [0.5, 0.5], "binning": "equal"}, "binning='equal'"),
        ({"y": [1, 0], "p": [0.5, 0.5], "kind": "multi"}, "kind='multi'"),
        ({"y": [1, 0], "p": [0.5, 0.5], "norm": "max", "debiased": True}, "largest"),
        ({"y": [1, 0], "p": [0.5, 0.5], "kind": "classwise"}, "shape"),
        ({"y": [1, 0], "p": [0.5, 0.5], "bins": True}, "bins=True"),
        ({"y": [], "p": []}, "no item"),
    ],
)
def test_bad_input_is_named(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        calibration_error(**arguments)


def test_missing_items_are_dropped_and_counted() -> None:
    found = calibration_error([1, 0, 1], [0.5, math.nan, 0.5], missing="drop")
    assert (found.n, found.n_dropped, float(found)) == (2, 1, 0.5)
    assert "1 dropped" in found._repr_html_()


def test_reference_values(shared_data: Path) -> None:
    pd = pytest.importorskip("pandas")
    folder = shared_data / "scoring"
    reference = json.loads((folder / "reference_values.json").read_text())
    niamey = pd.read_csv(folder / "niamey_precip_2016.csv")
    for forecaster in ("ENS", "EMOS", "EPC", "Logistic"):
        y, p, expected = niamey.obs, niamey[forecaster], reference[f"niamey/{forecaster}"]
        assert float(calibration_error(y, p)) == pytest.approx(expected["ece10_l1"], abs=1e-15)
        assert float(calibration_error(y, p, "l2")) == pytest.approx(expected["ece10_l2"], abs=1e-15)
        assert float(calibration_error(y, p, "l2", debiased=True)) == pytest.approx(
            expected["ece10_l2sq_debiased"], abs=1e-15
        )
    market = pd.read_csv(folder / "forecastbench_market_freeze.csv.gz")
    expected = reference["fb_market_freeze"]
    assert float(calibration_error(market.y, market.p)) == pytest.approx(expected["ece10"], abs=1e-15)
    assert float(calibration_error(market.y, market.p, binning="mass")) == pytest.approx(
        expected["ece_em10"], abs=1e-15
    )
    games = pd.read_csv(folder / "fte_nfl_games.csv.gz")
    assert float(calibration_error(games.prob1_outcome, games.prob1, allow_fractional=True)) == pytest.approx(
        reference["fte_nfl"]["ece10"], abs=1e-15
    )


@pytest.mark.parametrize("binning", ["width", "mass"])
def test_an_item_of_weight_zero_is_as_if_it_were_not_there(binning: str) -> None:
    generator = np.random.default_rng(3)
    p = generator.random(60)
    y = (generator.random(60) < p).astype(float)
    weights = np.where(p < 0.7, 1.0 + (p > 0.3), 0.0)
    kept = weights > 0
    one = calibration_error(y, p, binning=binning, bins=4, weights=weights)
    two = calibration_error(y[kept], p[kept], binning=binning, bins=4, weights=weights[kept])
    assert (one.value, one.n, one.n_bins) == (two.value, two.n, two.n_bins)
    assert list(one.interval()) == list(two.interval())
