"""How often does `mean_interval` hold the true mean?  Simulated coverage at nominal 95 %, with mean widths.

    python benchmarks/coverage_means.py [--repeats N] [--seed N]

Independent items (scenario, range, true mean)
  rare        0 or 1, 5 % ones
  even        0 or 1, half ones
  brier       Brier scores of calibrated forecasts p ~ Beta(2, 2), in [0, 1]
  regression  90 % small gains (uniform 0 to .1), 10 % large losses (uniform -.4 to -1), in [-1, 1]
  log         log scores of calibrated forecasts p ~ Beta(2, 2), in [0, inf): the t interval
Items in clusters of unequal sizes (1 plus a geometric number, mean 6), intra-cluster correlation .3
  normal      normal values, no range
  binary      0 or 1 with a rate of each cluster ~ Beta, mean .3, in [0, 1]

"below" and "above" are the shares of intervals that lie wholly below or above the true mean.
"""

from __future__ import annotations

import argparse
import math
import platform
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from evalkit.uncertainty import mean_interval

Array = NDArray[np.float64]


class Scenario(NamedTuple):
    """How samples come about: ``draw(generator, size)`` gives values and, where clustered, clusters."""

    name: str
    mean: float
    lo: float | None
    hi: float | None
    draw: Callable[[np.random.Generator, int], tuple[Array, Array | None]]


def rare(generator: np.random.Generator, n: int) -> tuple[Array, None]:
    return (generator.random(n) < 0.05).astype(float), None


def even(generator: np.random.Generator, n: int) -> tuple[Array, None]:
    return (generator.random(n) < 0.5).astype(float), None


def brier(generator: np.random.Generator, n: int) -> tuple[Array, None]:
    p = generator.beta(2, 2, n)
    return (p - (generator.random(n) < p)) ** 2, None


def regression(generator: np.random.Generator, n: int) -> tuple[Array, None]:
    u, loss = generator.random(n), generator.random(n) < 0.1
    return np.where(loss, -0.4 - 0.6 * u, 0.1 * u), None


def log(generator: np.random.Generator, n: int) -> tuple[Array, None]:
    p = generator.beta(2, 2, n)
    return -np.log(np.where(generator.random(n) < p, p, 1 - p)), None


def clusters(generator: np.random.Generator, n_clusters: int) -> NDArray[np.intp]:
    return np.repeat(np.arange(n_clusters), generator.geometric(1 / 6, n_clusters))


def normal(generator: np.random.Generator, n_clusters: int) -> tuple[Array, Array]:
    cluster = clusters(generator, n_clusters)
    shared = math.sqrt(0.3) * generator.normal(size=n_clusters)
    return shared[cluster] + math.sqrt(0.7) * generator.normal(size=len(cluster)), cluster


def binary(generator: np.random.Generator, n_clusters: int) -> tuple[Array, Array]:
    cluster = clusters(generator, n_clusters)
    strength = 1 / 0.3 - 1  # a + b of the Beta distribution with intra-cluster correlation .3
    rate = generator.beta(0.3 * strength, 0.7 * strength, n_clusters)
    return (generator.random(len(cluster)) < rate[cluster]).astype(float), cluster


INDEPENDENT = (
    Scenario("rare", 0.05, 0, 1, rare),
    Scenario("even", 0.5, 0, 1, even),
    Scenario("brier", 0.2, 0, 1, brier),  # E p (1 - p) of Beta(2, 2)
    Scenario("regression", 0.9 * 0.05 - 0.1 * 0.7, -1, 1, regression),
    Scenario("log", 7 / 12, 0, None, log),  # -E[p log p + (1 - p) log(1 - p)]: digamma(5) - digamma(3)
)
CLUSTERED = (
    Scenario("normal", 0.0, None, None, normal),
    Scenario("binary", 0.3, 0, 1, binary),
)


class Coverage(NamedTuple):
    """Shares of intervals that hold the mean, and that lie wholly below or above it."""

    covered: float
    below: float
    above: float
    none: float
    width: float
    methods: str


def coverage(scenario: Scenario, size: int, repeats: int, seed: int) -> Coverage:
    """Simulate ``repeats`` samples of ``size`` items or clusters; no interval counts as not covering."""
    generator = np.random.default_rng([seed, size, *scenario.name.encode()])
    below = above = none = 0
    width: list[float] = []
    methods: dict[str, int] = {}
    for _ in range(repeats):
        x, cluster = scenario.draw(generator, size)
        result: Any = mean_interval(x, lo=scenario.lo, hi=scenario.hi, cluster=cluster)
        methods[result.method] = methods.get(result.method, 0) + 1
        if math.isnan(result.low):
            none += 1
            continue
        below += result.high < scenario.mean
        above += result.low > scenario.mean
        width.append(result.high - result.low)
    used = ", ".join(sorted(methods, key=lambda name: -methods[name]))
    covered = 1 - (below + above + none) / repeats
    return Coverage(covered, below / repeats, above / repeats, none / repeats, float(np.mean(width)), used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    arguments = parser.parse_args()
    error = math.sqrt(0.05 * 0.95 / arguments.repeats)
    print(
        f"Nominal .95, {arguments.repeats} samples each (standard error {error:.4f}), seed {arguments.seed},"
    )
    print(f"Python {platform.python_version()}, numpy {np.__version__}\n")
    print("| scenario | n or clusters | coverage | below | above | mean width | method |")
    print("|---|---|---|---|---|---|---|")
    for scenarios, sizes in ((INDEPENDENT, (5, 20, 50, 200)), (CLUSTERED, (6, 12, 30))):
        for scenario in scenarios:
            for size in sizes:
                found = coverage(scenario, size, arguments.repeats, arguments.seed)
                print(
                    f"| {scenario.name} | {size}{' clusters' if scenarios is CLUSTERED else ''} "
                    f"| {found.covered:.3f} | {found.below:.3f} | {found.above:.3f} | {found.width:.3f} "
                    f"| {found.methods} |",
                    flush=True,
                )


if __name__ == "__main__":
    main()
