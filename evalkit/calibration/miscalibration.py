"""Interval and p-value of miscalibration (MCB): what isotonic recalibration would gain in score.

MCB = max over increasing r of E[S(p, y) - S(r(p), y)] (Dimitriadis, Gneiting & Jordan 2021).  In the sample
it is too large, held out it is too small; both means bound it (see `evalkit.calibration.intervals`), and
their middle is the estimate.  The target is the MCB of the population.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from evalkit.calibration.canonical import canonical, folds, generator, units
from evalkit.calibration.intervals import (
    FEW_CLUSTERS,
    MiscalibrationInterval,
    check_alpha,
    mean_and_reach,
    resampled_p_value,
    unit_caveats,
)
from evalkit.calibration.isotonic import isotonic
from evalkit.calibration.noise import Places, sums_at
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Items, Missing, binary_items

Rule = Literal["brier", "log"]
#: folds in which the lower limit is found
FOLDS = 10
#: up to this many independent items, outcomes are drawn one by one for the p-value
_ONE_BY_ONE = 20_000
#: groups of neighbouring forecasts that stand for more distinct ones where residuals are resampled
_GROUPS = 4096


def mcb_interval(
    y: ArrayLike,
    p: ArrayLike,
    score: Rule = "brier",
    *,
    cluster: ArrayLike | None = None,
    alpha: float = 0.05,
    missing: Missing = "raise",
    seed: int = 0,
    replicates: int = 999,
) -> MiscalibrationInterval:
    """Interval for the MCB of forecasts ``p`` (n,) for outcomes ``y`` (n,), 0 or 1, at level 1 - alpha.

    ``cluster``: labels (n,) of dependent items.  ``replicates``: calibrated samples for the p-value.  Raises
    `ValueError` with index and value.
    """
    check_alpha(alpha)
    if score not in ("brier", "log"):
        raise ValueError(f"score={score!r}: expected 'brier' or 'log'")
    if replicates < 1:
        raise ValueError(f"replicates={replicates}: expected at least 1")
    items, _ = canonical(binary_items(y, p, cluster=cluster, missing=missing))
    rule = _brier if score == "brier" else _log
    possible, caveats = unit_caveats(items)
    if possible and items.cluster is not None and (count := units(items)[1]) < FEW_CLUSTERS:
        # 6 / 10 / 20 / 40 clusters of five equal forecasts and outcomes: .12 / .11 / .07 / .055 at level .05
        caveats += (f"{count} clusters, fewer than {FEW_CLUSTERS}: the p-value may be too small",)
    with np.errstate(divide="ignore"):
        gains = rule(items.y, items.p) - rule(items.y, isotonic(items.y, items.p).at(items.p))
    value = float(np.mean(gains)) if np.isfinite(gains).all() else math.inf
    estimate = low = high = chance = math.nan
    if possible and math.isinf(value):
        caveats += ("a forecast of 0 or 1 was wrong: MCB is infinite and has no interval",)
    elif possible:
        bounded = score == "brier"
        below, reach_below = mean_and_reach(items, _held_out(items, rule, seed), alpha, bounded=bounded)
        above, reach_above = mean_and_reach(items, gains, alpha, bounded=bounded)
        estimate, low = (below + above) / 2, max(below - reach_below, 0.0)
        high = min(above + reach_above, 1.0 if score == "brier" else math.inf)
        chance = _p_value(items, rule, value, seed, replicates)
        low = low if chance <= alpha / 2 else 0.0
    return MiscalibrationInterval(
        measure=f"MCB ({score} score)",
        value=value,
        estimate=estimate,
        low=low,
        high=high,
        p_value=chance,
        alpha=alpha,
        n=len(items),
        n_clusters=None if items.cluster is None else units(items)[1],
        method="held-out and in-sample means" + _p_value_method(items, score),
        caveats=caveats,
    )


def _held_out(items: Items, rule: Callable[[Floats, Floats], Floats], seed: int) -> Floats:
    """Gain of each item by a recalibration that was fitted on the other folds."""
    fold = folds(items, FOLDS, seed)
    gains = np.empty(len(items))
    for k in range(int(fold.max()) + 1):
        out = fold == k
        r = isotonic(items.y[~out], items.p[~out]).at(items.p[out])
        if rule is _log:
            # any increasing r bounds MCB from below; one that is never certain does so with a finite mean
            edge = 1 / (2 + int((~out).sum()))
            r = np.clip(r, edge, 1 - edge)
        gains[out] = rule(items.y[out], items.p[out]) - rule(items.y[out], r)
    return gains


def _brier(y: Floats, p: Floats) -> Floats:
    return np.square(p - y)


def _log(y: Floats, p: Floats) -> Floats:
    with np.errstate(divide="ignore"):  # the one that did not happen may be the log of 0
        return np.asarray(-np.where(y == 1, np.log(p), np.log1p(-p)))


def _p_value(
    items: Items, rule: Callable[[Floats, Floats], Floats], value: float, seed: int, replicates: int
) -> float:
    """Share of calibrated samples with an MCB as large."""
    rng = generator(items, seed, "consistency mcb")
    resampled = np.empty(replicates)
    if _drawn_one_by_one(items):
        p = np.sort(items.p)
        for row in range(replicates):
            y = (rng.random(len(p)) < p).astype(np.float64)
            with np.errstate(divide="ignore", invalid="ignore"):
                resampled[row] = np.mean(rule(y, p) - rule(y, isotonic(y, p).at(p)))
        return resampled_p_value(value, resampled)
    group = _groups(items.p)
    size = np.bincount(group)
    forecast = sums_at(group, items.p, len(size)) / size
    residual = items.y - items.p
    observed = _brier_mcb(sums_at(group, residual, len(size)), forecast, size)
    spread = np.sqrt(sums_at(group, items.p * (1 - items.p), len(size)))
    count = units(items)[1]
    for row in range(replicates):
        if items.cluster is None:
            sums = spread * rng.standard_normal(len(size))
        else:
            sums = sums_at(group, residual * rng.choice((-1.0, 1.0), count)[items.cluster], len(size))
        resampled[row] = _brier_mcb(sums, forecast, size)
    return resampled_p_value(observed, resampled)


def _drawn_one_by_one(items: Items) -> bool:
    """Outcomes of many items, or of clusters, are drawn as sums of residuals, which the Brier score judges."""
    return items.cluster is None and len(items) <= _ONE_BY_ONE


def _groups(p: Floats) -> Places:
    """Group of each forecast, ascending: its own, or where there are many, that of its neighbours."""
    distinct, group = np.unique(p, return_inverse=True)
    if len(distinct) <= _GROUPS:
        return group
    edges = np.unique(np.quantile(p, np.linspace(0, 1, _GROUPS + 1)))
    return np.unique(np.searchsorted(edges, p, side="right"), return_inverse=True)[1]


def _brier_mcb(residuals: Floats, forecast: Floats, size: Places) -> float:
    """Brier MCB of ``size`` items at each of ascending forecasts, with these sums of residuals."""
    from scipy.optimize import isotonic_regression

    mean = forecast + residuals / size
    fitted = isotonic_regression(mean, weights=size).x
    return float(size @ (np.square(forecast - mean) - np.square(fitted - mean)) / size.sum())


def _p_value_method(items: Items, score: Rule) -> str:
    of = ", of the Brier MCB" if score == "log" and not _drawn_one_by_one(items) else ""
    how = "consistency resampling" if items.cluster is None else "sign changes of clusters"
    return f"; p-value by {how}{of}"
