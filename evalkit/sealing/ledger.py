"""The ledger: what a signer set out to do, in order, so that nothing can be left out later.

One line of canonical JSON for each event, in a hash chain (`evalkit.sealing.hash_chain`), so that a
signed `Head` fixes everything before it.  There is one ledger for each signer, outside every run
folder: a ledger inside a run could not tell of the rival plans beside it.

Rules
1. An event is appended under a lock, in one write, and synced before anybody acts on it.
2. A last line without its newline is torn.  The next append moves it to ``<ledger>.torn-<n>`` and
   records that it did; but if a signed head counts that line, it was whole once: that is tampering.
3. Time never runs backwards.  A clock that fell behind the last entry by at most
   `CLOCK_TOLERANCE` (a correction over the network) is recorded as that entry's time; more than
   that is refused, for an earlier time is what a backdated plan would need.
4. An attempt is counted from its first event, whether it ends as committed, lost or abandoned.
5. A plan is never edited.  Another one may supersede it as long as nothing came of it: both stay, and
   the first begins no attempt any more.

Events with ``run_id``, ``phase`` and ``attempt``: ``attempt`` (begun), ``intent``, ``committed``,
``lost``, ``abandoned``; with ``run_id`` and ``by``: ``superseded``.  See docs/formats/ledger.md.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import Binding, Blocked, EvalkitError
from evalkit.sealing.canonical import canonical_json, digest
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
from evalkit.sealing.hash_chain import (
    EMPTY,
    GENESIS,
    MAX_LINE,
    TIME_EXPECTED,
    Chain,
    Entry,
    Head,
    check_covers,
    is_time,
    parse_line,
    refuse,
)
from evalkit.sealing.places import check_run_id

CLOCK_TOLERANCE = timedelta(seconds=5)
_READ = 1024 * 1024
_RESERVED = frozenset(("seq", "prev", "time", "event"))
_EVENT = re.compile(r"[a-z][a-z0-9.-]{0,63}")
_STATES = {"attempt": "begun", "intent": "intent", "committed": "committed"} | {
    end: end for end in ("lost", "abandoned")
}


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


class _Verified:
    """What was read and verified of a ledger file, and how the file looked then."""

    def __init__(self) -> None:
        self.chain = Chain()
        self.digests: list[str] = []
        self.records: list[dict[str, Any]] = []
        self.ends: list[int] = []
        self.look: tuple[int, ...] = ()

    def add(self, lines: list[bytes]) -> None:
        digests, records = self.chain.feed(lines)
        self.digests += digests
        self.records += records
        end = self.ends[-1] if self.ends else 0
        for line in lines:
            end += len(line) + 1
            self.ends.append(end)


def _look(fd: int) -> tuple[int, ...]:
    """What of an open file changes when anybody writes to it by a system call."""
    found = os.fstat(fd)
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns


class Ledger:
    """The ledger file at ``path``; it is made (0600, in a 0700 folder) by the first append.

    ``signed`` is the newest head that a signature vouches for, if the caller has one.  What was verified
    is not read again as long as the file looks the same.  A write through a mapping need not show, so what
    goes out of the file or is built upon is compared with what was verified.
    """

    def __init__(
        self, path: Path, *, clock: Callable[[], datetime] = utc_now, signed: Head | None = None
    ) -> None:
        self.path = Path(path)
        self.clock = clock
        self.signed = signed
        self._verified: _Verified | None = None

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
            records = self._read(fd).records
            refuse_superseded(records, run_id)
            known = attempts_in(records, run_id, phase)
            number = max((attempt.number for attempt in known), default=0) + 1
            fields = fields | {"run_id": run_id, "phase": phase, "attempt": number}
            self._append(fd, "attempt", fields)
            return number

    def supersede(self, run_id: str, *, by: str, attempts: int, **fields: Any) -> Entry:
        """Record that the plan of a run gives way to that of the run ``by`` (rule 5).

        ``attempts`` is how many the caller knows to have been begun, in all phases.  Raises `Blocked` where
        there are more meanwhile, where one was committed, and where the plan is superseded already.
        """
        check_run_id(run_id)
        check_run_id(by)
        with self._writing() as fd:
            records = self._read(fd).records
            refuse_superseded(records, run_id)
            if attempts_of_run(records, run_id) != attempts:
                raise Blocked(
                    "another attempt at the plan that is to be superseded was begun meanwhile",
                    where=f"{self.path}: {run_id}",
                    expected=f"{attempts} attempts",
                    do="try again: the new plan states how many there were",
                )
            return self._append(fd, "superseded", fields | {"run_id": run_id, "by": by, "attempts": attempts})

    def attempts(self, run_id: str, phase: str) -> tuple[Attempt, ...]:
        """Every attempt at a phase of a run, by number, however it ended."""
        with self._reading() as fd:
            return () if fd is None else attempts_in(self._read(fd).records, run_id, phase)

    def entries(self) -> list[Entry]:
        """All entries, the chain verified; a torn last line that no signed head covers is left out."""
        with self._reading() as fd:
            if fd is None:
                return []
            known = self._read(fd)
            return list(map(Entry, range(len(known.records)), known.digests, known.records))

    @property
    def head(self) -> Head:
        """The head of the entries as they stand on disk, the chain verified."""
        with self._reading() as fd:
            return EMPTY if fd is None else self._read(fd).chain.head

    def segment(self, from_size: int) -> bytes:
        """The lines from entry number ``from_size`` on, for the copy in a run folder."""
        with self._reading() as fd:
            if fd is None:
                return b""
            known = self._read(fd)
            ends = [0, *known.ends]
            first = min(from_size, len(known.ends))
            os.lseek(fd, ends[first], os.SEEK_SET)
            data = read_all(fd, ends[-1] - ends[first])
            if list(map(digest, data.split(b"\n")[:-1])) != known.digests[first:]:
                self._refuse_changed(f"an entry from seq {first} on")
            return data

    def _read(self, fd: int) -> _Verified:
        """The whole lines of the open and locked file, verified."""
        look = _look(fd)
        known = self._verified
        if known is None or known.look != look:
            self._verified = None
            known = _Verified()
            rest = b""
            os.lseek(fd, 0, os.SEEK_SET)
            while part := os.read(fd, _READ):
                *lines, rest = (rest + part).split(b"\n")
                known.add(lines)
                if len(rest) > MAX_LINE:
                    refuse("a line is too long", f"seq {len(known.records)}", f"at most {MAX_LINE} bytes")
            known.look = look
        if self.signed is not None:
            check_covers(self.signed, EMPTY, known.digests)
        self._verified = known
        return known

    @contextmanager
    def _reading(self) -> Iterator[int | None]:
        """The open and locked file, or None where there is none yet."""
        if not os.path.lexists(self.path):
            if self.signed is not None:
                check_covers(self.signed, EMPTY, [])
            yield None
            return
        with self._open(os.O_RDONLY) as fd, locked(fd):
            yield fd

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
                refuse(f"the ledger cannot be opened ({error.strerror})", where, "a regular file of yours")
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
            yield fd

    def _append(self, fd: int, event: str, fields: dict[str, Any]) -> Entry:
        last = _last_line(fd)
        known = self._verified
        untouched = known is not None and known.look == _look(fd)
        if known is not None and untouched and known.chain.head.digest != (digest(last) if last else GENESIS):
            self._refuse_changed("the last line")
        before = parse_line(last, "the last line") if last else None
        seq = 0 if before is None else before["seq"] + 1
        record = fields | {
            "event": event,
            "prev": digest(last) if last else GENESIS,
            "seq": seq,
            "time": self._time(before),
        }
        line = canonical_json(record, max_bytes=MAX_LINE)
        end = os.fstat(fd).st_size
        try:
            write_all(fd, line + b"\n")
        except OSError as error:
            raise EvalkitError(
                f"the ledger could not be written ({error.strerror})",
                where=str(self.path),
                expected="room on the disk",
                do="make room; the torn line is set aside by the next append",
            ) from error
        try:
            sync(fd, str(self.path))
        except EvalkitError:
            # What the disk did not confirm is taken back: the next append must not sync it again and
            # believe an answer that may be for less than this line.
            with contextlib.suppress(OSError):
                os.ftruncate(fd, end)
            raise
        if known is not None and untouched:
            known.add([line])
            known.look = _look(fd)
        return Entry(seq, digest(line), record)

    def _time(self, before: dict[str, Any] | None) -> str:
        now = self.clock()
        text = _time_text(now)
        if before is None or "time" not in before:
            return text
        last = before["time"]
        if not is_time(last):
            refuse("the time of the last entry is malformed", f"{self.path}: the last line", TIME_EXPECTED)
        if text >= last:
            return text
        if now + CLOCK_TOLERANCE < datetime.fromisoformat(last):
            raise EvalkitError(
                f"the clock ({text}) is behind the last entry of the ledger",
                where=str(self.path),
                expected=f"a time from {last} on",
                do="set the clock; a ledger is never backdated",
            )
        return str(last)

    def _refuse_changed(self, where: str) -> NoReturn:
        self._verified = None
        refuse("the ledger changed after it was verified", f"{self.path}: {where}", "what was verified")

    def _quarantine(self, fd: int) -> None:
        """Set a torn last line aside and say so in the ledger (rule 2)."""
        if self.signed is not None:
            self._read(fd)
        size = os.fstat(fd).st_size
        end = _whole_size(fd, size)
        if end == size:
            return
        torn = os.pread(fd, size - end, end)
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


def require_intent(
    records: Iterable[dict[str, Any]], signed: Head, *, run_id: str, phase: str, attempt: int, document: str
) -> dict[str, Any]:
    """The entry at the head that an attestation signed: the intent to sign this very document.

    Raises `BindingError` ``run``: a signature over any other entry would leave out what stands between it
    and the intent.
    """
    found = next((r for r in records if r["seq"] == signed.size - 1), {})
    wanted = {"event": "intent", "run_id": run_id, "phase": phase, "attempt": attempt, "document": document}
    if any(type(found.get(k)) is not type(v) or found[k] != v for k, v in wanted.items()):
        refuse(
            "the entry that was signed is not the intent to sign this document",
            f"seq {signed.size - 1}",
            f"intent of attempt {attempt} at {phase} of run {run_id}, document {document}",
        )
    return found


def attempts_of_run(records: Iterable[dict[str, Any]], run_id: str) -> int:
    """How many attempts at any phase of a run verified records tell of."""
    return sum(r["event"] == "attempt" and r.get("run_id") == run_id for r in records)


def refuse_superseded(records: Iterable[dict[str, Any]], run_id: str) -> None:
    """Raise `Blocked` where verified records say that another plan has taken the place of this run's."""
    for record in records:
        if record["event"] == "superseded" and record.get("run_id") == run_id:
            raise Blocked(
                f"the plan of this run was superseded by that of run {record.get('by')}",
                where=run_id,
                expected="a plan that still stands",
                do="go on with the other run, or make a new plan; this one stays in the ledger as it is",
            )


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
