"""Intervals and rank sets of adjusted scores cover the truth as often as they say (a small simulation)."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from evalkit.scoring import difficulty_adjusted

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


@pytest.mark.slow
def test_a_dozen_clusters_of_unequal_size_are_covered() -> None:
    """CR1 with G - 1 degrees of freedom covered .88 here."""
    generator = np.random.default_rng(8)
    covered = repetitions = 0
    for _ in range(200):
        cluster = np.minimum(generator.geometric(0.3, 60) - 1, 11)
        effect = generator.normal(0, 0.1, 60) + generator.normal(0, 0.1, 12)[cluster]
        scores = effect + generator.normal(0, 0.1, (4, 60)) + generator.normal(0, 0.1, (4, 12))[:, cluster]
        answered = generator.random((4, 60)) < np.array([[1.0], [0.8], [0.5], [0.3]])
        who, question = np.nonzero(answered)
        found = difficulty_adjusted(who, question, scores[answered], cluster=cluster[question])
        low, high = found.bounds()
        covered += int(((low <= 0) & (high >= 0)).sum())
        repetitions += int(np.isfinite(low).sum())
    assert repetitions > 790
    assert covered / repetitions > 0.92
