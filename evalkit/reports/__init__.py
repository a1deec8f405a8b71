"""Running notebooks and making reports of them.

A notebook uses `show`, `Table`, `cards`, `badge`, `notice` and, in its last cell, `emit`.  `execute` runs a
notebook into a run folder, `export_html` and `export_pdf` make the report.  Importing this package loads
none of papermill, nbconvert, matplotlib or pandas.
"""

from __future__ import annotations

from evalkit.figure_style import figure_style
from evalkit.interval_plot import Estimate
from evalkit.reports.execution import Execution, execute
from evalkit.reports.export import export_html, export_pdf, report_for
from evalkit.reports.figures import (
    CaseProbabilities,
    DimensionScore,
    dimension_dots,
    interval_plot,
    probability_bars,
    show,
)
from evalkit.reports.parameters import Parameter, read_parameters, validate_parameters
from evalkit.reports.results import emit, read_results
from evalkit.reports.tables import Card, Column, Html, Table, badge, cards, notice

__all__ = [
    "Card",
    "CaseProbabilities",
    "Column",
    "DimensionScore",
    "Estimate",
    "Execution",
    "Html",
    "Parameter",
    "Table",
    "badge",
    "cards",
    "dimension_dots",
    "emit",
    "execute",
    "export_html",
    "export_pdf",
    "figure_style",
    "interval_plot",
    "notice",
    "probability_bars",
    "read_parameters",
    "read_results",
    "report_for",
    "show",
    "validate_parameters",
]
