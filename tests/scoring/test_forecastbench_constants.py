"""The constant forecasters of ForecastBench (data: Forecasting Research Institute, CC BY-SA 4.0)."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalkit.scoring import brier_score
from evalkit.uncertainty import cluster_se

MARKETS = ("infer", "manifold", "metaculus", "polymarket")
CONSTANTS = {"Always 0": 0.0, "Always 0.5": 0.5, "Always 1": 1.0}
#: as printed in the human leaderboard: dataset, market resolved, unresolved, market, resolved, overall
PUBLISHED = {
    "Always 0": (0.328, 0.259, 0.238, 0.253, 0.294, 0.291),
    "Always 0.5": (0.25, 0.25, 0.117, 0.211, 0.25, 0.231),
    "Always 1": (0.672, 0.741, 0.496, 0.67, 0.706, 0.671),
}


@pytest.fixture(scope="module")
def reference(shared_data: Path) -> dict[str, object]:
    return json.loads((shared_data / "scoring" / "reference_values.json").read_text())


@pytest.fixture(scope="module")
def resolutions(shared_data: Path) -> pd.DataFrame:
    """Rounds that had run for 50 days when the leaderboard was printed."""
    frame = pd.read_csv(shared_data / "scoring" / "forecastbench_resolutions.csv.gz")
    return frame[frame.due < "2026-07-01"]


@pytest.mark.parametrize("name", CONSTANTS)
def test_human_leaderboard(name: str, shared_data: Path, reference: dict[str, dict[str, float]]) -> None:
    frame = pd.read_csv(shared_data / "scoring" / "forecastbench_human_2024-07-21.csv.gz")

    def score(rows: pd.Series) -> float:
        y = frame.resolved_to[rows].to_numpy()
        return float(brier_score(y, np.full(len(y), CONSTANTS[name]), allow_fractional=True))

    market = frame.kind == "market"
    dataset, resolved = score(~market), score(market & frame.resolved)
    found = {
        "dataset": dataset,
        "res": resolved,
        "unres": score(market & ~frame.resolved),
        "mkt": score(market),
        "ores": (dataset + resolved) / 2,
        "oall": (dataset + score(market)) / 2,
    }
    assert found == pytest.approx(reference[f"fb_human/{name}"], abs=1e-12)
    assert list(found.values()) == pytest.approx(PUBLISHED[name], abs=5.01e-4)
    assert [int((~market).sum()), int((market & frame.resolved).sum()), int(market.sum())] == [521, 54, 76]


@pytest.mark.parametrize("name", ["Always 0", "Always 1"])
def test_tournament_leaderboard(name: str, resolutions: pd.DataFrame, reference: dict[str, float]) -> None:
    market = resolutions.source.isin(MARKETS)
    for kind, rows, n in (("dataset", ~market, 32_579), ("market", market, 3_091)):
        score = brier_score(resolutions.y[rows].to_numpy(), np.full(int(rows.sum()), CONSTANTS[name]))
        assert score.n == n
        assert float(score) == pytest.approx(reference[f"fb_tournament/{name}/{kind}"], abs=1e-12)


def test_horizons_of_a_question_are_not_independent(resolutions: pd.DataFrame) -> None:
    """Standard error of the base rate: the leaderboard's bootstrap takes horizons as independent questions.

    Its strata are kept in each figure; the reference figures are bootstrap estimates, hence 3 %.
    """
    data = resolutions[~resolutions.source.isin(MARKETS)]
    within = data.y - data.groupby(["due", "source"]).y.transform("mean")
    independent = float(np.sqrt((within**2).sum())) / len(data)
    by_question = cluster_se(
        (data.y - data.groupby("source").y.transform("mean")).to_numpy(), data.question.to_numpy()
    ).se
    by_round = cluster_se(data.y.to_numpy(), data.due.to_numpy()).se
    assert independent == pytest.approx(0.00236, rel=0.03)
    assert by_question == pytest.approx(0.00694, rel=0.03)
    assert by_round == pytest.approx(0.00907, rel=0.03)
    assert by_question / independent > 2.8
    assert by_round / independent > 3.7
