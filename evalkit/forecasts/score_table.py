"""A table of scores: each forecaster's scores with intervals, decomposition and counts, best first.

Rules
- A score stands with its n, its interval, and how many forecasts are missing.  Nobody's missing forecasts are filled in.
- Raw scores of forecasters who answered different questions do not compare: where coverage differs, the score
  adjusted for the difficulty of the questions stands beside it (Karger et al. 2025).
- What cannot be computed is None, with the reason in ``notes``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from html import escape
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from evalkit.errors import EvalkitError
from evalkit.visible import visible

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from evalkit.forecasts.account import Account
    from evalkit.forecasts.forecast_set import ForecastSet
    from evalkit.scoring import Score


#: methods of `evalkit.uncertainty.mean_interval` in words
_METHODS = {
    "gaffke": "Gaffke's, for independent items in a bounded range",
    "gaffke on cluster means": "Gaffke's of cluster means, which are all equal",
    "cr2-t": "Student's t with a cluster-robust standard error (CR2)",
    "t": "Student's t, for independent items",
    "linearised-t": "Student's t of the weighted mean",
}


@dataclass(frozen=True)
class Row:
    """One forecaster.  ``base_rate`` is the share of events (binary); ``n_clusters`` what the interval rests on.

    ``rank_low`` to ``rank_high``: the ranks that the data leave open.
    """

    forecaster: str
    n: int
    n_missing: int
    n_unresolved: int
    n_absent: int
    n_clusters: int
    base_rate: float | None
    brier: float | None
    brier_low: float | None
    brier_high: float | None
    log: float | None
    rps: float | None
    mcb: float | None
    dsc: float | None
    unc: float | None
    adjusted: float | None
    adjusted_low: float | None
    adjusted_high: float | None
    rank: int | None
    rank_low: int | None
    rank_high: int | None


@dataclass(frozen=True)
class ScoreTable:
    """Rows, best first: by the adjusted Brier score where there is one, else by the Brier score.

    ``unequal_coverage``: forecasters answered different questions.  Then raw scores do not compare, and without
    ``adjusted`` scores neither does the order.
    """

    rows: tuple[Row, ...]
    kind: str
    alpha: float
    unequal_coverage: bool
    adjusted: bool
    conventions: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def of(cls, forecasts: ForecastSet, *, alpha: float = 0.05) -> ScoreTable:
        """The table of a set.  ``alpha``: intervals have level 1 - alpha."""
        notes: list[str] = []
        scored = [account for account in forecasts.accounts if account.n]
        if not scored:
            raise EvalkitError(
                "no forecast can be scored",
                where=forecasts.provenance.name,
                expected="at least one row with a forecast and an outcome",
                do="check the outcome column",
            )
        # whoever answered everything has a forecast for every item that anybody has one for
        unequal = any(account.n < forecasts.n_items for account in scored)
        places = _places(forecasts, alpha, notes) if len(scored) > 1 else {}
        methods: list[str] = []
        rows = [
            _row(forecasts, account, alpha, places, unequal, notes, methods) for account in forecasts.accounts
        ]

        def place(row: Row) -> tuple[bool, float, str]:
            score = row.adjusted if row.adjusted is not None else row.brier
            return score is None, score if score is not None else 0.0, row.forecaster

        return cls(
            tuple(sorted(rows, key=place)),
            forecasts.kind,
            alpha,
            unequal,
            unequal and bool(places),
            tuple(_conventions(forecasts, scored[0].forecaster, methods)),
            tuple(dict.fromkeys([*notes, *_infinite(rows)])),
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        names = [f.name for f in fields(Row)]
        return pd.DataFrame([[getattr(row, name) for name in names] for row in self.rows], columns=names)

    def to_json(self) -> dict[str, Any]:
        """Plain values, None where a number is not finite (and named in ``infinite``)."""
        records = []
        for row in self.rows:
            record: dict[str, Any] = {f.name: getattr(row, f.name) for f in fields(Row)}
            endless = [k for k, v in record.items() if isinstance(v, float) and math.isinf(v)]
            records.append(
                {k: None if k in endless else v for k, v in record.items()} | {"infinite": endless}
            )
        return {
            "kind": self.kind,
            "level": 1 - self.alpha,
            "rows": records,
            "conventions": list(self.conventions),
            "notes": list(self.notes),
        }

    def summary(self) -> str:
        """The table as text, a line for each forecaster."""
        from evalkit.forecasts.text_table import text_table

        return text_table(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Scores with their intervals, best on top: adjusted ones where coverage differs."""
        from evalkit.interval_plot import interval_plot
        from evalkit.scoring.score_plot import estimates

        rows = [row for row in self.rows if row.brier is not None]
        names = (
            ("adjusted", "adjusted_low", "adjusted_high")
            if self.adjusted
            else ("brier", "brier_low", "brier_high")
        )
        value, low, high = (
            np.array([math.nan if (x := getattr(row, name)) is None else x for row in rows]) for name in names
        )
        return interval_plot(
            estimates([visible(row.forecaster) for row in rows], value, low, high, [row.n for row in rows]),
            ax,
            reference=None,
            xlabel=f"{'adjusted ' if self.adjusted else ''}Brier score, {100 * (1 - self.alpha):g}% interval",
        )

    def _repr_html_(self) -> str:
        return f"<pre>{escape(self.summary())}</pre>"


def _row(
    forecasts: ForecastSet,
    account: Account,
    alpha: float,
    places: dict[str, Place],
    unequal: bool,
    notes: list[str],
    methods: list[str],
) -> Row:
    name = account.forecaster
    brier = low = high = log = rps = rate = mcb = dsc = unc = None
    if account.n:
        score = forecasts.score_of(name, "brier")
        brier = float(score)
        low, high = _interval(score, name, alpha, notes, methods)
        log = _log(forecasts, name, notes)
        if forecasts.kind == "ordinal":
            rps = float(forecasts.score_of(name, "rps"))
        if forecasts.kind == "binary":
            corp = _corp(forecasts, name)
            rate, mcb, dsc, unc = corp.base_rate, corp.mcb, corp.dsc, corp.unc
    else:
        notes.append(f"{visible(name)} has no forecast that can be scored")
    place = places.get(name)
    nothing = Place((None, None, None), (None, None, None))
    rank = (place or nothing).rank
    better = (place or nothing).adjusted if unequal else nothing.adjusted
    return Row(
        name, account.n, account.n_missing, account.n_unresolved, account.n_absent, account.n_clusters,
        rate, brier, low, high, log, rps, mcb, dsc, unc, *better, *rank,
    )  # fmt: skip


def _interval(
    score: Score, name: str, alpha: float, notes: list[str], methods: list[str]
) -> tuple[float | None, float | None]:
    found = score.interval(alpha)
    if math.isnan(found.low):
        notes.append(f"no interval for {visible(name)}: {found.reason}")
        return None, None
    notes.extend(found.caveats)
    methods.append(_METHODS.get(found.method, found.method))
    return float(found.low), float(found.high)


def _log(forecasts: ForecastSet, name: str, notes: list[str]) -> float | None:
    if forecasts.fractional:
        notes.append("no log score: it is defined here for outcomes 0 and 1")
        return None
    return float(forecasts.score_of(name, "log"))


def _infinite(rows: list[Row]) -> list[str]:
    names = [visible(row.forecaster) for row in rows if row.log is not None and math.isinf(row.log)]
    if not names:
        return []
    shown = ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
    return [
        f"an infinite log score ({shown}): something happened that had probability 0, or did not that had 1; nothing "
        "is clipped"
    ]


def _corp(forecasts: ForecastSet, name: str) -> Any:
    from evalkit.calibration import corp_decomposition

    items = forecasts.items(name)
    return corp_decomposition(items.y, items.p, weights=items.weights, allow_fractional=forecasts.fractional)


class Place(NamedTuple):
    """Adjusted score with its interval, and the rank with those that the data leave open."""

    adjusted: tuple[float | None, float | None, float | None]
    rank: tuple[int | None, int | None, int | None]


def _places(forecasts: ForecastSet, alpha: float, notes: list[str]) -> dict[str, Place]:
    """By forecaster; empty where difficulty and skill cannot be told apart.

    Who answered everything keeps the raw score: where all did, the ranks are those of raw scores.
    """
    from evalkit.scoring import difficulty_adjusted

    answers = forecasts.answers("brier")
    try:
        found = difficulty_adjusted(
            answers.forecaster,
            answers.item,
            answers.score,
            weights=answers.weights,
            cluster=answers.cluster,
            alpha=alpha,
        )
    except ValueError as error:
        notes.append(f"no adjusted scores and no ranks: {error}")
        return {}
    ranks = found.ranks
    places = {}
    for i, name in enumerate(map(str, found.forecasters)):
        low, high = found.interval(name)
        if math.isnan(low):
            notes.append(f"no interval for the adjusted score of {visible(name)}: it rests on one cluster")
        known = (None, None) if math.isnan(low) else (low, high)
        rank = (int(ranks.rank[i]), int(ranks.low[i]), int(ranks.high[i]))
        places[name] = Place((found.score(name), *known), rank)
    return places


def _conventions(forecasts: ForecastSet, name: str, methods: list[str]) -> list[str]:
    """What the numbers are; ``name``: somebody who has a score, ``methods``: of the intervals."""
    said = [f"Brier score: {forecasts.score_of(name).convention}"]
    if methods:
        said.append("intervals: " + "; ".join(dict.fromkeys(methods)))
    if not forecasts.fractional:
        said.append(f"log score: {forecasts.score_of(name, 'log').convention}")
    if forecasts.kind == "ordinal":
        said.append(f"RPS: {forecasts.score_of(name, 'rps').convention}")
    if forecasts.kind == "binary":
        said.append("Brier = MCB - DSC + UNC by isotonic regression (CORP): miscalibration, discrimination, "
                    "uncertainty of the outcomes")  # fmt: skip
    return said
