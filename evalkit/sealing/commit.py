"""Committing a document and its attestation as one, so that a crash leaves both or neither.

The steps of `commit_phase`
1. Lock the run directory; it must be ours, 0700 and no link.  Refuse a phase that is there already
   and a crashed attempt that was not recovered.
2. Reload the document strictly; append ``intent`` with its digest to the ledger and sync.
3. Sign, and verify the envelope in memory with the pinned keys.
4. Write both files, new, into a private stage directory beside the target; sync each.
5. Sync the stage directory.
6. Rename it to the phase's name without replacing: the commit point.
7. Sync the run directory, append ``committed`` to the ledger and sync; refresh ``journal.jsonl``,
   the copy of the ledger that travels with the run.  The copy is not synced: what a power failure
   leaves of it, `recover` makes anew from the ledger.

A process killed before 2 leaves nothing; before 6 an attempt that `recover` counts as lost or, if
the stage is complete, rolls forward; after 6 a committed phase.  A stage that the disk did not confirm
is removed, for its files are whole in memory only.  ``observe`` is called with a name before each step
that touches the disk, for tests that stop there.

The predicate carries ``run_id``, ``attempt``, ``ledger`` (the head after the intent) and
``signed_at`` (the time of the intent) beside what the caller puts in.
"""

from __future__ import annotations

import os
import secrets
import shutil
import stat
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing.canonical import digest, load_canonical
from evalkit.sealing.envelope import sign, verify
from evalkit.sealing.files import (
    OTHERS_MAY_ANYTHING,
    check_regular,
    directory,
    disk,
    exists,
    locked,
    names_in,
    replace_at,
    silent,
    sync,
    unconfirmed_removed,
    write_new_at,
)
from evalkit.sealing.hash_chain import Head
from evalkit.sealing.ledger import Ledger
from evalkit.sealing.phase import JOURNAL, Phase, read_phase
from evalkit.sealing.places import check_run_id
from evalkit.sealing.recovery import Recovered, recover
from evalkit.sealing.rename import TargetExists, rename_new, target_exists
from evalkit.sealing.signer import Signer
from evalkit.sealing.trust import Trust

__all__ = [
    "Committed",
    "Phase",
    "Recovered",
    "TargetExists",
    "commit_directory",
    "commit_phase",
    "read_phase",
    "recover",
]

Observe = Callable[[str], None]


@dataclass(frozen=True)
class Committed:
    """A phase that is on disk: its directory, its envelope, and the ledger's head after it."""

    directory: Path
    envelope: bytes
    head: Head


def commit_phase(
    run_dir: Path,
    phase: str,
    file_name: str,
    document: bytes,
    *,
    predicate_type: str,
    predicate: Callable[[Head, int], dict[str, Any]],
    signer: Signer,
    trust: Trust,
    ledger: Ledger,
    run_id: str,
    attempt: int,
    segment_from: int = 0,
    observe: Observe = silent,
) -> Committed:
    """Commit ``document`` (canonical JSON) as a phase of the run, by the steps above.

    ``predicate`` gets the ledger head after the intent and the attempt number.  ``segment_from`` is
    the ledger's size when the run was planned: the run's journal begins there.  Raises
    `TargetExists` where the phase is committed, `Blocked` where an earlier attempt is not settled.
    """
    shape = Phase(phase, file_name, predicate_type)
    check_run_id(run_id)
    where = str(run_dir / phase)
    observe("lock")
    with (
        directory(run_dir, binding=Binding.RUN, forbidden_mode=OTHERS_MAY_ANYTHING) as run_fd,
        locked(run_fd),
    ):
        if exists(run_fd, phase):
            raise target_exists(where)
        _check_attempt(run_fd, shape, ledger, run_id, attempt, where)
        load_canonical(document)
        observe("intent")
        intent = ledger.append(
            "intent", run_id=run_id, phase=phase, attempt=attempt, document=digest(document)
        )
        observe("sign")
        envelope = sign(
            file_name,
            document,
            predicate_type=predicate_type,
            predicate=_complete(predicate(intent.head, attempt), run_id, attempt, intent.head),
            signer=signer,
            at=datetime.fromisoformat(intent.record["time"]),
        )
        observe("verify")
        verified = verify(
            envelope,
            subject_name=file_name,
            predicate_type=predicate_type,
            trust=trust,
            run_id=run_id,
            at=ledger.clock(),
        )
        verified.check_subject(document)
        stage = f"{shape.stage_prefix}{secrets.token_hex(8)}"
        observe("stage-mkdir")
        with disk("the stage folder could not be made", where):
            os.mkdir(stage, 0o700, dir_fd=run_fd)
        with (
            unconfirmed_removed(run_fd, stage),
            directory(stage, binding=Binding.RUN, dir_fd=run_fd, where=str(run_dir / stage)) as stage_fd,
        ):
            os.fchmod(stage_fd, 0o700)
            for name, data, step in (
                (file_name, document, "document"),
                (shape.envelope_name, envelope, "envelope"),
            ):
                write_new_at(
                    stage_fd, name, data, where=f"{run_dir / stage}/{name}", observe=observe, step=step
                )
            observe("stage-fsync")
            sync(stage_fd, str(run_dir / stage))
        observe("rename")
        rename_new(stage, phase, dir_fd=run_fd, where=where)
        observe("parent-fsync")
        sync(run_fd, str(run_dir))
        observe("committed")
        entry = ledger.append(
            "committed",
            run_id=run_id,
            phase=phase,
            attempt=attempt,
            document=digest(document),
            envelope=digest(envelope),
        )
        replace_at(
            run_fd,
            JOURNAL,
            ledger.segment(segment_from),
            where=str(run_dir / JOURNAL),
            observe=observe,
            step="journal",
            durable=False,
        )
        observe("done")
    return Committed(run_dir / phase, envelope, entry.head)


def _check_attempt(run_fd: int, shape: Phase, ledger: Ledger, run_id: str, attempt: int, where: str) -> None:
    """Refuse an attempt number that is settled or not next, and any attempt left by a crash."""
    known = ledger.attempts(run_id, shape.name)
    if any(a.state == "intent" for a in known) or any(
        name.startswith(shape.stage_prefix) for name in names_in(run_fd)
    ):
        raise Blocked(
            "an earlier attempt at this phase was interrupted",
            where=where,
            expected="no unsettled intent and no stage folder",
            do="let evalkit recover the run first; the attempt stays counted",
        )
    if any(a.state == "committed" for a in known):
        raise BindingError(
            Binding.RUN,
            "the ledger says that this phase was committed, but its folder is gone",
            where=where,
            expected="the committed folder",
            do="restore it",
        )
    last = max((a.number for a in known), default=0)
    begun = any(a.number == attempt and a.state == "begun" for a in known)
    if not begun and attempt != last + 1:
        raise EvalkitError(
            f"attempt {attempt} cannot be committed",
            where=where,
            expected=f"an attempt that was begun and not settled, or {last + 1}",
            do="take the number from Ledger.begin_attempt",
        )


def _complete(predicate: dict[str, Any], run_id: str, attempt: int, head: Head) -> dict[str, Any]:
    """The predicate with the fields that every phase has; the caller may state them, equal."""
    common: dict[str, Any] = {"run_id": run_id, "attempt": attempt, "ledger": head.record()}
    for name, value in common.items():
        if name in predicate and predicate[name] != value:
            raise ValueError(f"the predicate says {name} = {predicate[name]!r}, which is not {value!r}")
    return common | predicate


def commit_directory(target: Path, build: Callable[[Path], None], *, observe: Observe = silent) -> Path:
    """Make the directory ``target`` appear as a whole, with what ``build`` writes into it.

    ``build`` gets a private folder beside the target.  Only folders and regular files may be in it
    afterwards; they become 0700 and 0600 and are synced before the rename that commits them.
    Raises `TargetExists` where the target is there, and `EvalkitError` in a folder in which others could
    move what is ours.  What a killed attempt left is removed by the next one.
    """
    target = Path(os.path.abspath(target))  # noqa: PTH100 - resolve() would follow a symlinked target
    prefix = f".stage.{target.name}."
    observe("lock")
    with directory(target.parent, binding=None, owner="us-or-sticky") as parent_fd, locked(parent_fd):
        if exists(parent_fd, target.name):
            raise target_exists(str(target))
        # We hold the lock, so whoever made these is no longer at work.  In a shared folder another user's may
        # have such a name: they are not ours to remove, and in nobody's way.
        for name in names_in(parent_fd):
            if name.startswith(prefix) and _our_folder(parent_fd, name):
                shutil.rmtree(name, dir_fd=parent_fd)
        stage = f"{prefix}{secrets.token_hex(8)}"
        observe("stage-mkdir")
        with disk("the stage folder could not be made", str(target)):
            os.mkdir(stage, 0o700, dir_fd=parent_fd)
        try:
            observe("build")
            build(target.parent / stage)
            _settle(target.parent / stage, observe)
            observe("rename")
            rename_new(stage, target.name, dir_fd=parent_fd, where=str(target))
        except BaseException:
            shutil.rmtree(target.parent / stage, ignore_errors=True)
            raise
        observe("parent-fsync")
        sync(parent_fd, str(target.parent))
        observe("done")
    return target


def _our_folder(dir_fd: int, name: str) -> bool:
    try:
        found = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def _settle(root: Path, observe: Observe) -> None:
    """Fix the modes of a built tree and sync it, files before their folders."""
    for folder, _folders, files, fd in os.fwalk(root, topdown=False, follow_symlinks=False):
        for name in files:
            where = f"{folder}/{name}"
            check_regular(
                os.stat(name, dir_fd=fd, follow_symlinks=False),
                binding=None,
                forbidden_mode=0,
                where=where,
            )
            file_fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                os.fchmod(file_fd, 0o600)
                observe("file-fsync")
                sync(file_fd, where)
            finally:
                os.close(file_fd)
        for name in _folders:
            if not stat.S_ISDIR(os.stat(name, dir_fd=fd, follow_symlinks=False).st_mode):
                raise EvalkitError(
                    "a symbolic link cannot be part of a run",
                    where=f"{folder}/{name}",
                    expected="folders and regular files",
                    do="copy the content instead",
                )
        os.fchmod(fd, 0o700)
        observe("folder-fsync")
        sync(fd, str(folder))
