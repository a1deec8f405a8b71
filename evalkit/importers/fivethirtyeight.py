"""FiveThirtyEight's "Checking Our Work" files (github.com/fivethirtyeight/checking-our-work-data, CC BY 4.0).

A file is recognised by its columns.  Rules
- games (prob1, prob2): the first team wins; the cluster is the game.  A tie is the outcome 0.5.
- matches with a tie (prob1, probtie, prob2): ordinal, win, tie, loss of the first team.  A match that cannot be tied
  (probtie 0) is another kind of question: it is left out and counted.
- elections (party, probwin): each candidate is a question, forecast again and again; the cluster is the race.
- tournaments (round_1 … round_K): the probabilities to win at least k rounds, turned into those of exactly k:
  ordinal, the cluster is the player in that tournament.  Forecasts in which nothing is open any more are left out
  and counted.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.errors import EvalkitError
from evalkit.forecasts import cells
from evalkit.forecasts.account import Provenance
from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.reading import RawTable, read_table

if TYPE_CHECKING:
    import pandas as pd

FORECASTER = "FiveThirtyEight"
ATTRIBUTION = "FiveThirtyEight, checking-our-work-data, CC BY 4.0"
_ROUND = re.compile(r"round_(\d+)")
#: how far a rounded cumulative probability may rise
_ROUNDING = 1e-6


def read_fivethirtyeight(path: str | Path) -> ForecastSet:
    """Forecasts of one of the files.  Raises `EvalkitError` where the columns are of none of them."""
    table = read_table(Path(path))
    have = set(table.frame.columns)
    if {"team1", "team2", "prob1", "probtie", "prob2", "probtie_outcome"} <= have:
        return _matches(table)
    if {"date", "team1", "team2", "prob1", "prob1_outcome"} <= have:
        return _games(table)
    if {"party", "candidate", "probwin", "probwin_outcome", "forecast_date"} <= have:
        return _elections(table)
    if {"player", "round_1", "round_1_outcome", "forecast_date"} <= have:
        return _rounds(table)
    raise EvalkitError(
        "these columns are of no file of FiveThirtyEight that evalkit knows",
        where=str(path),
        expected="team1, team2, prob1 …; or party, candidate, probwin …; or player, round_1 …",
        do="read it as a table: leave --layout out and name the columns",
    )


def _games(table: RawTable) -> ForecastSet:
    frame = table.frame
    outcome = _numbers(frame, "prob1_outcome")
    tied = int(((outcome > 0) & (outcome < 1)).sum())
    notes = [f"{tied} ties, which count as outcome 0.5"] if tied else []
    made = _columns(frame, "prob1", "prob1_outcome") | _game(frame)
    return _set(table, made, "games", notes, fractional=tied > 0)


def _matches(table: RawTable) -> ForecastSet:
    can_tie = _numbers(table.frame, "probtie") > 0
    left = int((~can_tie).sum())
    frame = table.frame.iloc[np.flatnonzero(can_tie)]
    if frame.empty:
        raise EvalkitError("no match can be tied", where=table.name, expected="matches with a tie")
    happened = np.column_stack([_numbers(frame, f"{side}_outcome") for side in ("prob1", "probtie", "prob2")])
    made = _game(frame) | {
        "forecast_0": frame["prob1"],
        "forecast_1": frame["probtie"],
        "forecast_2": frame["prob2"],
        "outcome": _happened(happened),
    }
    notes = [f"{left} matches that cannot be tied are left out"] if left else []
    classes = ["first team wins", "tie", "second team wins"]
    return _set(table, made, "matches with a tie", notes, classes=classes, rows=can_tie)


def _elections(table: RawTable) -> ForecastSet:
    frame = table.frame
    place = [name for name in ("year", "cycle", "state", "district", "seat", "special") if name in frame]
    race = _label(frame, place)
    versions = cells.texts(frame["forecast_type"]) if "forecast_type" in frame else [None] * len(frame)
    made = _columns(frame, "probwin", "probwin_outcome") | {
        "forecaster": [f"{FORECASTER} {v}" if v else FORECASTER for v in versions],
        "question": [f"{r}, {c}" for r, c in zip(race, _label(frame, ["candidate", "party"]), strict=True)],
        "cluster": race,
        "time": frame["forecast_date"],
    }
    return _set(table, made, "elections", ["the candidates of a race are dependent: the cluster is the race"])


def _rounds(table: RawTable) -> ForecastSet:
    names = sorted(
        (m[0] for n in map(str, table.frame.columns) if (m := _ROUND.fullmatch(n))), key=lambda n: int(n[6:])
    )
    survival = np.column_stack([_numbers(table.frame, name) for name in names])
    settled = np.isin(survival, (0.0, 1.0)).all(axis=1)
    open_ = np.flatnonzero(~settled)
    frame, survival = table.frame.iloc[open_], survival[open_]
    rising = (np.diff(survival, axis=1) > _ROUNDING).any(axis=1)
    if rising.any():
        row = int(open_[np.argmax(rising)])
        raise EvalkitError(
            "the probability to win more rounds is larger than that to win fewer",
            where=f"{table.name}, {table.place(row)}",
            expected="probabilities that fall from round to round",
        )
    # exactly k rounds: at least k, less at least k + 1
    cumulative = np.minimum.accumulate(np.column_stack([np.ones(len(frame)), survival]), axis=1)
    exactly = cumulative - np.column_stack([cumulative[:, 1:], np.zeros(len(frame))])
    won = np.column_stack([_numbers(frame, f"{name}_outcome") for name in names]).sum(axis=1)
    made: dict[str, Any] = {f"forecast_{k}": exactly[:, k] for k in range(exactly.shape[1])}
    made |= {
        "question": _label(frame, ["season", "player"] if "season" in frame else ["player"]),
        "time": frame["forecast_date"],
        "outcome": won,
    }
    notes = [f"{int(settled.sum())} forecasts in which nothing was open any more are left out",
             "the players of one draw are dependent too: only one wins; the clusters are players"]  # fmt: skip
    classes = [f"{k} rounds won" if k != 1 else "1 round won" for k in range(exactly.shape[1])]
    return _set(table, made, "tournament rounds", notes, classes=classes, rows=~settled)


def _columns(frame: pd.DataFrame, forecast: str, outcome: str) -> dict[str, Any]:
    return {"forecast": frame[forecast], "outcome": frame[outcome]}


def _game(frame: pd.DataFrame) -> dict[str, Any]:
    return {"question": _label(frame, ["date", "team1", "team2"]), "time": frame["date"]}


def _label(frame: pd.DataFrame, columns: list[str]) -> list[str]:
    """Texts of several columns in one; False and nothing say nothing."""
    parts = [cells.texts(frame[column]) for column in columns]
    # "special: False" names no special election, "True" does
    words = [["special" if t == "True" else "" if t in (None, "False") else str(t) for t in p] for p in parts]
    return [" ".join(filter(None, row)) for row in zip(*words, strict=True)]


def _numbers(frame: pd.DataFrame, column: str) -> cells.Floats:
    numbers, problems = cells.numbers(frame[column], column, "number")
    if problems:
        raise EvalkitError(problems[0].what, where=column, expected=problems[0].expected)
    return numbers


def _happened(marks: cells.Floats) -> cells.Floats:
    """The class that has the 1; NaN where none has."""
    one = np.where(np.isnan(marks), 0.0, marks)
    known = (one.sum(axis=1) == 1.0) & (one.max(axis=1) == 1.0)
    return np.where(known, one.argmax(axis=1), np.nan)


def _set(
    table: RawTable,
    made: dict[str, Any],
    what: str,
    notes: list[str],
    *,
    classes: list[str] | None = None,
    fractional: bool = False,
    rows: Any = None,
) -> ForecastSet:
    import pandas as pd

    frame = pd.DataFrame({name: np.asarray(values) for name, values in made.items()})
    if rows is not None:
        frame.index = np.flatnonzero(rows)
    return ForecastSet.from_frame(
        frame,
        kind="ordinal" if classes else "binary",
        classes=classes,
        fractional=fractional,
        forecaster=FORECASTER,
        provenance=Provenance(
            table.name,
            table.digest,
            len(table.frame),
            layout=f"fivethirtyeight, {what}",
            notes=(*notes, ATTRIBUTION),
        ),
    )
