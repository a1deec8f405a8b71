"""RPS, spherical, quantile and interval scores, CRPS: worked by hand, at their edges, against each other."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from evalkit.scoring import (
    brier_score,
    crps_ensemble,
    interval_score,
    log_score,
    quantile_score,
    ranked_probability_score,
    spherical_score,
)


def test_rps_by_hand() -> None:
    """Forecast (.2, .5, .3), outcome the last: (.2)² + (.7)²; the first: (.8)² + (.3)²."""
    p = [[0.2, 0.5, 0.3]]
    assert float(ranked_probability_score([2], p)) == pytest.approx(0.04 + 0.49)
    assert float(ranked_probability_score([0], p)) == pytest.approx(0.64 + 0.09)
    assert float(ranked_probability_score([0], p, normalize=True)) == pytest.approx((0.64 + 0.09) / 2)
    assert ranked_probability_score([0], p).high == 2.0


def test_rps_of_two_classes_is_the_binary_brier_score() -> None:
    y, p = [0, 1, 1], np.array([0.1, 0.6, 0.99])
    rps = ranked_probability_score(y, np.column_stack([1 - p, p]), reduce=None)
    assert rps == pytest.approx(brier_score(y, p, reduce=None))


def test_rps_rewards_being_near() -> None:
    near, far = [[0.0, 1.0, 0.0]], [[1.0, 0.0, 0.0]]
    assert float(brier_score([2], near)) == float(brier_score([2], far))
    assert float(ranked_probability_score([2], near)) < float(ranked_probability_score([2], far))


def test_rps_needs_two_classes() -> None:
    with pytest.raises(ValueError, match="one class"):
        ranked_probability_score([0], [[1.0]])


def test_spherical_by_hand() -> None:
    assert float(spherical_score([1], [0.6])) == pytest.approx(1 - 0.6 / math.hypot(0.6, 0.4))
    p = [[0.2, 0.5, 0.3]]
    assert float(spherical_score([1], p)) == pytest.approx(1 - 0.5 / math.sqrt(0.04 + 0.25 + 0.09))
    assert (float(spherical_score([1], [1.0])), float(spherical_score([0], [1.0]))) == (0.0, 1.0)
    assert float(spherical_score([1], [[0.0, 1.0]])) == 0.0


def test_spherical_keeps_its_digits_near_certainty() -> None:
    """1 - cos of a small angle: 1e-9²/2, which plain subtraction rounds to 0."""
    assert float(spherical_score([0], [1e-9])) == pytest.approx(5e-19, rel=1e-6)


def test_quantile_by_hand() -> None:
    assert quantile_score([3, 1], [2, 2], level=0.9, reduce=None) == pytest.approx([0.9, 0.1])
    two = quantile_score([3.0], [[2.0, 4.0]], level=[0.25, 0.75])
    assert float(two) == pytest.approx((0.25 * 1 + 0.25 * 1) / 2)
    assert float(quantile_score([3.0], [[2.0, 4.0]], level=[0.25, 0.75], twice=True)) == pytest.approx(0.5)


def test_interval_by_hand() -> None:
    """Width 2; one below by 1: 2 + 2/.2 × 1; one above by .5."""
    p = [[0.0, 2.0]] * 3
    assert interval_score([1.0, -1.0, 2.5], p, alpha=0.2, reduce=None) == pytest.approx([2, 12, 7])


def test_interval_score_is_a_sum_of_quantile_scores() -> None:
    """Its width and penalties are 2/α (pinball at α/2 + pinball at 1 - α/2): Gneiting & Raftery 2007, eq. 43."""
    generator = np.random.default_rng(0)
    y, p = generator.normal(size=200), np.sort(generator.normal(size=(200, 2)), axis=1)
    pinball = quantile_score(y, p, level=[0.1, 0.9], reduce=None)
    assert interval_score(y, p, alpha=0.2, reduce=None) == pytest.approx(2 / 0.2 * 2 * pinball)


def test_crps_by_hand() -> None:
    """Members 0 and 2, outcome 1: E|X - y| = 1, E|X - X'| = 1 (fair: 2)."""
    assert float(crps_ensemble([1.0], [[0.0, 2.0]])) == pytest.approx(0.5)
    assert float(crps_ensemble([1.0], [[2.0, 0.0]], estimator="fair")) == pytest.approx(0.0)
    assert float(crps_ensemble([1.0, 3.0], [0.5, 5.0])) == pytest.approx(1.25)


def test_crps_of_many_quantiles_nears_that_of_the_distribution() -> None:
    """Standard normal at y = 0: CRPS = (√2 - 1)/√π (Gneiting & Raftery 2007)."""
    from scipy.stats import norm

    levels = (np.arange(2000) + 0.5) / 2000
    grid = norm.ppf(levels)[None, :]
    exact = (math.sqrt(2) - 1) / math.sqrt(math.pi)
    assert float(quantile_score([0.0], grid, level=levels, twice=True)) == pytest.approx(exact, abs=1e-3)
    assert float(crps_ensemble([0.0], grid)) == pytest.approx(exact, abs=1e-3)


def test_crps_far_from_zero_loses_no_digits() -> None:
    y, p = np.array([0.3]), np.array([[0.0, 0.25, 1.0]])
    shift = 2.0**30  # exact in float64 for these values
    assert float(crps_ensemble(y + shift, p + shift)) == pytest.approx(float(crps_ensemble(y, p)), abs=1e-6)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: quantile_score([1], [1], level=1.0), "level"),
        (lambda: quantile_score([1], [[1, 2]], level=[0.9, 0.1]), "ascending"),
        (lambda: quantile_score([1], [[1, 2]], level=0.5), "as many"),
        (
            lambda: quantile_score([1, 1], [[1, 2], [3, 2]], level=[0.1, 0.9]),
            "item 1 has quantiles that descend",
        ),
        (lambda: interval_score([1], [[2, 1]], alpha=0.1), "item 0 has the lower end"),
        (lambda: interval_score([1], [[2, 3]], alpha=90), "alpha"),
        (lambda: interval_score([1], [2], alpha=0.1), r"expected \(n, 2\)"),
        (lambda: crps_ensemble([1], [[2.0]], estimator="fair"), "two members"),
        (lambda: crps_ensemble([1], [[2.0]], estimator="pwm"), "estimator"),
        (lambda: crps_ensemble([math.inf], [[2.0]]), "an outcome that is not finite"),
        (lambda: crps_ensemble([1], [[math.inf]]), "a forecast that is not finite"),
        (lambda: log_score([1], [0.5], clip=0.7), "clip"),
        (lambda: brier_score([1], [[0.5, 0.5]], scale="double"), "scale"),
    ],
)
def test_errors(call: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def test_clipping_is_opted_in_and_reported() -> None:
    assert float(log_score([1], [0.0])) == math.inf
    clipped = log_score([1, 0], [0.0, 1.0], clip=1e-6)
    assert float(clipped) == pytest.approx(-math.log(1e-6))
    assert "clipped at 1e-06" in clipped.summary()
    assert float(log_score([0], [[1e-9, 1 - 1e-9]], clip=1e-3)) == pytest.approx(-math.log(1e-3))


def test_world_cup_values(shared_data: Path) -> None:
    """Three-way matches: Brier .5130111 (0-2), RPS .3598708, log .8860461 (data/scoring/README)."""
    frame = pd.read_csv(shared_data / "scoring" / "fte_world_cup_matches.csv.gz")
    frame = frame[frame.probtie > 0]
    p = frame[["prob1", "probtie", "prob2"]].to_numpy()
    y = frame[["prob1_outcome", "probtie_outcome", "prob2_outcome"]].to_numpy().argmax(axis=1)
    assert len(frame) == 216
    assert float(brier_score(y, p)) == pytest.approx(0.5130110820100173, abs=1e-12)
    assert float(brier_score(y, p, scale="half")) == pytest.approx(0.25650554100500866, abs=1e-12)
    assert float(ranked_probability_score(y, p)) == pytest.approx(0.35987081375496816, abs=1e-12)
    assert float(ranked_probability_score(y, p, normalize=True)) == pytest.approx(
        0.17993540687748408, abs=1e-12
    )
    assert float(log_score(y, p)) == pytest.approx(0.8860461085290173, abs=1e-12)


@pytest.mark.parametrize(
    ("model", "n", "brier", "log", "rps", "multi"),
    [
        (
            "EuroCOVIDhub-baseline",
            256,
            0.19189208984375003,
            math.inf,
            0.49321289062499996,
            0.9099560546875001,
        ),
        (
            "EuroCOVIDhub-ensemble",
            256,
            0.242998046875,
            0.6795283508621436,
            0.28251220703125,
            0.5180615234375001,
        ),
        ("UMass-MechBayes", 128, 0.24601562500000002, 0.6850805905627408, 0.1928466796875, 0.382412109375),
        (
            "epiforecasts-EpiNow2",
            247,
            0.25176619433198383,
            0.6971362290629183,
            0.3298228744939271,
            0.5966852226720649,
        ),
    ],
)
def test_forecast_hub_values(
    shared_data: Path, model: str, n: int, brier: float, log: float, rps: float, multi: float
) -> None:
    frame = pd.read_csv(shared_data / "scoring" / "covid_hub_binary.csv.gz").query("model == @model")
    assert len(frame) == n
    assert float(brier_score(frame.observed, frame.predicted)) == pytest.approx(brier, abs=1e-12)
    assert float(log_score(frame.observed, frame.predicted)) == pytest.approx(log, abs=1e-12)
    frame = pd.read_csv(shared_data / "scoring" / "covid_hub_ordinal.csv.gz").query("model == @model")
    y = frame.observed.map({"low": 0, "medium": 1, "high": 2}).to_numpy()
    p = frame[["low", "medium", "high"]].to_numpy()
    assert float(ranked_probability_score(y, p)) == pytest.approx(rps, abs=1e-12)
    assert float(brier_score(y, p)) == pytest.approx(multi, abs=1e-12)
