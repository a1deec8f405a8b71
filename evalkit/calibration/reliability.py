"""Reliability diagram: how often did what was forecast with probability p happen?

``method="corp"`` draws the isotonic recalibration of the forecasts (Dimitriadis, Gneiting & Jordan 2021):
no bins to choose, and the curve belongs to the decomposition S = MCB - DSC + UNC.  ``method="binned"`` is the
classic one.  The band says what chance does to the curve:

- ``band="consistency"``: where the curve would lie if the forecasts were calibrated, around the diagonal;
- ``band="confidence"``: which true curves go with the observed one, around the curve;
- pointwise, or ``simultaneous`` for the curve as a whole.

How well each band keeps its level was simulated (``benchmarks/results/coverage_bands.md``, level .9, n = 50 to
2000).  Pointwise bands held .89 to .96, on average over the range and with and without clusters; simultaneous
consistency bands .92 to .94; simultaneous confidence bands, which are bounds, .99 and more.  Where it does not
hold: at single places of the range pointwise bands may be .05 below; with fewer than 30 clusters the strength
of their dependence is poorly known (the result says so); where clusters depend in other ways than
`evalkit.calibration.dependence` models, nothing was shown.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.calibration.bands import Band, consistency_band, isotonic_curve
from evalkit.calibration.binned_curve import binned_confidence_band, binned_curve
from evalkit.calibration.bins import Binning, Bins, bin_edges, binned
from evalkit.calibration.confidence_band import confidence_band
from evalkit.calibration.corp import CorpDecomposition, decompose, fit, that_count
from evalkit.calibration.isotonic import Blocks
from evalkit.calibration.simultaneous_band import simultaneous_confidence_band
from evalkit.calibration.sorted_items import sort_items
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Items, Missing, binary_items
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Method = Literal["corp", "binned"]
Kind = Literal["consistency", "confidence"]

#: bars of the histogram of forecasts
HISTOGRAM_BARS = 20


@dataclass(frozen=True, eq=False)
class ReliabilityDiagram:
    """A reliability curve with its band, histogram and scores.

    The curve has a row for each block of the isotonic fit, or for each bin that holds items, arrays of shape
    (B,): ``low`` and ``high`` (lowest and highest forecast of a block, edges of a bin), ``x`` (mean forecast),
    ``value`` (recalibrated forecast: the frequency of events) and ``n`` (items).  ``histogram``: items with
    forecasts in [0, .05), [.05, .1) … [.95, 1].
    """

    method: Method
    low: Floats
    high: Floats
    x: Floats
    value: Floats
    n_curve: NDArray[np.int64]
    band: Band | None
    histogram: NDArray[np.int64]
    decomposition: CorpDecomposition
    base_rate: float
    n: int
    n_dropped: int
    n_clusters: int | None
    convention: str
    caveats: tuple[str, ...]
    _blocks: Blocks = field(repr=False, kw_only=True)

    def at(self, p: ArrayLike) -> Floats:
        """Value of the curve at forecasts ``p``: interpolated between blocks, or between means of bins."""
        points = np.asarray(p, dtype=np.float64)
        return self._blocks.at(points) if self.method == "corp" else np.interp(points, self.x, self.value)

    @property
    def outside(self) -> float | None:
        """Share of the band's forecasts (places or bins) at which curve or diagonal leaves the band.

        The curve for a consistency band, the diagonal for a confidence band; None without a band.
        """
        if self.band is None or np.isnan(self.band.low).any():
            return None
        line = self.at(self.band.x) if self.band.kind == "consistency" else self.band.x
        gone = (line < self.band.low - 1e-12) | (line > self.band.high + 1e-12)
        return float(gone.mean())

    def summary(self) -> str:
        lines = [f"Reliability diagram ({self.convention})", self.decomposition.summary()]
        if self.band is not None:
            lines.append(f"{self.band}: {self.band.method}")
            if self.outside is not None:
                who = "the curve" if self.band.kind == "consistency" else "the diagonal"
                lines.append(
                    f"{who} is outside the band at {self.outside:.0%} of {len(self.band.x)} forecasts"
                )
        return "\n".join([*lines, *(f"caution: {caveat}" for caveat in self.caveats)])

    def to_frame(self) -> pd.DataFrame:
        """A row for each block or bin: low, high, forecast, value, n, and the band at the mean forecast."""
        import pandas as pd

        columns = {"low": self.low, "high": self.high, "forecast": self.x, "value": self.value}
        frame = pd.DataFrame({**columns, "n": self.n_curve})
        if self.band is not None:
            frame["band_low"], frame["band_high"] = self.band.at(self.x)
        return frame

    def plot(self, ax: Axes | None = None, *, title: str | None = None) -> Axes:
        """The diagram above a histogram of the forecasts."""
        from evalkit.calibration.reliability_plot import reliability_plot

        return reliability_plot(self, ax, title=title)

    def _repr_html_(self) -> str:
        from html import escape

        head, *rest = self.summary().split("\n")
        lines = "".join(f"<li>{escape(line)}</li>" for line in rest)
        return f"<p>{escape(head)}</p><ul>{lines}</ul>"


def reliability_diagram(
    y: ArrayLike,
    p: ArrayLike,
    method: Method = "corp",
    band: Kind | None = "consistency",
    level: float = 0.9,
    cluster: ArrayLike | None = None,
    seed: int = 0,
    *,
    bins: int | ArrayLike = 10,
    binning: Binning = "width",
    simultaneous: bool = False,
    replicates: int = 1000,
    weights: ArrayLike | None = None,
    missing: Missing = "raise",
    allow_fractional: bool = False,
) -> ReliabilityDiagram:
    """Reliability diagram of forecasts ``p`` of outcomes ``y``, both of shape (n,).

    ``level``: of the band.  ``cluster``: labels of dependent items, shape (n,); the band allows for them.
    ``seed`` and ``replicates``: of a consistency band, which is drawn.  ``bins``, ``binning``: of
    ``method="binned"``; equal width or equal mass, or a list of edges.  ``allow_fractional``: outcomes between 0
    and 1; the bands treat them as if they were 0 or 1, and are too wide.  Raises `ValueError`.
    """
    if method not in ("corp", "binned"):
        raise ValueError(f"method={method!r}: expected 'corp' or 'binned'")
    if band not in ("consistency", "confidence", None):
        raise ValueError(f"band={band!r}: expected 'consistency', 'confidence' or None")
    if not 0 < level < 1:
        raise ValueError(f"level={level!r}: expected a number between 0 and 1, such as 0.9")
    if isinstance(replicates, bool) or replicates != int(replicates) or replicates < 1:
        raise ValueError(f"replicates={replicates!r}: expected a whole number of at least 1")
    items = that_count(
        binary_items(
            y, p, weights=weights, cluster=cluster, missing=missing, allow_fractional=allow_fractional
        )
    )
    blocks = fit(items)
    terms = decompose(items, "brier", blocks)
    edges = bin_edges(items.p, bins, binning) if method == "binned" else None
    table = binned(items.y, items.p, edges, items.weights) if edges is not None else None
    drawn = None
    if band is not None:
        drawn = _band(items, edges, table, band, level, simultaneous, replicates, seed)
    if table is not None:
        low, high, x, value, n = table.low, table.high, table.forecast, table.frequency, table.n
        how = f"{counted(len(table), 'bin')} " + (
            f"of equal {binning}" if np.ndim(bins) == 0 else "as listed"
        )
        convention = f"frequency of events in {how} that hold items, [a, b) and the last one closed"
    else:
        low, high, value = blocks.first, blocks.last, blocks.value
        x, n = _block_means(items, blocks)
        convention = "CORP: isotonic recalibration, equal forecasts pooled"
    if weights is not None:
        convention += "; weighted"
    return ReliabilityDiagram(
        method=method,
        low=low,
        high=high,
        x=x,
        value=value,
        n_curve=n,
        band=drawn,
        histogram=np.histogram(items.p, np.linspace(0.0, 1.0, HISTOGRAM_BARS + 1))[0],
        decomposition=terms,
        base_rate=terms.base_rate,
        n=len(items),
        n_dropped=items.n_dropped,
        n_clusters=terms.n_clusters,
        convention=convention,
        caveats=_caveats(items, drawn),
        _blocks=blocks,
    )


def _band(
    items: Items,
    edges: Floats | None,
    table: Bins | None,
    kind: Kind,
    level: float,
    simultaneous: bool,
    replicates: int,
    seed: int,
) -> Band:
    # an exact band must not bundle different forecasts
    most = {"most": len(items)} if kind == "confidence" and simultaneous else {}
    data = sort_items(items, None if edges is None else edges[1:-1], **most)
    if kind == "consistency":
        curve = isotonic_curve(data) if table is None else binned_curve(data, table)
        x = data.x if table is None else table.forecast
        return consistency_band(
            data, curve, x, level=level, simultaneous=simultaneous, replicates=replicates, seed=seed
        )
    if table is not None:
        return binned_confidence_band(data, table, level=level, simultaneous=simultaneous)
    if simultaneous:
        return simultaneous_confidence_band(data, level=level)
    return confidence_band(data, level=level)


def _block_means(items: Items, blocks: Blocks) -> tuple[Floats, NDArray[np.int64]]:
    """Mean forecast of each block, and its items."""
    inside = binned(items.y, items.p, np.append(blocks.first, 2.0), items.weights)
    return np.clip(inside.forecast, blocks.first, blocks.last), inside.n


def _caveats(items: Items, band: Band | None) -> tuple[str, ...]:
    caveats: tuple[str, ...] = () if band is None else band.caveats
    first = items.y[0]
    if (items.y == first).all() and first in (0, 1):
        caveats += ("all outcomes are the same: there is nothing to discriminate",)
    if band is not None and items.cluster is None and len(items) > 1:
        caveats += ("the band takes items to be independent; pass cluster where they are not",)
    if band is not None and not ((items.y == 0) | (items.y == 1)).all():
        caveats += ("outcomes between 0 and 1 vary less than the band allows for: it is too wide",)
    return caveats
