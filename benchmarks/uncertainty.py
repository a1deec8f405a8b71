"""Speed of `evalkit.uncertainty` beside its goals and, where one exists, a peer: CPU seconds in one run.

    python benchmarks/uncertainty.py [--repeats N]

Printed is the least of the repetitions.  Peers run on the same data; scipy's bootstrap and permutation test are
given what they can do in seconds.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from evalkit.uncertainty import bootstrap_mean, cluster_se, gaffke_interval, mean_interval, sign_flip_test


def cpu_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Least CPU time of ``repeats`` calls; of one call where it takes more than two seconds."""
    least = float("inf")
    for _ in range(repeats):
        start = time.process_time()
        call()
        least = min(least, time.process_time() - start)
        if least > 2:
            break
    return least


def main() -> None:
    from scipy.stats import bootstrap, permutation_test

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--repeats", type=int, default=7)
    repeats = parser.parse_args().repeats
    generator = np.random.default_rng(1)
    continuous = generator.random(1_000_000)
    few, some = np.round(continuous, 2) ** 2, np.round(continuous, 3) ** 2
    cluster = generator.integers(0, 10_000, 1_000_000)
    d = generator.normal(0.1, 1, 100_000)
    levels = generator.integers(-4, 5, 1000) / 4

    def flip(x: Any) -> Any:
        return permutation_test((x,), np.mean, permutation_type="samples", n_resamples=np.inf)

    def resample(x: Any) -> Any:
        return bootstrap((x,), np.mean, n_resamples=1000, method="percentile", batch=100)

    rows: list[tuple[str, Callable[[], Any], str, Callable[[], Any] | None]] = [
        ("Gaffke, n = 100", lambda: gaffke_interval(continuous[:100], 0, 1), "≤ 2 ms", None),
        ("Gaffke, n = 1000", lambda: gaffke_interval(continuous[:1000], 0, 1), "", None),
        ("CR2, n = 1e6, 1e4 clusters", lambda: cluster_se(continuous, cluster), "≤ .1 s", None),
        ("mean_interval (t), n = 1e6", lambda: mean_interval(continuous, lo=0, hi=1), "", None),
        ("bootstrap B = 1000, n = 1e4", lambda: bootstrap_mean(continuous[:10_000]), "",
         lambda: resample(continuous[:10_000])),
        ("bootstrap B = 1000, n = 1e6, 101 values", lambda: bootstrap_mean(few), "≤ 1 s", None),
        ("bootstrap B = 1000, n = 1e6, 1001 values", lambda: bootstrap_mean(some), "≤ 1 s", None),
        ("bootstrap B = 1000, n = 1e6, all different", lambda: bootstrap_mean(continuous), "≤ 1 s", None),
        ("cluster bootstrap B = 1000, 1e4 clusters", lambda: bootstrap_mean(continuous, cluster=cluster),
         "≤ .2 s", None),
        ("sign-flip, n = 14, exact", lambda: sign_flip_test(d[:14]), "", lambda: flip(d[:14])),
        ("sign-flip, n = 20, exact", lambda: sign_flip_test(d[:20]), "", None),
        ("sign-flip, n = 40, exact", lambda: sign_flip_test(d[:40]), "≤ .2 s", None),
        ("sign-flip, n = 1000, 9 levels, exact", lambda: sign_flip_test(levels), "", None),
        ("sign-flip, n = 1e5, 9999 draws", lambda: sign_flip_test(d), "", None),
    ]  # fmt: skip
    print(f"CPU time, Python {platform.python_version()}, numpy {np.__version__}\n")
    print("| what | evalkit | goal | scipy | ratio |")
    print("|---|---|---|---|---|")
    for name, ours, goal, theirs in rows:
        taken = cpu_seconds(ours, repeats)
        beside = "" if theirs is None else f"{1e3 * (peer := cpu_seconds(theirs, 3)):.1f} ms"
        ratio = "" if theirs is None else f"{peer / taken:.0f}"
        print(f"| {name} | {1e3 * taken:.2f} ms | {goal} | {beside} | {ratio} |", flush=True)


if __name__ == "__main__":
    main()
