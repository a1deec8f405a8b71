"""Maps of recalibration, fitted to all items, beside scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest

from evalkit.calibration import recalibrate

from .asking import Call, Peers
from .inputs import BINARY

pytestmark = pytest.mark.peers

_AT = np.linspace(0.01, 0.99, 99)


@pytest.mark.parametrize("case", ["uniform, n = 5000", "overconfident", "rounded to 2 digits", "logistic"])
def test_platt(peers: Peers, case: str) -> None:
    """Platt (1999), with his targets, on the log odds: scikit-learn's has the same ones."""
    y, p = BINARY[case]
    # where log odds are not finite the two take different edges
    inside = (p > 1e-5) & (p < 1 - 1e-5)
    y, p = y[inside], p[inside]
    map_ = Call("sklearn.calibration._SigmoidCalibration")
    fit = Call("sklearn.calibration._SigmoidCalibration.fit", map_, np.log(p / (1 - p)), y)
    theirs = peers("sklearn.calibration._SigmoidCalibration.predict", fit, np.log(_AT / (1 - _AT)))
    np.testing.assert_allclose(recalibrate(y, p, "platt").predict(_AT), theirs, atol=2e-5)


@pytest.mark.parametrize("case", ["uniform, n = 101", "overconfident", "rounded to 2 digits", "logistic"])
def test_isotonic(peers: Peers, case: str) -> None:
    y, p = BINARY[case]
    map_ = Call("sklearn.isotonic.IsotonicRegression", out_of_bounds="clip")
    fit = Call("sklearn.isotonic.IsotonicRegression.fit", map_, p, y)
    theirs = peers("sklearn.isotonic.IsotonicRegression.predict", fit, _AT)
    np.testing.assert_allclose(recalibrate(y, p, "isotonic").predict(_AT), theirs, atol=1e-12)


def test_temperature(peers: Peers) -> None:
    """Guo et al. (2017).  scikit-learn fits the outcomes, evalkit Platt's targets, which differ by 1/n."""
    y, p = BINARY["overconfident"]
    map_ = Call("sklearn.calibration._TemperatureScaling")
    logits = np.log(np.clip(p, 1e-6, 1 - 1e-6) / (1 - np.clip(p, 1e-6, 1 - 1e-6)))
    fit = Call("sklearn.calibration._TemperatureScaling.fit", map_, logits[:, None], y)
    theirs = peers("sklearn.calibration._TemperatureScaling.predict", fit, np.log(_AT / (1 - _AT))[:, None])
    np.testing.assert_allclose(
        recalibrate(y, p, "temperature").predict(_AT), np.array(theirs)[:, 1], atol=2e-3
    )
