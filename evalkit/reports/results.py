"""How a notebook hands its numbers on: one MIME bundle in its last cell.

Rules
- `emit` displays ``application/vnd.evalkit.results+json``.  papermill and nbclient keep unknown MIME types
  as they are, so the numbers survive execution without a side channel (scrapbook, which did this, is
  no longer maintained).
- A notebook emits once.  Two emissions are an error and not a matter of which comes last.
- The bundle is plain JSON: no NaN or infinity, keys are text; numpy scalars become numbers.
- It carries the versions that produced it, so that a report can say where its numbers come from.
"""

from __future__ import annotations

import json
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

import evalkit
from evalkit.errors import EvalkitError

MIME = "application/vnd.evalkit.results+json"
SCHEMA = "evalkit/results/1"
# The libraries whose version can change a number or a figure.
LIBRARIES = ("numpy", "scipy", "pandas", "matplotlib", "ipykernel", "papermill", "nbconvert")


@dataclass(frozen=True)
class Emission:
    """What a notebook emitted: its results and the environment that they were computed in."""

    results: dict[str, Any]
    environment: dict[str, str]


def environment() -> dict[str, str]:
    """Versions of Python, evalkit and the libraries behind numbers and figures; no paths, no host name."""
    found = {
        "python": platform.python_version(),
        "platform": f"{platform.system()} {platform.machine()}",
        "evalkit": evalkit.__version__,
    }
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return found


def emit(results: Mapping[str, Any]) -> None:
    """Display the results of this notebook for machines; the last cell calls it once.

    Raises `EvalkitError` naming the first value that JSON cannot hold.
    """
    from IPython.display import display

    bundle = {"schema": SCHEMA, "results": plain(results), "environment": environment()}
    noun = "value" if len(results) == 1 else "values"
    display(  # type: ignore[no-untyped-call]
        {MIME: bundle, "text/plain": f"evalkit results: {len(results)} {noun}"},
        raw=True,
    )


def read_emission(nb_path: Path | str) -> Emission | None:
    """The emission of an executed notebook, or None where it has none."""
    path = Path(nb_path)
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EvalkitError(
            f"cannot read the notebook {path.name}: {error}",
            where=str(path),
            expected="an executed Jupyter notebook of format 4",
        ) from None
    bundles = [
        output["data"][MIME]
        for cell in cells
        for output in cell.get("outputs", [])
        if MIME in output.get("data", {})
    ]
    if not bundles:
        return None
    if len(bundles) > 1:
        raise EvalkitError(
            f"{path.name} emitted results {len(bundles)} times", where=str(path), expected="once"
        )
    bundle = bundles[0]
    if isinstance(bundle, list):  # nbformat may split text over lines
        bundle = "".join(bundle)
    try:
        if isinstance(bundle, str):
            bundle = json.loads(bundle)
        if bundle["schema"] != SCHEMA:
            raise ValueError(f"schema {bundle['schema']!r}")
        return Emission(dict(bundle["results"]), dict(bundle["environment"]))
    except (ValueError, KeyError, TypeError) as error:
        raise EvalkitError(
            f"the results of {path.name} are malformed: {error}",
            where=str(path),
            expected=f"schema {SCHEMA}, results and environment",
        ) from None


def read_results(nb_path: Path | str) -> dict[str, Any]:
    """The results that an executed notebook emitted; `EvalkitError` where it emitted none."""
    emission = read_emission(nb_path)
    if emission is None:
        raise EvalkitError(
            f"{Path(nb_path).name} emitted no results",
            where=str(nb_path),
            expected="a last cell that calls evalkit.reports.emit",
            do="run the notebook first",
        )
    return emission.results


def plain(value: Any, at: str = "results") -> Any:
    """The value as JSON types; keys sorted, numpy scalars and arrays as numbers and lists."""
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Mapping):
        bad = [key for key in value if not isinstance(key, str)]
        if bad:
            raise EvalkitError(f"{at} has the key {bad[0]!r}", expected="keys that are text")
        return {key: plain(value[key], f"{at}.{key}") for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [plain(item, f"{at}[{i}]") for i, item in enumerate(value)]
    if hasattr(value, "tolist"):
        return plain(value.tolist(), at)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float) and value == value and value not in (float("inf"), float("-inf")):
        return float(value)
    raise EvalkitError(
        f"{at} is {value!r} ({type(value).__name__}), which JSON cannot hold",
        expected="text, finite numbers, true or false, None, lists and dicts",
        do="leave it out or emit None with a reason beside it",
    )
