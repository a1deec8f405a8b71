"""The simulated panel: the committed file is what the code makes, and the four are what they are said to be."""

from __future__ import annotations

import io

import pandas as pd
import pytest

from evalkit.forecasts import ForecastSet
from evalkit.forecasts.simulation import simulated_panel
from evalkit.resources import resource


def test_the_committed_file_is_the_simulation() -> None:
    text = io.StringIO()
    simulated_panel().to_csv(text, index=False, lineterminator="\n")
    assert text.getvalue() == resource("data", "forecasts", "panel.csv").read_text()


@pytest.mark.slow
def test_the_four_are_as_described() -> None:
    """In the long run: Ada calibrated, Bo overconfident, Cleo sharpest and biased, Dan of no use."""
    board = ForecastSet.from_frame(simulated_panel(4000, seed=2), {"cluster": "topic"}).score_table()
    rows = {row.forecaster: row for row in board.rows}
    mcb = {who: row.mcb for who, row in rows.items()}
    dsc = {who: row.dsc for who, row in rows.items()}
    assert mcb["Ada"] < 0.002
    assert mcb["Bo"] > 0.015
    assert 0.008 < mcb["Cleo"] < 0.02
    assert mcb["Dan"] < 0.001
    assert dsc["Cleo"] > dsc["Ada"] + 0.01
    assert dsc["Bo"] == pytest.approx(dsc["Ada"], abs=0.001)
    assert dsc["Dan"] == 0.0


def test_the_panel_depends_on_its_seed_alone() -> None:
    pd.testing.assert_frame_equal(simulated_panel(3, seed=5), simulated_panel(3, seed=5))
    assert not simulated_panel(3, seed=5).equals(simulated_panel(3, seed=6))
