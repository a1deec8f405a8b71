"""Which files and folders are confirmed by the disk, and in which order beside the renames.

A kill leaves what was written in memory, so tests with kills do not see a missing fsync: this does.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from evalkit.sealing import commit, commit_directory, create_signing_key, pin, recovery
from evalkit.sealing.exchange import write_exchange
from evalkit.sealing.files import directory, replace_at, write_new_at

from .conftest import REVEAL, World
from .test_commit import killed

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc/self/fd")


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The base name of each thing synced, in order; random stage names shortened, ``->`` a commit."""
    found: list[str] = []
    fsync = os.fsync

    def note(fd: int) -> None:
        name = Path(f"/proc/self/fd/{fd}").readlink().name
        found.append(name.rpartition(".")[0] if name.startswith(".stage.") else name)
        fsync(fd)

    def renaming(module: Any, name: str) -> None:
        real = getattr(module, name)

        def rename(*arguments: Any, **named: Any) -> None:
            found.append("->")
            real(*arguments, **named)

        monkeypatch.setattr(module, name, rename)

    monkeypatch.setattr(os, "fsync", note)
    renaming(commit, "rename_new")
    renaming(recovery, "rename_new")
    renaming(os, "rename")
    return found


def test_a_commit(world: World, seen: list[str]) -> None:
    world.ledger.append("note")
    seen.clear()
    world.commit()
    assert seen == [
        *("ledger.jsonl", "run.json", "run.dsse.json", ".stage.ex-ante", "->", "r1", "ledger.jsonl"),
        "->",  # the journal, which can be made again
    ]


def test_a_stage_that_is_rolled_forward(world: World, seen: list[str]) -> None:
    killed(lambda observe: world.commit(observe=observe), "rename")
    seen.clear()
    world.recover()
    assert seen == ["run.json", "run.dsse.json", ".stage.ex-ante", "->", "r1", "ledger.jsonl", "->"]


def test_a_phase_whose_entry_is_missing(world: World, seen: list[str]) -> None:
    killed(lambda observe: world.commit(observe=observe), "parent-fsync")
    seen.clear()
    world.recover()
    assert seen == ["r1", "ledger.jsonl", "->"]


def test_a_stage_that_is_deleted(world: World, seen: list[str]) -> None:
    killed(lambda observe: world.commit(observe=observe), "stage-fsync")
    (next(world.run_dir.glob(".stage.*")) / "run.json").write_bytes(b"{")
    seen.clear()
    world.recover()
    assert seen == ["ledger.jsonl", "r1", "->"]


def test_a_folder(tmp_path: Path, seen: list[str]) -> None:
    def build(folder: Path) -> None:
        (folder / "sub").mkdir()
        (folder / "sub" / "file").touch()

    commit_directory(tmp_path / "run", build)
    assert seen == ["file", "sub", ".stage.run", "->", tmp_path.name]


def test_the_first_entry_of_a_ledger(world: World, seen: list[str]) -> None:
    world.ledger.append("note")
    assert seen[-2:] == ["state", "ledger.jsonl"]
    world.ledger.append("note")
    assert seen[-2:] == ["ledger.jsonl", "ledger.jsonl"]


def test_a_torn_line_is_set_aside_before_it_is_cut_off(world: World, seen: list[str]) -> None:
    world.ledger.append("note")
    with world.ledger.path.open("ab") as file:
        file.write(b"torn")
    seen.clear()
    world.ledger.append("note")
    assert seen == ["ledger.jsonl.torn-0", "state", "ledger.jsonl", "ledger.jsonl", "ledger.jsonl"]


def test_single_files(tmp_path: Path, seen: list[str]) -> None:
    with directory(tmp_path, binding=None) as fd:
        write_new_at(fd, "new", b"x", where="new")
        assert seen == ["new"]
        seen.clear()
        replace_at(fd, "new", b"y", where="new")
        assert seen == [".stage.new", "->", tmp_path.name]
        seen.clear()
        write_new_at(fd, "again", b"x", where="again", durable=False)
        replace_at(fd, "again", b"y", where="again", durable=False)
        assert seen == ["->"]


def test_keys_trust_and_exchanged_files(tmp_path: Path, seen: list[str]) -> None:
    from evalkit.sealing import TrustedKey

    public = create_signing_key(tmp_path / "keys" / "signing")
    assert seen == [tmp_path.name, "signing", "keys"]
    seen.clear()
    pin(tmp_path / "keys" / "trust.json", TrustedKey.of(public))
    assert seen == [".stage.trust.json", "->", "keys"]
    seen.clear()
    write_exchange(tmp_path / "keys" / "out", b"x")
    assert seen == [".stage.out", "keys"]


def test_no_descriptor_stays_open(world: World) -> None:
    """Beside the syncs, for both count what is done with each descriptor."""
    world.recover()
    before = len(list(Path("/proc/self/fd").iterdir()))
    world.commit()
    killed(lambda observe: world.commit(attempt=1, phase=REVEAL, observe=observe), "rename")
    world.recover()
    create_signing_key(world.run_dir.parent / "keys" / "signing")
    commit_directory(world.run_dir.parent / "r2", lambda folder: (folder / "file").touch())
    assert len(list(Path("/proc/self/fd").iterdir())) == before
