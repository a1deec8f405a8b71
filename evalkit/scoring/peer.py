"""Peer scores: better than the others who answered the same question, and by how much?

For each answer the reference is the mean (or the median) score of all *other* forecasters on that question:

    peer_ij = mean of b_kj over k ≠ i, minus b_ij

Positive is better than the peers, as on Metaculus; the scores themselves are small when good.  With the mean,
the peer scores of a question sum to zero.  A forecaster's peer score is the mean over her questions, each
counted once (or with its weight), however many peers it had.  Questions that nobody else answered have no
peer score: they are left out and counted.

A peer score says how one did against whoever else was there.  It takes difficulty off question by question
and assumes nothing, but strong company lowers it; `difficulty_adjusted` holds the company constant instead.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.exact_sums import Floats, order_free_sum
from evalkit.scoring.diebold_mariano import equal_differences
from evalkit.scoring.inputs import Missing
from evalkit.scoring.panel import Panel, panel
from evalkit.scoring.wording import counted, interval_text

if TYPE_CHECKING:
    import pandas as pd

Against = Literal["mean", "median"]


@dataclass(frozen=True, eq=False)
class PeerScores:
    """Mean peer score of G forecasters, best (highest) first, with intervals.

    ``n``: questions with a peer; ``n_alone``: questions that nobody else answered.  A forecaster without
    peers has NaN.
    """

    forecasters: tuple[Hashable, ...]
    value: Floats
    low: Floats
    high: Floats
    n: NDArray[np.intp]
    n_alone: NDArray[np.intp]
    against: Against
    alpha: float
    n_dropped: int
    _panel: Panel = field(repr=False, kw_only=True)
    _items: Floats = field(repr=False, kw_only=True)

    def score(self, forecaster: Hashable) -> float:
        """Peer score of one forecaster."""
        if forecaster not in self.forecasters:
            raise ValueError(f"forecaster {forecaster!r} is not in this result")
        return float(self.value[self.forecasters.index(forecaster)])

    def summary(self) -> str:
        alone = int(self.n_alone.sum())
        left = f", {counted(alone, 'answer')} without a peer left out" if alone else ""
        dropped = f", {counted(self.n_dropped, 'missing score')} dropped" if self.n_dropped else ""
        best = (
            f"Best: {self.forecasters[0]} {self.value[0]:+.4f} {interval_text(self.low[0], self.high[0], '+.4f')}, "
            f"n = {self.n[0]}."
            if self.n[0]
            else "No answer has a peer."
        )
        return (
            f"Peer scores of {counted(len(self.forecasters), 'forecaster')} against the {self.against} of the "
            f"others on the same question ({counted(int(self.n.sum()), 'answer')}{left}{dropped}).  {best}  "
            "Positive is better than the peers."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a forecaster."""
        import pandas as pd

        return pd.DataFrame(
            {
                "forecaster": list(self.forecasters),
                "peer_score": self.value,
                "low": self.low,
                "high": self.high,
                "n": self.n,
                "n_alone": self.n_alone,
            }
        )

    def item_frame(self) -> pd.DataFrame:
        """One row an answer; NaN where nobody else answered the question."""
        import pandas as pd

        answers = self._panel
        return pd.DataFrame(
            {
                "forecaster": [answers.forecasters[i] for i in answers.forecaster],
                "question": [answers.questions[j] for j in answers.question],
                "score": answers.score,
                "peer_score": self._items,
            }
        )

    def _repr_html_(self) -> str:
        from html import escape

        table = self.to_frame().to_html(index=False, float_format="{:+.4f}".format, border=0)
        return f"<p>{escape(self.summary())}</p>{table}"


def peer_scores(
    forecaster: ArrayLike,
    question: ArrayLike,
    score: ArrayLike,
    *,
    against: Against = "mean",
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    alpha: float = 0.05,
    missing: Missing = "raise",
) -> PeerScores:
    """Peer scores from rows (forecaster, question, score), each of shape (n,).

    ``score``: negatively oriented and finite.  ``weights``: of questions.  ``cluster``: labels of questions
    that share luck.  Raises `ValueError` on a second row for a forecaster and question.
    """
    answers = panel(forecaster, question, score, weights=weights, cluster=cluster, missing=missing)
    return peer_panel(answers, against=against, alpha=alpha)


def peer_panel(answers: Panel, *, against: Against = "mean", alpha: float = 0.05) -> PeerScores:
    """`peer_scores` of a panel."""
    from evalkit.uncertainty import mean_interval

    if against not in ("mean", "median"):
        raise ValueError(f"against={against!r}: expected 'mean' or 'median'")
    answers.check_finite("peer scores need")
    others = _mean_of_others(answers) if against == "mean" else _median_of_others(answers)
    items = others - answers.score
    count = len(answers.forecasters)
    value, low, high = (np.full(count, math.nan) for _ in range(3))
    n, alone = np.zeros(count, dtype=np.intp), np.zeros(count, dtype=np.intp)
    for i in range(count):
        rows = answers.rows(i)
        met = rows[~np.isnan(items[rows])]
        n[i], alone[i] = len(met), len(rows) - len(met)
        if len(met):
            weights = answers.row_weights(met)
            value[i] = _mean(items[met], weights)
            own = items[met]
            if equal_differences(others[met], answers.score[met]):
                own = np.full(len(met), value[i])  # rounding is no spread
            found = mean_interval(own, weights=weights, cluster=answers.row_clusters(met), alpha=alpha)
            low[i], high[i] = found.low, found.high
    order = sorted(range(count), key=lambda i: (math.isnan(value[i]), -value[i], i))
    return PeerScores(
        forecasters=tuple(answers.forecasters[i] for i in order),
        value=value[order],
        low=low[order],
        high=high[order],
        n=n[order],
        n_alone=alone[order],
        against=against,
        alpha=alpha,
        n_dropped=answers.n_dropped,
        _panel=answers,
        _items=items,
    )


def _mean(values: Floats, weights: Floats | None) -> float:
    if weights is None:
        return order_free_sum(values) / len(values)
    return order_free_sum(weights * values) / order_free_sum(weights)


def _mean_of_others(answers: Panel) -> Floats:
    size = np.bincount(answers.question)[answers.question]
    total = np.bincount(answers.question, answers.score)[answers.question]
    return np.where(size > 1, (total - answers.score) / np.maximum(size - 1, 1), math.nan)


def _median_of_others(answers: Panel) -> Floats:
    """Median of a question's scores without one's own, from the sorted scores with that place skipped."""
    order = np.lexsort((answers.score, answers.question))
    scores, question = answers.score[order], answers.question[order]
    size = np.bincount(question)[question]
    start = np.searchsorted(question, question)
    place = np.arange(len(order)) - start
    rest = size - 1
    median = np.zeros(len(order))
    for k in ((rest - 1) // 2, rest // 2):  # the two middle ones, the same one where rest is odd
        skipped = np.maximum(k, 0) + (k >= place)
        median += 0.5 * scores[np.minimum(start + skipped, start + size - 1)]
    result = np.empty(len(order))
    result[order] = np.where(rest > 0, median, math.nan)
    return result
