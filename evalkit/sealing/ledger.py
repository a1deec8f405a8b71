"""The ledger: what a signer set out to do, in order, so that nothing can be left out later.

One line of canonical JSON for each event.  ``seq`` counts from 0, ``prev`` is the digest of the
line before (without its newline), and the first ``prev`` is 64 zeros.  A signed `Head` (size and
digest of the last line) therefore fixes everything before it.  There is one ledger for each signer,
outside every run folder: a ledger inside a run could not tell of the rival plans beside it.

Rules
1. An event is appended under a lock, in one write, and synced before anybody acts on it.
2. A last line without its newline is torn.  The next append moves it to ``<ledger>.torn-<n>`` and
   records that it did; but if a signed head counts that line, it was whole once: that is tampering.
3. Time never runs backwards.  A clock that fell behind the last entry by at most
   `CLOCK_TOLERANCE` (a correction over the network) is recorded as that entry's time; more than
   that is refused, for an earlier time is what a backdated plan would need.
4. An attempt is counted from its first event, whether it ends as committed, lost or abandoned.

Events with ``run_id``, ``phase`` and ``attempt``: ``attempt`` (begun), ``intent``, ``committed``,
``lost``, ``abandoned``.  See docs/formats/ledger.md.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import CanonicalError, canonical_json, digest, load_canonical
from evalkit.sealing.files import (
    OTHERS_MAY_ANYTHING,
    OTHERS_MAY_WRITE,
    check_regular,
    directory,
    locked,
    make_private_directory,
    names_in,
    read_all,
    sync,
    write_all,
    write_new_at,
)
from evalkit.sealing.places import check_run_id

GENESIS = "sha256:" + "0" * 64
CLOCK_TOLERANCE = timedelta(seconds=5)
MAX_LINE = 1024 * 1024
_RESERVED = frozenset(("seq", "prev", "time", "event"))
_EVENT = re.compile(r"[a-z][a-z0-9.-]{0,63}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z")
_STATES = {"attempt": "begun", "intent": "intent", "committed": "committed"} | {
    end: end for end in ("lost", "abandoned")
}


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
        ):
            _refuse("a ledger head is malformed", "ledger head", "size and digest")
        return cls(record["size"], record["digest"])


EMPTY = Head(0, GENESIS)


@dataclass(frozen=True)
class Entry:
    """One event as it stands in the ledger; ``digest`` is that of its line."""

    seq: int
    digest: str
    record: dict[str, Any]

    @property
    def head(self) -> Head:
        """The ledger's head just after this entry."""
        return Head(self.seq + 1, self.digest)


@dataclass(frozen=True)
class Attempt:
    """One numbered attempt at a phase: ``state`` is its latest event, ``document`` what it intends."""

    number: int
    state: str
    document: str | None

    @property
    def is_open(self) -> bool:
        return self.state in ("begun", "intent")


def utc_now() -> datetime:
    return datetime.now(UTC)


class Ledger:
    """The ledger file at ``path``; it is made (0600, in a 0700 folder) by the first append.

    ``signed`` is the newest head that a signature vouches for, if the caller has one.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], datetime] = utc_now, signed: Head | None = None
    ) -> None:
        self.path = Path(path)
        self.clock = clock
        self.signed = signed

    def covered_by(self, signed: Head | None) -> Ledger:
        """The same ledger, with a head that must be in it."""
        return Ledger(self.path, clock=self.clock, signed=signed)

    def append(self, event: str, **fields: Any) -> Entry:
        """Add one event and sync it.  ``seq``, ``prev``, ``time`` and ``event`` are the ledger's own."""
        if not _EVENT.fullmatch(event) or _RESERVED & set(fields):
            raise ValueError(f"not an event, or a reserved field: {event!r} {sorted(fields)}")
        with self._writing() as fd:
            return self._append(fd, event, fields)

    def begin_attempt(self, run_id: str, phase: str, **fields: Any) -> int:
        """Count a new attempt at a phase, before anything is known of its outcome; its number."""
        check_run_id(run_id)
        with self._writing() as fd:
            number = self._next(read_all(fd, os.fstat(fd).st_size), run_id, phase)
            fields = fields | {"run_id": run_id, "phase": phase, "attempt": number}
            self._append(fd, "attempt", fields)
            return number

    def _next(self, data: bytes, run_id: str, phase: str) -> int:
        whole = data[: data.rfind(b"\n") + 1]
        known = attempts_in(verify_chain(whole), run_id, phase)
        return max((attempt.number for attempt in known), default=0) + 1

    def attempts(self, run_id: str, phase: str) -> tuple[Attempt, ...]:
        """Every attempt at a phase of a run, by number, however it ended."""
        return attempts_in((entry.record for entry in self.entries()), run_id, phase)

    def entries(self) -> list[Entry]:
        """All entries, the chain verified; a torn last line that no signed head covers is left out."""
        data = self._whole()
        records = verify_chain(data, covers=self.signed)
        return [
            Entry(record["seq"], digest(line), record)
            for record, line in zip(records, data.split(b"\n")[:-1], strict=True)
        ]

    @property
    def head(self) -> Head:
        """The head of the entries as they stand on disk."""
        lines = self._whole().split(b"\n")[:-1]
        return Head(len(lines), digest(lines[-1])) if lines else EMPTY

    def segment(self, from_size: int) -> bytes:
        """The lines from entry number ``from_size`` on, for the copy in a run folder."""
        lines = self._whole().split(b"\n")[:-1]
        return b"".join(line + b"\n" for line in lines[from_size:])

    def _whole(self) -> bytes:
        """The complete lines of the file."""
        if not os.path.lexists(self.path):
            return b""
        with self._open(os.O_RDONLY) as fd, locked(fd):
            data = read_all(fd, os.fstat(fd).st_size)
        return data[: data.rfind(b"\n") + 1]

    @contextmanager
    def _open(self, flags: int) -> Iterator[int]:
        where = str(self.path)
        with directory(self.path.parent, binding=Binding.RUN, forbidden_mode=OTHERS_MAY_WRITE) as parent:
            try:
                fd = os.open(
                    self.path.name,
                    flags | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK,
                    0o600,
                    dir_fd=parent,
                )
            except OSError as error:
                _refuse(f"the ledger cannot be opened ({error.strerror})", where, "a regular file of yours")
            try:
                found = os.fstat(fd)
                check_regular(found, binding=Binding.RUN, forbidden_mode=OTHERS_MAY_ANYTHING, where=where)
                if flags & os.O_CREAT and found.st_size == 0:
                    sync(parent, str(self.path.parent))
                yield fd
            finally:
                os.close(fd)

    @contextmanager
    def _writing(self) -> Iterator[int]:
        make_private_directory(self.path.parent)
        with self._open(os.O_RDWR | os.O_APPEND | os.O_CREAT) as fd, locked(fd):
            self._quarantine(fd)
            os.lseek(fd, 0, os.SEEK_SET)
            yield fd

    def _append(self, fd: int, event: str, fields: dict[str, Any]) -> Entry:
        last = _last_line(fd)
        before = _parse(last, "the last line") if last else None
        seq = 0 if before is None else before["seq"] + 1
        record = fields | {
            "event": event,
            "prev": digest(last) if last else GENESIS,
            "seq": seq,
            "time": self._time(before),
        }
        line = canonical_json(record, max_bytes=MAX_LINE)
        try:
            write_all(fd, line + b"\n")
        except OSError as error:
            raise EvalkitError(
                f"the ledger could not be written ({error.strerror})",
                where=str(self.path),
                expected="room on the disk",
                do="make room; the torn line is set aside by the next append",
            ) from error
        sync(fd, str(self.path))
        return Entry(seq, digest(line), record)

    def _time(self, before: dict[str, Any] | None) -> str:
        now = self.clock()
        text = _time_text(now)
        last = None if before is None else before.get("time")
        if last is None or text >= last:
            return text
        if now + CLOCK_TOLERANCE < datetime.fromisoformat(last):
            raise EvalkitError(
                f"the clock ({text}) is behind the last entry of the ledger",
                where=str(self.path),
                expected=f"a time from {last} on",
                do="set the clock; a ledger is never backdated",
            )
        return str(last)

    def _quarantine(self, fd: int) -> None:
        """Set a torn last line aside and say so in the ledger (rule 2)."""
        size = os.fstat(fd).st_size
        end = _whole_size(fd, size)
        if self.signed is not None or end != size:
            data = read_all(fd, size) if os.lseek(fd, 0, os.SEEK_SET) == 0 else b""
            if self.signed is not None:
                verify_chain(data[:end], covers=self.signed)
            if end == size:
                return
            torn = data[end:]
            with directory(self.path.parent, binding=Binding.RUN) as parent:
                taken = set(names_in(parent))
                name = next(
                    name for n in range(len(taken) + 1) if (name := f"{self.path.name}.torn-{n}") not in taken
                )
                write_new_at(parent, name, torn, where=str(self.path.with_name(name)))
                sync(parent, str(self.path.parent))
            os.ftruncate(fd, end)
            sync(fd, str(self.path))
            self._append(fd, "torn", {"bytes": len(torn), "digest": digest(torn), "file": name})


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
        _refuse("the last line is torn", "the end of the ledger", "a newline after every entry")
    prev, seq = start_prev, start_seq
    records: list[dict[str, Any]] = []
    time = ""
    covered = covers is None or (covers.size == start_seq and covers.digest == start_prev)
    for line in data.split(b"\n")[:-1]:
        record = _parse(line, f"seq {seq}")
        if record["seq"] != seq or record["prev"] != prev:
            _refuse(
                "the chain breaks: an entry was changed, removed, added or moved here or just before",
                f"seq {seq}",
                f"seq {seq} after {prev}",
            )
        if "time" in record:
            if type(record["time"]) is not str or not _TIME.fullmatch(record["time"]):
                _refuse("an entry's time is malformed", f"seq {seq}", "UTC with microseconds")
            if record["time"] < time:
                _refuse("time runs backwards in the ledger", f"seq {seq}", f"a time from {time} on")
            time = record["time"]
        prev, seq = digest(line), seq + 1
        records.append(record)
        covered = covered or (covers is not None and covers.size == seq and covers.digest == prev)
    if not covered:
        assert covers is not None
        _refuse(
            "the ledger does not contain the entry that a signature vouches for",
            f"seq {covers.size - 1} of {seq} entries",
            f"entry {covers.digest}",
        )
    return records


def attempts_in(records: Iterable[dict[str, Any]], run_id: str, phase: str) -> tuple[Attempt, ...]:
    """The attempts that verified records tell of; see `Ledger.attempts`."""
    found: dict[int, Attempt] = {}
    for record in records:
        state = _STATES.get(record["event"])
        number = record.get("attempt")
        if state and type(number) is int and record.get("run_id") == run_id and record.get("phase") == phase:
            known = found.get(number)
            document = record.get("document") or (known.document if known else None)
            found[number] = Attempt(number, state, document)
    return tuple(found[number] for number in sorted(found))


def _parse(line: bytes, where: str) -> dict[str, Any]:
    try:
        record = load_canonical(line, max_bytes=MAX_LINE)
    except CanonicalError as error:
        _refuse(f"an entry does not parse: {error.what}", where, error.expected)
    if (
        type(record) is not dict
        or type(record.get("seq")) is not int
        or type(record.get("prev")) is not str
        or type(record.get("event")) is not str
    ):
        _refuse("an entry has no seq, prev or event", where, "an object with seq, prev and event")
    return record


def _whole_size(fd: int, size: int) -> int:
    """Where the last complete line ends, found from the end of the file."""
    end = size
    while end > 0:
        start = max(0, end - 65536)
        found = os.pread(fd, end - start, start).rfind(b"\n")
        if found >= 0:
            return start + found + 1
        end = start
    return 0


def _last_line(fd: int) -> bytes:
    size = os.fstat(fd).st_size
    if size == 0:
        return b""
    start = _whole_size(fd, size - 1)
    return os.pread(fd, size - 1 - start, start)


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def _refuse(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.RUN,
        what,
        where=where,
        expected=expected,
        do="restore the ledger from a copy; do not edit it",
    )
