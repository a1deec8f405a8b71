"""``evalkit notebooks`` and ``evalkit report``."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from evalkit.cli.notebooks import notebooks, report
from evalkit.errors import CellError, EvalkitError
from evalkit.reports import Execution

from .sample import code, parameters, write

SOURCE = """from typing import Literal
name: str = "x"  # who
count: int = 1
level: float | None = None
tier: Literal["1", "2"] = "1"
names: list[str] = []
"""
EMIT = """from evalkit.reports.results import emit
emit(dict(name=name, count=count, level=level, tier=tier, names=names))"""


def call(*arguments: object, command: Any = notebooks) -> Result:
    return CliRunner().invoke(command, [str(a) for a in arguments])


def results(outcome: Result) -> Any:
    assert outcome.exception is None, outcome.output
    folder = Path(outcome.stdout.splitlines()[0].split(": ", 1)[1])
    return json.loads((folder / "results.json").read_text())


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "n.ipynb", parameters(SOURCE), *code(EMIT))


def test_list_and_params(path: Path) -> None:
    assert call("list").exit_code == 0
    text = call("params", path).output
    assert 'name: str = "x"\n    who\n' in text
    assert "level: float | None = null" in text
    assert json.loads(call("params", path, "--json").output)[1]["default"] == 1


def test_values_are_read_by_the_type_of_their_parameter(path: Path, tmp_path: Path) -> None:
    file = tmp_path / "params.yaml"
    file.write_text("count: 5\nnames: [a, b]\n")
    pairs = ["-p", "name", "7", "-p", "level", "0.5", "-p", "tier", "2", "-p", "count", "6"]
    got = results(call("run", path, *pairs, "-f", file, "--out", tmp_path / "o", "--no-progress"))
    assert got == {"name": "7", "count": 6, "level": 0.5, "tier": "2", "names": ["a", "b"]}
    again = call("run", path, *pairs, "-f", file, "--out", tmp_path / "o", "--no-progress")
    assert again.stdout.startswith("done before: ")


@pytest.mark.parametrize(
    "arguments",
    [
        ("-p", "count", "many"),
        ("-p", "other", "1"),
        ("-p", "count", "1", "-p", "count", "2"),
        ("-p", "password", "hunter2"),
    ],
)
def test_bad_parameters_exit_with_2(path: Path, tmp_path: Path, arguments: tuple[str, ...]) -> None:
    outcome = call("run", path, *arguments, "--out", tmp_path / "o")
    assert isinstance(outcome.exception, EvalkitError)
    assert outcome.exception.exit_code == 2
    assert "hunter2" not in str(outcome.exception)


@pytest.mark.parametrize("content", ["- a\n", "a: [", "1: 2\n"])
def test_bad_parameter_files(path: Path, tmp_path: Path, content: str) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(content)
    outcome = call("run", path, "-f", file, "--out", tmp_path / "o")
    assert isinstance(outcome.exception, EvalkitError)
    assert isinstance(call("run", path, "-f", tmp_path / "no.yaml").exception, EvalkitError)


def test_a_failed_cell_is_a_cell_error(tmp_path: Path) -> None:
    outcome = call("run", write(tmp_path / "f.ipynb", *code("1/0")), "--out", tmp_path / "o")
    assert isinstance(outcome.exception, CellError)


def test_report_writes_where_it_is_told(executed: Execution, tmp_path: Path) -> None:
    out = tmp_path / "r.html"
    outcome = call(executed.directory, "--out", out, command=report)
    assert outcome.output == f"report: {out}\n"
    assert out.read_bytes() == executed.report.read_bytes()
