"""Do the bands keep their level?  A small version of benchmarks/coverage_bands.py.

A band may be too wide, by ties among the values of a curve or by the bounds it rests on, and is allowed to;
it may not be too narrow by more than Monte Carlo error.  The exception that is known: the confidence band of
few items with forecasts that are all different (n = 50) holds .88 of the true values at level .9.
"""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage_bands.py"


@pytest.fixture(scope="module")
def simulation() -> ModuleType:
    spec = importlib.util.spec_from_file_location("coverage_bands", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_bands"] = module
    spec.loader.exec_module(module)
    return module


def least(level: float, samples: int, independent: float) -> float:
    """Three standard errors below the level, for a mean over so many independent places."""
    return level - 3 * math.sqrt(level * (1 - level) / (samples * independent))


@pytest.mark.slow
@pytest.mark.parametrize("band", ["consistency", "confidence"])
@pytest.mark.parametrize(
    ("forecasts", "n", "size", "icc"),
    [
        ("uniform", 200, 1, 0.0),
        ("extreme", 200, 1, 0.0),
        ("11 values", 200, 1, 0.0),
        ("uniform", 300, 6, 0.3),
        ("11 values", 300, 6, 0.3),
        ("one a cluster", 300, 6, 0.5),
    ],
)
def test_pointwise_bands(
    simulation: ModuleType, band: str, forecasts: str, n: int, size: float, icc: float
) -> None:
    found = simulation.coverage(simulation.Design(band, forecasts, n, 80, size, icc), seed=11)
    # neighbouring places of a curve are not independent: five count as two
    assert found.mean >= least(0.9, 80, 2)
    assert found.width < 0.75, "a band of everything covers, too"


@pytest.mark.slow
@pytest.mark.parametrize("band", ["consistency", "confidence"])
@pytest.mark.parametrize(("n", "size", "icc"), [(200, 1, 0.0), (300, 6, 0.3)])
def test_simultaneous_bands(simulation: ModuleType, band: str, n: int, size: float, icc: float) -> None:
    design = simulation.Design(band, "uniform", n, 40, size, icc, simultaneous=True)
    assert simulation.coverage(design, seed=12).mean >= least(0.9, 40, 1)


@pytest.mark.slow
@pytest.mark.parametrize("band", ["consistency", "confidence"])
@pytest.mark.parametrize(("n", "size", "icc"), [(200, 1, 0.0), (300, 6, 0.3)])
def test_bands_of_bins(simulation: ModuleType, band: str, n: int, size: float, icc: float) -> None:
    design = simulation.Design(band, "uniform", n, 80, size, icc, method="binned")
    found = simulation.coverage(design, seed=13)
    assert least(0.9, 80, 5) <= found.mean < 0.98


@pytest.mark.slow
def test_ignoring_clusters_loses_the_level(simulation: ModuleType) -> None:
    """What the cluster argument is for: the same data taken as independent."""
    import numpy as np

    from evalkit.calibration import reliability_diagram

    design = simulation.Design("consistency", "one a cluster", 300, 80, 10, 0.9)
    rng = np.random.default_rng(14)
    inside = {True: 0.0, False: 0.0}
    for _ in range(40):
        y, p, cluster = simulation.sample(design, rng)
        for aware in inside:
            diagram = reliability_diagram(y, p, cluster=cluster if aware else None, replicates=200)
            assert diagram.outside is not None
            inside[aware] += (1 - diagram.outside) / 40
    assert inside[False] < 0.75
    assert inside[True] > 0.85
