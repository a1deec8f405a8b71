"""A leaderboard that says what it knows: scores with intervals, ranks with theirs, and what is missing.

Rules
- Order and ranks follow the difficulty-adjusted score, never the raw one: forecasters may pick questions.
- A forecast that is not there is counted (``coverage``, ``n_dropped``) and never filled in.
- ``rank_low`` to ``rank_high`` are the ranks that the data leave open; two forecasters whose ranges overlap
  are not told apart by it.
- ``p_best`` compares with the forecaster on top, on the common questions.  Who is on top was chosen by the
  same data, so the p-value is adjusted over all pairs, of which it is one.  With more than `MOST_PAIRS` pairs
  it is left out, and the ranks remain.
- ``skill`` (1 - S/S_ref), ``advantage`` (S_ref - S) and ``p_reference`` compare with a named reference on the
  common questions, adjusted over those comparisons alone.
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.exact_sums import Floats
from evalkit.scoring.comparison import Adjust, PairComparison, adjusted, compared_pair
from evalkit.scoring.difficulty import DifficultyAdjusted, adjusted_panel, brier_index
from evalkit.scoring.inputs import Missing
from evalkit.scoring.panel import Panel, panel
from evalkit.scoring.peer import PeerScores, peer_panel
from evalkit.scoring.two_way import NotConnected
from evalkit.scoring.wording import counted, interval_text, named_list

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

#: pairs that are tested against each other at most (32 forecasters)
MOST_PAIRS = 500


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """G forecasters, best first.  Arrays have shape (G,); `to_frame` has every column.

    ``difficulty`` and ``peer`` are None where they are undefined (groups of forecasters without a common
    question, infinite scores): there are no ranks then, the order is that of raw scores, and ``reason`` says
    why.
    """

    forecasters: tuple[Hashable, ...]
    n: NDArray[np.intp]
    n_questions: int
    n_dropped: NDArray[np.intp]
    without_scores: tuple[Hashable, ...]
    raw: Floats
    raw_low: Floats
    raw_high: Floats
    difficulty: DifficultyAdjusted | None
    peer: PeerScores | None
    against_best: dict[Hashable, PairComparison]
    against_reference: dict[Hashable, PairComparison]
    reference: Hashable | None
    adjust: Adjust
    alpha: float
    reason: str
    _panel: Panel = field(repr=False, kw_only=True)

    @property
    def coverage(self) -> Floats:
        """Share of all questions that each forecaster answered."""
        return self.n / self.n_questions

    def summary(self) -> str:
        count = len(self.forecasters)
        answered = int(self.n.sum())
        lost = self._panel.n_dropped
        gone = f", {counted(lost, 'missing score')} dropped" if lost else ""
        if self.without_scores:
            gone += f"; without any score: {named_list(self.without_scores)}"
        first = self.forecasters[0]
        head = (
            f"{counted(count, 'forecaster')}, {counted(self.n_questions, 'question')}, {counted(answered, 'score')} "
            f"({100 * answered / (count * self.n_questions):.0f} % of all possible{gone}).  "
        )
        if self.difficulty is None:
            return f"{head}Not ranked: {self.reason}.  Lowest raw score: {first} {self.raw[0]:.4f}, n = {self.n[0]}."
        low, high = self.difficulty.interval(first)
        open_for_first = int((self.difficulty.ranks.low == 1).sum())
        level = f"{100 * (1 - self.alpha):g} %"
        tied = (
            "; it alone may hold rank 1"
            if open_for_first == 1
            else f"; {open_for_first} forecasters may hold rank 1"
        )
        return (
            f"{head}Best by difficulty-adjusted score: {first} {self.difficulty.adjusted[0]:.4f} "
            f"{interval_text(low, high)} at {level}{tied if count > 1 else ''}.  Scores: lower is better.  "
            "Peer score, skill, advantage: higher is better."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a forecaster, best first."""
        import pandas as pd

        none = np.full(len(self.forecasters), math.nan)
        columns: dict[str, Any] = {"forecaster": list(self.forecasters)}
        if self.difficulty is not None:
            ranks = self.difficulty.ranks
            columns |= {"rank": ranks.rank, "rank_low": ranks.low, "rank_high": ranks.high}
            low, high = self.difficulty.bounds()
            value = self.difficulty.adjusted
        else:
            columns |= {"rank": none, "rank_low": none, "rank_high": none}
            low, high, value = none, none, none
        columns |= {
            "n": self.n,
            "coverage": self.coverage,
            "n_dropped": self.n_dropped,
            "raw": self.raw,
            "raw_low": self.raw_low,
            "raw_high": self.raw_high,
            "adjusted": value,
            "adjusted_low": low,
            "adjusted_high": high,
            "brier_index": brier_index(value),
        }
        peers: dict[Hashable, tuple[float, float, float]] = {}
        if self.peer is not None:
            bounds = zip(
                self.peer.value.tolist(), self.peer.low.tolist(), self.peer.high.tolist(), strict=True
            )
            peers = dict(zip(self.peer.forecasters, bounds, strict=True))
        for at, name in enumerate(("peer_score", "peer_low", "peer_high")):
            columns[name] = [peers.get(f, (math.nan,) * 3)[at] for f in self.forecasters]
        columns["p_best"] = [_of(self.against_best, f, "p_adjusted") for f in self.forecasters]
        if self.reference is not None:
            pairs = self.against_reference
            columns["n_common"] = [pairs[f].n if f in pairs else 0 for f in self.forecasters]
            columns["skill"] = [_skill(pairs.get(f)) for f in self.forecasters]
            columns["advantage"] = [-_of(pairs, f, "difference") for f in self.forecasters]
            columns["p_reference"] = [_of(pairs, f, "p_adjusted") for f in self.forecasters]
        return pd.DataFrame(columns)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Adjusted scores with intervals, best on top; raw scores where nothing could be adjusted."""
        from evalkit.interval_plot import interval_plot
        from evalkit.scoring.score_plot import estimates

        if self.difficulty is not None:
            return self.difficulty.plot(ax)
        return interval_plot(
            estimates(
                [str(name) for name in self.forecasters], self.raw, self.raw_low, self.raw_high, self.n
            ),
            ax,
            reference=None,
            xlabel=f"raw score, {100 * (1 - self.alpha):g} % interval (not comparable: no common questions)",
        )

    def _repr_html_(self) -> str:
        from html import escape

        table = self.to_frame().to_html(index=False, float_format="{:.4g}".format, border=0, na_rep="")
        return f"<p>{escape(self.summary())}</p>{table}"


def leaderboard(
    forecaster: ArrayLike,
    question: ArrayLike,
    score: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    reference: Hashable | None = None,
    adjust: Adjust = "holm",
    alpha: float = 0.05,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    missing: Missing = "raise",
) -> Leaderboard:
    """Leaderboard from rows (forecaster, question, score), each of shape (n,).

    ``score``: negatively oriented item scores.  ``cluster``: labels of questions that share luck.
    ``reference``: the forecaster that skill, advantage and ``p_reference`` refer to.  ``bounds``: the range of
    an item score, (0, 1) for Brier, for the intervals of raw scores.  One forecaster alone is fine.
    Raises `ValueError` on a second row for a forecaster and question.
    """
    answers = panel(forecaster, question, score, cluster=cluster, missing=missing)
    return leaderboard_panel(
        answers, reference=reference, adjust=adjust, alpha=alpha, seed=seed, bounds=bounds
    )


def leaderboard_panel(
    answers: Panel,
    *,
    reference: Hashable | None = None,
    adjust: Adjust = "holm",
    alpha: float = 0.05,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> Leaderboard:
    """`leaderboard` of a panel."""
    from evalkit.uncertainty import mean_interval

    if adjust not in ("holm", "bh", None):
        raise ValueError(f"adjust={adjust!r}: expected 'holm', 'bh' or None")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
    if bounds is not None:
        answers.check_bounds(bounds)
    base = None if reference is None else answers.index(reference, "reference")
    lo, hi = (None, None) if bounds is None else bounds
    count = len(answers.forecasters)
    rows = [answers.rows(i) for i in range(count)]
    raw = [
        mean_interval(answers.score[r], lo=lo, hi=hi, cluster=answers.row_clusters(r), alpha=alpha)
        for r in rows
    ]
    difficulty, peer, reason = None, None, ""
    if np.isfinite(answers.score).all():
        peer = peer_panel(answers, alpha=alpha)
        try:
            difficulty = adjusted_panel(answers, alpha=alpha, seed=seed)
        except NotConnected as error:
            reason = str(error)
    else:
        reason = "a score is infinite, and least squares needs finite ones"
    if difficulty is not None:
        order = [answers.forecasters.index(name) for name in difficulty.forecasters]
    else:
        order = sorted(range(count), key=lambda i: (raw[i].mean, i))
    against_best, against_reference = _against(answers, order[0], base, adjust, alpha, seed, bounds)
    return Leaderboard(
        forecasters=tuple(answers.forecasters[i] for i in order),
        n=np.array([len(rows[i]) for i in order]),
        n_questions=len(answers.questions),
        n_dropped=answers.dropped[order],
        without_scores=answers.without_scores,
        raw=np.array([raw[i].mean for i in order]),
        raw_low=np.array([raw[i].low for i in order]),
        raw_high=np.array([raw[i].high for i in order]),
        difficulty=difficulty,
        peer=peer,
        against_best=against_best,
        against_reference=against_reference,
        reference=reference,
        adjust=adjust,
        alpha=alpha,
        reason=reason,
        _panel=answers,
    )


def _against(
    answers: Panel,
    best: int,
    reference: int | None,
    adjust: Adjust,
    alpha: float,
    seed: int,
    bounds: tuple[float, float] | None,
) -> tuple[dict[Hashable, PairComparison], dict[Hashable, PairComparison]]:
    """Everybody against the best and against the reference, difference = she - the other."""
    count = len(answers.forecasters)
    numbers = [(a, b) for a in range(count) for b in range(a + 1, count)]
    all_pairs = len(numbers) <= MOST_PAIRS
    if not all_pairs:
        numbers = [pair for pair in numbers if reference in pair]
    pairs = [compared_pair(answers, a, b, alpha=alpha, seed=seed, bounds=bounds) for a, b in numbers]

    def facing(one: int, chosen: tuple[PairComparison, ...]) -> dict[Hashable, PairComparison]:
        name = answers.forecasters[one]
        turned = (
            pair if pair.second == name else pair.reversed()
            for pair in chosen
            if name in (pair.first, pair.second)
        )
        return {pair.first: pair for pair in turned}

    with_best = facing(best, adjusted(pairs, adjust)) if all_pairs else {}
    if reference is None:
        return with_best, {}
    family = [pair for (a, b), pair in zip(numbers, pairs, strict=True) if reference in (a, b)]
    return with_best, facing(reference, adjusted(family, adjust))


def _of(pairs: dict[Hashable, PairComparison], forecaster: Hashable, name: str) -> float:
    return float(getattr(pairs[forecaster], name)) if forecaster in pairs else math.nan


def _skill(pair: PairComparison | None) -> float:
    """1 - S / S_ref on the common questions; NaN where S_ref is not positive and finite."""
    if pair is None or not (math.isfinite(pair.second_score) and pair.second_score > 0):
        return math.nan
    return 1 - pair.first_score / pair.second_score
