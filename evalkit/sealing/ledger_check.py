"""Checking a ledger file from its first line to its last, without keeping it in memory.

For the owner, and for a third party who got a copy: owner and mode do not matter here, since the chain
and the heads that attestations have signed are what is checked.  A copy in a run (``journal.jsonl``)
begins in the middle: then the entry before its first line is taken from that line, and said to be.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from evalkit.errors import Binding, EvalkitError
from evalkit.sealing.canonical import digest
from evalkit.sealing.files import directory, open_regular, read_at
from evalkit.sealing.hash_chain import EMPTY, MAX_LINE, Chain, Head, parse_line, refuse
from evalkit.sealing.ledger import Attempt, attempts_in

_READ = 1024 * 1024
_COUNTED = frozenset(("attempt", "intent", "committed", "lost", "abandoned"))


@dataclass(frozen=True)
class CheckedLedger:
    """What a chain holds, once it was found whole.

    ``start`` is the head before the first line, `EMPTY` for a whole ledger; ``torn`` is the number of bytes
    of a last line without its end.  ``runs`` maps (run id, phase) to the attempts at it; ``set_aside`` lists
    the files of torn lines: (name, "kept", "missing" or "changed").
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


def check_ledger(path: Path, *, covers: Iterable[Head] = ()) -> CheckedLedger:
    """Verify the chain in the file at ``path``; each head in ``covers`` must be in it.

    Raises `BindingError` ``run`` naming the first line that is wrong, or the signed entry that is missing.
    """
    wanted = {head.size: head for head in covers}
    path = Path(os.path.abspath(path))  # noqa: PTH100 - resolve() would follow a link
    events: Counter[str] = Counter()
    of_runs: dict[tuple[str, str], list[dict[str, Any]]] = {}
    torn_events: list[dict[str, Any]] = []
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
                    start = _start(lines[0])
                    chain, begun = Chain(start), True
                digests, records = chain.feed(lines)
                _compare(wanted, chain.head.size - len(digests), digests)
                first_time = first_time or str(records[0].get("time", ""))
                for record in records:
                    events[record["event"]] += 1
                    if record["event"] in _COUNTED:
                        key = (str(record.get("run_id")), str(record.get("phase")))
                        of_runs.setdefault(key, []).append(record)
                    elif record["event"] == "torn":
                        torn_events.append(record)
        aside = tuple(_set_aside(parent, record, path) for record in torn_events)
    if start.size in wanted and wanted.pop(start.size) != start:
        _missing(start)
    if wanted:
        _missing(min(wanted.values(), key=lambda head: head.size))
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
    )


def _start(line: bytes) -> Head:
    """The head before the first line, by its own word; that of a whole ledger is checked by the chain."""
    record = parse_line(line, "the first line")
    return Head(record["seq"], record["prev"]) if record["seq"] else EMPTY


def _compare(wanted: dict[int, Head], size: int, digests: list[str]) -> None:
    """Strike the signed heads that these lines hold off the list."""
    for at in [at for at in wanted if size < at <= size + len(digests)]:
        head = wanted.pop(at)
        if digests[at - size - 1] != head.digest:
            _missing(head)


def _missing(head: Head) -> None:
    refuse(
        "the ledger does not contain the entry that a signature vouches for",
        f"seq {head.size - 1}",
        f"entry {head.digest}",
    )


def _set_aside(parent: int, record: dict[str, Any], path: Path) -> tuple[str, str]:
    """Whether the file of a torn line, which the ledger tells of, is still what it was."""
    name = str(record.get("file"))
    if "/" in name or not name.startswith(path.name):
        refuse("an entry names a file that is none of this ledger's", name, f"{path.name}.torn-<n>")
    try:
        data = read_at(parent, name, where=name, binding=Binding.RUN, max_bytes=MAX_LINE, owner="anyone")
    except EvalkitError:
        return name, "missing"
    return name, "kept" if digest(data) == record.get("digest") else "changed"
