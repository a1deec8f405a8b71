"""Recalibrated forecasts beside the isotonic regressions of scikit-learn and of scores."""

from __future__ import annotations

import numpy as np
import pytest

from evalkit.calibration.isotonic import isotonic

from .asking import Call, Peers
from .inputs import BINARY, EXTREME, Array, named

pytestmark = pytest.mark.peers


@pytest.mark.parametrize(("y", "p"), **named(BINARY | EXTREME))
def test_recalibrated_forecasts(peers: Peers, y: Array, p: Array) -> None:
    fitted = Call(
        "sklearn.isotonic.IsotonicRegression.fit", Call("sklearn.isotonic.IsotonicRegression"), p, y
    )
    theirs = np.array(peers("sklearn.isotonic.IsotonicRegression.predict", fitted, p))
    # scikit-learn takes forecasts that differ by less than 1e-15 for equal (test_peer_bugs.py)
    if np.diff(np.unique(p)).min(initial=1) > 1e-15:
        np.testing.assert_allclose(isotonic(y, p).at(p), theirs, atol=1e-12)


@pytest.mark.parametrize(("y", "p"), **named(BINARY | EXTREME))
def test_beside_scores(peers: Peers, y: Array, p: Array) -> None:
    """`scores` gives the fit at each distinct forecast, of any distance."""
    theirs = peers("scores.probability.isotonic_fit", p, y, functional="mean")
    ours = isotonic(y, p).at(np.array(theirs["fcst_sorted"]))
    np.testing.assert_allclose(ours, theirs["regression_values"], atol=1e-12)
