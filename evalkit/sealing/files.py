"""Reading and writing files that somebody may have prepared to mislead us.

A path is opened once and everything else is asked of the open descriptor, so that what was
checked is what is read (no gap between check and use).  Rules:

1. Directories open with ``O_DIRECTORY | O_NOFOLLOW``; files with ``O_NOFOLLOW`` and
   ``O_NONBLOCK``, so that neither a symbolic link nor a FIFO gets through.
2. A file must be regular, have one link only and belong to us.
3. New files are made with ``O_EXCL``, written in full, synced and measured again.
4. An ``fsync`` that fails is an error and is never tried again: after a failure the kernel may
   report success for pages that it has dropped.
"""

from __future__ import annotations

import fcntl
import os
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

from evalkit.errors import Binding, BindingError, EvalkitError

OTHERS_MAY_WRITE = 0o022
OTHERS_MAY_ANYTHING = 0o077

#: whose a file or directory must be: ours; a directory in which nobody else can move what is ours (ours and
#: not for others to write, or, as /tmp is, with the sticky bit and ours or root's); or anyone's, where every
#: byte that is read is bound by a signature anyway
Owner = Literal["us", "us-or-sticky", "anyone"]

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def silent(step: str) -> None:
    """The observer that does nothing."""


def fault(
    binding: Binding | None, what: str, *, where: str = "", expected: str = "", do: str = ""
) -> EvalkitError:
    """A `BindingError` where a binding is at stake, else a plain `EvalkitError`."""
    if binding is None:
        return EvalkitError(what, where=where, expected=expected, do=do)
    return BindingError(binding, what, where=where, expected=expected, do=do)


@contextmanager
def directory(
    path: Path | str,
    *,
    binding: Binding | None,
    forbidden_mode: int = 0,
    dir_fd: int | None = None,
    where: str = "",
    owner: Owner = "us",
) -> Iterator[int]:
    """An open descriptor of a directory, by default of ours, that is no symbolic link."""
    where = where or str(path)
    try:
        fd = os.open(path, _DIRECTORY, dir_fd=dir_fd)
    except OSError as error:
        raise fault(
            binding,
            f"this is not a directory that can be opened ({error.strerror})",
            where=where,
            expected="a directory, not a symbolic link",
            do="check the path and who may read it",
        ) from None
    try:
        _ours(os.fstat(fd), binding=binding, forbidden_mode=forbidden_mode, where=where, owner=owner)
        yield fd
    finally:
        os.close(fd)


def _ours(
    found: os.stat_result, *, binding: Binding | None, forbidden_mode: int, where: str, owner: Owner
) -> None:
    sticky = owner == "us-or-sticky" and found.st_mode & stat.S_ISVTX
    if owner != "anyone" and not (sticky and found.st_uid == 0) and found.st_uid != os.geteuid():
        raise fault(
            binding,
            f"this belongs to user {found.st_uid}",
            where=where,
            expected=f"owned by you (user {os.geteuid()})",
            do="do not use files that another user prepared",
        )
    if owner == "us-or-sticky" and not sticky and found.st_mode & OTHERS_MAY_WRITE:
        raise fault(
            binding,
            f"others may rename what is in this folder (mode {stat.S_IMODE(found.st_mode):04o})",
            where=where,
            expected="a folder that only you may write, or one with the sticky bit",
            do="chmod go-w it, or choose another folder",
        )
    excess = stat.S_IMODE(found.st_mode) & forbidden_mode
    if excess:
        raise fault(
            binding,
            f"others have access to this (mode {stat.S_IMODE(found.st_mode):04o})",
            where=where,
            expected=f"none of the permissions {forbidden_mode:04o}",
            do=f"look for unwanted changes, then chmod {'go-rwx' if forbidden_mode & 0o055 else 'go-w'} it",
        )


def check_regular(
    found: os.stat_result,
    *,
    binding: Binding | None,
    forbidden_mode: int,
    where: str,
    owner: Owner = "us",
) -> None:
    """Refuse what is no regular file, by default of ours, with exactly one name."""
    if not stat.S_ISREG(found.st_mode):
        raise fault(
            binding,
            "this is not a regular file",
            where=where,
            expected="a regular file, no link, pipe or device",
            do="remove it and restore the original",
        )
    if found.st_nlink != 1:
        raise fault(
            binding,
            f"this file has {found.st_nlink} names (hard links)",
            where=where,
            expected="exactly one, so that nobody can change it through another",
            do="find and remove the other names, and check the content",
        )
    _ours(found, binding=binding, forbidden_mode=forbidden_mode, where=where, owner=owner)


def exists(dir_fd: int, name: str) -> bool:
    """Whether the name is taken, by whatever kind of file (a dangling link counts)."""
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def names_in(dir_fd: int) -> list[str]:
    """What is in an open directory."""
    return os.listdir(dir_fd)


@contextmanager
def open_regular(
    dir_fd: int,
    name: str,
    *,
    where: str,
    binding: Binding | None,
    forbidden_mode: int = 0,
    owner: Owner = "us",
) -> Iterator[int]:
    """An open descriptor, for reading, of a regular file, by default of ours, in an open directory."""
    try:
        fd = os.open(name, _READ, dir_fd=dir_fd)
    except FileNotFoundError:
        raise fault(
            binding, "there is no such file", where=where, expected="a file", do="check the path"
        ) from None
    except OSError as error:
        raise fault(
            binding,
            f"this file cannot be opened ({error.strerror})",
            where=where,
            expected="a regular file, not a symbolic link",
            do="remove the link, or check who may read the file",
        ) from None
    try:
        check_regular(os.fstat(fd), binding=binding, forbidden_mode=forbidden_mode, where=where, owner=owner)
        yield fd
    finally:
        os.close(fd)


def read_at(
    dir_fd: int,
    name: str,
    *,
    where: str,
    binding: Binding | None,
    max_bytes: int,
    forbidden_mode: int = OTHERS_MAY_WRITE,
    owner: Owner = "us",
) -> bytes:
    """The bytes of a regular file, by default of ours, in an open directory."""
    with open_regular(
        dir_fd, name, where=where, binding=binding, forbidden_mode=forbidden_mode, owner=owner
    ) as fd:
        size = os.fstat(fd).st_size
        if size > max_bytes:
            raise fault(
                binding,
                f"this file has {size} bytes",
                where=where,
                expected=f"at most {max_bytes}",
                do="check that it is the right file",
            )
        return read_all(fd, size)


def read_all(fd: int, size: int) -> bytes:
    parts = []
    while size > 0:
        part = os.read(fd, min(size, 1 << 20))
        if not part:
            break
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def write_all(fd: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(fd, rest) :]


def sync(fd: int, where: str) -> None:
    """fsync, once.  See rule 4."""
    try:
        os.fsync(fd)
    except OSError as error:
        raise EvalkitError(
            f"the disk did not confirm a write ({error.strerror})",
            where=where,
            expected="fsync to succeed",
            do="check the disk and its free space, then let evalkit recover the run",
        ) from error


@contextmanager
def unconfirmed_removed(dir_fd: int, name: str) -> Iterator[None]:
    """Remove the folder ``name`` where the disk did not take what was written into it.

    Whoever finds it later reads it from memory, whole, and could only try the fsync again (rule 4).
    """
    try:
        yield
    except EvalkitError:
        shutil.rmtree(name, ignore_errors=True, dir_fd=dir_fd)
        raise


@contextmanager
def disk(what: str, where: str) -> Iterator[None]:
    """Turn what the disk refuses (full, broken) into an error that says what to do."""
    try:
        yield
    except OSError as error:
        raise EvalkitError(
            f"{what} ({error.strerror})",
            where=where,
            expected="room on the disk, and a disk without errors",
            do="check the disk and its free space, then let evalkit recover the run",
        ) from error


def write_new_at(
    dir_fd: int,
    name: str,
    data: bytes,
    *,
    where: str,
    observe: Callable[[str], None] = silent,
    step: str = "file",
    durable: bool = True,
) -> None:
    """Make the file ``name`` with mode 0600 and exactly ``data`` in it, on disk if ``durable``."""
    observe(f"{step}-create")
    try:
        fd = os.open(name, _NEW, 0o600, dir_fd=dir_fd)
    except FileExistsError:
        raise EvalkitError(
            "there is a file already",
            where=where,
            expected="a new name",
            do="choose another path, or move that file away yourself",
        ) from None
    try:
        observe(f"{step}-write")
        with disk("this file could not be written", where):
            os.fchmod(fd, 0o600)
            write_all(fd, data)
        if durable:
            observe(f"{step}-fsync")
            sync(fd, where)
        observe(f"{step}-fstat")
        found = os.fstat(fd)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1 or found.st_size != len(data):
            raise EvalkitError(
                "a file changed while it was written",
                where=where,
                expected=f"a regular file with one name and {len(data)} bytes",
                do="look for another program that works in this folder",
            )
    finally:
        os.close(fd)


def replace_at(
    dir_fd: int,
    name: str,
    data: bytes,
    *,
    where: str,
    observe: Callable[[str], None] = silent,
    step: str = "replace",
    durable: bool = True,
) -> None:
    """Put ``data`` in the place of the file ``name``, all or nothing, mode 0600.

    Not ``durable``: after a power failure the file may be the old one, empty, or zeros; that spares waiting
    for the disk twice, for what can be made again.
    """
    stage = f".stage.{name}.{secrets.token_hex(8)}"
    try:
        write_new_at(dir_fd, stage, data, where=where, observe=observe, step=step, durable=durable)
        observe(f"{step}-rename")
        with disk("this file could not be put in its place", where):
            os.rename(stage, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except BaseException:
        if stage in names_in(dir_fd):
            os.unlink(stage, dir_fd=dir_fd)
        raise
    if durable:
        observe(f"{step}-parent-fsync")
        sync(dir_fd, where)


@contextmanager
def locked(fd: int) -> Iterator[None]:
    """Hold the advisory lock of an open file or directory; waits for whoever has it."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


def make_private_directory(path: Path) -> None:
    """Make ``path`` and its missing parents, all 0700; an existing directory stays as it is."""
    if path.is_dir():
        return
    if path.parent != path:
        make_private_directory(path.parent)
    try:
        path.mkdir(mode=0o700)
    except FileExistsError:
        return
    path.chmod(0o700)
    fd = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        sync(fd, str(path.parent))
    finally:
        os.close(fd)


def refuse_inside(path: Path, workspace: Iterable[Path], *, what: str) -> None:
    """Refuse a path inside a workspace folder or inside any git tree that holds one.

    Folders are compared by device and inode, so neither ``..`` nor a link nor a bind mount hides
    that two names are one place; and by name, for a folder that is still to be made.
    """
    nearest = path.resolve()
    holders = {nearest, *nearest.parents, *path.absolute().parents}
    above = {_identity(p) for p in holders} - {None}
    for folder in workspace:
        place = folder.resolve()
        for root in (place, *place.parents):
            is_root = root == place or (root / ".git").exists()
            if is_root and (root in holders or _identity(root) in above):
                raise BindingError(
                    Binding.AUTHORITY,
                    f"the {what} lies inside the workspace that it is to judge",
                    where=str(path),
                    expected=f"a place outside {root}",
                    do="keep runs and cases outside your configuration folder and outside any git tree that holds"
                    " it, or set XDG_CONFIG_HOME and XDG_STATE_HOME to folders outside of it",
                )


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
