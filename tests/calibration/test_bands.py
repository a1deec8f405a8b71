"""Bands: exact cases, invariances, containment, edges.  Their coverage is simulated in test_coverage."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.calibration import reliability_diagram
from evalkit.calibration.confidence_band import confidence_band
from evalkit.calibration.simultaneous_band import (
    _cell_edges,
    _chernoff,
    _intervals,
    simultaneous_confidence_band,
)
from evalkit.calibration.sorted_items import sort_items
from evalkit.scoring.inputs import Items

rows = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.sampled_from([0.0, 0.2, 0.5, 0.9, 1.0]) | st.floats(0, 1),
        st.sampled_from("abcdef"),
    ),
    min_size=2,
    max_size=30,
)
kinds = st.sampled_from(
    [
        ("corp", "consistency", False),
        ("corp", "consistency", True),
        ("corp", "confidence", False),
        ("corp", "confidence", True),
        ("binned", "consistency", False),
        ("binned", "confidence", True),
    ]
)


@settings(max_examples=60, deadline=None)
@given(rows, kinds, st.booleans(), st.booleans(), st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_clusters_change_no_bit(
    items: list[tuple[int, float, str]], kind: Any, clustered: bool, weigh: bool, order: Any
) -> None:
    method, band, simultaneous = kind
    weigh = weigh and not (simultaneous and band == "confidence" and method == "corp")

    def run(chosen: list[tuple[int, float, str]], names: dict[str, str]) -> Any:
        y, p, c = zip(*chosen, strict=True)
        return reliability_diagram(
            y,
            p,
            method,
            band,
            cluster=[names[x] for x in c] if clustered else None,
            weights=[1 + 2 * q for q in p] if weigh else None,
            simultaneous=simultaneous,
            replicates=40,
        )

    one = run(items, {x: x for x in "abcdef"})
    shuffled = list(items)
    order.shuffle(shuffled)
    two = run(shuffled, dict(zip("abcdef", "zyxwvu", strict=True)))
    for name in ("x", "low", "high"):
        assert getattr(one.band, name).tobytes() == getattr(two.band, name).tobytes()
    assert one.value.tobytes() == two.value.tobytes()


@settings(max_examples=60, deadline=None)
@given(rows, kinds, st.booleans())
def test_bands_are_ordered_and_confidence_holds_the_curve(
    items: list[tuple[int, float, str]], kind: Any, clustered: bool
) -> None:
    method, band, simultaneous = kind
    y, p, c = zip(*items, strict=True)
    diagram = reliability_diagram(
        y, p, method, band, cluster=c if clustered else None, simultaneous=simultaneous, replicates=40
    )
    b = diagram.band
    assert b is not None
    if clustered and len(set(c)) == 1:
        assert np.isnan(b.low).all()
        return
    assert ((b.low >= 0) & (b.low <= b.high) & (b.high <= 1)).all()
    assert (np.diff(b.x) > 0).all()
    if band == "confidence":
        value = diagram.at(b.x)
        assert ((b.low <= value + 1e-6) & (value <= b.high + 1e-6)).all()


def test_a_consistency_band_of_equal_forecasts_is_the_binomial_quantile() -> None:
    from scipy.stats import binom

    y, p = np.zeros(50), np.full(50, 0.3)
    band = reliability_diagram(y, p, replicates=20_000).band
    assert band is not None
    expected = binom.ppf([0.05, 0.95], 50, 0.3) / 50
    assert [band.low[0], band.high[0]] == pytest.approx(expected, abs=0.021)
    assert band.low[0] * 50 == pytest.approx(round(band.low[0] * 50))


def test_a_confidence_band_of_one_forecast_is_the_likelihood_interval() -> None:
    """Twice the log ratio reaches the chi-square quantile, 2.7055, at both ends."""
    y, p = np.repeat([1.0, 0.0], [12, 28]), np.full(40, 0.4)
    band = confidence_band(sort_items(Items(y, p, None, None, 0)), level=0.9)

    def lost(theta: float) -> float:
        return 2 * (12 * np.log(0.3) + 28 * np.log(0.7) - 12 * np.log(theta) - 28 * np.log(1 - theta))

    assert [lost(band.low[0]), lost(band.high[0])] == pytest.approx([2.70554, 2.70554], rel=1e-4)
    doubled = confidence_band(
        sort_items(Items(np.repeat(y, 2), np.repeat(p, 2), None, np.repeat(np.arange(40), 2), 0)), level=0.9
    )
    assert doubled.high[0] - doubled.low[0] > band.high[0] - band.low[0], "copies bring no information"


def test_weights_that_are_all_equal_change_nothing() -> None:
    rng = np.random.default_rng(4)
    p = rng.uniform(size=60)
    y = (rng.uniform(size=60) < p).astype(float)
    plain, weighted = (
        reliability_diagram(y, p, band="confidence", weights=w).band for w in (None, np.full(60, 3.0))
    )
    assert plain is not None
    assert weighted is not None
    assert weighted.low == pytest.approx(plain.low, abs=1e-6)
    assert weighted.high == pytest.approx(plain.high, abs=1e-6)


def test_a_seed_changes_the_draws_and_the_same_seed_does_not() -> None:
    rng = np.random.default_rng(6)
    p = rng.uniform(size=80)
    y = (rng.uniform(size=80) < p).astype(float)
    low = [reliability_diagram(y, p, seed=s, replicates=60).band.low for s in (0, 0, 1)]
    assert low[0].tobytes() == low[1].tobytes()
    assert low[0].tobytes() != low[2].tobytes()


def test_clusters_widen_the_bands() -> None:
    rng = np.random.default_rng(7)
    cluster = np.repeat(np.arange(60), 8)
    p = np.repeat(rng.uniform(size=60), 8)
    y = np.repeat((rng.uniform(size=60) < p[::8]).astype(float), 8)
    for band in ("consistency", "confidence"):
        for method in ("corp", "binned"):
            width = []
            for labels in (None, cluster):
                b = reliability_diagram(y, p, method, band, cluster=labels, replicates=200).band
                assert b is not None
                width.append(float((b.high - b.low).mean()))
            assert width[1] > 1.5 * width[0], (band, method)


def test_a_simultaneous_band_is_wider_than_a_pointwise_one() -> None:
    rng = np.random.default_rng(8)
    p = rng.uniform(size=300)
    y = (rng.uniform(size=300) < p).astype(float)
    for band in ("consistency", "confidence"):
        point, whole = (
            reliability_diagram(y, p, band=band, simultaneous=s, replicates=200).band for s in (False, True)
        )
        assert point is not None
        assert whole is not None
        low, high = whole.at(point.x)
        assert (low <= point.low + 1e-9).mean() > 0.9
        assert (high - low).mean() > 1.2 * (point.high - point.low).mean()


def test_too_few_draws_for_the_level_are_refused() -> None:
    with pytest.raises(ValueError, match="at least 200"):
        reliability_diagram([0, 1], [0.2, 0.8], level=0.99, replicates=100)


def test_caveats_say_what_is_thin() -> None:
    rng = np.random.default_rng(9)
    p = rng.uniform(size=40)
    y = (rng.uniform(size=40) < p).astype(float)
    assert "only 4 clusters" in reliability_diagram(y, p, cluster=np.arange(40) % 4).summary()
    assert "one cluster" in reliability_diagram(y, p, cluster=np.zeros(40)).summary()
    assert "independent" in reliability_diagram(y, p).summary()
    assert "independent" not in reliability_diagram(y, p, cluster=np.arange(40)).summary()


# Simultaneous confidence bands: the bounds against brute force and the definition.


@pytest.mark.parametrize("cells", [512, 7])
@pytest.mark.parametrize("digits", [1, 12])
def test_the_band_is_that_of_all_intervals(cells: int, digits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every interval gives a valid bound; the band takes the sharpest for each forecast, and no other."""
    from scipy.stats import beta

    from evalkit.calibration import simultaneous_band

    monkeypatch.setattr(simultaneous_band, "MOST_CELLS", cells)
    rng = np.random.default_rng(10)
    p = np.round(rng.uniform(size=200), digits)
    y = (rng.uniform(size=200) < p).astype(float)
    data = sort_items(Items(y, p, None, None, 0))
    band = simultaneous_confidence_band(data, level=0.9)
    edges = _cell_edges(data)
    assert (edges[0], edges[-1]) == (0, len(data.x))
    assert len(edges) <= cells + 1
    start, end = _intervals(len(edges) - 1)
    error = 0.05 / len(start)
    low, high = np.zeros(len(data.x)), np.ones(len(data.x))
    for a, b in zip(edges[start], edges[end], strict=True):
        n, k = data.n[a:b].sum(), data.events[a:b].sum()
        below = beta.ppf(error, k, n - k + 1) if k else 0.0
        above = beta.ppf(1 - error, k + 1, n - k) if k < n else 1.0
        high[: a + 1] = np.minimum(high[: a + 1], above)
        low[b - 1 :] = np.maximum(low[b - 1 :], below)
    fitted = reliability_diagram(y, p, band=None).at(data.x)
    assert band.low == pytest.approx(np.minimum(low, fitted), abs=1e-9)
    assert band.high == pytest.approx(np.maximum(high, fitted), abs=1e-9)


def test_intervals_have_every_start_and_do_not_depend_on_outcomes() -> None:
    start, end = _intervals(300)
    assert (end > start).all()
    assert (end <= 300).all()
    assert len(set(zip(start.tolist(), end.tolist(), strict=True))) == len(start)
    assert set(start.tolist()) == set(range(300))
    assert (0, 300) in set(zip(start.tolist(), end.tolist(), strict=True))
    rng = np.random.default_rng(11)
    p = rng.uniform(size=2000)
    one, two = (sort_items(Items(np.full(2000, v), p, None, None, 0), most=2000) for v in (0.0, 1.0))
    assert (_cell_edges(one) == _cell_edges(two)).all()
    assert len(_cell_edges(one)) <= 513


def test_chernoffs_bound_is_the_inverse_of_the_divergence() -> None:
    mean, reach = np.array([0.0, 0.2, 0.5, 1.0]), np.array([0.1, 0.1, 0.02, 0.3])
    upper = _chernoff(mean, reach)
    assert upper[0] == pytest.approx(1 - np.exp(-0.1))
    assert upper[3] == 1.0
    for m, r, u in zip(mean[1:3], reach[1:3], upper[1:3], strict=True):
        assert m * np.log(m / u) + (1 - m) * np.log((1 - m) / (1 - u)) == pytest.approx(r, rel=1e-6)


def test_clusters_of_one_item_and_fractional_outcomes_are_allowed_and_weights_not() -> None:
    rng = np.random.default_rng(13)
    p = rng.uniform(size=100)
    y = (rng.uniform(size=100) < p).astype(float)
    single = reliability_diagram(y, p, band="confidence", simultaneous=True, cluster=np.arange(100)).band
    exact = reliability_diagram(y, p, band="confidence", simultaneous=True).band
    half = reliability_diagram(
        np.append(y[1:], 0.5), p, band="confidence", simultaneous=True, allow_fractional=True
    ).band
    assert single is not None
    assert exact is not None
    assert half is not None
    assert (single.high - single.low).mean() >= (exact.high - exact.low).mean()
    assert "Clopper" in exact.method
    assert "Chernoff" in half.method
    with pytest.raises(ValueError, match="weighted"):
        reliability_diagram(y, p, band="confidence", simultaneous=True, weights=p)


def test_shares_of_clusters_are_counted_in_each_interval() -> None:
    from evalkit.calibration.simultaneous_band import _cluster_shares

    rng = np.random.default_rng(14)
    items = np.array([0, 3, 4, 10, 30])  # first item of each cell, and the end
    cluster = rng.integers(0, 5, 30)
    start, end = _intervals(4)
    largest, squares = _cluster_shares(cluster, items, start, end)
    for i, (a, b) in enumerate(zip(items[start], items[end], strict=True)):
        shares = np.bincount(cluster[a:b]) / (b - a)
        assert largest[i] == pytest.approx(shares.max())
        assert squares[i] == pytest.approx((shares**2).sum())


def test_an_exact_band_has_every_forecast_however_many() -> None:
    p = np.linspace(0, 1, 3000)
    y = (np.arange(3000) % 7 < 3).astype(float)
    whole = reliability_diagram(y, p, band="confidence", simultaneous=True).band
    assert whole is not None
    assert np.array_equal(whole.x, p)


# The drawn band itself.


def test_the_level_is_split_over_two_tails_of_the_draws() -> None:
    """Curves worth 1, 2 … 99: a 90 % band leaves out the four lowest and the four highest."""
    from evalkit.calibration.bands import consistency_band

    data = sort_items(Items(np.array([0.0, 1.0]), np.array([0.4, 0.6]), None, None, 0))
    order = iter(np.random.default_rng(0).permutation(99) + 1.0)
    band = consistency_band(
        data,
        lambda _: np.full(1, next(order)),
        np.zeros(1),
        level=0.9,
        simultaneous=False,
        replicates=99,
        seed=0,
    )
    assert [band.low[0], band.high[0]] == [5.0, 95.0]


def test_a_simultaneous_band_holds_its_share_of_other_curves() -> None:
    """Twenty places that know nothing of each other: each may miss a tenth by a twentieth of it only."""
    from evalkit.calibration.bands import consistency_band

    rng = np.random.default_rng(15)
    data = sort_items(Items(np.array([0.0, 1.0]), np.array([0.4, 0.6]), None, None, 0))
    band = consistency_band(
        data,
        lambda _: rng.uniform(size=20),
        np.zeros(20),
        level=0.9,
        simultaneous=True,
        replicates=500,
        seed=0,
    )
    others = rng.uniform(size=(4000, 20))
    held = ((others >= band.low) & (others <= band.high)).all(axis=1).mean()
    assert held == pytest.approx(0.9, abs=0.025)


def test_the_design_effect_of_a_block_is_shared_with_its_neighbours() -> None:
    from evalkit.calibration.confidence_band import _with_neighbours

    inflation, weight = np.array([1.0, 4.0, 2.0]), np.array([1.0, 1.0, 2.0])
    assert _with_neighbours(inflation, weight).tolist() == [2.5, 2.25, 8 / 3]
    assert _with_neighbours(np.array([3.0]), np.array([7.0])).tolist() == [3.0]


def test_bundles_of_forecasts_never_span_a_bin() -> None:
    p = np.linspace(0, 1, 1001)
    data = sort_items(Items(np.zeros(1001), p, None, None, 0), np.array([0.105, 0.5]), most=10)
    assert data.bundled
    firsts = p[data.starts]
    for boundary in (0.105, 0.5):
        assert firsts[np.searchsorted(firsts, boundary)] == p[np.searchsorted(p, boundary)]
    assert data.n.sum() == 1001
    assert len(data.x) <= 12
