"""Calibration errors beside uncertainty-calibration's and relplot's, and those of the packages with PyTorch."""

from __future__ import annotations

import math

import numpy as np
import pytest

from evalkit.calibration import calibration_error

from .asking import Peers
from .inputs import BINARY, Array, named
from .torch_claims import netcal_ece, torchmetrics_ece

pytestmark = pytest.mark.peers

#: of an estimate with randomness of its own
_REPEATS = 30

#: no forecast lies on an edge of ten bins, where uncertainty-calibration closes the other end
_INSIDE = {name: (y, p) for name, (y, p) in BINARY.items() if not np.isin(p, np.arange(11) / 10).any()}


@pytest.mark.parametrize("bins", [10, 15])
@pytest.mark.parametrize(("y", "p"), **named(_INSIDE))
def test_equal_width(peers: Peers, y: Array, p: Array, bins: int) -> None:
    theirs = peers("calibration.get_ece", p, y.astype(int), debias=False, num_bins=bins)
    assert float(calibration_error(y, p, bins=bins)) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("bins", [10, 20])
@pytest.mark.parametrize("case", ["uniform, n = 5000", "mostly near 0 and 1", "overconfident", "logistic"])
def test_equal_mass(peers: Peers, case: str, bins: int) -> None:
    y, p = BINARY[case]
    theirs = peers("calibration.get_ece_em", p, y.astype(int), debias=False, num_bins=bins)
    assert float(calibration_error(y, p, binning="mass", bins=bins)) == pytest.approx(theirs, abs=1e-12)


@pytest.mark.parametrize("case", ["uniform, n = 5000", "overconfident", "the wrong way round"])
@pytest.mark.parametrize("bins", [5, 20])
def test_debiased_squared(peers: Peers, case: str, bins: int) -> None:
    """Kumar, Liang & Ma (2019); uncertainty-calibration gives its root, and 0 where it is negative."""
    y, p = BINARY[case]
    theirs = peers("calibration.lower_bound_scaling_ce", p, y.astype(int), p=2, debias=True, num_bins=bins)
    ours = float(calibration_error(y, p, norm="l2", binning="mass", bins=bins, debiased=True))
    assert max(ours, 0) == pytest.approx(theirs**2, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("case", ["uniform, n = 5000", "overconfident", "logistic"])
def test_debiased_in_bins_of_its_choice(peers: Peers, case: str) -> None:
    """Its own call, which takes 15 bins; where n is no multiple of that, its bins differ by an item from ours."""
    y, p = BINARY[case]
    edges = [0.0, *peers("calibration.utils.get_equal_bins", p, num_bins=15)]
    theirs = peers("calibration.get_calibration_error", p, y.astype(int), p=2, debias=True)
    ours = float(calibration_error(y, p, norm="l2", bins=edges, debiased=True))
    assert max(ours, 0) == pytest.approx(theirs**2, rel=1e-9, abs=1e-15)


@pytest.mark.parametrize("case", ["uniform, n = 5000", "overconfident", "the wrong way round"])
def test_debiased_absolute(peers: Peers, case: str) -> None:
    """It resamples a normal distribution 1,000 times, whose mean is computed here."""
    y, p = BINARY[case]
    peers("numpy.random.seed", 20240724)
    drawn = [
        peers("calibration.get_ece_em", p, y.astype(int), debias=True, num_bins=10) for _ in range(_REPEATS)
    ]
    ours = float(calibration_error(y, p, binning="mass", bins=10, debiased=True))
    assert abs(ours - np.mean(drawn)) < 5 * np.std(drawn, ddof=1) / math.sqrt(_REPEATS)


@pytest.mark.slow
@pytest.mark.parametrize(("y", "p"), **named(BINARY))
def test_equal_width_beside_netcal(torch_peers: Peers, y: Array, p: Array) -> None:
    call = netcal_ece(y, p)
    assert float(calibration_error(y, p)) == pytest.approx(torch_peers(call.path, *call.arguments), abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(("y", "p"), **named(_INSIDE))
def test_equal_width_beside_torchmetrics(torch_peers: Peers, y: Array, p: Array) -> None:
    call = torchmetrics_ece(y, p)
    theirs = torch_peers(call.path, *call.arguments, **call.keywords)
    assert float(calibration_error(y, p)) == pytest.approx(theirs, abs=1e-12)
