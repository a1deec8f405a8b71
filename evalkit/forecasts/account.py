"""What became of the rows of a set of forecasts, forecaster by forecaster, and where they came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Provenance:
    """Where the forecasts come from: file name, digest of its (unpacked) bytes, rows, how it was read.

    ``guessed``: what the names of columns were taken to mean.  ``notes``: attribution, licence, what an importer
    left out.
    """

    name: str
    digest: str = ""
    rows: int = 0
    layout: str = "table"
    guessed: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Account:
    """What became of one forecaster's rows and of the questions.

    ``n`` scored forecasts; ``n_missing`` rows without a forecast though the outcome is known; ``n_unresolved``
    rows without an outcome; ``n_absent`` resolved questions for which there is no row; ``n_questions`` questions and
    ``n_clusters`` clusters among the scored.
    """

    forecaster: str
    n: int
    n_missing: int
    n_unresolved: int
    n_absent: int
    n_questions: int
    n_clusters: int


def accounts(frame: pd.DataFrame, forecast: str) -> tuple[Account, ...]:
    """The account of each forecaster in a long frame, by name; ``forecast`` is the column that tells a missing one."""
    asked = frame.loc[frame["outcome"].notna(), "question"].nunique()
    found = []
    for name, mine in frame.groupby("forecaster", sort=True):
        resolved, given = mine["outcome"].notna(), mine[forecast].notna()
        scored = mine[resolved & given]
        found.append(
            Account(
                str(name),
                len(scored),
                int((resolved & ~given).sum()),
                int((~resolved).sum()),
                asked - mine.loc[resolved, "question"].nunique(),
                scored["question"].nunique(),
                scored["cluster"].nunique(),
            )
        )
    return tuple(found)
