"""CORP decomposition (Dimitriadis, Gneiting & Jordan 2021): values, identity, invariances, edges."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.calibration import CorpDecomposition, corp_decomposition
from evalkit.calibration.isotonic import isotonic, weighted_isotonic
from tests.calibration.scoring_data import nfl, reference, table

# Published: the CORP paper, figures 1 and 5, and its supplement, figure S1.
NIAMEY = {
    "ENS": (0.066, 0.044, 0.244),
    "EMOS": (0.018, 0.030, 0.244),
    "EPC": (0.022, 0.032, 0.244),
    "Logistic": (0.017, 0.056, 0.244),
}
FLARES_C1 = {"NOAA": (0.005, 0.071, 0.191), "DAFFS": (0.012, 0.056, 0.191)}


def terms(result: CorpDecomposition) -> tuple[float, float, float, float]:
    return result.score, result.mcb, result.dsc, result.unc


def expected(value: dict[str, Any]) -> Any:
    return pytest.approx([float(value[k]) for k in ("score", "mcb", "dsc", "unc")], rel=1e-12, abs=1e-14)


@pytest.mark.parametrize("who", NIAMEY)
def test_niamey(shared_data: Path, who: str) -> None:
    rain = table(shared_data, "niamey")
    values = reference(shared_data)[f"niamey/{who}"]
    result = corp_decomposition(rain["obs"], rain[who])
    assert tuple(round(t, 3) for t in terms(result)[1:]) == NIAMEY[who]
    assert list(terms(result)) == expected(values["corp_brier"])
    assert list(terms(corp_decomposition(rain["obs"], rain[who], "log"))) == expected(values["corp_log"])
    assert result.n == 92


def test_the_log_score_of_the_ensemble_is_infinite_and_its_discrimination_is_not(shared_data: Path) -> None:
    rain = table(shared_data, "niamey")
    result = corp_decomposition(rain["obs"], rain["ENS"], "log")
    assert result.score == result.mcb == math.inf
    assert 0 < result.dsc < result.unc < math.inf


@pytest.mark.parametrize("who", FLARES_C1)
def test_solar_flares(shared_data: Path, who: str) -> None:
    flares = table(shared_data, "solar_flares")
    result = corp_decomposition(flares["obs"], flares[who], missing="drop")
    assert tuple(round(t, 3) for t in terms(result)[1:]) == FLARES_C1[who]
    assert list(terms(result)) == expected(reference(shared_data)[f"solar_flares_C1/{who}"])


@pytest.mark.parametrize("who", [f"X{k:02}" for k in range(1, 11)])
def test_triptych(shared_data: Path, who: str) -> None:
    made = table(shared_data, "triptych")
    result = corp_decomposition(made["y"], made[who])
    assert list(terms(result)) == expected(reference(shared_data)[f"triptych/{who}"])


def test_market_prices_at_the_freeze(shared_data: Path) -> None:
    market = table(shared_data, "forecastbench_market_freeze")
    result = corp_decomposition(market["y"], market["p"], cluster=market["question"])
    assert list(terms(result)) == expected(reference(shared_data)["fb_market_freeze"]["corp"])
    assert (result.n, result.n_clusters) == (2015, 1152)
    assert "n = 2015 in 1152 clusters" in result.summary()


def test_ties_of_games_are_fractional_outcomes(shared_data: Path) -> None:
    y, p = nfl(shared_data)
    with pytest.raises(ValueError, match=r"0\.5"):
        corp_decomposition(y, p)
    result = corp_decomposition(y, p, allow_fractional=True)
    assert list(terms(result)) == expected(reference(shared_data)["fte_nfl"]["corp"])


def test_equal_forecasts_are_pooled_first() -> None:
    """A fit that sees rows one by one gives 0 where the outcomes of a tie happen to rise."""
    y, p = [0, 1, 0, 1], [0.5, 0.5, 0.5, 0.5]
    result = corp_decomposition(y, p)
    assert terms(result) == (0.25, 0.0, 0.0, 0.25)
    assert result.n_blocks == 1


def by_hand(y: list[int], p: list[float]) -> tuple[Fraction, ...]:
    """The definition, in rational numbers: the fit as max over starts of min over ends of the means."""
    distinct = sorted(set(p))
    group = [[Fraction(v) for v, q in zip(y, p, strict=True) if q == d] for d in distinct]

    def average(i: int, j: int) -> Fraction:
        items = [v for g in group[i : j + 1] for v in g]
        return sum(items, Fraction(0)) / len(items)

    last = len(distinct) - 1
    fitted = [
        max(min(average(i, j) for j in range(k, last + 1)) for i in range(k + 1)) for k in range(last + 1)
    ]
    r = [fitted[distinct.index(q)] for q in p]

    def brier(forecast: list[Fraction]) -> Fraction:
        return sum(((f - v) ** 2 for f, v in zip(forecast, y, strict=True)), Fraction(0)) / len(y)

    raw, best = brier([Fraction(q) for q in p]), brier(r)
    climate = brier([Fraction(sum(y), len(y))] * len(y))
    return raw, raw - best, climate - best, climate


pairs = st.lists(
    st.tuples(st.integers(0, 1), st.sampled_from([0.0, 0.1, 0.25, 0.5, 0.7, 1.0]) | st.floats(0, 1)),
    min_size=1,
    max_size=14,
)


@settings(max_examples=150, deadline=None)
@given(pairs)
def test_the_terms_are_those_of_exact_arithmetic(items: list[tuple[int, float]]) -> None:
    y, p = [v for v, _ in items], [q for _, q in items]
    exact = [float(t) for t in by_hand(y, p)]
    assert list(terms(corp_decomposition(y, p))) == pytest.approx(exact, rel=1e-13, abs=1e-15)
    weighted = corp_decomposition(y, p, weights=[2.0] * len(y))
    assert list(terms(weighted)) == pytest.approx(exact, rel=1e-12, abs=1e-14)


@settings(max_examples=150, deadline=None)
@given(
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.3, 0.5, 1.0]), st.floats(0, 1), st.floats(0.1, 9)), min_size=1
    ),
    st.sampled_from(["brier", "log"]),
    st.booleans(),
    st.booleans(),
    st.randoms(use_true_random=False),
)
def test_identity_signs_and_any_order_of_rows(
    items: list[tuple[float, float, float]], score: Any, whole: bool, weigh: bool, order: Any
) -> None:
    def run(rows: list[tuple[float, float, float]]) -> CorpDecomposition:
        y, p, w = np.array(rows).T
        return corp_decomposition(
            np.round(y) if whole else y, p, score, weights=w if weigh else None, allow_fractional=not whole
        )

    result = run(items)
    assert min(result.mcb, result.dsc, result.unc) >= 0
    if math.isfinite(result.score):
        assert result.mcb - result.dsc + result.unc == pytest.approx(result.score, rel=1e-12, abs=1e-14)
    else:
        assert result.mcb == math.inf
    shuffled = list(items)
    order.shuffle(shuffled)
    again = run(shuffled)
    assert terms(again) == terms(result)
    assert (again.base_rate, again.n_blocks) == (result.base_rate, result.n_blocks)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 8), st.integers(1, 5)), min_size=1, max_size=20))
def test_a_whole_weight_is_the_item_repeated(items: list[tuple[int, int, int]]) -> None:
    y, p, w = np.array(items, dtype=float).T
    p /= 8
    repeated = corp_decomposition(np.repeat(y, w.astype(int)), np.repeat(p, w.astype(int)))
    weighted = corp_decomposition(y, p, weights=w)
    assert terms(weighted) == pytest.approx(terms(repeated), rel=1e-12, abs=1e-14)
    assert weighted.n == len(items)


def test_an_increasing_map_of_the_forecasts_changes_miscalibration_only() -> None:
    rng = np.random.default_rng(1)
    p = rng.uniform(0.05, 0.95, 300)
    y = (rng.uniform(size=300) < p).astype(float)
    plain, mapped = corp_decomposition(y, p), corp_decomposition(y, p**2)
    assert (plain.dsc, plain.unc) == (mapped.dsc, mapped.unc)
    assert mapped.mcb > plain.mcb


@pytest.mark.parametrize("score", ["brier", "log"])
@pytest.mark.parametrize("y", [[0, 0, 0], [1, 1, 1], [0], [1]])
def test_one_class_or_one_item(y: list[int], score: Any) -> None:
    result = corp_decomposition(y, [0.2, 0.9, 0.4][: len(y)], score)
    assert (result.dsc, result.unc) == (0.0, 0.0)
    assert result.mcb == result.score > 0


def test_recalibrated_forecasts_are_calibrated() -> None:
    rng = np.random.default_rng(2)
    p, y = rng.uniform(size=500), rng.integers(0, 2, 500).astype(float)
    r = isotonic(y, p).of(p)
    again = corp_decomposition(y, r)
    assert again.mcb == pytest.approx(0, abs=1e-15)
    assert again.dsc == pytest.approx(corp_decomposition(y, p).dsc, rel=1e-12)


def test_any_consistent_score() -> None:
    """Two of Schervish's family: a function for the Brier score agrees with it, a cost-weighted one is fine."""
    rng = np.random.default_rng(3)
    p = rng.uniform(size=200)
    y = (rng.uniform(size=200) < p).astype(float)

    def squared(y: Any, p: Any) -> Any:
        return (y - p) ** 2

    assert terms(corp_decomposition(y, p, squared)) == pytest.approx(
        terms(corp_decomposition(y, p)), rel=1e-12
    )

    def spherical(y: Any, p: Any) -> Any:
        return 1 - (y * p + (1 - y) * (1 - p)) / np.hypot(p, 1 - p)

    result = corp_decomposition(y, p, spherical)
    assert result.mcb - result.dsc + result.unc == pytest.approx(result.score, rel=1e-12)
    assert "spherical" in result.convention


def test_an_inconsistent_score_is_refused() -> None:
    """The absolute error is smallest at 0 or 1, not at the probability: recalibration makes it worse."""
    p = np.repeat([0.0, 1.0], 10)
    y = np.array([0] * 7 + [1] * 3 + [0] * 3 + [1] * 7, dtype=float)
    with pytest.raises(ValueError, match="not consistent"):
        corp_decomposition(y, p, lambda y, p: np.abs(y - p))
    with pytest.raises(ValueError, match="shape"):
        corp_decomposition(y, p, lambda y, p: 0.0)
    with pytest.raises(ValueError, match="NaN"):
        corp_decomposition(y, p, lambda y, p: np.full_like(p, np.nan))
    with pytest.raises(ValueError, match="'brier', 'log'"):
        corp_decomposition(y, p, "brier_score")


def test_the_log_score_of_a_fractional_outcome_is_the_cross_entropy() -> None:
    result = corp_decomposition([0.5, 0.0], [0.25, 0.0], "log", allow_fractional=True)
    assert result.score == pytest.approx(-(math.log(0.25) + math.log(0.75)) / 4)


def test_missing_and_weightless_items() -> None:
    result = corp_decomposition([1, 0, math.nan, 1], [0.8, 0.3, 0.5, 0.9], missing="drop")
    assert (result.n, result.n_dropped) == (3, 1)
    assert "1 dropped" in result.summary()
    with pytest.raises(ValueError, match="item 2 is NaN"):
        corp_decomposition([1, 0, math.nan], [0.8, 0.3, 0.5])
    light = corp_decomposition([1, 0, 1], [0.8, 0.3, 0.0], "log", weights=[1, 1, 0], cluster=["a", "a", "b"])
    assert (light.n, light.n_clusters) == (2, 1)
    assert math.isfinite(light.score), "an item of weight zero does not count"


def test_texts() -> None:
    result = corp_decomposition([1, 0, 1, 0], [0.8, 0.3, 0.6, 0.7])
    frame = result.to_frame()
    assert frame.loc[0, "mcb"] == result.mcb
    assert frame.loc[0, "n"] == 4
    assert float(result) == result.score
    assert f"MCB {result.mcb:.4f}" in result.summary()
    assert f"<td>{result.dsc:.4f}</td>" in result._repr_html_()
    named = corp_decomposition(
        [1, 0], [0.8, 0.3], type("<b>", (), {"__call__": lambda s, y, p: (y - p) ** 2})()
    )
    assert "<b>" not in named._repr_html_()


def test_long_chains_of_weighted_groups_keep_their_fractions() -> None:
    """A heavy zero at the end pulls groups in one after the other: more than vectorised passes would take."""
    n = 400
    y = np.append(np.linspace(0.5, 0.9, n), 0.0)
    weights = np.append(0.5 + (np.arange(n) * 0.7548777 % 1), 60.0)
    blocks = weighted_isotonic(y, np.linspace(0, 1, n + 1), weights)
    assert blocks.n.sum() == pytest.approx(weights.sum(), rel=1e-12)
    assert blocks.events.sum() == pytest.approx((weights * y).sum(), rel=1e-12)
    assert (np.diff(blocks.value) > 0).all()
    assert 48 < n - len(blocks.n) < n - 1, "the chain is long, and ends"


@pytest.mark.parametrize("score", ["brier", "log"])
def test_a_weighted_fit_of_one_block_discriminates_nothing_exactly(score: Any) -> None:
    """The block's sum and the base rate's are rounded in different ways; here it would show."""
    y, weights = [0.9, 0.7, 0.4, 0.2, 0.1], [0.5, 0.3, 0.2, 0.6, 0.4]
    result = corp_decomposition(y, np.arange(5) / 10, score, weights=weights, allow_fractional=True)
    assert (result.dsc, result.n_blocks) == (0.0, 1)
