"""Reading and writing files: what was checked is what is read."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import files

AsAnotherUser = Callable[[Callable[[Path], None]], None]


def test_a_file_swapped_after_the_check_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOCTOU between check and use: the swap comes between them, and the checked file is read."""
    (tmp_path / "file").write_bytes(b"checked")
    (tmp_path / "file").chmod(0o600)
    real = files.check_regular

    def swap(found: os.stat_result, **arguments: object) -> None:
        real(found, **arguments)
        (tmp_path / "other").write_bytes(b"swapped")
        (tmp_path / "other").replace(tmp_path / "file")

    monkeypatch.setattr(files, "check_regular", swap)
    with files.directory(tmp_path, binding=None) as fd:
        data = files.read_at(fd, "file", where="file", binding=None, max_bytes=100)
    assert data == b"checked"
    assert (tmp_path / "file").read_bytes() == b"swapped"


def test_a_folder_swapped_after_it_was_opened_does_not_matter(tmp_path: Path) -> None:
    """TOCTOU: names are looked up in the directory that was opened, not in the one now at its path."""
    for name in ("run", "evil"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(name.encode())
        (tmp_path / name / "file").chmod(0o600)
    with files.directory(tmp_path / "run", binding=None) as fd:
        (tmp_path / "run").rename(tmp_path / "moved")
        (tmp_path / "evil").rename(tmp_path / "run")
        assert files.read_at(fd, "file", where="file", binding=None, max_bytes=100) == b"run"


def test_sizes_are_capped(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 101)
    with files.directory(tmp_path, binding=None) as fd, pytest.raises(EvalkitError, match="101 bytes"):
        files.read_at(fd, "file", where="file", binding=None, max_bytes=100)


def test_no_more_and_no_less_than_the_limit_is_read(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"x" * 100)
    with files.directory(tmp_path, binding=None) as fd:
        assert files.read_at(fd, "file", where="file", binding=None, max_bytes=100) == b"x" * 100


def test_a_file_that_grows_or_shrinks_while_it_is_read(tmp_path: Path) -> None:
    """What was measured is the limit: more is not read, and the end of the file ends it."""
    (tmp_path / "file").write_bytes(bytes(range(10)))
    with (tmp_path / "file").open("rb", buffering=0) as file:
        assert files.read_all(file.fileno(), 3) == b"\0\1\2"
        assert files.read_all(file.fileno(), 100) == bytes(range(3, 10))
        assert files.read_all(file.fileno(), 0) == b""


def test_large_files_are_read_and_written_whole(tmp_path: Path) -> None:
    data = os.urandom(3 * 2**20 + 1)
    with files.directory(tmp_path, binding=None) as fd:
        files.write_new_at(fd, "file", data, where="file")
        assert files.read_at(fd, "file", where="file", binding=None, max_bytes=len(data)) == data


def test_a_new_file_is_private_from_the_first_moment(tmp_path: Path) -> None:
    modes: list[int] = []

    def look(step: str) -> None:
        if step != "file-create":
            modes.append((tmp_path / "file").stat().st_mode & 0o7777)

    before = os.umask(0)
    try:
        with files.directory(tmp_path, binding=None) as fd:
            files.write_new_at(fd, "file", b"x", where="file", observe=look)
    finally:
        os.umask(before)
    assert modes == [0o600] * 3


def test_a_new_file_that_somebody_changes_is_refused(tmp_path: Path) -> None:
    def link(step: str) -> None:
        if step == "file-fstat":
            os.link(tmp_path / "file", tmp_path / "second")

    def grow(step: str) -> None:
        if step == "file-fstat":
            (tmp_path / "other").write_bytes(b"xy")

    with files.directory(tmp_path, binding=None) as fd:
        with pytest.raises(EvalkitError, match="changed while it was written"):
            files.write_new_at(fd, "file", b"x", where="file", observe=link)
        with pytest.raises(EvalkitError, match="changed while it was written"):
            files.write_new_at(fd, "other", b"x", where="other", observe=grow)


def test_a_replacement_that_fails_leaves_the_old_file_and_no_stage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_bytes(b"old")

    def fail(*_arguments: object, **_named: object) -> None:
        raise OSError(28, "No space left on device")

    with files.directory(tmp_path, binding=None) as fd:
        monkeypatch.setattr(os, "rename", fail)
        with pytest.raises(EvalkitError, match="No space"):
            files.replace_at(fd, "file", b"new", where="file")
        monkeypatch.undo()
        assert files.names_in(fd) == ["file"]
        assert (tmp_path / "file").read_bytes() == b"old"
        files.replace_at(fd, "file", b"new", where="file")
        assert files.names_in(fd) == ["file"]
    assert (tmp_path / "file").read_bytes() == b"new"


def test_private_directories_are_private_whatever_the_umask(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        files.make_private_directory(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for folder in ("a", "a/b", "a/b/c"):
        assert (tmp_path / folder).stat().st_mode & 0o777 == 0o700


def test_faults_carry_the_binding_that_is_at_stake() -> None:
    plain = files.fault(None, "what", where="where", expected="expected", do="do")
    assert not isinstance(plain, BindingError)
    assert (plain.what, plain.where, plain.expected, plain.do) == ("what", "where", "expected", "do")
    bare = files.fault(None, "what")
    assert (bare.where, bare.expected, bare.do) == ("", "", "")
    bound = files.fault(Binding.RUN, "what")
    assert isinstance(bound, BindingError)
    assert bound.exit_code == 19


@pytest.mark.skipif(os.geteuid() != 0, reason="needs a folder that belongs to root")
@pytest.mark.parametrize(
    ("mode", "owner", "taken"),
    [
        (0o1777, "us-or-sticky", True),
        (0o1777, "us", False),
        (0o1777, "anyone", True),
        (0o777, "us-or-sticky", False),
        (0o777, "anyone", True),
    ],
)
def test_a_folder_of_root_is_taken_only_if_sticky_and_asked_for(
    as_another_user: AsAnotherUser, mode: int, owner: files.Owner, taken: bool
) -> None:
    """In /tmp nobody else can move what is ours; in another folder that all may write they can."""
    with tempfile.TemporaryDirectory() as folder:
        Path(folder).chmod(mode)

        def attempt(_own: Path) -> None:
            with files.directory(folder, binding=None, owner=owner):
                pass

        if taken:
            as_another_user(attempt)
            return

        def refused(own: Path) -> None:
            with pytest.raises(EvalkitError, match="belongs to user 0"):
                attempt(own)

        as_another_user(refused)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_sticky_folder_of_another_user_is_not_taken(tmp_path: Path) -> None:
    """Its owner may move our files all the same (sticky bit of chmod(2))."""
    os.chown(tmp_path, 65534, 65534)
    tmp_path.chmod(0o1777)
    with (
        pytest.raises(EvalkitError, match="belongs to user 65534"),
        files.directory(tmp_path, binding=None, owner="us-or-sticky"),
    ):
        pass
