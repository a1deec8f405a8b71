"""One file that two people exchange: it appears as a whole, and is read once and with suspicion.

What comes from somebody else has whatever owner and mode the copy gave it; every byte of it is verified by who
reads it.  What goes out is new, private (0600) and complete, or not there at all.

`read_named` is for every other file that a user names: regular and bounded, so that neither a pipe nor a
device that has no end stops a command or fills the memory.
"""

from __future__ import annotations

import os
import secrets
import stat
from pathlib import Path

from evalkit.errors import EvalkitError
from evalkit.sealing.canonical import MAX_BYTES
from evalkit.sealing.files import (
    directory,
    exists,
    locked,
    names_in,
    read_all,
    read_at,
    sync,
    write_new_at,
)
from evalkit.sealing.rename import TargetExists, rename_new


def refuse_taken(path: Path) -> None:
    """Raise where the file that is to be written is there already, or the folder for it is not."""
    with directory(path.absolute().parent, binding=None, owner="anyone") as parent:
        if exists(parent, path.name):
            raise _taken(path)


def write_exchange(path: Path, data: bytes) -> None:
    """Write a new file as a whole.  Raises `EvalkitError` where the name is taken.

    What a killed writer of the same name left is removed.
    """
    prefix = f".stage.{path.name}."
    with directory(path.absolute().parent, binding=None, owner="us-or-sticky") as parent, locked(parent):
        if exists(parent, path.name):
            raise _taken(path)
        for name in names_in(parent):
            # we hold the lock, so whoever made it is no longer at work; in a shared folder, ours only
            if name.startswith(prefix):
                found = os.stat(name, dir_fd=parent, follow_symlinks=False)
                if stat.S_ISREG(found.st_mode) and found.st_uid == os.geteuid():
                    os.unlink(name, dir_fd=parent)
        stage = f"{prefix}{secrets.token_hex(8)}"
        try:
            write_new_at(parent, stage, data, where=str(path))
            rename_new(stage, path.name, dir_fd=parent, where=str(path))
        except BaseException as error:
            if exists(parent, stage):
                os.unlink(stage, dir_fd=parent)
            if isinstance(error, TargetExists):
                raise _taken(path) from None
            raise
        sync(parent, str(path))


def read_exchange(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file, whoever owns it; no link is followed."""
    with directory(path.absolute().parent, binding=None, owner="anyone") as parent:
        return read_at(
            parent,
            path.name,
            where=str(path),
            binding=None,
            max_bytes=max_bytes,
            forbidden_mode=0,
            owner="anyone",
        )


def read_named(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a regular file that the user named; links are followed, for they are the user's word.

    Raises `EvalkitError` for a pipe, a device or a folder and for more than ``max_bytes``, and OSError
    where the file cannot be opened.
    """
    # O_NONBLOCK: else opening a pipe waits for whoever writes into it
    fd = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode):
            raise EvalkitError(
                "this is not a regular file",
                where=str(path),
                expected="a file; no folder, pipe or device",
                do="write the content to a file first, and name that",
            )
        if found.st_size > max_bytes:
            raise EvalkitError(
                f"this file has {found.st_size} bytes",
                where=str(path),
                expected=f"at most {max_bytes}",
                do="check that it is the right file",
            )
        return read_all(fd, found.st_size)
    finally:
        os.close(fd)


def _taken(path: Path) -> EvalkitError:
    return EvalkitError(
        "the file exists already",
        where=str(path),
        expected="a new path: what was handed over is never overwritten",
        do="choose another --out",
    )
