"""Scores in a report: headline, scores as a table and as a figure, and what to be careful about."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.score_table import Row, ScoreTable
from evalkit.interval_plot import Estimate
from evalkit.reports.figures import interval_plot, show
from evalkit.reports.forecasts.wording import counted, interval, level, name, named
from evalkit.reports.tables import Card, Column, Html, Table, cards, notice

#: fewer independent units than this, and an interval leans on assumptions
_FEW = 30
#: forecasters in the figure
_SHOWN = 40


@dataclass(frozen=True)
class ScoresView:
    forecasts: ForecastSet
    board: ScoreTable

    @property
    def _best(self) -> Row:
        return self.board.rows[0]

    @property
    def _adjusted(self) -> bool:
        return self.board.adjusted

    @property
    def _comparable(self) -> bool:
        """Whether the order of the forecasters says anything."""
        return self.board.adjusted or not self.board.unequal_coverage

    def cards(self) -> Html:
        """n, forecasters, the best score with its interval, and how often it happened."""
        forecasts, best = self.forecasts, self._best
        clusters = forecasts.to_frame().loc[lambda f: f["outcome"].notna(), "cluster"].nunique()
        missing = sum(row.n_missing for row in self.board.rows)
        unresolved = sum(row.n_unresolved for row in self.board.rows)
        dropped = [counted(missing, "missing forecast")] if missing else []
        dropped += [f"{unresolved:,} without an outcome"] if unresolved else []
        value, low, high = (
            (best.adjusted, best.adjusted_low, best.adjusted_high)
            if self._adjusted
            else (best.brier, best.brier_low, best.brier_high)
        )
        spread = interval(low, high)
        several = len(self.board.rows) > 1
        which = "adjusted " if self._adjusted else "" if self._comparable else "raw "
        label = ("Lowest " if several else "") + which + "Brier score"
        return cards(
            [
                Card(
                    "Scored forecasts",
                    f"{forecasts.n:,}",
                    note=f"{counted(len(forecasts.questions), 'resolved question')} in "
                    f"{counted(clusters, 'cluster')}; " + ("; ".join(dropped) or "none missing"),
                ),
                Card(
                    "Forecasters" if several else "Forecaster",
                    f"{len(self.board.rows):,}" if several else name(best.forecaster, 24),
                    note=f"{forecasts.kind} forecasts"
                    + (f" of {len(forecasts.classes)} classes" if forecasts.classes else ""),
                ),
                Card(
                    label[0].upper() + label[1:],
                    "–" if value is None else f"{value:.3f}",
                    interval=f"{level(self.board.alpha)} interval {spread}" if spread else "no interval",
                    n=f"{best.n:,}" + (f" in {counted(best.n_clusters, 'cluster')}" if best.n_clusters != best.n else ""),
                    kind=None if self._comparable else "warn",
                    note=(f"{name(best.forecaster)}; " if several else "")
                    + ("" if self._comparable else "answered other questions than the rest: no best forecaster; ")
                    + self.forecasts.score_of(best.forecaster).convention
                    + (f"; always saying {best.base_rate:.3f} would have scored {best.unc:.3f}"
                       if best.unc is not None and best.base_rate is not None else ""),
                ),
                self._outcomes(),
            ]
        )  # fmt: skip

    def _outcomes(self) -> Card:
        """How often it happened: the base rate of the questions, or the most frequent class."""
        from evalkit.uncertainty import mean_interval

        asked = self._questions()
        outcome = asked["outcome"].to_numpy(dtype=float)
        if self.forecasts.classes:
            most = int(asked["outcome"].value_counts().sort_index().idxmax())
            label, outcome = f"Outcome “{self.forecasts.classes[most]}”", (outcome == most).astype(float)
        else:
            label = "Base rate"
        cluster = None if asked["cluster"].is_unique else asked["cluster"].to_numpy()
        found = mean_interval(outcome, lo=0.0, hi=1.0, cluster=cluster, alpha=self.board.alpha)
        spread = interval(found.low, found.high)
        return Card(
            label,
            f"{found.mean:.3f}",
            interval=f"{level(self.board.alpha)} interval {spread}" if spread else "no interval",
            n=counted(found.n, "question")
            + (f" in {counted(found.n_clusters, 'cluster')}" if found.n_clusters is not None else ""),
            note="the most frequent class; share of the resolved questions"
            if self.forecasts.classes
            else "share of the resolved questions that happened",
        )

    def _questions(self) -> Any:
        frame = self.forecasts.to_frame()
        return frame[frame["outcome"].notna()].drop_duplicates("question").sort_values("question")

    def cautions(self) -> Html:
        """What must be known before any number is believed."""
        rows = [row for row in self.board.rows if row.n]
        parts = []
        fewest = min(row.n_clusters for row in rows)
        if fewest < _FEW:
            parts.append(
                notice(
                    "warn",
                    f"The scores of {'every forecaster' if max(r.n_clusters for r in rows) < _FEW else 'at least one forecaster'} "
                    f"rest on few independent units ({fewest:,} at least). Differences of this size come from luck "
                    "easily; read the intervals, not the order.",
                    heading="Few questions",
                )
            )
        if self._adjusted:
            parts.append(
                notice(
                    "info",
                    "The forecasters answered different questions, so their raw scores do not compare. The order is by "
                    "the adjusted score, which takes off how hard the questions were. It assumes that a hard "
                    "question is equally hard for everybody.",
                    heading="Different questions",
                )
            )
        elif not self._comparable:
            parts.append(
                notice(
                    "warn",
                    "The forecasters answered different questions, and nothing tells how hard these are against each "
                    "other: raw scores of different groups do not compare, and their order means nothing.",
                    heading="Different questions",
                )
            )
        parts += [
            notice("warn", text[0].upper() + text[1:] + ".", heading="Not computed")
            for text in self.board.notes
            if text.startswith("no ")
        ]
        endless = [row for row in rows if row.log is not None and math.isinf(row.log)]
        if endless:
            names = ", ".join(name(row.forecaster) for row in endless[:6])
            more = f" and {len(endless) - 6} more" if len(endless) > 6 else ""
            parts.append(
                notice(
                    "warn",
                    f"{names}{more}: at least once something was said to be impossible or certain, and was not. The "
                    "log score of such a forecast is infinite; nothing is clipped.",
                    heading="Infinite log score",
                )
            )
        if not self._clustered and len(self._questions()) > 1:
            parts.append(
                notice(
                    "info",
                    "Every question is taken as independent of the others. If some share their luck (days in a row, "
                    "districts of one election, horizons of one question), name what they share as the cluster; "
                    "the intervals are too narrow otherwise.",
                    heading="Independent questions",
                )
            )
        return Html("\n".join(p.markup for p in parts), "; ".join(map(str, parts)))

    @property
    def _clustered(self) -> bool:
        return not self._questions()["cluster"].is_unique

    def table(self) -> Table:
        """Scores of all forecasters, best first."""
        rows, board = self.board.rows, self.board
        binary, ordinal = board.kind == "binary", board.kind == "ordinal"
        columns: list[tuple[Column, Any]] = [
            (Column("Forecaster"), lambda r: named(r.forecaster)),
            (Column("n", numeric=True), lambda r: r.n),
        ]
        if any(r.rank is not None for r in rows):
            columns.insert(1, (Column("Rank", numeric=True), _rank))
        if any(r.n_clusters != r.n for r in rows):
            columns.append((Column("Clusters", numeric=True), lambda r: r.n_clusters))
        if self._adjusted:
            columns += [
                (Column("Adjusted", numeric=True, format=".3f"), lambda r: r.adjusted),
                (Column(f"{level(board.alpha)} interval", numeric=True),
                 lambda r: interval(r.adjusted_low, r.adjusted_high)),
            ]  # fmt: skip
        columns.append((Column("Brier", numeric=True, format=".3f"), lambda r: r.brier))
        if not self._adjusted:
            columns.append(
                (
                    Column(f"{level(board.alpha)} interval", numeric=True),
                    lambda r: interval(r.brier_low, r.brier_high),
                )
            )
        if ordinal:
            columns.append((Column("RPS", numeric=True, format=".3f"), lambda r: r.rps))
        if not self.forecasts.fractional:
            columns.append((Column("Log", numeric=True, format=".3f"), lambda r: r.log))
        if binary:
            columns += [
                (Column("MCB", numeric=True, format=".3f"), lambda r: r.mcb),
                (Column("DSC", numeric=True, format=".3f"), lambda r: r.dsc),
                (Column("UNC", numeric=True, format=".3f"), lambda r: r.unc),
            ]
        return Table(
            [column for column, _ in columns],
            [[of(row) for _, of in columns] for row in rows],
            caption="Scores"
            if len(rows) == 1
            else "Scores, best first"
            if self._comparable
            else "Raw scores, lowest first",
            note=("Rank: in brackets those that the data leave open. " if rows[0].rank is not None else "")
            + "Lower is better, for DSC higher. Brier = MCB − DSC + UNC: miscalibration, discrimination, uncertainty "
            "of the outcomes."
            if binary
            else "Lower is better.",
        )

    def figure(self) -> None:
        """Scores with their intervals; nothing for a single forecaster."""
        rows = [r for r in self.board.rows if r.brier is not None]
        if len(rows) < 2:
            return
        shown = rows[:_SHOWN]
        estimates = [self._estimate(r) for r in shown]
        base = self._questions()["outcome"].mean()
        reference = base * (1 - base) if self.forecasts.kind == "binary" else None
        label = f"{'adjusted ' if self._adjusted else ''}Brier score, {level(self.board.alpha)} interval"
        drawn = interval_plot(
            estimates,
            reference=reference,
            xlabel=label + (f"\n(dashed: the base rate {base:.3f}, always)" if reference is not None else ""),
        )
        first, last = estimates[0], estimates[-1]
        title = "Adjusted Brier scores" if self._adjusted else "Brier scores"
        left = f" {len(rows) - len(shown)} more are in the table." if len(rows) > len(shown) else ""
        show(
            drawn,
            alt=f"{title} of {len(shown)} forecasters with intervals, from {first.label} "
            f"{first.value:.3f} to {last.label} {last.value:.3f}.",
            caption=f"{title}, {'best' if self._comparable else 'lowest'} on top.{left}",
        )

    def _estimate(self, r: Row) -> Estimate:
        """The score that the order is by, with its interval; a point alone where there is none."""
        value, low, high = r.brier, r.brier_low, r.brier_high
        if r.adjusted is not None:
            value, low, high = r.adjusted, r.adjusted_low, r.adjusted_high
        assert value is not None
        if low is None or high is None or math.isnan(low):
            low = high = value
        return Estimate(name(r.forecaster, 34), value, low, high, r.n)


def _rank(row: Row) -> str | None:
    return None if row.rank is None else f"{row.rank} ({row.rank_low}–{row.rank_high})"
