"""Recalibration: a map learned from outcomes, and what it is worth on items that it has not seen.

A map that is judged on the items it was fitted to always helps.  Here each item is recalibrated by a map
that was fitted on the other folds (cross-fitting); scores before and after are those of the held-out items.
A cluster is never split between folds.  Folds derive from the content of the items, not from their order:
items of equal content are exchangeable, and which of them lies in which fold depends on the rows.

The map for new forecasts is fitted on all items.  Its gain is expected to be that of the held-out items or a
little more.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, get_args

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats
from evalkit.calibration.canonical import canonical, folds, units
from evalkit.calibration.recalibration_maps import Method, RecalibrationMap, fitted
from evalkit.exact_sums import Floats
from evalkit.figure_style import COLOURS, new_axes, styled
from evalkit.scoring.brier import brier_score
from evalkit.scoring.inputs import Items, Missing, binary_items, categorical_items
from evalkit.scoring.logarithmic import log_score
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes


@dataclass(frozen=True)
class ScoreChange:
    """Mean score of the held-out items before and after; below 0 the ``difference`` is a gain.

    ``low`` and ``high``: 95 % interval of the difference; NaN with the ``reason`` where there is none.
    """

    rule: str
    before: float
    after: float
    difference: float
    low: float
    high: float
    reason: str


@dataclass(frozen=True, eq=False)
class Recalibration:
    """Recalibrated forecasts of n items, each by a map that was fitted without it.

    ``held_out``: recalibrated forecasts in the order of the items that were kept, shape of p.  ``map``: fitted
    on all items; ``new``: its forecasts for those that were passed as new, or None.  ``changes``: of the
    Brier and the log score.  ``n_folds``: folds that were used.
    """

    method: Method
    map: RecalibrationMap
    held_out: Floats = field(repr=False)
    new: Floats | None = field(repr=False)
    changes: tuple[ScoreChange, ...]
    n: int
    n_dropped: int
    n_clusters: int | None
    n_folds: int
    caveats: tuple[str, ...]
    _items: Items = field(repr=False, kw_only=True)

    def predict(self, p: ArrayLike) -> Floats:
        """Recalibrated forecasts for new ones, shape (m,) or (m, K), by the map fitted on all items."""
        forecast = floats(p, "p")
        shape = self._items.p.shape[1:]
        if forecast.ndim != 1 + len(shape) or forecast.shape[1:] != shape:
            raise ValueError(f"p has shape {forecast.shape}: expected (m{''.join(f', {k}' for k in shape)})")
        if len(forecast) == 0:
            return forecast
        if np.isnan(forecast).any():
            lost = np.isnan(forecast).reshape(len(forecast), -1).any(axis=1)
            raise ValueError(f"item {int(np.argmax(lost))} of p is NaN: leave missing forecasts out")
        outcome = np.zeros(len(forecast))
        checked = (binary_items if not shape else categorical_items)(outcome, forecast)
        return self.map(checked.p)

    def summary(self) -> str:
        clusters = "" if self.n_clusters is None else f" in {counted(self.n_clusters, 'cluster')}"
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        lines = [
            f"recalibration: {self.map.describe()} (n = {self.n}{clusters}{dropped}, {self.n_folds} folds)"
        ]
        for change in self.changes:
            interval = (
                f"no interval: {change.reason}"
                if math.isnan(change.low)
                else f"95 % interval {change.low:.4f} to {change.high:.4f}"
            )
            lines.append(
                f"{change.rule}, held out: {change.before:.4f} before, {change.after:.4f} after, "
                f"difference {change.difference:.4f} ({interval}; below 0 is a gain)"
            )
        return "\n".join([*lines, *(f"Caveat: {caveat}" for caveat in self.caveats)])

    def to_frame(self) -> pd.DataFrame:
        """A row for each score."""
        import pandas as pd

        shared: dict[str, Any] = {"method": self.method, "n": self.n, "n_dropped": self.n_dropped}
        shared |= {"n_clusters": self.n_clusters, "n_folds": self.n_folds}
        return pd.DataFrame([vars(change) | shared for change in self.changes])

    @styled
    def plot(self, ax: Axes | None = None) -> Axes:
        """The map for new forecasts, with the identity; for one probability an item."""
        if self._items.p.ndim == 2:
            raise ValueError("a map of several classes has no curve: plot the probability of one class")
        axes = new_axes() if ax is None else ax
        grid = np.unique(np.concatenate([np.linspace(0, 1, 1001), self._items.p]))
        axes.plot([0, 1], [0, 1], color=COLOURS["muted"], linestyle="--", linewidth=1.0, label="identity")
        axes.plot(grid, self.map(grid), color=COLOURS["blue"], label=self.method)
        axes.set(xlabel="Forecast", ylabel="Recalibrated forecast", xlim=(-0.01, 1.01), ylim=(-0.01, 1.01))
        axes.set_title(f"Recalibration by {self.method}, n = {self.n}")
        axes.legend()
        return axes

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self.summary().splitlines())


def recalibrate(
    y: ArrayLike,
    p: ArrayLike,
    method: Method = "isotonic",
    *,
    folds: int = 10,
    cluster: ArrayLike | None = None,
    new: ArrayLike | None = None,
    missing: Missing = "raise",
    seed: int = 0,
) -> Recalibration:
    """Recalibrate forecasts ``p`` (n,) of outcomes ``y`` (n,), 0 or 1; or by temperature p (n, K) of classes.

    ``folds``: of the cross-fitting, at most as many as there are items (or clusters).  ``cluster``: labels
    (n,) of dependent items.  ``new``: forecasts to recalibrate by the map fitted on all items.  Raises
    `ValueError` with index and value, and for fewer than two items or clusters.

    Sources: Ayer et al. 1955 (isotonic), Platt 1999, Kull, Silva Filho & Flach 2017 (beta), Guo et al. 2017
    (temperature).
    """
    if method not in get_args(Method):
        raise ValueError(f"method={method!r}: expected one of {', '.join(get_args(Method))}")
    if isinstance(folds, bool) or not isinstance(folds, (int, np.integer)) or folds < 2:
        raise ValueError(f"folds={folds!r}: expected a number of at least 2")
    if np.ndim(p) == 2:
        if method != "temperature":
            raise ValueError(
                f"method={method!r} is for one probability an item: use 'temperature' for classes"
            )
        given = categorical_items(y, p, cluster=cluster, missing=missing)
    else:
        given = binary_items(y, p, cluster=cluster, missing=missing)
    items, order = canonical(given)
    count = units(items)[1]
    if count < 2:
        what = "item" if cluster is None else "cluster"
        raise ValueError(f"{count} {what}: cross-fitting needs at least two")
    cross = _cross_fitted(items, method, int(folds), seed)
    held_out = np.empty_like(cross)
    held_out[order] = cross
    whole = fitted(items, method)
    caveat = "a slope is held at 0, as it would turn forecasts round: they do not rise with what happened"
    found = Recalibration(
        method=method,
        map=whole,
        held_out=held_out,
        new=None,
        changes=tuple(_change(items, cross, rule) for rule in ("Brier score", "log score")),
        n=len(items),
        n_dropped=items.n_dropped,
        n_clusters=None if cluster is None else count,
        n_folds=min(int(folds), count),
        caveats=(caveat,) if whole.held else (),
        _items=items,
    )
    if new is None:
        return found
    return Recalibration(**(vars(found) | {"new": found.predict(new)}))


def _cross_fitted(items: Items, method: Method, k: int, seed: int) -> Floats:
    """Each (canonical) item recalibrated by a map that was fitted on the other folds."""
    fold = folds(items, k, seed)
    recalibrated = np.empty_like(items.p)
    for number in range(int(fold.max()) + 1):
        out = fold == number
        learned = fitted(Items(items.y[~out], items.p[~out], None, None, 0), method)
        recalibrated[out] = learned(items.p[out])
    return recalibrated


def _change(items: Items, recalibrated: Floats, rule: str) -> ScoreChange:
    from evalkit.uncertainty import mean_interval

    score = brier_score if rule == "Brier score" else log_score
    before, after = score(items.y, items.p), score(items.y, recalibrated)
    high = before.high - before.low if rule == "Brier score" else math.inf
    if math.isinf(before.value) or math.isinf(after.value):
        with np.errstate(invalid="ignore"):
            difference = after.value - before.value
        reason = "a forecast of 0 or 1 was wrong: the log score is infinite"
        return ScoreChange(rule, before.value, after.value, difference, math.nan, math.nan, reason)
    found = mean_interval(after.items - before.items, lo=-high, hi=high, cluster=items.cluster)
    return ScoreChange(rule, before.value, after.value, found.mean, found.low, found.high, found.reason)
