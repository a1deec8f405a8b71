"""Scores beside scikit-learn's and scoringrules', item by item where they give items."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from evalkit.scoring import brier_score, log_score

from .asking import Call, Peers
from .inputs import BINARY, EXTREME, MULTICLASS, Array, named

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(("y", "p"), **named(BINARY | EXTREME))
def test_binary_brier(peers: Peers, y: Array, p: Array) -> None:
    theirs = peers("sklearn.metrics.brier_score_loss", y, p, pos_label=1)
    # scikit-learn scores 1 - p as a second class, which rounds a tiny p
    assert float(brier_score(y, p)) == pytest.approx(theirs, rel=1e-12, abs=1e-17)
    items = brier_score(y, p, reduce=None)
    np.testing.assert_allclose(items, peers("scoringrules.brier_score", y, p), rtol=1e-13)


@pytest.mark.parametrize(("y", "p"), **named(BINARY))
def test_binary_log(peers: Peers, y: Array, p: Array) -> None:
    ours = float(log_score(y, p))
    if math.isfinite(ours):
        labels = [0, 1]
        assert ours == pytest.approx(
            peers("sklearn.metrics.log_loss", y, p, labels=labels), rel=1e-9, abs=1e-12
        )
    items = log_score(y, p, reduce=None)
    theirs = np.array(peers("scoringrules.log_score", y, p))
    finite = np.isfinite(items)
    assert (np.isinf(theirs) == ~finite).all()
    # scoringrules takes the logarithm of |p + y - 1|, which rounds what happened to 2.2e-16
    allowed = 1e-13 * items[finite] + 2.3e-16 / np.exp(-items[finite])
    assert (np.abs(items - theirs)[finite] <= allowed).all()


@pytest.mark.parametrize("scale", ["full", "half"])
@pytest.mark.parametrize(("y", "p"), **named(MULTICLASS))
def test_multiclass_brier(peers: Peers, y: NDArray[np.int64], p: Array, scale: str) -> None:
    theirs = peers(
        "sklearn.metrics.brier_score_loss",
        y,
        p,
        labels=list(range(p.shape[1])),
        scale_by_half=scale == "half",
    )
    assert float(brier_score(y, p, scale=scale)) == pytest.approx(theirs, rel=1e-12)


@pytest.mark.parametrize(("y", "p"), **named(MULTICLASS))
def test_multiclass_log(peers: Peers, y: NDArray[np.int64], p: Array) -> None:
    ours = float(log_score(y, p))
    if math.isinf(ours):
        assert (p[np.arange(len(y)), y] == 0).any()
        return
    theirs = peers("sklearn.metrics.log_loss", y, p, labels=list(range(p.shape[1])))
    assert ours == pytest.approx(theirs, rel=1e-9)


@pytest.mark.parametrize(("y", "p"), **named(BINARY))
def test_weights(peers: Peers, y: Array, p: Array) -> None:
    weights = np.random.default_rng(5).exponential(size=len(y))
    theirs = peers("sklearn.metrics.brier_score_loss", y, p, sample_weight=weights, pos_label=1)
    assert float(brier_score(y, p, weights=weights)) == pytest.approx(theirs, rel=1e-12, abs=1e-17)


def test_an_error_over_there_is_an_error_here(peers: Peers) -> None:
    with pytest.raises(Exception, match="ValueError"):
        peers("sklearn.metrics.brier_score_loss", [0, 1], [0.1])
    assert peers("numpy.add", Call("numpy.asarray", [1.0]), np.array([np.inf])) == [np.inf]
