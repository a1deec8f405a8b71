"""Reading and recovering a run that somebody has been at: refused, and nothing is touched."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import Binding, BindingError
from evalkit.sealing import Recovered, canonical_json, digest, read_phase, sign

from .conftest import EX_ANTE, RUN_ID, World, names
from .test_commit import killed, whole


def tampered(world: World, binding: Binding = Binding.RUN, match: str = ".", **other: Any) -> None:
    """Recovery refuses, and nothing in the run or the ledger has changed."""
    before = world.snapshot()
    with pytest.raises(BindingError, match=match) as caught:
        world.recover(**other)
    assert caught.value.binding is binding, caught.value
    assert caught.value.where
    assert caught.value.do
    assert world.snapshot() == before


def unreadable(world: World, binding: Binding = Binding.RUN, match: str = ".") -> None:
    with pytest.raises(BindingError, match=match) as caught:
        read_phase(world.run_dir, "ex-ante", "run.json")
    assert caught.value.binding is binding, caught.value
    assert caught.value.where


def stage(world: World) -> Path:
    (found,) = world.run_dir.glob(".stage.ex-ante.*")
    return found


# --- a committed phase ---------------------------------------------------------------------------


def _extra_file(phase: Path) -> None:
    (phase / "extra").touch()


def _hidden_file(phase: Path) -> None:
    (phase / ".hidden").touch()


def _document_missing(phase: Path) -> None:
    (phase / "run.json").unlink()


def _symlinked_file(phase: Path) -> None:
    (phase / "run.json").rename(phase.parent.parent / "elsewhere")
    (phase / "run.json").symlink_to(phase.parent.parent / "elsewhere")


def _hard_link_kept(phase: Path) -> None:
    os.link(phase / "run.json", phase.parent.parent / "kept")


def _fifo(phase: Path) -> None:
    (phase / "run.json").unlink()
    os.mkfifo(phase / "run.json", 0o600)


def _folder_as_file(phase: Path) -> None:
    (phase / "run.json").unlink()
    (phase / "run.json").mkdir()


def _writable_file(phase: Path) -> None:
    (phase / "run.json").chmod(0o660)


def _symlinked_phase(phase: Path) -> None:
    phase.rename(phase.parent.parent / "elsewhere")
    phase.symlink_to(phase.parent.parent / "elsewhere")


def _open_phase(phase: Path) -> None:
    phase.chmod(0o755)


@pytest.mark.parametrize(
    "spoil",
    [
        _extra_file,
        _hidden_file,
        _document_missing,
        _symlinked_file,
        _hard_link_kept,
        _fifo,
        _folder_as_file,
        _symlinked_phase,
    ],
)
def test_a_phase_with_a_bad_entry_is_refused(world: World, spoil: Callable[[Path], None]) -> None:
    """Symlinked file, hard link kept, FIFO as file, extra and missing entries."""
    spoil(world.commit().directory)
    unreadable(world)
    tampered(world)


@pytest.mark.parametrize("spoil", [_writable_file, _open_phase])
def test_open_modes_stop_the_owner_and_not_a_reader(world: World, spoil: Callable[[Path], None]) -> None:
    """Whoever writes a run must hold it alone; who only reads it verifies every byte by a signature."""
    spoil(world.commit().directory)
    document, _ = read_phase(world.run_dir, "ex-ante", "run.json")
    assert document
    tampered(world)


def test_device_as_file_is_refused(world: World) -> None:
    phase = world.commit().directory
    (phase / "run.json").unlink()
    try:
        os.mknod(phase / "run.json", 0o020600, os.makedev(1, 5))
    except OSError:
        pytest.skip("devices cannot be made here")
    unreadable(world, match="not a regular file")


def test_a_missing_envelope_is_an_attestation_error(world: World) -> None:
    (world.commit().directory / "run.dsse.json").unlink()
    unreadable(world, Binding.ATTESTATION, "attestation is missing")
    tampered(world, Binding.ATTESTATION, "attestation is missing")


def test_a_phase_that_is_gone(world: World) -> None:
    shutil.rmtree(world.commit().directory)
    unreadable(world, match="not committed")
    tampered(world, match="it is gone")
    with pytest.raises(BindingError, match="folder is gone"):
        world.commit(attempt=2)


def test_more_files_must_be_named(world: World) -> None:
    phase = world.commit().directory
    (phase / "packet.bin").touch()
    read_phase(world.run_dir, "ex-ante", "run.json", also=["packet.bin"])
    unreadable(world)


def test_replace_after_commit(world: World) -> None:
    (world.commit().directory / "run.json").write_bytes(canonical_json({"score": 9}))
    tampered(world, Binding.ATTESTATION, "not the one that was signed")


def test_truncation_at_every_length_of_both_files(world: World) -> None:
    phase = world.commit().directory
    for name in ("run.json", "run.dsse.json"):
        content = (phase / name).read_bytes()
        for length in range(0, len(content), 7):
            (phase / name).write_bytes(content[:length])
            tampered(world, Binding.ATTESTATION)
        (phase / name).write_bytes(content)
    assert world.recover() == []


def test_replace_after_commit_with_another_signed_pair(world: World) -> None:
    """Even the signer cannot replace: the ledger holds the digest of what was intended."""
    phase = world.commit().directory
    other = canonical_json({"score": 9})
    envelope = sign(
        "run.json",
        other,
        predicate_type=EX_ANTE.predicate_type,
        predicate={
            "run_id": RUN_ID,
            "attempt": 1,
            "ledger": world.ledger.entries()[0].head.record(),
        },
        signer=world.signer,
        at=world.clock.now,
    )
    (phase / "run.json").write_bytes(other)
    (phase / "run.dsse.json").write_bytes(envelope)
    tampered(world, match="no intent for this phase")


def test_two_phases_that_vouch_for_different_ledgers(world: World) -> None:
    """A ledger rewritten between two phases: the older attestation still tells."""
    from .conftest import REVEAL

    world.ledger.append("note")
    phase = world.commit().directory
    world.commit(phase=REVEAL)
    envelope = sign(
        "run.json",
        world.document,
        predicate_type=EX_ANTE.predicate_type,
        predicate={
            "run_id": RUN_ID,
            "attempt": 1,
            "ledger": {"size": 2, "digest": digest(b"the ledger as it was")},
        },
        signer=world.signer,
        at=world.clock.now,
    )
    (phase / "run.dsse.json").write_bytes(envelope)
    tampered(world, match="different ledgers")


def test_a_phase_from_another_run(world: World) -> None:
    """Attestation of run A beside run B."""
    phase = world.commit().directory
    with pytest.raises(BindingError) as caught:
        world.recover(run_id="r-other")
    assert caught.value.binding is Binding.ATTESTATION
    assert phase.exists()


def test_a_phase_that_the_ledger_never_heard_of(world: World) -> None:
    world.commit()
    world.ledger.path.write_bytes(b"")
    tampered(world, match="does not contain the entry")


@pytest.mark.parametrize("edit", ["cut", "swap", "change", "torn"])
def test_ledger_tail_cut_edited_or_reordered(world: World, edit: str) -> None:
    """What an attestation vouches for must be in the ledger; a torn tail that it covers was whole."""
    world.ledger.append("note")
    world.commit()
    lines = world.ledger.path.read_bytes().splitlines(keepends=True)
    changed = {
        "cut": lines[:1],
        "swap": [lines[1], lines[0], lines[2]],
        "change": [lines[0].replace(b"note", b"nope"), *lines[1:]],
        "torn": [lines[0], lines[1][:-9]],
    }[edit]
    world.ledger.path.write_bytes(b"".join(changed))
    tampered(world)


def test_a_cut_committed_entry_is_added_again(world: World) -> None:
    """The entry after the attestation is not vouched for: losing it looks like a crash, and is one."""
    world.commit()
    lines = world.ledger.path.read_bytes().splitlines(keepends=True)
    world.ledger.path.write_bytes(lines[0] + lines[1][:-10])
    assert world.recover() == [Recovered("ex-ante", 1, "completed")]
    assert world.states() == [(1, "committed")]
    assert [e.record["event"] for e in world.ledger.entries()] == ["intent", "torn", "committed"]
    whole(world)


# --- stages --------------------------------------------------------------------------------------


@pytest.fixture
def complete_stage(world: World) -> World:
    killed(lambda observe: world.commit(observe=observe), "rename")
    return world


@pytest.mark.parametrize(
    "spoil",
    [_extra_file, _hidden_file, _symlinked_file, _hard_link_kept, _fifo, _folder_as_file, _symlinked_phase],
)
def test_a_stage_that_no_crash_leaves_is_tampering(
    complete_stage: World, spoil: Callable[[Path], None]
) -> None:
    spoil(stage(complete_stage))
    tampered(complete_stage)


def test_roll_forward_never_signs(complete_stage: World, make_signer: Callable[..., Any]) -> None:
    """Recovery has no signer at all; what it commits is what was signed."""
    envelope = (stage(complete_stage) / "run.dsse.json").read_bytes()
    assert complete_stage.recover() == [Recovered("ex-ante", 1, "rolled-forward")]
    assert read_phase(complete_stage.run_dir, "ex-ante", "run.json")[1] == envelope


@pytest.mark.parametrize("name", ["run.json", "run.dsse.json"])
def test_a_stage_cut_short_is_lost_and_counted(complete_stage: World, name: str) -> None:
    path = stage(complete_stage) / name
    path.write_bytes(path.read_bytes()[:-1])
    assert complete_stage.recover() == [
        Recovered("ex-ante", 1, "lost"),
        Recovered("ex-ante", None, "stage-deleted"),
    ]
    assert complete_stage.states() == [(1, "lost")]
    assert names(complete_stage.run_dir) == ["journal.jsonl"]


def test_a_stage_with_another_document_is_not_rolled_forward(complete_stage: World) -> None:
    """Swapping in a better score between intent and rename."""
    other = canonical_json({"score": 9})
    envelope = sign(
        "run.json",
        other,
        predicate_type=EX_ANTE.predicate_type,
        predicate={
            "run_id": RUN_ID,
            "attempt": 1,
            "ledger": complete_stage.ledger.head.record(),
        },
        signer=complete_stage.signer,
        at=complete_stage.clock.now,
    )
    (stage(complete_stage) / "run.json").write_bytes(other)
    (stage(complete_stage) / "run.dsse.json").write_bytes(envelope)
    assert Recovered("ex-ante", 1, "lost") in complete_stage.recover()
    assert not (complete_stage.run_dir / "ex-ante").exists()


def test_a_stage_without_an_intent_is_deleted(complete_stage: World) -> None:
    complete_stage.ledger.path.write_bytes(b"")
    assert complete_stage.recover() == [Recovered("ex-ante", None, "stage-deleted")]
    assert names(complete_stage.run_dir) == ["journal.jsonl"]
    assert complete_stage.states() == []


def test_a_lost_attempt_does_not_come_back(complete_stage: World, tmp_path: Path) -> None:
    """A stage kept aside and put back after the attempt was counted as lost changes nothing."""
    found = stage(complete_stage)
    shutil.copytree(found, tmp_path / "kept")
    shutil.rmtree(found)
    assert complete_stage.recover() == [Recovered("ex-ante", 1, "lost")]
    shutil.copytree(tmp_path / "kept", found)
    assert complete_stage.recover() == [Recovered("ex-ante", None, "stage-deleted")]
    assert complete_stage.states() == [(1, "lost")]


def test_two_complete_stages_are_tampering(complete_stage: World) -> None:
    found = stage(complete_stage)
    shutil.copytree(found, found.with_name(".stage.ex-ante.copy"))
    tampered(complete_stage, match="more than once")


def test_a_complete_stage_beside_the_phase_is_tampering(complete_stage: World) -> None:
    shutil.copytree(stage(complete_stage), complete_stage.run_dir / "ex-ante")
    tampered(complete_stage, match="more than once")


# --- the run folder ------------------------------------------------------------------------------


def test_extra_and_missing_entries_of_the_run(world: World) -> None:
    world.commit()
    (world.run_dir / "plan").mkdir()
    assert world.recover(expected=["plan"]) == []
    tampered(world, match="missing", expected=["plan", "packets"])
    (world.run_dir / "notes.txt").touch()
    tampered(world, match="extra", expected=["plan"])
    assert world.recover() == []  # without a list, other entries are not ours to judge


def test_one_bad_phase_keeps_every_other_from_being_touched(world: World) -> None:
    """A run in which one thing is wrong is not touched at all."""
    from .conftest import REVEAL

    world.commit()
    killed(lambda observe: world.commit(phase=REVEAL, observe=observe), "rename")
    (world.run_dir / "ex-ante" / "extra").touch()
    tampered(world, match="extra")
    (world.run_dir / "ex-ante" / "extra").unlink()
    assert world.recover() == [Recovered("reveal", 1, "rolled-forward")]


def test_a_missing_or_stale_journal_is_written_again(world: World) -> None:
    world.commit()
    journal = world.run_dir / "journal.jsonl"
    before = journal.read_bytes()
    journal.unlink()
    (world.run_dir / ".stage.journal.jsonl.0123").write_bytes(b"half")
    assert world.recover() == []
    assert journal.read_bytes() == before
    assert names(world.run_dir) == ["ex-ante", "journal.jsonl"]


@pytest.mark.parametrize("left", [b"", b"half", b"line", b"zeros"])
def test_a_journal_that_a_power_failure_cut_is_written_again(world: World, left: bytes) -> None:
    """The copy is renamed into place without being synced: empty, cut or zeros is what may be left of it."""
    world.commit()
    journal = world.run_dir / "journal.jsonl"
    before = journal.read_bytes()
    line = before.find(b"\n") + 1
    cut = {b"": b"", b"half": before[:-7], b"line": before[:line], b"zeros": before[:100] + bytes(400)}[left]
    journal.write_bytes(cut)
    assert world.recover() == []
    assert journal.read_bytes() == before


def test_a_journal_that_somebody_wrote_is_not_covered_up(world: World) -> None:
    world.commit()
    journal = world.run_dir / "journal.jsonl"
    for changed in (b"{}\n", journal.read_bytes() + b"{}\n", b"x", bytes(3) + b"x"):
        journal.write_bytes(changed)
        world.recover()
        assert journal.read_bytes() == changed


def test_recovery_records_the_envelope_it_found(complete_stage: World) -> None:
    complete_stage.recover()
    entry = complete_stage.ledger.entries()[-1].record
    _, envelope = read_phase(complete_stage.run_dir, "ex-ante", "run.json")
    assert entry["envelope"] == digest(envelope)
    assert entry["document"] == digest(complete_stage.document)


def test_the_journal_is_made_again_where_it_lacks_this_runs_commit_among_others(world: World) -> None:
    """The ledger went on for another run before this one was recovered."""
    from .conftest import REVEAL

    world.commit()
    killed(lambda observe: world.commit(phase=REVEAL, observe=observe), "journal-create")
    world.ledger.append("note")
    world.ledger.append("committed", run_id="r-other", phase="ex-ante", attempt=1)
    assert world.recover() == []
    assert (world.run_dir / "journal.jsonl").read_bytes() == world.ledger.path.read_bytes()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_copy_of_a_run_is_read_whoever_owns_it_and_recovered_by_its_owner_only(world: World) -> None:
    phase = world.commit().directory
    for path in (world.run_dir, phase, *phase.iterdir()):
        os.chown(path, 65534, 65534)
        path.chmod(0o777)  # as an archive may leave it
    document, _envelope = read_phase(world.run_dir, "ex-ante", "run.json")
    assert document == world.document
    tampered(world, match="belongs to user 65534")
    for path in (world.run_dir, phase, *phase.iterdir()):
        path.chmod(0o700 if path.is_dir() else 0o600)
    os.chown(world.run_dir, 0, 0)
    tampered(world, match="belongs to user 65534")
    os.chown(phase, 0, 0)
    tampered(world, match="belongs to user 65534")
