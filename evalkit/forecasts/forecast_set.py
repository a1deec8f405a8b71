"""`ForecastSet`: forecasts of one or several forecasters, checked once, that answer every question asked of them.

Rules
- One long frame: forecaster, question, cluster, time, forecast (or forecast_0 … forecast_{K-1}), outcome, weight,
  and whatever else the table had.  It is sorted, so nothing depends on the order of the rows.
- The cluster is the question unless another is named: repeated forecasts on a question are dependent.
- A missing forecast is counted for its forecaster and never filled in; a question without an outcome is
  counted apart.  Neither is scored.
- The set does not change: what it gives away is a copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from evalkit.errors import EvalkitError
from evalkit.forecasts import cells
from evalkit.forecasts.account import Account, Provenance, accounts
from evalkit.forecasts.building import build, forecast_columns, unnamed_questions
from evalkit.forecasts.columns import Kind, Named, find_layout
from evalkit.forecasts.items import Answers, Items
from evalkit.visible import visible

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.calibration import ReliabilityDiagram
    from evalkit.forecasts.score_table import ScoreTable
    from evalkit.scoring import Leaderboard, Score

Floats = NDArray[np.float64]
Missing = Literal["drop", "raise"]
RULES = ("brier", "log", "rps", "spherical")


@dataclass(frozen=True, eq=False)
class ForecastSet:
    """Forecasts with outcomes.  Make one with `read` or `from_frame`.

    ``kind``: binary, categorical or ordinal; ``classes``: names of the classes, () for binary; ``fractional``:
    outcomes between 0 and 1 are admitted (ties, market values).
    """

    kind: Kind
    classes: tuple[str, ...]
    fractional: bool
    provenance: Provenance
    _frame: pd.DataFrame = field(repr=False)

    @classmethod
    def from_frame(
        cls,
        frame: pd.DataFrame,
        columns: Mapping[str, Named] | None = None,
        kind: Kind | None = None,
        *,
        classes: Sequence[str] | None = None,
        wide: bool | None = None,
        fractional: bool = False,
        missing: Missing = "drop",
        na: Sequence[str] = (),
        forecaster: str = "forecast",
        provenance: Provenance | None = None,
    ) -> ForecastSet:
        """A set from a pandas frame.

        ``columns`` maps roles (forecaster, question, cluster, time, forecast, outcome, weight) to column names;
        a role that is not named is looked for by its common names.  Several columns for ``question`` or
        ``cluster`` identify it together; several for ``forecast`` are forecasters (binary) or classes in
        their order.  ``wide``: one column a forecaster.  ``missing="raise"``: a missing forecast is an
        error.  ``na``: further spellings of a missing cell, such as -0.01 or -999.  ``forecaster``: who made them where no column says so.

        Raises `EvalkitError` with every problem of the table: what, where, expected, do.
        """
        index = frame.index.tolist()
        return cls._make(
            frame.reset_index(drop=True),
            columns, kind, classes, wide, fractional, missing, na, forecaster,
            provenance or Provenance(name="frame"),
            where="frame", place=lambda i: f"row {index[i]}",
        )  # fmt: skip

    @classmethod
    def read(
        cls,
        path: str | Path,
        columns: Mapping[str, Named] | None = None,
        kind: Kind | None = None,
        *,
        classes: Sequence[str] | None = None,
        wide: bool | None = None,
        fractional: bool = False,
        missing: Missing = "drop",
        na: Sequence[str] = (),
        forecaster: str | None = None,
    ) -> ForecastSet:
        """A set from a CSV, TSV (either gzipped) or parquet file; arguments and errors as `from_frame`.

        Where no column names the forecaster she is called as the file.
        """
        from evalkit.forecasts.reading import read_table, stem

        table = read_table(Path(path))
        return cls._make(
            table.frame, columns, kind, classes, wide, fractional, missing, na, forecaster or stem(table.name),
            Provenance(table.name, table.digest), where=str(path), place=table.place,
        )  # fmt: skip

    @classmethod
    def _make(
        cls, table: pd.DataFrame, columns: Mapping[str, Named] | None, kind: Kind | None,
        classes: Sequence[str] | None, wide: bool | None, fractional: bool, missing: Missing,
        na: Sequence[str], forecaster: str, provenance: Provenance, *, where: str, place: Any,
    ) -> ForecastSet:  # fmt: skip
        if missing not in ("drop", "raise"):
            raise EvalkitError(f"missing is {missing!r}", where=where, expected="drop or raise")
        if table.empty:
            raise EvalkitError("there are no rows", where=where, expected="at least one forecast")
        table = table.rename(columns=str)
        table = _without(table, na) if na else table
        layout = find_layout(
            list(table.columns),
            columns=columns,
            kind=kind,
            classes=classes,
            wide=wide,
            looks_like_forecasts=lambda name: _looks_like_forecasts(table[name], name),
            where=where,
        )
        if fractional and layout.kind != "binary":
            raise EvalkitError(
                f"outcomes between 0 and 1 cannot be admitted for {layout.kind} forecasts",
                where=where,
                expected="binary forecasts",
                do="leave --fractional out",
            )
        long = build(table, layout, fractional=fractional, forecaster=forecaster, where=where, place=place)
        several = layout.kind != "binary"
        found = cls(
            layout.kind,
            layout.names if several else (),
            fractional,
            Provenance(
                provenance.name,
                provenance.digest,
                provenance.rows or len(table),
                provenance.layout if provenance.layout != "table" else "wide" if layout.wide else "long",
                (*provenance.guessed, *layout.guessed, *filter(None, [unnamed_questions(layout, table)])),
                provenance.notes,
            ),
            long,
        )
        lost = sum(account.n_missing for account in found.accounts)
        if missing == "raise" and lost:
            raise EvalkitError(
                f"{lost} forecasts are missing",
                where=where,
                expected="a forecast in every row whose outcome is known",
                do="fill them in; or count and leave them out: --missing drop (missing='drop')",
            )
        return found

    @property
    def _forecast_names(self) -> list[str]:
        return forecast_columns(self.classes)

    @cached_property
    def _scored(self) -> pd.DataFrame:
        known = self._frame[self._forecast_names[0]].notna() & self._frame["outcome"].notna()
        return self._frame[known]

    @cached_property
    def forecasters(self) -> tuple[str, ...]:
        """Names, sorted."""
        return tuple(sorted(set(self._frame["forecaster"])))

    @property
    def n(self) -> int:
        """Forecasts that can be scored, of all forecasters."""
        return len(self._scored)

    @cached_property
    def n_items(self) -> int:
        """Questions, each as of a time, for which somebody has a scored forecast."""
        return len(self._scored.drop_duplicates(["question", "time"]))

    @cached_property
    def questions(self) -> tuple[str, ...]:
        """Questions with an outcome, sorted."""
        return tuple(sorted(set(self._frame.loc[self._frame["outcome"].notna(), "question"])))

    @cached_property
    def accounts(self) -> tuple[Account, ...]:
        """The account of each forecaster, by name."""
        return accounts(self._frame, self._forecast_names[0])

    def items(self, forecaster: str) -> Items:
        """The scored forecasts of one forecaster.  Raises `EvalkitError` for an unknown name."""
        if forecaster not in self.forecasters:
            raise EvalkitError(
                f"there is no forecaster {forecaster!r}",
                where=self.provenance.name,
                expected=", ".join(self.forecasters),
            )
        mine = self._scored[self._scored["forecaster"] == forecaster]
        p = mine[self._forecast_names].to_numpy(dtype=np.float64)
        weights = mine["weight"].to_numpy(dtype=np.float64)
        cluster = mine["cluster"].to_numpy()
        return Items(
            mine["outcome"].to_numpy(dtype=np.float64),
            p if self.classes else p[:, 0],
            None if len(weights) == 0 or (weights == weights[0]).all() else weights,
            None if mine["cluster"].is_unique else cluster,
            mine["question"].to_numpy(),
        )

    def overlap(self) -> pd.DataFrame:
        """How many questions each two forecasters both answered, a square frame; the diagonal is each one's own."""
        import pandas as pd

        answered = self._scored.drop_duplicates(["forecaster", "question"])
        mine, names = pd.factorize(answered["forecaster"], sort=True)
        about, _ = pd.factorize(answered["question"])
        marks = np.zeros((len(names), int(about.max(initial=-1)) + 1), dtype=np.float64)
        marks[mine, about] = 1.0
        shared = pd.DataFrame((marks @ marks.T).astype(int), index=list(names), columns=list(names))
        return shared.reindex(index=self.forecasters, columns=self.forecasters, fill_value=0)

    def score(self, rule: str = "brier", **options: Any) -> dict[str, Score]:
        """Mean score of each forecaster who has a scored forecast: brier, log, rps (ordinal) or spherical.

        ``options`` go to the rule.  Clusters and weights are those of the set.
        """
        return {name: self.score_of(name, rule, **options) for name in self._answering}

    def score_of(self, forecaster: str, rule: str = "brier", **options: Any) -> Score:
        """Mean score of one forecaster."""
        from evalkit import scoring

        if rule not in RULES:
            raise EvalkitError(f"there is no rule {rule!r}", expected=", ".join(RULES))
        if rule == "rps" and self.kind != "ordinal":
            raise EvalkitError(
                f"the ranked probability score needs ordered classes, and these forecasts are {self.kind}",
                expected="ordinal forecasts",
                do="say --kind ordinal if the classes have an order",
            )
        items = self.items(forecaster)
        if self.fractional and rule == "brier":
            options = {"allow_fractional": True, **options}
        rules: dict[str, Callable[..., Any]] = {
            "brier": scoring.brier_score,
            "log": scoring.log_score,
            "rps": scoring.ranked_probability_score,
            "spherical": scoring.spherical_score,
        }
        try:
            found: Score = rules[rule](
                items.y, items.p, weights=items.weights, cluster=items.cluster, **options
            )
        except ValueError as error:
            raise EvalkitError(
                f"the {rule} score of {forecaster!r} cannot be computed: {error}", where=self.provenance.name
            ) from None
        return found

    def answers(self, rule: str = "brier") -> Answers:
        """Item scores of all forecasters, for `evalkit.scoring.compare` and `difficulty_adjusted`."""
        scored = self._scored
        times = scored["time"]
        item = [
            q if t is None else f"{q} \N{MIDDLE DOT} {t}"
            for q, t in zip(scored["question"], times, strict=True)
        ]
        weights = scored["weight"].to_numpy(dtype=np.float64)
        scores = [
            self.score_of(name, rule).items for name in self._answering
        ]  # rows are sorted by forecaster
        return Answers(
            scored["forecaster"].to_numpy(),
            np.array(item, dtype=object),
            np.concatenate(scores) if scores else np.empty(0),
            scored["cluster"].to_numpy() if scored["cluster"].nunique() < len(set(item)) else None,
            times.to_numpy() if times.notna().all() else None,
            None if len(set(weights.tolist())) < 2 else weights,
        )

    @property
    def _answering(self) -> list[str]:
        return [account.forecaster for account in self.accounts if account.n]

    def score_table(self, alpha: float = 0.05) -> ScoreTable:
        """Scores, decomposition, intervals and counts of every forecaster, best first."""
        from evalkit.forecasts.score_table import ScoreTable

        return ScoreTable.of(self, alpha=alpha)

    def leaderboard(self, *, reference: str | None = None, alpha: float = 0.05, seed: int = 0) -> Leaderboard:
        """Brier scores as `evalkit.scoring.leaderboard` has them: peers, ranks, and p-values of pairs.

        ``reference``: the forecaster that skill and advantage refer to.  Raises `EvalkitError` for a weighted set.
        """
        from evalkit.scoring import leaderboard

        answers = self.answers("brier")
        if answers.weights is not None:
            raise EvalkitError(
                "a leaderboard of pairs and peers takes no weights",
                where=self.provenance.name,
                do="take .score_table(), whose scores are weighted",
            )
        try:
            return leaderboard(
                answers.forecaster,
                answers.item,
                answers.score,
                cluster=answers.cluster,
                reference=reference,
                alpha=alpha,
                seed=seed,
                bounds=(0.0, 2.0 if self.classes else 1.0),
            )
        except ValueError as error:
            raise EvalkitError(str(error), where=self.provenance.name) from None

    def reliability(self, forecaster: str | None = None, **options: Any) -> ReliabilityDiagram:
        """The reliability diagram of one forecaster (the only one where none is named); binary forecasts.

        ``options`` go to `evalkit.calibration.reliability_diagram`.
        """
        from evalkit.calibration import reliability_diagram

        if self.classes:
            raise EvalkitError(
                f"a reliability diagram is of binary forecasts, and these are {self.kind}",
                do="take one class: set.of_class(0).reliability(…)",
            )
        if forecaster is None:
            if len(self.forecasters) > 1:
                raise EvalkitError("whose reliability?", expected=f"one of {', '.join(self.forecasters)}")
            forecaster = self.forecasters[0]
        items = self.items(forecaster)
        options = {"weights": items.weights, "allow_fractional": self.fractional, **options}
        return reliability_diagram(items.y, items.p, cluster=items.cluster, **options)

    def of_class(self, number: int) -> ForecastSet:
        """The binary forecasts of one class against all others."""
        if not 0 <= number < len(self.classes):
            raise EvalkitError(f"there is no class {number}", expected=f"0 … {len(self.classes) - 1}")
        frame = self._frame.drop(columns=self._forecast_names)
        outcome = frame["outcome"]
        frame["outcome"] = (outcome == number).astype(float).where(outcome.notna())
        frame.insert(4, "forecast", self._frame[f"forecast_{number}"])
        return ForecastSet("binary", (), False, self.provenance, frame)

    def to_frame(self) -> pd.DataFrame:
        """All rows, scored or not: a copy."""
        return self._frame.copy()

    def summary(self) -> str:
        """What the set holds, in a sentence or two."""
        lost = sum(a.n_missing for a in self.accounts)
        unresolved = sum(a.n_unresolved for a in self.accounts)
        clusters = self._scored["cluster"].nunique()
        kind = f"{self.kind} ({', '.join(self.classes)})" if self.classes else self.kind
        counted = [
            f"{self.n:,} scored {kind} forecast{'s' if self.n != 1 else ''}",
            f"{len(self.forecasters)} forecaster{'s' if len(self.forecasters) != 1 else ''}",
            f"{len(self.questions):,} resolved question{'s' if len(self.questions) != 1 else ''}"
            f" in {clusters:,} cluster{'s' if clusters != 1 else ''}",
            f"{lost:,} forecasts missing",
            f"{unresolved:,} without an outcome",
        ]
        return visible("; ".join(counted))

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{h}</th>" for h in ("Forecaster", "n", "missing", "unresolved", "absent"))
        rows = "".join(
            f"<tr><th>{escape(visible(a.forecaster))}</th><td>{a.n}</td><td>{a.n_missing}</td>"
            f"<td>{a.n_unresolved}</td><td>{a.n_absent}</td></tr>"
            for a in self.accounts
        )
        return (
            f"<table><caption>{escape(self.summary())}</caption><thead><tr>{head}</tr></thead>"
            f"<tbody>{rows}</tbody></table>"
        )


def _looks_like_forecasts(values: pd.Series, name: str) -> bool:
    """Whether a column holds numbers, and most of them in [0, 1]: one that does not fit is then an error, no guess."""
    numbers, problems = cells.numbers(values, name, "probability")
    there = numbers[~np.isnan(numbers)]
    return not problems and len(there) > 0 and 2 * int(((there >= 0) & (there <= 1)).sum()) > len(there)


def _without(table: pd.DataFrame, na: Sequence[str]) -> pd.DataFrame:
    """The table with the cells that are written as one of ``na`` emptied."""
    words = {text.strip() for text in na}
    emptied = table.copy()
    for name in table.columns:
        said = np.array([str(cell).strip() in words for cell in table[name].tolist()])
        if said.any():
            emptied[name] = table[name].astype(object).where(~said, None)
    return emptied
