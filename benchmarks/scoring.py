"""Scores and calibration errors beside the packages that have them, in one environment and one run.

    make .venv-bench/.done
    .venv-bench/bin/python benchmarks/scoring.py [ROW ...] [--sizes 10000 1000000 10000000] [--rounds 5]

Time is `time.process_time`, which is CPU seconds of all threads, of the call alone: arrays (and tensors, for
those who want them) are made before.  In each round every implementation has its turn, the order turned round
from round to round; printed is each one's least, and ratios are of these.  One thread each.

Memory is what a call takes beyond its inputs, of a process of its own: the peak of resident memory
(``VmHWM``, which Linux lets a process set back) while the call runs, less what was resident before it, after
one call on a thousand items that loads what loads late.  tracemalloc would miss what native code allocates.

Each row also checks that those who claim to compute the same value do.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[variable] = "1"

import numpy as np  # noqa: E402 - reads the number of threads when it is loaded

SEED = 20240721
SIZES = (10_000, 1_000_000, 10_000_000)
OURS = "evalkit"
#: CPU seconds of a call that is not repeated more than once
SLOW = 5.0


class Data:
    """n outcomes and forecasts; what only some rows need is made when they ask."""

    def __init__(self, n: int) -> None:
        self.n = n
        self._rng = np.random.default_rng(SEED)
        self.p = self._rng.random(n)
        self.y = (self._rng.random(n) < self.p).astype(np.float64)

    @cached_property
    def whole(self) -> Any:
        return self.y.astype(np.int64)

    @cached_property
    def p5(self) -> Any:
        return self._rng.dirichlet(np.ones(5), self.n)

    @cached_property
    def y5(self) -> Any:
        return self._rng.integers(0, 5, self.n)

    @cached_property
    def tensors(self) -> Any:
        import torch

        torch.set_num_threads(1)
        return torch.as_tensor(self.p), torch.as_tensor(self.whole)

    @cached_property
    def squares(self) -> Any:
        """Brier scores of the items: n different values."""
        return (self.p - self.y) ** 2

    @cached_property
    def percents(self) -> Any:
        """Brier scores of the items where forecasts are whole percents."""
        return (self.p.round(2) - self.y) ** 2

    @cached_property
    def clusters(self) -> Any:
        """A hundred items each, in no order."""
        return self._rng.permutation(np.arange(self.n) // 100)


Call = Callable[[], Any]


@dataclass(frozen=True)
class Row:
    """One comparison: name, implementations by name (evalkit first), what is to be reached."""

    title: str
    calls: dict[str, Callable[[Data], Call]]
    #: those who compute another value, or none: the least that any implementation has to do
    limits: frozenset[str] = frozenset()
    #: largest n that is asked of one that would take minutes
    largest: dict[str, int] = field(default_factory=dict)
    #: relative difference of values that is allowed
    agrees: float = 1e-9


def brier(d: Data) -> Call:
    from evalkit.scoring import brier_score

    return lambda: float(brier_score(d.y, d.p))


def brier_sklearn(d: Data) -> Call:
    from sklearn.metrics import brier_score_loss

    return lambda: brier_score_loss(d.y, d.p)


def brier_scoringrules(d: Data) -> Call:
    from scoringrules import brier_score

    return lambda: brier_score(d.y, d.p).mean()


def read_sums(d: Data) -> Call:
    return lambda: d.y.sum() + d.p.sum()


def read_maxima(d: Data) -> Call:
    return lambda: max(d.y.max(), d.p.max())


def rps(d: Data) -> Call:
    from evalkit.scoring import ranked_probability_score

    d.y5, d.p5  # noqa: B018
    return lambda: float(ranked_probability_score(d.y5, d.p5))


def rps_scoringrules(d: Data) -> Call:
    from scoringrules import rps_score

    first = d.y5 + 1
    return lambda: rps_score(first, d.p5).mean()


def corp(d: Data) -> Call:
    from evalkit.calibration import corp_decomposition

    return lambda: corp_decomposition(d.y, d.p).mcb


def corp_sklearn(d: Data) -> Call:
    from sklearn.isotonic import IsotonicRegression

    def mcb() -> float:
        r = IsotonicRegression().fit(d.p, d.y).predict(d.p)
        return float(np.mean((d.p - d.y) ** 2) - np.mean((r - d.y) ** 2))

    return mcb


def corp_model_diagnostics(d: Data) -> Call:
    from model_diagnostics.scoring import SquaredError, decompose

    return lambda: decompose(d.y, d.p, scoring_function=SquaredError())["miscalibration"][0]


def sort_and_pav(d: Data) -> Call:
    """Sorting the forecasts, and compiled PAV on outcomes that lie in order already."""
    from scipy.optimize import isotonic_regression

    ordered = d.y[np.argsort(d.p, kind="stable")]
    return lambda: (np.sort(d.p), isotonic_regression(ordered).x)


def ece(d: Data) -> Call:
    from evalkit.calibration import calibration_error

    return lambda: float(calibration_error(d.y, d.p, bins=10))


def ece_torchmetrics(d: Data) -> Call:
    from torchmetrics.functional.classification import binary_calibration_error

    p, y = d.tensors
    return lambda: binary_calibration_error(p, y, n_bins=10, norm="l1").item()


def ece_netcal(d: Data) -> Call:
    from netcal.metrics import ECE

    d.whole  # noqa: B018
    return lambda: ECE(10).measure(d.p, d.whole)


def debiased(d: Data) -> Call:
    from evalkit.calibration import calibration_error

    return lambda: float(calibration_error(d.y, d.p, norm="l2", binning="mass", bins=15, debiased=True))


def debiased_uncertainty_calibration(d: Data) -> Call:
    from calibration import get_calibration_error

    d.whole  # noqa: B018
    return lambda: get_calibration_error(d.p, d.whole, p=2, debias=True) ** 2


def bootstrap(x: Callable[[Data], Any], clustered: bool = False) -> Callable[[Data], Call]:
    def make(d: Data) -> Call:
        from evalkit.uncertainty import bootstrap_mean

        items, cluster = x(d), d.clusters if clustered else None
        return lambda: bootstrap_mean(items, cluster=cluster, replicates=1000).se

    return make


def bootstrap_scipy(d: Data) -> Call:
    from scipy.stats import bootstrap

    items, batch = d.squares, max(1, 10_000_000 // d.n)
    return lambda: float(
        bootstrap(
            (items,),
            np.mean,
            n_resamples=1000,
            method="percentile",
            batch=batch,
            rng=np.random.default_rng(1),
        ).standard_error
    )


ROWS = {
    "brier": Row(
        "Brier score",
        {
            OURS: brier,
            "scikit-learn": brier_sklearn,
            "scoringrules": brier_scoringrules,
            "reading: sums": read_sums,
            "reading: maxima": read_maxima,
        },
        frozenset({"reading: sums", "reading: maxima"}),
    ),
    "rps": Row("RPS, 5 classes", {OURS: rps, "scoringrules": rps_scoringrules}),
    "corp": Row(
        "CORP decomposition (MCB)",
        {
            OURS: corp,
            "scikit-learn": corp_sklearn,
            "model-diagnostics": corp_model_diagnostics,
            "np.sort + PAV": sort_and_pav,
        },
        frozenset({"np.sort + PAV"}),
        agrees=1e-5,
    ),
    "ece": Row(
        "ECE, 10 bins of equal width",
        {OURS: ece, "torchmetrics": ece_torchmetrics, "netcal": ece_netcal},
        agrees=1e-6,
    ),
    "debiased": Row(
        "debiased squared L2 error, 15 bins of equal mass",
        {OURS: debiased, "uncertainty-calibration": debiased_uncertainty_calibration},
        largest={"uncertainty-calibration": 1_000_000},
        agrees=math.inf,
    ),
    "bootstrap": Row(
        "bootstrap of a mean, 1,000 replicates",
        {
            OURS: bootstrap(lambda d: d.squares),
            "evalkit, whole percents": bootstrap(lambda d: d.percents),
            "scipy": bootstrap_scipy,
        },
        largest={OURS: 1_000_000, "scipy": 1_000_000},
        agrees=0.2,
    ),
    "clusters": Row(
        "bootstrap over clusters of 100, 1,000 replicates",
        {OURS: bootstrap(lambda d: d.squares, clustered=True)},
    ),
}


def fastest(calls: dict[str, Call], rounds: int) -> tuple[dict[str, float], dict[str, Any]]:
    """Least CPU seconds of one call, each taken in turn, and what the first call returned."""
    inner, best, values = {}, {}, {}
    for name, call in calls.items():
        start = time.process_time()
        values[name] = call()
        took = time.process_time() - start
        # a turn lasts 20 ms or more, so that the clock's step does not matter; slow ones have two turns
        inner[name] = max(1, math.ceil(0.02 / max(took, 1e-6)))
        best[name] = took if took > SLOW else math.inf
    for turn in range(rounds):
        for name in list(calls) if turn % 2 else list(reversed(calls)):
            if turn and best[name] > SLOW:
                continue
            start = time.process_time()
            for _ in range(inner[name]):
                calls[name]()
            best[name] = min(best[name], (time.process_time() - start) / inner[name])
    return best, values


def status(field_name: str) -> float:
    """Megabytes of a field of /proc/self/status."""
    with Path("/proc/self/status").open(encoding="ascii") as lines:
        return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(field_name))


def extra_memory(row: str, name: str, n: int) -> float:
    """Megabytes of one call beyond its inputs, in a process of its own."""
    done = subprocess.run(
        [sys.executable, __file__, "--memory", row, name, str(n)], capture_output=True, text=True, check=True
    )
    return float(done.stdout)


def own_extra_memory(row: str, name: str, n: int) -> float:
    make = ROWS[row].calls[name]
    make(Data(1000))()
    call = make(Data(n))
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak starts from here
    before = status("VmRSS")
    call()
    return status("VmHWM") - before


def measure(key: str, sizes: list[int], rounds: int) -> None:
    row = ROWS[key]
    print(f"\n{row.title}", flush=True)
    for n in sizes:
        data = Data(n)
        calls = {name: make(data) for name, make in row.calls.items() if n <= row.largest.get(name, n)}
        best, values = fastest(calls, rounds)
        first = next(iter(calls))
        for name, value in values.items():
            if name not in row.limits and not math.isclose(value, values[first], rel_tol=row.agrees):
                print(f"  {name} says {value!r} where {first} says {values[first]!r}")
        for name, seconds in best.items():
            largest = max(size for size in sizes if size <= row.largest.get(name, size))
            memory = f"{extra_memory(key, name, n):9.1f} MB" if n == largest else ""
            ratio = "" if name == first else f"{seconds / best[first]:9.2f} ×"
            print(f"  n = {n:<11,}{name:<26}{seconds:12.3g} s{ratio:>12}{memory:>13}", flush=True)


def imports(rounds: int) -> None:
    """CPU seconds of importing, in processes of their own, and what else that loads."""
    print("\nimport, CPU seconds of a process of its own")
    watched = (
        "import sys, time; start = time.process_time(); import {0}; took = time.process_time() - start;"
        "names = {{name.partition('.')[0] for name, module in list(sys.modules.items())"
        " if 'site-packages' in (getattr(module, '__file__', None) or '')}};"
        "print(took, *sorted(name for name in names if not name.startswith('_')))"
    )
    for module in ("numpy", "evalkit.scoring", "evalkit.calibration", "evalkit.uncertainty", *HEAVY):
        found = [
            subprocess.run(
                [sys.executable, "-c", watched.format(module)], capture_output=True, text=True, check=True
            ).stdout.split()
            for _ in range(rounds)
        ]
        took = min(float(words[0]) for words in found)
        others = ", ".join(found[0][1:]) if module not in HEAVY else f"{len(found[0]) - 1} packages"
        print(f"  {module:<26}{took:9.3f} s   {others}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "rows", nargs="*", default=[*ROWS, "import"], metavar="ROW", help=", ".join([*ROWS, "import"])
    )
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.memory:
        row, name, n = options.memory
        print(own_extra_memory(row, name, int(n)))
        return
    print(f"Python {platform.python_version()}, {platform.machine()}, {os.cpu_count()} cores, one thread")
    for name in PACKAGES:
        try:
            print(f"{name} {version(name)}", end="  ")
        except PackageNotFoundError:
            print(f"{name} is not installed", end="  ")
    for key in options.rows:
        if key == "import":
            imports(options.rounds)
        else:
            measure(key, options.sizes, options.rounds)


HEAVY = ("sklearn.metrics", "scoringrules", "model_diagnostics.scoring", "netcal.metrics", "torchmetrics")
PACKAGES = (
    "numpy",
    "scipy",
    "scikit-learn",
    "scoringrules",
    "model-diagnostics",
    "torchmetrics",
    "torch",
    "netcal",
    "uncertainty-calibration",
)

if __name__ == "__main__":
    main()
