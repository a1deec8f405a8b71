"""The tokens of a run: ``RUN/timestamps/<phase>.tsr``, each the DER answer of a timestamp authority.

A token proves itself or is refused, so nobody signs this folder, and whoever removes a token removes a
proof and nothing else.  A token appears as a whole or not at all.  One that is there is replaced only by
an earlier one over the same bytes: what existed earlier is the stronger claim.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from pathlib import Path

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.files import (
    OTHERS_MAY_WRITE,
    directory,
    exists,
    locked,
    names_in,
    read_at,
    replace_at,
    sync,
)
from evalkit.sealing.timestamp import MAX_TOKEN, Timestamp, verify_token
from evalkit.sealing.timestamp_authority import TimestampAuthority

FOLDER = "timestamps"
_SUFFIX = ".tsr"
_STAGE = ".stage."
_PHASE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")


def token_name(phase: str) -> str:
    """The file name of a phase's token."""
    if not _PHASE.fullmatch(phase):
        raise EvalkitError(f"{phase!a} is not a phase", expected="a lowercase ASCII word")
    return phase + _SUFFIX


def read_tokens(run_dir: Path, phases: Iterable[str]) -> dict[str, bytes]:
    """Phase -> token, in the order of ``phases``.  Nothing else may lie in the folder.

    As with phases, whose files these are does not matter: a token is verified or counts nothing.
    """
    with directory(run_dir, binding=Binding.RUN, owner="anyone") as run_fd:
        if not exists(run_fd, FOLDER):
            return {}
        where = str(run_dir / FOLDER)
        with directory(FOLDER, binding=Binding.RUN, dir_fd=run_fd, where=where, owner="anyone") as fd:
            found, known = set(names_in(fd)), {token_name(phase): phase for phase in phases}
            if found - set(known):
                raise BindingError(
                    Binding.RUN,
                    f"the folder of timestamps holds {', '.join(sorted(found - set(known)))}",
                    where=where,
                    expected=", ".join(known),
                    do="a file .stage.* is left by a process that was killed: remove it; for anything else, find"
                    " out who put it there",
                )
            return {phase: _read(fd, phase, run_dir) for name, phase in known.items() if name in found}


def write_token(
    run_dir: Path,
    phase: str,
    response: bytes,
    data: bytes,
    authorities: Iterable[TimestampAuthority],
    *,
    request: bytes | None = None,
) -> Timestamp:
    """Verify a token over ``data`` and put it into the run, which must be ours.

    Raises `BindingError` ``timestamp`` where it does not verify, and `EvalkitError` where the run has a
    token that is as early, or one that cannot be compared.
    """
    pinned = tuple(authorities)
    stamp = verify_token(response, data, pinned, request=request)
    name, where = token_name(phase), str(run_dir / FOLDER / token_name(phase))
    with (
        directory(run_dir, binding=Binding.RUN, forbidden_mode=OTHERS_MAY_WRITE) as run_fd,
        locked(run_fd),
    ):
        if not exists(run_fd, FOLDER):
            os.mkdir(FOLDER, 0o700, dir_fd=run_fd)
            sync(run_fd, str(run_dir))
        with directory(
            FOLDER,
            binding=Binding.RUN,
            dir_fd=run_fd,
            where=str(run_dir / FOLDER),
            forbidden_mode=OTHERS_MAY_WRITE,
        ) as fd:
            # We hold the lock: whoever left these is no longer at work.
            for left in names_in(fd):
                if left.startswith(_STAGE):
                    os.unlink(left, dir_fd=fd)
            if exists(fd, name):
                _refuse_later(_read(fd, phase, run_dir), stamp, data, pinned, where)
            replace_at(fd, name, response, where=where)
    return stamp


def _read(fd: int, phase: str, run_dir: Path) -> bytes:
    return read_at(
        fd,
        token_name(phase),
        where=str(run_dir / FOLDER / token_name(phase)),
        binding=Binding.TIMESTAMP,
        max_bytes=MAX_TOKEN,
        forbidden_mode=0,
        owner="anyone",
    )


def _refuse_later(
    there: bytes, new: Timestamp, data: bytes, authorities: tuple[TimestampAuthority, ...], where: str
) -> None:
    try:
        old = verify_token(there, data, authorities)
    except BindingError as error:
        raise EvalkitError(
            "there is a token already, and your trust file does not verify it",
            where=where,
            expected=error.expected,
            do="pin its authority, or move that file away yourself",
        ) from None
    if old.latest <= new.latest:
        raise EvalkitError(
            f"there is a token that is as early ({old})",
            where=where,
            expected=f"no token, or one that is later than {new}",
            do="nothing: the earlier token is the stronger proof, and it stays",
        )
