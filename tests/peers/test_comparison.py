"""Diebold–Mariano tests beside those of scores (Harvey, Leybourne & Newbold 1997, t distribution)."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalkit.scoring import diebold_mariano

from .asking import Call, Peers
from .inputs import Array

pytestmark = pytest.mark.peers


def _theirs(peers: Peers, differences: Array, horizon: int) -> tuple[float, float]:
    """Statistic and two-sided p of the differences."""
    series = Call(
        "xarray.DataArray",
        differences[None, :],
        dims=["series", "time"],
        coords={"h": Call("builtins.tuple", ["series", [horizon]])},
    )
    name = "scores.stats.statistical_tests.diebold_mariano"
    found = peers(name, series, "series", "h", method="HLN", statistic_distribution="t")
    above = found["confidence_gt_0"][0]
    return found["dm_test_stat"][0], 2 * min(above, 1 - above)


@pytest.mark.parametrize("horizon", [1, 2, 3, 7])
@pytest.mark.parametrize("n", [8, 30, 91, 1000])
def test_statistic_and_p(peers: Peers, n: int, horizon: int) -> None:
    rng = np.random.default_rng([n, horizon])
    a = rng.beta(1, 3, n)
    shocks = rng.normal(0, 0.1, n + horizon)
    # moving averages, as errors of forecasts of several steps are
    b = a + 0.02 + np.array([shocks[t : t + horizon].sum() for t in range(n)])
    ours = diebold_mariano(a, b, horizon)
    statistic, p = _theirs(peers, a - b, horizon)
    if math.isnan(statistic):
        assert math.isnan(ours.statistic)
        assert "variance" in ours.reason
        return
    assert ours.statistic == pytest.approx(statistic, rel=1e-9)
    assert ours.p == pytest.approx(p, rel=1e-7, abs=1e-12)


@pytest.mark.parametrize("horizon", [1, 2, 4])
def test_scores_that_are_often_equal(peers: Peers, horizon: int) -> None:
    rng = np.random.default_rng(horizon)
    a, b = rng.integers(0, 3, 60) / 4, rng.integers(0, 3, 60) / 4
    statistic, p = _theirs(peers, a - b, horizon)
    ours = diebold_mariano(a, b, horizon)
    assert (ours.statistic, ours.p) == (pytest.approx(statistic, rel=1e-9), pytest.approx(p, rel=1e-7))


def test_no_statistic_where_autocovariances_cancel_the_variance(peers: Peers) -> None:
    a, b = np.tile([1.0, 0.0], 10), np.zeros(20)
    ours = diebold_mariano(a, b, 2)
    assert math.isnan(ours.statistic)
    assert ours.reason
    assert math.isnan(_theirs(peers, a - b, 2)[0])
