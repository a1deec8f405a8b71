"""Murphy's decomposition of the Brier score into reliability, resolution and uncertainty.

On the distinct forecasts (Murphy 1973): S = REL - RES + UNC.  In bins (Stephenson, Coelho & Jolliffe 2008)
two terms remain for what varies within a bin: S = REL - RES + UNC + WBV - WBC.

In a sample REL and RES are too large, the more so the fewer items a bin has.  Bias-corrected (Bröcker 2012;
Ferro & Fricker 2012), with b = (1/n) Σ n_k v_k and v_k the variance of the frequency in bin k:
REL' = REL - b, RES' = RES - b + v, UNC' = UNC + v, where v is the variance of the frequency overall.  A bin
of one item contributes 0 to b and is counted.  REL' can be negative, which says that nothing was found: it
is not truncated.

Where all forecasts are distinct there is one item a bin, REL is the score itself and says nothing about
calibration: the result carries that caveat.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evalkit.calibration.bins import Binning, Bins, bin_edges, binned, cells, distinct, frequency_variance
from evalkit.exact_sums import Floats, streamed_sum
from evalkit.scoring.inputs import Items, Missing, binary_items
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True, eq=False)
class MurphyDecomposition:
    """Brier score S = rel - res + unc + wbv - wbc, each in the units of the score.

    ``rel`` reliability (0 is best), ``res`` resolution (large is best), ``unc`` uncertainty of the outcomes,
    ``wbv`` and ``wbc`` variance and covariance within bins (0 on distinct forecasts).  ``n_bins`` bins that
    hold an item; ``n_singletons`` bins with one item (or one cluster), which no bias can be estimated from.
    """

    score: float
    rel: float
    res: float
    unc: float
    wbv: float
    wbc: float
    n: int
    n_dropped: int
    n_bins: int
    n_singletons: int
    bias_corrected: bool
    convention: str
    caveats: tuple[str, ...]
    bins: Bins = field(repr=False)

    @property
    def gres(self) -> float:
        """Generalised resolution, res - wbv + wbc: with it S = rel - gres + unc in bins too."""
        return self.res - self.wbv + self.wbc

    def summary(self) -> str:
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        within = f" + WBV {self.wbv:.4f} - WBC {self.wbc:.4f}" if self.wbv or self.wbc else ""
        lines = [
            f"Brier score {self.score:.4f} = REL {self.rel:.4f} - RES {self.res:.4f} + UNC {self.unc:.4f}"
            f"{within} (n = {self.n}{dropped}; {self.convention})"
        ]
        return "\n".join(lines + [f"Caveat: {caveat}" for caveat in self.caveats])

    def to_frame(self) -> pd.DataFrame:
        """One row with every figure."""
        import pandas as pd

        names = (
            "score",
            "rel",
            "res",
            "unc",
            "wbv",
            "wbc",
            "gres",
            "n",
            "n_dropped",
            "n_bins",
            "n_singletons",
        )
        row: dict[str, Any] = {name: getattr(self, name) for name in names}
        return pd.DataFrame([row | {"convention": self.convention, "caveats": "; ".join(self.caveats)}])

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self.summary().splitlines())


def murphy_decomposition(
    y: ArrayLike,
    p: ArrayLike,
    bins: int | ArrayLike | None = None,
    bias_corrected: bool = False,
    *,
    binning: Binning = "width",
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    allow_fractional: bool = False,
) -> MurphyDecomposition:
    """Decomposition of the Brier score of forecasts ``p`` (n,) for outcomes ``y`` (n,), 0 or 1.

    ``bins``: None for the distinct forecasts, a number of bins, or their edges.  ``cluster``: labels (n,) of
    dependent items; they change the bias correction only.  Raises `ValueError` with index and value.
    """
    items = binary_items(y, p, cluster=cluster, missing=missing, allow_fractional=allow_fractional)
    if bins is None:
        table = distinct(items.y, items.p)
        edges = table.low
        convention = f"{len(table)} distinct forecasts"
        wbv = wbc = 0.0
    else:
        edges = bin_edges(items.p, bins, binning)
        table = binned(items.y, items.p, edges)
        convention = f"{counted(len(table), 'bin')} with items, " + (
            "given edges" if np.ndim(bins) else f"equal {binning}"
        )
        wbv, wbc = _within(items, table, edges)
    n = len(items)
    frequency = math.fsum(table.events) / n
    rel = math.fsum(table.n * np.square(table.forecast - table.frequency)) / n
    res = math.fsum(table.n * np.square(table.frequency - frequency)) / n
    unc = _mean(n, lambda part, out: np.square(items.y[part] - frequency, out))
    variance, groups = frequency_variance(
        table, items, lambda: np.searchsorted(edges, items.p) if bins is None else cells(items.p, edges)
    )
    caveats = []
    if bias_corrected:
        b = math.fsum(table.n * variance) / n
        whole = _variance_of_frequency(items)
        rel, res, unc = rel - b, res - b + whole, unc + whole
        convention += ", bias-corrected" + (" by cluster" if cluster is not None else "")
    singles = int((groups == 1).sum())
    if bins is None and len(table) == n > 1:
        caveats.append(
            "all forecasts are distinct: REL is the score itself and says nothing about calibration"
        )
    elif bias_corrected and singles:
        what = "item" if cluster is None else "cluster"
        caveats.append(f"{singles} of {len(table)} bins have one {what}: their bias is not corrected")
    return MurphyDecomposition(
        score=_mean(n, lambda part, out: np.square(items.p[part] - items.y[part], out)),
        rel=rel,
        res=res,
        unc=unc,
        wbv=wbv,
        wbc=wbc,
        n=n,
        n_dropped=items.n_dropped,
        n_bins=len(table),
        n_singletons=singles,
        bias_corrected=bias_corrected,
        convention=convention,
        caveats=tuple(caveats),
        bins=table,
    )


def _within(items: Items, table: Bins, edges: Floats) -> tuple[float, float]:
    """Variance of the forecasts within bins, and twice their covariance with the outcomes."""
    size = len(edges) - 1
    forecast, frequency = table.lookup(table.forecast, size), table.lookup(table.frequency, size)

    def variance(part: slice, out: Floats) -> Floats:
        p = items.p[part]
        return np.square(p - forecast[cells(p, edges)], out)

    def covariance(part: slice, out: Floats) -> Floats:
        y, p = items.y[part], items.p[part]
        cell = cells(p, edges)
        return np.multiply(2 * (y - frequency[cell]), p - forecast[cell], out)

    return _mean(len(items), variance), _mean(len(items), covariance, 2.0)


def _variance_of_frequency(items: Items) -> float:
    """Variance of the frequency over all items."""
    whole = np.array([0.0, 1.0])
    variance, _ = frequency_variance(
        binned(items.y, items.p, whole), items, lambda: np.zeros(len(items), dtype=np.intp)
    )
    return float(variance[0])


def _mean(n: int, terms: Callable[[slice, Floats], Floats], bound: float = 1.0) -> float:
    return streamed_sum(n, terms, bound) / n
