"""Scores adjusted for how hard the answered questions were (Karger et al. 2025, ForecastBench).

Forecasters who answer different questions cannot be ranked by their mean scores: whoever picks easy questions
wins.  Each score is therefore taken apart into forecaster and question by least squares on all answers,

    b_ij = a_i + q_j + u_ij        (two-way fixed effects, forecaster i, question j)

and a forecaster is judged by her scores with the difficulty of each question taken off:

    adjusted_i = mean over her questions j of (b_ij - q_j) + c.

The constant c is set so that an always-0.5 forecast of all questions, which scores 0.25 on each, has 0.25.
That gives c = mean of q_j over all questions, whoever answered them, and the 0.25 cancels: the forecaster need
not be in the panel, and c is the same for every rule of scoring.  Two things follow exactly:
- a forecaster who answers every question keeps her raw mean score;
- one who scores the same on each of all questions keeps that score.

It assumes that skill and difficulty add up: a hard question costs everybody the same.  Scores of difficult
questions are only compared between those who answered them.

Weights belong to questions and are used throughout, in the fit, in the raw scores and in c.

The Brier index (ForecastBench) is 100 (1 - √x): 100 is perfect, 50 an always-0.5.  It is NaN where x < 0,
which an adjusted score can be.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing
from evalkit.scoring.panel import Panel, panel
from evalkit.scoring.rank_sets import RankSets, rank_sets
from evalkit.scoring.two_way import two_way_fit
from evalkit.scoring.wording import counted, interval_text

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

    from evalkit.uncertainty import Interval

#: below this many units of chance a summary says that they are few
FEW = 30
#: a standard error below this share of the largest score is rounding
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class DifficultyAdjusted:
    """Adjusted scores of G forecasters, best (lowest) first, with intervals and ranks.

    An interval is NaN where she answered in a single cluster, or where nothing varies: a standard error of
    zero is no evidence of certainty.

    Arrays have shape (G,): ``raw`` and ``adjusted`` scores, ``n`` questions answered, ``n_clusters`` that
    these fall into, ``se`` and ``df`` of the adjusted score (NaN where a forecaster has a single cluster).
    ``difficulty`` maps a question to q_j - c: above zero it is harder than the average question.
    """

    forecasters: tuple[Hashable, ...]
    raw: Floats
    adjusted: Floats
    n: NDArray[np.intp]
    n_clusters: NDArray[np.intp]
    se: Floats
    df: Floats
    covariance: Floats = field(repr=False)
    n_questions: int
    n_dropped: int
    alpha: float
    seed: int = field(repr=False)
    clustered: bool
    _panel: Panel = field(repr=False, kw_only=True)
    _difficulty: Floats = field(repr=False, kw_only=True)

    @property
    def brier_index(self) -> Floats:
        """100 (1 - √adjusted), NaN where the adjusted score is negative."""
        return brier_index(self.adjusted)

    @property
    def difficulty(self) -> dict[Hashable, float]:
        return dict(zip(self._panel.questions, self._difficulty.tolist(), strict=True))

    def score(self, forecaster: Hashable) -> float:
        """Adjusted score of one forecaster."""
        return float(self.adjusted[self._at(forecaster)])

    def interval(self, forecaster: Hashable, alpha: float | None = None) -> Interval:
        """Two-sided interval of her adjusted score, Student's t on clusters of questions (CR2, Bell-McCaffrey)."""
        from evalkit.uncertainty import Interval

        low, high = self.bounds(alpha)
        at = self._at(forecaster)
        return Interval(float(low[at]), float(high[at]))

    def _at(self, forecaster: Hashable) -> int:
        if forecaster not in self.forecasters:
            raise ValueError(f"forecaster {forecaster!r} is not in this result")
        return self.forecasters.index(forecaster)

    def bounds(self, alpha: float | None = None) -> tuple[Floats, Floats]:
        """Ends of the intervals of all adjusted scores, each of shape (G,)."""
        from scipy.special import stdtrit

        level = self.alpha if alpha is None else alpha
        if not 0 < level < 1:
            raise ValueError(f"alpha = {level} must lie in (0, 1)")
        # a standard error of zero (a perfect or constant forecaster) is no evidence of certainty
        rounding = _ROUNDING * float(np.abs(self._panel.score).max())
        reach = stdtrit(self.df, 1 - level / 2) * np.where(self.se > rounding, self.se, math.nan)
        return self.adjusted - reach, self.adjusted + reach

    @cached_property
    def ranks(self) -> RankSets:
        """Rank of each forecaster and the ranks that the data leave open at level 1 - alpha."""
        return rank_sets(self.adjusted, self.covariance, self.df, self.alpha, self.seed)

    def summary(self) -> str:
        low, high = self.bounds()
        name, score = self.forecasters[0], self.adjusted[0]
        few = self._panel.n_clusters
        one, many = (
            ("cluster of questions", "clusters of questions") if self.clustered else ("question", None)
        )
        unit = counted(few, one, many)
        caveat = f"  Only {unit}: intervals are rough." if few < FEW else ""
        dropped = f", {counted(self.n_dropped, 'missing score')} dropped" if self.n_dropped else ""
        complete = int((self.n == self.n_questions).sum())
        return (
            f"Difficulty-adjusted scores of {counted(len(self.forecasters), 'forecaster')} on "
            f"{counted(self.n_questions, 'question')} ({counted(int(self.n.sum()), 'score')}{dropped}; {complete} "
            f"answered everything and keep their raw score).  Best: {name} {score:.4f} "
            f"{interval_text(low[0], high[0])} at {100 * (1 - self.alpha):g} %, raw {self.raw[0]:.4f}, "
            f"n = {self.n[0]}.  Lower is better; an always-0.5 forecast of all questions keeps 0.25; units of "
            f"chance: {unit}.{caveat}"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.bounds()
        ranks = self.ranks
        columns: dict[str, Any] = {
            "forecaster": list(self.forecasters),
            "rank": ranks.rank,
            "rank_low": ranks.low,
            "rank_high": ranks.high,
            "n": self.n,
            "n_clusters": self.n_clusters,
            "raw": self.raw,
            "adjusted": self.adjusted,
            "se": self.se,
            "low": low,
            "high": high,
            "brier_index": self.brier_index,
        }
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Adjusted score of each forecaster with its interval, best on top; raw scores as open marks."""
        from evalkit.interval_plot import interval_plot
        from evalkit.scoring.score_plot import estimates

        low, high = self.bounds()
        labels = [f"{name}" for name in self.forecasters]
        return interval_plot(
            estimates(labels, self.adjusted, low, high, self.n),
            ax,
            reference=None,
            raw=self.raw.tolist(),
            xlabel=f"adjusted score, {100 * (1 - self.alpha):g} % interval (lower is better)",
        )

    def _repr_html_(self) -> str:
        from html import escape

        table = self.to_frame().to_html(index=False, float_format="{:.4f}".format, border=0)
        return f"<p>{escape(self.summary())}</p>{table}"


def difficulty_adjusted(
    forecaster: ArrayLike,
    question: ArrayLike,
    score: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    alpha: float = 0.05,
    seed: int = 0,
    missing: Missing = "raise",
) -> DifficultyAdjusted:
    """Difficulty-adjusted scores from rows (forecaster, question, score), each of shape (n,).

    ``score``: negatively oriented item scores (Brier in [0, 1] for the Brier index to make sense).
    ``weights``: of questions, not negative.  ``cluster``: labels of questions that share luck, for intervals
    and ranks.  ``seed``: of the draws behind the rank intervals; nothing else is random.
    Raises `ValueError` on a second row for a forecaster and question, and where forecasters fall into groups
    that share no question.
    """
    return adjusted_panel(
        panel(forecaster, question, score, weights=weights, cluster=cluster, missing=missing),
        alpha=alpha,
        seed=seed,
    )


def adjusted_panel(answers: Panel, *, alpha: float = 0.05, seed: int = 0) -> DifficultyAdjusted:
    """`difficulty_adjusted` of a panel."""
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
    answers.check_finite("least squares needs")
    fit = two_way_fit(answers)
    count = len(answers.forecasters)
    rows = [answers.rows(i) for i in range(count)]
    raw = np.array([answers.mean(r) for r in rows])
    n = np.array([len(r) for r in rows])
    clusters = np.array([len(np.unique(answers.cluster[answers.question[r]])) for r in rows])
    # a mean of questions that are all answered has no rounding of a fit in it
    adjusted = np.where(n == len(answers.questions), raw, fit.placed)
    covariance = np.where(np.isnan(fit.df) | np.isnan(fit.df)[:, None], math.nan, fit.covariance)
    order = sorted(range(count), key=lambda i: (adjusted[i], i))
    se = np.sqrt(np.clip(np.diag(covariance), 0.0, None))
    return DifficultyAdjusted(
        forecasters=tuple(answers.forecasters[i] for i in order),
        raw=raw[order],
        adjusted=adjusted[order],
        n=n[order],
        n_clusters=clusters[order],
        se=se[order],
        df=fit.df[order],
        covariance=covariance[np.ix_(order, order)],
        n_questions=len(answers.questions),
        n_dropped=answers.n_dropped,
        alpha=alpha,
        seed=answers.seed(seed),
        clustered=answers.clustered,
        _panel=answers,
        _difficulty=fit.difficulty,
    )


def brier_index(x: ArrayLike) -> Floats:
    """100 (1 - √x) of Brier scores: 100 is perfect, 50 an always-0.5, NaN where x < 0."""
    scores = np.asarray(x, dtype=np.float64)
    return np.asarray(100 * (1 - np.sqrt(np.where(scores < 0, np.nan, scores))))
