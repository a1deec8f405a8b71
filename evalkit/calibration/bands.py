"""Bands around a reliability curve, by drawing outcomes: where would the curve of a calibrated forecaster lie?

Consistency band.  Outcomes are drawn from the forecasts themselves, y* ~ Bernoulli(p), and the curve is
fitted to them anew; the band holds the middle share ``level`` of the fitted values at each forecast, with
(1 - level)/2 in each tail (Bröcker & Smith 2007; Dimitriadis, Gneiting & Jordan 2021).  It stands around the
diagonal.  A curve that leaves it is evidence against calibration.

Rules
- The forecasts are held fixed: the band is that of these forecasts, and its level is exact but for ties
  among the fitted values, for any n (independent items).
- In clusters, outcomes are drawn with the dependence that the clusters show; see
  `evalkit.calibration.dependence`.
- Simultaneous: the pointwise rank is lowered until a share ``level`` of the drawn curves lies everywhere within
  the band of the other ones (a global envelope; Myllymäki et al. 2017).  Extremes need more draws: four times
  as many are made.
- Draws derive from the items and the seed, and not from the order of the rows.

Confidence bands, around the curve, are in `confidence_band` and `simultaneous_band`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalkit.calibration.canonical import generator
from evalkit.calibration.dependence import dependence, draws
from evalkit.calibration.isotonic import pool
from evalkit.calibration.sorted_items import SortedItems
from evalkit.exact_sums import Floats

#: draws of a simultaneous band for each of a pointwise one
_SIMULTANEOUS = 4
#: fewer clusters than this, and what is known of their dependence is poor
FEW_CLUSTERS = 30


@dataclass(frozen=True, eq=False)
class Band:
    """Where a curve may lie: ``low`` ≤ value ≤ ``high`` at forecast ``x``, arrays of shape (m,).

    ``kind``: "consistency" (around the diagonal) or "confidence" (around the curve); ``method`` and
    ``caveats`` in words.  NaN where nothing can be said.
    """

    kind: Literal["consistency", "confidence"]
    level: float
    simultaneous: bool
    x: Floats
    low: Floats
    high: Floats
    method: str
    caveats: tuple[str, ...] = ()

    def at(self, p: Floats) -> tuple[Floats, Floats]:
        """Band at forecasts ``p``, interpolated linearly."""
        return np.interp(p, self.x, self.low), np.interp(p, self.x, self.high)

    def __str__(self) -> str:
        scope = "simultaneous" if self.simultaneous else "pointwise"
        return f"{self.level:.0%} {self.kind} band, {scope}"


Curve = Callable[[Floats], Floats]


def isotonic_curve(data: SortedItems) -> Curve:
    """From (weighted) sums of outcomes by group (m,) to the isotonic fit (m,)."""

    def curve(events: Floats) -> Floats:
        n, k, first = pool(data.weight, events)
        return np.repeat(k / n, np.diff(np.append(first, len(events))))

    return curve


def consistency_band(
    data: SortedItems,
    curve: Curve,
    x: Floats,
    *,
    level: float,
    simultaneous: bool,
    replicates: int,
    seed: int,
) -> Band:
    """Band of the ``curve`` (from sums by group to values at ``x``) if the forecasts were calibrated."""
    rank = int((replicates + 1) * (1 - level) / 2 + 1e-9)
    if rank < 1:
        raise ValueError(
            f"replicates={replicates} are too few for level={level}: at least {int(np.ceil(2 / (1 - level)))}"
        )
    caveats = cluster_caveats(data.n_clusters)
    if data.n_clusters is not None and data.n_clusters < 2:
        nothing = np.full(len(x), np.nan)
        return Band("consistency", level, simultaneous, x, nothing, nothing, "none", caveats)
    strength = dependence(data, data.p)
    draw, rng = draws(data, strength), generator(data.items, seed, "consistency band")
    drawn = replicates * (_SIMULTANEOUS if simultaneous else 1)
    curves = np.empty((drawn, len(x)))
    for row in curves:
        row[:] = curve(draw(rng))
    ordered = np.sort(curves, axis=0)
    method = f"outcomes drawn from the forecasts, {drawn} replicates, seed {seed}"
    if data.cluster is not None:
        method += f", dependence λ = {strength:.2f} within {data.n_clusters} clusters"
    if simultaneous:
        rank, share = _global_rank(curves, ordered, level)
        if share < level:
            caveats += (
                f"the simultaneous band holds {share:.0%} of calibrated curves: take more replicates",
            )
    return Band("consistency", level, simultaneous, x, ordered[rank - 1], ordered[-rank], method, caveats)


def _global_rank(curves: Floats, ordered: Floats, level: float) -> tuple[int, float]:
    """Highest rank whose envelope holds a share ``level`` of whole curves, and that share."""

    def share(k: int) -> float:
        # A curve lies in the envelope of rank k of the others if it does in that of rank k + 1 of all.
        inside = (curves >= ordered[k]) & (curves <= ordered[-k - 1])
        return float(inside.all(axis=1).mean())

    low, high = 1, max(1, int(len(curves) * (1 - level) / 2))
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if share(middle) >= level else (low, middle - 1)
    return low, share(low)


def cluster_caveats(n_clusters: int | None) -> tuple[str, ...]:
    if n_clusters is None:
        return ()
    if n_clusters < 2:
        return ("one cluster shows nothing about dependence between clusters: no band",)
    if n_clusters < FEW_CLUSTERS:
        return (f"only {n_clusters} clusters: the band is rough",)
    return ()
