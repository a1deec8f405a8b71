"""The interval of a mean: one case for each row of the table, ranges, order, coverage."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.uncertainty import cluster_se, gaffke_interval, mean_interval
from evalkit.uncertainty.means import ROUTES

GENERATOR = np.random.default_rng(20261130)
FEW = GENERATOR.random(20)
MANY = GENERATOR.random(1001)


def groups(n_clusters: int) -> np.ndarray:
    return np.arange(n_clusters * 3) % n_clusters


CASES: list[tuple[list[float] | np.ndarray, dict[str, Any], str, str]] = [
    ([], {"lo": 0, "hi": 1}, "none", "no items"),
    ([math.inf, 1.0], {"lo": 0}, "none", "infinite"),
    ([0.1, 0.2], {"cluster": ["a", "a"], "lo": 0, "hi": 1}, "none", "one cluster"),
    ([0.1], {}, "none", "One item in an unbounded range"),
    ([0.1, 0.1], {"lo": 0}, "none", "All values are equal in an unbounded range"),
    ([0.1] * 4, {"cluster": list("aabb")}, "none", "All values are equal in an unbounded range"),
    ([0.1] * 4, {"cluster": list("aabb"), "lo": 0, "hi": 1}, "gaffke on cluster means", "All cluster means"),
    (
        [0.1, 0.3] * 2,
        {"cluster": list("aabb"), "lo": 0, "hi": 1},
        "gaffke on cluster means",
        "All cluster means",
    ),
    ([0.1 + 0.2, 0.3], {"lo": 0}, "none", "All values are equal in an unbounded range"),
    (GENERATOR.random(15), {"cluster": groups(5), "lo": 0, "hi": 1}, "cr2-t", "Clustered"),
    (GENERATOR.random(33), {"cluster": groups(11)}, "cr2-t", "Clustered"),
    (GENERATOR.random(36), {"cluster": groups(12)}, "cr2-t", "Clustered"),
    ([0.1], {"lo": 0, "hi": 1}, "gaffke", "No spread"),
    ([0.1] * 2000, {"lo": 0, "hi": 1}, "gaffke", "No spread"),
    ([0.1] * 3, {"lo": 0, "hi": 1, "weights": [1, 2, 3]}, "gaffke", "No spread"),
    (FEW, {"lo": 0, "hi": 1, "weights": FEW + 1}, "linearised-t", "Weighted"),
    (FEW, {"lo": 0, "hi": 1}, "gaffke", "n ≤ 1000"),
    (MANY[:1000], {"lo": 0, "hi": 1}, "gaffke", "n ≤ 1000"),
    (MANY, {"lo": 0, "hi": 1}, "t", "n > 1000"),
    (np.repeat([0.0, 1.0], [2000, 5]), {"lo": 0, "hi": 1}, "gaffke", "few of them decide"),
    (FEW, {"lo": 0}, "t", "unbounded"),
    (MANY[:30], {}, "t", "unbounded"),
]


@pytest.mark.parametrize(("x", "keywords", "method", "reason"), CASES)
def test_each_row_of_the_table(x: Any, keywords: dict[str, Any], method: str, reason: str) -> None:
    result = mean_interval(x, **keywords)
    assert result.method == method
    assert reason in result.reason
    assert math.isnan(result.low) == math.isnan(result.high) == (method == "none")
    if method != "none":
        assert result.low < result.mean < result.high
        assert result.summary().startswith(f"{result.mean:.6g} [")
    else:
        assert "no interval" in result.summary()


def test_every_row_is_reached() -> None:
    reached = {mean_interval(x, **keywords).reason for x, keywords, _, _ in CASES}
    assert reached == {route.reason for route in ROUTES}


def test_a_clustered_interval_is_that_of_cr2() -> None:
    x, cluster, weights = GENERATOR.normal(size=60), groups(20), GENERATOR.random(60)
    result = mean_interval(x, cluster=cluster, weights=weights, alpha=0.1)
    assert (result.low, result.high) == cluster_se(x, cluster, weights=weights).interval(0.1)
    assert (result.n, result.n_clusters) == (60, 20)


def test_an_independent_interval_is_gaffkes_or_students() -> None:
    from scipy.stats import ttest_1samp

    result = mean_interval(FEW, lo=-1, hi=2, alpha=0.2)
    assert (result.low, result.high) == gaffke_interval(FEW, -1, 2, 0.2)
    assert result.n_clusters is None
    t = mean_interval(MANY, lo=0, hi=1)
    assert (t.low, t.high) == pytest.approx(tuple(ttest_1samp(MANY, 0).confidence_interval()), rel=1e-12)


@pytest.mark.parametrize(("n_clusters", "said"), [(5, "scale of the uncertainty"), (11, "similar clusters"),
                                                  (12, "below 30"), (30, "")])  # fmt: skip
def test_few_clusters_are_said(n_clusters: int, said: str) -> None:
    result = mean_interval(GENERATOR.random(3 * n_clusters), cluster=groups(n_clusters))
    assert said in " ".join(result.caveats)
    assert bool(result.caveats) == bool(said)


def test_few_unbounded_values_are_said() -> None:
    assert "nearly normal" in mean_interval(FEW).caveats[0]
    assert mean_interval(MANY[:30]).caveats == ()
    assert mean_interval(FEW, lo=0, hi=1).caveats == ()


def test_the_interval_ends_where_the_range_does() -> None:
    x = np.append(np.zeros(30), 1.0)
    clustered = mean_interval(x, lo=0, hi=1, cluster=np.arange(31))
    assert clustered.low == 0.0
    assert mean_interval(x, lo=0).low == 0.0
    assert mean_interval(-x, hi=0).high == 0.0
    assert mean_interval(x).low < 0


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 50), st.booleans(), st.booleans(), st.booleans())
def test_order_and_names_change_nothing(
    seed: int, n: int, clustered: bool, weighted: bool, bounded: bool
) -> None:
    generator = np.random.default_rng(seed)
    x = generator.random(n)
    cluster = generator.integers(0, 8, n) if clustered else None
    weights = generator.random(n) if weighted else None
    order, names = generator.permutation(n), np.array([f"c{k}" for k in generator.permutation(8)])
    bounds = {"lo": 0, "hi": 1} if bounded else {}
    shuffled = mean_interval(
        x[order],
        cluster=None if cluster is None else names[cluster][order],
        weights=None if weights is None else weights[order],
        **bounds,
    )
    result = mean_interval(x, cluster=cluster, weights=weights, **bounds)
    assert repr(shuffled) == repr(result)  # as text, so that NaN equals NaN
    if bounded and result.method != "none":
        assert 0 <= result.low <= result.high <= 1


@pytest.mark.parametrize(
    ("x", "keywords", "said"),
    [
        ([0.5], {"lo": 1, "hi": 0}, "lo < hi"),
        ([0.5], {"lo": math.nan, "hi": 1}, "lo < hi"),
        ([0.5], {"alpha": 0}, "alpha"),
        ([0.5, 1.5], {"lo": 0, "hi": 1}, "1.5"),
        ([0.5, math.nan], {}, "NaN"),
    ],
)
def test_bad_input_is_refused(x: list[float], keywords: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        mean_interval(x, **keywords)


def test_the_result_tells_its_numbers() -> None:
    result = mean_interval(FEW, lo=0, hi=1)
    assert "95 %, gaffke; n = 20" in result.summary()
    assert result.to_frame().loc[0, "low"] == result.low
    assert "gaffke" in result._repr_html_()


@pytest.mark.parametrize(("n", "chance"), [(1001, 0.003), (5000, 0.0006), (5000, 0.02)])
def test_rare_events_are_covered_beyond_a_thousand_items(n: int, chance: float) -> None:
    """Student's t covers .84 where three events are expected, at any n; this is the exact coverage."""
    count = np.arange(int(n * chance * 4 + 12))
    logs = np.array([math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) for k in count])
    mass = np.exp(logs + count * math.log(chance) + (n - count) * math.log1p(-chance))
    covered = 0.0
    for k in count:
        low, high = mean_interval(np.repeat([1.0, 0.0], [k, n - k]), lo=0, hi=1)
        covered += mass[k] * (low <= chance <= high)
    assert mass.sum() > 0.999
    assert covered > 0.938


def test_a_lopsided_mean_is_doubted_where_t_is_all_there_is() -> None:
    x = np.repeat([0.0, 1.0], [57, 3])
    weights = np.tile([1.0, 2.0, 3.0], 20)
    assert any("Few values decide" in caveat for caveat in mean_interval(x, weights=weights).caveats)
    assert not mean_interval(GENERATOR.normal(size=60), weights=weights).caveats
