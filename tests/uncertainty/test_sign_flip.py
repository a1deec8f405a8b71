"""Sign-flip test: each way of counting against full enumeration, ties, clusters, order, draws."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalkit.uncertainty import sign_flip, sign_flip_test
from evalkit.uncertainty.sign_flip import _exact_upper_share, _lattice_share, _middle_share, _multiples


def enumerated(sums: list[float], alternative: str) -> float:
    """Share of all sign patterns that are at least as extreme, in plain loops."""
    observed = math.fsum(sums)
    hits = 0
    patterns = list(itertools.product([-1, 1], repeat=len(sums)))
    for signs in patterns:
        total = math.fsum(s * v for s, v in zip(signs, sums, strict=True))
        gap = {
            "two-sided": abs(total) - abs(observed),
            "greater": total - observed,
            "less": observed - total,
        }[alternative]
        hits += gap >= -1e-9 * sum(map(abs, sums))
    return hits / len(patterns)


alternatives = pytest.mark.parametrize("alternative", ["two-sided", "greater", "less"])


@alternatives
@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-1, 1).filter(lambda v: abs(v) > 1e-3), min_size=1, max_size=9))
@example([0.1, 0.2, -0.3])
@example([0.3, 0.3, -0.1, 0.1, 0.2])
def test_it_is_the_share_of_all_patterns(alternative: str, d: list[float]) -> None:
    result = sign_flip_test(d, alternative=alternative)
    assert result.p_value == pytest.approx(enumerated(d, alternative), rel=1e-12)
    assert result.method.startswith("exact")


@alternatives
def test_clusters_flip_as_a_whole(alternative: str) -> None:
    d = [0.5, -0.2, 0.75, 0.1, 0.4, -0.3, 0.2]
    cluster = ["a", "b", "a", "c", "c", "d", "b"]
    result = sign_flip_test(d, cluster, alternative=alternative)
    assert result.p_value == pytest.approx(enumerated([1.25, 0.0, 0.5, -0.3], alternative), rel=1e-12)
    assert result.statistic == pytest.approx(sum(d) / 7)
    assert (result.n, result.n_clusters, result.n_flipped) == (7, 4, 3)


@pytest.mark.parametrize("d", [[0.0], [0.0] * 50, [1.0, -1.0], [0.1, 0.2, -0.3]])
def test_a_difference_of_zero_has_p_one(d: list[float]) -> None:
    assert sign_flip_test(d).p_value == 1.0


def test_a_large_sample_with_no_difference_at_all_has_p_one_without_draws() -> None:
    half = np.random.default_rng(1).random(100)
    result = sign_flip_test(np.concatenate([half, -half]))
    assert result.p_value == 1.0
    assert result.method == "exact"


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=24), st.integers(-30, 60))
def test_both_exact_ways_agree_on_a_lattice(levels: list[int], at_least: int) -> None:
    sizes = np.sort(np.array(levels) / 7)
    threshold = at_least / 7 - 1e-10
    found = _multiples(sizes)
    assert found is not None
    assert _lattice_share(*found, threshold) == pytest.approx(_middle_share(sizes, threshold), rel=1e-12)


@pytest.mark.parametrize("sizes", [[2.0, 3.0], [0.2, 0.3, 1.0], [1 / 3, 1 / 2, 1 / 7 * 3]])
def test_a_unit_finer_than_the_smallest_sum_is_found(sizes: list[float]) -> None:
    found = _multiples(np.sort(sizes))
    assert found is not None
    whole, unit = found
    assert whole * unit == pytest.approx(np.sort(sizes))


def test_values_on_no_lattice_are_not_forced_onto_one() -> None:
    assert _multiples(np.sqrt(np.array([2.0, 3.0, 5.0]))) is None
    assert _multiples(np.array([1e-12, 1.0])) is None
    assert _multiples(np.append(np.full(20_000, 1.0), np.arange(30_000, 50_000.0))) is None  # too dear


def test_many_pairs_on_few_levels_are_exact() -> None:
    d = np.random.default_rng(5).integers(-4, 6, 1000) / 4
    result = sign_flip_test(d)
    assert result.method == "exact-lattice"
    z = d.sum() / math.sqrt(np.sum(d**2))
    assert result.p_value == pytest.approx(math.erfc(abs(z) / math.sqrt(2)), rel=0.05)


def test_a_p_value_below_the_smallest_number_is_not_zero() -> None:
    assert 0 < sign_flip_test(np.ones(5000)).p_value < 1e-300


def test_forty_continuous_differences_are_exact() -> None:
    d = np.random.default_rng(6).normal(0.3, 1, 40)
    exact = sign_flip_test(d)
    assert exact.method == "exact-meet-in-the-middle"
    signs = 2 * np.random.default_rng(0).integers(0, 2, (200_000, 40)) - 1
    p = np.mean(np.abs(signs @ d) >= abs(d.sum()))
    assert exact.p_value == pytest.approx(p, abs=4 * math.sqrt(p / 200_000))


@alternatives
def test_draws_come_near_the_exact_value(alternative: str, monkeypatch: pytest.MonkeyPatch) -> None:
    d = np.random.default_rng(7).normal(0.2, 1, 37)
    exact = sign_flip_test(d, alternative=alternative).p_value
    monkeypatch.setattr(sign_flip, "MIDDLE", 0)
    drawn = sign_flip_test(d, alternative=alternative, replicates=40_000)
    assert drawn.method == "monte-carlo"
    assert drawn.p_value == pytest.approx(exact, abs=4.5 * math.sqrt(exact * (1 - exact) / 40_000))
    assert drawn.p_value * 40_001 == pytest.approx(round(drawn.p_value * 40_001))
    assert drawn.p_value != sign_flip_test(d, alternative=alternative, replicates=40_000, seed=1).p_value


def test_draws_never_give_zero() -> None:
    d = np.random.default_rng(8).random(5000) + 1
    assert sign_flip_test(d, replicates=99).p_value == 1 / 100


def test_it_holds_its_level_under_the_null() -> None:
    """400 samples of 12 in 6 clusters: P(p <= .25) is at most .25; three standard errors more are .315."""
    generator = np.random.default_rng(9)
    cluster = np.repeat(np.arange(6), 2)
    hits = 0
    for _ in range(400):
        d = generator.normal(size=6)[cluster] + 0.3 * generator.normal(size=12)
        hits += sign_flip_test(d, cluster).p_value <= 0.25
    assert 0.185 <= hits / 400 <= 0.315


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32 - 1), st.sampled_from([8, 60]), st.booleans())
def test_order_and_names_change_nothing(seed: int, n: int, whole: bool) -> None:
    generator = np.random.default_rng(seed)
    d = generator.normal(size=n)
    d = np.round(2 * d) / 2 if whole else d
    cluster = generator.integers(0, n, n)
    order = generator.permutation(n)
    names = np.array([f"c{k}" for k in generator.permutation(n)])
    assert sign_flip_test(d[order], names[cluster][order]) == sign_flip_test(d, cluster)
    assert sign_flip_test(-d).p_value == sign_flip_test(d).p_value


def test_nothing_to_flip_is_counted_as_one_pattern() -> None:
    assert _exact_upper_share(np.array([]), 0.0) == ("exact", 1.0)
    assert _exact_upper_share(np.array([]), 0.1) == ("exact", 0.0)


@pytest.mark.parametrize(
    ("keywords", "said"),
    [({"alternative": "both"}, "alternative"), ({"replicates": 0}, "replicates")],
)
def test_bad_keywords_are_refused(keywords: dict[str, object], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        sign_flip_test([1.0, 2.0], **keywords)


@pytest.mark.parametrize("d", [[], [math.inf, 1.0], [math.nan, 1.0]])
def test_bad_differences_are_refused(d: list[float]) -> None:
    with pytest.raises(ValueError, match=r"empty|infinite|NaN"):
        sign_flip_test(d)


def test_the_result_tells_its_numbers() -> None:
    result = sign_flip_test([1.0, 2.0, 0.0], ["a", "a", "b"])
    assert "n = 3, 2 clusters, 1 not zero" in result.summary()
    assert result.to_frame().loc[0, "p_value"] == result.p_value
    assert "sign-flip" in result._repr_html_()


@pytest.mark.parametrize("d", [[7, -9, 0, 6, 9], [7, -9, -9, -9, -6, 9, 9, 6]])
def test_sums_that_differ_by_rounding_only_are_ties(d: list[int]) -> None:
    """Tenths are not exact in binary: the p-value is that of the whole numbers all the same."""
    assert sign_flip_test([x * 0.1 for x in d]).p_value == sign_flip_test(d).p_value
