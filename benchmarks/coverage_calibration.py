"""How often the intervals of ECE, L2, smooth ECE and MCB hold the truth, in samples whose truth is known.

    python benchmarks/coverage_calibration.py [REPETITIONS] [FOLDER]

Draws REPETITIONS samples (default 30, about two minutes) a scenario: three forecasters, forecasts
continuous, discrete and skewed, three sizes, independent items and clusters (about n/5 of them, uneven, with
correlated forecasts and outcomes).  Writes coverage_calibration.md to FOLDER (default benchmarks/results).
The truth is the error of the population, in these very bins for the binned ones.
"""

from __future__ import annotations

import itertools
import math
import sys
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, logit, ndtri

from evalkit.calibration import (
    MiscalibrationInterval,
    calibration_error,
    mcb_interval,
    smooth_calibration_error,
)

Floats = NDArray[np.float64]
FORECASTERS = {"calibrated": (1.0, 0.0), "mild": (0.75, 0.0), "strong": (0.4, 0.4)}
FORECASTS = ("continuous", "discrete", "skewed")
SIZES = (100, 500, 2000)
#: correlation of the outcomes in a cluster, on the normal scale
CORRELATION = 0.4


def forecasts(u: Floats, kind: str) -> Floats:
    """Forecasts from uniform numbers: uniform, nine values, or crowded at 0."""
    return {"continuous": u, "discrete": (np.floor(u * 9) + 1) / 10, "skewed": u**3}[kind]


def frequency(p: Floats, forecaster: str) -> Floats:
    """True probability where the forecast is p: its log odds, scaled and shifted."""
    slope, shift = FORECASTERS[forecaster]
    return np.asarray(expit(slope * logit(np.clip(p, 1e-12, 1 - 1e-12)) + shift))


def truth(forecaster: str, kind: str) -> list[float]:
    """ECE, L2 error, smooth ECE and MCB of the population."""
    p = forecasts((np.arange(200_000) + 0.5) / 200_000, kind)
    y = frequency(p, forecaster)
    return [
        calibration_error(y, p, allow_fractional=True).value,
        calibration_error(y, p, "l2", allow_fractional=True).value,
        smooth_calibration_error(y, p, allow_fractional=True).value,
        float(np.mean(np.square(p - y))),
    ]


def draw(
    rng: np.random.Generator, n: int, forecaster: str, kind: str, clustered: bool
) -> tuple[Floats, Floats, NDArray[np.intp] | None]:
    """Outcomes, forecasts and clusters of one sample."""
    if not clustered:
        p = forecasts(rng.random(n), kind)
        return (rng.random(n) < frequency(p, forecaster)).astype(float), p, None
    groups = n // 5
    cluster = rng.integers(0, groups, n)
    p = forecasts((rng.random(groups)[cluster] + 0.3 * rng.random(n)) % 1.0, kind)
    z = math.sqrt(CORRELATION) * rng.standard_normal(groups)[cluster]
    z += math.sqrt(1 - CORRELATION) * rng.standard_normal(n)
    return (z < ndtri(frequency(p, forecaster))).astype(float), p, cluster


def intervals(y: Floats, p: Floats, cluster: NDArray[np.intp] | None) -> dict[str, MiscalibrationInterval]:
    return {
        "ECE": calibration_error(y, p, cluster=cluster).interval(),
        "L2": calibration_error(y, p, "l2", cluster=cluster).interval(),
        "smECE": smooth_calibration_error(y, p, cluster=cluster).interval(),
        "MCB": mcb_interval(y, p, cluster=cluster, replicates=199),
    }


def scenario(
    repetitions: int, n: int, forecaster: str, kind: str, clustered: bool, seed: int = 20_261
) -> list[str]:
    """One row of the table for each measure."""
    target = truth(forecaster, kind)
    rng = np.random.default_rng([seed, n, clustered, FORECASTS.index(kind), [*FORECASTERS].index(forecaster)])
    samples = [intervals(*draw(rng, n, forecaster, kind, clustered)) for _ in range(repetitions)]
    rows = []
    for measure, value in zip(samples[0], target, strict=True):
        found = [sample[measure] for sample in samples]
        low, high = np.array([f.low for f in found]), np.array([f.high for f in found])
        above, below = float(np.mean(low > value + 1e-12)), float(np.mean(high < value))
        cells = [measure, forecaster, kind, "clusters" if clustered else "items", str(n), f"{value:.4f}"]
        cells += [f"{1 - above - below:.3f}", f"{above:.3f}", f"{below:.3f}"]
        cells += [f"{np.mean([f.value for f in found]):.4f}", f"{np.mean([f.estimate for f in found]):.4f}"]
        cells += [f"{low.mean():.3f}", f"{high.mean():.3f}"]
        cells += [f"{np.mean([f.p_value <= 0.05 for f in found]):.3f}"]
        rows.append("| " + " | ".join(cells) + " |")
    return rows


def main() -> None:
    repetitions = int(sys.argv[1]) if len(sys.argv) > 1 else 30
    folder = Path(sys.argv[2]) if len(sys.argv) > 2 else Path(__file__).parent / "results"
    rows: list[str] = []
    for clustered, n, kind, forecaster in itertools.product((False, True), SIZES, FORECASTS, FORECASTERS):
        rows += scenario(repetitions, n, forecaster, kind, clustered)
        print("\n".join(rows[-4:]), flush=True)
    names = [
        "measure",
        "forecaster",
        "forecasts",
        "unit",
        "n",
        "truth",
        "coverage",
        "low > truth",
        "high < truth",
    ]
    names += ["mean value", "mean estimate", "mean low", "mean high", "p ≤ .05"]
    error = math.sqrt(0.05 * 0.95 / repetitions)
    text = [
        "# Coverage of 95 % intervals for calibration errors",
        "",
        f"`python benchmarks/coverage_calibration.py {repetitions}`: {repetitions} samples a scenario, so a",
        f"coverage of .95 is measured with a standard error of {error:.3f}.  `value` is the error in the",
        "sample, `estimate` is corrected for its bias.  `p ≤ .05` is the size of the test where the forecaster",
        "is calibrated, its power elsewhere.",
        "",
        "| " + " | ".join(names) + " |",
        "|" + "---|" * len(names),
        *rows,
        "",
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "coverage_calibration.md").write_text("\n".join(text))


if __name__ == "__main__":
    main()
