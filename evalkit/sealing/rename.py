"""Renaming without replacing: the commit point of a phase.

POSIX ``rename`` silently replaces an empty directory, so two committers could both believe that
they won.  Linux has ``renameat2(RENAME_NOREPLACE)`` (renameat2(2)), macOS ``renameatx_np`` with
``RENAME_EXCL``.  Where neither works evalkit refuses: there is no safe substitute.
"""

from __future__ import annotations

import ctypes
import errno
import os
import sys

from evalkit.errors import EvalkitError

_RENAME_NOREPLACE = 1  # linux/fs.h
_RENAME_EXCL = 4  # macOS sys/stdio.h
_UNSUPPORTED = (errno.ENOSYS, errno.EINVAL, errno.ENOTSUP)


class TargetExists(EvalkitError):
    """Something has the final name already; nothing was changed."""


def rename_new(old: str, new: str, *, dir_fd: int, where: str) -> None:
    """Rename ``old`` to ``new`` in the open directory, or raise `TargetExists`; atomic."""
    libc = ctypes.CDLL(None, use_errno=True)
    if sys.platform == "darwin":
        function, flag = getattr(libc, "renameatx_np", None), _RENAME_EXCL
    else:
        function, flag = getattr(libc, "renameat2", None), _RENAME_NOREPLACE
    if function is None:
        code = errno.ENOSYS
    else:
        function.argtypes = (
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_int,
            ctypes.c_char_p,
            ctypes.c_uint,
        )
        if function(dir_fd, os.fsencode(old), dir_fd, os.fsencode(new), flag) == 0:
            return
        code = ctypes.get_errno()
    if code == errno.EEXIST:
        raise target_exists(where)
    if code in _UNSUPPORTED:
        raise EvalkitError(
            "this file system cannot rename without replacing",
            where=where,
            expected="Linux (renameat2) or macOS (renameatx_np) on a local file system",
            do="keep runs on a local disk such as ext4, xfs, btrfs or apfs",
        )
    raise EvalkitError(
        f"the commit failed ({os.strerror(code)})",
        where=where,
        expected="to rename the staged folder",
        do="check the folder, then let evalkit recover the run",
    )


def target_exists(where: str) -> TargetExists:
    return TargetExists(
        "this is there already",
        where=where,
        expected="a phase or run that is not committed yet",
        do="a committed phase is never replaced; begin another run, or another attempt",
    )
