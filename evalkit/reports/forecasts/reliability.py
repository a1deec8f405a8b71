"""Calibration in a report: reliability diagrams, miscalibration against discrimination, calibration errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.leaderboard import Leaderboard
from evalkit.reports.figures import show
from evalkit.reports.forecasts.reliability_grid import Panel, reliability_grid
from evalkit.reports.forecasts.wording import finite, interval, level, name, p_value
from evalkit.reports.tables import Column, Table

if TYPE_CHECKING:
    from evalkit.calibration import MiscalibrationInterval

#: diagrams in one figure
MOST = 18
#: forecasters in the table of calibration errors: each error is resampled
_TABLED = 40


@dataclass(frozen=True)
class ReliabilityView:
    forecasts: ForecastSet
    board: Leaderboard
    seed: int

    @cached_property
    def _subjects(self) -> list[tuple[str, ForecastSet, str]]:
        """What a diagram is of: title, binary forecasts and forecaster; classes one by one, against the rest."""
        ranked = [row.forecaster for row in self.board.rows if row.n]
        if not self.forecasts.classes:
            return [(name(who, 16), self.forecasts, who) for who in ranked]
        several = len(ranked) > 1
        return [
            (name(f"{who}: {label}" if several else label, 18), self.forecasts.of_class(k), who)
            for who in ranked
            for k, label in enumerate(self.forecasts.classes)
        ]

    def _diagram(self, forecasts: ForecastSet, who: str) -> Any:
        from evalkit.calibration import corp_decomposition

        items = forecasts.items(who)
        return corp_decomposition(
            items.y, items.p, weights=items.weights, allow_fractional=forecasts.fractional
        )

    def figure(self) -> None:
        """One forecaster's diagram in full, or several in small."""
        shown = self._subjects[:MOST]
        left = len(self._subjects) - len(shown)
        diagrams = [self._diagram(forecasts, who) for _, forecasts, who in shown]
        if len(shown) == 1:
            drawn = reliability_grid([self._panel(shown[0], diagrams[0])])
        else:
            drawn = reliability_grid(
                [self._panel(subject, d) for subject, d in zip(shown, diagrams, strict=True)]
            )
        of = "class against the rest" if self.forecasts.classes else "forecaster"
        show(
            drawn,
            alt="Reliability: "
            + "; ".join(
                f"{title}, n = {d.n}, miscalibration {d.mcb:.3f}, discrimination {d.dsc:.3f}"
                for (title, *_), d in zip(shown, diagrams, strict=True)
            )
            + ".",
            caption=(f"Reliability, one diagram a {of}. " if len(shown) > 1 else "Reliability. ")
            + f"On the diagonal is calibrated; in the shade lies the curve of a calibrated forecaster {level(self.board.alpha)} "
            "of the time, at each forecast by itself. Bars: how often each forecast was made."
            + (f" The {len(shown)} best are shown, {left} more are not." if left else ""),
        )

    def _panel(self, subject: tuple[str, ForecastSet, str], diagram: Any) -> Panel:
        import numpy as np

        title, forecasts, who = subject
        blocks = diagram.blocks
        return Panel(
            title,
            f"n = {diagram.n:,}, MCB {diagram.mcb:.3f}",
            np.column_stack([blocks.first, blocks.last]).ravel(),
            np.repeat(blocks.value, 2),
            forecasts.items(who).p,
        )

    @cached_property
    def _errors(self) -> list[tuple[str, Any, MiscalibrationInterval, Any, MiscalibrationInterval]]:
        from evalkit.calibration import calibration_error, smooth_calibration_error

        found = []
        first: Any
        second: Any
        for row in [row for row in self.board.rows if row.n][:_TABLED]:
            items = self.forecasts.items(row.forecaster)
            given: dict[str, Any] = {"weights": items.weights, "cluster": items.cluster, "seed": self.seed}
            if self.forecasts.classes:
                first = calibration_error(items.y, items.p, kind="top-label", **given)
                second = calibration_error(items.y, items.p, kind="classwise", **given)
            else:
                given["allow_fractional"] = self.forecasts.fractional
                first = calibration_error(items.y, items.p, **given)
                second = smooth_calibration_error(items.y, items.p, **given)
            found.append(
                (
                    row.forecaster,
                    first,
                    first.interval(self.board.alpha),
                    second,
                    second.interval(self.board.alpha),
                )
            )
        return found

    def errors(self) -> Table:
        """Calibration errors with intervals, and whether chance alone would do."""
        names = ("Top-label", "Classwise") if self.forecasts.classes else ("ECE, 10 bins", "Smooth")
        spread = f"{level(self.board.alpha)} interval"
        rows = [
            [
                name(who),
                first.n,
                float(first),
                interval(a.low, a.high),
                p_value(a.p_value),
                float(second),
                interval(b.low, b.high),
                p_value(b.p_value),
            ]
            for who, first, a, second, b in self._errors
        ]
        return Table(
            [
                "Forecaster",
                Column("n", numeric=True),
                Column(names[0], numeric=True, format=".3f"),
                Column(spread, numeric=True),
                Column("p", numeric=True),
                Column(names[1], numeric=True, format=".3f"),
                Column(spread, numeric=True),
                Column("p", numeric=True),
            ],
            rows,
            caption="Calibration errors",
            note="In units of probability; the values are those of the sample, which chance makes too large; the intervals "
            "are corrected for it. p: how often calibrated forecasts would show an error as large. "
            + ("Ten bins of equal width, of the likeliest class, and of every class." if self.forecasts.classes
               else "ECE: ten bins of equal width; smooth: no bins (Błasiok & Nakkiran 2023)."),
        )  # fmt: skip

    def results(self) -> list[dict[str, Any]]:
        names = ("top_label", "classwise") if self.forecasts.classes else ("ece", "smooth")
        return [
            {"forecaster": who}
            | {
                key: {
                    "value": finite(float(error)),
                    "low": finite(found.low),
                    "high": finite(found.high),
                    "p": finite(found.p_value),
                }
                for key, error, found in ((names[0], first, a), (names[1], second, b))
            }
            for who, first, a, second, b in self._errors
        ]
