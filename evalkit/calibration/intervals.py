"""Intervals for calibration errors: they are norms or suprema of means, and a sample makes them too large.

ECE and MCB adapt to chance: where the forecaster is calibrated they exceed 0 by a multiple of their standard
error.  An interval around such an estimate, a percentile bootstrap above all, misses the truth almost
always.  The limits here rest on what each of them is instead:

    ECE    = max over signs s of E[s(bin) (y - p)]                          = Σ |μ(bin)|
    L2     = max over vectors u, Σ w u² = 1, of E[u(bin) (y - p)]
    smECE  = max over smoothed signs h of E[h(p) (y - p)], at its bandwidth = ∫ |μ(t)| dt
    MCB    = max over increasing functions r of E[S(p, y) - S(r(p), y)]

High limit, all of them: in the sample the maximum is at least the mean for the maximiser of the population,
whose expectation is the truth.  So the in-sample value + t · se covers as a mean does.

Low limit of a norm: ‖μ̂‖ ≤ ‖μ‖ + (‖m + ε‖ - ‖m‖) for any m that is nowhere larger than the true μ, with
ε = μ̂ - μ, since |m + ε| - |m| falls in |m|.  So the value less a quantile of what ε adds to a μ̂ that was
drawn towards 0 by `SHRINK` standard errors at every place (for L2 this rests on ε being about as large in
every direction).  The limit is 0 where the p-value is above alpha / 2.  ε is drawn from the normal distribution with
the (cluster-robust) covariance of the residuals.

Low limit of MCB: r is fitted on the other folds, and its mean is taken in the fold that was held out; the
expectation of that is at most the truth, whatever r was found.  (The first idea is a test of norms, the
second is sample splitting, as in "Universal inference", Wasserman, Ramdas & Balakrishnan 2020.)

The p-value is of "calibrated", by consistency resampling (Bröcker & Smith 2007): outcomes are drawn from
the forecasts.  In clusters the residuals y - p keep their dependence: they are drawn with their covariance,
or whole clusters of them change sign.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from evalkit.calibration.canonical import units
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Items
from evalkit.scoring.wording import counted
from evalkit.uncertainty import cluster_se, gaffke_interval

if TYPE_CHECKING:
    import pandas as pd

#: a standard error below this share of the largest value is what rounding leaves of zero
ROUNDING = 1e-14
#: standard errors by which the low limit of a norm draws residuals towards 0
SHRINK = 3.0
#: fewer clusters than this are called few
FEW_CLUSTERS = 30
#: fewer events (or non-events) than this are called few: means of rare events are far from normal
FEW_OUTCOMES = 10


@dataclass(frozen=True)
class MiscalibrationInterval:
    """Interval [low, high] for a calibration error of the population, at level 1 - alpha; unpacks as a pair.

    ``estimate`` is corrected for the bias of ``value``, the error in the sample, and not truncated: it may lie
    below a limit of 0.  ``p_value``: of a sample error as large if the forecasts were calibrated, which is
    one-sided: at .025 < p < .05 a 95 % interval may begin at 0.  ``n`` items in ``n_clusters`` clusters (None:
    independent).  What is NaN has its reason in ``caveats``.
    """

    measure: str
    value: float
    estimate: float
    low: float
    high: float
    p_value: float
    alpha: float
    n: int
    n_clusters: int | None
    method: str
    caveats: tuple[str, ...]

    def __iter__(self) -> Iterator[float]:
        return iter((self.low, self.high))

    def brief(self) -> str:
        """Limits and p-value, as they stand in the summary of the error itself."""
        if math.isnan(self.high):
            return f"no interval: {self.caveats[-1]}"
        return (
            f"{100 * (1 - self.alpha):g} % interval {self.low:.4f} to {self.high:.4f}, "
            f"p = {self.p_value:.3g} for calibrated forecasts"
        )

    def summary(self) -> str:
        clusters = "" if self.n_clusters is None else f" in {counted(self.n_clusters, 'cluster')}"
        line = (
            f"{self.measure} {self.estimate:.4f} ({self.brief()}; {self.value:.4f} in the sample; "
            f"n = {self.n}{clusters}; {self.method})"
        )
        return "\n".join([line, *(f"Caveat: {caveat}" for caveat in self.caveats)])

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([vars(self) | {"caveats": "; ".join(self.caveats)}])

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self.summary().splitlines())


def check_alpha(alpha: float) -> None:
    if not 0 < alpha < 1:
        raise ValueError(f"alpha = {alpha} must lie in (0, 1)")


def is_binary(items: Items) -> bool:
    return bool(((items.y == 0) | (items.y == 1)).all())


def unit_caveats(items: Items) -> tuple[bool, tuple[str, ...]]:
    """Whether (canonical) items allow an interval at all, and what to say about how few they are."""
    count = units(items)[1]
    if count < 2:
        return False, (
            f"{count} {'item' if items.cluster is None else 'cluster'}: an interval needs at least two",
        )
    caveats = []
    if items.cluster is not None and count < FEW_CLUSTERS:
        caveats.append(f"{count} clusters, fewer than {FEW_CLUSTERS}: the interval may be too short")
    events = int((items.y == 1).sum())
    if is_binary(items) and (rarer := min(events, len(items) - events)) < FEW_OUTCOMES:
        what = "event" if rarer == events else "non-event"
        caveats.append(
            f"{rarer} {what}{'' if rarer == 1 else 's'}, fewer than {FEW_OUTCOMES}: the interval may be too short"
        )
    return True, tuple(caveats)


def mean_and_reach(
    items: Items, values: Floats, alpha: float, *, bounded: bool = True
) -> tuple[float, float]:
    """Weighted mean of ``values`` (n,) of canonical items, and t · se, robust to dependence in clusters.

    Without spread a standard error of 0 is no evidence of certainty: the reach is that of Gaffke's interval for
    as many equal values in [-1, 1], where values are ``bounded`` so, and infinite where they are not.
    """
    found = cluster_se(values, units(items)[0], weights=items.weights)
    largest = float(np.abs(values).max())
    if found.se > ROUNDING * largest:
        return found.mean, found.interval(alpha).high - found.mean
    if not bounded:
        return found.mean, math.inf
    edge = max(1.0, largest)
    equal = np.full(found.n_clusters, min(max(found.mean, -edge), edge))
    return found.mean, gaffke_interval(equal, -edge, edge, alpha).high - found.mean


def resampled_p_value(observed: float, resampled: Floats) -> float:
    """Share of resampled errors as large as the observed one, which is one of them.

    Errors that differ by rounding only are as large.
    """
    as_large = resampled >= observed - 1e-12 * abs(observed)
    return (1 + int(as_large.sum())) / (1 + len(resampled))
