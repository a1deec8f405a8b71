"""Coverage of `mean_interval`: a small version of benchmarks/coverage_means.py, with the exceptions stated."""

from __future__ import annotations

import importlib.util
import math
import sys
from pathlib import Path
from types import ModuleType

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage_means.py"
REPEATS = 500
THREE_ERRORS = 3 * math.sqrt(0.05 * 0.95 / REPEATS)
#: scenarios that are known to fall short of .95, and by how much (long run: .93, .91, .915, .93)
KNOWN_SHORTFALL = {("log", 20): 0.02, ("binary", 6): 0.04, ("binary", 12): 0.035, ("binary", 30): 0.02}


@pytest.fixture(scope="module")
def study() -> ModuleType:
    if not SCRIPT.exists():
        pytest.skip("benchmarks/ is not part of this distribution")
    spec = importlib.util.spec_from_file_location("coverage_means", SCRIPT)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_means"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("size", [5, 20, 50])
@pytest.mark.parametrize("name", ["rare", "even", "brier", "regression"])
def test_independent_bounded_items_are_covered(study: ModuleType, name: str, size: int) -> None:
    scenario = next(s for s in study.INDEPENDENT if s.name == name)
    found = study.coverage(scenario, size, REPEATS, seed=2)
    assert found.methods == "gaffke"
    assert found.covered >= 0.95 - THREE_ERRORS


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "size"),
    [("log", 20), ("log", 200), *((name, g) for name in ("normal", "binary") for g in (6, 12, 30))],
)
def test_t_intervals_are_near_their_level(study: ModuleType, name: str, size: int) -> None:
    scenario = next(s for s in (*study.INDEPENDENT, *study.CLUSTERED) if s.name == name)
    found = study.coverage(scenario, size, REPEATS, seed=2)
    assert found.covered >= 0.95 - KNOWN_SHORTFALL.get((name, size), 0.0) - THREE_ERRORS
    if name == "normal":
        assert found.covered <= 0.95 + THREE_ERRORS


@pytest.mark.slow
def test_clusters_that_are_ignored_are_not_covered(study: ModuleType) -> None:
    """The same data as independent items: the reason why clusters have to be named."""
    scenario = next(s for s in study.CLUSTERED if s.name == "normal")
    ignored = scenario._replace(draw=lambda generator, size: (scenario.draw(generator, size)[0], None))
    assert study.coverage(ignored, 30, REPEATS, seed=2).covered < 0.8
