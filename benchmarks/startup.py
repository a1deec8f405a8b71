"""How long evalkit takes to start: CPU seconds of whole processes, beside a bare interpreter.

    python benchmarks/startup.py [RUNS]

Prints minimum and median of user + system time over RUNS runs (default 15) after one warm-up, in the
same run, so that the ratios hold where the machine is noisy.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys

COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import evalkit": [sys.executable, "-c", "import evalkit"],
    "import evalkit.sealing, canonical_json": [
        sys.executable,
        "-c",
        "from evalkit.sealing import canonical_json; canonical_json({})",
    ],
    "import evalkit.scoring": [sys.executable, "-c", "import evalkit.scoring"],
    "evalkit --help": [sys.executable, "-m", "evalkit", "--help"],
    "evalkit decisions --help": [sys.executable, "-m", "evalkit", "decisions", "--help"],
}


def cpu_seconds(command: list[str]) -> float:
    """User plus system time of one process and its children."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (after.ru_utime - before.ru_utime) + (after.ru_stime - before.ru_stime)


def main() -> None:
    runs = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    figures: dict[str, list[float]] = {name: [] for name in COMMANDS}
    for command in COMMANDS.values():
        cpu_seconds(command)
    for _ in range(runs):
        for name, command in COMMANDS.items():
            figures[name].append(cpu_seconds(command))
    base = statistics.median(figures["python -c pass"])
    print(f"CPU seconds, {runs} runs each in turn, Python {sys.version.split()[0]}")
    print(f"{'command':<42}{'min':>8}{'median':>8}{'ratio':>8}")
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name:<42}{min(values):>8.3f}{median:>8.3f}{median / base:>8.1f}")


if __name__ == "__main__":
    main()
