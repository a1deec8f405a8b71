"""CORP: the score as miscalibration less discrimination plus uncertainty (Dimitriadis, Gneiting & Jordan 2021).

With r the isotonic recalibration of the forecasts p and ȳ the base rate, a consistent score S splits into

    MCB = S(p) - S(r)    what recalibration would gain, 0 for a calibrated forecast
    DSC = S(ȳ) - S(r)    what the recalibrated forecast gains over the base rate
    UNC = S(ȳ)           the score of the base rate, the same for every forecaster of these outcomes

and S = MCB - DSC + UNC.  There are no bins to choose, and MCB and DSC are never negative.

Rules
- Equal forecasts are pooled before anything else; the result is the same to the bit in any order of the rows.
- One class, or one item with outcome 0 or 1: DSC = UNC = 0 and MCB = S (of a score that is 0 at its best).
- The log score may be infinite: then MCB is infinite too, and DSC and UNC are not.
- MCB is an estimate that is too high: the fit adapts to chance.  It is reported with n, and is no test.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike

from evalkit.calibration.isotonic import Blocks, isotonic, weighted_isotonic
from evalkit.exact_sums import Floats, chunks, order_free_sum
from evalkit.scoring.brier import brier_score
from evalkit.scoring.inputs import Items, Missing, binary_items
from evalkit.scoring.logarithmic import log_score
from evalkit.scoring.score import mean
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd

#: item scores of outcomes (n,) and forecasts (n,), each computed from its own item alone
ItemScores = Callable[[Floats, Floats], Floats]

#: a difference of scores below this share of their size is rounding
_ROUNDING = 1e-12


@dataclass(frozen=True, eq=False)
class CorpDecomposition:
    """Terms of a mean score: ``score`` = ``mcb`` - ``dsc`` + ``unc``, negatively oriented (small is good).

    ``n``: items that count, ``n_dropped``: items left out for a missing value, ``n_clusters``: clusters of
    dependent items or None, ``n_blocks``: blocks of the isotonic fit, ``blocks``: the fit itself.
    """

    score: float
    mcb: float
    dsc: float
    unc: float
    n: int
    n_dropped: int
    base_rate: float
    n_blocks: int
    convention: str
    n_clusters: int | None = None
    blocks: Blocks = field(repr=False, kw_only=True)

    def __float__(self) -> float:
        return self.score

    def summary(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        clusters = "" if self.n_clusters is None else f" in {counted(self.n_clusters, 'cluster')}"
        return (
            f"S {self.score:.4f} = MCB {self.mcb:.4f} - DSC {self.dsc:.4f} + UNC {self.unc:.4f} "
            f"(n = {self.n}{clusters}{dropped}, base rate {self.base_rate:.3f}; {self.convention})"
        )

    def to_frame(self) -> pd.DataFrame:
        """One row, a column for each term."""
        import pandas as pd

        names = [
            "score",
            "mcb",
            "dsc",
            "unc",
            "n",
            "n_dropped",
            "n_clusters",
            "base_rate",
            "n_blocks",
            "convention",
        ]
        return pd.DataFrame([{name: getattr(self, name) for name in names}])

    def _repr_html_(self) -> str:
        from html import escape

        head = "".join(f"<th>{name}</th>" for name in ("S", "MCB", "DSC", "UNC", "n", "base rate"))
        terms = (self.score, self.mcb, self.dsc, self.unc)
        row = "".join(f"<td>{value:.4f}</td>" for value in terms)
        row += f"<td>{self.n}</td><td>{self.base_rate:.3f}</td>"
        return (
            f"<table><caption>{escape(self.summary())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody><tr>{row}</tr></tbody></table>"
        )


def corp_decomposition(
    y: ArrayLike,
    p: ArrayLike,
    score: Literal["brier", "log"] | ItemScores = "brier",
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    allow_fractional: bool = False,
) -> CorpDecomposition:
    """CORP decomposition of the mean score of forecasts ``p`` of outcomes ``y``, both of shape (n,).

    ``score``: "brier", "log", or a function of outcomes and forecasts that returns item scores, negatively
    oriented and consistent for the probability (smallest in expectation at the true one).  ``weights``:
    shape (n,), non-negative.  ``cluster``: shape (n,), counted and reported; the terms do not depend on it.
    ``allow_fractional``: admit outcomes between 0 and 1 (ties, market values); the log score is then the
    cross-entropy.  Raises `ValueError` with index and value, and where the score proves inconsistent.
    """
    items = that_count(
        binary_items(
            y, p, weights=weights, cluster=cluster, missing=missing, allow_fractional=allow_fractional
        )
    )
    return decompose(items, score, fit(items))


def that_count(items: Items) -> Items:
    """The items of positive weight: one of weight zero is as if it were not there."""
    if items.weights is None or (items.weights > 0).all():
        return items
    kept = items.weights > 0
    cluster = None if items.cluster is None else items.cluster[kept]
    return Items(items.y[kept], items.p[kept], items.weights[kept], cluster, items.n_dropped)


def fit(items: Items) -> Blocks:
    """Isotonic fit of items of positive weight."""
    if items.weights is None and _is_binary(items.y):
        return isotonic(items.y, items.p)
    return weighted_isotonic(items.y, items.p, items.weights)


def decompose(items: Items, score: Literal["brier", "log"] | ItemScores, blocks: Blocks) -> CorpDecomposition:
    """The decomposition, given the fit of the same items."""
    rule, convention = _rule(score)
    if np.issubdtype(blocks.events.dtype, np.integer):
        n, events = int(blocks.n.sum()), int(blocks.events.sum())
        rate = events / n
        recalibrated, climate = (
            _of_blocks(rule, np.asarray(b.n), np.asarray(b.events)) / n
            for b in (blocks, _one_block(blocks, n, events))
        )
    else:
        rate = mean(items.y, items.weights)
        climate = mean(_scores(rule, items.y, np.full(len(items), rate)), items.weights)
        one = len(blocks.n) == 1  # then the fit is the base rate, with no rounding between them
        fitted = _scores(rule, items.y, blocks.of(items.p)) if not one else None
        recalibrated = climate if fitted is None else mean(fitted, items.weights)
    raw = _raw(items, score)
    return CorpDecomposition(
        score=raw,
        mcb=_gain(raw, recalibrated, "the forecasts"),
        dsc=_gain(climate, recalibrated, "the base rate"),
        unc=climate,
        n=len(items),
        n_dropped=items.n_dropped,
        base_rate=rate,
        n_blocks=len(blocks.n),
        convention=f"{convention}, 0 is best" if isinstance(score, str) else convention,
        n_clusters=None if items.cluster is None else len(np.unique(items.cluster)),
        blocks=blocks,
    )


def _one_block(blocks: Blocks, n: int, events: int) -> Blocks:
    return Blocks(np.array([n]), np.array([events]), blocks.first[:1], blocks.last[-1:])


def _gain(worse: float, better: float, who: str) -> float:
    """``worse - better``, not below 0: the fit is best among increasing functions, for consistent scores."""
    gain = worse - better
    if gain < -_ROUNDING * (1 + abs(worse) + abs(better)):
        raise ValueError(
            f"the score of {who} is {worse!r}, below {better!r} after recalibration: the score is not "
            "consistent for probabilities; expected one that is smallest in expectation at the true probability"
        )
    return max(gain, 0.0)


def _of_blocks(rule: ItemScores, n: Floats, events: Floats) -> float:
    """Total score of the recalibrated items, from the counts of the blocks."""
    if rule is _brier:
        # k events at (1 - k/n)² and n - k others at (k/n)² come to k(n - k)/n, rounded once
        return order_free_sum(events * (n - events) / n)
    value = events / n
    total: list[float] = []
    for outcome, count in ((1.0, events), (0.0, n - events)):
        some = count > 0
        scores = _scores(rule, np.full(int(some.sum()), outcome), value[some])
        total.append(order_free_sum(count[some] * scores))
    return total[0] + total[1]


def _raw(items: Items, score: Literal["brier", "log"] | ItemScores) -> float:
    if score == "brier":
        return float(brier_score(items.y, items.p, weights=items.weights, allow_fractional=True))
    if score == "log" and _is_binary(items.y):
        return float(log_score(items.y, items.p, weights=items.weights))
    return mean(_scores(_rule(score)[0], items.y, items.p), items.weights)


def _rule(score: Literal["brier", "log"] | ItemScores) -> tuple[ItemScores, str]:
    if score == "brier":
        return _brier, "Brier score, range 0-1"
    if score == "log":
        return _cross_entropy, "log score, nats, range 0 to infinity"
    if callable(score):
        return score, f"score {getattr(score, '__name__', type(score).__name__)}"
    raise ValueError(f"score={score!r}: expected 'brier', 'log' or a function of outcomes and forecasts")


def _brier(y: Floats, p: Floats) -> Floats:
    return np.square(p - y)


def _cross_entropy(y: Floats, p: Floats) -> Floats:
    """Log score, in expectation where an outcome lies between 0 and 1."""
    with np.errstate(divide="ignore"):
        happened, not_happened = -np.log(p), -np.log1p(-p)
    # 0 · ∞ is 0: what cannot happen and does not costs nothing
    return np.multiply(y, happened, where=y > 0, out=np.zeros_like(p)) + np.multiply(
        1 - y, not_happened, where=y < 1, out=np.zeros_like(p)
    )


def _scores(rule: ItemScores, y: Floats, p: Floats) -> Floats:
    scores = np.asarray(rule(y, p), dtype=np.float64)
    if scores.shape != y.shape:
        raise ValueError(f"score returned shape {scores.shape} for {len(y)} items: expected {y.shape}")
    if np.isnan(scores).any():
        i = int(np.argmax(np.isnan(scores)))
        raise ValueError(f"score returned NaN for outcome {float(y[i])!r} and forecast {float(p[i])!r}")
    return scores


def _is_binary(y: Floats) -> bool:
    return all(bool((y[part] * y[part] == y[part]).all()) for part in chunks(len(y)))
