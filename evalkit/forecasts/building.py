"""From a table as somebody wrote it to the one frame of a `ForecastSet`, with every problem found on the way.

Problems are collected over the whole table and reported together: what, where (file and line, or row), what was
expected, what to do.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from evalkit.errors import EvalkitError
from evalkit.forecasts import cells
from evalkit.forecasts.cells import Problem, quoted
from evalkit.forecasts.columns import Layout
from evalkit.scoring.inputs import UNNORMALISED

if TYPE_CHECKING:
    import pandas as pd

#: problems that are shown one by one
_SHOWN = 12
FIXED = ("forecaster", "question", "cluster", "time", "weight", "outcome")


def forecast_columns(classes: Sequence[str]) -> list[str]:
    """``forecast``, or one column for each class."""
    return [f"forecast_{i}" for i in range(len(classes))] if classes else ["forecast"]


def build(
    table: pd.DataFrame,
    layout: Layout,
    *,
    fractional: bool,
    forecaster: str,
    where: str,
    place: Callable[[int], str],
) -> pd.DataFrame:
    """The long frame, sorted.  Raises `EvalkitError` with all problems of the table."""
    import pandas as pd

    n = len(table)
    problems: list[Problem] = []
    question = _joined(table, layout.joined.get("question", ()), problems)
    numbered = question is None
    days = _days(table, layout)
    if question is None:
        question = days if days is not None else [*map(place, range(n))]
    cluster = _joined(table, layout.joined.get("cluster", ()), problems)
    time_column = layout.column("time")
    time = None if time_column is None or days is not None else cells.texts(table[time_column])
    outcome_column = layout.column("outcome") or ""
    classes = layout.names if layout.kind != "binary" else ()
    if classes:
        outcome, found = cells.class_outcomes(table[outcome_column], outcome_column, classes)
    else:
        outcome, found = cells.outcomes(table[outcome_column], outcome_column, fractional=fractional)
    wrong_outcomes = found
    weight = _weights(table, layout.column("weight"), problems)
    values = []
    for column in layout.forecasts:
        numbers, found = cells.numbers(table[column], column, "probability")
        problems += found + cells.probabilities(numbers, column)
        values.append(np.clip(numbers, 0.0, 1.0))
    problems += _other_reading(wrong_outcomes, values, layout)
    if classes:
        values = _distribution(values, layout.forecasts, problems)
    columns: dict[str, Any] = {"row": np.arange(n)}
    copies = len(values) if layout.wide else 1
    if layout.wide:
        columns["forecaster"] = np.repeat(np.array(layout.names, dtype=object), n)
        columns["forecast"] = np.concatenate(values)
    else:
        who = layout.column("forecaster")
        said: list[str | None] = [forecaster] * n if who is None else cells.texts(table[who])
        problems += [] if who is None else _empty(said, who, "forecaster")
        columns["forecaster"] = np.array(said, dtype=object)
        columns |= dict(zip(forecast_columns(classes), values, strict=True))
    columns["question"] = np.array(question, dtype=object)
    columns["cluster"] = np.array(question if cluster is None else cluster, dtype=object)
    columns["time"] = np.array([None] * n if time is None else time, dtype=object)
    columns["outcome"], columns["weight"] = outcome, weight
    for name in layout.extra:
        columns[_free_name(name, columns)] = table[name].to_numpy()
    columns = {k: np.tile(v, copies) if len(v) == n and copies > 1 else v for k, v in columns.items()}
    frame = pd.DataFrame(columns)
    if not problems:
        problems = _consistency(frame, layout, place, numbered)
    if problems:
        raise _report(problems, where, place)
    order = [*FIXED[:4], *forecast_columns(classes), "outcome", "weight"]
    extra = [name for name in frame.columns if name not in (*order, "row")]
    keys = ["forecaster", "question", "time"]
    ranked = frame.assign(time=frame["time"].fillna("")).sort_values(keys, kind="stable").index
    return frame.loc[ranked, [*order, *extra]].reset_index(drop=True)


def _joined(table: pd.DataFrame, columns: Sequence[str], problems: list[Problem]) -> list[str | None] | None:
    """Texts of one column, or of several joined; a missing one is a problem."""
    if not columns:
        return None
    parts = [cells.texts(table[column]) for column in columns]
    for column, part in zip(columns, parts, strict=True):
        problems += _empty(part, column, "name of the question or cluster")
    if len(parts) == 1:
        return parts[0]
    return [" · ".join(t for t in row if t is not None) for row in zip(*parts, strict=True)]


def _empty(said: Sequence[str | None], column: str, what: str) -> list[Problem]:
    return [
        Problem(f"no {what}", row, column, "a name in every row", "fill it in")
        for row, text in enumerate(said)
        if not text
    ]


def unnamed_questions(layout: Layout, table: pd.DataFrame) -> str:
    """What stands for the question where no column names it, in words; empty where one does."""
    if layout.joined.get("question"):
        return ""
    if _days(table, layout):
        return f"each {layout.column('time')} is a question"
    return "each row is a question"


def _days(table: pd.DataFrame, layout: Layout) -> list[str | None] | None:
    """The times, where no column names the question and every row has another time: they identify it."""
    column = layout.column("time")
    if layout.joined.get("question") or column is None:
        return None
    if not (layout.wide or layout.column("forecaster") is None):
        return None
    said = cells.texts(table[column])
    return said if None not in said and len(set(said)) == len(said) else None


def _weights(table: pd.DataFrame, column: str | None, problems: list[Problem]) -> cells.Floats:
    if column is None:
        return np.ones(len(table))
    weight, found = cells.numbers(table[column], column, "weight")
    problems += found
    bad = {p.row for p in found}
    for row in np.flatnonzero(~(np.isfinite(weight) & (weight > 0))).tolist():
        if row not in bad:
            problems.append(
                Problem(
                    f"{weight[row]:g} is no weight",
                    row,
                    column,
                    "a number above 0",
                    "correct it, or leave the row out",
                )
            )
    return weight


def _other_reading(wrong: list[Problem], values: list[cells.Floats], layout: Layout) -> list[Problem]:
    """Outcomes that are none: where another reading of the columns would explain them, what to do says so."""
    if not wrong or layout.kind != "binary":
        return wrong
    if layout.wide and len(values) > 1 and np.all(np.abs(np.sum(values, axis=0) - 1) <= UNNORMALISED):
        named = " ".join(f"--forecast {shlex.quote(name)}" for name in layout.forecasts)
        do = f"where the columns are classes and no forecasters: --kind categorical {named}"
    elif len(values) == 1 and np.isin(values[0], (0.0, 1.0)).all():
        do = "every forecast is 0 or 1: exchange the columns of forecast and outcome, or correct it"
    else:
        return wrong
    return [replace(problem, do=do) for problem in wrong]


def _distribution(
    values: list[cells.Floats], columns: Sequence[str], problems: list[Problem]
) -> list[cells.Floats]:
    """A forecast is missing where every class is; else the probabilities sum to one."""
    p = np.column_stack(values)
    gone = np.isnan(p)
    some = gone.any(axis=1) & ~gone.all(axis=1)
    bad_rows = {problem.row for problem in problems}
    for row in np.flatnonzero(some).tolist():
        if row not in bad_rows:
            column = columns[int(np.argmax(gone[row]))]
            problems.append(
                Problem("one class has no probability and others have", row, column,
                        "all classes, or none where the forecast is missing", "fill it in; 0 is a probability")
            )  # fmt: skip
    sums = p.sum(axis=1)
    for row in np.flatnonzero(np.abs(sums - 1) > UNNORMALISED).tolist():
        if row not in bad_rows:
            problems.append(
                Problem(f"the probabilities sum to {sums[row]:.6g}", row, f"{columns[0]} … {columns[-1]}",
                        "1, within 0.000001", "normalise them")
            )  # fmt: skip
    return list(p.T)


def _free_name(name: str, taken: dict[str, Any]) -> str:
    """An extra column's name, with _ where it would be one of the fixed ones."""
    while name in taken or name in (*FIXED, "row"):
        name += "_"
    return name


def _consistency(
    frame: pd.DataFrame, layout: Layout, place: Callable[[int], str], numbered: bool
) -> list[Problem]:
    """What only several rows together show: duplicates, questions with two outcomes or two clusters."""
    problems = []
    several = frame["forecaster"].nunique() > 1
    if numbered and several and not layout.wide:
        return [
            Problem(
                "no column names the question, and there are several forecasters",
                None,
                "",
                "a column that says which forecasts are about the same question",
                "say which: --question COLUMN, repeated where several columns identify it together",
            )
        ]
    keys = ["forecaster", "question", "time"]
    again = frame.duplicated(keys, keep="first").to_numpy()
    first: dict[tuple[Any, ...], int] = {}
    if again.any():
        for at, *key in frame[["row", *keys]].itertuples(index=False, name=None):
            first.setdefault(tuple(key), at)
    for at, *key in frame.loc[again, ["row", *keys]].itertuples(index=False, name=None):
        who, question, when = key
        problems.append(
            Problem(
                f"a second forecast of {quoted(who)} for {quoted(question)}"
                + (f" at {quoted(when)}" if when is not None else "")
                + f"; the first is in {place(first[tuple(key)])}",
                int(at),
                "",
                "one forecast for each forecaster, question and time",
                "name a --time column where forecasts were repeated, or remove one",
            )
        )
    for column, what in (("outcome", "outcomes"), ("cluster", "clusters")):
        known = frame.dropna(subset=[column])
        ranks = known.groupby("question", sort=False)[column]
        clash = known[known[column] != ranks.transform("first")]
        for _, one in clash.drop_duplicates("question").iterrows():
            problems.append(
                Problem(
                    f"the question {quoted(one['question'])} has two {what}: {quoted(one[column])} here, and "
                    f"{quoted(known.loc[known['question'] == one['question'], column].iloc[0])}",
                    int(one["row"]),
                    "",
                    "one for each question",
                    "correct it; or the question is identified by more columns: repeat --question",
                )
            )
    return problems


def _report(problems: Sequence[Problem], where: str, place: Callable[[int], str]) -> EvalkitError:
    ordered = sorted(problems, key=lambda p: -1 if p.row is None else p.row)
    # the same thing in the same column is said once
    alike: dict[tuple[str, str], list[Problem]] = {}
    for problem in ordered:
        alike.setdefault((problem.what, problem.column), []).append(problem)

    def spot(group: Sequence[Problem]) -> str:
        row = group[0].row
        at = [] if row is None else [place(row) + (f" and {len(group) - 1} more" if len(group) > 1 else "")]
        return ", ".join([*at, group[0].column] if group[0].column else at)

    groups = list(alike.values())
    if len(groups) == 1:
        first = groups[0][0]
        return EvalkitError(
            first.what,
            where=", ".join(filter(None, [where, spot(groups[0])])),
            expected=first.expected,
            do=first.do,
        )
    lines = [f"{spot(group)}: {group[0].what}".removeprefix(": ") for group in groups[:_SHOWN]]
    more = len(ordered) - sum(map(len, groups[:_SHOWN]))
    return EvalkitError(
        f"the table has {len(ordered)} problems",
        where=where,
        details=(*lines, *([f"… and {more} more"] if more else [])),
        expected="; ".join(dict.fromkeys(p.expected for p in ordered if p.expected)),
        do="; ".join(dict.fromkeys(p.do for p in ordered if p.do)),
    )
