"""Tables from files: CSV, TSV (plain or gzipped) and parquet, as text cells with the line that each stood in.

Rules
- A CSV cell stays text until it is checked, so that an error can show what was written and in which line.
- UTF-8, with or without a byte-order mark.  The separator is the comma, semicolon or tab that the header has.
- A file is regular and bounded, compressed or not.  Parquet needs pyarrow, the extra ``parquet``.
"""

from __future__ import annotations

import csv
import io
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any

from evalkit.errors import EvalkitError
from evalkit.sealing.exchange import read_named

if TYPE_CHECKING:
    import pandas as pd

#: bytes of a file, and of what a compressed file holds
MAX_BYTES = 2**31
SUFFIXES = (".csv", ".tsv", ".tab", ".csv.gz", ".tsv.gz", ".parquet")
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, eq=False)
class RawTable:
    """Cells as they stood in a file.  ``place`` says where row i is (``line 7``)."""

    frame: pd.DataFrame
    place: Callable[[int], str]
    name: str
    digest: str


def read_bytes(path: Path) -> bytes:
    """The bytes of a file, unpacked where they are gzipped.  Raises `EvalkitError`."""
    try:
        data = read_named(path, max_bytes=MAX_BYTES)
    except OSError as error:
        raise EvalkitError(
            f"the file cannot be read: {error.strerror or error}",
            where=str(path),
            expected="a file of forecasts: " + ", ".join(SUFFIXES),
            do="check the path",
        ) from None
    return _unpacked(data, path) if data.startswith(_GZIP) else data


def read_table(path: Path) -> RawTable:
    """The table in ``path``.  Raises `EvalkitError` with the line where the file is not well formed."""
    data = read_bytes(path)
    digest = f"sha256:{sha256(data).hexdigest()}"
    if path.suffix == ".parquet" or data.startswith(b"PAR1"):
        return RawTable(_parquet(data, path), lambda i: f"row {i}", path.name, digest)
    frame, lines = _csv(data, path)
    return RawTable(frame, lambda i: f"line {lines[i]}", path.name, digest)


def stem(name: str) -> str:
    """``solar_flares.csv.gz`` -> ``solar_flares``."""
    for suffix in sorted(SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix) and len(name) > len(suffix):
            return name[: -len(suffix)]
    return name


def _unpacked(data: bytes, path: Path) -> bytes:
    inflate = zlib.decompressobj(wbits=31)
    try:
        out = inflate.decompress(data, MAX_BYTES)
        # a gzip file may have several members
        while inflate.eof and inflate.unused_data.startswith(_GZIP) and len(out) < MAX_BYTES:
            rest, inflate = inflate.unused_data, zlib.decompressobj(wbits=31)
            out += inflate.decompress(rest, MAX_BYTES - len(out))
    except zlib.error as error:
        raise EvalkitError(
            f"the file is no whole gzip file: {error}", where=str(path), do="fetch it again"
        ) from None
    if len(out) >= MAX_BYTES:
        raise EvalkitError(
            "the file unpacks to more than 2 GiB", where=str(path), do="split it, or check that it is right"
        )
    if not inflate.eof:
        raise EvalkitError("the gzip file ends early", where=str(path), do="fetch it again")
    return out


def _refuse_other_kinds(data: bytes, path: Path) -> None:
    """Say what a file is that is no table of text, where its first bytes do."""
    if data.startswith((b"PK\x03\x04", b"\xd0\xcf\x11\xe0")):
        what, do = (
            "the file is a workbook (Excel, LibreOffice) or another archive",
            "save the sheet as CSV UTF-8",
        )
    elif data.startswith((b"\xff\xfe", b"\xfe\xff")):
        what, do = "the file is UTF-16", "save it as CSV UTF-8"
    elif data.lstrip()[:1] in (b"[", b"{"):
        what, do = (
            "the file is JSON",
            "write it as CSV; a forecast set of ForecastBench: --layout forecastbench",
        )
    elif data.lstrip(b"\xef\xbb\xbf")[:4].lower() == b"sep=":
        what, do = "the first line says sep=, which only Excel reads", "remove the first line"
    else:
        return
    raise EvalkitError(what, where=str(path), expected="a table: " + ", ".join(SUFFIXES), do=do)


def _csv(data: bytes, path: Path) -> tuple[pd.DataFrame, list[int]]:
    import pandas as pd

    _refuse_other_kinds(data, path)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise EvalkitError(
            f"the file is not UTF-8: byte {data[error.start]:#04x}",
            where=f"{path}, line {line}",
            expected="text in UTF-8",
            do="save it as CSV UTF-8",
        ) from None
    header_line = text.partition("\n")[0]
    separator = "\t" if path.name.removesuffix(".gz").endswith((".tsv", ".tab")) else max(
        ",;\t", key=header_line.count
    )  # fmt: skip
    rows: list[list[str]] = []
    lines: list[int] = []
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise EvalkitError(
                    f"the line has {len(row)} fields",
                    where=f"{path}, line {reader.line_num}",
                    expected=f"{len(header)}, as the header has",
                    do="quote fields that contain the separator",
                )
            rows.append(row)
            lines.append(reader.line_num)
    except csv.Error as error:
        raise EvalkitError(
            f"the file is not well-formed CSV: {error}",
            where=f"{path}, line {reader.line_num}",
            expected="each quoted cell closed, and quotes within one doubled",
            do="look for a lone quotation mark in or before this line",
        ) from None
    header = [name.strip() for name in header]
    _check_header(header, path)
    if not rows:
        raise EvalkitError("the file has a header and no rows" if header else "the file is empty",
                           where=str(path), expected="a header and at least one forecast")  # fmt: skip
    columns: dict[str, Any] = {
        name: pd.Series(list(cells), dtype=object) for name, cells in zip(header, zip(*rows, strict=True), strict=True)
    }  # fmt: skip
    return pd.DataFrame(columns), lines


def _check_header(header: list[str], path: Path) -> None:
    twice = {name for name in header if header.count(name) > 1}
    if twice:
        raise EvalkitError(
            f"two columns are called {min(twice)!r}",
            where=f"{path}, line 1",
            expected="a header with a different name for each column",
        )


def _parquet(data: bytes, path: Path) -> pd.DataFrame:
    import pandas as pd

    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise EvalkitError(
            "parquet files need pyarrow, which is not installed",
            where=str(path),
            expected="pyarrow, or a CSV file",
            do="pip install 'evalkit-sealed[parquet]'",
        ) from None
    try:
        frame = pd.read_parquet(io.BytesIO(data), engine="pyarrow")
    except Exception as error:  # pyarrow has many kinds of errors, and all mean that the file is not readable
        raise EvalkitError(
            f"the parquet file cannot be read: {error}", where=str(path), do="write it again"
        ) from None
    if frame.empty:
        raise EvalkitError("the file has no rows", where=str(path), expected="at least one forecast")
    frame.columns = [str(name) for name in frame.columns]
    return frame
