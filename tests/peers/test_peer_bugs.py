"""Values that other packages get wrong: each test holds the right one, which is ours, and theirs.

Each test ends with what the peer returns.  If that fails after an update of `requirements.lock`, the peer was
mended: the test says so and its last lines go.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalkit.calibration.isotonic import isotonic
from evalkit.scoring import log_score

from .asking import Call, Peers

pytestmark = pytest.mark.peers


def test_log_score_of_a_tiny_probability_that_came_true(peers: Peers) -> None:
    """-ln 1e-17 = 17 ln 10 = 39.14.  scoringrules computes 1e-17 + 1 - 1 first."""
    assert float(log_score([1], [1e-17])) == pytest.approx(17 * math.log(10), rel=1e-15)
    assert peers("scoringrules.log_score", 1.0, 1e-17) == math.inf


def test_log_score_of_the_impossible_that_came_true(peers: Peers) -> None:
    """-ln 0 is infinite.  scikit-learn puts the smallest float64 step, 2.2e-16, in place of 0."""
    assert float(log_score([1], [0.0])) == math.inf
    assert float(log_score([0, 1], [[1.0, 0.0], [1.0, 0.0]])) == math.inf
    assert peers("sklearn.metrics.log_loss", [1], [0.0], labels=[0, 1]) == pytest.approx(52 * math.log(2))


def test_forecasts_that_differ_are_not_equal(peers: Peers) -> None:
    """The higher of two forecasts came true: the fit is 0 and 1.  scikit-learn pools below a distance of 1e-15."""
    y, p = np.array([0.0, 1.0]), np.array([1e-300, 2e-300])
    assert isotonic(y, p).at(p).tolist() == [0.0, 1.0]
    fitted = Call(
        "sklearn.isotonic.IsotonicRegression.fit", Call("sklearn.isotonic.IsotonicRegression"), p, y
    )
    assert peers("sklearn.isotonic.IsotonicRegression.predict", fitted, p) == [0.5, 0.5]
