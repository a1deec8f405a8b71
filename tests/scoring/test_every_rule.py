"""What holds for every scoring rule: propriety, the order of rows, weights as counts, errors, one signature."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import evalkit.scoring
from evalkit.scoring import (
    brier_score,
    crps_ensemble,
    interval_score,
    log_score,
    quantile_score,
    ranked_probability_score,
    spherical_score,
)

Arrays = tuple[Any, Any]


def binary(generator: np.random.Generator, n: int) -> Arrays:
    p = np.round(generator.random(n), 2)
    return (generator.random(n) < p).astype(float), p


def classes(generator: np.random.Generator, n: int) -> Arrays:
    return generator.integers(0, 4, n), generator.dirichlet(np.ones(4), n)


def ensemble(generator: np.random.Generator, n: int) -> Arrays:
    return generator.normal(size=n), np.sort(generator.normal(size=(n, 3)), axis=1)


RULES: dict[str, tuple[Callable[..., Any], Callable[..., Arrays]]] = {
    "brier": (brier_score, binary),
    "brier, classes": (brier_score, classes),
    "brier, half": (partial(brier_score, scale="half"), classes),
    "log": (log_score, binary),
    "log, classes": (log_score, classes),
    "log, clipped": (partial(log_score, clip=1e-3), binary),
    "rps": (ranked_probability_score, classes),
    "rps, normalised": (partial(ranked_probability_score, normalize=True), classes),
    "spherical": (spherical_score, binary),
    "spherical, classes": (spherical_score, classes),
    "quantile": (partial(quantile_score, level=[0.1, 0.5, 0.9]), ensemble),
    "interval": (lambda y, p, **k: interval_score(y, np.asarray(p)[:, [0, 2]], alpha=0.2, **k), ensemble),
    "crps": (crps_ensemble, ensemble),
    "crps, fair": (partial(crps_ensemble, estimator="fair"), ensemble),
}
each_rule = pytest.mark.parametrize(("rule", "draw"), RULES.values(), ids=RULES)


@each_rule
@pytest.mark.parametrize("n", [1, 2, 17, 40_000])
def test_the_order_of_the_rows_does_not_change_a_bit(rule: Any, draw: Any, n: int) -> None:
    generator = np.random.default_rng(n)
    y, p = draw(generator, n)
    w = generator.random(n) + 0.1
    order = generator.permutation(n)
    for weights, moved in ((None, None), (w, w[order])):
        one, two = rule(y, p, weights=weights), rule(y[order], p[order], weights=moved)
        assert float(one).hex() == float(two).hex()


@each_rule
def test_the_mean_is_the_mean_of_the_item_scores(rule: Any, draw: Any) -> None:
    y, p = draw(np.random.default_rng(1), 500)
    score, items = rule(y, p), rule(y, p, reduce=None)
    assert items.shape == (500,)
    assert float(score) == pytest.approx(math.fsum(items) / 500, rel=1e-15)
    assert np.array_equal(score.items, items)
    assert (items >= score.low).all()
    assert (items <= score.high).all()


@each_rule
def test_weights_count_as_repetitions(rule: Any, draw: Any) -> None:
    generator = np.random.default_rng(2)
    y, p = draw(generator, 60)
    w = generator.integers(0, 4, 60)
    repeated = rule(np.repeat(y, w), np.repeat(p, w, axis=0))
    assert float(rule(y, p, weights=w)) == pytest.approx(float(repeated), rel=1e-13)


@each_rule
def test_one_missing_forecast_is_refused_or_dropped_and_counted(rule: Any, draw: Any) -> None:
    y, p = draw(np.random.default_rng(3), 20)
    p[7] = math.nan
    with pytest.raises(ValueError, match="item 7 is NaN"):
        rule(y, p)
    score = rule(y, p, missing="drop")
    assert (score.n, score.n_dropped) == (19, 1)
    assert float(score) == float(rule(np.delete(y, 7), np.delete(p, 7, axis=0)))


@each_rule
def test_a_result_shows_itself_with_n_and_convention(rule: Any, draw: Any) -> None:
    score = rule(*draw(np.random.default_rng(4), 30))
    assert "n = 30" in score.summary()
    assert score.convention in score.summary()
    assert score.to_frame().loc[0, "value"] == float(score)
    assert "n = 30" in score._repr_html_()


@pytest.mark.parametrize(
    "rule",
    [
        brier_score,
        log_score,
        ranked_probability_score,
        spherical_score,
        interval_score,
        quantile_score,
        crps_ensemble,
    ],
)
def test_one_signature_for_all(rule: Any) -> None:
    """``rule(y, p, *, weights=None, cluster=None, reduce="mean", missing="raise")``."""
    parameters = inspect.signature(rule).parameters
    assert list(parameters)[:2] == ["y", "p"]
    for name, default in (("weights", None), ("cluster", None), ("reduce", "mean"), ("missing", "raise")):
        assert parameters[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert parameters[name].default == default
    extra = {interval_score: {"alpha": 0.1}, quantile_score: {"level": [0.2, 0.8]}}.get(rule, {})
    with pytest.raises(ValueError, match="reduce"):
        rule([1], [[0.25, 0.75]], reduce="sum", **extra)


def test_every_public_name_exists() -> None:
    for name in evalkit.scoring.__all__:
        assert getattr(evalkit.scoring, name) is not None


probabilities = st.lists(st.floats(0.01, 1), min_size=3, max_size=3).map(lambda x: np.array(x) / sum(x))


@settings(max_examples=150, deadline=None)
@given(probabilities, probabilities)
@pytest.mark.parametrize("rule", [brier_score, log_score, ranked_probability_score, spherical_score])
def test_in_expectation_the_true_probabilities_are_best(rule: Any, truth: Any, other: Any) -> None:
    """Propriety, over all outcomes at once."""

    def expected(p: Any) -> float:
        return float(rule([0, 1, 2], np.tile(p, (3, 1)), weights=truth))

    assert expected(truth) <= expected(other) + 1e-12


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=5, max_size=30), st.floats(-6, 6), st.floats(0.05, 0.95))
def test_the_true_quantile_is_best(sample: list[float], other: float, level: float) -> None:
    true = float(np.quantile(sample, level, method="inverted_cdf"))

    def expected(q: float) -> float:
        return float(quantile_score(sample, np.full(len(sample), q), level=level))

    assert expected(true) <= expected(other) + 1e-12


@settings(max_examples=100, deadline=None)
@given(st.lists(st.floats(-5, 5), min_size=5, max_size=30), st.floats(-6, 6), st.floats(0, 5))
def test_the_true_central_interval_is_best(sample: list[float], low: float, width: float) -> None:
    ends = np.quantile(sample, [0.1, 0.9], method="inverted_cdf")

    def expected(lower: float, upper: float) -> float:
        return float(interval_score(sample, np.tile([lower, upper], (len(sample), 1)), alpha=0.2))

    assert expected(*ends) <= expected(low, low + width) + 1e-9


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(-5, 5), min_size=3, max_size=12), st.lists(st.floats(-6, 6), min_size=1, max_size=8)
)
def test_the_true_distribution_is_the_best_ensemble(sample: list[float], other: list[float]) -> None:
    def expected(members: list[float]) -> float:
        return float(crps_ensemble(sample, np.tile(members, (len(sample), 1))))

    assert expected(sample) <= expected(other) + 1e-12


@pytest.mark.parametrize("size", [2, 9, 17])
def test_the_layout_in_memory_changes_no_bit(size: int) -> None:
    """numpy adds along an axis in an order that depends on the strides."""
    generator = np.random.default_rng(size)
    p = generator.dirichlet(np.ones(size), 300)
    y, z, q = generator.integers(0, size, 300), generator.normal(size=300), np.sort(p, axis=1)
    levels = (np.arange(size) + 0.5) / size
    rules: list[tuple[Callable[..., Any], np.ndarray, np.ndarray]] = [
        (brier_score, y, p),
        (log_score, y, p),
        (ranked_probability_score, y, p),
        (spherical_score, y, p),
        (crps_ensemble, z, p),
        (partial(quantile_score, level=levels), z, q),
    ]
    for rule, outcome, forecast in rules:
        items = rule(outcome, forecast, reduce=None)
        spread = np.repeat(forecast, 2, axis=1)[:, ::2]
        for other in (np.asfortranarray(forecast), spread, forecast.tolist()):
            assert rule(outcome, other, reduce=None).tolist() == items.tolist()


@pytest.mark.parametrize("factor", [1e-320, 1e-300, 1e-160, 1e160, 1e300])
def test_only_ratios_of_weights_matter(factor: float) -> None:
    y, p, weights = [0, 1, 1, 0], [0.2, 0.3, 0.4, 0.9], np.array([1.0, 2.0, 1.0, 4.0])
    plain, scaled = (brier_score(y, p, weights=w) for w in (weights, weights * factor))
    assert float(scaled) == pytest.approx(float(plain), rel=1e-3 if factor < 1e-300 else 1e-12)
    assert scaled.interval() is not None
    if factor > 1e-310:
        assert list(scaled.interval()) == pytest.approx(list(plain.interval()), rel=1e-9)
    mixed = brier_score(y, p, weights=[1e-300, 1e300, 0, 1e300])
    assert float(mixed) == pytest.approx((0.49 + 0.81) / 2)
    assert mixed.n == 3
    assert not math.isnan(mixed.interval().low)


def test_an_item_of_weight_zero_is_not_counted() -> None:
    score = brier_score([0, 1, 1], [0.2, 0.3, 0.4], weights=[0, 1, 1])
    assert score.n == score.interval().n == 2
    assert "n = 2" in score.summary()


@pytest.mark.parametrize(
    "score",
    [
        brier_score([0], [[0, 1, 9e-7]]),
        brier_score([0], [[0, 1, 9e-7]], scale="half"),
        ranked_probability_score([2], [[1, 9e-7, 0]]),
        spherical_score([0], [[0, 1, 9e-7]]),
        log_score([0, 1], [1.0, 0.5], clip=1e-15),
        brier_score([0], [5e-5]),
    ],
    ids=["brier", "half", "rps", "spherical", "clipped log", "good forecast"],
)
def test_rounding_at_the_ends_of_the_range_is_no_error(score: Any) -> None:
    low, high = score.interval()
    assert score.low <= low < high <= score.high
    assert f"{score.value:.4f}" in score.summary()


def test_a_summary_says_what_to_doubt() -> None:
    score = brier_score([0, 1, 1, 0], [0.2, 0.3, 0.4, 0.1], cluster=[1, 1, 2, 3])
    assert "Only 3 clusters" in score.summary()
    assert "Only 3 clusters" in score.to_frame().loc[0, "caveats"]


def test_clusters_of_any_label_and_dates_that_are_no_numbers() -> None:
    mixed, numbers = np.array([1, "a", "a", ("x", 2)], dtype=object), [7, 3, 3, 1]
    y, p = [0, 1, 1, 0], [0.2, 0.3, 0.4, 0.1]
    assert list(brier_score(y, p, cluster=mixed).interval()) == list(
        brier_score(y, p, cluster=numbers).interval()
    )
    with pytest.raises(ValueError, match="dates"):
        crps_ensemble(np.array(["2020-01-01"], dtype="M8[D]"), [3.0])
    with pytest.raises(ValueError, match="rescale"):
        crps_ensemble([1e308], [[-1e308, 1e308]])
