"""A committed phase on disk: one directory, one document, one attestation, nothing else.

``RUN/<phase>/<file>`` is the document and ``RUN/<phase>/<stem>.dsse.json`` its envelope.  The pair
appears as a whole (evalkit.sealing.commit) and is read as a whole: through one open directory, each
file opened once, and a listing that must match exactly.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import MAX_BYTES
from evalkit.sealing.envelope import MAX_ENVELOPE
from evalkit.sealing.files import (
    OTHERS_MAY_ANYTHING,
    OTHERS_MAY_WRITE,
    Owner,
    directory,
    exists,
    names_in,
    read_at,
)

JOURNAL = "journal.jsonl"
_PHASE = re.compile(r"[a-z0-9][a-z0-9-]{0,63}")
_FILE = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}\.json")


@dataclass(frozen=True)
class Phase:
    """What a committed phase of some protocol looks like."""

    name: str
    file_name: str
    predicate_type: str

    def __post_init__(self) -> None:
        if not _PHASE.fullmatch(self.name) or not _FILE.fullmatch(self.file_name):
            raise EvalkitError(
                f"{self.name!a} with {self.file_name!a} is not a phase",
                expected="lowercase ASCII words, and a file name ending in .json",
            )

    @property
    def envelope_name(self) -> str:
        return self.file_name.removesuffix(".json") + ".dsse.json"

    @property
    def stage_prefix(self) -> str:
        return f".stage.{self.name}."


def read_phase(run_dir: Path, phase: str, file_name: str, *, also: Iterable[str] = ()) -> tuple[bytes, bytes]:
    """(document, envelope) of a committed phase.

    The directory must hold these two files, and those named in ``also``, and no others.  Raises
    `BindingError`: ``attestation`` where only the envelope is missing, else ``run``.

    Whose the files are and who may read them does not matter here: the caller verifies every byte
    with a signature, and a run that was copied or unpacked has other owners and modes.
    """
    shape = Phase(phase, file_name, "")
    with directory(run_dir, binding=Binding.RUN, owner="anyone") as run_fd:
        return read_pair(run_fd, phase, shape, where=str(run_dir / phase), also=also, private=False)


def read_pair(
    run_fd: int, name: str, shape: Phase, *, where: str, also: Iterable[str] = (), private: bool = True
) -> tuple[bytes, bytes]:
    """The pair in the directory ``name`` of an open run directory; ``private``: ours and nobody else's."""
    owner: Owner = "us" if private else "anyone"
    others = OTHERS_MAY_ANYTHING if private else 0
    if not exists(run_fd, name):
        raise BindingError(
            Binding.RUN,
            f"the phase {shape.name} is not committed",
            where=where,
            expected=f"a folder with {shape.file_name} and {shape.envelope_name}",
            do="run that phase first, or restore its folder",
        )
    with directory(
        name, binding=Binding.RUN, dir_fd=run_fd, forbidden_mode=others, where=where, owner=owner
    ) as fd:
        check_listing(fd, {shape.file_name, shape.envelope_name, *also}, shape, where=where)
        document = read_at(
            fd,
            shape.file_name,
            where=f"{where}/{shape.file_name}",
            binding=Binding.RUN,
            max_bytes=MAX_BYTES,
            forbidden_mode=OTHERS_MAY_WRITE if private else 0,
            owner=owner,
        )
        envelope = read_at(
            fd,
            shape.envelope_name,
            where=f"{where}/{shape.envelope_name}",
            binding=Binding.RUN,
            max_bytes=MAX_ENVELOPE,
            forbidden_mode=OTHERS_MAY_WRITE if private else 0,
            owner=owner,
        )
    return document, envelope


def check_listing(fd: int, expected: set[str], shape: Phase, *, where: str) -> None:
    found = set(names_in(fd))
    if found == expected - {shape.envelope_name}:
        raise BindingError(
            Binding.ATTESTATION,
            "the attestation is missing",
            where=f"{where}/{shape.envelope_name}",
            expected="the envelope that was committed together with the document",
            do="restore it; a document without its attestation proves nothing",
        )
    if found != expected:
        raise BindingError(
            Binding.RUN,
            f"missing {sorted(expected - found)}, extra {sorted(found - expected)}",
            where=where,
            expected=f"exactly {sorted(expected)}",
            do="restore what is missing and move away what does not belong",
        )


def is_directory(dir_fd: int, name: str) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_mode)
