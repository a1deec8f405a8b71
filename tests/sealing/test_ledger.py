"""The ledger: nothing is left out, moved, backdated or quietly dropped."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Head, Ledger, canonical_json, digest, verify_chain
from evalkit.sealing.hash_chain import EMPTY, GENESIS
from evalkit.sealing.ledger import Attempt


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "state" / "ledger.jsonl")


def filled(ledger: Ledger, count: int = 5) -> Ledger:
    for number in range(count):
        ledger.append("note", number=number)
    return ledger


def refused(action: Callable[[], Any], match: str) -> BindingError:
    with pytest.raises(BindingError, match=match) as caught:
        action()
    assert caught.value.binding is Binding.RUN
    assert caught.value.where
    assert caught.value.expected
    return caught.value


# --- vectors -------------------------------------------------------------------------------------


def test_hashchain_vectors(shared_data: Path) -> None:
    folder = shared_data / "sealing" / "evalkit_own" / "hashchain"
    expect = json.loads((folder / "EXPECT.json").read_text())
    data = {path.stem: path.read_bytes() for path in folder.glob("*.jsonl")}
    signed = Head(expect["size"], expect["head"])
    assert expect["genesis_prev"] == GENESIS
    assert len(verify_chain(data["ok"], covers=signed)) == 50
    assert "seq 21" in refused(lambda: verify_chain(data["edited_record_20"]), "chain breaks").where
    assert "seq 20" in refused(lambda: verify_chain(data["deleted_record_20"]), "chain breaks").where
    assert "seq 20" in refused(lambda: verify_chain(data["swapped_20_21"]), "chain breaks").where
    assert len(verify_chain(data["tail_truncated_to_40"])) == 40
    refused(lambda: verify_chain(data["tail_truncated_to_40"], covers=signed), "does not contain the entry")
    verify_chain(data["tail_truncated_to_40"], covers=Head(40, expect["head_at_40"]))
    refused(lambda: verify_chain(data["torn_last_line"]), "torn")
    refused(lambda: verify_chain(data["no_final_newline"]), "torn")


def test_appending_continues_a_vector(shared_data: Path, tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes((shared_data / "sealing/evalkit_own/hashchain/ok.jsonl").read_bytes())
    path.chmod(0o600)
    ledger = Ledger(path)
    entry = ledger.append("note")
    assert entry.seq == 50
    assert entry.head == ledger.head
    assert len(ledger.entries()) == 51


# --- appending -----------------------------------------------------------------------------------


def test_entries_are_canonical_lines_in_a_private_file(ledger: Ledger) -> None:
    assert ledger.head == EMPTY
    assert ledger.entries() == []
    first = ledger.append("note", text="ü")
    second = ledger.append("note")
    assert ledger.path.stat().st_mode & 0o777 == 0o600
    assert ledger.path.parent.stat().st_mode & 0o777 == 0o700
    lines = ledger.path.read_bytes().split(b"\n")
    assert lines[:-1] == [canonical_json(entry.record) for entry in (first, second)]
    assert second.record["prev"] == first.digest == digest(lines[0])
    assert first.record["prev"] == GENESIS
    assert ledger.entries() == [first, second]
    assert ledger.head == Head(2, digest(lines[1])) == second.head
    assert Head.from_record(ledger.head.record()) == ledger.head


@pytest.mark.parametrize("name", ["seq", "prev", "time"])
def test_the_ledgers_own_fields_cannot_be_given(ledger: Ledger, name: str) -> None:
    with pytest.raises(ValueError, match="reserved"):
        ledger.append("note", **{name: 1})
    with pytest.raises(ValueError, match="not an event"):
        ledger.append("Not an event")


def test_processes_append_without_losing_anything(ledger: Ledger) -> None:
    children = []
    for number in range(8):
        pid = os.fork()
        if pid == 0:
            try:
                for _ in range(10):
                    ledger.begin_attempt("r1", "ex-ante", by=number)
                os._exit(0)
            finally:
                os._exit(1)
        children.append(pid)
    assert all(os.waitpid(pid, 0)[1] == 0 for pid in children)
    entries = ledger.entries()
    assert len(entries) == 80
    assert [a.number for a in ledger.attempts("r1", "ex-ante")] == list(range(1, 81))


def test_a_line_that_does_not_fit_is_refused(ledger: Ledger) -> None:
    with pytest.raises(EvalkitError, match="larger"):
        ledger.append("note", text="x" * 2_000_000)
    assert ledger.head == EMPTY


# --- attempts ------------------------------------------------------------------------------------


def test_attempts_count_from_their_first_event_however_they_end(ledger: Ledger) -> None:
    """Abandoned and lost attempts stay in every denominator."""
    assert ledger.begin_attempt("r1", "ex-ante") == 1
    assert ledger.begin_attempt("r1", "ex-ante", model="m") == 2
    assert ledger.begin_attempt("r2", "ex-ante") == 1
    assert ledger.begin_attempt("r1", "reveal") == 1
    ledger.append("intent", run_id="r1", phase="ex-ante", attempt=1, document="sha256:x")
    ledger.append("lost", run_id="r1", phase="ex-ante", attempt=1)
    ledger.append("abandoned", run_id="r1", phase="ex-ante", attempt=2)
    assert ledger.begin_attempt("r1", "ex-ante") == 3
    assert ledger.attempts("r1", "ex-ante") == (
        Attempt(1, "lost", "sha256:x"),
        Attempt(2, "abandoned", None),
        Attempt(3, "begun", None),
    )
    assert [a.is_open for a in ledger.attempts("r1", "ex-ante")] == [False, False, True]
    assert ledger.attempts("r9", "ex-ante") == ()


# --- damage --------------------------------------------------------------------------------------


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_edited_or_reordered_or_cut(data: st.DataObject) -> None:
    """Ledger edited, reordered, or its tail cut: any change shows under a signed head."""
    lines = []
    prev = GENESIS
    for seq in range(6):
        line = canonical_json({"event": "note", "n": seq * 7, "prev": prev, "seq": seq})
        prev = digest(line)
        lines.append(line)
    head = Head(6, prev)
    whole = b"".join(line + b"\n" for line in lines)
    assert len(verify_chain(whole, covers=head)) == 6
    kind = data.draw(st.sampled_from(["flip", "cut", "swap", "drop", "double"]))
    i = data.draw(st.integers(0, 5))
    if kind == "flip":
        at = data.draw(st.integers(0, len(whole) - 1))
        changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    elif kind == "cut":
        changed = whole[: data.draw(st.integers(0, len(whole) - 1))]
    else:
        j = data.draw(st.integers(0, 5).filter(lambda j: j != i))
        new = list(lines)
        if kind == "swap":
            new[i], new[j] = new[j], new[i]
        elif kind == "drop":
            del new[i]
        else:
            new.insert(j, lines[i])
        changed = b"".join(line + b"\n" for line in new)
    refused(lambda: verify_chain(changed, covers=head), ".")


def test_segments_verify_from_where_they_begin(ledger: Ledger) -> None:
    filled(ledger, 3)
    start = ledger.head
    filled(ledger, 4)
    segment = ledger.segment(start.size)
    records = verify_chain(segment, start_prev=start.digest, start_seq=start.size, covers=ledger.head)
    assert [record["seq"] for record in records] == [3, 4, 5, 6]
    verify_chain(segment, start_prev=start.digest, start_seq=3, covers=start)
    verify_chain(b"", start_prev=start.digest, start_seq=3, covers=start)
    refused(lambda: verify_chain(segment), "chain breaks")
    refused(lambda: verify_chain(b"", start_prev=start.digest, start_seq=3, covers=ledger.head), "contain")
    cut = segment[: segment[:-1].rfind(b"\n") + 1]
    refused(
        lambda: verify_chain(cut, start_prev=start.digest, start_seq=3, covers=ledger.head),
        "does not contain",
    )


def test_torn_tail_is_set_aside_and_recorded(ledger: Ledger) -> None:
    filled(ledger, 3)
    whole = ledger.path.read_bytes()
    line_start = whole[:-1].rfind(b"\n") + 1
    for number, cut in enumerate((len(whole) - 1, line_start + 1)):
        ledger.path.write_bytes(whole[:cut])
        assert len(ledger.entries()) == 2
        entry = ledger.append("note", after=True)
        torn = ledger.path.with_name(f"{ledger.path.name}.torn-{number}")
        assert torn.read_bytes() == whole[line_start:cut]
        assert [e.record["event"] for e in ledger.entries()] == ["note", "note", "torn", "note"]
        assert ledger.entries()[2].record["digest"] == digest(torn.read_bytes())
        assert entry.seq == 3


def test_truncation_at_every_length_is_quarantined_or_tampering(ledger: Ledger) -> None:
    filled(ledger, 3)
    whole, head = ledger.path.read_bytes(), ledger.head
    for length in range(len(whole)):
        ledger.path.write_bytes(whole[:length])
        before = ledger.path.read_bytes()
        signed = ledger.covered_by(head)
        refused(lambda signed=signed: signed.append("note"), "does not contain the entry")
        refused(signed.entries, "does not contain the entry")
        assert ledger.path.read_bytes() == before
        assert not list(ledger.path.parent.glob("*.torn-*"))


def test_a_torn_tail_beyond_the_signed_head_is_no_tampering(ledger: Ledger) -> None:
    filled(ledger, 2)
    head = ledger.head
    filled(ledger, 1)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-5])
    ledger.covered_by(head).append("note")
    assert len(list(ledger.path.parent.glob("*.torn-0"))) == 1


def test_a_line_that_the_disk_did_not_confirm_is_taken_back(
    ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the next fsync would be a second try for it, and after a failure that may lie."""
    filled(ledger, 2)
    whole, real = ledger.path.read_bytes(), os.fsync
    failing = [True]

    def fsync(fd: int) -> None:
        if failing:
            raise OSError(5, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    with pytest.raises(EvalkitError, match="did not confirm"):
        ledger.append("note")
    assert ledger.path.read_bytes() == whole
    failing.clear()
    assert ledger.append("note").seq == 2


def test_an_edited_last_line_stops_the_next_append(ledger: Ledger) -> None:
    filled(ledger, 2)
    ledger.path.write_bytes(ledger.path.read_bytes()[:-2] + b"?\n")
    refused(lambda: ledger.append("note"), "does not parse")


# --- clock ---------------------------------------------------------------------------------------


def test_clock_rollback_is_refused_and_a_small_correction_is_not(tmp_path: Path) -> None:
    moment = datetime(2026, 11, 30, 12, tzinfo=UTC)
    now = [moment]
    ledger = Ledger(tmp_path / "ledger.jsonl", clock=lambda: now[0])
    first = ledger.append("note")
    assert first.record["time"] == "2026-11-30T12:00:00.000000Z"
    now[0] = moment - timedelta(seconds=4)
    assert ledger.append("note").record["time"] == first.record["time"]
    now[0] = moment - timedelta(seconds=6)
    with pytest.raises(EvalkitError, match="behind the last entry"):
        ledger.append("note")
    now[0] = moment + timedelta(hours=1)
    assert ledger.append("note").seq == 2
    assert len(ledger.entries()) == 3


def test_backdated_entries_in_a_rebuilt_chain_are_refused() -> None:
    """Precommit after the outcome: a chain that was rebuilt with an earlier time inside."""
    lines, prev = [], GENESIS
    for seq, time in enumerate(("2026-11-30T12:00:00.000000Z", "2026-11-29T12:00:00.000000Z")):
        line = canonical_json({"event": "note", "prev": prev, "seq": seq, "time": time})
        prev = digest(line)
        lines.append(line)
    refused(lambda: verify_chain(b"\n".join(lines) + b"\n"), "time runs backwards")


# --- the file ------------------------------------------------------------------------------------


def _symlink(path: Path) -> None:
    path.rename(path.with_name("real"))
    path.symlink_to("real")


def _hard_link(path: Path) -> None:
    os.link(path, path.with_name("second"))


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path, 0o600)


def _loose(path: Path) -> None:
    path.chmod(0o604)


def _loose_folder(path: Path) -> None:
    path.parent.chmod(0o720)


@pytest.mark.parametrize("spoil", [_symlink, _hard_link, _fifo, _loose, _loose_folder])
def test_ledgers_that_others_could_write_are_refused(ledger: Ledger, spoil: Callable[[Path], None]) -> None:
    """Symlinked file, hard link kept, FIFO as file."""
    filled(ledger, 1)
    spoil(ledger.path)
    refused(lambda: ledger.append("note"), ".")
    refused(ledger.entries, ".")


@pytest.mark.parametrize(
    "record",
    [
        None,
        {"size": 1},
        {"size": -1, "digest": GENESIS},
        {"size": 1, "digest": "x"},
        {"size": 0, "digest": "sha256:" + "1" * 64},
    ],
)
def test_malformed_heads(record: Any) -> None:
    refused(lambda: Head.from_record(record), "malformed")


def test_an_empty_head_is_well_formed() -> None:
    assert Head.from_record(EMPTY.record()) == EMPTY


# --- what does not show in the file's times ------------------------------------------------------


@pytest.fixture
def mapped(ledger: Ledger) -> Iterator[tuple[Ledger, mmap.mmap]]:
    """A ledger whose file is mapped, and verified after the page was made dirty: no later write shows."""
    filled(ledger, 3)
    with ledger.path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as memory:
        memory[:1] = memory[:1]
        assert len(ledger.entries()) == 3
        yield ledger, memory


def forge(memory: mmap.mmap, number: int) -> None:
    at = memory.find(b'"number":%d' % number) + 9
    memory[at : at + 1] = b"7"


def test_a_segment_is_what_was_verified(mapped: tuple[Ledger, mmap.mmap]) -> None:
    ledger, memory = mapped
    whole = ledger.segment(0)
    assert verify_chain(whole) == [entry.record for entry in ledger.entries()]
    forge(memory, 1)
    assert len(ledger.entries()) == 3, "the system tells of this write: the test shows nothing"
    assert ledger.segment(2) == whole.splitlines(keepends=True)[2]  # what was changed is not in it
    assert "seq 1 on" in refused(lambda: ledger.segment(1), "changed after it was verified").where
    # what was verified is forgotten
    refused(lambda: ledger.segment(0), "chain breaks")


@pytest.mark.parametrize("number", [1, 2])
def test_nothing_is_appended_to_a_line_that_was_changed(
    mapped: tuple[Ledger, mmap.mmap], number: int
) -> None:
    ledger, memory = mapped
    before = ledger.path.stat().st_size
    forge(memory, number)
    if number == 2:
        refused(lambda: ledger.append("note"), "changed after it was verified")
        assert ledger.path.stat().st_size == before
    else:  # the chain shows it to every reader
        ledger.append("note")
        refused(Ledger(ledger.path).entries, "chain breaks")


# --- times ---------------------------------------------------------------------------------------

BAD_TIMES = [
    *("2026-12-99T12:00:00.000000Z", "2026-13-01T12:00:00.000000Z", "2026-02-29T12:00:00.000000Z"),
    *("2026-04-31T12:00:00.000000Z", "2026-12-01T24:00:00.000000Z", "2026-12-01T12:60:00.000000Z"),
    *("2026-12-01T12:00:60.000000Z", "2026-00-01T12:00:00.000000Z", "0000-12-01T12:00:00.000000Z"),
    *("2026-12-99T99:99:99.999999Z", "2026-12-01T12:00:00Z", "", "x"),
]


@pytest.mark.parametrize("time", BAD_TIMES)
@pytest.mark.parametrize("alone", [True, False])
def test_only_moments_that_exist(time: str, alone: bool) -> None:
    lines, last = [], GENESIS
    for seq, moment in enumerate([time] if alone else ["2020-02-29T23:59:59.999999Z", time]):
        line = canonical_json({"event": "note", "prev": last, "seq": seq, "time": moment})
        lines.append(line)
        last = digest(line)
    data = b"\n".join(lines) + b"\n"
    assert f"seq {len(lines) - 1}" in refused(lambda: verify_chain(data), "malformed").where


@pytest.mark.parametrize("time", [*BAD_TIMES, 5, None, [], {}])
def test_a_last_line_with_a_bad_time_stops_the_next_append(ledger: Ledger, time: Any) -> None:
    line = canonical_json({"event": "note", "prev": GENESIS, "seq": 0, "time": time}) + b"\n"
    ledger.path.parent.mkdir(mode=0o700)
    ledger.path.write_bytes(line)
    ledger.path.chmod(0o600)
    assert "last line" in refused(lambda: ledger.append("note"), "time of the last entry is malformed").where
    assert ledger.path.read_bytes() == line
