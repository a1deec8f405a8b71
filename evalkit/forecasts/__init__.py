"""Sets of forecasts: one validated frame, whatever file they came in, and the table of their scores.

A newcomer needs two names: `ForecastSet.read` (a file) and `ForecastSet.from_frame` (a pandas frame).  The form of
the file is in docs/formats/forecasts.md.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalkit.lazy import lazy_attributes

if TYPE_CHECKING:
    from evalkit.forecasts.account import Provenance
    from evalkit.forecasts.forecast_set import ForecastSet
    from evalkit.forecasts.score_table import ScoreTable

__all__ = ["ForecastSet", "Provenance", "ScoreTable"]

__getattr__ = lazy_attributes(
    __name__,
    {"ForecastSet": "forecast_set", "Provenance": "account", "ScoreTable": "score_table"},
)
