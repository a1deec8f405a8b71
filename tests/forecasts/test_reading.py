"""Files as people write them: separators, byte-order marks, gzip, quoted lines, parquet, and what is no table."""

from __future__ import annotations

import builtins
import gzip
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from evalkit.errors import EvalkitError
from evalkit.forecasts import ForecastSet
from evalkit.forecasts.reading import read_table, stem


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.csv", b"p,y\n0.3,1\n0.6,0\n"),
        ("a.csv", b"\xef\xbb\xbfp,y\r\n0.3,1\r\n0.6,0\r\n"),
        ("a.csv", b"p;y\n0.3;1\n0.6;0\n"),
        ("a.tsv", b"p\ty\n0.3\t1\n0.6\t0\n"),
        ("a.csv.gz", gzip.compress(b"p,y\n0.3,1\n0.6,0\n")),
        ("a.csv.gz", gzip.compress(b"p,y\n0.3,1\n") + gzip.compress(b"0.6,0\n")),
        ("a.csv", b' p , y \n"0.3", 1\n0.6,0\n\n'),
    ],
)
def test_one_table_in_many_spellings(name: str, data: bytes, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    made = ForecastSet.read(path)
    assert made.forecasters == ("a",)
    assert sorted(made.to_frame()["forecast"]) == [0.3, 0.6]
    assert made.provenance.digest.startswith("sha256:")


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """A quoted cell may span lines: the line named is where the row ends."""
    path = tmp_path / "a.csv"
    path.write_text('note,p,y\n"two\nlines",0.3,1\n\nx,7,1\nx,0.2,1\nx,0.2,0\n')
    with pytest.raises(EvalkitError) as caught:
        ForecastSet.read(path)
    assert "line 5" in caught.value.where


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"p,y\n", "no rows"),
        (b"p,y\n0.3\n", "1 fields"),
        (b"p,p\n0.3,1\n", "two columns are called 'p'"),
        (b"p,y\n0.3,\xff\n", "not UTF-8"),
        (b'p,y\n"0.3,1\n', "not well-formed"),
        (b"\x1f\x8b\x08broken", "gzip"),
        (gzip.compress(b"p,y\n0.3,1\n" * 1000)[:-20], "gzip"),
        (b"PAR1 nothing", "parquet|pyarrow"),
        (b"PK\x03\x04" + bytes(40), "workbook"),
        ("p,y\n.3,1\n".encode("utf-16"), "UTF-16"),
        (b'[{"p": 0.3, "y": 1}]', "JSON"),
        (b"sep=;\np;y\n.3;1\n", "sep="),
    ],
)
def test_what_is_no_table(data: bytes, message: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(data)
    with pytest.raises(EvalkitError, match=message) as caught:
        ForecastSet.read(path)
    assert str(path) in caught.value.where


@pytest.mark.parametrize(
    ("text", "do"),
    [
        (
            "sun,big rain,y\n.2,.8,sun\n.5,.5,big rain\n",
            "--kind categorical --forecast sun --forecast 'big rain'",
        ),
        ("forecast_1,forecast_2,y\n.2,.8,2\n.5,.5,1\n", "--kind categorical --forecast forecast_1"),
        ("p,y\n1,.3\n0,.2\n", "exchange the columns"),
        ("p,y\n1,.3\n.4,1\n", "--fractional"),
        ("a,b,y\n.2,.3,2\n.4,.4,1\n", "correct it"),
    ],
)
def test_another_reading_of_the_columns_is_offered(text: str, do: str, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text(text)
    with pytest.raises(EvalkitError) as caught:
        ForecastSet.read(path)
    assert do in caught.value.do
    assert ("exchange" in caught.value.do) == ("exchange" in do)


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(EvalkitError, match="cannot be read"):
        ForecastSet.read(tmp_path / "none.csv")
    with pytest.raises(EvalkitError, match="not a regular file"):
        ForecastSet.read(tmp_path)
    os.mkfifo(tmp_path / "pipe.csv")
    with pytest.raises(EvalkitError, match="not a regular file"):
        ForecastSet.read(tmp_path / "pipe.csv")


def test_a_gzip_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("evalkit.forecasts.reading.MAX_BYTES", 100_000)
    path = tmp_path / "a.csv.gz"
    path.write_bytes(gzip.compress(b"0" * 10_000_000))
    with pytest.raises(EvalkitError, match="unpacks to more than"):
        ForecastSet.read(path)


def test_parquet(tmp_path: Path) -> None:
    pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    frame = pd.DataFrame({"model": ["A", "A"], "id": [1, 2], "p": [0.3, None], "y": [1, 0]})
    frame.to_parquet(tmp_path / "a.parquet")
    made = ForecastSet.read(tmp_path / "a.parquet")
    other = ForecastSet.from_frame(frame)
    pd.testing.assert_frame_equal(made.to_frame(), other.to_frame())
    assert made.accounts[0].n_missing == 1
    assert made.questions == ("1", "2")


def test_parquet_without_pyarrow_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name == "pyarrow":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    path = tmp_path / "a.parquet"
    path.write_bytes(b"PAR1")
    with pytest.raises(EvalkitError, match="need pyarrow") as caught:
        read_table(path)
    assert "evalkit-sealed[parquet]" in caught.value.do


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("flares.csv.gz", "flares"),
        ("a.b.tsv", "a.b"),
        ("x.parquet", "x"),
        ("plain", "plain"),
        (".csv", ".csv"),
    ],
)
def test_stem(name: str, expected: str) -> None:
    assert stem(name) == expected


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 1, 2), (0, 1, 2)])
def test_numbered_classes_are_called_by_their_own_numbers(order: tuple[int, ...], tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    names = [f"forecast_{i}" for i in order]
    right, wrong = ["1", "2"], ".1"
    rows = [",".join([*(".8" if str(i) == y else wrong for i in order), y]) for y in right]
    path.write_text("\n".join([",".join([*names, "y"]), *rows]))
    found = ForecastSet.read(path, {"forecast": names}, "categorical")
    assert found.classes == tuple(map(str, order))
    assert found.score_table().rows[0].brier == pytest.approx(0.06)
