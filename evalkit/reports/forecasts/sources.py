"""Where the numbers of a report come from: file, reading, what is missing, conventions, and what they do not show."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape
from typing import Any

from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.score_table import ScoreTable
from evalkit.reports.forecasts.wording import counted, named
from evalkit.reports.tables import Column, Html, Table, notice
from evalkit.visible import visible

#: what every method of the report is, where it comes from, and what it does not show
_METHODS = {
    "Brier score": "Squared distance of the probability from what happened (Brier 1950). It falls with better "
    "calibration and with better discrimination alike, and alone it does not say which.",
    "Decomposition": "MCB, DSC and UNC by isotonic regression (Dimitriadis, Gneiting & Jordan 2021): no bins to choose. "
    "MCB is above zero by chance even for a calibrated forecaster, the more so the smaller n is.",
    "Log score": "Negative log of the probability of what happened, in nats (Good 1952).",
    "Intervals": "They say how far the score might lie from its expectation over such questions, with clusters as the "
    "units of chance. They say nothing of questions of another kind.",
    "Adjusted score": "Two-way least squares of forecasters and questions (Karger et al. 2025).",
    "Base rate": "The base rate is that of these very questions, known only afterwards: a benchmark that nobody could "
    "have used.",
    "Ranked probability score": "Squared distance of the cumulative probabilities (Epstein 1969): a near miss costs "
    "less than a wide one.",
}


@dataclass(frozen=True)
class SourcesView:
    forecasts: ForecastSet
    board: ScoreTable

    def missing(self) -> Table | Html:
        """What was asked and not answered, by forecaster."""
        rows = [
            [named(r.forecaster), r.n, r.n_missing, r.n_unresolved, r.n_absent]
            for r in sorted(self.board.rows, key=lambda r: r.forecaster)
        ]
        if not any(row[2] or row[3] or row[4] for row in rows):
            return notice(
                "ok",
                f"Every forecaster answered every question, and every question has an outcome "
                f"({counted(self.forecasts.n, 'forecast')}).",
                heading="Complete",
            )
        return Table(
            [
                "Forecaster",
                Column("Scored", numeric=True),
                Column("Missing", numeric=True),
                Column("Unresolved", numeric=True),
                Column("Absent", numeric=True),
            ],
            rows,
            caption="Forecasts that are not there",
            note="Missing: a row without a forecast though the outcome is known. Unresolved: a row without an outcome. "
            "Absent: resolved questions without a row. Nothing is filled in, and who leaves hard questions out has a better raw score for it.",
        )

    def data(self) -> Table:
        """The file, how it was read, and what its importer has to say."""
        origin = self.forecasts.provenance
        rows = [["File", visible(origin.name)]]
        rows += [["SHA-256", origin.digest.removeprefix("sha256:")]] if origin.digest else []
        rows += [["Rows", f"{origin.rows:,}"], ["Layout", origin.layout]]
        rows += (
            [["Classes", ", ".join(map(visible, self.forecasts.classes))]] if self.forecasts.classes else []
        )
        rows += [["Read as", visible(text)] for text in origin.guessed]
        rows += [["Note", visible(text)] for text in origin.notes]
        return Table(["What", "Value"], rows, caption="Data", stack=True)

    def methods(self) -> Html:
        """Conventions of these numbers, then what each method shows and does not."""
        said = "".join(f"<li>{escape(visible(text))}</li>" for text in self.board.conventions)
        kind = self.forecasts.kind
        told = {
            title: text
            for title, text in _METHODS.items()
            if (title != "Ranked probability score" or kind == "ordinal")
            and (title not in ("Decomposition", "Base rate") or kind == "binary")
            and (title != "Adjusted score" or self.board.adjusted)
            and (title != "Log score" or not self.forecasts.fractional)
        }
        terms = "".join(f"<li><b>{escape(title)}.</b> {escape(text)}</li>" for title, text in told.items())
        return Html(f"<ul>{said}</ul><ul>{terms}</ul>", "; ".join(self.board.conventions))

    def results(self) -> dict[str, Any]:
        origin = self.forecasts.provenance
        return {
            "name": origin.name,
            "digest": origin.digest,
            "rows": origin.rows,
            "layout": origin.layout,
            "notes": list(origin.notes),
        }
