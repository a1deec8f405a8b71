"""The smooth calibration error beside relplot's, by the authors of its paper (Błasiok & Nakkiran 2023)."""

from __future__ import annotations

import numpy as np
import pytest

from evalkit.calibration import smooth_calibration_error

from .asking import Peers
from .inputs import BINARY, Array, named

pytestmark = pytest.mark.peers

#: relplot searches for the bandwidth in steps of 1/1024 and integrates over 200 points
_STEPS = 2e-3
#: above this, its kernel is cut off: see the last test
_NARROW = 0.15


@pytest.mark.parametrize(("y", "p"), **named(BINARY))
def test_beside_relplot(peers: Peers, y: Array, p: Array) -> None:
    ours = float(smooth_calibration_error(y, p))
    if ours < _NARROW:
        assert ours == pytest.approx(peers("relplot.smECE", p, y), abs=_STEPS)
    else:
        assert ours == pytest.approx(_by_images(y, p), abs=1e-3)


@pytest.mark.parametrize("case", ["uniform, n = 101", "overconfident", "the wrong way round"])
def test_by_adding_mirror_images(case: str) -> None:
    y, p = BINARY[case]
    assert float(smooth_calibration_error(y, p)) == pytest.approx(_by_images(y, p), abs=5e-4)


def test_a_wide_kernel_has_its_tails(peers: Peers) -> None:
    """Forecasts the wrong way round: the error is .401.

    relplot computes the kernel on one unit interval about its centre, so that a Gaussian of bandwidth .4
    loses what lies beyond .5 and cannot smooth errors near 0 against those near 1.
    """
    y, p = BINARY["the wrong way round"]
    assert float(smooth_calibration_error(y, p)) == pytest.approx(0.4012, abs=1e-3)
    assert peers("relplot.smECE", p, y) == pytest.approx(0.6310, abs=1e-3)


def _by_images(y: Array, p: Array) -> float:
    """Definition: the residuals and their mirror images, one Gaussian each, at 401 points of [0, 1]."""
    at = np.linspace(0, 1, 401)
    images = np.concatenate([2 * k + sign * p for k in range(-3, 4) for sign in (1, -1)])
    residuals = np.tile(y - p, 14) / len(p)

    def error(width: float) -> float:
        near = np.abs(images - 0.5) < 0.5 + 6 * width
        smoothed = np.zeros(len(at))
        for part in np.array_split(np.flatnonzero(near), 1 + near.sum() // 2000):
            distances = (at[:, None] - images[None, part]) / width
            smoothed += np.exp(-0.5 * distances**2) @ residuals[part]
        return float(np.trapezoid(np.abs(smoothed), at) / (width * np.sqrt(2 * np.pi)))

    low, high = 0.0, 1.0
    for _ in range(11):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return (low + high) / 2
