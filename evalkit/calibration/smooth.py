"""Smooth calibration error: no bins, and a bandwidth that chooses itself (Błasiok & Nakkiran 2023).

The residuals y - p, each at its forecast, are smoothed over [0, 1] with a Gaussian kernel of bandwidth σ
that is reflected at 0 and 1; smECE(σ) = ∫ |r(t)| dt of the smoothed residuals r.  It falls as σ grows, so
there is one σ* with smECE(σ*) = σ*: that is the smooth calibration error ("Smooth ECE: principled
reliability diagrams via kernel smoothing", arXiv 2309.12236).  It changes little when forecasts change
little, which a binned error does not.

The residuals are put on a grid of `GRID` steps, each split between its two neighbours, and smoothed with a
cosine transform, in which the reflected kernel is a factor exp(-(πkσ)²/2).  They are rounded to 2^-36 and
added as integers: the same in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from evalkit.calibration.canonical import canonical, generator, units
from evalkit.calibration.corp import that_count
from evalkit.calibration.intervals import (
    SHRINK,
    MiscalibrationInterval,
    check_alpha,
    is_binary,
    mean_and_reach,
    resampled_p_value,
    unit_caveats,
)
from evalkit.calibration.noise import Places, consistency_noise, residual_noise, sums_at
from evalkit.exact_sums import Floats, chunks, order_free_sum
from evalkit.scoring.inputs import Items, Missing, binary_items
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd

#: steps of the grid on which the error is computed
GRID = 8192
#: calibrated samples and draws of the noise
DRAWS = 500
#: items in a chunk, and bits of a residual: a chunk adds up exactly in a float64
_CHUNK, _BITS = 1 << 17, 36
#: bisections: of the error, and of a limit that is found by resampling
_FINE, _COARSE = 40, 10


@dataclass(frozen=True, eq=False)
class SmoothCalibrationError:
    """Smooth calibration error ``value`` of n items, which is also its bandwidth; in units of probability."""

    value: float
    n: int
    n_dropped: int
    convention: str
    _items: Items = field(repr=False, kw_only=True)
    _seed: int = field(repr=False, kw_only=True)

    def __float__(self) -> float:
        return self.value

    @cached_property
    def _canonical(self) -> Items:
        return canonical(self._items)[0]

    @cached_property
    def p_value(self) -> float:
        """Share of calibrated samples with an error as large; NaN for fewer than two independent units."""
        if not unit_caveats(self._canonical)[0]:
            return math.nan
        return _p_value(self._canonical, self.value, self._seed)

    def interval(self, alpha: float = 0.05) -> MiscalibrationInterval:
        """Interval for the smooth calibration error of the population at level 1 - alpha."""
        check_alpha(alpha)
        items = self._canonical
        possible, caveats = unit_caveats(items)
        low = high = estimate = math.nan
        if possible:
            low, high, bias = _limits(items, self.value, alpha, self._seed, self.p_value)
            estimate = self.value - bias
        return MiscalibrationInterval(
            measure="smooth calibration error",
            value=self.value,
            estimate=estimate,
            low=low,
            high=high,
            p_value=self.p_value,
            alpha=alpha,
            n=self.n,
            n_clusters=None if items.cluster is None else units(items)[1],
            method="norm of the smoothed residuals, resampled",
            caveats=caveats,
        )

    def summary(self) -> str:
        found = self.interval()
        clusters = "" if found.n_clusters is None else f", {counted(found.n_clusters, 'cluster')}"
        dropped = f", {self.n_dropped} dropped" if self.n_dropped else ""
        line = (
            f"smooth calibration error {self.value:.4f} ({found.brief()}; n = {self.n}{clusters}{dropped}; "
            f"{self.convention})"
        )
        return "\n".join([line, *(f"Caveat: {caveat}" for caveat in found.caveats)])

    def to_frame(self) -> pd.DataFrame:
        """One row."""
        import pandas as pd

        found = self.interval()
        row: dict[str, Any] = {"value": self.value, "estimate": found.estimate, "low": found.low}
        row |= {"high": found.high, "p_value": found.p_value, "n": self.n, "n_clusters": found.n_clusters}
        return pd.DataFrame([row | {"n_dropped": self.n_dropped, "convention": self.convention}])

    def _repr_html_(self) -> str:
        from html import escape

        return "".join(f"<p>{escape(line)}</p>" for line in self.summary().splitlines())


def smooth_calibration_error(
    y: ArrayLike,
    p: ArrayLike,
    *,
    weights: ArrayLike | None = None,
    cluster: ArrayLike | None = None,
    missing: Missing = "raise",
    allow_fractional: bool = False,
    seed: int = 0,
) -> SmoothCalibrationError:
    """Smooth calibration error of forecasts ``p`` (n,) for outcomes ``y`` (n,), 0 or 1.

    ``cluster``: labels (n,) of dependent items, for the interval.  For several classes pass the probability
    of the likeliest class, and whether it happened.  Raises `ValueError` with index and value.
    """
    items = binary_items(
        y, p, weights=weights, cluster=cluster, missing=missing, allow_fractional=allow_fractional
    )
    items = that_count(items)
    cosines = _cosines(_on_grid(items))
    value = _falling_root(lambda s: float(_integral(np.abs(_smoothed(cosines, s)))) - s, 0.0, 1.0, _FINE)
    return SmoothCalibrationError(
        value=value,
        n=len(items),
        n_dropped=items.n_dropped,
        convention="reflected Gaussian kernel, bandwidth = error, 0 is best",
        _items=items,
        _seed=seed,
    )


def _on_grid(items: Items) -> Floats:
    """Mean residual at each of the points 0, 1/GRID, …, 1."""
    weights = items.weights
    total = float(len(items)) if weights is None else order_free_sum(weights)
    unit = 2.0**-_BITS * (1.0 if weights is None else float(weights.max()))
    sums = np.zeros(GRID + 1, dtype=np.int64)
    for part in chunks(len(items), _CHUNK):
        residual = items.y[part] - items.p[part]
        if weights is not None:
            residual = residual * weights[part]
        low, share = _place(items.p[part], GRID)
        right = residual * share
        for at, values in ((low, residual - right), (low + 1, right)):
            sums += np.bincount(at, np.rint(values / unit), GRID + 1).astype(np.int64)
    return sums.astype(np.float64) * (unit / total)


def _place(p: Floats, steps: int) -> tuple[Places, Floats]:
    """The point below p among steps + 1 points, and p's way to the next."""
    low = np.minimum((p * steps).astype(np.intp), steps - 1)
    return low, p * steps - low


def _cosines(masses: Floats) -> Floats:
    """Cosine coefficients of masses at the points 0 … 1 of a grid, along the last axis."""
    inner = masses[..., 1:-1] / 2
    mirrored = np.concatenate([masses[..., :1], inner, masses[..., -1:], inner[..., ::-1]], axis=-1)
    return np.asarray(np.fft.rfft(mirrored, axis=-1).real, dtype=np.float64)


def _smoothed(cosines: Floats, sigma: float) -> Floats:
    """Density of the smoothed masses at the points of the grid."""
    steps = cosines.shape[-1] - 1
    factor = np.exp(-0.5 * np.square(np.pi * sigma * np.arange(steps + 1)))
    smooth = np.fft.irfft(cosines * factor, 2 * steps, axis=-1)[..., : steps + 1] * (2 * steps)
    return np.asarray(smooth, dtype=np.float64)


def _integral(values: Floats) -> Floats:
    """Trapezoidal rule over [0, 1] along the last axis."""
    steps = values.shape[-1] - 1
    ends = (values[..., 0] + values[..., -1]) / 2
    return np.asarray((values[..., 1:-1].sum(axis=-1) + ends) / steps, dtype=np.float64)


def _falling_root(f: Callable[[float], float], low: float, high: float, rounds: int) -> float:
    """Where f turns from positive to not positive between ``low`` and ``high``."""
    if f(low) <= 0:
        return low
    for _ in range(rounds):
        middle = (low + high) / 2
        if f(middle) > 0:
            low = middle
        else:
            high = middle
    return high


def _steps(sigma: float) -> int:
    """Steps of a coarser grid that still resolves the kernel, for what is resampled."""
    return int(min(max(2 ** math.ceil(math.log2(4 / max(sigma, 1e-6))), 128), 1024))


def _shares(items: Items) -> Floats:
    if items.weights is None:
        return np.full(len(items), 1 / len(items))
    return items.weights / math.fsum(items.weights)


def _limits(items: Items, value: float, alpha: float, seed: int, chance: float) -> tuple[float, float, float]:
    """Low and high limit, and the bias of ``value``; the low limit is 0 where the p-value ``chance`` is large.

    At each bandwidth σ there are limits for smECE(σ); a bandwidth that lies within its own is one that the
    population's may have.
    """
    steps, shares = _steps(value), _shares(items)
    place = np.rint(items.p * steps).astype(np.intp)
    values = shares * (items.y - items.p)
    unit, share = (
        (None, None)
        if items.cluster is None
        else (items.cluster, sums_at(items.cluster, shares, units(items)[1]))
    )
    noise = _cosines(
        residual_noise(values, place, steps + 1, unit, share, DRAWS, generator(items, seed, "noise smooth"))
    )
    mean = _cosines(sums_at(place, values, steps + 1))

    def added(sigma: float, shrink: float) -> Floats:
        """What the noise adds to the error at least ``shrink`` standard errors nearer to 0."""
        drawn, centre = _smoothed(noise, sigma), _smoothed(mean, sigma)
        spread = np.sqrt(np.mean(np.square(drawn), axis=0))
        centre = np.sign(centre) * np.maximum(np.abs(centre) - shrink * spread, 0.0)
        return np.asarray(_integral(np.abs(centre + drawn)) - _integral(np.abs(centre)), dtype=np.float64)

    def low(sigma: float) -> float:
        error = float(_integral(np.abs(_smoothed(mean, sigma))))
        return error - float(np.quantile(added(sigma, SHRINK), 1 - alpha / 2))

    def high(sigma: float) -> float:
        smoothed = _smoothed(mean, sigma)
        signs = _smoothed(_cosines(_trapezoid(np.sign(smoothed))), sigma)
        at, way = _place(items.p, steps)
        signs_at = signs[at] * (1 - way) + signs[at + 1] * way
        _, reach = mean_and_reach(items, signs_at * (items.y - items.p), alpha)
        return float(_integral(np.abs(smoothed))) + reach

    return (
        0.0 if chance > alpha / 2 else _falling_root(lambda sigma: low(sigma) - sigma, 0.0, value, _COARSE),
        _falling_root(lambda sigma: high(sigma) - sigma, value, 1.0, _COARSE),
        float(np.mean(added(value, 0.0))),
    )


def _trapezoid(values: Floats) -> Floats:
    """Masses of a function on the grid."""
    masses = values / (len(values) - 1)
    masses[[0, -1]] /= 2
    return masses


def _p_value(items: Items, value: float, seed: int) -> float:
    """As smECE(σ) falls in σ, an error above ``value`` is one with smECE(value) above ``value``."""
    steps, shares = _steps(value), _shares(items)
    place = np.rint(items.p * steps).astype(np.intp)
    rng = generator(items, seed, "consistency smooth")
    if items.cluster is None and is_binary(items):
        noise = consistency_noise(items.p, shares, place, steps + 1, DRAWS, rng)
    else:
        values = shares * (items.y - items.p)
        noise = residual_noise(values, place, steps + 1, items.cluster, None, DRAWS, rng, centred=False)
    observed = sums_at(place, shares * (items.y - items.p), steps + 1)
    errors = _integral(np.abs(_smoothed(_cosines(np.vstack([observed, noise])), value)))
    return resampled_p_value(float(errors[0]), errors[1:])
