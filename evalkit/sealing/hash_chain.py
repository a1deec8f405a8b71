"""A hash chain of canonical JSON lines, and how it is checked.

``seq`` counts from 0, ``prev`` is the digest of the line before (without its newline), and the first
``prev`` is 64 zeros.  A signed `Head` (size and digest of the last line) therefore fixes everything
before it.  ``time``, where an entry has one, never runs backwards.

Lines are checked in batches: together first, which is fast, and one by one only where something is
wrong, to say what and where.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from hashlib import sha256
from operator import itemgetter
from typing import Any, NamedTuple, NoReturn

from evalkit.errors import Binding, BindingError
from evalkit.sealing.canonical import CanonicalError, canonical_values, digest, load_canonical

GENESIS = "sha256:" + "0" * 64
MAX_LINE = 1024 * 1024
BATCH = 1024
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
TIME_EXPECTED = "UTC with microseconds"
_TIME_PATTERN = r"\d{4}-\d{2}-\d{2}T(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d\.\d{6}Z"
_DAY_LENGTH = 10
_TIME = re.compile(_TIME_PATTERN, re.ASCII)
_TIMES = re.compile(f"(?:{_TIME_PATTERN})*", re.ASCII)
_TIME_LENGTH = 27
_INT, _STR = frozenset((int,)), frozenset((str,))


@dataclass(frozen=True)
class Head:
    """How many entries there are, and the digest of the last one's line."""

    size: int
    digest: str

    def record(self) -> dict[str, Any]:
        return {"size": self.size, "digest": self.digest}

    @classmethod
    def from_record(cls, record: Any) -> Head:
        """The head in an attestation; `BindingError` ``run`` where it is malformed."""
        if (
            type(record) is not dict
            or set(record) != {"size", "digest"}
            or type(record["size"]) is not int
            or record["size"] < 0
            or type(record["digest"]) is not str
            or not _DIGEST.fullmatch(record["digest"])
            or (record["size"] == 0 and record["digest"] != GENESIS)
        ):
            refuse("a ledger head is malformed", "ledger head", "size and digest")
        return cls(record["size"], record["digest"])


EMPTY = Head(0, GENESIS)


class Entry(NamedTuple):
    """One event as it stands in the chain; ``digest`` is that of its line."""

    seq: int
    digest: str
    record: dict[str, Any]

    @property
    def head(self) -> Head:
        """The chain's head just after this entry."""
        return Head(self.seq + 1, self.digest)


class Chain:
    """Checks lines that follow on a known head; ``head`` and ``time`` are those of the last one."""

    def __init__(self, start: Head = EMPTY) -> None:
        self.head = start
        self.time = ""

    def feed(self, lines: list[bytes]) -> tuple[list[str], list[dict[str, Any]]]:
        """(digests, records) of the next lines (without newlines).

        Raises `BindingError` ``run`` naming the seq of the first line that is wrong.
        """
        return self._together(lines) or self._one_by_one(lines)

    def _together(self, lines: list[bytes]) -> tuple[list[str], list[dict[str, Any]]] | None:
        """The same, or None where a line may be wrong."""
        records = canonical_values(lines, max_bytes=MAX_LINE)
        if not records:
            return None
        digests = ["sha256:" + sha256(line).hexdigest() for line in lines]
        size = self.head.size
        try:
            seqs, prevs, events = (list(map(itemgetter(name), records)) for name in ("seq", "prev", "event"))
            times = [record["time"] for record in records if "time" in record]
        except (KeyError, TypeError):
            return None
        if (
            not _INT.issuperset(map(type, seqs))
            or seqs != list(range(size, size + len(seqs)))
            or prevs != [self.head.digest, *digests[:-1]]
            or not _STR.issuperset(map(type, events))
            or not _STR.issuperset(map(type, times))
        ):
            return None
        if times:
            if {_TIME_LENGTH} != set(map(len, times)) or not _TIMES.fullmatch("".join(times)):
                return None
            if times[0] < self.time or times != sorted(times):
                return None
            # there are few days in a batch, so they are looked at one by one
            if not all(map(_is_day, {time[:_DAY_LENGTH] for time in times})):
                return None
            self.time = times[-1]
        self.head = Head(size + len(seqs), digests[-1])
        return digests, records

    def _one_by_one(self, lines: list[bytes]) -> tuple[list[str], list[dict[str, Any]]]:
        entries = [self._one(line) for line in lines]
        return [entry.digest for entry in entries], [entry.record for entry in entries]

    def _one(self, line: bytes) -> Entry:
        seq = self.head.size
        record = parse_line(line, f"seq {seq}")
        if record["seq"] != seq or record["prev"] != self.head.digest:
            refuse(
                "the chain breaks: an entry was changed, removed, added or moved here or just before",
                f"seq {seq}",
                f"seq {seq} after {self.head.digest}",
            )
        if "time" in record:
            if not is_time(record["time"]):
                refuse("an entry's time is malformed", f"seq {seq}", TIME_EXPECTED)
            if record["time"] < self.time:
                refuse("time runs backwards in the ledger", f"seq {seq}", f"a time from {self.time} on")
            self.time = record["time"]
        entry = Entry(seq, digest(line), record)
        self.head = entry.head
        return entry


def is_time(value: Any) -> bool:
    """Whether this is a moment as entries have it: UTC with microseconds, of a day that exists."""
    return type(value) is str and _TIME.fullmatch(value) is not None and _is_day(value[:_DAY_LENGTH])


def _is_day(text: str) -> bool:
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def verify_chain(
    data: bytes,
    *,
    start_prev: str = GENESIS,
    start_seq: int = 0,
    covers: Head | None = None,
) -> list[dict[str, Any]]:
    """The records of a whole chain or of a segment of it, each checked against the one before.

    ``covers`` is a signed head: the entry that it names must be in ``data`` (or be the one just
    before it), so that a tail that was cut off shows.  Raises `BindingError` ``run`` naming the seq.
    """
    if data and not data.endswith(b"\n"):
        refuse("the last line is torn", "the end of the ledger", "a newline after every entry")
    start = Head(start_seq, start_prev)
    chain = Chain(start)
    digests: list[str] = []
    records: list[dict[str, Any]] = []
    lines = data.split(b"\n")[:-1]
    for at in range(0, len(lines), BATCH):
        more = chain.feed(lines[at : at + BATCH])
        digests += more[0]
        records += more[1]
    if covers is not None:
        check_covers(covers, start, digests)
    return records


def check_covers(signed: Head, start: Head, digests: Sequence[str]) -> None:
    """Refuse lines (of these digests, after ``start``) without the one that a signature vouches for."""
    at = signed.size - start.size
    found = start.digest if at == 0 else digests[at - 1] if 0 < at <= len(digests) else None
    if found != signed.digest:
        refuse(
            "the ledger does not contain the entry that a signature vouches for",
            f"seq {signed.size - 1} of {start.size + len(digests)} entries",
            f"entry {signed.digest}",
        )


def parse_line(line: bytes, where: str) -> dict[str, Any]:
    """The record of one line, which may follow on anything."""
    try:
        record = load_canonical(line, max_bytes=MAX_LINE)
    except CanonicalError as error:
        refuse(f"an entry does not parse: {error.what}", where, error.expected)
    if (
        type(record) is not dict
        or type(record.get("seq")) is not int
        or type(record.get("prev")) is not str
        or type(record.get("event")) is not str
    ):
        refuse("an entry has no seq, prev or event", where, "an object with seq, prev and event")
    return record


def refuse(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.RUN,
        what,
        where=where,
        expected=expected,
        do="keep a copy of the ledger, then find out who changed it",
    )
