"""Intervals of ECE, smooth ECE and MCB: what they contain, when there is none, and that rows have no order."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.calibration import (
    MiscalibrationInterval,
    calibration_error,
    mcb_interval,
    smooth_calibration_error,
)
from evalkit.calibration.canonical import canonical, folds
from evalkit.scoring.inputs import binary_items

ROWS = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.35, 0.7, 1.0]), st.integers(0, 4)),
    min_size=2,
    max_size=40,
)


def intervals(y: Any, p: Any, cluster: Any = None, alpha: float = 0.05) -> list[MiscalibrationInterval]:
    return [
        calibration_error(y, p, bins=4, cluster=cluster).interval(alpha),
        calibration_error(y, p, "l2", bins=4, cluster=cluster).interval(alpha),
        smooth_calibration_error(y, p, cluster=cluster).interval(alpha),
        mcb_interval(y, p, cluster=cluster, alpha=alpha, replicates=99),
    ]


def sample(n: int, slope: float, seed: int, clusters: int = 0) -> tuple[Any, Any, Any]:
    """Forecasts whose true frequency is .5 + slope (p - .5): slope 1 is calibrated."""
    rng = np.random.default_rng(seed)
    p = rng.random(n)
    truth = 0.5 + slope * (p - 0.5)
    if not clusters:
        return (rng.random(n) < truth).astype(float), p, None
    cluster = rng.integers(0, clusters, n)
    luck = rng.random(clusters)[cluster]
    alone = rng.random(n)
    return (np.where(rng.random(n) < 0.5, luck, alone) < truth).astype(float), p, cluster


@settings(max_examples=15, deadline=None)
@given(ROWS, st.booleans(), st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_clusters_change_no_bit(
    rows: list[tuple[int, float, int]], clustered: bool, random: Any
) -> None:
    def of(items: list[tuple[int, float, int]], sign: int) -> list[Any]:
        y, p, cluster = (np.array(column) for column in zip(*items, strict=True))
        return [vars(found) for found in intervals(y, p, sign * cluster if clustered else None)]

    shuffled = rows.copy()
    random.shuffle(shuffled)
    assert repr(of(rows, 1)) == repr(of(shuffled, -1))


@settings(max_examples=25, deadline=None)
@given(ROWS)
def test_limits_are_ordered_and_hold_the_value_below_the_high_one(rows: list[tuple[int, float, int]]) -> None:
    y, p, _ = (list(column) for column in zip(*rows, strict=True))
    for found in intervals(y, p):
        assert 0 <= found.low <= found.high
        assert found.value <= found.high + 1e-3
        assert 0 < found.p_value <= 1
        if found.p_value > 0.025:
            assert found.low == 0


@pytest.mark.parametrize("clusters", [0, 60])
def test_calibrated_forecasters_are_rarely_convicted_and_miscalibrated_ones_are(clusters: int) -> None:
    """Of 25 calibrated samples each interval may leave out 0 in a few (.6 are expected); no other may hold it."""
    found = [intervals(*sample(400, 1.0, seed, clusters)) for seed in range(25)]
    for k in range(4):
        assert sum(row[k].low > 0 for row in found) <= 3, found[0][k].measure
        assert sum(row[k].p_value < 0.3 for row in found) <= 13
        assert all(row[k].high > 0 for row in found)
    for wrong in intervals(*sample(600, 0.2, 11, clusters)):
        assert wrong.low > 0, wrong.summary()
        assert wrong.p_value <= 0.011


def test_clusters_widen_intervals() -> None:
    """Every item five times: as independent items the interval is far shorter than as clusters."""
    y, p, _ = sample(80, 0.4, 3)
    y, p, cluster = np.tile(y, 5), np.tile(p, 5), np.tile(np.arange(80), 5)
    for alone, clustered in zip(intervals(y, p), intervals(y, p, cluster), strict=True):
        assert clustered.n_clusters == 80
        assert clustered.high - clustered.low > 1.3 * (alone.high - alone.low)


def test_a_level_that_asks_for_more_gives_more() -> None:
    y, p, _ = sample(300, 0.3, 5)
    for wide, narrow in zip(intervals(y, p, alpha=0.01), intervals(y, p, alpha=0.2), strict=True):
        assert wide.low <= narrow.low <= narrow.high <= wide.high


def test_one_cluster_has_no_interval_and_few_carry_a_caveat() -> None:
    y, p, _ = sample(40, 1.0, 1)
    for found in intervals(y, p, np.zeros(40)):
        assert math.isnan(found.low)
        assert math.isnan(found.high)
        assert math.isnan(found.p_value)
        assert "at least two" in found.summary()
    for found in intervals(y, p, np.arange(40) % 8):
        assert found.low <= found.high
        assert any("fewer than 30" in caveat for caveat in found.caveats)


def test_rare_events_carry_a_caveat() -> None:
    y = np.zeros(200)
    y[:9] = 1
    p = np.linspace(0.02, 0.08, 200)
    for outcome, forecast, what in ((y, p, "9 events, fewer than 10"), (1 - y, 1 - p, "9 non-events")):
        for found in intervals(outcome, forecast):
            assert any(what in caveat for caveat in found.caveats)
    y[:10] = 1
    assert not any(found.caveats for found in intervals(y, p))


def test_the_estimate_is_nearer_to_the_truth_than_the_value() -> None:
    """Mean over 40 calibrated samples, for which the truth is 0."""
    found = [intervals(*sample(200, 1.0, seed)) for seed in range(40)]
    for k in range(4):
        estimate = np.mean([row[k].estimate for row in found])
        value = np.mean([row[k].value for row in found])
        assert abs(estimate) < 0.7 * value


def test_seeds_matter_little_and_are_repeatable() -> None:
    y, p, _ = sample(200, 0.5, 2)
    one, again, other = (mcb_interval(y, p, seed=seed) for seed in (1, 1, 2))
    assert one == again
    assert one.high == other.high
    assert one.low != other.low
    assert abs(one.low - other.low) < 0.02


def test_log_score_and_certainty() -> None:
    y, p, _ = sample(300, 0.3, 9)
    found = mcb_interval(y, p, "log", replicates=99)
    assert 0 < found.low < found.estimate < found.high
    clustered = mcb_interval(y, p, "log", cluster=np.arange(300) // 3, replicates=99)
    assert "Brier" in clustered.method
    wrong = mcb_interval([1, 0, 1, 0], [0.0, 0.2, 0.7, 0.1], "log")
    assert wrong.value == math.inf
    assert math.isnan(wrong.high)
    assert "infinite" in wrong.summary()


def test_classwise_and_top_label_have_intervals() -> None:
    rng = np.random.default_rng(4)
    p = rng.dirichlet([1, 1, 1], 400)
    happened = np.array([rng.choice(3, p=row) for row in p])
    overconfident = p**3 / (p**3).sum(axis=1, keepdims=True)
    for kind in ("top-label", "classwise"):
        for norm in ("l1", "l2"):
            fair = calibration_error(happened, p, norm, kind=kind, bins=5)
            unfair = calibration_error(happened, overconfident, norm, kind=kind, bins=5)
            assert fair.interval().low == 0
            assert fair.p_value > 0.05
            assert 0 < unfair.interval().low < unfair.value < unfair.interval().high
            assert unfair.p_value < 0.01


def test_two_classes_classwise_have_the_interval_of_the_binary_error() -> None:
    y, p, _ = sample(300, 0.4, 21)
    edges = [0, 0.25, 0.5, 0.75, 1.0]
    binary = calibration_error(y, p, bins=edges).interval()
    both = calibration_error(y, np.column_stack([1 - p, p]), kind="classwise", bins=edges).interval()
    assert both.value == pytest.approx(binary.value, rel=1e-9)
    assert both.low == pytest.approx(binary.low, abs=0.01)
    assert both.high == pytest.approx(binary.high, rel=1e-6)


def test_weights_of_one_change_nothing() -> None:
    y, p, _ = sample(100, 0.4, 6)
    plain = calibration_error(y, p).interval()
    weighted = calibration_error(y, p, weights=np.ones(100)).interval()
    assert weighted.high == pytest.approx(plain.high, rel=1e-12)
    smooth = smooth_calibration_error(y, p, weights=np.ones(100))
    assert smooth.value == pytest.approx(smooth_calibration_error(y, p).value, abs=1e-9)


def test_the_largest_error_has_no_interval() -> None:
    found = calibration_error([1, 0, 1], [0.5, 0.2, 0.9], "max").interval()
    assert math.isnan(found.high)
    assert "fewest items" in found.caveats[0]


def test_results_print_and_unpack() -> None:
    found = mcb_interval(*sample(50, 1.0, 4)[:2], replicates=19)
    low, high = found
    assert (low, high) == (found.low, found.high)
    assert "MCB (brier score)" in found.summary()
    assert found.to_frame().loc[0, "n"] == 50
    assert "<p>" in found._repr_html_()


@pytest.mark.parametrize(
    ("options", "message"),
    [({"alpha": 1.0}, "alpha"), ({"score": "crps"}, "score='crps'"), ({"replicates": 0}, "replicates=0")],
)
def test_bad_options_are_named(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        mcb_interval([1, 0], [0.5, 0.5], **options)


def test_a_bad_level_is_named_by_every_result() -> None:
    for result in (calibration_error([1, 0], [0.5, 0.2]), smooth_calibration_error([1, 0], [0.5, 0.2])):
        with pytest.raises(ValueError, match="alpha = 0"):
            result.interval(0)


@settings(max_examples=50, deadline=None)
@given(ROWS, st.integers(2, 10))
def test_folds_hold_whole_clusters_and_as_many_of_them(rows: list[tuple[int, float, int]], k: int) -> None:
    y, p, cluster = (list(column) for column in zip(*rows, strict=True))
    items, order = canonical(binary_items(y, p, cluster=cluster))
    assert sorted(order.tolist()) == list(range(len(rows)))
    fold = folds(items, k, 0)
    assert items.cluster is not None
    per_cluster = [set(fold[items.cluster == c].tolist()) for c in set(items.cluster.tolist())]
    assert all(len(found) == 1 for found in per_cluster)
    sizes = np.bincount([found.pop() for found in per_cluster])
    assert sizes.max() - sizes.min() <= 1


def test_many_items_are_resampled_as_sums_with_the_same_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawn one by one or as sums in groups, the p-value is that of one test."""
    y, p, _ = sample(1500, 0.9, 2)
    one_by_one = mcb_interval(y, p)
    monkeypatch.setattr("evalkit.calibration.miscalibration._ONE_BY_ONE", 0)
    monkeypatch.setattr("evalkit.calibration.miscalibration._GROUPS", 256)
    grouped = mcb_interval(y, p)
    assert 0.02 < one_by_one.p_value < 0.98
    assert grouped.p_value == pytest.approx(one_by_one.p_value, abs=0.1)
    assert grouped.high == one_by_one.high


@pytest.mark.parametrize("weights", [None, [1.0, 2.0] * 20])
def test_perfect_forecasts_are_no_evidence_of_certainty(weights: list[float] | None) -> None:
    """Forty right forecasts of 0 and 1: an error of a few per cent would look the same (the rule of three)."""
    y = [1, 0] * 20
    found = [
        calibration_error(y, y, weights=weights).interval(),
        calibration_error(y, y, norm="l2", weights=weights).interval(),
        smooth_calibration_error(y, y, weights=weights).interval(),
    ]
    if weights is None:
        found.append(mcb_interval(y, y))
    for low, high in found:
        assert low == 0.0
        assert 0.05 < high < 0.3


def test_a_log_score_without_spread_has_no_upper_limit() -> None:
    y = [1, 0] * 20
    found = mcb_interval(y, y, "log")
    assert (found.low, found.high) == (0.0, math.inf)


def test_residuals_that_cancel_in_a_bin_leave_it_its_spread() -> None:
    """Three events where three were expected: the error in the sample is 0, its limit is not."""
    p = np.full(1000, 0.003)
    y = (np.arange(1000) < 3).astype(float)
    found = calibration_error(y, p, bins=[0, 0.5, 1])
    assert found.value == pytest.approx(0.0, abs=1e-15)
    assert found.interval().high > 0.003


def test_a_limit_stays_in_the_range_of_the_score() -> None:
    assert mcb_interval([1, 0], [0.3, 0.3]).high == 1.0


def test_few_clusters_make_the_p_value_of_mcb_doubtful() -> None:
    generator = np.random.default_rng(0)
    p, cluster = np.repeat(generator.beta(2, 2, 40), 5), np.repeat(np.arange(40), 5)
    y = (np.repeat(generator.random(40), 5) < p).astype(float)
    few = mcb_interval(y[:50], p[:50], cluster=cluster[:50], replicates=19)
    assert any("p-value may be too small" in caveat for caveat in few.caveats)
    assert not mcb_interval(y, p, cluster=cluster, replicates=19).caveats


def test_the_low_limit_takes_residuals_for_smaller_than_they_look(monkeypatch: pytest.MonkeyPatch) -> None:
    """Noise adds most where the true residual is nearest to 0: drawn towards 0, they give the lower limit."""
    rng = np.random.default_rng(3)
    p = (rng.integers(0, 20, 2000) + 0.5) / 20
    y = (rng.random(2000) < 0.5 * p + 0.25).astype(float)
    cautious = calibration_error(y, p, bins=20).interval()
    monkeypatch.setattr("evalkit.calibration.binned_interval.SHRINK", 0.0)
    plain = calibration_error(y, p, bins=20).interval()
    assert 0 < cautious.low < plain.low - 0.002
    assert cautious.high == plain.high
