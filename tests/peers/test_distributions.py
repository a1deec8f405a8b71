"""Scores of ordered classes, quantiles, intervals and ensembles beside scoringrules' and scores'.

No package here has the spherical score; its tests are by formula (tests/scoring).
"""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from evalkit.scoring import crps_ensemble, interval_score, quantile_score, ranked_probability_score

from .asking import Call, Peers
from .inputs import ENSEMBLES, MULTICLASS, Array, named

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(("y", "p"), **named(MULTICLASS))
def test_ranked_probability_score(peers: Peers, y: NDArray[np.int64], p: Array) -> None:
    items = ranked_probability_score(y, p, reduce=None)
    # scoringrules numbers the classes from 1
    np.testing.assert_allclose(items, peers("scoringrules.rps_score", y + 1, p), rtol=1e-12, atol=1e-15)
    mean = float(ranked_probability_score(y, p, normalize=True))
    assert mean == pytest.approx(np.mean(items) / (p.shape[1] - 1), rel=1e-12)


@pytest.mark.parametrize("level", [0.01, 0.5, 0.9])
@pytest.mark.parametrize(("y", "p"), **named(ENSEMBLES))
def test_quantile_score(peers: Peers, y: Array, p: Array, level: float) -> None:
    items = quantile_score(y, p[:, 0], level=level, reduce=None)
    theirs = peers("scoringrules.quantile_score", y, p[:, 0], level)
    np.testing.assert_allclose(items, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize(("y", "p"), **named(ENSEMBLES))
def test_crps_of_quantiles(peers: Peers, y: Array, p: Array) -> None:
    quantiles = np.sort(p, axis=1)
    levels = (np.arange(p.shape[1]) + 1) / (p.shape[1] + 1)
    items = quantile_score(y, quantiles, level=levels, twice=True, reduce=None)
    theirs = peers("scoringrules.crps_quantile", y, quantiles, levels)
    np.testing.assert_allclose(items, theirs, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("alpha", [0.05, 0.2, 0.5])
@pytest.mark.parametrize(("y", "p"), **named(ENSEMBLES))
def test_interval_score(peers: Peers, y: Array, p: Array, alpha: float) -> None:
    lower, upper = p.min(axis=1), p.max(axis=1)
    items = interval_score(y, np.column_stack([lower, upper]), alpha=alpha, reduce=None)
    theirs = peers("scoringrules.interval_score", y, lower, upper, alpha)
    np.testing.assert_allclose(items, theirs, rtol=1e-12)


@pytest.mark.parametrize("estimator", ["nrg", "qd", "int"])
@pytest.mark.parametrize(("y", "p"), **named(ENSEMBLES))
def test_crps_of_an_ensemble(peers: Peers, y: Array, p: Array, estimator: str) -> None:
    theirs = peers("scoringrules.crps_ensemble", y, p, estimator=estimator)
    # members are compared about the outcome here, which keeps the digits of values far from zero
    rounding = 1e-14 * np.abs(p).max()
    np.testing.assert_allclose(crps_ensemble(y, p, reduce=None), theirs, rtol=1e-11, atol=rounding)


@pytest.mark.parametrize("estimator", ["fair", "pwm"])
@pytest.mark.parametrize(("y", "p"), **named(ENSEMBLES))
def test_fair_crps_of_an_ensemble(peers: Peers, y: Array, p: Array, estimator: str) -> None:
    theirs = peers("scoringrules.crps_ensemble", y, p, estimator=estimator)
    rounding = 1e-14 * np.abs(p).max()
    ours = crps_ensemble(y, p, estimator="fair", reduce=None)
    np.testing.assert_allclose(ours, theirs, rtol=1e-11, atol=rounding)


@pytest.mark.parametrize(("ours", "theirs"), [("empirical", "ecdf"), ("fair", "fair")])
@pytest.mark.parametrize(("y", "p"), **named(ENSEMBLES))
def test_crps_beside_scores(peers: Peers, y: Array, p: Array, ours: str, theirs: str) -> None:
    mean = peers(
        "scores.probability.crps_for_ensemble",
        Call("xarray.DataArray", p, dims=["item", "member"]),
        Call("xarray.DataArray", y, dims=["item"]),
        "member",
        method=theirs,
    )
    rounding = 1e-14 * np.abs(p).max()
    assert float(crps_ensemble(y, p, estimator=ours)) == pytest.approx(mean, rel=1e-11, abs=rounding)
