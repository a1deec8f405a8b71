"""Interval and p-value of the calibration error in bins.

The method is in `evalkit.calibration.intervals`.  The target is the error of the population in these very
bins.  There is none for the largest error over bins, which the bins with the fewest items decide.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from evalkit.calibration.bins import Cells, cells
from evalkit.calibration.canonical import generator, units
from evalkit.calibration.intervals import SHRINK, is_binary, mean_and_reach, resampled_p_value
from evalkit.calibration.noise import consistency_noise, residual_noise, sums_at
from evalkit.exact_sums import Floats, chunks
from evalkit.scoring.inputs import Items

#: draws of the noise, and of calibrated samples for the p-value
DRAWS = 2000


@dataclass(frozen=True)
class BinnedResiduals:
    """Residuals of K binary problems (K = 1, or one a class) on the same canonical items, in bins.

    ``edges``: of each problem.  Places are numbered through all problems.
    """

    problems: tuple[Items, ...]
    edges: tuple[Floats, ...]

    @property
    def size(self) -> int:
        return sum(len(e) - 1 for e in self.edges)

    def places(self) -> list[Cells]:
        firsts = np.cumsum([0, *(len(e) - 1 for e in self.edges)])
        return [cells(i.p, e) + f for i, e, f in zip(self.problems, self.edges, firsts[:-1], strict=True)]

    def shares(self) -> Floats:
        """Share of an item in the average over items and problems, shape (n,)."""
        n, weights = len(self.problems[0]), self.problems[0].weights
        each = np.full(n, 1 / n) if weights is None else weights / math.fsum(weights)
        return each / len(self.problems)


def limits(
    residuals: BinnedResiduals, norm: Literal["l1", "l2"], value: float, alpha: float, seed: int
) -> tuple[float, float]:
    """Low and high limit at level 1 - alpha, for canonical items of at least two units."""
    first, shares, places = residuals.problems[0], residuals.shares(), residuals.places()
    place = np.concatenate(places)
    values = np.concatenate([shares * (i.y - i.p) for i in residuals.problems])
    mean = sums_at(place, values, residuals.size)
    weight = sums_at(place, np.tile(shares, len(places)), residuals.size)
    noise = residual_noise(
        values, place, residuals.size, *_units(residuals), DRAWS, generator(first, seed, f"noise {norm}")
    )
    spread = np.sqrt(np.mean(np.square(noise), axis=0))
    least = np.sign(mean) * np.maximum(np.abs(mean) - SHRINK * spread, 0.0)
    added = _norm(least + noise, weight, norm) - _norm(least, weight, norm)
    low = value - float(np.quantile(added, 1 - alpha / 2))
    _, reach = mean_and_reach(first, _maximiser(residuals, places, mean, weight, norm, value), alpha)
    return min(max(low, 0.0), 1.0), min(value + reach, 1.0)


def p_value(residuals: BinnedResiduals, norm: Literal["l1", "l2"], value: float, seed: int) -> float:
    """Share of calibrated samples with an error as large."""
    first, shares, places = residuals.problems[0], residuals.shares(), residuals.places()
    weight = sums_at(np.concatenate(places), np.tile(shares, len(places)), residuals.size)
    rng = generator(first, seed, f"consistency {norm}")
    alone = len(residuals.problems) == 1 and first.cluster is None
    if alone and is_binary(first):
        sums = consistency_noise(first.p, shares, places[0], residuals.size, DRAWS, rng)
    else:
        values = np.concatenate([shares * (i.y - i.p) for i in residuals.problems])
        sums = residual_noise(
            values, np.concatenate(places), residuals.size, *_units(residuals), DRAWS, rng, centred=False
        )
    return resampled_p_value(value, _norm(sums, weight, norm))


def _units(residuals: BinnedResiduals) -> tuple[Cells | None, Floats | None]:
    """Unit of each residual, and the share of each unit."""
    first = residuals.problems[0]
    if first.cluster is None and len(residuals.problems) == 1:
        return None, None
    unit, count = units(first)
    shares = sums_at(unit, residuals.shares() * len(residuals.problems), count)
    return np.tile(unit, len(residuals.problems)), shares


def _norm(sums: Floats, weight: Floats, norm: Literal["l1", "l2"]) -> Floats:
    """Norm of sums of residuals (…, places): Σ |μ|, or the root of Σ μ² / w."""
    if norm == "l1":
        return np.asarray(np.abs(sums).sum(axis=-1))
    squares = np.divide(np.square(sums), weight, where=weight > 0, out=np.zeros_like(sums))
    return np.asarray(np.sqrt(squares.sum(axis=-1)))


def _maximiser(
    residuals: BinnedResiduals,
    places: list[Cells],
    mean: Floats,
    weight: Floats,
    norm: Literal["l1", "l2"],
    value: float,
) -> Floats:
    """For each item, what the mean that is the error averages.

    A bin whose residuals cancel exactly has the largest mean for either sign, and spread all the same.
    """
    if norm == "l1" or value == 0:
        direction = np.where(mean < 0, -1.0, 1.0)
    else:
        direction = np.divide(mean, weight * value, where=(weight > 0) & (value > 0), out=np.zeros_like(mean))
    total = np.zeros(len(residuals.problems[0]))
    for items, place in zip(residuals.problems, places, strict=True):
        for part in chunks(len(total)):
            total[part] += direction[place[part]] * (items.y[part] - items.p[part])
    return total / len(residuals.problems)
