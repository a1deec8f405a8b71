"""One door for files of forecasts, used by the command line and the report notebook alike."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.forecasts.columns import Kind, Named
from evalkit.forecasts.forecast_set import ForecastSet, Missing

#: layout -> what it is
LAYOUTS = {
    "table": "a CSV, TSV or parquet table (docs/formats/forecasts.md)",
    "forecastbench": "ForecastBench: a forecast set with its resolution set, or an extract as CSV",
    "fivethirtyeight": "FiveThirtyEight: games, World Cup matches, governors, tennis",
}


def open_forecasts(
    path: str | Path,
    layout: str = "table",
    *,
    resolutions: str | Path | None = None,
    columns: Mapping[str, Named] | None = None,
    kind: Kind | None = None,
    classes: Sequence[str] | None = None,
    wide: bool | None = None,
    fractional: bool = False,
    missing: Missing = "drop",
    na: Sequence[str] = (),
) -> ForecastSet:
    """The forecasts in a file.  ``resolutions``: the resolution set that a ForecastBench forecast set needs.

    The other arguments are those of `ForecastSet.read`, for a table.  Raises `EvalkitError`.
    """
    if layout not in LAYOUTS:
        raise EvalkitError(f"there is no layout {layout!r}", expected=", ".join(LAYOUTS))
    if layout == "table":
        if resolutions is not None:
            raise EvalkitError(
                "a table has its outcomes in it", where="--resolutions", do="leave it out, or name --layout"
            )
        return ForecastSet.read(
            path, columns or {}, kind, classes=classes or None, wide=wide, fractional=fractional, missing=missing, na=na
        )  # fmt: skip
    given: dict[str, Any] = {
        "columns": columns, "kind": kind, "classes": classes, "wide": wide, "na": na,
        "fractional": fractional, "missing": missing != "drop",
    }  # fmt: skip
    said = [name for name, value in given.items() if value]
    if said:
        raise EvalkitError(
            f"the layout {layout} says itself what its columns are: {', '.join(said)} cannot be given",
            where=str(path),
            do="leave it out, or read the file as a table (leave --layout out)",
        )
    if layout == "forecastbench":
        from evalkit.importers.forecastbench import read_forecastbench

        return read_forecastbench(path, resolutions=resolutions)
    if resolutions is not None:
        raise EvalkitError(
            "these files have their outcomes in them", where="--resolutions", do="leave it out"
        )
    from evalkit.importers.fivethirtyeight import read_fivethirtyeight

    return read_fivethirtyeight(path)
