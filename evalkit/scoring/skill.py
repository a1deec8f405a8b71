"""Skill: 1 - S / S_ref, the share of the reference's score that the forecaster takes away (Murphy 1973).

1 is perfect, 0 as good as the reference, negative worse.  Not to be mistaken for the difference S_ref - S,
which some leaderboards print under the same name.  Skill is undefined (NaN) where the reference scores 0.

The reference is a forecast of the same items.  Without one it is the in-sample climatology, the frequency
of what happened in the very items that are scored: nobody knew it beforehand, and the result says so.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats, same_index
from evalkit.exact_sums import Floats
from evalkit.scoring.brier import brier_score
from evalkit.scoring.ensemble import crps_ensemble
from evalkit.scoring.inputs import Labels, Missing
from evalkit.scoring.quantile import interval_score, quantile_score
from evalkit.scoring.score import Score
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd

    from evalkit.uncertainty import Interval, MeanInterval

Rule = Callable[..., Any]
#: rules whose forecasts are not probabilities of the outcome: they have no climatology here
_OF_QUANTITIES: tuple[Rule, ...] = (crps_ensemble, interval_score, quantile_score)


@dataclass(frozen=True, eq=False)
class Skill:
    """Skill ``value`` of n items, with the two mean scores that it compares.

    ``reference`` says what the reference was.
    """

    value: float
    score: float
    reference_score: float
    reference: str
    rule: str
    n: int
    n_dropped: int
    _scores: Floats = field(repr=False, kw_only=True)
    _reference_scores: Floats = field(repr=False, kw_only=True)
    _weights: Floats | None = field(repr=False, kw_only=True)
    _cluster: Labels | None = field(repr=False, kw_only=True)

    def __float__(self) -> float:
        return self.value

    @cached_property
    def _influence(self) -> Floats:
        """Linearisation of the ratio: mean (weighted) zero, one value an item; 0 where the weight is."""
        ours, theirs = self._scores, self._reference_scores
        if self._weights is not None:  # an item of weight zero may have an infinite score
            counts = self._weights > 0
            ours, theirs = np.where(counts, ours, 0.0), np.where(counts, theirs, 0.0)
        ratio = self.score / self.reference_score
        return -(ours - ratio * theirs) / self.reference_score

    def interval(self, alpha: float = 0.05) -> Interval:
        """Interval at level 1 - alpha: the ratio linearised (delta method), clusters as the scores have them.

        A reference of in-sample climatology is taken as given: its own uncertainty is not in the interval.
        """
        from evalkit.uncertainty import Interval

        found = self._found(alpha)
        if found is None or math.isnan(found.low):
            return Interval(math.nan, math.nan)
        return Interval(self.value + found.low, min(1.0, self.value + found.high))

    def _found(self, alpha: float) -> MeanInterval | None:
        """Interval of the linearised ratio about 0; None where the ratio is undefined."""
        from evalkit.uncertainty import mean_interval

        if not (math.isfinite(self.score) and math.isfinite(self.reference_score) and self.reference_score):
            return None
        return mean_interval(self._influence, weights=self._weights, cluster=self._cluster, alpha=alpha)

    def summary(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        found, (low, high) = self._found(0.05), self.interval()
        caveats: tuple[str, ...] = ()
        if math.isnan(low):
            interval = "no interval" + (f": {found.reason.rstrip('.')}" if found else "")
        else:
            interval = f"95 % interval {low:.4f} to {high:.4f}"
            caveats = () if found is None else found.caveats
        clusters = (
            "" if found is None or found.n_clusters is None else f", {counted(found.n_clusters, 'cluster')}"
        )
        notes = "".join(f"  {caveat}" for caveat in caveats)
        return (
            f"skill {self.value:.4f} ({interval}; 1 - {self.score:.4f} / {self.reference_score:.4f}, {self.rule}, "
            f"n = {self.n}{clusters}{dropped}; reference: {self.reference}; 1 is best, 0 as the reference){notes}"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        low, high = self.interval()
        return pd.DataFrame(
            [
                {
                    "skill": self.value,
                    "low": low,
                    "high": high,
                    "score": self.score,
                    "reference_score": self.reference_score,
                    "reference": self.reference,
                    "rule": self.rule,
                    "n": self.n,
                    "n_dropped": self.n_dropped,
                }
            ]
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def skill_score(
    y: ArrayLike,
    p: ArrayLike,
    reference: ArrayLike | None = None,
    *,
    rule: Rule = brier_score,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    **options: Any,
) -> Skill:
    """Skill of ``p`` against ``reference`` (the shape of p, or None: in-sample climatology) under ``rule``.

    ``rule``: a scoring rule of this package; ``options`` are handed to it.  An item that is missing in
    either forecast is dropped from both with ``missing="drop"``.
    """
    same_index(y=y, p=p, reference=reference, weights=weights, cluster=cluster)
    outcome, forecast = floats(y, "y"), floats(p, "p")
    if reference is None:
        if rule in _OF_QUANTITIES:
            raise ValueError("forecasts of a quantity have no climatology here: pass a reference forecast")
        other, label = None, "in-sample climatology (the frequencies of these very items)"
    else:
        other, label = floats(reference, "reference"), "the given forecasts"
        if other.shape != forecast.shape:
            raise ValueError(
                f"reference has shape {other.shape} and p has shape {forecast.shape}: expected the same"
            )
        if missing == "drop":
            lost = np.isnan(other).reshape(len(other), -1).any(axis=1)
            forecast = forecast.copy()
            forecast[lost] = np.nan  # so that both scores leave out the same items
            other = other.copy()
            other[np.isnan(forecast).reshape(len(other), -1).any(axis=1)] = np.nan
    given = {"weights": weights, "cluster": cluster, "missing": missing, **options}
    ours: Score = rule(outcome, forecast, **given)
    if other is None:
        other = _climatology(outcome, forecast, weights)
    theirs: Score = rule(outcome, other, **given)
    undefined = theirs.value == 0 or not math.isfinite(theirs.value)
    return Skill(
        value=math.nan if undefined else 1 - ours.value / theirs.value,
        score=ours.value,
        reference_score=theirs.value,
        reference=label,
        rule=ours.name,
        n=ours.n,
        n_dropped=ours.n_dropped,
        _scores=ours.items,
        _reference_scores=theirs.items,
        _weights=ours.weights,
        _cluster=ours.cluster,
    )


def _climatology(y: Floats, p: Floats, weights: ArrayLike | None) -> Floats:
    """The constant forecast of the frequencies among the items that are scored; NaN where p or y is."""
    lost = np.isnan(y) | np.isnan(p).reshape(len(p), -1).any(axis=1)
    w = np.ones(len(y)) if weights is None else floats(weights, "weights")
    constant = np.full(p.shape, np.nan)
    if p.ndim == 1:
        constant[~lost] = _mean(y[~lost], w[~lost])
    else:
        for k in range(p.shape[1]):
            constant[~lost, k] = _mean((y[~lost] == k).astype(np.float64), w[~lost])
    return constant


def _mean(values: Floats, weights: Floats) -> float:
    return math.fsum(values * weights) / math.fsum(weights)
