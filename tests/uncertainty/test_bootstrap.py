"""Bootstrap of a mean: both ways of drawing, standard errors in closed form, BCa, order, memory."""

from __future__ import annotations

import math
import tracemalloc
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.uncertainty import bootstrap, bootstrap_mean, cluster_se

GENERATOR = np.random.default_rng(11)


def relative_error(replicates: int) -> float:
    """Four standard errors of a bootstrap standard error, for near-normal replicates."""
    return 4 / math.sqrt(2 * replicates)


@pytest.mark.parametrize(("decimals", "method"), [(1, "multinomial counts"), (9, "drawn units")])
def test_items_have_the_standard_error_of_a_mean(decimals: int, method: str) -> None:
    x = np.round(GENERATOR.random(900), decimals)
    result = bootstrap_mean(x, replicates=4000)
    assert result.method == method
    assert result.mean == pytest.approx(x.mean(), rel=1e-14)
    assert result.se == pytest.approx(x.std() / math.sqrt(900), rel=relative_error(4000))
    assert np.mean(result.replicates) == pytest.approx(x.mean(), abs=4 * result.se / math.sqrt(4000))


def test_both_ways_of_drawing_have_the_same_distribution(monkeypatch: pytest.MonkeyPatch) -> None:
    from scipy.stats import ks_2samp

    x = np.round(GENERATOR.exponential(size=700))
    counted = bootstrap_mean(x, replicates=3000)
    monkeypatch.setattr(bootstrap, "DRAWS_PER_CELL", 10**9)
    drawn = bootstrap_mean(x, replicates=3000)
    assert (counted.method, drawn.method) == ("multinomial counts", "drawn units")
    assert ks_2samp(counted.replicates, drawn.replicates).pvalue > 1e-3


@pytest.mark.parametrize("n", [1, 2, 255, 256, 257, 1000])
def test_units_are_drawn_as_indices_would_draw_them(n: int) -> None:
    from scipy.stats import ks_2samp

    units, replicates = np.arange(1, n + 1) ** 2.0, 4000
    totals = np.zeros(replicates)
    bootstrap._add_drawn_units(totals, units, np.random.default_rng(1))
    generator = np.random.default_rng(2)
    plain = np.array([units[generator.integers(0, n, n)].sum() for _ in range(replicates)])
    assert ks_2samp(totals, plain).pvalue > 1e-3
    if n > 1:
        assert totals.std() == pytest.approx(math.sqrt(n) * units.std(), rel=relative_error(replicates))


@pytest.mark.parametrize("at", [0, 1, 255, 256, 299])
def test_each_unit_is_drawn_as_often_as_any_other(at: int) -> None:
    units, replicates = np.zeros(300), 5000
    units[at] = 1.0
    counts = np.zeros(replicates)
    bootstrap._add_drawn_units(counts, units, np.random.default_rng(at))
    assert counts.mean() == pytest.approx(1.0, abs=4 / math.sqrt(replicates))
    expected = [300 * 299**299 / 300**300, (299 / 300) ** 300]  # of one draw, of none
    found = [np.mean(counts == 1), np.mean(counts == 0)]
    assert found == pytest.approx(expected, abs=4 * math.sqrt(0.25 / replicates))


@pytest.mark.parametrize("weighted", [False, True])
def test_clusters_have_the_standard_error_of_liang_and_zeger(weighted: bool) -> None:
    sizes = GENERATOR.integers(1, 9, 200)
    cluster = np.repeat(np.arange(200), sizes)
    x = GENERATOR.normal(size=200)[cluster] + GENERATOR.normal(size=len(cluster))
    weights = GENERATOR.random(len(x)) + 0.5 if weighted else None
    result = bootstrap_mean(x, cluster=cluster, weights=weights, replicates=4000)
    expected = cluster_se(x, cluster, "cr0", weights)
    assert result.mean == expected.mean
    assert result.se == pytest.approx(expected.se, rel=relative_error(4000) + 0.01)
    assert (result.n, result.n_clusters) == (len(x), 200)


def test_weighted_items_have_the_linearised_standard_error() -> None:
    x, weights = GENERATOR.normal(size=400), GENERATOR.lognormal(0, 0.5, 400)
    result = bootstrap_mean(x, weights=weights, replicates=4000)
    expected = cluster_se(x, np.arange(400), "cr0", weights)
    assert result.se == pytest.approx(expected.se, rel=relative_error(4000) + 0.01)


def test_clusters_of_one_are_items() -> None:
    x = GENERATOR.random(30)
    items, clusters = bootstrap_mean(x), bootstrap_mean(x, cluster=np.arange(30))
    assert clusters.acceleration == pytest.approx(items.acceleration, rel=1e-9)
    assert clusters.mean == items.mean


def test_acceleration_of_items_is_the_skewness_of_the_sample() -> None:
    x = GENERATOR.exponential(size=40)
    centred = x - x.mean()
    expected = np.sum(centred**3) / (6 * np.sum(centred**2) ** 1.5)
    assert bootstrap_mean(x).acceleration == pytest.approx(expected, rel=1e-9)


def test_acceleration_of_clusters_is_that_of_the_jackknife_over_clusters() -> None:
    cluster = np.repeat(np.arange(10), GENERATOR.integers(1, 6, 10))
    x = GENERATOR.exponential(size=len(cluster))
    left_out = np.array([x[cluster != g].mean() for g in range(10)])
    pull = left_out.mean() - left_out
    expected = np.sum(pull**3) / (6 * np.sum(pull**2) ** 1.5)
    assert bootstrap_mean(x, cluster=cluster).acceleration == pytest.approx(expected, rel=1e-9)


def test_bca_is_that_of_scipy() -> None:
    from scipy.stats import bootstrap as scipy_bootstrap

    x = np.random.default_rng(3).exponential(size=40)
    ours = bootstrap_mean(x, replicates=40_000)
    theirs = scipy_bootstrap((x,), np.mean, n_resamples=40_000, rng=np.random.default_rng(3))
    # a quantile at .025 has a standard error of about .017 standard errors of the mean at 40,000 draws
    tolerance = 5 * 0.017 * math.sqrt(2) * ours.se
    assert ours.interval() == pytest.approx(tuple(theirs.confidence_interval), abs=tolerance)
    percentile = ours.interval(kind="percentile")
    assert ours.interval().high > percentile.high  # skewed to the right: BCa reaches further there
    assert percentile == tuple(np.quantile(ours.replicates, [0.025, 0.975]))


@pytest.mark.parametrize(
    ("x", "cluster", "said"),
    [([], None, "0 items"), ([1.0], None, "1 item:"), ([1.0, 2.0], ["a", "a"], "1 cluster:"),
     ([1.0, math.inf], None, "infinite"), ([0.1] * 7, None, "All replicates are equal"),
     ([0.1, 0.3, 0.1, 0.3], list("aabb"), "All replicates are equal")],
)  # fmt: skip
def test_where_nothing_varies_there_is_no_interval(x: list[float], cluster: Any, said: str) -> None:
    result = bootstrap_mean(x, cluster=cluster)
    assert said in result.reason
    for kind in ("bca", "percentile"):
        assert all(math.isnan(bound) for bound in result.interval(kind=kind))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 900), st.booleans(), st.booleans(), st.booleans())
def test_order_and_names_change_nothing(
    seed: int, n: int, clustered: bool, weighted: bool, rounded: bool
) -> None:
    generator = np.random.default_rng(seed)
    x = np.round(generator.random(n), 1 if rounded else 9)
    cluster = generator.integers(0, 6, n) if clustered else None
    weights = generator.random(n) if weighted else None
    order, names = generator.permutation(n), np.array([f"c{k}" for k in generator.permutation(6)])
    result = bootstrap_mean(x, cluster=cluster, weights=weights, replicates=30)
    shuffled = bootstrap_mean(
        x[order],
        cluster=None if cluster is None else names[cluster][order],
        weights=None if weights is None else weights[order],
        replicates=30,
    )
    assert shuffled.replicates.tobytes() == result.replicates.tobytes()
    assert repr(shuffled) == repr(result)
    assert repr(shuffled.interval()) == repr(result.interval())


def test_the_seed_is_the_users_and_the_datas() -> None:
    x = GENERATOR.random(30)
    same, other = bootstrap_mean(x, seed=0), bootstrap_mean(x, seed=1)
    assert (same.replicates == bootstrap_mean(x).replicates).all()
    assert (same.replicates != other.replicates).any()
    # data that differ in one value are drawn anew, not with the same indices
    changed = np.sort(x)
    changed[-1] += 1e-9
    assert np.abs(bootstrap_mean(changed).replicates - same.replicates).max() > 1e-3


def test_the_same_values_in_other_numbers_are_drawn_anew() -> None:
    one, other = (bootstrap_mean([0.0] * k + [1.0] * (900 - k), replicates=500) for k in (450, 451))
    assert abs(np.corrcoef(one.replicates, other.replicates)[0, 1]) < 0.25


def test_ties_with_the_mean_count_half_below_it() -> None:
    """Twenty items, half ones: one replicate in six equals the mean, and nothing is skewed."""
    result = bootstrap_mean([0.0] * 10 + [1.0] * 10, replicates=20_000)
    assert result.interval() == result.interval(kind="percentile")
    assert result._bca_level(0.025) == pytest.approx(0.025, rel=0.05)


def test_blocks_hold_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    x = GENERATOR.random(20_000)
    tracemalloc.start()
    bootstrap_mean(x, replicates=1000)  # 20 million draws: 160 MB at once
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 30e6
    monkeypatch.setattr(bootstrap, "BLOCK", 7000)  # smaller than one replicate
    assert bootstrap_mean(x, replicates=50).se == pytest.approx(x.std() / math.sqrt(20_000), rel=0.45)


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: bootstrap_mean([1.0, 2.0], replicates=1), "replicates"),
        (lambda: bootstrap_mean([1.0, 2.0]).interval(0.0), "alpha"),
        (lambda: bootstrap_mean([1.0, 2.0]).interval(kind="basic"), "basic"),
        (lambda: bootstrap_mean([1.0, math.nan]), "NaN"),
    ],
)
def test_bad_input_is_refused(call: Any, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        call()


def test_the_result_tells_its_numbers() -> None:
    result = bootstrap_mean([1.0, 3.0, 0.0, 0.0], cluster=list("aabc"), replicates=50)
    assert "n = 4, 3 clusters" in result.summary()
    assert result.to_frame().loc[0, "replicates"] == 50
    assert "bootstrap" in result._repr_html_()
