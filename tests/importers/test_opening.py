"""One door: layouts by name, and options that do not fit a layout are refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.importers import LAYOUTS, open_forecasts


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "x.csv"
    path.write_text("p,y\n.3,1\n")
    return path


def test_a_table_is_the_default(table: Path) -> None:
    assert open_forecasts(table).n == 1


@pytest.mark.parametrize("layout", [name for name in LAYOUTS if name != "table"])
@pytest.mark.parametrize(
    "options",
    [
        {"columns": {"forecast": "p"}},
        {"kind": "ordinal"},
        {"fractional": True},
        {"missing": "raise"},
        {"na": ["x"]},
    ],
)
def test_a_layout_knows_its_columns(layout: str, options: dict[str, Any], table: Path) -> None:
    with pytest.raises(EvalkitError, match="says itself what its columns are") as caught:
        open_forecasts(table, layout, **options)
    assert next(iter(options)) in caught.value.what


@pytest.mark.parametrize("layout", ["table", "fivethirtyeight", "forecastbench"])
def test_resolutions_are_for_forecast_sets(layout: str, table: Path) -> None:
    with pytest.raises(EvalkitError, match=r"has its outcomes in it|have their outcomes in them"):
        open_forecasts(table, layout, resolutions=table)


def test_an_unknown_layout(table: Path) -> None:
    with pytest.raises(EvalkitError, match="no layout 'metaculus'"):
        open_forecasts(table, "metaculus")
