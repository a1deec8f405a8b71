"""Files that a user names: regular and bounded, whoever they belong to."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing.exchange import read_named


def test_a_named_file_is_read_also_through_a_link(tmp_path: Path) -> None:
    file = tmp_path / "a"
    file.write_bytes(b"content")
    (tmp_path / "link").symlink_to(file)
    os.link(file, tmp_path / "second")
    for name in ("a", "link", "second"):
        assert read_named(tmp_path / name, max_bytes=7) == b"content"


def test_more_than_is_allowed_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "a"
    with file.open("wb") as out:
        out.truncate(2**40)  # sparse: reading it would fill the memory
    with pytest.raises(EvalkitError, match="this file has 1099511627776 bytes") as caught:
        read_named(file)
    assert caught.value.exit_code == 2
    assert caught.value.where == str(file)


@pytest.mark.parametrize("path", ["/dev/zero", "/dev/null", "/"])
def test_what_is_no_regular_file_is_not_read(path: str) -> None:
    with pytest.raises(EvalkitError, match="not a regular file") as caught:
        read_named(Path(path))
    assert caught.value.exit_code == 2


def test_what_is_not_there_is_the_callers_to_explain(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read_named(tmp_path / "absent")
