"""ForecastBench (github.com/forecastingresearch/forecastbench-datasets, CC BY-SA 4.0; Karger et al. 2025).

Published are question sets, resolution sets and forecast sets as JSON:

    resolution set: forecast_due_date, resolutions[]: id, source, direction, resolution_date, resolved_to, resolved
    forecast set: organization, model, forecast_due_date, forecasts[]: id, source, direction, resolution_date (null
        for market questions), forecast; user_id where several people forecast

Rules
- A question is an id of a source, as of its due date and resolution date; the cluster is the id of the source:
  the same question at several horizons and in several rounds is dependent.  (The leaderboards treat each
  question and horizon as independent.)
- An id that is a list is a combination of other questions: left out, and counted.
- Market questions that are not resolved yet have a market value as ``resolved_to``.  That is no outcome: they
  count as unresolved.
- CSV extracts are read too: with a forecast (p, or freeze_value, the market's), or with resolutions alone; then
  the constant forecasts of the leaderboards are made: Always 0, Always 0.5, Always 1.
"""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.errors import EvalkitError
from evalkit.forecasts import cells
from evalkit.forecasts.account import Provenance
from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.reading import RawTable, read_bytes, read_table

if TYPE_CHECKING:
    import pandas as pd

ATTRIBUTION = "ForecastBench, Forecasting Research Institute, CC BY-SA 4.0"
CONSTANTS = (0.0, 0.5, 1.0)
_Key = tuple[str, str, str]


def read_forecastbench(path: str | Path, *, resolutions: str | Path | None = None) -> ForecastSet:
    """Forecasts of a forecast set (JSON) resolved by a resolution set, or of a CSV extract."""
    file = Path(path)
    if file.name.removesuffix(".gz").endswith(".json"):
        return _forecast_set(file, Path(resolutions) if resolutions is not None else None)
    if resolutions is not None:
        raise EvalkitError("a CSV extract has its outcomes in it", where="--resolutions", do="leave it out")
    return _extract(read_table(file))


def _forecast_set(path: Path, resolutions: Path | None) -> ForecastSet:
    import pandas as pd

    document, digest = _json(path)
    if "resolutions" in document:
        return _constants(path, document, digest)
    if "forecasts" not in document:
        raise EvalkitError(
            "this is no forecast set of ForecastBench",
            where=str(path),
            expected="an object with forecasts, or with resolutions",
        )
    if resolutions is None:
        raise EvalkitError(
            "a forecast set has no outcomes",
            where=str(path),
            expected="the resolution set of the same due date",
            do="name it: --resolutions FILE",
        )
    known, _ = _json(resolutions)
    outcomes, _ = _outcomes(known, resolutions)
    due = str(document.get("forecast_due_date", ""))
    if due and known.get("forecast_due_date") not in (None, due):
        raise EvalkitError(
            f"the forecasts are of {due} and the resolutions of {known['forecast_due_date']}",
            where=f"{path} and {resolutions}",
            expected="the same due date",
            do="name the resolution set of that date",
        )
    name = " ".join(str(document[k]) for k in ("organization", "model") if document.get(k)) or path.stem
    rows: list[dict[str, Any]] = []
    places: list[str] = []
    left = 0
    for number, entry in enumerate(_list(document, "forecasts", path)):
        key = _key(entry, f"{path}, forecasts[{number}]")
        if key is None:
            left += 1
            continue
        date = entry.get("resolution_date")
        # a market question has no date in the forecast: it is resolved when its market is
        dates = [str(date)] if date is not None else sorted(outcomes.get(key, {})) or ["open"]
        for when in dates:
            rows.append(
                _row(key, due, when, outcomes.get(key, {}).get(when))
                | {"forecaster": entry.get("user_id") or name, "forecast": entry.get("forecast")}
            )
            places.append(f"forecasts[{number}]")
    if not rows:
        raise EvalkitError("no single question is forecast here", where=str(path), expected="a forecast")
    frame = pd.DataFrame(rows, index=places)
    notes = [f"resolved by {resolutions.name}"]
    notes += [f"{left} forecasts of combined questions are left out"] if left else []
    return _set(frame, path.name, digest, len(rows), "forecast set", notes)


def _constants(path: Path, document: dict[str, Any], digest: str) -> ForecastSet:
    """Resolutions alone: the constant forecasts, which show base rates and difficulty."""
    import pandas as pd

    outcomes, combined = _outcomes(document, path)
    due = str(document.get("forecast_due_date", ""))
    rows = [_row(key, due, when, found) for key, dates in outcomes.items() for when, found in dates.items()]
    notes = [f"{combined} resolutions of combined questions are left out"] if combined else []
    return _set(_with_constants(pd.DataFrame(rows)), path.name, digest, len(rows), "resolution set", notes)


def _extract(table: RawTable) -> ForecastSet:
    frame, have = table.frame, set(table.frame.columns)
    outcome = next((name for name in ("y", "resolved_to") if name in have), None)
    if not {"source", "question", "resolution_date"} <= have or outcome is None:
        raise EvalkitError(
            "these columns are of no extract of ForecastBench that evalkit knows",
            where=table.name,
            expected="source, question, resolution_date, and y or resolved_to",
            do="read it as a table: leave --layout out and name the columns",
        )
    made = frame.assign(outcome=frame[outcome])
    if "resolved" in have:
        resolved = np.array([text in ("True", "true", "1") for text in cells.texts(frame["resolved"])])
        made["outcome"] = made["outcome"].astype(object).where(resolved, None)
    source, question = cells.texts(frame["source"]), cells.texts(frame["question"])
    due = cells.texts(frame["due"]) if "due" in have else [None] * len(frame)
    made["cluster"] = [f"{s} {q}" for s, q in zip(source, question, strict=True)]
    made["question"] = [
        _question(c, d or "", str(when))
        for c, d, when in zip(made["cluster"], due, cells.texts(frame["resolution_date"]), strict=True)
    ]
    if "due" in have:
        made["time"] = frame["due"]
    forecast = next((name for name in ("p", "forecast", "freeze_value") if name in have), None)
    notes = []
    if forecast is not None:
        # a dataset question has no market: without a value it was never forecast
        asked = ~cells.is_missing(frame[forecast]) if forecast == "freeze_value" else [True] * len(frame)
        left = len(frame) - int(sum(asked))
        notes += [f"{left} questions without a market are left out"] if left else []
        made = made.assign(forecast=frame[forecast], forecaster="market at freeze")[asked]
    keep = ["question", "cluster", "outcome", *(n for n in ("time", "forecast", "forecaster") if n in made)]
    made = made[[*keep, "source", "resolution_date"]]
    if forecast is None:
        made = _with_constants(made)
    return _set(made, table.name, table.digest, len(frame), "extract", notes)


def _outcomes(document: dict[str, Any], path: Path) -> tuple[dict[_Key, dict[str, float | None]], int]:
    """Outcomes by question and resolution date, None where not resolved; and how many were combinations."""
    found: dict[_Key, dict[str, float | None]] = {}
    combined = 0
    for number, entry in enumerate(_list(document, "resolutions", path)):
        where = f"{path}, resolutions[{number}]"
        key = _key(entry, where)
        if key is None:
            combined += 1
            continue
        value = entry.get("resolved_to") if entry.get("resolved", True) else None
        if value is not None and value not in (0, 1):
            raise EvalkitError(
                f"a resolved question is resolved to {value!r}", where=where, expected="0 or 1"
            )
        found.setdefault(key, {})[str(entry.get("resolution_date"))] = value
    return found, combined


def _key(entry: Any, where: str) -> _Key | None:
    """Source, id and direction; None for a combination."""
    if not isinstance(entry, dict) or "id" not in entry or "source" not in entry:
        raise EvalkitError("an entry has no id or source", where=where, expected="id and source")
    if isinstance(entry["id"], list):
        return None
    direction = entry.get("direction")
    return str(entry["source"]), str(entry["id"]), "" if direction is None else str(direction)


def _row(key: _Key, due: str, when: str, outcome: float | None) -> dict[str, Any]:
    cluster = f"{key[0]} {key[1]}"
    row = {"question": _question(cluster, due, when), "cluster": cluster, "outcome": outcome}
    return row | ({"time": due} if due else {}) | {"source": key[0], "resolution_date": when}


def _question(cluster: str, due: str, when: str) -> str:
    return f"{cluster}, {due} → {when}" if due else f"{cluster}, → {when}"


def _with_constants(frame: pd.DataFrame) -> pd.DataFrame:
    import pandas as pd

    return pd.concat([frame.assign(forecaster=f"Always {c:g}", forecast=c) for c in CONSTANTS])


def _set(frame: pd.DataFrame, name: str, digest: str, rows: int, what: str, notes: list[str]) -> ForecastSet:
    return ForecastSet.from_frame(
        frame,
        kind="binary",
        provenance=Provenance(
            name, digest, rows, layout=f"forecastbench, {what}", notes=(*notes, ATTRIBUTION)
        ),
    )


def _json(path: Path) -> tuple[dict[str, Any], str]:
    data = read_bytes(path)
    try:
        document = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise EvalkitError(
            f"the file is not JSON: {error}", where=str(path), expected="a JSON object"
        ) from None
    if not isinstance(document, dict):
        raise EvalkitError(
            "the file is no JSON object", where=str(path), expected="a forecast or resolution set"
        )
    return document, f"sha256:{sha256(data).hexdigest()}"


def _list(document: dict[str, Any], name: str, path: Path) -> list[Any]:
    entries = document.get(name)
    if not isinstance(entries, list):
        raise EvalkitError(f"there is no list {name!r}", where=str(path), expected=f"{name}: [ … ]")
    return entries
