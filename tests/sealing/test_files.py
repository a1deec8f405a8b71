"""Reading and writing files: what was checked is what is read."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import files


def test_a_file_swapped_after_the_check_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TOCTOU between check and use: the swap comes between them, and the checked file is read."""
    (tmp_path / "file").write_bytes(b"checked")
    (tmp_path / "file").chmod(0o600)
    real = files.check_regular

    def swap(found: os.stat_result, **arguments: object) -> None:
        real(found, **arguments)  # type: ignore[arg-type]
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
    bound = files.fault(Binding.RUN, "what")
    assert isinstance(bound, BindingError)
    assert bound.exit_code == 19
