"""What a report on forecasts shows: scores, reliability, comparison, and where the data come from.

Each section is a view with functions that return a table or a piece of HTML, or show a figure; the notebook
``report-forecasts`` calls them one after the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from evalkit.forecasts.forecast_set import ForecastSet
from evalkit.forecasts.score_table import ScoreTable
from evalkit.importers import open_forecasts
from evalkit.reports.forecasts.comparison import ComparisonView
from evalkit.reports.forecasts.reliability import ReliabilityView
from evalkit.reports.forecasts.scores import ScoresView
from evalkit.reports.forecasts.sources import SourcesView
from evalkit.reports.page import refuse_target, write_page
from evalkit.resources import resource

NOTEBOOK = "report-forecasts"
#: the forecasts of a notebook that was given none, and how to read them
EXAMPLE = ("forecasts", "panel.csv")
_EXAMPLE_COLUMNS = {"cluster": "topic"}


@dataclass(frozen=True)
class ForecastReport:
    """Forecasts, ready to be shown."""

    forecasts: ForecastSet
    alpha: float = 0.05
    seed: int = 0

    @classmethod
    def load(
        cls, file: str | Path = "", *, alpha: float = 0.05, seed: int = 0, **options: Any
    ) -> ForecastReport:
        """Read a file (`evalkit.importers.open_forecasts` with its options); without one, the example."""
        if not file:
            options = {"columns": _EXAMPLE_COLUMNS}
            file = resource("data", *EXAMPLE)
        return cls(open_forecasts(file, **options), alpha, seed)

    @cached_property
    def board(self) -> ScoreTable:
        return self.forecasts.score_table(self.alpha)

    @cached_property
    def scores(self) -> ScoresView:
        return ScoresView(self.forecasts, self.board)

    @cached_property
    def reliability(self) -> ReliabilityView:
        return ReliabilityView(self.forecasts, self.board, self.seed)

    @cached_property
    def comparison(self) -> ComparisonView:
        return ComparisonView(self.forecasts, self.board, self.seed)

    @cached_property
    def sources(self) -> SourcesView:
        return SourcesView(self.forecasts, self.board)

    def results(self) -> dict[str, Any]:
        """Numbers for ``results.json``."""
        return {
            "source": self.sources.results(),
            "scores": self.board.to_json(),
            "calibration": self.reliability.results(),
            "comparison": self.comparison.results(),
        }


def write_report(file: Path, target: Path, *, alpha: float = 0.05, seed: int = 0, **options: Any) -> Path:
    """Run the report notebook on a file and put the page at ``target``.  Options as `open_forecasts`.

    Raises `CellError` or `KernelLost` where the notebook fails.
    """
    refuse_target(
        target, "--report", file, *([Path(options["resolutions"])] if options.get("resolutions") else [])
    )
    parameters: Mapping[str, Any] = {"file": str(file), "alpha": alpha, "seed": seed, **options}
    return write_page(NOTEBOOK, parameters, target, beside=target.absolute().parent)
