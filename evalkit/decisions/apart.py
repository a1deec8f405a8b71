"""Precommit in a process of its own, so that the process that evaluates never holds Part B."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

from evalkit.errors import EvalkitError


def precommit_apart(
    cases: Path,
    *,
    pair: str | None,
    out: Path,
    model: str | None = None,
    base_url: str | None = None,
    replay: Path | None = None,
    run_id: str | None = None,
    trust: Path | None = None,
) -> dict[str, Any]:
    """Run ``evalkit decisions precommit`` and return its summary.

    Raises `EvalkitError` with what the other process said, and with its exit code.
    """
    command = [sys.executable, "-m", "evalkit", "decisions", "precommit", str(cases)]
    command += ["--out", str(out), "--json"]
    for option, value in (
        ("--pair", pair),
        ("--model", model),
        ("--base-url", base_url),
        ("--replay", replay),
        ("--run-id", run_id),
        ("--trust", trust),
    ):
        if value is not None:
            command += [option, str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        error = EvalkitError(
            "the precommit failed: " + done.stderr.strip().removeprefix("evalkit: "),
            where="evalkit decisions precommit",
        )
        error.exit_code = done.returncode
        raise error
    summary: dict[str, Any] = json.loads(done.stdout)
    return summary
