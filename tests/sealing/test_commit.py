"""Committing: the pair is there as a whole or not at all, for one committer, against every trick."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import (
    CanonicalError,
    Recovered,
    TargetExists,
    canonical_json,
    commit_directory,
    digest,
    read_phase,
    verify,
    verify_chain,
)
from evalkit.sealing import commit as commit_module
from evalkit.sealing.exchange import write_exchange
from evalkit.sealing.files import sync, write_new_at
from evalkit.sealing.hash_chain import Head
from evalkit.sealing.rename import rename_new

from .conftest import EX_ANTE, REVEAL, RUN_ID, World, names

STEPS = [
    "lock",
    "intent",
    "sign",
    "verify",
    "stage-mkdir",
    "document-create",
    "document-write",
    "document-fsync",
    "document-fstat",
    "envelope-create",
    "envelope-write",
    "envelope-fsync",
    "envelope-fstat",
    "stage-fsync",
    "rename",
    "parent-fsync",
    "committed",
    "journal-create",
    "journal-write",
    "journal-fstat",
    "journal-rename",
    "done",
]
BEFORE_INTENT = STEPS[: STEPS.index("sign")]
# Both files hold all their bytes from here on; a killed process loses nothing that it wrote.
COMPLETE_FROM = STEPS.index("envelope-fsync")
COMMIT_POINT = STEPS.index("parent-fsync")


def killed(action: Callable[[Callable[[str], None]], Any], at: str) -> bool:
    """Run ``action`` in a process that is killed (-9) when it comes to the step ``at``."""
    pid = os.fork()
    if pid == 0:
        try:

            def observe(step: str) -> None:
                if step == at:
                    os.kill(os.getpid(), signal.SIGKILL)

            action(observe)
        finally:
            os._exit(0)
    _, status = os.waitpid(pid, 0)
    return os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL


def whole(world: World) -> None:
    """The phase is there, verified, and nothing else is."""
    document, envelope = read_phase(world.run_dir, "ex-ante", "run.json")
    verify(
        envelope,
        subject_name="run.json",
        predicate_type=EX_ANTE.predicate_type,
        trust=world.trust,
        run_id=RUN_ID,
        at=world.clock.now,
    ).check_subject(document)
    assert names(world.run_dir) == ["ex-ante", "journal.jsonl"]


def test_a_commit(world: World) -> None:
    before = world.ledger.head
    committed = world.commit(segment_from=before.size)
    assert committed.directory == world.run_dir / "ex-ante"
    assert committed.head == world.ledger.head
    document, envelope = read_phase(world.run_dir, "ex-ante", "run.json")
    assert (document, envelope) == (world.document, committed.envelope)
    whole(world)
    for path in (committed.directory, *committed.directory.iterdir()):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert world.states() == [(1, "committed")]
    assert world.recover() == []


def test_the_attestation_binds_run_attempt_and_ledger_head(world: World) -> None:
    world.ledger.append("note")
    seen: list[Any] = []

    def predicate(head: Head, attempt: int) -> dict[str, Any]:
        seen.append((head, attempt))
        return {"part_b_released": False}

    committed = world.commit(predicate=predicate)
    verified = verify(
        committed.envelope,
        subject_name="run.json",
        predicate_type=EX_ANTE.predicate_type,
        trust=world.trust,
        at=world.clock.now,
    )
    intent = world.ledger.entries()[1]
    assert intent.record["event"] == "intent"
    assert intent.record["document"] == digest(world.document)
    assert seen == [(intent.head, 1)]
    assert verified.predicate == {
        "part_b_released": False,
        "run_id": RUN_ID,
        "attempt": 1,
        "ledger": intent.head.record(),
        "signed_at": intent.record["time"],
    }


def test_a_predicate_cannot_claim_another_run(world: World) -> None:
    with pytest.raises(ValueError, match="run_id"):
        world.commit(predicate=lambda head, attempt: {"run_id": "other"})


def test_the_journal_is_the_ledger_from_the_plan_on(world: World) -> None:
    world.ledger.append("note", of="another run")
    plan = world.ledger.head
    world.ledger.append("note", rival=True)
    world.commit(segment_from=plan.size)
    world.commit(phase=REVEAL, segment_from=plan.size)
    journal = (world.run_dir / "journal.jsonl").read_bytes()
    records = verify_chain(journal, start_prev=plan.digest, start_seq=plan.size, covers=world.ledger.head)
    # Rival plans stay visible in it.
    assert [r["event"] for r in records] == ["note", "intent", "committed", "intent", "committed"]


# --- refusals before anything happens ------------------------------------------------------------


def test_a_committed_phase_is_never_replaced(world: World) -> None:
    """Kill before commit or run again to discard a bad score: the first commit stands."""
    world.commit()
    before = world.snapshot()
    with pytest.raises(TargetExists):
        world.commit(attempt=2, document=canonical_json({"score": 9}))
    assert world.snapshot() == before


@pytest.mark.parametrize("kind", ["file", "empty folder", "dangling link"])
def test_whatever_has_the_name_is_not_replaced(world: World, kind: str) -> None:
    target = world.run_dir / "ex-ante"
    {
        "file": target.touch,
        "empty folder": target.mkdir,
        "dangling link": lambda: target.symlink_to("nowhere"),
    }[kind]()
    with pytest.raises(TargetExists):
        world.commit()
    assert world.ledger.head.size == 0


def test_a_name_that_appears_late_is_not_replaced(world: World) -> None:
    """TOCTOU: the target is made between the check and the rename, even as an empty directory."""

    def observe(step: str) -> None:
        if step == "rename":
            (world.run_dir / "ex-ante").mkdir()

    with pytest.raises(TargetExists):
        world.commit(observe=observe)
    assert list((world.run_dir / "ex-ante").iterdir()) == []


def test_documents_must_be_canonical(world: World) -> None:
    with pytest.raises(CanonicalError):
        world.commit(document=b'{"score": 7}')
    assert world.ledger.head.size == 0
    assert names(world.run_dir) == []


def test_an_unpinned_signer_commits_nothing(world: World, make_signer: Callable[..., Any]) -> None:
    with pytest.raises(BindingError, match="no pinned key") as caught:
        world.commit(signer=make_signer())
    assert caught.value.binding is Binding.AUTHORITY
    assert names(world.run_dir) == []
    # The intent stands in the ledger: the attempt is lost, not forgotten.
    assert world.states() == [(1, "intent")]
    assert world.recover() == [Recovered("ex-ante", 1, "lost")]
    assert world.states() == [(1, "lost")]
    world.commit(attempt=2)
    whole(world)


def _symlink(run_dir: Path) -> None:
    run_dir.rename(run_dir.with_name("real"))
    run_dir.symlink_to("real")


def _loose(run_dir: Path) -> None:
    run_dir.chmod(0o750)


def _file(run_dir: Path) -> None:
    run_dir.rmdir()
    run_dir.touch()


def _missing(run_dir: Path) -> None:
    run_dir.rmdir()


def _foreign(run_dir: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder away")
    os.chown(run_dir, 12345, -1)


@pytest.mark.parametrize("spoil", [_symlink, _loose, _file, _missing, _foreign])
def test_run_directories_that_are_not_ours_are_refused(world: World, spoil: Callable[[Path], None]) -> None:
    """Symlinked run directory, other permissions than 0700, foreign owner."""
    spoil(world.run_dir)
    for action in (world.commit, world.recover):
        with pytest.raises(BindingError) as caught:
            action()
        assert caught.value.binding is Binding.RUN
    assert world.ledger.head.size == 0


def test_another_users_run_is_refused(world: World, as_another_user: Callable[..., None]) -> None:
    world.commit()

    def attempt(folder: Path) -> None:
        with pytest.raises(BindingError):
            read_phase(world.run_dir, "ex-ante", "run.json")

    as_another_user(attempt)


@pytest.mark.parametrize("attempt", [0, 2, -1])
def test_attempt_numbers_come_from_the_ledger(world: World, attempt: int) -> None:
    with pytest.raises(EvalkitError, match="cannot be committed"):
        world.commit(attempt=attempt)


def test_an_abandoned_attempt_cannot_be_committed_later(world: World) -> None:
    """Many attempts, the best one shown: an attempt that was given up stays given up."""
    assert world.ledger.begin_attempt(RUN_ID, "ex-ante") == 1
    assert world.ledger.begin_attempt(RUN_ID, "ex-ante") == 2
    world.ledger.append("abandoned", run_id=RUN_ID, phase="ex-ante", attempt=1)
    with pytest.raises(EvalkitError, match="cannot be committed"):
        world.commit(attempt=1)
    world.commit(attempt=2)
    assert world.states() == [(1, "abandoned"), (2, "committed")]


@pytest.mark.parametrize("name", ["../x", "Ex", "", ".stage", "a/b", "é"])
def test_phase_names_are_plain(world: World, name: str) -> None:
    with pytest.raises(EvalkitError, match="not a phase"):
        read_phase(world.run_dir, name, "run.json")
    with pytest.raises(EvalkitError, match="not a phase"):
        read_phase(world.run_dir, "ex-ante", f"{name}.txt")


# --- kill -9 -------------------------------------------------------------------------------------


def test_the_steps_are_the_ones_that_are_killed(world: World) -> None:
    seen: list[str] = []
    world.commit(observe=seen.append)
    assert seen == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_leaves_the_verified_pair_or_nothing(world: World, step: str) -> None:
    """Kill before commit to discard a bad score: the attempt is counted all the same."""
    assert killed(lambda observe: world.commit(observe=observe), step)
    at = STEPS.index(step)
    done = world.recover()
    if step in BEFORE_INTENT:
        assert done == []
        assert world.states() == []
    elif at < COMPLETE_FROM:
        assert Recovered("ex-ante", 1, "lost") in done
        assert world.states() == [(1, "lost")]
        assert not (world.run_dir / "ex-ante").exists()
        with pytest.raises(EvalkitError, match="cannot be committed"):
            world.commit(attempt=1)
    else:
        whole(world)
        assert world.states() == [(1, "committed")]
        committed = [e for e in world.ledger.entries() if e.record["event"] == "committed"]
        assert len(committed) == 1
        if at < COMMIT_POINT:
            assert done == [Recovered("ex-ante", 1, "rolled-forward")]
        elif at <= STEPS.index("committed"):
            assert done == [Recovered("ex-ante", 1, "completed")]
    assert not [name for name in names(world.run_dir) if name.startswith(".stage.")]
    assert world.recover() == []  # settled: nothing is left to do
    journal = (world.run_dir / "journal.jsonl").read_bytes()
    verify_chain(journal, covers=world.ledger.head)
    # The run goes on from here.
    if not (world.run_dir / "ex-ante").exists():
        world.commit(attempt=len(world.states()) + 1)
        whole(world)


@pytest.mark.parametrize("step", STEPS[STEPS.index("sign") : COMMIT_POINT])
def test_without_recovery_the_next_attempt_is_blocked(world: World, step: str) -> None:
    killed(lambda observe: world.commit(observe=observe), step)
    before = world.snapshot()
    with pytest.raises(Blocked):
        world.commit(attempt=2)
    assert world.snapshot() == before


@pytest.mark.parametrize("step", ["document-write", "rename", "committed"])
def test_killed_in_recovery_after_a_kill(world: World, step: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second crash, in the middle of recovering, changes nothing about the outcome."""
    killed(lambda observe: world.commit(observe=observe), step)
    for dies_at in ("rename_new", "_delete", "replace_at"):
        pid = os.fork()
        if pid == 0:
            try:
                from evalkit.sealing import recovery

                setattr(recovery, dies_at, lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL))
                world.recover()
            finally:
                os._exit(0)
        os.waitpid(pid, 0)
    world.recover()
    if step == "document-write":
        assert world.states() == [(1, "lost")]
        assert names(world.run_dir) == ["journal.jsonl"]
    else:
        assert world.states() == [(1, "committed")]
        whole(world)


def test_sixteen_racing_committers_have_one_winner(world: World) -> None:
    """All at once, each with an attempt of its own: one pair, fifteen clear refusals, sixteen counted."""
    children: dict[int, int] = {}
    ready, go = os.pipe()
    for number in range(16):
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                os.close(go)
                os.read(ready, 1)  # returns at once for all when the last writer closes
                attempt = world.ledger.begin_attempt(RUN_ID, "ex-ante")
                world.commit(attempt=attempt, document=canonical_json({"by": number}))
                code = 0
            except TargetExists as refusal:
                code = 1 if refusal.where == str(world.run_dir / "ex-ante") and refusal.do else 3
            finally:
                os._exit(code)
        children[pid] = number
    os.close(ready)
    os.close(go)
    codes = {number: os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid, number in children.items()}
    assert sorted(codes.values()) == [0] + [1] * 15
    (winner,) = (number for number, code in codes.items() if code == 0)
    whole(world)
    document, _ = read_phase(world.run_dir, "ex-ante", "run.json")
    assert document == canonical_json({"by": winner}), "who was told that it won is who is there"
    # The losers left no intent behind that anybody would have to settle.
    states = world.states()
    assert [number for number, _ in states] == list(range(1, 17))
    assert sorted(state for _, state in states) == ["begun"] * 15 + ["committed"]
    events = [entry.record["event"] for entry in world.ledger.entries()]
    assert sorted(events) == ["attempt"] * 16 + ["committed", "intent"]
    assert world.recover() == []


# --- the disk ------------------------------------------------------------------------------------


# The intent, both files, their folder, the run folder, the committed entry; not the journal, a copy.
SYNCS = 6


def failing_fsync(monkeypatch: pytest.MonkeyPatch, fails_at: int | None) -> list[int]:
    calls: list[int] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        calls.append(fd)
        if len(calls) - 1 == fails_at:
            raise OSError(5, "Input/output error")
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    return calls


def test_a_commit_syncs_everything_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.ledger.append("note")
    calls = failing_fsync(monkeypatch, None)
    world.commit()
    assert len(calls) == SYNCS


@pytest.mark.parametrize("fails_at", range(SYNCS))
def test_a_failed_fsync_aborts_and_is_not_tried_again(
    world: World, fails_at: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.ledger.append("note")
    calls = failing_fsync(monkeypatch, fails_at)
    with pytest.raises(EvalkitError, match="did not confirm"):
        world.commit()
    assert len(calls) == fails_at + 1  # the failed call was the last one
    monkeypatch.undo()
    world.recover()
    # a line of the ledger that the disk did not confirm is taken back: at first the intent itself
    assert world.states() in ([(1, "lost")], [(1, "committed")], *([[]] if fails_at == 0 else []))
    assert world.recover() == []


def test_short_writes_are_completed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    real = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: real(fd, bytes(data)[:3]))
    fd = os.open(tmp_path, os.O_RDONLY)
    write_new_at(fd, "file", b"0123456789", where="file")
    os.close(fd)
    monkeypatch.undo()
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_a_file_that_changes_while_it_is_written_is_refused(tmp_path: Path) -> None:
    def observe(step: str) -> None:
        if step == "file-fstat":
            os.link(tmp_path / "file", tmp_path / "kept")

    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(EvalkitError, match="changed while it was written"):
            write_new_at(fd, "file", b"x", where="file", observe=observe)
    finally:
        os.close(fd)


def test_fsync_of_a_pipe_is_an_error_of_ours() -> None:
    reading, writing = os.pipe()
    with pytest.raises(EvalkitError, match="did not confirm"):
        sync(writing, "pipe")
    os.close(reading)
    os.close(writing)


def test_rename_does_not_replace_an_empty_directory(tmp_path: Path) -> None:
    """Plain rename does, silently: this is why it is not used."""
    for name in ("a", "b", "c", "d"):
        (tmp_path / name).mkdir()
    fd = os.open(tmp_path, os.O_RDONLY)
    try:
        with pytest.raises(TargetExists):
            rename_new("a", "b", dir_fd=fd, where="b")
        os.rename("c", "d", src_dir_fd=fd, dst_dir_fd=fd)
        rename_new("a", "e", dir_fd=fd, where="e")
        with pytest.raises(EvalkitError, match="commit failed"):
            rename_new("missing", "f", dir_fd=fd, where="f")
    finally:
        os.close(fd)
    assert names(tmp_path) == ["b", "d", "e"]


# --- making a run --------------------------------------------------------------------------------


def build(folder: Path) -> None:
    (folder / "plan").mkdir()
    (folder / "plan" / "plan.json").write_bytes(b"{}")
    (folder / "packets").mkdir(mode=0o777)
    (folder / "packets" / "part-b.bin").write_bytes(b"x" * 100)


def test_a_run_appears_as_a_whole(tmp_path: Path) -> None:
    target = tmp_path / "runs" / "r1"
    target.parent.mkdir()
    assert commit_directory(target, build) == target
    assert (target / "plan" / "plan.json").read_bytes() == b"{}"
    for path in (target, *target.rglob("*")):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    assert names(target.parent) == ["r1"]
    with pytest.raises(TargetExists):
        commit_directory(target, build)


RUN_STEPS = ["lock", "stage-mkdir", "build", "file-fsync", "folder-fsync", "rename", "parent-fsync", "done"]


@pytest.mark.parametrize("step", RUN_STEPS)
def test_killed_while_making_a_run_leaves_all_or_nothing(tmp_path: Path, step: str) -> None:
    target = tmp_path / "r1"
    assert killed(lambda observe: commit_directory(target, build, observe=observe), step)
    if RUN_STEPS.index(step) < RUN_STEPS.index("parent-fsync"):
        assert not target.exists()
        commit_directory(target, build)
    assert (target / "packets" / "part-b.bin").stat().st_size == 100
    assert names(tmp_path) == ["r1"]  # what the killed one left is gone


def test_a_build_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fail(folder: Path) -> None:
        build(folder)
        raise KeyError("no")

    with pytest.raises(KeyError):
        commit_directory(tmp_path / "r1", fail)
    assert names(tmp_path) == []


def _link_to_file(folder: Path) -> None:
    (folder / "f").symlink_to("/etc/passwd")


def _link_to_folder(folder: Path) -> None:
    (folder / "d").symlink_to("/etc")


def _fifo(folder: Path) -> None:
    os.mkfifo(folder / "f")


def _hard_link(folder: Path) -> None:
    (folder / "f").write_bytes(b"x")
    os.link(folder / "f", folder.parent / "kept")


@pytest.mark.parametrize("make", [_link_to_file, _link_to_folder, _fifo, _hard_link])
def test_a_run_holds_only_folders_and_files(tmp_path: Path, make: Callable[[Path], None]) -> None:
    with pytest.raises(EvalkitError):
        commit_directory(tmp_path / "r1", make)
    assert not (tmp_path / "r1").exists()


def test_racing_makers_of_a_run_have_one_winner(tmp_path: Path) -> None:
    children = []
    for _ in range(16):
        pid = os.fork()
        if pid == 0:
            code = 2
            try:
                commit_directory(tmp_path / "r1", build)
                code = 0
            except TargetExists:
                code = 1
            finally:
                os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert sorted(codes) == [0] + [1] * 15
    assert names(tmp_path) == ["r1"]


def _link_to_folder_as_stage(path: Path) -> None:
    path.symlink_to(path.with_name("precious"))


def _file_as_stage(path: Path) -> None:
    path.write_bytes(b"not evalkit's")


@pytest.mark.parametrize("make", [_link_to_folder_as_stage, _file_as_stage])
def test_what_is_no_folder_of_ours_is_left_alone_and_blocks_nothing(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    """In a shared folder anybody may make such a name."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "kept").write_bytes(b"x")
    make(tmp_path / ".stage.r1.x")
    commit_directory(tmp_path / "r1", build)
    assert (precious / "kept").read_bytes() == b"x"
    assert names(tmp_path) == [".stage.r1.x", "precious", "r1"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can make what belongs to another user")
def test_root_removes_no_stage_of_another_user(tmp_path: Path) -> None:
    for name in (".stage.r1.his", ".stage.r1.ours"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "kept").write_bytes(b"x")
    os.chown(tmp_path / ".stage.r1.his", 65534, 65534)
    commit_directory(tmp_path / "r1", build)
    assert names(tmp_path) == [".stage.r1.his", "r1"]
    assert (tmp_path / ".stage.r1.his" / "kept").read_bytes() == b"x"


@pytest.mark.parametrize(("mode", "fits"), [
    (0o777, False), (0o775, False), (0o702, False), (0o755, True), (0o1777, True), (0o1775, True),
])  # fmt: skip
def test_a_folder_in_which_others_can_move_what_is_ours_is_refused(
    tmp_path: Path, mode: int, fits: bool
) -> None:
    """They could put a link in the place of the stage, and every write would go where it leads."""
    shared = tmp_path / "shared"
    shared.mkdir()
    shared.chmod(mode)
    if fits:
        commit_directory(shared / "r1", build)
        write_exchange(shared / "request", b"x")
        return
    for action in (
        lambda: commit_directory(shared / "r1", build),
        lambda: write_exchange(shared / "request", b"x"),
    ):
        with pytest.raises(EvalkitError, match="others may rename") as caught:
            action()
        assert caught.value.where == str(shared)
        assert "sticky bit" in caught.value.expected
    assert names(shared) == []


def test_what_was_signed_is_what_was_given(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """A `sign` that takes another document would write a pair that nobody can verify."""
    real = commit_module.sign

    def another(name: str, _document: bytes, **named: Any) -> bytes:
        return real(name, canonical_json({"score": 9}), **named)

    monkeypatch.setattr(commit_module, "sign", another)
    with pytest.raises(BindingError, match="not the one that was signed"):
        world.commit()
    assert names(world.run_dir) == []
