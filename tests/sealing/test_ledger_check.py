"""`evalkit ledger verify`: a whole file is checked, in pieces, by its owner or by anybody with a copy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import Binding, BindingError
from evalkit.sealing import Head, Ledger, canonical_json
from evalkit.sealing.hash_chain import EMPTY, GENESIS
from evalkit.sealing.ledger import Attempt
from evalkit.sealing.ledger_check import _READ, check_ledger


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    made = Ledger(tmp_path / "state" / "ledger.jsonl")
    made.append("precommit", run_id="r1")
    made.begin_attempt("r1", "ex-ante")
    made.append("abandoned", run_id="r1", phase="ex-ante", attempt=1)
    made.begin_attempt("r1", "ex-ante")
    return made


def refused(match: str, path: Path, *heads: Head) -> BindingError:
    with pytest.raises(BindingError, match=match) as caught:
        check_ledger(path, covers={"a test": heads}, segment=path.name == "journal.jsonl")
    assert caught.value.binding is Binding.RUN
    return caught.value


def test_a_whole_ledger(ledger: Ledger) -> None:
    heads = [entry.head for entry in ledger.entries()]
    found = check_ledger(ledger.path, covers={"a test": heads})
    assert found.head == ledger.head == heads[-1]
    assert found.start == EMPTY
    assert found.events == {"abandoned": 1, "attempt": 2, "precommit": 1}
    assert found.runs == {("r1", "ex-ante"): (Attempt(1, "abandoned", None), Attempt(2, "begun", None))}
    assert found.first_time <= found.last_time
    assert found.torn == 0
    summary = found.summary()
    assert summary["entries"] == 4
    assert summary["head"] == ledger.head.record()


def test_an_empty_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"")
    assert check_ledger(path, covers={"a test": [EMPTY]}).head == EMPTY
    refused("does not contain", path, Head(1, "sha256:" + "1" * 64))


def test_a_journal_begins_in_the_middle(ledger: Ledger, tmp_path: Path) -> None:
    heads = [entry.head for entry in ledger.entries()]
    journal = tmp_path / "journal.jsonl"
    journal.write_bytes(ledger.segment(2))
    found = check_ledger(journal, covers={"a test": heads[1:]}, segment=True)
    assert found.start == heads[1]
    assert found.summary()["entries"] == 2
    refused("does not contain", journal, heads[0])
    refused("does not contain", journal, Head(2, "sha256:" + "1" * 64))
    journal.rename(tmp_path / "ledger.jsonl")
    refused("what came before it is gone", tmp_path / "ledger.jsonl")


def test_two_heads_of_one_size_are_both_demanded(ledger: Ledger) -> None:
    """Two runs, signed on two copies of a ledger: it cannot hold both."""
    (head,) = [entry.head for entry in ledger.entries()][1:2]
    other = Head(head.size, "sha256:" + "1" * 64)
    refused("does not contain", ledger.path, head, other)
    refused("does not contain", ledger.path, other, head)


def test_a_tail_cut_at_the_end_of_a_line_shows_under_a_signed_head_only(ledger: Ledger) -> None:
    head = ledger.head
    lines = ledger.path.read_bytes().splitlines(keepends=True)
    ledger.path.write_bytes(b"".join(lines[:-1]))
    assert check_ledger(ledger.path).head.size == 3
    assert "seq 3" in refused("does not contain", ledger.path, head).where


def test_a_torn_last_line_is_told_and_no_error(ledger: Ledger) -> None:
    ledger.path.write_bytes(ledger.path.read_bytes()[:-5])
    found = check_ledger(ledger.path)
    assert found.torn > 0
    assert found.head.size == 3
    ledger.append("note")
    after = check_ledger(ledger.path)
    assert after.torn == 0
    assert after.set_aside == (("ledger.jsonl.torn-0", "kept"),)
    aside = ledger.path.with_name("ledger.jsonl.torn-0")
    aside.write_bytes(b"x")
    assert check_ledger(ledger.path).set_aside == (("ledger.jsonl.torn-0", "changed"),)
    aside.unlink()
    assert check_ledger(ledger.path).set_aside == (("ledger.jsonl.torn-0", "missing"),)


@pytest.mark.parametrize("kind", ["elsewhere", "no name"])
def test_a_torn_line_of_another_file_is_refused(ledger: Ledger, kind: str) -> None:
    name = {"elsewhere": "../../etc/passwd", "no name": f"{ledger.path.name}.torn-0\0"}[kind]
    ledger.append("torn", bytes=1, digest="sha256:x", file=name)
    refused("none of this ledger's", ledger.path)


def test_lines_across_the_pieces_that_are_read(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "state" / "ledger.jsonl")
    for number in range(9):
        ledger.append("note", text="x" * (_READ // 4), number=number)
    assert ledger.path.stat().st_size > 2 * _READ
    found = check_ledger(ledger.path, covers={"a test": [entry.head for entry in ledger.entries()]})
    assert found.head == ledger.head
    data = bytearray(ledger.path.read_bytes())
    data[_READ + 5] ^= 1
    ledger.path.write_bytes(data)
    refused("chain breaks|parse", ledger.path)


def test_a_line_without_end_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(b"x" * (3 * _READ))
    refused("too long", path)


@given(data=st.data())
@settings(max_examples=200, deadline=None)
def test_any_changed_byte_shows_under_the_signed_head(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("ledger")
    ledger = Ledger(folder / "state" / "ledger.jsonl")
    for number in range(3):
        ledger.append("note", number=number)
    whole, head = ledger.path.read_bytes(), ledger.head
    at = data.draw(st.integers(0, len(whole) - 1))
    changed = whole[:at] + bytes([whole[at] ^ data.draw(st.integers(1, 255))]) + whole[at + 1 :]
    ledger.path.write_bytes(changed)
    refused(".", ledger.path, head)


@pytest.mark.parametrize("spoil", ["symlink", "hard link", "fifo", "folder", "missing"])
def test_what_is_no_plain_file_is_refused(ledger: Ledger, spoil: str) -> None:
    path = ledger.path
    real = path.rename(path.with_name("real"))
    actions: dict[str, Callable[[], object]] = {
        "symlink": lambda: path.symlink_to(real),
        "hard link": lambda: os.link(real, path),
        "fifo": lambda: os.mkfifo(path),
        "folder": lambda: path.mkdir(),
        "missing": lambda: None,
    }
    actions[spoil]()
    refused(".", path)


def test_a_copy_that_others_may_read_and_write_is_checked_all_the_same(ledger: Ledger) -> None:
    """A third party's copy has her modes; what counts is the chain and the signed heads."""
    ledger.path.chmod(0o666)
    assert check_ledger(ledger.path).head.size == 4


def test_every_way_an_attempt_may_end(ledger: Ledger) -> None:
    document = "sha256:" + "0" * 64
    for attempt, events in enumerate((["intent"], ["intent", "lost"], ["intent", "committed"]), start=3):
        for event in events:
            ledger.append(event, run_id="r1", phase="ex-ante", attempt=attempt, document=document)
    ledger.begin_attempt("r2", "reveal")
    found = check_ledger(ledger.path)
    assert found.runs == {
        ("r1", "ex-ante"): (
            Attempt(1, "abandoned", None),
            Attempt(2, "begun", None),
            Attempt(3, "intent", document),
            Attempt(4, "lost", document),
            Attempt(5, "committed", document),
        ),
        ("r2", "reveal"): (Attempt(1, "begun", None),),
    }
    assert found.summary()["attempts"][-1] == {
        "run_id": "r2",
        "phase": "reveal",
        "attempt": 1,
        "state": "begun",
    }
    assert "r2" not in repr(found)  # which may be long


def test_a_chain_without_times_has_none(tmp_path: Path) -> None:
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(canonical_json({"event": "note", "prev": GENESIS, "seq": 0}) + b"\n")
    found = check_ledger(path)
    assert (found.first_time, found.last_time) == ("", "")
    assert found.summary()["first_time"] is None
    assert found.summary()["last_time"] is None
