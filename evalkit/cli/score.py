"""``evalkit score``: how good the forecasts in a file are, as a table, as JSON, and as a report."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalkit.cli.options import json_option, print_json, say

if TYPE_CHECKING:
    from evalkit.forecasts import ForecastSet

_FILE = click.Path(path_type=Path, dir_okay=False)


@click.command()
@click.argument("file", type=_FILE)
@click.option("--forecaster", metavar="COL", help="Column that names who made the forecast.")
@click.option("--question", multiple=True, metavar="COL",
              help="Column that names what is forecast; repeat it where several do together.")  # fmt: skip
@click.option("--cluster", multiple=True, metavar="COL",
              help="Column of questions that share their luck; the question by default.")  # fmt: skip
@click.option("--time", metavar="COL", help="Column that says when a forecast was made.")
@click.option("--forecast", multiple=True, metavar="COL",
              help="Column with probabilities; several are forecasters, or with --kind classes in order.")  # fmt: skip
@click.option("--outcome", metavar="COL", help="Column with what happened: 0 or 1, or the class.")
@click.option("--weight", metavar="COL", help="Column with weights.")
@click.option("--kind", type=click.Choice(["binary", "categorical", "ordinal"]), help="Binary by default.")
@click.option("--class", "classes", multiple=True, metavar="NAME",
              help="Names of the classes, in the order of their columns.")  # fmt: skip
@click.option("--wide/--long", "wide", default=None,
              help="One column a forecaster, or one column for all; found out by default.")  # fmt: skip
@click.option("--fractional", is_flag=True, help="Admit outcomes between 0 and 1 (ties, market values).")
@click.option("--missing", type=click.Choice(["drop", "raise"]), default="drop", show_default=True,
              help="Count missing forecasts and leave them out, or refuse them.")  # fmt: skip
@click.option("--na", multiple=True, metavar="TEXT",
              help="A further spelling of a missing cell, such as -999.")  # fmt: skip
@click.option("--layout", type=click.Choice(["table", "forecastbench", "fivethirtyeight"]), default="table",
              show_default=True, help="Whose file it is.")  # fmt: skip
@click.option("--resolutions", type=_FILE, help="Resolution set of a ForecastBench forecast set.")
@click.option("--alpha", type=click.FloatRange(0, 1, min_open=True, max_open=True), default=0.05,
              show_default=True, help="Intervals have level 1 - alpha.")  # fmt: skip
@click.option("--report", type=_FILE, metavar="OUT.html", help="Also write a report as one HTML page.")
@json_option
def score(
    file: Path,
    forecaster: str | None,
    question: tuple[str, ...],
    cluster: tuple[str, ...],
    time: str | None,
    forecast: tuple[str, ...],
    outcome: str | None,
    weight: str | None,
    kind: str | None,
    classes: tuple[str, ...],
    wide: bool | None,
    fractional: bool,
    missing: str,
    na: tuple[str, ...],
    layout: str,
    resolutions: Path | None,
    alpha: float,
    report: Path | None,
    as_json: bool,
) -> None:
    """Score the forecasts in FILE: CSV, TSV (plain or .gz), parquet, or JSON of ForecastBench.

    Columns are found by their common names (forecast, p, probability; outcome, y, obs; …), and what was taken
    for what is printed. For each forecaster: n, what is missing, base rate, Brier score with its interval, log
    score, miscalibration (MCB), discrimination (DSC) and uncertainty (UNC). The form of FILE:
    docs/formats/forecasts.md.

    Exits with 2 where the file or an option is wrong; with --report also with 3 or 4 where its notebook fails.
    """
    from evalkit.importers import open_forecasts

    named = {
        "forecaster": forecaster, "question": question, "cluster": cluster, "time": time,
        "forecast": forecast, "outcome": outcome, "weight": weight,
    }  # fmt: skip
    options: dict[str, Any] = {
        "layout": layout,
        "resolutions": None if resolutions is None else str(resolutions),
        "columns": {
            role: list(c) if isinstance(c, tuple) and len(c) > 1 else c[0] if isinstance(c, tuple) else c
            for role, c in named.items()
            if c
        },
        "kind": kind,
        "classes": list(classes),
        "wide": wide,
        "fractional": fractional,
        "missing": missing,
        "na": list(na),
    }
    if report is not None:
        # before anything is computed
        from evalkit.reports.page import refuse_target

        refuse_target(report, "--report", file, *([resolutions] if resolutions else []))
    forecasts = open_forecasts(file, **options)
    board = forecasts.score_table(alpha)
    page = None
    if report is not None:
        from evalkit.reports.forecasts import write_report

        page = write_report(file, report, alpha=alpha, **options)
    if as_json:
        print_json(_for_programs(forecasts, board.to_json(), page))
        return
    for text in forecasts.provenance.guessed:
        say(f"read: {text}")
    say(forecasts.summary())
    for text in forecasts.provenance.notes:
        say(text)
    say("")
    for line in board.summary().splitlines():
        say(line)
    if page is not None:
        say("")
        say(f"report: {page}")


def _for_programs(forecasts: ForecastSet, board: dict[str, Any], page: Path | None) -> dict[str, Any]:
    origin = forecasts.provenance
    return {
        "source": {
            "name": origin.name,
            "digest": origin.digest,
            "rows": origin.rows,
            "layout": origin.layout,
            "read": list(origin.guessed),
            "notes": list(origin.notes),
        },
        "n": forecasts.n,
        "questions": len(forecasts.questions),
        "classes": list(forecasts.classes),
        **board,
        "report": None if page is None else str(page),
    }
