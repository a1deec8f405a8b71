"""Files that two people exchange, whole or not there; files that a user names, regular and bounded."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing import exchange
from evalkit.sealing.exchange import read_exchange, read_named, refuse_taken, write_exchange
from evalkit.sealing.rename import TargetExists
from tests.sealing.conftest import NOBODY, names


def test_a_file_is_new_private_and_whole(tmp_path: Path) -> None:
    refuse_taken(tmp_path / "out")
    write_exchange(tmp_path / "out", b"handed over")
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"handed over"
    assert (tmp_path / "out").stat().st_mode & 0o777 == 0o600


def test_a_relative_path_is_one_in_the_working_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write_exchange(Path("out"), b"x")
    assert read_exchange(Path("out")) == b"x"


@pytest.mark.parametrize("kind", ["file", "folder", "dangling link"])
def test_what_is_there_is_never_overwritten(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(exchange, "write_new_at", None)  # not even tried
    out = tmp_path / "out"
    {"file": out.touch, "folder": out.mkdir, "dangling link": lambda: out.symlink_to("nowhere")}[kind]()
    before = os.lstat(out)
    for attempt in (lambda: refuse_taken(out), lambda: write_exchange(out, b"new")):
        with pytest.raises(EvalkitError, match="the file exists already"):
            attempt()
    assert names(tmp_path) == ["out"]
    assert os.lstat(out) == before


def test_a_name_that_is_taken_while_we_write_is_not_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = exchange.rename_new

    def late(old: str, new: str, **named: object) -> None:
        (tmp_path / "out").write_bytes(b"theirs")
        real(old, new, **named)

    monkeypatch.setattr(exchange, "rename_new", late)
    with pytest.raises(EvalkitError, match="the file exists already") as caught:
        write_exchange(tmp_path / "out", b"ours")
    assert not isinstance(caught.value, TargetExists)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out").read_bytes() == b"theirs"


@pytest.mark.parametrize("step", ["write_new_at", "rename_new"])
def test_a_failure_is_told_as_it_is_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    def fail(*_arguments: object, **_named: object) -> None:
        raise EvalkitError("the disk is full")

    monkeypatch.setattr(exchange, step, fail)
    with pytest.raises(EvalkitError, match="the disk is full"):
        write_exchange(tmp_path / "out", b"x")
    assert names(tmp_path) == []


def test_the_stage_of_a_killed_writer_is_removed_and_nothing_else(tmp_path: Path) -> None:
    for name in (".stage.out.0123", ".stage.other.0123", "stage.out.0123"):
        (tmp_path / name).touch()
    write_exchange(tmp_path / "out", b"x")
    assert names(tmp_path) == [".stage.other.0123", "out", "stage.out.0123"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_the_stage_of_another_user_stays_in_a_shared_folder(tmp_path: Path) -> None:
    tmp_path.chmod(0o1777)
    (tmp_path / ".stage.out.0123").touch()
    os.chown(tmp_path / ".stage.out.0123", NOBODY, NOBODY)
    write_exchange(tmp_path / "out", b"x")
    assert names(tmp_path) == [".stage.out.0123", "out"]


def test_the_new_name_is_on_disk_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_fd: int, _where: str) -> None:
        assert names(tmp_path) == ["out"]
        raise EvalkitError("the disk did not confirm")

    monkeypatch.setattr(exchange, "sync", fail)
    with pytest.raises(EvalkitError, match="did not confirm"):
        write_exchange(tmp_path / "out", b"x")


def test_a_file_is_read_whatever_its_mode_and_owner_but_not_through_a_link(tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(b"x" * 10)
    (tmp_path / "in").chmod(0o666)
    if os.geteuid() == 0:
        os.chown(tmp_path / "in", NOBODY, NOBODY)
    assert read_exchange(tmp_path / "in", max_bytes=10) == b"x" * 10
    with pytest.raises(EvalkitError, match="10 bytes"):
        read_exchange(tmp_path / "in", max_bytes=9)
    (tmp_path / "link").symlink_to("in")
    with pytest.raises(EvalkitError, match="cannot be opened"):
        read_exchange(tmp_path / "link")


# --- files that a user names -----------------------------------------------------------------------


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
        out.truncate(2**27)  # sparse
    with pytest.raises(EvalkitError, match="this file has 134217728 bytes") as caught:
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
