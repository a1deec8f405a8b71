"""The reliability diagram as a result: curve, histogram, texts, errors, edges, real data."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from evalkit.calibration import corp_decomposition, reliability_diagram
from tests.calibration.scoring_data import nfl, table


def test_the_corp_curve_is_the_isotonic_fit(shared_data: Path) -> None:
    rain = table(shared_data, "niamey")
    diagram = reliability_diagram(rain["obs"], rain["ENS"])
    assert (diagram.n, diagram.n_curve.sum(), diagram.histogram.sum()) == (92, 92, 92)
    assert (np.diff(diagram.value) > 0).all()
    assert ((diagram.low <= diagram.x) & (diagram.x <= diagram.high)).all()
    terms = corp_decomposition(rain["obs"], rain["ENS"])
    recalibrated = corp_decomposition(rain["obs"], diagram.at(rain["ENS"]))
    assert recalibrated.score == pytest.approx(terms.score - terms.mcb)
    assert diagram.decomposition.mcb == terms.mcb
    assert diagram.outside is not None
    assert diagram.outside > 0.2, "the raw ensemble is far from calibrated"


def test_emos_is_within_its_consistency_band_and_the_ensemble_is_not(shared_data: Path) -> None:
    """As in figure 1 of the CORP paper."""
    rain = table(shared_data, "niamey")
    emos, ens = (reliability_diagram(rain["obs"], rain[who]).outside for who in ("EMOS", "ENS"))
    assert emos is not None
    assert ens is not None
    assert emos < 0.1 < ens


def test_bins_are_half_open_and_frequencies_are_counted_by_hand() -> None:
    diagram = reliability_diagram([0, 1, 1, 1], [0.05, 0.1, 0.15, 1.0], "binned", bins=10)
    assert diagram.low.tolist() == [0.0, 0.1, 0.9]
    assert diagram.value.tolist() == [0.0, 1.0, 1.0]
    assert diagram.n_curve.tolist() == [1, 2, 1]
    assert diagram.x == pytest.approx([0.05, 0.125, 1.0])
    mass = reliability_diagram([0, 1, 1, 1], [0.05, 0.1, 0.15, 1.0], "binned", bins=2, binning="mass")
    assert mass.n_curve.tolist() == [2, 2]
    listed = reliability_diagram([0, 1, 1, 1], [0.05, 0.1, 0.15, 1.0], "binned", bins=[0, 0.5, 1])
    assert listed.n_curve.tolist() == [3, 1]


def test_the_binned_consistency_band_is_that_of_the_bins_forecasts() -> None:
    from scipy.stats import binom

    p = np.repeat([0.25, 0.75], 40)
    diagram = reliability_diagram(np.zeros(80), p, "binned", bins=2, replicates=20_000)
    assert diagram.band is not None
    assert diagram.band.low == pytest.approx(binom.ppf(0.05, 40, [0.25, 0.75]) / 40, abs=0.026)
    assert diagram.band.high == pytest.approx(binom.ppf(0.95, 40, [0.25, 0.75]) / 40, abs=0.026)


def test_the_binned_confidence_band_is_wilsons() -> None:
    y = np.repeat([1.0, 0.0], [4, 16])
    band = reliability_diagram(y, np.full(20, 0.5), "binned", "confidence", 0.95).band
    assert band is not None
    # Wilson's 95 % interval for 4 of 20
    assert [band.low[0], band.high[0]] == pytest.approx([0.0807, 0.4160], abs=1e-4)


def test_simultaneous_bins_share_the_error() -> None:
    y, p = np.tile([1.0, 0, 0, 1, 1], 8), np.repeat([0.25, 0.75], 20)
    whole = reliability_diagram(y, p, "binned", "confidence", 0.9, bins=2, simultaneous=True).band
    point = reliability_diagram(y, p, "binned", "confidence", 0.95, bins=2).band
    assert whole is not None
    assert point is not None
    assert whole.low == pytest.approx(point.low)
    assert whole.high == pytest.approx(point.high)


@pytest.mark.parametrize("method", ["corp", "binned"])
@pytest.mark.parametrize("band", ["consistency", "confidence", None])
@pytest.mark.parametrize("simultaneous", [False, True])
@pytest.mark.parametrize(
    ("y", "p"),
    [
        ([1], [0.7]),
        ([0], [0.0]),
        ([1, 1, 1], [0.2, 0.5, 1.0]),
        ([0, 0], [0.5, 0.5]),
        ([0, 1, 1], [0.4, 0.4, 0.4]),
        ([0, 1], [0.0, 1.0]),
        ([1, 0], [0.0, 1.0]),
        ([1, 0], [-0.0, 1e-300]),
    ],
)
def test_little_data_works(method: Any, band: Any, simultaneous: bool, y: list[int], p: list[float]) -> None:
    diagram = reliability_diagram(y, p, method, band, simultaneous=simultaneous, replicates=50)
    assert diagram.n == len(y)
    assert (diagram.band is None) == (band is None)
    if diagram.band is not None:
        assert np.isfinite(diagram.band.low).all()
        assert (diagram.band.low <= diagram.band.high).all()
    assert len(diagram.to_frame()) == len(diagram.value)
    diagram.plot()


def test_one_class_says_so() -> None:
    diagram = reliability_diagram([1, 1], [0.7, 0.9])
    assert "all outcomes are the same" in diagram.summary()
    assert diagram.decomposition.dsc == diagram.decomposition.unc == 0


def test_missing_items_are_counted(shared_data: Path) -> None:
    flares = table(shared_data, "solar_flares")
    diagram = reliability_diagram(flares["obs"], flares["AMOS"], missing="drop", replicates=50)
    assert diagram.n + diagram.n_dropped == 731
    assert f"{diagram.n_dropped} dropped" in diagram.summary()
    with pytest.raises(ValueError, match="NaN"):
        reliability_diagram(flares["obs"], flares["AMOS"])


def test_ties_of_games(shared_data: Path) -> None:
    y, p = nfl(shared_data)
    diagram = reliability_diagram(y, p, allow_fractional=True, replicates=100)
    assert "too wide" in diagram.summary()
    assert diagram.base_rate == pytest.approx(y.mean())


def test_texts() -> None:
    diagram = reliability_diagram([1, 0, 1, 0], [0.8, 0.3, 0.6, 0.7], replicates=50, seed=7)
    text = diagram.summary()
    assert "90% consistency band, pointwise" in text
    assert "50 replicates, seed 7" in text
    assert "n = 4" in text
    assert "isotonic" in text
    frame = diagram.to_frame()
    assert list(frame.columns) == ["low", "high", "forecast", "value", "n", "band_low", "band_high"]
    assert frame["n"].sum() == 4
    assert "<ul>" in diagram._repr_html_()
    assert "band_low" not in reliability_diagram([1, 0], [0.8, 0.3], band=None).to_frame()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "kernel"}, "'corp' or 'binned'"),
        ({"band": "both"}, "'consistency'"),
        ({"level": 90}, "level=90"),
        ({"replicates": 0}, "replicates=0"),
        ({"method": "binned", "bins": 0}, "bins=0"),
        ({"method": "binned", "binning": "count"}, "binning"),
        ({"cluster": ["a"]}, "cluster has shape"),
        ({"weights": [1.0, -1.0]}, "weight"),
    ],
)
def test_bad_arguments_are_named(given: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        reliability_diagram([1, 0], [0.7, 0.2], **given)


def test_forecasts_and_outcomes_are_validated() -> None:
    with pytest.raises(ValueError, match=r"1\.5"):
        reliability_diagram([1, 0], [0.7, 1.5])
    with pytest.raises(ValueError, match="neither 0 nor 1"):
        reliability_diagram([0.7, 0.2], [1, 0])
    with pytest.raises(ValueError, match="no item"):
        reliability_diagram([math.nan], [0.2], missing="drop")


def test_sixteen_thousand_clustered_rows_take_seconds(shared_data: Path) -> None:
    races = table(shared_data, "fte_governors")
    race = races["year"].astype(str) + races["state"] + races["special"].astype(object).map(str)
    started = time.process_time()
    for band, simultaneous in (("consistency", False), ("confidence", False), ("confidence", True)):
        diagram = reliability_diagram(
            races["probwin_outcome"],
            races["probwin"],
            band=band,
            simultaneous=simultaneous,
            cluster=race,
        )
        assert (diagram.n, diagram.n_clusters) == (16_862, 109)
    assert time.process_time() - started < 20


def test_many_forecasts_are_bundled_for_the_band_only() -> None:
    rng = np.random.default_rng(3)
    p = rng.uniform(size=30_000)
    y = (rng.uniform(size=30_000) < p).astype(float)
    diagram = reliability_diagram(y, p, replicates=100)
    assert diagram.band is not None
    assert 1000 < len(diagram.band.x) <= 2048
    assert diagram.decomposition.mcb == corp_decomposition(y, p).mcb
    assert (np.diff(diagram.band.x) > 0).all()
