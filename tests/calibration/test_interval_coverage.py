"""Coverage of the intervals by simulation: a small version of benchmarks/coverage_calibration.py."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage_calibration.py"


@pytest.fixture(scope="module")
def benchmark() -> ModuleType:
    if not SCRIPT.is_file():
        pytest.skip("the benchmarks are not in this distribution")
    spec = importlib.util.spec_from_file_location("coverage_calibration", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("clustered", [False, True], ids=["items", "clusters"])
@pytest.mark.parametrize("forecaster", ["calibrated", "mild", "strong"])
def test_intervals_hold_the_truth_at_their_level(
    benchmark: ModuleType, forecaster: str, clustered: bool
) -> None:
    """60 samples of 300: 52 hits or more, where 57 are expected (probability of fewer: .01)."""
    target = benchmark.truth(forecaster, "continuous")
    rng = np.random.default_rng([4, clustered])
    hits = np.zeros(4)
    for _ in range(60):
        found = benchmark.intervals(*benchmark.draw(rng, 300, forecaster, "continuous", clustered))
        hits += [f.low <= t + 1e-12 and t <= f.high for f, t in zip(found.values(), target, strict=True)]
    assert (hits >= 52).all(), dict(zip(found, hits.tolist(), strict=True))


@pytest.mark.slow
def test_a_percentile_bootstrap_would_fail(benchmark: ModuleType) -> None:
    """Why the method is what it is: 40 calibrated samples, and the bootstrap of MCB never holds 0."""
    from evalkit.calibration import corp_decomposition

    rng = np.random.default_rng(5)
    held = 0
    for _ in range(40):
        y, p, _ = benchmark.draw(rng, 200, "calibrated", "continuous", False)
        rows = rng.integers(0, 200, (100, 200))
        held += np.quantile([corp_decomposition(y[r], p[r]).mcb for r in rows], 0.025) <= 1e-6
    assert held <= 2
