"""Runs in the peers' environment: evaluates one call for each line of stdin, one answer for each on stdout.

    {"call": "sklearn.metrics.log_loss", "args": [...], "keywords": {...}}
    {"value": ...}  or  {"error": "ValueError", "message": "..."}

Arguments may be calls in their turn, which is how objects are made: the first argument of a method named
through its class is the object.  `asking.py` beside this file writes the requests.
"""

from __future__ import annotations

import base64
import importlib
import json
import os
import sys
import warnings
from typing import Any

import numpy as np


def named(path: str) -> Any:
    """What a dotted path names: the longest importable module, then attributes."""
    parts = path.split(".")
    for length in range(len(parts), 0, -1):
        name = ".".join(parts[:length])
        try:
            found = importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and not name.startswith(error.name):
                raise
            continue
        for part in parts[length:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(f"no module in {path}")


def decode(value: Any) -> Any:
    if isinstance(value, list):
        return [decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    if "array" in value:
        data = np.frombuffer(base64.b64decode(value["array"]), dtype=value["dtype"])
        return data.reshape(value["shape"]).copy()
    if "call" in value:
        arguments = [decode(item) for item in value["args"]]
        keywords = {name: decode(item) for name, item in value["keywords"].items()}
        return named(value["call"])(*arguments, **keywords)
    return {name: decode(item) for name, item in value.items()}


def encode(value: Any) -> Any:
    """Plain values of whatever the packages return: arrays, tensors, frames, labelled arrays."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return float(value) if isinstance(value, np.floating) else value
    if isinstance(value, dict):
        return {str(name): encode(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [encode(item) for item in value]
    if hasattr(value, "data_vars"):
        return {str(name): encode(item) for name, item in value.data_vars.items()}
    if hasattr(value, "to_dicts"):
        return encode(value.to_dict(as_series=False))
    if hasattr(value, "values") and not callable(value.values):
        return encode(value.values)
    if hasattr(value, "tolist"):
        return encode(value.tolist())
    return repr(value)


def main() -> None:
    # what a package prints must not be taken for an answer
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    warnings.simplefilter("ignore")
    for line in sys.stdin:
        try:
            answer = {"value": encode(decode(json.loads(line)))}
        except Exception as error:
            answer = {"error": type(error).__name__, "message": str(error)}
        print(json.dumps(answer), file=answers, flush=True)


if __name__ == "__main__":
    main()
