"""Which column of a table means what: named by the user, or guessed from its name.

Rules
- A column that bears the role's own name (``forecast``, ``outcome``, …) has that role.  Otherwise a column
  whose name is a common synonym has it; two synonyms of one role are an error that names both.
- A guess is never silent: `Layout.guessed` says it, and the command line prints it.
- A table has one forecast column and perhaps one that names the forecaster (long), one forecast column for
  each forecaster (wide), or one for each class (categorical and ordinal).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from evalkit.errors import EvalkitError

Kind = Literal["binary", "categorical", "ordinal"]
KINDS: tuple[Kind, ...] = ("binary", "categorical", "ordinal")
#: what the user may name: one column, or several that are one together (a question) or each by itself (forecasts)
Named = str | Sequence[str]

#: role -> names that mean it, in lower case with one _ for everything that is no letter or digit
SYNONYMS: dict[str, tuple[str, ...]] = {
    "forecaster": ("forecaster", "forecaster_id", "model", "model_name", "system", "agent", "analyst",
                   "predictor", "user_id"),
    "question": ("question", "question_id", "qid", "item", "item_id", "event_id", "task_id", "case_id", "id"),
    "cluster": ("cluster", "cluster_id"),
    "time": ("time", "timestamp", "forecast_date", "forecast_time", "date", "freeze_date", "made_at"),
    "forecast": ("forecast", "p", "prob", "probability", "prediction", "predicted", "pred", "p_yes",
                 "forecast_probability", "y_prob"),
    "outcome": ("outcome", "y", "obs", "observed", "observation", "resolved_to", "y_true", "actual", "truth",
                "result"),
    "weight": ("weight", "weights"),
}  # fmt: skip
_CLASS_COLUMN = re.compile(r"(?:forecast|prob|p)_(\d+)")
#: roles that several columns can have together
_JOINED = ("question", "cluster")


@dataclass(frozen=True)
class Layout:
    """Where everything stands.  ``forecasts`` are the forecast columns; ``names`` what they are called.

    ``names``: the forecasters of a wide table, the classes of a categorical one; else empty.  ``joined``: the
    columns of each role (several for a question that only several columns identify).
    """

    kind: Kind
    wide: bool
    forecasts: tuple[str, ...]
    names: tuple[str, ...]
    joined: Mapping[str, tuple[str, ...]]
    extra: tuple[str, ...]
    guessed: tuple[str, ...]

    def column(self, role: str) -> str | None:
        """The column of a role that one column has, or None."""
        found = self.joined.get(role, ())
        return found[0] if found else None


def find_layout(
    names: Sequence[str],
    *,
    columns: Mapping[str, Named] | None = None,
    kind: Kind | None = None,
    classes: Sequence[str] | None = None,
    wide: bool | None = None,
    looks_like_forecasts: Callable[[str], bool],
    where: str,
) -> Layout:
    """The layout of a table with the columns ``names``.

    ``columns`` maps roles to columns as the user named them; ``looks_like_forecasts`` looks at the cells of a
    column (asked for a wide table whose forecasters nobody named).
    """
    given = _given(columns or {}, names, where)
    if kind is not None and kind not in KINDS:
        raise EvalkitError(f"kind is {kind!r}", where=where, expected=", ".join(KINDS))
    guessed: list[str] = []
    joined: dict[str, tuple[str, ...]] = {}
    taken = {column for found in given.values() for column in found}
    for role in SYNONYMS:
        if role in given:
            if role != "forecast":
                joined[role] = given[role]
        elif role != "forecast" and (found := _guess(role, [n for n in names if n not in taken], where)):
            joined[role] = (found,)
            taken.add(found)
            if found != role:
                guessed.append(f"{role} is column {found!r}")
    free = [name for name in names if name not in taken]
    forecasts, kind, wide = _forecasts(
        given.get("forecast"), free, joined, kind, wide, looks_like_forecasts, guessed, where
    )
    if "outcome" not in joined:
        raise _lacks("outcome", names, where)
    several = kind != "binary"
    if classes and not several:
        raise EvalkitError(
            f"class names ({_list(classes)}) for binary forecasts",
            where=where,
            expected="forecasts of several classes",
            do="say --kind categorical or --kind ordinal, or leave the names out",
        )
    if several and len(forecasts) < 2:
        raise EvalkitError(
            f"a {kind} forecast needs a column for each class, and there is one: {forecasts[0]!r}",
            where=where,
            expected="two or more columns forecast_0, forecast_1, … or named by you",
            do="name them in the order of the classes: --forecast A --forecast B … "
            "(in Python columns={'forecast': ['A', 'B', …]})",
        )
    labels = _labels(forecasts, classes, where) if several else forecasts if wide else ()
    used = {column for found in joined.values() for column in found} | set(forecasts)
    return Layout(
        kind=kind,
        wide=wide,
        forecasts=forecasts,
        names=labels,
        joined=joined,
        extra=tuple(name for name in names if name not in used),
        guessed=tuple(guessed),
    )


def _given(columns: Mapping[str, Named], names: Sequence[str], where: str) -> dict[str, tuple[str, ...]]:
    given: dict[str, tuple[str, ...]] = {}
    for role, named in columns.items():
        if role not in SYNONYMS:
            raise EvalkitError(f"{role!r} is no role of a column", where=where, expected=", ".join(SYNONYMS))
        found = (named,) if isinstance(named, str) else tuple(named)
        absent = [name for name in found if name not in names]
        if absent or not found:
            raise EvalkitError(
                f"there is no column {absent[0]!r} for the {role}" if absent else f"no column for the {role}",
                where=where,
                expected=f"one of {_list(names)}",
                do=f"name another column with --{role}",
            )
        if len(set(found)) < len(found) or (len(found) > 1 and role not in (*_JOINED, "forecast")):
            raise EvalkitError(
                f"the {role} is said to be {len(found)} columns: {_list(found)}",
                where=where,
                expected="one column"
                if role not in (*_JOINED, "forecast")
                else "different columns, each once",
                do=f"name one with --{role}",
            )
        given[role] = found
    twice = [
        (a, b, column) for a in given for b in given if a < b for column in given[a] if column in given[b]
    ]
    # a question may identify the cluster too; nothing else can be two things
    for a, b, column in twice:
        if {a, b} - {"question", "cluster", "time"}:
            raise EvalkitError(
                f"column {column!r} is named as {a} and as {b}", where=where, expected="one role a column"
            )
    return given


def _guess(role: str, names: Sequence[str], where: str) -> str | None:
    """The one column whose name means the role."""
    if role in names:
        return role
    found = [name for name in names if _plain(name) in SYNONYMS[role]]
    if len(found) > 1:
        raise EvalkitError(
            f"{_list(found)} could each be the {role}",
            where=where,
            expected=f"one column for the {role}",
            do=f"say which: --{role} {found[0]} or --{role} {found[1]} "
            f"(in Python columns={{{role!r}: {found[0]!r}}})",
        )
    return found[0] if found else None


def _forecasts(
    given: tuple[str, ...] | None,
    free: Sequence[str],
    joined: Mapping[str, tuple[str, ...]],
    kind: Kind | None,
    wide: bool | None,
    looks_like_forecasts: Callable[[str], bool],
    guessed: list[str],
    where: str,
) -> tuple[tuple[str, ...], Kind, bool]:
    """The forecast columns, what kind of forecast they are, and whether each is a forecaster's."""
    if wide and kind not in (None, "binary"):
        raise EvalkitError(
            f"a wide table of {kind} forecasts cannot be read",
            where=where,
            expected="one column a class, and a column that names the forecaster",
            do="bring it into the long form, or leave --wide out",
        )
    if given is not None:
        if len(given) == 1 or kind in ("categorical", "ordinal"):
            return given, kind or "binary", bool(wide)
        if "forecaster" in joined:
            raise EvalkitError(
                f"{len(given)} forecast columns and a forecaster column {joined['forecaster'][0]!r}",
                where=where,
                expected="several forecast columns for several forecasters (wide) or for several classes",
                do="for classes say --kind categorical or --kind ordinal; else name one forecast column",
            )
        if wide is False:
            raise EvalkitError(
                f"{len(given)} forecast columns in a long table of binary forecasts",
                where=where,
                expected="one forecast column, or a kind with classes",
                do="leave --long out (wide=None), or say --kind categorical or --kind ordinal",
            )
        return given, "binary", True
    numbered = sorted((int(m[1]), name) for name in free if (m := _CLASS_COLUMN.fullmatch(_plain(name))))
    complete = [i for i, _ in numbered] == list(range(len(numbered))) and len(numbered) > 1
    if complete and not wide and kind != "binary":
        if kind is None:
            guessed.append(f"the forecasts are categorical, in {len(numbered)} numbered columns")
        return tuple(name for _, name in numbered), kind or "categorical", False
    if kind in ("categorical", "ordinal"):
        raise EvalkitError(
            f"nothing says which columns are the classes of these {kind} forecasts",
            where=where,
            expected="columns forecast_0, forecast_1, … or named ones",
            do="name them in the order of the classes: --forecast A --forecast B …",
        )
    if not wide and (found := _guess("forecast", free, where)):
        if found != "forecast":
            guessed.append(f"forecast is column {found!r}")
        return (found,), "binary", False
    if wide is False or "forecaster" in joined or "outcome" not in joined:
        raise _lacks("forecast" if "outcome" in joined else "outcome", [*free, *_all(joined)], where)
    candidates = tuple(name for name in free if looks_like_forecasts(name))
    if not candidates:
        raise _lacks("forecast", [*free, *_all(joined)], where)
    left = [name for name in free if name not in candidates]
    guessed.append(
        f"the table is wide: {len(candidates)} forecasters, a column each ({_list(candidates)})"
        + (f"; no forecasts are in {_list(left)}" if left else "")
    )
    return candidates, "binary", True


def _labels(forecasts: Sequence[str], classes: Sequence[str] | None, where: str) -> tuple[str, ...]:
    """Names of the classes: as given, else those of the columns, else numbers."""
    if classes is None:
        found = [_CLASS_COLUMN.fullmatch(_plain(name)) for name in forecasts]
        # the column's own number: in forecast_1 … forecast_3 the outcome 1 is the first class
        numbers = tuple(str(int(m[1])) for m in found if m)
        return numbers if len(set(numbers)) == len(forecasts) else tuple(forecasts)
    if len(classes) != len(forecasts) or len(set(classes)) < len(classes):
        raise EvalkitError(
            f"{len(classes)} class names for {len(forecasts)} forecast columns: {_list(classes)}",
            where=where,
            expected="a different name for each column, in their order",
        )
    return tuple(classes)


def _lacks(role: str, names: Sequence[str], where: str) -> EvalkitError:
    return EvalkitError(
        f"no column looks like the {role}",
        where=where,
        expected=f"a column {role!r} or a common name of it ({_list(SYNONYMS[role][1:7])}); "
        f"there are {_list(names)}",
        do=f"say which: --{role} COLUMN (in Python columns={{{role!r}: 'COLUMN'}})",
    )


def _all(joined: Mapping[str, tuple[str, ...]]) -> list[str]:
    return [column for found in joined.values() for column in found]


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", name.strip().lower()).strip("_")


def _list(names: Sequence[str], most: int = 12) -> str:
    shown = ", ".join(repr(name) for name in names[:most])
    return shown + (f" and {len(names) - most} more" if len(names) > most else "")
