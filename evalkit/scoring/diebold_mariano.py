"""Equal accuracy of two series of forecasts (Diebold & Mariano 1995; Harvey, Leybourne & Newbold 1997).

With differences d_t = a_t - b_t in time order and forecasts h steps ahead, neighbours up to h - 1 steps apart
are dependent: V = (γ_0 + 2 Σ_{k<h} γ_k) / n with γ_k = (1/n) Σ (d_t - mean)(d_{t-k} - mean).  The statistic
mean(d) / √V is scaled by √((n + 1 - 2h + h(h-1)/n) / n) and referred to Student's t with n - 1 degrees of
freedom.  Negative: the first scores lower, which is better.

V can come out at zero or below for h > 1.  There is no statistic then; none is invented.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from evalkit.arrays import floats, same_index
from evalkit.exact_sums import Floats, order_free_sum
from evalkit.scoring.wording import counted

if TYPE_CHECKING:
    import pandas as pd

#: differences that vary by less than this share of the scores vary by rounding only
_ROUNDING = 16 * float(np.finfo(np.float64).eps)


@dataclass(frozen=True)
class DieboldMariano:
    """``statistic`` with the small-sample correction, two-sided ``p`` from t(n - 1).

    ``difference`` is the mean of first - second.  Both are NaN with a ``reason`` where there is no statistic.
    """

    statistic: float
    p: float
    difference: float
    n: int
    horizon: int
    reason: str = ""

    def summary(self) -> str:
        said = (
            f"Diebold-Mariano {self.statistic:.4f}, p = {self.p:.4f} (t, {self.n - 1} degrees of freedom, "
            f"horizon {self.horizon}, Harvey-Leybourne-Newbold correction)"
            if not self.reason
            else f"Diebold-Mariano undefined: {self.reason}"
        )
        return (
            f"{said}; mean difference {self.difference:.4g}, n = {self.n} "
            "(first - second; negative: the first is better)"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        row = {
            "difference": self.difference,
            "statistic": self.statistic,
            "p": self.p,
            "n": self.n,
            "horizon": self.horizon,
            "reason": self.reason,
        }
        return pd.DataFrame([row])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def diebold_mariano(a: ArrayLike, b: ArrayLike, horizon: int = 1) -> DieboldMariano:
    """Test that the scores ``a`` and ``b`` (n,), both in time order, have one mean.

    ``horizon``: steps ahead, at least 1.  It matters which scores are neighbours where it is above 1.
    Raises `ValueError` on missing scores, different lengths and an impossible horizon.
    """
    same_index(a=a, b=b)
    first, second = floats(a, "a"), floats(b, "b")
    if first.ndim != 1 or first.shape != second.shape:
        raise ValueError(f"a has shape {first.shape} and b has shape {second.shape}: expected (n,) twice")
    for name, values in (("a", first), ("b", second)):
        if np.isnan(values).any():
            raise ValueError(
                f"{name}[{int(np.argmax(np.isnan(values)))}] is NaN: leave the time out of both series"
            )
    if isinstance(horizon, bool) or not isinstance(horizon, (int, np.integer)) or horizon < 1:
        raise ValueError(f"horizon={horizon!r}: expected a whole number of steps, at least 1")
    return _tested(first, second, int(horizon))


def equal_differences(a: Floats, b: Floats) -> bool:
    """Whether the differences of finite scores are one and the same, but for rounding."""
    d = a - b
    scale = max(float(np.abs(a).max()), float(np.abs(b).max()))
    return float(d.max() - d.min()) <= _ROUNDING * scale


def _tested(a: Floats, b: Floats, horizon: int) -> DieboldMariano:
    n = len(a)

    def undefined(reason: str, difference: float) -> DieboldMariano:
        return DieboldMariano(math.nan, math.nan, difference, n, horizon, reason)

    if n == 0:
        return undefined("no common item", math.nan)
    if not (np.isfinite(a).all() and np.isfinite(b).all()):
        with np.errstate(invalid="ignore"):
            return undefined("a score is infinite", order_free_sum(a - b) / n)
    d = a - b
    difference = order_free_sum(d) / n
    if n < 2 or horizon >= n:
        return undefined(
            f"{counted(n, 'item')} {'is' if n == 1 else 'are'} too few for horizon {horizon}", difference
        )
    if equal_differences(a, b):
        return undefined("all differences are equal, so that they have no variance", difference)
    off = d - difference
    unit = float(np.abs(off).max())
    off = off / unit  # squares of tiny or huge differences stay within range
    variance = order_free_sum(off * off)
    for k in range(1, horizon):
        variance += 2 * order_free_sum(off[k:] * off[:-k])
    variance /= n * n
    if variance <= 0:
        return undefined(
            f"the variance estimate is not positive at horizon {horizon} (autocovariances cancel it)",
            difference,
        )
    correction = math.sqrt((n + 1 - 2 * horizon + horizon * (horizon - 1) / n) / n)
    statistic = correction * (difference / unit) / math.sqrt(variance)
    from scipy.special import stdtr

    return DieboldMariano(statistic, float(2 * stdtr(n - 1, -abs(statistic))), difference, n, horizon)
