"""ForecastBench: its JSON in small, its extracts, and the published constants."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.importers import open_forecasts, read_forecastbench

RESOLUTIONS: dict[str, Any] = {
    "forecast_due_date": "2025-03-02",
    "question_set": "2025-03-02-llm.json",
    "resolutions": [
        {"id": "m1", "source": "manifold", "direction": None, "resolution_date": "2025-04-01", "resolved_to": 1.0, "resolved": True},
        {"id": "m2", "source": "manifold", "direction": None, "resolution_date": "2025-05-01", "resolved_to": 0.37, "resolved": False},
        {"id": "d1", "source": "fred", "direction": None, "resolution_date": "2025-03-09", "resolved_to": 0.0, "resolved": True},
        {"id": "d1", "source": "fred", "direction": None, "resolution_date": "2025-04-01", "resolved_to": 1.0, "resolved": True},
        {"id": ["d1", "d2"], "source": "fred", "direction": [1, -1], "resolution_date": "2025-04-01", "resolved_to": 0.0, "resolved": True},
    ],
}  # fmt: skip
FORECASTS: dict[str, Any] = {
    "organization": "Lab",
    "model": "model-1",
    "question_set": "2025-03-02-llm.json",
    "forecast_due_date": "2025-03-02",
    "forecasts": [
        {"id": "m1", "source": "manifold", "forecast": 0.8, "resolution_date": None, "direction": None, "reasoning": "…"},
        {"id": "m2", "source": "manifold", "forecast": 0.4, "resolution_date": None, "direction": None},
        {"id": "m3", "source": "manifold", "forecast": 0.4, "resolution_date": None, "direction": None},
        {"id": "d1", "source": "fred", "forecast": 0.3, "resolution_date": "2025-03-09", "direction": None},
        {"id": "d1", "source": "fred", "forecast": None, "resolution_date": "2025-04-01", "direction": None},
        {"id": ["d1", "d2"], "source": "fred", "forecast": 0.2, "resolution_date": "2025-04-01", "direction": [1, -1]},
    ],
}  # fmt: skip


def files(folder: Path, **changes: Any) -> tuple[Path, Path]:
    forecasts, resolutions = folder / "forecasts.json", folder / "resolutions.json"
    forecasts.write_text(json.dumps(copy.deepcopy(FORECASTS) | changes))
    resolutions.write_text(json.dumps(RESOLUTIONS))
    return forecasts, resolutions


def test_a_forecast_set_is_resolved_by_its_resolution_set(tmp_path: Path) -> None:
    forecasts, resolutions = files(tmp_path)
    made = open_forecasts(forecasts, "forecastbench", resolutions=resolutions)
    (account,) = made.accounts
    assert account.forecaster == "Lab model-1"
    assert (account.n, account.n_missing, account.n_unresolved) == (2, 1, 2)
    items = made.items("Lab model-1")
    assert sorted(zip(items.p.tolist(), items.y.tolist(), strict=True)) == [(0.3, 0.0), (0.8, 1.0)]
    frame = made.to_frame()
    assert set(frame["cluster"]) == {"manifold m1", "manifold m2", "manifold m3", "fred d1"}
    assert set(frame[frame["cluster"] == "fred d1"]["question"]) == {
        "fred d1, 2025-03-02 → 2025-03-09",
        "fred d1, 2025-03-02 → 2025-04-01",
    }
    assert "1 forecasts of combined questions are left out" in made.provenance.notes
    assert any("CC BY-SA 4.0" in note for note in made.provenance.notes)


def test_people_are_forecasters_of_their_own(tmp_path: Path) -> None:
    entry = FORECASTS["forecasts"][0]
    forecasts, resolutions = files(tmp_path, forecasts=[entry | {"user_id": u} for u in ("u1", "u2")])
    assert read_forecastbench(forecasts, resolutions=resolutions).forecasters == ("u1", "u2")


def test_resolutions_alone_have_the_constant_forecasts(tmp_path: Path) -> None:
    _, resolutions = files(tmp_path)
    made = read_forecastbench(resolutions)
    assert made.forecasters == ("Always 0", "Always 0.5", "Always 1")
    assert float(made.score()["Always 0"]) == pytest.approx(2 / 3)
    assert made.accounts[0].n_unresolved == 1


@pytest.mark.parametrize(
    ("changes", "named", "message"),
    [
        ({}, False, "has no outcomes"),
        ({"forecast_due_date": "2025-03-16"}, True, "forecasts are of 2025-03-16"),
        ({"forecasts": "none"}, True, "no list 'forecasts'"),
        ({"forecasts": [1]}, True, "no id or source"),
        ({"forecasts": [{"id": "m1", "source": "manifold", "forecast": 80}]}, True, "look like percentages"),
        ({"forecasts": []}, True, "no single question"),
    ],
)
def test_what_is_wrong_is_said(changes: dict[str, Any], named: bool, message: str, tmp_path: Path) -> None:
    forecasts, resolutions = files(tmp_path, **changes)
    with pytest.raises(EvalkitError, match=message) as caught:
        read_forecastbench(forecasts, resolutions=resolutions if named else None)
    assert caught.value.where


@pytest.mark.parametrize("text", ["{", "[]", '{"questions": []}', "[" * 100_000])
def test_no_json_of_forecastbench(text: str, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text(text)
    with pytest.raises(EvalkitError):
        read_forecastbench(path)


def test_a_market_value_is_no_outcome(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text(
        "kind,source,question,resolution_date,resolved,resolved_to,freeze_value\n"
        "dataset,fred,d,2025-01-01,True,1.0,\n"
        "market,infer,m,2025-01-01,True,0.0,0.25\n"
        "market,infer,n,2025-01-01,False,0.9,0.5\n"
    )
    made = read_forecastbench(path)
    (account,) = made.accounts
    assert (account.forecaster, account.n, account.n_unresolved) == ("market at freeze", 1, 1)
    assert "1 questions without a market are left out" in made.provenance.notes


def test_another_table_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("p,y\n.3,1\n")
    with pytest.raises(EvalkitError, match="no extract of ForecastBench"):
        read_forecastbench(path)


def test_published_market_values(shared_data: Path) -> None:
    """Brier score and decomposition of the crowd at freeze, against the cross-checked values."""
    made = read_forecastbench(shared_data / "scoring" / "forecastbench_market_freeze.csv.gz")
    row = made.score_table().rows[0]
    assert row.n == 2015
    assert row.n_clusters == 1152
    assert row.brier == pytest.approx(0.0926869, abs=5e-8)
    assert row.mcb == pytest.approx(0.0038418, abs=5e-8)
    assert row.dsc == pytest.approx(0.1148711, abs=5e-8)
    assert row.unc == pytest.approx(0.2037163, abs=5e-8)


def test_published_constants_of_the_human_leaderboard(shared_data: Path) -> None:
    """Always 0 and Always 1 on the resolved questions: .328 / .672 dataset, .259 / .741 market."""
    made = read_forecastbench(shared_data / "scoring" / "forecastbench_human_2024-07-21.csv.gz")
    outcomes = made.to_frame()["outcome"].dropna()
    assert len(outcomes) == 54
    assert float(outcomes.mean()) == pytest.approx(0.259, abs=0.0005)


def test_published_constants_of_the_tournament_leaderboard(shared_data: Path) -> None:
    """Dataset questions: Always 0 scores .389."""
    made = read_forecastbench(shared_data / "scoring" / "forecastbench_resolutions.csv.gz")
    frame = made.to_frame()
    markets = {"infer", "manifold", "metaculus", "polymarket"}
    dataset = frame[~frame["source"].isin(markets) & (frame["forecaster"] == "Always 0")]
    assert len(dataset) == 33_536
    assert float(dataset["outcome"].mean()) == pytest.approx(0.389, abs=0.0005)
