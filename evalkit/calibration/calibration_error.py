"""Expected calibration error in bins: how far frequencies are from the forecasts, on average.

With the share w, the frequency ȳ and the mean forecast p̄ of each bin: L1 (ECE) Σ w |ȳ - p̄|, L2 the root of
Σ w (ȳ - p̄)², max the largest |ȳ - p̄| (Naeini, Cooper & Hauskrecht 2015).  The target is the same quantity
of the population, in these very bins: bins hide what cancels within them.

A sample has calibration error even where the forecaster has none.  Debiased:
- L2: the *square* of the L2 error less the variance of the frequencies (Kumar, Liang & Ma 2019).  It is
  signed and not truncated: below zero means that nothing was found.
- L1: less what the normal distribution of the frequencies adds to Σ w |ȳ - p̄| (the same authors resample
  it; the expectation of a folded normal is known, so nothing needs to be drawn).

Several classes, p of shape (n, K): ``kind="top-label"`` asks whether the likeliest class (the first, if
several are) happens as often as it was given probability; ``kind="classwise"`` averages over the classes
(Kull et al. 2019).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from evalkit.calibration.binned_interval import BinnedResiduals, limits, p_value
from evalkit.calibration.bins import Binning, Bins, bin_edges, binned, cells, frequency_variance
from evalkit.calibration.canonical import canonical, units
from evalkit.calibration.corp import that_count
from evalkit.calibration.intervals import MiscalibrationInterval, check_alpha, unit_caveats
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Items, Missing, binary_items, categorical_items
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd

Norm = Literal["l1", "l2", "max"]
Kind = Literal["binary", "top-label", "classwise"]
_NAMES = {"l1": "calibration error (L1)", "l2": "calibration error (L2)", "max": "largest error of a bin"}


@dataclass(frozen=True, eq=False)
class CalibrationError:
    """Calibration error of n items; ``float()`` of it is ``value``.

    ``value``: in units of probability; for the debiased L2 norm the signed square of that.  ``n_bins``: bins
    that hold an item, over all classes.
    """

    value: float
    norm: Norm
    kind: Kind
    debiased: bool
    n: int
    n_dropped: int
    n_bins: int
    convention: str
    caveats: tuple[str, ...]
    _tables: tuple[Bins, ...] = field(repr=False, kw_only=True)
    _edges: tuple[Floats, ...] = field(repr=False, kw_only=True)
    _items: Items = field(repr=False, kw_only=True)
    _seed: int = field(repr=False, kw_only=True)

    def __float__(self) -> float:
        return self.value

    @cached_property
    def _residuals(self) -> BinnedResiduals:
        return BinnedResiduals(tuple(_problems(canonical(self._items)[0], self.kind)), self._edges)

    @cached_property
    def p_value(self) -> float:
        """Share of calibrated samples with an error as large; NaN for fewer than two independent units."""
        if self.norm == "max" or not unit_caveats(self._residuals.problems[0])[0]:
            return math.nan
        return p_value(self._residuals, self.norm, self._error(), self._seed)

    def interval(self, alpha: float = 0.05) -> MiscalibrationInterval:
        """Interval for the L1 or L2 error of the population in these bins, at level 1 - alpha.

        It is in units of probability, for the debiased L2 norm too.  Its ``estimate`` is debiased.
        """
        check_alpha(alpha)
        items = self._residuals.problems[0]
        possible, caveats = unit_caveats(items)
        low = high = estimate = math.nan
        if self.norm == "max":
            caveats = ("no interval for the largest error over bins: those with the fewest items decide it",)
        elif possible:
            low, high = limits(self._residuals, self.norm, self._error(), alpha, self._seed)
            low = 0.0 if self.p_value > alpha / 2 else low
            estimate = self._debiased()
        return MiscalibrationInterval(
            measure=_NAMES[self.norm],
            value=self._error(),
            estimate=estimate,
            low=low,
            high=high,
            p_value=self.p_value,
            alpha=alpha,
            n=self.n,
            n_clusters=None if items.cluster is None else units(items)[1],
            method="norm of the residuals in bins, resampled",
            caveats=caveats,
        )

    def _error(self) -> float:
        """The error in the sample, not debiased, in units of probability."""
        return _average(self._tables, self.norm, None)

    def _debiased(self) -> float:
        """Debiased and in units of probability: the root of a square below 0 is 0."""
        biases = [_bias(t, i, e, self.norm)[0] for t, i, e in self._parts()]
        found = _average(self._tables, self.norm, biases)
        return math.sqrt(max(found, 0.0)) if self.norm == "l2" else found

    def _parts(self) -> Iterator[tuple[Bins, Items, Floats]]:
        return zip(self._tables, _problems(self._items, self.kind), self._edges, strict=True)

    def summary(self) -> str:
        found = self.interval()
        clusters = "" if found.n_clusters is None else f", {counted(found.n_clusters, 'cluster')}"
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        squared = self.norm == "l2" and self.debiased
        name = "squared calibration error" if squared else "calibration error"
        root = "its root: " if squared else ""
        line = f"{name} {self.value:.4f} ({root}{found.brief()}; n = {self.n}{clusters}{dropped}; {self.convention})"
        caveats = dict.fromkeys((*self.caveats, *found.caveats))
        return "\n".join([line, *(f"Caveat: {caveat}" for caveat in caveats)])

    def to_frame(self) -> pd.DataFrame:
        """The bins: edges, items, share, mean forecast, frequency and its difference from the forecast."""
        import pandas as pd

        frames = []
        for k, table in enumerate(self._tables):
            columns: dict[str, Any] = {
                "low": table.low,
                "high": table.high,
                "n": table.n,
                "share": table.share,
                "forecast": table.forecast,
                "frequency": table.frequency,
                "difference": table.frequency - table.forecast,
            }
            frames.append(pd.DataFrame({"class": k} | columns if self.kind == "classwise" else columns))
        return pd.concat(frames, ignore_index=True)

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self.summary().splitlines())


def calibration_error(
    y: ArrayLike,
    p: ArrayLike,
    norm: Norm = "l1",
    binning: Binning = "width",
    bins: int | ArrayLike = 10,
    debiased: bool = False,
    *,
    kind: Kind = "binary",
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    allow_fractional: bool = False,
    seed: int = 0,
) -> CalibrationError:
    """Calibration error of forecasts ``p`` for outcomes ``y``.

    ``y`` (n,) 0 or 1 with ``p`` (n,), or 0-based classes with ``p`` (n, K) and a ``kind`` for several
    classes.  ``bins``: their number, or a list of edges.  ``cluster``: labels (n,) of dependent items, for
    the debiasing and the interval.  ``seed``: of the interval and the p-value.  Raises `ValueError` with
    index and value.
    """
    if norm not in ("l1", "l2", "max"):
        raise ValueError(f"norm={norm!r}: expected 'l1', 'l2' or 'max'")
    if debiased and norm == "max":
        raise ValueError("no debiased estimate of the largest error: use norm='l1' or 'l2'")
    given: dict[str, Any] = {"weights": weights, "cluster": cluster, "missing": missing}
    if kind == "binary":
        items = binary_items(y, p, allow_fractional=allow_fractional, **given)
    elif kind in ("top-label", "classwise"):
        items = categorical_items(y, p, **given)
    else:
        raise ValueError(f"kind={kind!r}: expected 'binary', 'top-label' or 'classwise'")
    items = that_count(items)
    problems = _problems(items, kind)
    edges = [bin_edges(problem.p, bins, binning) for problem in problems]
    tables = [binned(i.y, i.p, e, i.weights) for i, e in zip(problems, edges, strict=True)]
    biases, singles = None, 0
    if debiased:
        found = [_bias(t, i, e, norm) for t, i, e in zip(tables, problems, edges, strict=True)]
        biases, singles = [bias for bias, _ in found], sum(count for _, count in found)
    return CalibrationError(
        value=_average(tables, norm, biases),
        norm=norm,
        kind=kind,
        debiased=debiased,
        n=len(items),
        n_dropped=items.n_dropped,
        n_bins=sum(len(table) for table in tables),
        convention=_convention(norm, binning, bins, debiased, kind, tables, weights is not None),
        caveats=_caveats(singles, cluster is not None),
        _tables=tuple(tables),
        _edges=tuple(edges),
        _items=items,
        _seed=seed,
    )


def _problems(items: Items, kind: Kind) -> list[Items]:
    """Binary problems of the items: several classes give that of the likeliest class, or one each."""
    if kind == "binary":
        return [items]
    rest = (items.weights, items.cluster, items.n_dropped)
    if kind == "top-label":
        top = items.p.argmax(axis=1)
        hit = (top == items.y).astype(np.float64)
        return [Items(hit, np.ascontiguousarray(items.p.max(axis=1)), *rest)]
    return [
        Items((items.y == k).astype(np.float64), np.ascontiguousarray(items.p[:, k]), *rest)
        for k in range(items.p.shape[1])
    ]


def _bias(table: Bins, items: Items, edges: Floats, norm: Norm) -> tuple[Floats, int]:
    """What chance adds to the difference (L1) or its square (L2) in each bin; bins that show no variance."""
    variance, groups = frequency_variance(table, items, partial(cells, items.p, edges))
    if norm == "l1":
        difference = np.abs(table.frequency - table.forecast)
        variance = _folded(difference, np.sqrt(variance)) - difference
    return variance, int((groups == 1).sum())


def _average(tables: Sequence[Bins], norm: Norm, biases: Sequence[Floats] | None) -> float:
    """Norm over bins, averaged over problems; debiased where ``biases`` are given (L2: then its square)."""
    values = []
    for k, table in enumerate(tables):
        difference = np.abs(table.frequency - table.forecast)
        if norm == "max":
            values.append(float(difference.max()))
            continue
        terms = difference if norm == "l1" else np.square(difference)
        values.append(math.fsum(table.share * (terms if biases is None else terms - biases[k])))
    average = math.fsum(values) / len(values)
    return math.sqrt(average) if norm == "l2" and biases is None else average


def _folded(mean: Floats, sd: Floats) -> Floats:
    """Expectation of |X| for X normal."""
    safe = np.where(sd > 0, sd, 1.0)
    z = mean / safe
    inside = np.array([math.erf(x) for x in (z / math.sqrt(2)).tolist()])
    return np.where(sd > 0, safe * math.sqrt(2 / math.pi) * np.exp(-np.square(z) / 2) + mean * inside, mean)


def _convention(
    norm: Norm,
    binning: Binning,
    bins: int | ArrayLike,
    debiased: bool,
    kind: Kind,
    tables: list[Bins],
    weighted: bool,
) -> str:
    name = {"l1": "L1", "l2": "L2", "max": "largest bin"}[norm]
    parts = [
        kind,
        ("debiased " if debiased else "") + name + (" squared, signed" if debiased and norm == "l2" else ""),
    ]
    edges = "given edges" if np.ndim(bins) else f"equal {binning}"
    parts.append(f"{counted(sum(len(table) for table in tables), 'bin')} with items, {edges}")
    if weighted:
        parts.append("weighted")
    return ", ".join(parts) + ", 0 is best"


def _caveats(singles: int, clustered: bool) -> tuple[str, ...]:
    if not singles:
        return ()
    return (f"{singles} bins have one {'cluster' if clustered else 'item'}: their bias is not corrected",)
