"""Calibration in a report: reliability diagrams, miscalibration against discrimination, calibration errors."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.score_table import ScoreTable
from evalkit.reports.figures import show
from evalkit.reports.forecasts.wording import distinct, finite, interval, level, name, named, p_value
from evalkit.reports.tables import Column, Table

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from evalkit.calibration import MiscalibrationInterval, ReliabilityDiagram

#: diagrams in all, and in one figure: three rows of two, which fit a page
MOST, ON_A_PAGE = 18, 6
#: of the area in which a calibrated forecaster's curve lies
LEVEL = 0.9
#: forecasters in the table of calibration errors: each error is resampled
_TABLED = 40


@dataclass(frozen=True)
class ReliabilityView:
    forecasts: ForecastSet
    board: ScoreTable
    seed: int

    @cached_property
    def _subjects(self) -> list[tuple[str, ForecastSet, str]]:
        """What a diagram is of: title, binary forecasts and forecaster; classes one by one, against the rest."""
        ranked = [row.forecaster for row in self.board.rows if row.n]
        classes = self.forecasts.classes
        most = 22 if len(ranked) * max(len(classes), 1) > 1 else 30
        if not classes:
            found = [(name(who, most), self.forecasts, who) for who in ranked]
        else:
            found = [
                (
                    "\n".join(name(text, most) for text in ([who, label] if len(ranked) > 1 else [label])),
                    one,
                    who,
                )
                for who in ranked
                for label, one in self._classes.items()
            ]
        titles = distinct([title for title, *_ in found])
        return [(title, one, who) for title, (_, one, who) in zip(titles, found, strict=True)]

    @cached_property
    def _classes(self) -> dict[str, ForecastSet]:
        return {label: self.forecasts.of_class(k) for k, label in enumerate(self.forecasts.classes)}

    @cached_property
    def _diagrams(self) -> list[ReliabilityDiagram]:
        return [
            forecasts.reliability(who, level=LEVEL, seed=self.seed)
            for _, forecasts, who in self._subjects[:MOST]
        ]

    def figure(self) -> None:
        """One diagram in full, or two abreast in as many figures as it takes."""
        from evalkit.calibration import reliability_grid

        diagrams = dict(zip((title for title, *_ in self._subjects), self._diagrams, strict=False))
        if len(diagrams) == 1:
            self._show(diagrams, next(iter(diagrams.values())).plot(), "")
            return
        titles = list(diagrams)
        pages = [titles[i : i + ON_A_PAGE] for i in range(0, len(titles), ON_A_PAGE)]
        for number, page in enumerate(pages, 1):
            some = {title: diagrams[title] for title in page}
            place = f" ({number} of {len(pages)})" if len(pages) > 1 else ""
            self._show(some, reliability_grid(some)[0], place)

    def _show(self, diagrams: dict[str, ReliabilityDiagram], axes: Axes, place: str) -> None:
        drawn = axes.get_figure(root=True)
        assert drawn is not None
        of = "class against the rest" if self.forecasts.classes else "forecaster"
        left = len(self._subjects) - len(self._diagrams)
        terms = [(title, d, d.decomposition) for title, d in diagrams.items()]
        show(
            drawn,
            alt="Reliability: "
            + "; ".join(
                f"{title.replace(chr(10), ', ')}, n = {d.n}, miscalibration {t.mcb:.3f}, discrimination {t.dsc:.3f}"
                for title, d, t in terms
            )
            + ".",
            caption=(
                f"Reliability, one diagram a {of}{place}. " if len(self._diagrams) > 1 else "Reliability. "
            )
            + f"A calibrated forecaster's curve lies on the diagonal but for chance: at each forecast by itself, in the area "
            f"{LEVEL:.0%} of the time. Bars: how often each forecast was made."
            + (f" {left} more are not shown." if left else ""),
        )

    def mcb_dsc(self) -> None:
        """Miscalibration against discrimination; nothing for a single forecaster or several classes."""
        from evalkit.calibration import discrimination_plot

        if self.forecasts.classes or len(self._diagrams) < 2:
            return
        shown = distinct([name(who, 24) for _, _, who in self._subjects[:MOST]])
        terms = {who: d.decomposition for who, d in zip(shown, self._diagrams, strict=True)}
        drawn = discrimination_plot(terms).get_figure(root=True)
        assert drawn is not None
        show(
            drawn,
            alt="Miscalibration and discrimination: "
            + "; ".join(f"{who} {t.mcb:.3f} and {t.dsc:.3f}" for who, t in terms.items())
            + ".",
            caption="Miscalibration against discrimination: to the left is calibrated, up is telling events from non-events, "
            "and the lines join equal scores.",
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
        names = ("Top-label", "Classwise") if self.forecasts.classes else ("ECE", "Smooth")
        spread = f"{level(self.board.alpha)} interval"
        rows = [
            [
                named(who),
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
               else "ECE: ten bins of equal width; smooth: no bins (Błasiok & Nakkiran 2023).")
            + (" The p are of one forecaster each, not corrected for how many there are." if len(rows) > 1 else "")
            + self._two_answers(),
        )  # fmt: skip

    def _two_answers(self) -> str:
        """Why a small p may stand beside an interval from zero, where one does."""
        found = [one for _, _, a, _, b in self._errors for one in (a, b)]
        if not any(one.p_value <= self.board.alpha and one.low <= 0 for one in found):
            return ""
        return (
            " Near zero the intervals are wider than they need be, so that one may reach zero where p is small: p is the "
            "answer to whether there is an error, the interval to how large it may be."
        )

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
