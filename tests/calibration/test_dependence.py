"""Dependence within clusters: estimated, and drawn with the right margins and correlation."""

from __future__ import annotations

import numpy as np
import pytest

from evalkit.calibration.dependence import dependence, draws, quantile, variance_inflation
from evalkit.calibration.sorted_items import SortedItems, sort_items
from evalkit.scoring.inputs import Items


def sample(shared: float, seed: int, clusters: int = 400, size: int = 5) -> SortedItems:
    """Calibrated forecasts; with probability √shared an outcome hangs on its cluster's number."""
    rng = np.random.default_rng(seed)
    cluster = np.repeat(np.arange(clusters), size)
    p = np.repeat(rng.uniform(0.2, 0.8, clusters), size)
    u = np.where(rng.random(len(p)) < shared**0.5, rng.random(clusters)[cluster], rng.random(len(p)))
    return sort_items(Items((u < p).astype(float), p, None, cluster, 0))


@pytest.mark.parametrize("shared", [0.0, 0.3, 0.8])
def test_dependence_is_found(shared: float) -> None:
    found = [dependence(data, data.p) for data in (sample(shared, seed) for seed in range(8))]
    assert np.mean(found) == pytest.approx(shared, abs=0.05)


def test_what_a_forecaster_is_off_is_no_dependence() -> None:
    rng = np.random.default_rng(5)
    cluster = np.repeat(np.arange(300), 5)
    p = rng.uniform(0.1, 0.9, 1500)
    y = (rng.uniform(size=1500) < np.clip(p - 0.3, 0, 1)).astype(float)
    data = sort_items(Items(y, p, None, cluster, 0))
    assert dependence(data, data.p) < 0.05


def test_copies_depend_completely_and_single_items_not_at_all() -> None:
    data = sample(1.0, 3)
    assert dependence(data, data.p) > 0.9
    alone = sort_items(Items(data.y, data.p, None, np.arange(len(data)), 0))
    assert dependence(alone, alone.p) == 0.0
    assert dependence(sort_items(Items(data.y, data.p, None, None, 0)), data.p) == 0.0


@pytest.mark.parametrize("strength", [0.0, 0.4, 1.0])
def test_draws_have_the_margins_of_the_forecasts_and_the_correlation_asked_for(strength: float) -> None:
    rng = np.random.default_rng(1)
    cluster = np.repeat(np.arange(200), 4)
    p = np.where(np.arange(800) % 4 < 2, 0.3, 0.7)  # two of each a cluster
    data = sort_items(Items((rng.random(800) < p).astype(float), p, None, cluster, 0))
    draw = draws(data, strength)
    sums = np.array([draw(rng) for _ in range(3000)])
    error = 4 * np.sqrt(400 * 0.21 * (1 + strength) / 3000)
    assert sums.mean(axis=0) == pytest.approx([400 * 0.3, 400 * 0.7], abs=error)
    # 200 pairs of equal forecasts: the variance of their sum is 400 · .21 (1 + λ)
    assert sums.var(axis=0) == pytest.approx([400 * 0.21 * (1 + strength)] * 2, rel=0.12)


def test_draws_of_weighted_items() -> None:
    data = sort_items(
        Items(np.array([1.0, 0.0, 1.0]), np.array([1.0, 1.0, 0.0]), np.array([2.0, 3, 5]), None, 0)
    )
    assert draws(data, 0.0)(np.random.default_rng(0)).tolist() == [0.0, 5.0]


def test_the_design_effect_is_that_of_kish() -> None:
    y, p = np.zeros(6), np.full(6, 0.5)
    cluster = np.array([0, 0, 0, 1, 1, 2])
    data = sort_items(Items(y, p, None, cluster, 0))
    whole = np.zeros(6, dtype=np.intp)
    assert variance_inflation(data, 1.0, whole) == pytest.approx([(9 + 4 + 1) / 6])
    assert variance_inflation(data, 0.0, whole) == pytest.approx([1.0])
    weighted = sort_items(Items(y, p, np.array([1.0, 1, 1, 1, 1, 3]), None, 0))
    assert variance_inflation(weighted, 0.0, whole) == pytest.approx([14 / 8])


def test_few_clusters_widen_the_quantile() -> None:
    assert quantile(0.95, None) == pytest.approx(1.6449, abs=1e-4)
    assert quantile(0.95, 5) == pytest.approx(2.1318, abs=1e-4)


def test_mirror_images_far_apart_do_not_hide_dependence() -> None:
    """Both sides of an event, at .2 and .8: like forecasts hang together, unlike ones are opposites."""
    rng = np.random.default_rng(2)
    event = np.repeat((rng.random(200) < 0.8).astype(float), 6)
    side = np.tile([1.0, 1, 1, 0, 0, 0], 200)
    y, p = np.where(side == 1, event, 1 - event), np.where(side == 1, 0.8, 0.2)
    data = sort_items(Items(y, p, None, np.repeat(np.arange(200), 6), 0))
    assert dependence(data, data.p) == pytest.approx(1.0, abs=0.15)
