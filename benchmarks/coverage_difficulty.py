"""Do the intervals and rank sets of difficulty-adjusted scores hold what they promise?  By simulation.

    python benchmarks/coverage_difficulty.py [--repetitions 2000] [--seed 1]

Six forecasters of different skill, two of them equally good, answer questions of different difficulty.  The
truth of a forecaster is the value that her adjusted score tends to with ever more questions, taken from a panel
of 400,000 questions of the same design.  Printed: share of intervals that cover it (nominal .95), the worst
forecaster, and the share of rank sets that cover the true rank.  The Monte Carlo error is √(.95 × .05 / reps).
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from evalkit.scoring import difficulty_adjusted

#: noise of the log odds that each forecaster sees; the third and fourth are equally good
NOISE = np.array([0.3, 0.6, 1.0, 1.0, 1.6, 2.5])


@dataclass(frozen=True)
class Design:
    """``size``: questions of a cluster; ``choosy``: the best answer hard questions, the worst easy ones."""

    name: str
    clusters: int
    size: int
    share: float
    choosy: bool


DESIGNS = (
    Design("20 independent questions, 60 % answered", 20, 1, 0.6, False),
    Design("50 independent questions, 60 % answered", 50, 1, 0.6, False),
    Design("200 independent questions, 30 % answered", 200, 1, 0.3, False),
    Design("200 independent questions, chosen by difficulty", 200, 1, 0.5, True),
    Design("12 clusters of 10", 12, 10, 0.6, False),
    Design("30 clusters of 10", 30, 10, 0.6, False),
    Design("100 clusters of 5, chosen by difficulty", 100, 5, 0.5, True),
    Design("50 clusters of 4, everything answered", 50, 4, 1.0, False),
)


def draw(design: Design, clusters: int, generator: np.random.Generator) -> dict[str, Any]:
    """Rows of a panel: Brier scores of forecasts of binary outcomes, clusters share difficulty and surprise."""
    size, count = design.size, len(NOISE)
    of_cluster = np.repeat(np.arange(clusters), size)
    n = clusters * size
    odds = generator.normal(0, 1.2, clusters)[of_cluster] + generator.normal(0, 0.8, n)
    shock = generator.normal(0, 0.8, clusters)[of_cluster]  # what happened to all questions of a cluster
    y = generator.random(n) < 1 / (1 + np.exp(-odds - shock))
    seen = odds[:, None] + generator.normal(size=(n, count)) * NOISE
    score = (1 / (1 + np.exp(-seen)) - y[:, None]) ** 2
    share = np.full((n, count), design.share)
    if design.choosy:
        hard = np.exp(-np.abs(odds))[:, None]  # an even chance is hard
        share = np.where(np.arange(count) < 3, 0.2 + 0.7 * hard, 0.9 - 0.7 * hard)
    answered = generator.random((n, count)) < share
    answered[:, 5] |= ~answered.any(axis=1)  # each question of the set has an answer
    q, f = np.nonzero(answered)
    return {
        "forecaster": f,
        "question": q,
        "score": score[q, f],
        "cluster": of_cluster[q] if size > 1 else None,
    }


def truth(design: Design, seed: int) -> np.ndarray[Any, Any]:
    found = difficulty_adjusted(**draw(design, 400_000 // design.size, np.random.default_rng(seed)))
    return np.array([found.score(i) for i in range(len(NOISE))])


@dataclass(frozen=True)
class Coverage:
    """Share of ``repetitions`` in which intervals and rank sets hold the truth; panels that fell apart apart."""

    interval: float
    worst: float
    ranks: float
    width: float
    repetitions: int
    apart: int

    @property
    def error(self) -> float:
        return math.sqrt(0.95 * 0.05 / self.repetitions)


def coverage(design: Design, repetitions: int, seed: int) -> Coverage:
    expected = truth(design, seed)
    # the equally good differ in the truth by simulation error only: they share a rank
    rank_low = np.array([1 + (expected < x - 5e-4).sum() for x in expected])
    rank_high = np.array([(expected < x + 5e-4).sum() for x in expected])
    inside, ranked, widths, apart = [], [], [], 0
    for repetition in range(repetitions):
        generator = np.random.default_rng([seed, 1, repetition])
        try:
            found = difficulty_adjusted(**draw(design, design.clusters, generator))
        except ValueError:
            apart += 1
            continue
        if len(found.forecasters) < len(NOISE):
            apart += 1
            continue
        order = np.argsort(np.array(found.forecasters))
        low, high = (side[order] for side in found.bounds())
        inside.append((low <= expected) & (expected <= high))
        ranks = found.ranks
        ranked.append((ranks.low[order] <= rank_low) & (rank_high <= ranks.high[order]))
        widths.append(high - low)
    held = np.mean(inside, axis=0)
    return Coverage(
        interval=float(held.mean()),
        worst=float(held.min()),
        ranks=float(np.mean(ranked)),
        width=float(np.mean(widths)),
        repetitions=len(inside),
        apart=apart,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repetitions", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    print(f"{'design':50} {'interval':>8} {'worst':>6} {'ranks':>6} {'width':>6} {'± MC':>6} {'apart':>5}")
    for design in DESIGNS:
        found = coverage(design, arguments.repetitions, arguments.seed)
        print(
            f"{design.name:50} {found.interval:8.3f} {found.worst:6.3f} {found.ranks:6.3f} {found.width:6.3f} "
            f"{found.error:6.3f} {found.apart:5d}",
            flush=True,
        )


if __name__ == "__main__":
    main()
