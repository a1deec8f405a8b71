from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from evalkit.errors import EvalkitError
from evalkit.reports.results import MIME, environment, plain, read_emission, read_results

from .sample import code, write


def emitted(path: Path, *bundles: object) -> Path:
    write(path, *code(*["pass"] * max(1, len(bundles))))
    notebook = json.loads(path.read_text())
    for cell, bundle in zip(notebook["cells"], bundles, strict=False):
        cell["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": {MIME: bundle}}]
    path.write_text(json.dumps(notebook))
    return path


BUNDLE = {"schema": "evalkit/results/1", "results": {"a": 1}, "environment": {"python": "3"}}


def test_reads_what_was_emitted(tmp_path: Path) -> None:
    assert read_results(emitted(tmp_path / "a.ipynb", BUNDLE)) == {"a": 1}
    assert read_results(emitted(tmp_path / "b.ipynb", json.dumps(BUNDLE))) == {"a": 1}
    assert read_results(emitted(tmp_path / "c.ipynb", [json.dumps(BUNDLE)[:9], json.dumps(BUNDLE)[9:]])) == {
        "a": 1
    }


def test_none_and_two_and_malformed(tmp_path: Path) -> None:
    assert read_emission(emitted(tmp_path / "a.ipynb")) is None
    with pytest.raises(EvalkitError, match="emitted no results"):
        read_results(tmp_path / "a.ipynb")
    with pytest.raises(EvalkitError, match="2 times"):
        read_results(emitted(tmp_path / "b.ipynb", BUNDLE, BUNDLE))
    for bad in ({}, "x", {**BUNDLE, "schema": "other/1"}, {**BUNDLE, "results": 3}):
        with pytest.raises(EvalkitError, match="malformed"):
            read_results(emitted(tmp_path / "c.ipynb", bad))


def test_values_become_plain_json_with_sorted_keys() -> None:
    value = plain({"b": np.float64(0.5), "a": (np.int64(1), None, True), "c": np.array([[1.0, 2.0]])})
    assert json.dumps(value) == '{"a": [1, null, true], "b": 0.5, "c": [[1.0, 2.0]]}'


@pytest.mark.parametrize(
    ("value", "at"),
    [
        ({"a": [float("nan")]}, r"results\.a\[0\]"),
        ({1: 2}, "key 1"),
        ({"a": {"b": object()}}, r"results\.a\.b"),
    ],
)
def test_what_json_cannot_hold_is_named(value: object, at: str) -> None:
    with pytest.raises(EvalkitError, match=at):
        plain(value)


def test_environment_names_versions_and_no_paths() -> None:
    found = environment()
    assert {"python", "evalkit", "numpy"} <= set(found)
    assert "/" not in "".join(found.values())
