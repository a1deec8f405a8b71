"""Checking a ledger file from its first line to its last, without keeping it in memory.

For the owner, and for a third party who got a copy: owner and mode do not matter here, since the chain
and the heads that attestations have signed are what is checked.  A ledger begins with entry 0.  A copy in
a run (``journal.jsonl``) may begin in the middle, where the caller says so: then the entry before its
first line is taken from that line.

The ledgers of one signer hang together: a rotation ends the one and begins the other, and each names the
other (`rotation_failures`).
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import digest
from evalkit.sealing.files import directory, open_regular, read_at
from evalkit.sealing.hash_chain import EMPTY, MAX_LINE, Chain, Entry, Head, parse_line, refuse
from evalkit.sealing.ledger import Attempt, attempts_in

_READ = 1024 * 1024
_ROTATIONS = frozenset(("rotated", "rotation"))
#: size -> the heads of that size that must be there, and who vouches for each
_Wanted = dict[int, list[tuple[Head, str]]]
_COUNTED = frozenset(("attempt", "intent", "committed", "lost", "abandoned"))


@dataclass(frozen=True)
class CheckedLedger:
    """What a chain holds, once it was found whole.

    ``start`` is the head before the first line, `EMPTY` for a whole ledger; ``torn`` is the number of bytes
    of a last line without its end.  ``runs`` maps (run id, phase) to the attempts at it; ``set_aside`` lists
    the files of torn lines: (name, "kept", "missing" or "changed"); ``rotations`` are the events
    ``rotated`` and ``rotation``.
    """

    path: Path
    start: Head
    head: Head
    first_time: str
    last_time: str
    torn: int
    events: dict[str, int]
    runs: dict[tuple[str, str], tuple[Attempt, ...]] = field(repr=False)
    set_aside: tuple[tuple[str, str], ...]
    rotations: tuple[Entry, ...] = field(default=(), repr=False)

    def summary(self) -> dict[str, Any]:
        """For programs: plain values only."""
        return {
            "ledger": str(self.path),
            "entries": self.head.size - self.start.size,
            "start": self.start.record(),
            "head": self.head.record(),
            "first_time": self.first_time or None,
            "last_time": self.last_time or None,
            "torn_bytes": self.torn,
            "events": self.events,
            "attempts": [
                {"run_id": run, "phase": phase, "attempt": a.number, "state": a.state}
                for (run, phase), attempts in self.runs.items()
                for a in attempts
            ],
            "set_aside": [{"file": name, "state": state} for name, state in self.set_aside],
        }


def check_ledger(
    path: Path, *, covers: Mapping[str, Iterable[Head]] | None = None, segment: bool = False
) -> CheckedLedger:
    """Verify the chain in the file at ``path``; each head in ``covers`` must be in it.

    ``covers`` maps who vouches for a head, in words, to the heads.  ``segment``: the file may begin in the
    middle of a ledger.  Raises `BindingError` ``run`` naming the first line that is wrong, or the entry
    that is missing and who vouches for it.
    """
    wanted: _Wanted = {}
    for who, heads in (covers or {}).items():
        for head in heads:
            wanted.setdefault(head.size, []).append((head, who))
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link
    events: Counter[str] = Counter()
    of_runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    torn_events: list[dict[str, Any]] = []
    rotations: list[Entry] = []
    chain, first_time, start, rest = Chain(), "", EMPTY, b""
    with directory(path.parent, binding=Binding.RUN, owner="anyone") as parent:
        with open_regular(parent, path.name, where=str(path), binding=Binding.RUN, owner="anyone") as fd:
            begun = False
            while part := os.read(fd, _READ):
                *lines, rest = (rest + part).split(b"\n")
                if len(rest) > MAX_LINE:
                    refuse("a line is too long", f"seq {chain.head.size}", f"at most {MAX_LINE} bytes")
                if not lines:
                    continue
                if not begun:
                    start = _start(lines[0], segment)
                    chain, begun = Chain(start), True
                digests, records = chain.feed(lines)
                _compare(wanted, chain.head.size - len(digests), digests)
                first_time = first_time or str(records[0].get("time", ""))
                for line_digest, record in zip(digests, records, strict=True):
                    events[record["event"]] += 1
                    if record["event"] in _COUNTED:
                        key = (str(record.get("run_id")), str(record.get("phase")))
                        of_runs.setdefault(key, []).append(record)
                    elif record["event"] == "torn":
                        torn_events.append(record)
                    elif record["event"] in _ROTATIONS:
                        rotations.append(Entry(record["seq"], line_digest, record))
        aside = tuple(_set_aside(parent, record, path) for record in torn_events)
    _strike(wanted, start)
    if wanted:
        _missing(*wanted[min(wanted)][0])
    return CheckedLedger(
        path=path,
        start=start,
        head=chain.head,
        first_time=first_time,
        last_time=chain.time,
        torn=len(rest),
        events=dict(sorted(events.items())),
        runs={key: attempts_in(records, *key) for key, records in of_runs.items()},
        set_aside=aside,
        rotations=tuple(rotations),
    )


def rotation_failures(
    checked: Mapping[str, CheckedLedger], spoilt: Container[str] = ()
) -> dict[str, EvalkitError]:
    """Key id -> what its ledger lacks, by the word of the other ledgers of the same signer.

    ``checked`` maps key ids to ledgers; ``spoilt`` are the ids of ledgers that are there and failed by
    themselves.  A ledger that a rotation began holds the head of the one before; a ledger in which the key was
    rotated has a successor that says so.
    """
    failures: dict[str, EvalkitError] = {}
    for own, ledger in checked.items():
        for entry in ledger.rotations:
            began = entry.record["event"] == "rotation"
            other = str(entry.record.get("previous" if began else "next"))
            if other in spoilt:
                continue
            try:
                if other not in checked:
                    _broken(f"the ledger of {other} is gone, and that of {own} names it")
                elif began:
                    head = Head.from_record(entry.record.get("ledger"))
                    check_ledger(checked[other].path, covers={f"the ledger of {own}": [head]})
                elif not any(e.record.get("previous") == own for e in checked[other].rotations):
                    _broken(f"the ledger does not begin with the rotation from {own}")
            except EvalkitError as error:
                failures.setdefault(other, error)
    return failures


def _broken(what: str) -> NoReturn:
    raise BindingError(
        Binding.RUN,
        what,
        expected="the ledgers of both keys, as the rotation left them",
        do="evalkit keys rotate finishes a rotation that was interrupted; else find out who changed the ledgers",
    )


def _start(line: bytes, segment: bool) -> Head:
    """The head before the first line, by its own word; that of a whole ledger is checked by the chain."""
    try:
        record = parse_line(line, "the first line")
    except BindingError as error:
        raise BindingError(
            Binding.RUN,
            f"this is no ledger: {error.what.removeprefix('run: ')}",
            where=error.where,
            expected="a ledger, or the journal.jsonl of a run: an event a line",
            do="check the path; if it was a ledger, keep a copy and find out who changed it",
        ) from None
    if record["seq"] and not segment:
        refuse(
            f"the ledger begins with entry {record['seq']}: what came before it is gone",
            "seq 0",
            "a whole ledger; only the journal.jsonl of a run, or a file named with --segment, begins later",
        )
    return Head(record["seq"], record["prev"]) if record["seq"] else EMPTY


def _compare(wanted: _Wanted, size: int, digests: list[str]) -> None:
    """Strike the heads that these lines hold off the list."""
    for at in [at for at in wanted if size < at <= size + len(digests)]:
        _strike(wanted, Head(at, digests[at - size - 1]))


def _strike(wanted: _Wanted, found: Head) -> None:
    for head, who in wanted.pop(found.size, ()):
        if head != found:
            _missing(head, who)


def _missing(head: Head, who: str) -> NoReturn:
    refuse(
        f"the ledger does not contain the entry that {who} vouches for",
        f"seq {head.size - 1}",
        f"entry {head.digest}",
    )


def _set_aside(parent: int, record: dict[str, Any], path: Path) -> tuple[str, str]:
    """Whether the file of a torn line, which the ledger tells of, is still what it was."""
    name = str(record.get("file"))
    if "/" in name or "\0" in name or not name.startswith(path.name):
        refuse("an entry names a file that is none of this ledger's", name, f"{path.name}.torn-<n>")
    try:
        data = read_at(parent, name, where=name, binding=Binding.RUN, max_bytes=MAX_LINE, owner="anyone")
    except EvalkitError:
        return name, "missing"
    return name, "kept" if digest(data) == record.get("digest") else "changed"
