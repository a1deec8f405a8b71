"""Real forecasts and the values that others published or computed for them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd


def table(shared_data: Path, name: str) -> pd.DataFrame:
    [path] = (shared_data / "scoring").glob(f"{name}*.csv*")
    return pd.read_csv(path)


def reference(shared_data: Path) -> dict[str, Any]:
    return dict(json.loads((shared_data / "scoring" / "reference_values.json").read_text()))


def nfl(shared_data: Path) -> tuple[Any, Any]:
    """Games with outcome ½ for a tie."""
    games = table(shared_data, "fte_nfl_games")
    return games["prob1_outcome"].to_numpy(), games["prob1"].to_numpy()
