"""Values that other packages get wrong: each test holds the right one, which is ours, and theirs.

Each test ends with what the peer returns.  If that fails after an update of `requirements.lock`, the peer was
mended: its last lines go.  What torchmetrics and netcal return is read from the record (`torch_claims.py`).
"""

from __future__ import annotations

import csv
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.calibration import calibration_error, corp_decomposition
from evalkit.calibration.isotonic import isotonic
from evalkit.scoring import log_score
from evalkit.uncertainty import cluster_se

from .asking import Call, Peers
from .inputs import Array
from .torch_claims import RECORD

pytestmark = pytest.mark.peers


def test_log_score_of_a_tiny_probability_that_came_true(peers: Peers) -> None:
    """-ln 1e-17 = 17 ln 10 = 39.14.  scoringrules computes 1e-17 + 1 - 1 first."""
    assert float(log_score([1], [1e-17])) == pytest.approx(17 * math.log(10), rel=1e-15)
    assert peers("scoringrules.log_score", 1.0, 1e-17) == math.inf


def test_log_score_of_the_impossible_that_came_true(peers: Peers) -> None:
    """-ln 0 is infinite.  scikit-learn puts the smallest float64 step, 2.2e-16, in place of 0."""
    assert float(log_score([1], [0.0])) == math.inf
    assert float(log_score([0, 1], [[1.0, 0.0], [1.0, 0.0]])) == math.inf
    assert peers("sklearn.metrics.log_loss", [1], [0.0], labels=[0, 1]) == pytest.approx(52 * math.log(2))


def test_forecasts_that_differ_are_not_equal(peers: Peers) -> None:
    """The higher of two forecasts came true: the fit is 0 and 1.  scikit-learn pools below a distance of 1e-15."""
    y, p = np.array([0.0, 1.0]), np.array([1e-300, 2e-300])
    assert isotonic(y, p).at(p).tolist() == [0.0, 1.0]
    fitted = Call(
        "sklearn.isotonic.IsotonicRegression.fit", Call("sklearn.isotonic.IsotonicRegression"), p, y
    )
    assert peers("sklearn.isotonic.IsotonicRegression.predict", fitted, p) == [0.5, 0.5]


def test_equal_forecasts_are_pooled_before_the_fit(peers: Peers, shared_data: Path) -> None:
    """Niamey 2016, ENS: published MCB .066 (Dimitriadis, Gneiting & Jordan 2021, figure 1).

    scoringrules fits the rows one by one, so that its value depends on which of equal forecasts comes first.
    """
    with (shared_data / "scoring" / "niamey_precip_2016.csv").open(encoding="utf-8") as lines:
        rows = list(csv.DictReader(lines))
    y = np.array([float(row["obs"]) for row in rows])
    p = np.array([float(row["ENS"]) for row in rows])
    for order in (slice(None), slice(None, None, -1)):
        assert corp_decomposition(y[order], p[order]).mcb == pytest.approx(0.066072, abs=5e-7)
    assert _scoringrules_mcb(peers, y, p) == pytest.approx(0.0702, abs=5e-5)
    assert _scoringrules_mcb(peers, y[::-1], p[::-1]) == pytest.approx(0.0691, abs=5e-5)


def test_two_equal_forecasts(peers: Peers) -> None:
    """An event and a non-event at .5: there is nothing to mend.  scoringrules finds MCB .25 in one order."""
    p = np.array([0.5, 0.5])
    for y in (np.array([0.0, 1.0]), np.array([1.0, 0.0])):
        assert corp_decomposition(y, p).mcb == 0.0
    assert _scoringrules_mcb(peers, np.array([0.0, 1.0]), p) == 0.25
    assert _scoringrules_mcb(peers, np.array([1.0, 0.0]), p) == 0.0


def _scoringrules_mcb(peers: Peers, y: Array, p: Array) -> float:
    fit = peers("scoringrules.visualization.reliability.corp_reliability", y, p)
    name = "scoringrules.visualization.reliability.corp_score_decomposition"
    recalibrated, as_it_is, _ = peers(name, *(np.array(part) for part in fit))
    return as_it_is - recalibrated


def test_a_probability_above_one_is_refused(peers: Peers) -> None:
    """model-diagnostics decomposes the squared error of p = 1.5."""
    y, p = np.array([0.0, 1.0, 1.0, 0.0]), np.array([0.2, 0.4, 1.5, 0.3])
    with pytest.raises(ValueError, match=r"1\.5"):
        corp_decomposition(y, p)
    function = Call("model_diagnostics.scoring.SquaredError")
    theirs = peers("model_diagnostics.scoring.decompose", y, p, scoring_function=function)
    assert theirs["score"] == [pytest.approx(0.185)]


@pytest.fixture
def recorded() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8"))["answers"]


def test_certainty_belongs_to_the_last_bin(peers: Peers, recorded: dict[str, Any]) -> None:
    """p = .95 that happens and p = 1 that does not: one bin [.9, 1] of mean .975 and frequency .5.

    torchmetrics and relplot put p = 1 in an eleventh bin of its own: (.05 + 1) / 2.
    """
    y, p = np.array([1.0, 0.0]), np.array([0.95, 1.0])
    assert float(calibration_error(y, p, bins=10)) == pytest.approx(0.475, rel=1e-15)
    assert recorded["netcal, p = 1 beside .95"] == pytest.approx(0.475)
    assert recorded["torchmetrics, p = 1 beside .95"] == pytest.approx(0.525)
    assert peers("relplot.metrics.binnedECE", p, y, 10) == pytest.approx(0.525)


def test_a_missing_forecast_has_no_calibration_error(recorded: dict[str, Any]) -> None:
    """netcal and torchmetrics return a number; torchmetrics takes all three for logits, without a word."""
    y, p = np.array([0.0, 1.0, 1.0]), np.array([0.2, np.nan, 0.7])
    with pytest.raises(ValueError, match="item 1 is NaN"):
        calibration_error(y, p)
    dropped = calibration_error(y, p, missing="drop")
    assert (float(dropped), dropped.n, dropped.n_dropped) == (pytest.approx((0.2 + 0.3) / 2), 2, 1)
    assert recorded["netcal, a forecast is NaN"] == pytest.approx(0.25)
    assert recorded["torchmetrics, a forecast is NaN"] == pytest.approx(0.6272154083814372)


def test_a_forecast_above_one_has_no_calibration_error(recorded: dict[str, Any]) -> None:
    """netcal leaves p = 1.5 out of the bins; torchmetrics takes all three for logits."""
    with pytest.raises(ValueError, match=r"1\.5"):
        calibration_error([0, 1, 1], [0.2, 1.5, 0.7])
    assert isinstance(recorded["netcal, a forecast is 1.5"], float)
    assert isinstance(recorded["torchmetrics, a forecast is 1.5"], float)


def test_a_debiased_error_may_be_negative(peers: Peers) -> None:
    """Two bins of four items, where frequencies are the forecasts exactly: the noise is subtracted from 0.

    Each bin's variance is .5 · .5 / 3, so that the estimate is -1/12.  uncertainty-calibration truncates it at
    0; the average over calibrated forecasters is then above 0.
    """
    y, p = np.array([0, 0, 1, 1, 0, 0, 1, 1]), np.repeat([0.5 - 1e-9, 0.5 + 1e-9], 4)
    bins = [0.0, 0.5, 1.0]
    ours = float(calibration_error(y, p, norm="l2", bins=bins, debiased=True))
    assert ours == pytest.approx(-1 / 12, abs=1e-8)
    assert peers("calibration.get_binning_ce", p, y, p=2, debias=True) == 0.0


def test_truncation_biases_what_was_debiased(peers: Peers) -> None:
    """Mean of 200 calibrated samples of 200: ours is 0 within Monte Carlo error, theirs is not."""
    rng = np.random.default_rng(1)
    ours, theirs = [], []
    for _ in range(200):
        p = rng.random(200)
        y = (rng.random(200) < p).astype(int)
        ours.append(float(calibration_error(y, p, norm="l2", binning="mass", bins=10, debiased=True)))
        theirs.append(peers("calibration.lower_bound_scaling_ce", p, y, p=2, debias=True, num_bins=10) ** 2)
    assert abs(np.mean(ours)) < 3 * np.std(ours) / math.sqrt(200)
    assert np.mean(theirs) > 5 * np.std(theirs) / math.sqrt(200)


def test_rows_of_one_question_are_not_independent(shared_data: Path) -> None:
    """ForecastBench resamples question × horizon, as if the horizons of one question resolved by themselves.

    Its dataset questions (n = 32,579; base rate .38890), within sources: the standard error of the mean
    outcome is .0024 for independent rows, .0069 with the rows of a question together (bootstraps gave
    .00236 and .00694), and .0091 by round.
    """
    import pandas as pd

    rows = pd.read_csv(shared_data / "scoring" / "forecastbench_resolutions.csv.gz")
    markets = ("infer", "manifold", "metaculus", "polymarket")
    rows = rows[~rows.source.isin(markets) & (rows.due < "2026-07-01")]
    assert (len(rows), rows.y.mean()) == (32_579, pytest.approx(0.388901, abs=5e-7))

    def within_sources(cluster: str | None) -> float:
        variance = 0.0
        for _, part in rows.groupby("source"):
            labels = np.arange(len(part)) if cluster is None else part[cluster].to_numpy()
            share = len(part) / len(rows)
            variance += (share * cluster_se(part.y.to_numpy(float), labels).se) ** 2
        return math.sqrt(variance)

    independent, together = within_sources(None), within_sources("question")
    assert independent == pytest.approx(0.00236, rel=0.06)
    assert together == pytest.approx(0.00694, rel=0.03)
    assert together / independent == pytest.approx(2.9, abs=0.2)
    by_round = cluster_se(rows.y.to_numpy(float), rows.due.to_numpy())
    assert by_round.se == pytest.approx(0.00907, rel=0.02)
