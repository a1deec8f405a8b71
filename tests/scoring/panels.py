"""Panels of scores for tests: drawn by hypothesis, and read from the solar flare forecasts."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from hypothesis import strategies as st


@dataclass(frozen=True)
class Rows:
    """Rows of a panel as the functions take them."""

    forecaster: np.ndarray[Any, Any]
    question: np.ndarray[Any, Any]
    score: np.ndarray[Any, Any]
    cluster: np.ndarray[Any, Any]

    def permuted(self, order: np.ndarray[Any, Any]) -> Rows:
        return Rows(self.forecaster[order], self.question[order], self.score[order], self.cluster[order])


def drawn_rows(
    seed: int, forecasters: int = 4, questions: int = 12, share: float = 0.7, levels: int | None = None
) -> Rows:
    """A connected panel: the first question is everybody's, the first forecaster answers everything."""
    generator = np.random.default_rng(seed)
    answered = generator.random((forecasters, questions)) < share
    answered[0, :] = True
    answered[:, 0] = True
    f, q = np.nonzero(answered)
    score = generator.random(len(f)) ** 2
    if levels is not None:
        score = np.round(score * levels) / levels
    names = np.array([f"forecaster {i}" for i in range(forecasters)])
    return Rows(names[f], q, score, q // 3)


def shuffles(panel: Rows, seed: int) -> tuple[Rows, Rows]:
    """The same rows in another order, and in that order with other names of questions and clusters."""
    generator = np.random.default_rng(seed)
    shuffled = panel.permuted(generator.permutation(len(panel.score)))
    q, c = (
        generator.permutation(int(panel.question.max()) + 1),
        generator.permutation(int(panel.cluster.max()) + 1),
    )
    names = np.array([f"question {i}" for i in q])
    return shuffled, Rows(
        shuffled.forecaster, names[shuffled.question], shuffled.score, 1000 - c[shuffled.cluster]
    )


@st.composite
def rows(draw: st.DrawFn, most: int = 6) -> Rows:
    return drawn_rows(
        draw(st.integers(0, 2**32 - 1)),
        draw(st.integers(2, most)),
        draw(st.integers(3, 20)),
        draw(st.sampled_from([0.3, 0.7, 1.0])),
        draw(st.sampled_from([None, 4, 100])),
    )


def solar(shared_data: Path) -> pd.DataFrame:
    """Long Brier scores of the C1 solar flare forecasts: forecaster, date, score."""
    wide = pd.read_csv(shared_data / "scoring" / "solar_flares_C1.csv.gz")
    long = wide.melt(id_vars=["date", "obs"], var_name="forecaster", value_name="p").dropna()
    return long.assign(score=(long.p - long.obs) ** 2).reset_index(drop=True)
