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
