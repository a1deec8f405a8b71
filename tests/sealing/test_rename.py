"""Renaming without replacing, and what is said where the kernel or the file system will not."""

from __future__ import annotations

import ctypes
import errno
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing.files import directory
from evalkit.sealing.rename import TargetExists, rename_new

from .conftest import names


class Kernel:
    """A C library whose rename fails with ``code`` (0: succeeds), or that has none."""

    def __init__(self, code: int | None, name: str = "renameat2") -> None:
        self.calls: list[tuple[Any, ...]] = []

        def rename(*arguments: Any) -> int:
            self.calls.append(arguments)
            ctypes.set_errno(code or 0)
            return -1 if code else 0

        if code is not None:
            setattr(self, name, rename)


def renamed(monkeypatch: pytest.MonkeyPatch, kernel: Kernel) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *_arguments, **_named: kernel)
    rename_new("old", "new", dir_fd=7, where="run/new")


@pytest.mark.parametrize(
    ("platform", "name", "flag"), [("linux", "renameat2", 1), ("darwin", "renameatx_np", 4)]
)
def test_the_system_call_and_its_flag(
    monkeypatch: pytest.MonkeyPatch, platform: str, name: str, flag: int
) -> None:
    """RENAME_NOREPLACE of linux/fs.h, RENAME_EXCL of macOS sys/stdio.h."""
    monkeypatch.setattr(sys, "platform", platform)
    kernel = Kernel(0, name)
    renamed(monkeypatch, kernel)
    assert kernel.calls == [(7, b"old", 7, b"new", flag)]


@pytest.mark.parametrize(
    ("code", "match"),
    [
        (None, "cannot rename without replacing"),
        (errno.ENOSYS, "cannot rename without replacing"),
        (errno.EINVAL, "cannot rename without replacing"),
        (errno.ENOTSUP, "cannot rename without replacing"),
        (errno.EIO, os.strerror(errno.EIO)),
        (errno.ENOSPC, os.strerror(errno.ENOSPC)),
        (errno.EEXIST, "there already"),
    ],
)
def test_what_is_said(monkeypatch: pytest.MonkeyPatch, code: int | None, match: str) -> None:
    with pytest.raises(EvalkitError, match=match) as caught:
        renamed(monkeypatch, Kernel(code))
    assert isinstance(caught.value, TargetExists) == (code == errno.EEXIST)
    assert caught.value.where == "run/new"


@pytest.mark.parametrize("kind", ["file", "empty folder", "dangling link"])
def test_nothing_is_replaced(tmp_path: Path, kind: str) -> None:
    (tmp_path / "old").mkdir()
    new = tmp_path / "new"
    {"file": new.touch, "empty folder": new.mkdir, "dangling link": lambda: new.symlink_to("x")}[kind]()
    with directory(tmp_path, binding=None) as fd:
        with pytest.raises(TargetExists):
            rename_new("old", "new", dir_fd=fd, where="new")
        rename_new("old", "newer", dir_fd=fd, where="newer")
        with pytest.raises(EvalkitError, match=os.strerror(errno.ENOENT)):
            rename_new("old", "newest", dir_fd=fd, where="newest")
    assert names(tmp_path) == ["new", "newer"]
