"""Intervals and rank sets of adjusted scores cover the truth as often as they say (a small simulation)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

STUDY = Path(__file__).resolve().parents[2] / "benchmarks" / "coverage_difficulty.py"


@pytest.fixture(scope="module")
def study() -> ModuleType:
    if not STUDY.exists():
        pytest.skip("the benchmarks are not part of this distribution")
    spec = importlib.util.spec_from_file_location("coverage_difficulty", STUDY)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["coverage_difficulty"] = module
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "50 independent questions, 60 % answered",
        "30 clusters of 10",
        "100 clusters of 5, chosen by difficulty",
    ],
)
def test_coverage(name: str, study: ModuleType) -> None:
    design = next(design for design in study.DESIGNS if design.name == name)
    found = study.coverage(design, 300, seed=2)
    assert found.repetitions > 290
    assert abs(found.interval - 0.95) < 3 * found.error
    assert found.worst > 0.95 - 4 * found.error
    assert found.ranks > 0.95 - 3 * found.error
