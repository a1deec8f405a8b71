"""The classic reliability curve: frequency of events in bins of forecasts, and its confidence band.

The bins are those of `evalkit.calibration.bins`.  The interval of a bin is Wilson's (1927), for as many items
as the bin's design effect leaves (Kish 1965; Korn & Graubard 1998), with Student's t in place of the normal
where clusters are few; simultaneous over the bins by Bonferroni's inequality.  It is an interval for the
bin's mean frequency, and says nothing about the curve within the bin.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from evalkit.calibration.bands import Band, cluster_caveats
from evalkit.calibration.bins import Bins
from evalkit.calibration.dependence import dependence, quantile, variance_inflation
from evalkit.calibration.sorted_items import SortedItems
from evalkit.exact_sums import Floats


def binned_curve(data: SortedItems, bins: Bins) -> Callable[[Floats], Floats]:
    """From (weighted) sums of outcomes by group (m,) to the frequency in each bin (B,)."""
    firsts = np.searchsorted(data.p[data.starts], bins.low, side="left")
    weight = np.add.reduceat(data.weight, firsts)
    return lambda events: np.add.reduceat(events, firsts) / weight


def binned_confidence_band(data: SortedItems, bins: Bins, *, level: float, simultaneous: bool) -> Band:
    """Confidence band for the frequency in each bin (B,), at the bin's mean forecast."""
    caveats = cluster_caveats(data.n_clusters)
    if data.n_clusters is not None and data.n_clusters < 2:
        nothing = np.full(len(bins), np.nan)
        return Band("confidence", level, simultaneous, bins.forecast, nothing, nothing, "none", caveats)
    bin_of = np.searchsorted(bins.low, data.p, side="right") - 1
    strength = dependence(data, bins.frequency[bin_of])
    z = quantile(1 - (1 - level) / 2 / (len(bins) if simultaneous else 1), data.n_clusters)
    n = bins.weight / variance_inflation(data, strength, bin_of)
    centre = (n * bins.frequency + z**2 / 2) / (n + z**2)
    half = z / (n + z**2) * np.sqrt(n * bins.frequency * (1 - bins.frequency) + z**2 / 4)
    method = "Wilson interval in each bin"
    if simultaneous:
        method += f", Bonferroni over {len(bins)} bins"
    if data.cluster is not None:
        method += f", dependence λ = {strength:.2f} within {data.n_clusters} clusters"
    low, high = np.clip(centre - half, 0.0, 1.0), np.clip(centre + half, 0.0, 1.0)
    # at 0 and 1 the interval ends there, but for rounding
    low, high = np.minimum(low, bins.frequency), np.maximum(high, bins.frequency)
    return Band("confidence", level, simultaneous, bins.forecast, low, high, method, caveats)
