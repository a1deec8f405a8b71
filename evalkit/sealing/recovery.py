"""Settling what a crash left in a run, without ever helping whoever caused it.

First everything is looked at, then something is changed; a run in which one thing is wrong is not
touched at all.  For each phase:

====================================================  ===============================================
found                                                 done
====================================================  ===============================================
a valid phase, no ``committed`` in the ledger         ``committed`` is added
an intent and a complete stage of equal digest        the stage becomes the phase; nothing is signed
an intent and no complete stage                       ``lost`` is added: the attempt stays counted
a stage without an intent                             the stage is deleted
a phase without an intent, or of another digest,      `BindingError` ``run``
a committed phase that is gone, anything extra
====================================================  ===============================================

A stage is complete when both files are there and the envelope verifies over the document; a file
that was cut short makes it incomplete, while a link, a second name or a foreign file is tampering.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import Binding, BindingError
from evalkit.sealing.canonical import MAX_BYTES, digest, load_canonical
from evalkit.sealing.envelope import MAX_ENVELOPE, Verified, verify
from evalkit.sealing.files import (
    OTHERS_MAY_ANYTHING,
    directory,
    disk,
    exists,
    locked,
    names_in,
    read_at,
    replace_at,
    sync,
    unconfirmed_removed,
)
from evalkit.sealing.hash_chain import EMPTY, Entry, Head
from evalkit.sealing.ledger import Attempt, Ledger, attempts_in
from evalkit.sealing.phase import JOURNAL, Phase, is_directory, read_pair
from evalkit.sealing.rename import rename_new
from evalkit.sealing.trust import Trust


@dataclass(frozen=True)
class Recovered:
    """One thing that was settled: ``action`` is completed, rolled-forward, lost or stage-deleted."""

    phase: str
    attempt: int | None
    action: str


@dataclass(frozen=True)
class _Pair:
    """A document with its verified envelope, in the directory ``name``."""

    name: str
    document: str
    envelope: str
    attempt: Any
    head: Head

    @classmethod
    def of(cls, name: str, document: bytes, verified: Verified) -> _Pair:
        verified.check_subject(document)
        predicate = verified.predicate
        return cls(
            name=name,
            document=digest(document),
            envelope=verified.envelope_digest,
            attempt=predicate.get("attempt"),
            head=Head.from_record(predicate.get("ledger")),
        )


@dataclass(frozen=True)
class _Plan:
    """What is to be done about one phase, in this order."""

    phase: Phase
    complete: _Pair | None
    forward: _Pair | None
    lost: tuple[Attempt, ...]
    delete: tuple[str, ...]


def recover(
    run_dir: Path,
    *,
    phases: Iterable[Phase],
    ledger: Ledger,
    trust: Trust,
    run_id: str,
    segment_from: int = 0,
    expected: Iterable[str] | None = None,
    at: datetime | None = None,
) -> list[Recovered]:
    """Settle every listed phase; returns what was done, nothing where all was well.

    ``expected`` lists what else may lie in the run directory (the plan, packets); where it is None
    other entries are not looked at.  ``at`` is the time of checking (see `verify`); now by default.
    """
    shapes = tuple(phases)
    with (
        directory(run_dir, binding=Binding.RUN, forbidden_mode=OTHERS_MAY_ANYTHING) as run_fd,
        locked(run_fd),
    ):
        names = set(names_in(run_fd))
        if expected is not None:
            _check_entries(names, shapes, set(expected), run_dir)
        final = {
            shape.name: _final(run_fd, shape, run_dir, trust, run_id, at)
            for shape in shapes
            if exists(run_fd, shape.name)
        }
        # Attestations vouch for the ledger up to their head: a tail that they cover was never torn.
        heads = [pair.head for pair in final.values()]
        heads += [ledger.signed] if ledger.signed is not None else []
        covered = ledger.covered_by(max(heads, key=lambda head: head.size, default=None))
        entries = covered.entries()
        for head in heads:
            if head != EMPTY and entries[head.size - 1].head != head:
                _refuse("two attestations vouch for different ledgers", str(ledger.path), head.digest)
        plans = [
            _plan(run_fd, shape, final.get(shape.name), names, entries, run_dir, trust, run_id, at)
            for shape in shapes
        ]
        done = [step for plan in plans for step in _carry_out(run_fd, plan, covered, run_dir, run_id)]
        leftovers = [name for name in names if name.startswith(f".stage.{JOURNAL}.")]
        for name in leftovers:
            os.unlink(name, dir_fd=run_fd)
        segment = covered.segment(segment_from)
        if done or leftovers or JOURNAL not in names or _lags(run_fd, segment, run_dir, run_id):
            replace_at(run_fd, JOURNAL, segment, where=str(run_dir / JOURNAL), durable=False)
    return done


def _lags(run_fd: int, segment: bytes, run_dir: Path, run_id: str) -> bool:
    """Did the last step of a commit not reach the disk, so that the run's journal lacks some of the ledger?

    The journal is made anew only where it is the beginning of the ledger's segment (a power failure may
    have filled the rest with zeros): what somebody wrote into it is never covered up.
    """
    copy = read_at(run_fd, JOURNAL, where=str(run_dir / JOURNAL), binding=Binding.RUN, max_bytes=MAX_BYTES)
    if not segment.startswith(copy.rstrip(b"\0")):
        return False
    if not copy.endswith(b"\n"):
        return True
    return any(
        (record["event"], record.get("run_id")) == ("committed", run_id)
        for record in map(load_canonical, segment[len(copy) :].splitlines())
    )


def _check_entries(names: set[str], shapes: tuple[Phase, ...], expected: set[str], run_dir: Path) -> None:
    known = expected | {JOURNAL} | {shape.name for shape in shapes}
    prefixes = (f".stage.{JOURNAL}.", *(shape.stage_prefix for shape in shapes))
    extra = sorted(name for name in names - known if not name.startswith(prefixes))
    missing = sorted(expected - names)
    if extra or missing:
        _refuse(f"missing {missing}, extra {extra}", str(run_dir), "what the run was planned with")


def _final(run_fd: int, shape: Phase, run_dir: Path, trust: Trust, run_id: str, at: datetime | None) -> _Pair:
    document, envelope = read_pair(run_fd, shape.name, shape, where=str(run_dir / shape.name))
    return _Pair.of(shape.name, document, _verify(envelope, shape, trust, run_id, at))


def _verify(envelope: bytes, shape: Phase, trust: Trust, run_id: str, at: datetime | None) -> Verified:
    return verify(
        envelope,
        subject_name=shape.file_name,
        predicate_type=shape.predicate_type,
        trust=trust,
        run_id=run_id,
        at=at,
    )


def _plan(
    run_fd: int,
    shape: Phase,
    final: _Pair | None,
    names: set[str],
    entries: list[Entry],
    run_dir: Path,
    trust: Trust,
    run_id: str,
    at: datetime | None,
) -> _Plan:
    attempts = {
        attempt.number: attempt
        for attempt in attempts_in((entry.record for entry in entries), run_id, shape.name)
    }
    committed = [a for a in attempts.values() if a.state == "committed"]
    where = str(run_dir / shape.name)
    if final is None and committed:
        _refuse("the ledger says that this phase was committed, but it is gone", where, "its folder")
    stages = sorted(name for name in names if name.startswith(shape.stage_prefix))
    complete: list[_Pair] = []
    for stage in stages:
        pair = _stage(run_fd, stage, shape, run_dir, trust, run_id, at)
        mine = attempts.get(pair.attempt) if pair is not None else None
        if (
            pair is not None
            and mine is not None
            and mine.state == "intent"
            and mine.document == pair.document
        ):
            complete.append(pair)
    if len(complete) + (final is not None) > 1:
        _refuse("this phase was completed more than once", where, "one folder or one stage")
    settled = final
    if final is not None:
        mine = attempts.get(final.attempt)
        if mine is None or mine.state not in ("intent", "committed") or mine.document != final.document:
            _refuse("the ledger has no intent for this phase", where, f"an intent of {final.document}")
        if committed and committed != [mine]:
            _refuse("the ledger says that another attempt was committed", where, "one committed attempt")
    elif complete:
        settled = complete[0]
    lost = tuple(
        a
        for a in attempts.values()
        if a.state == "intent" and (settled is None or a.number != settled.attempt)
    )
    return _Plan(
        phase=shape,
        complete=final if final is not None and not committed else None,
        forward=complete[0] if complete else None,
        lost=lost,
        delete=tuple(name for name in stages if name not in {pair.name for pair in complete}),
    )


def _stage(
    run_fd: int,
    name: str,
    shape: Phase,
    run_dir: Path,
    trust: Trust,
    run_id: str,
    at: datetime | None,
) -> _Pair | None:
    """The pair in a stage directory, or None where the crash came before it was complete."""
    where = str(run_dir / name)
    if not is_directory(run_fd, name):
        _refuse("a stage is not a folder", where, "a folder")
    wanted = (shape.file_name, shape.envelope_name)
    with directory(name, binding=Binding.RUN, dir_fd=run_fd, where=where) as fd:
        found = names_in(fd)
        extra = sorted(set(found) - set(wanted))
        if extra:
            _refuse(f"the stage holds {extra}", where, f"at most {sorted(wanted)}")
        # Read even what is incomplete: a link or a second name is never the trace of a crash.
        data = {
            file: read_at(
                fd,
                file,
                where=f"{where}/{file}",
                binding=Binding.RUN,
                max_bytes=max(MAX_BYTES, MAX_ENVELOPE),
            )
            for file in found
        }
    if len(data) < len(wanted):
        return None
    document, envelope = (data[file] for file in wanted)
    try:
        return _Pair.of(name, document, _verify(envelope, shape, trust, run_id, at))
    except BindingError:
        # Cut short or never filled: what was not synced may read as anything after a crash.
        return None


def _carry_out(run_fd: int, plan: _Plan, ledger: Ledger, run_dir: Path, run_id: str) -> list[Recovered]:
    done: list[Recovered] = []
    phase = plan.phase.name
    pair = plan.complete
    if plan.forward is not None:
        _roll_forward(run_fd, plan.forward, plan.phase, run_dir)
        pair = plan.forward
    if pair is not None:
        sync(run_fd, str(run_dir))
        ledger.append(
            "committed",
            run_id=run_id,
            phase=phase,
            attempt=pair.attempt,
            document=pair.document,
            envelope=pair.envelope,
        )
        action = "rolled-forward" if plan.forward is not None else "completed"
        done.append(Recovered(phase, pair.attempt, action))
    for attempt in plan.lost:
        ledger.append("lost", run_id=run_id, phase=phase, attempt=attempt.number, document=attempt.document)
        done.append(Recovered(phase, attempt.number, "lost"))
    for name in plan.delete:
        _delete(run_fd, name, str(run_dir / name))
        done.append(Recovered(phase, None, "stage-deleted"))
    return done


def _roll_forward(run_fd: int, pair: _Pair, shape: Phase, run_dir: Path) -> None:
    """Finish steps 4 to 6 of the commit.  The files are synced: the crash may have come before."""
    where = str(run_dir / pair.name)
    with (
        unconfirmed_removed(run_fd, pair.name),
        directory(pair.name, binding=Binding.RUN, dir_fd=run_fd, where=where) as fd,
    ):
        for file in (shape.file_name, shape.envelope_name):
            file_fd = os.open(file, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
            try:
                sync(file_fd, f"{where}/{file}")
            finally:
                os.close(file_fd)
        sync(fd, where)
    rename_new(pair.name, shape.name, dir_fd=run_fd, where=str(run_dir / shape.name))


def _delete(run_fd: int, name: str, where: str) -> None:
    with disk("what a crash left could not be removed", where):
        with directory(name, binding=Binding.RUN, dir_fd=run_fd, where=where) as fd:
            for file in names_in(fd):
                os.unlink(file, dir_fd=fd)
        os.rmdir(name, dir_fd=run_fd)
    sync(run_fd, where)


def _refuse(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.RUN,
        what,
        where=where,
        expected=expected,
        do="nothing was touched; keep a copy of the run, then find out who changed it",
    )
