from __future__ import annotations

import datetime
import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.errors import EvalkitError
from evalkit.reports.parameters import read_parameters, validate_parameters

from .sample import code, parameters, write

SOURCE = """from typing import Literal
import datetime
# A comment of its own is no help text of anything.
samples: int = 200  # bootstrap resamples
level: float | None = None  # level; None for the default
scale: Literal["points", "percent"] = "points"
names: list[str] = ["North"]  # cases # and more
day: datetime.date = "2026-01-31"
weights: dict[str, float] = {"a": 1.0}
flag: bool = False
_hidden: int = -1
schema: "str" = "x"
"""


@pytest.fixture
def notebook(tmp_path: Path) -> Path:
    return write(tmp_path / "nb.ipynb", parameters(SOURCE), *code("pass"))


def test_reads_names_types_defaults_and_help(notebook: Path) -> None:
    found = {p.name: p for p in read_parameters(notebook)}
    assert list(found) == [
        "samples", "level", "scale", "names", "day", "weights", "flag", "_hidden", "schema",
    ]  # fmt: skip
    assert found["samples"].help == "bootstrap resamples"
    assert found["samples"].default == 200
    assert found["level"].annotation == "float | None"
    assert found["scale"].help == ""
    assert found["names"].help == "cases # and more"
    assert found["_hidden"].default == -1


def test_defaults_are_complete(notebook: Path) -> None:
    values = validate_parameters(notebook, {})
    assert values["samples"] == 200
    assert values["day"] == "2026-01-31"
    assert json.loads(json.dumps(values)) == values


def test_python_values_become_json(notebook: Path) -> None:
    values = validate_parameters(
        notebook,
        {
            "samples": np.int64(7),
            "level": np.float64(0.5),
            "names": ("a", "b"),
            "day": datetime.date(2026, 2, 3),
        },
    )
    assert values["samples"] == 7
    assert values["level"] == 0.5
    assert values["names"] == ["a", "b"]
    assert values["day"] == "2026-02-03"
    assert type(values["samples"]) is int


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("samples", "7", "int"),
        ("samples", 7.5, "int"),
        ("samples", True, "int"),
        ("level", "high", "float | None"),
        ("level", float("nan"), "JSON"),
        ("scale", "inches", "Literal"),
        ("names", "North", "list[str]"),
        ("names", [1], "list[str]"),
        ("day", "31.1.2026", "datetime.date"),
        ("weights", {"a": "x"}, "dict[str, float]"),
        ("flag", 1, "bool"),
        ("names", {1, 2}, "JSON"),
    ],
)
def test_a_bad_value_is_named_with_what_is_expected(
    notebook: Path, name: str, value: object, expected: str
) -> None:
    with pytest.raises(EvalkitError) as caught:
        validate_parameters(notebook, {name: value})
    message = str(caught.value)
    assert repr(name) in message
    assert expected in message
    assert caught.value.exit_code == 2


def test_an_unknown_name_is_refused_with_the_known_ones(notebook: Path) -> None:
    with pytest.raises(EvalkitError, match=r"no parameter 'sample'(.|\n)*samples, level"):
        validate_parameters(notebook, {"sample": 1})


def test_internal_field_names_are_no_way_in(notebook: Path) -> None:
    with pytest.raises(EvalkitError, match="no parameter 'p0'"):
        validate_parameters(notebook, {"p0": 1})


def test_a_notebook_without_a_parameters_cell_takes_none(tmp_path: Path) -> None:
    path = write(tmp_path / "nb.ipynb", *code("1"))
    assert read_parameters(path) == []
    assert validate_parameters(path, {}) == {}
    with pytest.raises(EvalkitError, match="no parameters cell"):
        validate_parameters(path, {"a": 1})


@pytest.mark.parametrize(
    "line",
    [
        "a = 1",
        "a: int",
        "a: int = 1 + 1",
        "a: list = (1, 2)",
        "a: int = f()",
        "print('x')",
        "a: float = float('nan')",
        "a: float = 1e999",
        "a: dict = {1: 2}",
        "a: object = 1",
        "a: 'a.b.C' = 1",
        "a: open('x') = 1",
        "a: int = 1\na: int = 2",
        "%matplotlib inline",
        "a: bytes = b'x'",
        "a.b: int = 1",
        "a: int['x'] = 1",
    ],
)
def test_other_lines_are_refused(tmp_path: Path, line: str) -> None:
    with pytest.raises(EvalkitError, match="line"):
        read_parameters(write(tmp_path / "nb.ipynb", parameters(line)))


def test_two_parameters_cells_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "nb.ipynb", parameters("a: int = 1"), parameters("b: int = 1"))
    with pytest.raises(EvalkitError, match="2 cells"):
        read_parameters(path)


@pytest.mark.parametrize("content", ["", "[]", "{}", "not json"])
def test_what_is_no_notebook_is_refused(tmp_path: Path, content: str) -> None:
    path = tmp_path / "nb.ipynb"
    path.write_text(content)
    with pytest.raises(EvalkitError, match="cannot read the notebook"):
        read_parameters(path)
    with pytest.raises(EvalkitError, match="cannot read the notebook"):
        read_parameters(tmp_path / "none.ipynb")


def test_reading_runs_nothing(tmp_path: Path) -> None:
    target = tmp_path / "touched"
    path = write(tmp_path / "nb.ipynb", parameters(f"a: open({str(target)!r}, 'w') = 1"))
    with pytest.raises(EvalkitError):
        read_parameters(path)
    assert not target.exists()


SECRETS = {
    "passphrase": "correct horse",
    "db_password": "hunter2",
    "apiKey": "x",
    "api_key": "x",
    "OPENAI_API_KEY": "x",
    "auth_token": "abc",
    "token": "abc",
    "private_key": "x",
    "note": "-----BEGIN OPENSSH PRIVATE KEY-----\nb3BlbnNza",
    "text": "-----BEGIN PRIVATE KEY-----\nMIIE",
    "model": "sk-proj-abcdefghij0123456789",
    "remark": "see ghp_abcdefghijklmnopqrstuvwxyz0123456789",
}


@pytest.mark.parametrize(("name", "value"), SECRETS.items())
@pytest.mark.parametrize("declared", [True, False])
def test_secrets_are_refused_and_not_repeated(tmp_path: Path, name: str, value: str, declared: bool) -> None:
    lines = "other: int = 1\n"
    if declared and name in ("note", "text", "model", "remark"):
        lines += f"{name}: str = ''\n"
    path = write(tmp_path / "nb.ipynb", parameters(lines))
    with pytest.raises(EvalkitError) as caught:
        validate_parameters(path, {name: value})
    assert "refused" in str(caught.value)
    assert len(value) < 4 or value not in str(caught.value)


def test_secrets_inside_values_and_as_defaults_are_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "nb.ipynb", parameters("options: dict = {}\nnames: list = []"))
    for given_value in ({"a": ["sk-abcdefghijklmnop"]}, {"password": "x"}, {"a": {"api_key": "x"}}):
        with pytest.raises(EvalkitError, match="refused"):
            validate_parameters(path, {"options": given_value})
    with pytest.raises(EvalkitError, match="refused"):
        read_parameters(write(tmp_path / "b.ipynb", parameters("token: str = ''")))


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "token_budget", "tokens", "api_key_env", "passphrase_file", "key", "keys", "secretary"],
)
def test_names_that_only_sound_alike_are_fine(tmp_path: Path, name: str) -> None:
    path = write(tmp_path / "nb.ipynb", parameters(f"{name}: str = 'x'"))
    assert validate_parameters(path, {name: "a risk-averse sk-learn user"})


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**60), 2**60)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8"), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text("abc", max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_any_json_value_comes_through_unchanged(tmp_path: Path, value: object) -> None:
    path = write(tmp_path / "nb.ipynb", parameters("from typing import Any\nx: Any = None"))
    assert validate_parameters(path, {"x": value}) == {"x": value}


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(value=JSON)
def test_a_literal_default_is_read_back(tmp_path: Path, value: object) -> None:
    path = write(tmp_path / "nb.ipynb", parameters(f"from typing import Any\nx: Any = {value!r}"))
    assert read_parameters(path)[0].default == value
