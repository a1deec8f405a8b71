"""Which of two or more forecasters is better, on the questions that both answered.

Rules
- difference = first - second in mean score.  Scores are small when good: a negative difference says that the
  first is better.
- Every pair is compared on its own overlap.  Nothing is filled in; n differs from pair to pair and is shown.
- The p-value of a pair is that of a sign-flip permutation test, in which clusters of questions flip as a
  whole.  It takes each difference to be as likely as its negative.  Where many small gains face rare large
  losses of the same mean it claims too much (at level .05: .33 of ten questions, .07 of a hundred), so a
  caveat stands where the interval, which rests on less, includes 0.  Over all pairs it is adjusted (Holm 1979, or Benjamini & Hochberg 1995).
- Beside it stands Diebold-Mariano with the correction of Harvey, Leybourne & Newbold.  It knows dependence in
  time up to the horizon, and no clusters.
- The interval of the difference is that of `evalkit.uncertainty.mean_interval`, by cluster where there are any.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from evalkit.scoring.diebold_mariano import diebold_mariano, equal_differences
from evalkit.scoring.inputs import Missing
from evalkit.scoring.panel import Codes, Panel, by_name, panel
from evalkit.scoring.relative_skill import MeanScores, RelativeSkill, relative_skill
from evalkit.scoring.wording import counted, interval_text, named_list

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Adjust = Literal["holm", "bh"] | None
SYMMETRY_CAVEAT = (
    "The interval includes 0: the sign-flip test takes a difference to be as likely as its negative, which rare large "
    "differences are not."
)
_ADJUSTED = {"holm": "Holm", "bh": "Benjamini-Hochberg"}


@dataclass(frozen=True)
class PairComparison:
    """First against second on ``n`` common questions in ``n_clusters`` clusters.

    ``difference`` = ``first_score`` - ``second_score``, with its interval ``low`` to ``high`` by ``method``.
    ``p``: sign-flip test per cluster.  ``dm``, ``dm_p``: Diebold-Mariano.  The adjusted ones count all pairs.
    What is undefined is NaN, and ``reason`` or ``dm_reason`` says why.
    """

    first: Hashable
    second: Hashable
    n: int
    n_clusters: int
    first_score: float
    second_score: float
    difference: float
    low: float
    high: float
    method: str
    p: float
    p_adjusted: float
    dm: float
    dm_p: float
    dm_p_adjusted: float
    reason: str
    dm_reason: str
    caveats: tuple[str, ...] = ()

    def reversed(self) -> PairComparison:
        """Second against first: signs turn, p-values stay."""
        return replace(
            self,
            first=self.second,
            second=self.first,
            first_score=self.second_score,
            second_score=self.first_score,
            difference=-self.difference,
            low=-self.high,
            high=-self.low,
            dm=-self.dm,
        )

    def summary(self) -> str:
        if self.n == 0:
            return f"{self.first} - {self.second}: no common question"
        unit = f" in {counted(self.n_clusters, 'cluster')}" if self.n_clusters != self.n else ""
        interval = interval_text(self.low, self.high, ".4g")
        p = f", p = {self.p:.3g} (adjusted {self.p_adjusted:.3g})" if math.isfinite(self.p) else ""
        why = f" ({self.reason.rstrip('.')})" if self.reason else ""
        why += "".join(f" ({caveat.rstrip('.')})" for caveat in self.caveats)
        return f"{self.first} - {self.second}: {self.difference:.4g} {interval}{p}{why}, n = {self.n}{unit}"


@dataclass(frozen=True, eq=False)
class Comparison:
    """Pairwise comparison of the ``forecasters``, each pair once, by name; `pair` gives it either way round.

    ``relative_skill`` maps a forecaster to her relative skill, scaled by ``reference`` where one is given.
    """

    forecasters: tuple[Hashable, ...]
    pairs: tuple[PairComparison, ...]
    relative_skill: dict[Hashable, RelativeSkill]
    reference: Hashable | None
    adjust: Adjust
    alpha: float
    horizon: int
    clustered: bool
    n_dropped: int
    _by_names: dict[tuple[Hashable, Hashable], PairComparison] = field(repr=False, kw_only=True)

    def pair(self, first: Hashable, second: Hashable) -> PairComparison:
        """The comparison of two forecasters, difference = first - second."""
        if (first, second) in self._by_names:
            return self._by_names[first, second]
        if (second, first) in self._by_names:
            return self._by_names[second, first].reversed()
        raise ValueError(f"{first!r} and {second!r} were not compared: the forecasters are "
                         f"{named_list(self.forecasters)}")  # fmt: skip

    @property
    def convention(self) -> str:
        return "difference = first - second in mean score; negative: the first is better"

    def summary(self) -> str:
        tested = [pair for pair in self.pairs if math.isfinite(pair.p)]
        clear = sum(pair.p_adjusted <= self.alpha for pair in tested)
        how = "unadjusted" if self.adjust is None else f"{_ADJUSTED[self.adjust]} over {len(tested)}"
        one, unit = ("cluster", "clusters of questions") if self.clustered else ("question", "questions")
        dropped = f", {self.n_dropped} missing scores dropped" if self.n_dropped else ""
        if len(self.pairs) == 1:
            return f"{self.pairs[0].summary()}{dropped} ({self.convention}; sign-flip test per {one})"
        sizes = [pair.n for pair in self.pairs]
        span = f"{min(sizes)}" if min(sizes) == max(sizes) else f"{min(sizes)}-{max(sizes)}"
        empty = len(self.pairs) - len(tested)
        without = f", {empty} without a test" if empty else ""
        return (
            f"{len(self.forecasters)} forecasters, {len(self.pairs)} pairs on n = {span} common question{'' if span == '1' else 's'}"
            f"{dropped}: {clear} differ at {self.alpha:g} ({how} sign-flip tests that flip {unit}{without}).  "
            f"{self.convention[0].upper()}{self.convention[1:]}."
        )

    def to_frame(self) -> pd.DataFrame:
        """One row a pair."""
        import pandas as pd

        rows = [{**pair.__dict__, "caveats": " ".join(pair.caveats)} for pair in self.pairs]
        return pd.DataFrame(rows, columns=list(PairComparison.__dataclass_fields__))

    def skill_frame(self) -> pd.DataFrame:
        """One row a forecaster: relative skill, below 1 is better than the field."""
        import pandas as pd

        rows = [{"forecaster": name, **self.relative_skill[name]._asdict()} for name in self.forecasters]
        frame = pd.DataFrame(rows).rename(
            columns={"value": "relative_skill", "scaled": "scaled_relative_skill"}
        )
        return frame.sort_values("relative_skill", kind="stable").reset_index(drop=True)

    def plot(self, ax: Axes | None = None, *, order: Sequence[Hashable] | None = None) -> Axes:
        """Differences to the reference with intervals, or (three and more, no reference) a matrix of pairs.

        ``order``: of the forecasters in the matrix, all of them; by default by relative skill.
        """
        from evalkit.interval_plot import interval_plot
        from evalkit.scoring.score_plot import estimates, pair_matrix

        if self.reference is None and len(self.forecasters) > 2:
            order = self._from_best() if order is None else list(order)
            if sorted(order, key=by_name) != sorted(self.forecasters, key=by_name):
                raise ValueError(f"order must name each of {named_list(self.forecasters)} once")
            known = {(a, b): self.pair(a, b) for a in order for b in order if a != b}
            return pair_matrix(
                [str(name) for name in order],
                [[known[a, b].difference if a != b else math.nan for b in order] for a in order],
                [[a != b and known[a, b].p_adjusted <= self.alpha for b in order] for a in order],
                ax=ax,
            )
        against = self.forecasters[-1] if self.reference is None else self.reference
        rows = [self.pair(name, against) for name in self.forecasters if name != against]
        rows.sort(key=lambda pair: (math.isnan(pair.difference), pair.difference, by_name(pair.first)))
        return interval_plot(
            estimates(
                [str(pair.first) for pair in rows],
                np.array([pair.difference for pair in rows]),
                np.array([pair.low for pair in rows]),
                np.array([pair.high for pair in rows]),
                [pair.n for pair in rows],
            ),
            ax,
            filled=[pair.p_adjusted <= self.alpha for pair in rows],
            xlabel=f"mean score minus that of {against}; below 0 is better; "
            f"{100 * (1 - self.alpha):g} % interval; filled: p ≤ {self.alpha:g}",
        )

    def _from_best(self) -> list[Hashable]:
        """Forecasters by relative skill, or by mean difference where that is undefined."""
        skill = {name: self.relative_skill[name].value for name in self.forecasters}
        if any(math.isnan(value) for value in skill.values()):
            for name in self.forecasters:
                against = [self.pair(name, other).difference for other in self.forecasters if other != name]
                finite = [d for d in against if math.isfinite(d)]
                skill[name] = math.fsum(finite) / len(finite) if finite else math.inf
        return sorted(self.forecasters, key=lambda name: (skill[name], by_name(name)))

    def _repr_html_(self) -> str:
        from html import escape

        shown = ["first", "second", "n", "n_clusters", "difference", "low", "high", "p", "p_adjusted",
                 "dm", "dm_p", "reason"]  # fmt: skip
        table = self.to_frame()[shown].to_html(index=False, float_format="{:.4g}".format, border=0, na_rep="")
        return f"<p>{escape(self.summary())}</p>{table}"


def compare(
    forecaster: ArrayLike,
    question: ArrayLike,
    score: ArrayLike,
    *,
    cluster: ArrayLike | None = None,
    time: ArrayLike | None = None,
    horizon: int = 1,
    reference: Hashable | None = None,
    adjust: Adjust = "holm",
    alpha: float = 0.05,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
    missing: Missing = "raise",
) -> Comparison:
    """Compare forecasters pair by pair from rows (forecaster, question, score), each of shape (n,).

    ``score``: negatively oriented item scores.  ``cluster``: labels of questions that share luck.  ``time``:
    of questions, needed for ``horizon`` > 1, steps ahead for Diebold-Mariano; lags count common questions in
    time order.  ``reference``: a forecaster who scales the relative skill and against whom `plot` draws.
    ``bounds``: the range of an item score, such as (0, 1) for Brier, which makes intervals hold at small n.
    Raises `ValueError` on fewer than two forecasters and on two rows of a forecaster for one question.

    Sources: Diebold & Mariano 1995, Harvey, Leybourne & Newbold 1997; Holm 1979, Benjamini & Hochberg 1995;
    relative skill as in the R package scoringutils (Bosse et al. 2022).
    """
    answers = panel(forecaster, question, score, cluster=cluster, time=time, missing=missing)
    return compared_panel(
        answers, horizon=horizon, reference=reference, adjust=adjust, alpha=alpha, seed=seed, bounds=bounds
    )


def compared_panel(
    answers: Panel,
    *,
    horizon: int = 1,
    reference: Hashable | None = None,
    adjust: Adjust = "holm",
    alpha: float = 0.05,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> Comparison:
    """`compare` of a panel."""
    if adjust not in ("holm", "bh", None):
        raise ValueError(f"adjust={adjust!r}: expected 'holm', 'bh' or None")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")
    if len(answers.forecasters) < 2:
        raise ValueError(f"only forecaster {answers.forecasters[0]!r} has scores: a comparison needs two")
    if bounds is not None:
        answers.check_bounds(bounds)
    base = None if reference is None else answers.index(reference, "reference")
    order = sorted(range(len(answers.forecasters)), key=lambda i: by_name(answers.forecasters[i]))
    numbers = [(a, b) for at, a in enumerate(order) for b in order[at + 1 :]]
    pairs = adjusted(
        (
            compared_pair(answers, a, b, horizon=horizon, alpha=alpha, seed=seed, bounds=bounds)
            for a, b in numbers
        ),
        adjust,
    )
    means = [
        MeanScores(a, b, pair.n, pair.first_score, pair.second_score)
        for (a, b), pair in zip(numbers, pairs, strict=True)
    ]
    skill = relative_skill(answers.forecasters, means, base)
    return Comparison(
        forecasters=tuple(answers.forecasters[i] for i in order),
        pairs=pairs,
        relative_skill={answers.forecasters[i]: skill[i] for i in order},
        reference=reference,
        adjust=adjust,
        alpha=alpha,
        horizon=int(horizon),
        clustered=answers.clustered,
        n_dropped=answers.n_dropped,
        _by_names={(pair.first, pair.second): pair for pair in pairs},
    )


def compared_pair(
    answers: Panel,
    first: int,
    second: int,
    *,
    horizon: int = 1,
    alpha: float = 0.05,
    seed: int = 0,
    bounds: tuple[float, float] | None = None,
) -> PairComparison:
    """One pair of a panel, its p-values not yet adjusted."""
    from evalkit.uncertainty import mean_interval, sign_flip_test

    mine, theirs = answers.overlap(first, second)
    n = len(mine)
    clusters = answers.row_clusters(mine)
    untested = PairComparison(
        first=answers.forecasters[first],
        second=answers.forecasters[second],
        n=n,
        n_clusters=n if clusters is None else len(np.unique(clusters)),
        first_score=answers.mean(mine) if n else math.nan,
        second_score=answers.mean(theirs) if n else math.nan,
        difference=math.nan,
        low=math.nan,
        high=math.nan,
        method="none",
        p=math.nan,
        p_adjusted=math.nan,
        dm=math.nan,
        dm_p=math.nan,
        dm_p_adjusted=math.nan,
        reason="no common question",
        dm_reason="no common question",
    )
    if n == 0:
        return untested
    in_time = _time_order(answers, mine, horizon)
    dm = diebold_mariano(answers.score[mine[in_time]], answers.score[theirs[in_time]], horizon)
    with_dm = replace(
        untested, difference=dm.difference, dm=dm.statistic, dm_p=dm.p, dm_reason=dm.reason, reason=""
    )
    if not (np.isfinite(answers.score[mine]).all() and np.isfinite(answers.score[theirs]).all()):
        return replace(with_dm, reason="a score is infinite")
    d = answers.score[mine] - answers.score[theirs]
    if equal_differences(answers.score[mine], answers.score[theirs]):
        d = np.full(n, dm.difference)  # rounding is no spread
    width = None if bounds is None else float(bounds[1]) - float(bounds[0])
    found = mean_interval(d, lo=None if width is None else -width, hi=width, cluster=clusters, alpha=alpha)
    test = sign_flip_test(d, cluster=clusters, seed=seed)
    caveats = tuple(found.caveats)
    if test.p_value <= alpha and found.low <= 0 <= found.high:
        caveats += (SYMMETRY_CAVEAT,)
    return replace(
        with_dm,
        low=found.low,
        high=found.high,
        method=found.method,
        p=test.p_value,
        reason=found.reason if math.isnan(found.low) else "",
        caveats=caveats,
    )


def adjusted(pairs: Iterable[PairComparison], adjust: Adjust) -> tuple[PairComparison, ...]:
    """The pairs with p-values adjusted over all of them that have one."""
    from evalkit.uncertainty import benjamini_hochberg, holm

    def over_all(p: list[float]) -> list[float]:
        if adjust is None:
            return p
        values: list[float] = (holm(p) if adjust == "holm" else benjamini_hochberg(p)).tolist()
        return values

    found = tuple(pairs)
    p = over_all([pair.p for pair in found])
    dm_p = over_all([pair.dm_p for pair in found])
    return tuple(replace(pair, p_adjusted=p[at], dm_p_adjusted=dm_p[at]) for at, pair in enumerate(found))


def _time_order(answers: Panel, rows: Codes, horizon: int) -> Codes:
    """Positions of ``rows`` in time order; any order will do for horizon 1."""
    if not horizon > 1:
        return np.arange(len(rows))
    if answers.time is None:
        raise ValueError(f"horizon={horizon} needs to know which questions are neighbours: pass their time")
    time = answers.time[answers.question[rows]]
    order = np.argsort(time, kind="stable")
    again = np.flatnonzero(np.diff(time[order]) == 0)
    if len(again):
        one, two = (answers.questions[answers.question[rows[order[again[0] + k]]]] for k in (0, 1))
        raise ValueError(
            f"questions {one!r} and {two!r} have the same time: with horizon={horizon} Diebold-Mariano needs one "
            "question a time; average the scores of a time first, or use horizon=1 with clusters"
        )
    return order
