"""Skill: 1 - S/S_ref, its references, its interval, its edges."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalkit.scoring import brier_score, crps_ensemble, log_score, ranked_probability_score, skill_score


def test_against_given_forecasts() -> None:
    y, p, reference = [1, 0, 1], [0.8, 0.3, 0.5], [0.5, 0.5, 0.5]
    skill = skill_score(y, p, reference)
    assert float(skill) == pytest.approx(1 - float(brier_score(y, p)) / 0.25)
    assert "the given forecasts" in skill.summary()
    assert float(skill_score(y, reference, reference)) == 0.0
    assert float(skill_score(y, [1, 0, 1], reference)) == 1.0


def test_in_sample_climatology_is_labelled() -> None:
    y, p = [1, 0, 1, 1], [0.8, 0.3, 0.5, 0.9]
    skill = skill_score(y, p)
    assert skill.reference_score == pytest.approx(0.75 * 0.25)
    assert "in-sample climatology" in skill.summary()
    assert "in-sample climatology" in skill.to_frame().loc[0, "reference"]


def test_a_perfect_reference_leaves_it_undefined() -> None:
    """S_ref = 0 → NaN, and the interval too: not minus infinity."""
    skill = skill_score([1, 1], [0.5, 0.9])
    assert math.isnan(float(skill))
    assert all(map(math.isnan, skill.interval()))


def test_world_cup_skill(shared_data: Path) -> None:
    frame = pd.read_csv(shared_data / "scoring" / "fte_world_cup_matches.csv.gz")
    frame = frame[frame.probtie > 0]
    p = frame[["prob1", "probtie", "prob2"]].to_numpy()
    y = frame[["prob1_outcome", "probtie_outcome", "prob2_outcome"]].to_numpy().argmax(axis=1)
    assert float(skill_score(y, p)) == pytest.approx(0.19242037106891918, abs=1e-12)


def test_other_rules_and_weights() -> None:
    y, p, w = [0, 2, 1], [[0.6, 0.3, 0.1], [0.1, 0.3, 0.6], [0.2, 0.5, 0.3]], [1, 2, 3]
    climate = np.tile([1 / 6, 3 / 6, 2 / 6], (3, 1))
    for rule in (brier_score, log_score, ranked_probability_score):
        expected = 1 - float(rule(y, p, weights=w)) / float(rule(y, climate, weights=w))
        assert float(skill_score(y, p, rule=rule, weights=w)) == pytest.approx(expected)
    with pytest.raises(ValueError, match="pass a reference"):
        skill_score([1.0], [[0.5, 1.0]], rule=crps_ensemble)
    assert float(skill_score([1.0], [[0.5, 1.5]], [[0.0, 4.0]], rule=crps_ensemble)) > 0


def test_what_is_missing_in_one_is_left_out_of_both() -> None:
    y = [1, 0, 1, 0]
    p = [0.8, math.nan, 0.5, 0.1]
    reference = [0.5, 0.5, math.nan, 0.5]
    with pytest.raises(ValueError, match="NaN"):
        skill_score(y, p, reference)
    skill = skill_score(y, p, reference, missing="drop")
    assert (skill.n, skill.n_dropped) == (2, 2)
    assert skill.score == pytest.approx((0.04 + 0.01) / 2)
    assert skill.reference_score == pytest.approx(0.25)
    with pytest.raises(ValueError, match="reference has shape"):
        skill_score(y, p, [0.5], missing="drop")


@pytest.mark.parametrize("clustered", [False, True])
def test_the_interval_covers_the_true_skill(clustered: bool) -> None:
    """400 samples of 200 items (40 clusters of five that share their outcome), nominal 95 %."""
    generator = np.random.default_rng(7)
    q = np.array([0.1, 0.3, 0.5, 0.7, 0.9])
    # forecasts are right on average: expected scores follow from q; the reference is the constant ½
    truth = 1 - float(np.mean(q * (1 - q))) / 0.25
    covered = 0
    for _ in range(400):
        p = generator.choice(q, 40).repeat(5) if clustered else generator.choice(q, 200)
        draws = generator.random(40).repeat(5) if clustered else generator.random(200)
        y = (draws < p).astype(float)
        cluster = np.arange(40).repeat(5) if clustered else None
        low, high = skill_score(y, p, np.full(200, 0.5), cluster=cluster).interval()
        covered += low <= truth <= high
    assert covered / 400 > 0.95 - 3 * math.sqrt(0.95 * 0.05 / 400)


def test_pandas_objects_are_not_paired_by_position() -> None:
    y, p = pd.Series([0, 1, 1]), pd.Series([0.1, 0.9, 0.8], index=[2, 1, 0])
    with pytest.raises(ValueError, match="different indexes"):
        skill_score(y, p)
    with pytest.raises(ValueError, match="different indexes"):
        skill_score(y, y, p)


def test_no_interval_has_no_half() -> None:
    skill = skill_score([1], [0.2], [0.5])
    assert all(map(math.isnan, skill.interval()))
    assert "no interval: One item" in skill.summary()


def test_an_infinite_score_of_weight_zero_counts_nowhere() -> None:
    y, p, reference = [0, 1, 1, 0], [1, 0.3, 0.4, 0.2], [1, 0.5, 0.5, 0.5]
    skill = skill_score(y, p, reference, rule=log_score, weights=[0, 1, 2, 1])
    kept = skill_score(y[1:], p[1:], reference[1:], rule=log_score, weights=[1, 2, 1])
    assert (float(skill), *skill.interval(), skill.n) == (float(kept), *kept.interval(), 3)


def test_the_summary_carries_the_interval() -> None:
    skill = skill_score([1, 0, 1, 1], [0.8, 0.3, 0.5, 0.9], cluster=[1, 1, 2, 3])
    low, high = skill.interval()
    assert f"{low:.4f} to {high:.4f}" in skill.summary()
    assert "Only 3 clusters" in skill.summary()
