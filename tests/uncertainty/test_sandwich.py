"""Cluster standard errors: against the matrix formulas, exact unbiasedness, edges, order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from evalkit.exact_sums import order_free_sum
from evalkit.uncertainty import cluster_se


def clustered(seed: int, sizes: list[int]) -> tuple[NDArray[np.float64], NDArray[np.intp]]:
    generator = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(len(sizes)), sizes)
    x = generator.normal(size=len(sizes))[cluster] + generator.normal(size=len(cluster))
    order = generator.permutation(len(x))
    return x[order], cluster[order]


def satterthwaite(vectors: NDArray[np.float64]) -> float:
    products = vectors @ vectors.T
    return float(np.trace(products) ** 2 / np.sum(products**2))


def matrix_cr2(x: NDArray[np.float64], cluster: NDArray[np.intp]) -> tuple[float, float]:
    """CR2 and its degrees of freedom by the general matrix formulas, for a regression on a constant."""
    n = len(x)
    residual_maker = np.eye(n) - np.full((n, n), 1 / n)
    variance, vectors = 0.0, []
    for label in np.unique(cluster):
        rows = np.flatnonzero(cluster == label)
        values, directions = np.linalg.eigh(residual_maker[np.ix_(rows, rows)])
        root = directions @ np.diag(values**-0.5) @ directions.T
        adjusted = root @ residual_maker[rows] / n
        vectors.append(np.ones(len(rows)) @ adjusted)
        variance += float(vectors[-1] @ x) ** 2
    return math.sqrt(variance), satterthwaite(np.array(vectors))


@pytest.mark.parametrize("sizes", [[3, 3, 3, 3], [1, 2, 5, 9, 1], [1] * 12, [40, 1], [30, 1, 1, 1], [2, 2]])
def test_cr2_is_that_of_the_matrix_formulas(sizes: list[int]) -> None:
    x, cluster = clustered(len(sizes), sizes)
    result = cluster_se(x, cluster)
    se, df = matrix_cr2(x, cluster)
    assert result.mean == pytest.approx(x.mean(), rel=1e-12)
    assert result.se == pytest.approx(se, rel=1e-10)
    assert result.df == pytest.approx(df, rel=1e-10)


@pytest.mark.parametrize("seed", range(4))
def test_weighted_cr2_is_unbiased_and_has_the_degrees_of_freedom_of_its_vectors(seed: int) -> None:
    x, cluster = clustered(seed, [1, 2, 5, 9, 4, 1])
    weights = np.random.default_rng(seed).lognormal(0, 1, len(x))
    result = cluster_se(x, cluster, weights=weights)
    total = weights.sum()
    vectors = []
    for label in range(6):
        own = np.where(cluster == label, weights, 0.0)
        residual_sum = (
            own - own.sum() / total * weights
        )  # coefficients of x in the residual sum of the cluster
        scale = np.sum(own**2) / np.sum(residual_sum**2)
        vectors.append(math.sqrt(scale) * residual_sum / total)
    stacked = np.array(vectors)
    assert result.mean == pytest.approx(np.average(x, weights=weights), rel=1e-12)
    assert result.se == pytest.approx(math.sqrt(np.sum((stacked @ x) ** 2)), rel=1e-10)
    assert result.df == pytest.approx(satterthwaite(stacked), rel=1e-10)
    # the expectation of the estimate where items are independent with variance 1 is the variance of the mean
    assert np.sum(stacked**2) == pytest.approx(np.sum(weights**2) / total**2, rel=1e-12)


def test_cr0_and_cr1_by_hand() -> None:
    x, cluster = [1.0, 3.0, 0.0, 0.0], ["a", "a", "b", "c"]
    # mean 1, residual sums 2, -1, -1
    assert cluster_se(x, cluster, "cr0").se == pytest.approx(math.sqrt(6) / 4)
    assert cluster_se(x, cluster, "cr1").se == pytest.approx(math.sqrt(6 * 3 / 2) / 4)
    assert cluster_se(x, cluster, "cr1").df == 2
    weighted = cluster_se(x, cluster, "cr0", weights=[1, 1, 1, 2])
    # mean .8, weighted residual sums 2.4, -.8, -1.6
    assert weighted.mean == pytest.approx(0.8)
    assert weighted.se == pytest.approx(math.sqrt(2.4**2 + 0.8**2 + 1.6**2) / 5)


def test_items_of_their_own_give_the_standard_error_of_independent_items() -> None:
    x = np.random.default_rng(1).random(30)
    result = cluster_se(x, np.arange(30))
    assert result.se == pytest.approx(np.std(x, ddof=1) / math.sqrt(30), rel=1e-12)
    assert result.df == 29
    from scipy.stats import ttest_1samp

    assert result.interval(0.1) == pytest.approx(tuple(ttest_1samp(x, 0).confidence_interval(0.9)), rel=1e-10)


def test_equal_clusters_have_one_degree_of_freedom_less_than_clusters() -> None:
    x, cluster = clustered(2, [4] * 7)
    assert cluster_se(x, cluster).df == 6


@pytest.mark.parametrize("sizes", [[10**6, 1, 1], [10**9, 3, 2, 1]])
def test_a_dominating_cluster_leaves_one_degree_of_freedom(sizes: list[int]) -> None:
    """By weights, since a billion items do not fit: the sums over the small clusters must not cancel."""
    result = cluster_se(np.arange(len(sizes)), np.arange(len(sizes)), weights=np.array(sizes, dtype=float))
    assert 1 <= result.df < 1.01


def test_two_clusters_have_one_degree_of_freedom() -> None:
    x, cluster = clustered(2, [17, 2])
    assert cluster_se(x, cluster).df == pytest.approx(1.0)


@pytest.mark.parametrize(("x", "cluster"), [([], []), ([1.0], ["a"]), ([1.0, 2.0], ["a", "a"])])
def test_fewer_than_two_clusters_have_no_standard_error(x: list[float], cluster: list[str]) -> None:
    result = cluster_se(x, cluster)
    assert math.isnan(result.se)
    assert math.isnan(result.df)
    assert all(math.isnan(bound) for bound in result.interval())
    assert "at least two" in result.reason


def test_an_infinite_score_has_a_mean_and_no_standard_error() -> None:
    result = cluster_se([math.inf, 0.0, 1.0], [0, 1, 2])
    assert result.mean == math.inf
    assert math.isnan(result.se)
    assert "infinite" in result.reason
    assert math.isnan(cluster_se([math.inf, -math.inf, 1.0], [0, 1, 2]).mean)


def test_few_clusters_are_said() -> None:
    x, cluster = clustered(3, [2] * 29)
    assert "29 clusters" in cluster_se(x, cluster).caveats[0]
    x, cluster = clustered(3, [2] * 30)
    assert cluster_se(x, cluster).caveats == ()


def test_equal_values_far_from_zero_have_a_standard_error_of_zero() -> None:
    assert cluster_se([0.1] * 10, list("aabbccddee")).se == 0.0


def test_tiny_values_do_not_underflow() -> None:
    assert cluster_se([1e-200, 2e-200], [0, 1]).se == pytest.approx(0.5e-200)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 60), st.booleans(), st.sampled_from(["cr0", "cr1", "cr2"]))
def test_order_and_names_change_nothing(seed: int, n: int, weighted: bool, kind: str) -> None:
    generator = np.random.default_rng(seed)
    x, cluster = generator.normal(size=n), generator.integers(0, 6, n)
    cluster[:2] = 0, 1
    weights = generator.lognormal(0, 1, n) if weighted else None
    order = generator.permutation(n)
    names = np.array([f"name {k}" for k in generator.permutation(6)])
    shuffled = cluster_se(
        x[order], names[cluster][order], kind, None if weights is None else weights[order]
    )  # fmt: skip
    assert shuffled == cluster_se(x, cluster, kind, weights)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.floats(0.01, 100))
def test_the_unit_of_weights_does_not_matter(seed: int, unit: float) -> None:
    generator = np.random.default_rng(seed)
    x, cluster, weights = generator.random(20), np.arange(20) % 5, generator.random(20) + 0.1
    one, other = cluster_se(x, cluster, weights=weights), cluster_se(x, cluster, weights=unit * weights)
    assert (other.mean, other.se, other.df) == pytest.approx((one.mean, one.se, one.df), rel=1e-9)


def test_unknown_kinds_and_levels_are_refused() -> None:
    with pytest.raises(ValueError, match="cr3"):
        cluster_se([1.0, 2.0], [0, 1], "cr3")
    with pytest.raises(ValueError, match="alpha"):
        cluster_se([1.0, 2.0], [0, 1]).interval(1.0)


def test_the_result_tells_its_numbers() -> None:
    result = cluster_se([1.0, 3.0, 0.0, 0.0], ["<a>", "<a>", "b", "c"])
    assert "n = 4, 3 clusters" in result.summary()
    assert "CR2" in result._repr_html_()
    frame = result.to_frame()
    assert frame.loc[0, "n_clusters"] == 3
    assert frame.loc[0, "low"] == result.interval().low
    assert order_free_sum(np.array([result.mean])) == 1.0
