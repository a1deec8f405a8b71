"""Maps that recalibrate forecasts, and how they are fitted.

- isotonic: the best non-decreasing map (Ayer et al. 1955), interpolated between its blocks
- platt: σ(a · logit p + b) (Platt 1999)
- beta: σ(a · log p - b · log(1 - p) + c) (Kull, Silva Filho & Flach 2017)
- temperature: σ(logit(p) / T), for several classes p^(1/T), normalised (Guo et al. 2017)

Rules
- No map ever turns forecasts round: slopes a, b and 1/T are at least 0, and a slope that would be negative is
  0.  Then forecasts carry no information in the right direction, and platt and beta give the base rate.
- The parametric ones are fitted to Platt's targets, (N₁ + 1)/(N₁ + 2) for an event and 1/(N₀ + 2) for none, so
  that they stay finite where forecasts separate the outcomes and where there is one class only.
- Isotonic maps may be certain, and an outcome that they rule out then has an infinite log score; the others
  never are.
- A forecast within `EDGE` of 0 or 1 is taken as `EDGE` from it: its log odds would be infinite.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from evalkit.calibration.isotonic import Blocks, isotonic
from evalkit.exact_sums import Floats
from evalkit.scoring.inputs import Items
from evalkit.scoring.wording import counted

Method = Literal["isotonic", "platt", "beta", "temperature"]

#: how near to 0 and 1 a forecast counts in log odds
EDGE = 1e-6
#: Newton steps, and the gain below which they have converged
_STEPS, _CONVERGED = 100, 1e-14
#: log odds beyond which float64 would round a probability to 1: no parametric map is certain
_CERTAIN = 36.0
#: the steepest 1/T that is looked for
_STEEPEST = 1e6


class RecalibrationMap(Protocol):
    """A map of forecasts (n,) or (n, K) to recalibrated ones of the same shape."""

    def __call__(self, p: Floats) -> Floats: ...

    @property
    def held(self) -> bool:
        """Whether a slope would be negative and is held at 0."""
        ...

    def describe(self) -> str:
        """The map in a few words, with its parameters."""
        ...


@dataclass(frozen=True, eq=False)
class IsotonicMap:
    blocks: Blocks
    held = False

    def __call__(self, p: Floats) -> Floats:
        return self.blocks.at(p)

    def describe(self) -> str:
        return f"isotonic, {counted(len(self.blocks.n), 'block')}"


@dataclass(frozen=True)
class LogisticMap:
    """σ(a · log p - b · log(1 - p) + c); platt and temperature have a = b."""

    method: Method
    a: float
    b: float
    c: float

    def __call__(self, p: Floats) -> Floats:
        inside = np.clip(p, EDGE, 1 - EDGE)
        return _expit(self.a * np.log(inside) - self.b * np.log1p(-inside) + self.c)

    @property
    def held(self) -> bool:
        return self.a == 0 or self.b == 0

    def describe(self) -> str:
        if self.method == "temperature":
            return f"temperature {_temperature(self.a)}"
        if self.method == "platt":
            return f"platt, slope {self.a:.4g}, shift {self.c:.4g}"
        return f"beta, a = {self.a:.4g}, b = {self.b:.4g}, c = {self.c:.4g}"


@dataclass(frozen=True)
class TemperatureMap:
    """p^slope, normalised over the classes."""

    slope: float

    def __call__(self, p: Floats) -> Floats:
        powers = _powers(np.log(np.maximum(p, EDGE)), self.slope)
        return np.asarray(powers / powers.sum(axis=1, keepdims=True))

    @property
    def held(self) -> bool:
        return self.slope == 0

    def describe(self) -> str:
        return f"temperature {_temperature(self.slope)}"


def fitted(items: Items, method: Method) -> RecalibrationMap:
    """The map for (canonical) items, binary or, with ``method="temperature"``, of several classes."""
    if items.p.ndim == 2:
        return TemperatureMap(_multiclass_slope(items))
    if method == "isotonic":
        return IsotonicMap(isotonic(items.y, items.p))
    inside = np.clip(items.p, EDGE, 1 - EDGE)
    low, high = np.log(inside), -np.log1p(-inside)
    one = np.ones(len(inside))
    if method == "beta":
        a, b, c = _logistic(np.column_stack([low, high, one]), items.y, slopes=2)
        return LogisticMap(method, a, b, c)
    if method == "platt":
        a, c = _logistic(np.column_stack([low + high, one]), items.y, slopes=1)
        return LogisticMap(method, a, a, c)
    (a,) = _logistic((low + high)[:, None], items.y, slopes=1)
    return LogisticMap(method, a, a, 0.0)


def _temperature(slope: float) -> str:
    return "infinite" if slope == 0 else f"{1 / slope:.4g}"


def _expit(x: Floats) -> Floats:
    small = np.exp(-np.minimum(np.abs(x), _CERTAIN))
    return np.asarray(np.where(x >= 0, 1.0, small) / (1 + small))


def _logistic(x: Floats, y: Floats, slopes: int) -> list[float]:
    """Logistic regression on x (n, d) with the first ``slopes`` coefficients at least 0.

    The loss is convex, so the best point is the best of those with some slopes held at 0 that is allowed.
    """
    events = float(y.sum())
    targets = np.where(y == 1, (events + 1) / (events + 2), 1 / (len(y) - events + 2))
    best, least = [0.0] * x.shape[1], math.inf
    for kept in itertools.product((True, False), repeat=slopes):
        free = np.array([*kept, *([True] * (x.shape[1] - slopes))])
        coefficients = np.zeros(x.shape[1])
        coefficients[free], loss = _newton(x[:, free], targets)
        if (coefficients[:slopes] >= 0).all() and loss < least:
            best, least = coefficients.tolist(), loss
    return best


def _newton(x: Floats, targets: Floats) -> tuple[Floats, float]:
    """Coefficients of least cross-entropy, and its mean."""
    beta = np.zeros(x.shape[1])
    loss = _cross_entropy(x @ beta, targets)
    for _ in range(_STEPS if x.shape[1] else 0):
        q = _expit(x @ beta)
        gradient = x.T @ (q - targets)
        hessian = (x.T * (q * (1 - q))) @ x
        # equal forecasts make columns that depend on each other: the shortest step is as good as any
        step = np.linalg.lstsq(hessian, gradient, rcond=1e-12)[0]
        size = 1.0
        while (tried := _cross_entropy(x @ (beta - size * step), targets)) > loss and size > 1e-6:
            size /= 2
        if loss - tried <= _CONVERGED * loss:
            return (beta - size * step, tried) if tried < loss else (beta, loss)
        beta, loss = beta - size * step, tried
    return beta, loss


def _cross_entropy(log_odds: Floats, targets: Floats) -> float:
    return float(np.mean(np.logaddexp(0.0, log_odds) - targets * log_odds))


def _multiclass_slope(items: Items) -> float:
    """1/T of least cross-entropy to the targets (n + 1)/(n + K) for what happened, 1/(n + K) for the rest."""
    n, classes = items.p.shape
    logs = np.log(np.maximum(items.p, EDGE))
    happened = logs[np.arange(n), items.y.astype(np.intp)]
    target = float(np.mean((n * happened + logs.sum(axis=1)) / (n + classes)))

    def slope_is_low(slope: float) -> bool:
        """Whether the loss, which is convex, still falls: the mean log forecast is below its target."""
        powers = _powers(logs, slope)
        return float(np.mean((powers * logs).sum(axis=1) / powers.sum(axis=1))) < target

    if not slope_is_low(0.0):
        return 0.0
    low, high = 0.0, 1.0
    while slope_is_low(high) and high < _STEEPEST:
        low, high = high, high * 2
    for _ in range(52):
        middle = (low + high) / 2
        low, high = (middle, high) if slope_is_low(middle) else (low, middle)
    return (low + high) / 2


def _powers(logs: Floats, slope: float) -> Floats:
    """p^slope up to a factor for each item."""
    powers = slope * logs
    powers -= powers.max(axis=1, keepdims=True)
    return np.asarray(np.exp(powers, out=powers))
