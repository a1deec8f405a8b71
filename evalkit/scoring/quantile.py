"""Scores of quantiles and of prediction intervals.

* Quantile score (pinball loss; Koenker & Machado 1999; Gneiting & Raftery 2007): (1{y ≤ q} - τ)(q - y) for
  the forecast q of the τ-quantile.  Twice its mean over equally spaced levels approximates the CRPS
  (Laio & Tamea 2007): ``twice=True``.
* Interval score (Winkler 1972): width of the central 1 - α interval plus 2/α times the distance by which
  the outcome lies outside.

Both are in the units of y.
"""

from __future__ import annotations

import math
from typing import Literal, Unpack, overload

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Missing, real_items
from evalkit.scoring.rules import Common, scored
from evalkit.scoring.score import Score


@overload
def quantile_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    level: ArrayLike,
    reduce: Literal["mean"] = ...,
    twice: bool = ...,
    **common: Unpack[Common],
) -> Score: ...
@overload
def quantile_score(
    y: ArrayLike, p: ArrayLike, *, level: ArrayLike, reduce: None, twice: bool = ..., **common: Unpack[Common]
) -> Floats: ...
def quantile_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    level: ArrayLike,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
    twice: bool = False,
) -> Score | Floats:
    """Quantile score of ``p`` (n,) at one ``level`` τ in (0, 1), or (n, Q) at Q ascending levels (Q,).

    Several levels are averaged.  ``twice``: the factor 2 that makes it the CRPS of a fine grid of levels.
    Raises `ValueError` where an item's quantiles descend.
    """
    items = real_items(y, p, weights=weights, cluster=cluster, missing=missing)
    levels = np.atleast_1d(floats(level, "level"))
    columns = 1 if items.p.ndim == 1 else items.p.shape[1]
    if levels.shape != (columns,):
        raise ValueError(
            f"level has {levels.size} levels and p has {columns} quantiles an item: expected as many"
        )
    if not ((levels > 0) & (levels < 1)).all() or (np.diff(levels) <= 0).any():
        raise ValueError(f"level={levels.tolist()}: expected ascending levels between 0 and 1")
    if items.p.ndim == 2:
        crossed = (np.diff(items.p, axis=1) < 0).any(axis=1)
        if crossed.any():
            raise ValueError(
                f"item {int(np.argmax(crossed))} has quantiles that descend ({int(crossed.sum())} of "
                f"{len(items)} items do): expected ascending ones, as the levels are"
            )
    factor = 2.0 if twice else 1.0

    def rule(y: Floats, p: Floats, out: Floats) -> Floats:
        off = p.reshape(len(p), -1) - y[:, None]
        losses = np.where(off >= 0, (1 - levels) * off, -levels * off)
        np.multiply(losses.sum(axis=1), factor / columns, out)
        return out

    shown = ", ".join(f"{q:g}" for q in levels[:3]) + (", …" if columns > 3 else "")
    convention = f"pinball loss{' × 2' if twice else ''} at level {shown}, units of y, 0 is best"
    return scored(
        items, rule, name="quantile score", convention=convention, low=0.0, high=math.inf, reduce=reduce
    )


@overload
def interval_score(
    y: ArrayLike, p: ArrayLike, *, alpha: float, reduce: Literal["mean"] = ..., **common: Unpack[Common]
) -> Score: ...
@overload
def interval_score(
    y: ArrayLike, p: ArrayLike, *, alpha: float, reduce: None, **common: Unpack[Common]
) -> Floats: ...
def interval_score(
    y: ArrayLike,
    p: ArrayLike,
    *,
    alpha: float,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    reduce: Literal["mean"] | None = "mean",
    missing: Missing = "raise",
) -> Score | Floats:
    """Interval score of central 1 - ``alpha`` prediction intervals ``p`` (n, 2): lower and upper end.

    Raises `ValueError` where a lower end lies above its upper end.
    """
    if not 0 < alpha < 1:
        raise ValueError(f"alpha={alpha!r}: expected a number between 0 and 1 (0.1 for 90 % intervals)")
    items = real_items(y, p, weights=weights, cluster=cluster, missing=missing)
    if items.p.ndim != 2 or items.p.shape[1] != 2:
        raise ValueError(
            f"p has shape {items.p.shape}: expected (n, 2), lower and upper end of each interval"
        )
    crossed = items.p[:, 0] > items.p[:, 1]
    if crossed.any():
        i = int(np.argmax(crossed))
        raise ValueError(
            f"item {i} has the lower end {float(items.p[i, 0])!r} above the upper end {float(items.p[i, 1])!r}"
        )

    def rule(y: Floats, p: Floats, out: Floats) -> Floats:
        lower, upper = p[:, 0], p[:, 1]
        outside = np.maximum(lower - y, 0.0) + np.maximum(y - upper, 0.0)
        return np.add(upper - lower, 2 / alpha * outside, out)

    convention = (
        f"central {1 - alpha:.0%} interval, width + 2/alpha × distance outside, units of y, 0 is best"
    )
    return scored(
        items, rule, name="interval score", convention=convention, low=0.0, high=math.inf, reduce=reduce
    )
