"""Comparison in a report: who is better on the questions that both answered, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.score_table import ScoreTable
from evalkit.reports.figures import show
from evalkit.reports.forecasts.wording import counted, finite, interval, level, name, named, p_value
from evalkit.reports.tables import Column, Html, Table, notice

if TYPE_CHECKING:
    from evalkit.scoring import Comparison, PairComparison

#: forecasters who are compared pair by pair, from the best
MOST = 18
#: up to so many forecasters the table has all pairs, and the picture would say nothing more
FEW = 4


@dataclass(frozen=True)
class ComparisonView:
    forecasts: ForecastSet
    board: ScoreTable
    seed: int

    @cached_property
    def _names(self) -> list[str]:
        return [row.forecaster for row in self.board.rows if row.n][:MOST]

    @cached_property
    def comparison(self) -> Comparison | None:
        """All pairs of the best `MOST` forecasters; None where there are fewer than two."""
        from evalkit.scoring import compare

        if len(self._names) < 2:
            return None
        answers = self.forecasts.answers("brier")
        kept = [i for i, who in enumerate(answers.forecaster.tolist()) if who in set(self._names)]
        high = 2.0 if self.forecasts.classes else 1.0
        return compare(
            answers.forecaster[kept],
            answers.item[kept],
            answers.score[kept],
            cluster=None if answers.cluster is None else answers.cluster[kept],
            alpha=self.board.alpha,
            seed=self.seed,
            bounds=(0.0, high),
        )

    def table(self) -> Table | Html:
        """All pairs of a few forecasters, or everybody against the best."""
        found = self.comparison
        if found is None:
            return notice(
                "info", "There is one forecaster, so there is nothing to compare.", heading="One forecaster"
            )
        every = len(self._names) <= FEW
        best = self._reference(found)
        every_pair = [found.pair(b, a) for i, a in enumerate(self._names) for b in self._names[i + 1 :]]
        pairs = every_pair if every else [found.pair(who, best) for who in self._names if who != best]
        apart = sum(pair.n == 0 for pair in pairs)
        pairs = [pair for pair in pairs if pair.n]
        columns: list[Column | str] = [
            "First" if every else "Forecaster",
            "Second",
            Column("n", numeric=True),
            Column("Clusters", numeric=True),
            Column("Difference", numeric=True, format="+.3f"),
            Column(f"{level(self.board.alpha)} interval", numeric=True),
            Column("p", numeric=True),
            Column("p, Holm", numeric=True),
        ]
        left = {1} if not every else set()
        left |= set() if found.clustered else {3}
        rows = [[cell for i, cell in enumerate(self._row(pair)) if i not in left] for pair in pairs]
        return Table(
            [column for i, column in enumerate(columns) if i not in left],
            rows,
            caption="Pairs: mean Brier score of the first less that of the second"
            if every
            else f"Mean Brier score less that of {name(best)}",
            note=("Above zero: the first is worse." if every else "Above zero: worse.")
            + " Each pair on the questions that both answered. p: sign-flip permutation test"
            + (", clusters flip as a whole" if found.clustered else "")
            + f"; Holm over {counted(sum(math.isfinite(pair.p) for pair in found.pairs), 'pair')}"
            + (f" of the {MOST} best" if len(self.board.rows) > MOST else "")
            + "."
            + (f" {counted(apart, 'pair')} without a common question left out." if apart else "")
            + self._two_answers(pairs)
            + ("" if every else " The best was picked by its score, which makes it look better than it is."),
        )

    def _two_answers(self, pairs: list[PairComparison]) -> str:
        """Why a small p may stand beside an interval with zero in it, where one does."""
        if not any(p.p <= self.board.alpha and p.low <= 0 <= p.high for p in pairs):
            return ""
        return (
            " p and interval are two methods, and the interval is the more cautious one: where it holds zero beside a "
            "small p, take the difference as not settled."
        )

    def _reference(self, found: Comparison) -> str:
        """The best of those who share a question with somebody."""
        for who in self._names:
            if any(found.pair(who, other).n for other in self._names if other != who):
                return who
        return self._names[0]

    def _row(self, pair: PairComparison) -> list[Any]:
        return [
            named(str(pair.first)),
            named(str(pair.second)),
            pair.n,
            pair.n_clusters,
            None if math.isnan(pair.difference) else pair.difference,
            interval(pair.low, pair.high),
            p_value(pair.p),
            p_value(pair.p_adjusted),
        ]

    def figure(self) -> None:
        """All pairs in one picture, where the table has not all of them."""
        found = self.comparison
        if found is None or len(self._names) <= FEW:
            return
        clear = [p for p in found.pairs if math.isfinite(p.p_adjusted) and p.p_adjusted <= self.board.alpha]
        order = [row.forecaster for row in self.board.rows if row.forecaster in found.forecasters]
        drawn = found.plot(order=order).get_figure(root=True)
        assert drawn is not None
        show(
            drawn,
            alt=f"Matrix of {len(found.pairs)} pairs of forecasters; {len(clear)} of them differ clearly.",
            caption="Row against column: the mark says who is better, its size by how much; filled where the "
            f"difference is clear at {self.board.alpha:g} (Holm).",
        )

    def results(self) -> list[dict[str, Any]]:
        if self.comparison is None:
            return []
        return [
            {
                "first": str(p.first),
                "second": str(p.second),
                "n": p.n,
                "n_clusters": p.n_clusters,
                "difference": finite(p.difference),
                "low": finite(p.low),
                "high": finite(p.high),
                "p": finite(p.p),
                "p_adjusted": finite(p.p_adjusted),
            }
            for p in self.comparison.pairs
        ]
