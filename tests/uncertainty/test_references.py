"""Published and independently computed values of real data: forecasts, paired evaluations, two classics."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evalkit.uncertainty import cluster_se, gaffke_interval, mean_interval, sign_flip_test


@pytest.fixture(scope="module")
def paired(shared_data: Path) -> dict[str, Any]:
    references: dict[str, Any] = json.loads((shared_data / "paired" / "references.json").read_text())
    return references


@pytest.mark.parametrize(("cluster", "kind", "se"), [("question", "cr1", 0.005851946803632671),
                                                     ("due", "cr1", 0.009906442666582055)])  # fmt: skip
def test_market_forecasts(shared_data: Path, cluster: str, kind: str, se: float) -> None:
    frame = pd.read_csv(shared_data / "scoring" / "forecastbench_market_freeze.csv.gz")
    scores = (frame.p - frame.y) ** 2
    result = cluster_se(scores, frame[cluster], kind)
    assert result.mean == pytest.approx(0.09268692282160014, rel=1e-14)
    assert result.se == pytest.approx(se, rel=1e-12)
    assert cluster_se(scores, np.arange(2015)).se == pytest.approx(0.0038036418337026446, rel=1e-12)


def test_governors_elections(shared_data: Path) -> None:
    frame = pd.read_csv(shared_data / "scoring" / "fte_governors.csv.gz")
    frame = frame[frame.party == "D"]
    scores = (frame.probwin - frame.probwin_outcome) ** 2
    by_race = cluster_se(scores, frame.year.astype(str) + frame.state, "cr1")
    assert (by_race.n, by_race.n_clusters) == (8353, 109)
    assert by_race.se == pytest.approx(0.011803235383338972, rel=1e-12)
    assert cluster_se(scores, frame.year, "cr1").se == pytest.approx(0.0161474382755318, rel=1e-12)
    assert cluster_se(scores, np.arange(8353), "cr0").se == pytest.approx(0.001205440228968556, rel=1e-4)


def test_paired_runs_by_repository(shared_data: Path, paired: dict[str, Any]) -> None:
    frame = pd.read_csv(shared_data / "paired" / "swebench_pro_resolved.csv")
    seen = 0
    for name, reference in paired["swebench_pro"].items():
        if " minus " not in name:
            continue
        one, other = name.split(" minus ")
        pairs = frame[[one, other, "repo"]].dropna()
        d = (pairs[one] - pairs[other]).to_numpy()
        cr2 = cluster_se(d, pairs.repo)
        assert cluster_se(d, pairs.repo, "cr0").se == pytest.approx(reference["cr0_se"], rel=1e-12)
        assert cr2.se == pytest.approx(reference["cr2_se"], rel=1e-12)
        assert cr2.df == pytest.approx(reference["cr2_bm_df"], rel=1e-9)
        assert cr2.interval() == pytest.approx(reference["cr2_ci95"], abs=1e-9)
        assert gaffke_interval(d, -1, 1) == pytest.approx(reference["gaffke_ci95"], abs=1e-9)
        seen += 1
    assert seen == 4


def test_what_looks_significant_is_not_once_clustered(shared_data: Path, paired: dict[str, Any]) -> None:
    reference = paired["livebench_sonnet35_minus_gpt4o0806"]
    frame = pd.read_csv(shared_data / "paired" / "livebench_scores_wide.csv.gz")
    frame["d"] = frame["claude-3-5-sonnet-20240620"] - frame["gpt-4o-2024-08-06"]
    frame = frame.dropna(subset="d")
    assert mean_interval(frame.d, lo=-1, hi=1, cluster=frame.index // 1).low > 0
    result = mean_interval(frame.d, lo=-1, hi=1, cluster=frame.task)
    assert (result.low, result.high) == pytest.approx(reference["cluster_by_task"]["cr2_ci95"], abs=1e-9)
    assert result.low < 0
    assert gaffke_interval(frame.d, -1, 1) == pytest.approx(reference["gaffke_ci95"], abs=1e-9)
    for category, values in frame.groupby("category"):
        expected = reference["by_category"][category]["gaffke_ci95"]
        assert gaffke_interval(values.d, -1, 1) == pytest.approx(expected, abs=1e-9)


def test_an_agent_against_itself(shared_data: Path, paired: dict[str, Any]) -> None:
    frame = pd.read_csv(shared_data / "paired" / "taubench_gpt4o_airline_trials.csv")
    frame["sign"] = np.where(frame.trial < 2, -0.5, 0.5)
    d = (frame.reward * frame.sign).groupby(frame.task_id).sum()
    reference = paired["taubench"]["AA_split_trials01_vs_23"]
    result = sign_flip_test(d)
    assert result.p_value == pytest.approx(reference["signflip_exact_p"], rel=1e-12)
    assert gaffke_interval(d, -1, 1) == pytest.approx(reference["gaffke_ci95"], abs=1e-9)
    trials = sign_flip_test(frame.reward * frame.sign, frame.task_id)
    assert trials.p_value == result.p_value
    assert (trials.n, trials.n_clusters) == (200, 50)


def test_darwins_maize_and_students_sleep(shared_data: Path) -> None:
    maize = pd.read_csv(shared_data / "paired" / "classical_darwin_zea_mays.csv")
    assert sign_flip_test(maize["diff_eighths_inch"]).p_value == pytest.approx(1726 / 32768, rel=1e-12)
    sleep = pd.read_csv(shared_data / "paired" / "classical_student_sleep.csv")
    assert sign_flip_test(sleep.drug1 - sleep.drug2).p_value == pytest.approx(2 / 512, rel=1e-12)
    t = mean_interval(sleep.drug1 - sleep.drug2)
    assert t.method == "t"
    assert (t.low, t.high) == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)


@pytest.mark.parametrize(
    ("value", "n", "low", "high"),
    [(0, 5, -0.5218237501049714, 0.5218237501049714), (0, 72, -0.049944083705867115, 0.049944083705867115),
     (0, 100, -0.03621669264518346, 0.03621669264518346), (1, 5, -0.04364750020994279, 1.0),
     (1, 6, 0.08148374712021678, 1.0), (1, 10, 0.3830057843625241, 1.0)],
)  # fmt: skip
def test_equal_differences_have_width(value: float, n: int, low: float, high: float) -> None:
    result = mean_interval([value] * n, lo=-1, hi=1)
    assert (result.low, result.high) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize("n", [4, 5, 6, 8])
def test_the_smallest_p_value_of_few_pairs(n: int) -> None:
    assert sign_flip_test([1.0] * n).p_value == 2 / 2**n
    assert sign_flip_test(np.sqrt(np.arange(2, n + 2))).p_value == 2 / 2**n
