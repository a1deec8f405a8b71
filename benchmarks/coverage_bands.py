"""Do the bands of reliability diagrams keep their level?

    python benchmarks/coverage_bands.py [SHARE]

Simulates forecasts and outcomes, draws the diagram, and counts how often its band holds what it should: the
fitted curve of calibrated forecasts (consistency), the true curve of miscalibrated ones (confidence).  Prints
a table and writes benchmarks/results/coverage_bands.md.  SHARE scales the number of samples (default 1: about
two minutes).  Seeds are fixed.

Pointwise bands are judged at five forecasts, the 5, 25, 50, 75 and 95 % quantiles of the forecasts.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import expit, logit, ndtri

from evalkit.calibration import reliability_diagram

LEVEL = 0.9
QUANTILES = (0.05, 0.25, 0.5, 0.75, 0.95)
RESULT = Path(__file__).parent / "results" / "coverage_bands.md"


@dataclass(frozen=True)
class Design:
    """One row: ``size`` is the mean size of clusters (1: independent items), ``icc`` the latent correlation."""

    band: str
    forecasts: str
    n: int
    samples: int
    size: float = 1.0
    icc: float = 0.0
    method: str = "corp"
    simultaneous: bool = False


@dataclass(frozen=True)
class Coverage:
    """Mean coverage over the five forecasts, the least of the five, and the mean width of the band."""

    mean: float
    least: float
    width: float
    samples: int

    @property
    def error(self) -> float:
        """Monte Carlo standard error of one coverage of ``LEVEL``."""
        return math.sqrt(LEVEL * (1 - LEVEL) / self.samples)


def miscalibrated(p: Any) -> Any:
    """The true curve of over-confident forecasts that are too low: logit-linear, slope .77, shift .3."""
    inside = np.clip(p, 1e-12, 1 - 1e-12)
    return expit(0.77 * logit(inside) + 0.3)


def sample(design: Design, rng: np.random.Generator) -> tuple[Any, Any, Any]:
    """Outcomes, forecasts and clusters (None: independent) of one sample."""
    n = design.n
    cluster = np.arange(n)
    if design.size > 1:
        sizes = rng.geometric(1 / design.size, n)
        cluster = np.repeat(cluster, sizes)[:n]
    groups = int(cluster.max()) + 1
    p = {
        "uniform": lambda: rng.uniform(size=n),
        "extreme": lambda: rng.beta(0.5, 0.5, size=n),
        "11 values": lambda: np.round(rng.uniform(size=n) * 10) / 10,
        "one a cluster": lambda: rng.uniform(size=groups)[cluster],
    }[design.forecasts]()
    truth = p if design.band == "consistency" else miscalibrated(p)
    latent = math.sqrt(design.icc) * rng.standard_normal(groups)[cluster]
    latent = latent + math.sqrt(1 - design.icc) * rng.standard_normal(n)
    return (latent < ndtri(truth)).astype(float), p, cluster if design.size > 1 else None


def coverage(design: Design, seed: int) -> Coverage:
    rng = np.random.default_rng(seed)
    inside, width = np.zeros(len(QUANTILES)), 0.0
    for _ in range(design.samples):
        y, p, cluster = sample(design, rng)
        diagram = reliability_diagram(
            y, p, design.method, design.band, LEVEL, cluster, simultaneous=design.simultaneous, replicates=400
        )
        band = diagram.band
        if design.method == "binned":
            # the true frequency of a bin is the mean over its items
            truth = np.array(
                [
                    miscalibrated(p[(p >= a) & ((p < b) | (b == 1))]).mean()
                    for a, b in zip(diagram.low, diagram.high, strict=True)
                ]
            )
            places = np.arange(len(band.x))
        else:
            places = np.searchsorted(band.x, np.quantile(p, QUANTILES, method="nearest"))
            places = np.minimum(places, len(band.x) - 1)
            truth = miscalibrated(band.x)
        value = (
            truth
            if design.band == "confidence"
            else (diagram.value if design.method == "binned" else diagram.at(band.x))
        )
        held = (band.low <= value + 1e-9) & (value <= band.high + 1e-9)
        if design.simultaneous:
            inside += held.all()
        elif design.method == "binned":
            inside += held.mean()
        else:
            inside += held[places]
        width += float((band.high - band.low)[places].mean())
    share = inside / design.samples
    return Coverage(float(share.mean()), float(share.min()), width / design.samples, design.samples)


def designs(scale: float) -> Iterable[Design]:
    def times(n: int) -> int:
        return max(10, round(scale * {50: 300, 150: 200, 300: 200, 600: 120, 2000: 60}[n]))

    for band in ("consistency", "confidence"):
        for forecasts in ("uniform", "extreme", "11 values"):
            for n in (50, 300, 2000):
                yield Design(band, forecasts, n, times(n))
        for forecasts, n, size, icc in (
            ("uniform", 150, 6, 0.3),
            ("uniform", 600, 6, 0.3),
            ("uniform", 600, 20, 0.9),
            ("11 values", 600, 6, 0.3),
            ("one a cluster", 600, 6, 0.3),
            ("one a cluster", 600, 20, 0.9),
        ):
            yield Design(band, forecasts, n, times(n), size, icc)
        yield Design(band, "uniform", 300, times(300), method="binned")
        yield Design(band, "uniform", 600, times(600), 6, 0.3, method="binned")
        yield Design(band, "uniform", 300, times(300) // 2, simultaneous=True)
        yield Design(band, "11 values", 300, times(300) // 2, simultaneous=True)
        yield Design(band, "uniform", 600, times(600) // 2, 6, 0.3, simultaneous=True)


def main() -> None:
    scale = float(sys.argv[1]) if len(sys.argv) > 1 else 1.0
    started = time.process_time()
    lines = [
        "# Coverage of the bands of reliability diagrams",
        "",
        "Made by `python benchmarks/coverage_bands.py`; what is simulated stands there.  Level .9.  Pointwise: mean "
        "and least over five forecasts; simultaneous: of the whole curve.  In brackets the Monte Carlo standard "
        "error of one coverage.",
        "",
        "| band | method | forecasts | n | cluster size, latent correlation | samples | coverage | least | width |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    below: list[str] = []
    for i, design in enumerate(designs(scale)):
        found = coverage(design, seed=1000 + i)
        kind = f"{design.band}, {'simultaneous' if design.simultaneous else 'pointwise'}"
        clusters = "independent" if design.size == 1 else f"{design.size:g}, {design.icc:g}"
        lines.append(
            f"| {kind} | {design.method} | {design.forecasts} | {design.n} | {clusters} | {found.samples} | "
            f"{found.mean:.3f} ({found.error:.3f}) | {found.least:.3f} | {found.width:.3f} |"
        )
        print(lines[-1], flush=True)
        if found.mean < LEVEL - 2 * found.error:
            below.append(f"{kind}, {design.method}, {design.forecasts}, n = {design.n}, {clusters}")
    lines += [
        "",
        "A band that is too wide is no fault here: fitted curves have ties, and the simultaneous confidence band rests "
        "on bounds that hold for any increasing curve.  Below the level by more than two standard errors: "
        + ("; ".join(below) if below else "none")
        + ".",
    ]
    if scale >= 1:
        RESULT.write_text("\n".join(lines) + "\n")
    print(f"{time.process_time() - started:.0f} CPU seconds")


if __name__ == "__main__":
    main()
