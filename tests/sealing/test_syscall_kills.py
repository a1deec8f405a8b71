"""Killed (SIGKILL) at each system call of a commit and of a recovery: the pair, or a counted loss."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.sealing import TargetExists, commit_directory

from .conftest import World, names
from .crashes import settle, whole, worlds
from .killing import calls_until_killed, why_not
from .test_commit import killed

pytestmark = pytest.mark.skipif(bool(why_not()), reason=why_not() or "-")

Act = Callable[[World], Any]
# The quick run takes every seventh call.
STRIDES = [7, pytest.param(1, marks=pytest.mark.slow)]


def commit(world: World) -> None:
    world.commit()


def at_each_call(
    root: Path, signer: Any, prepare: Act, act: Act, stride: int, begin: int = 0
) -> tuple[Counter[str], int]:
    """Kill ``act`` at every ``stride``-th system call, each time in a new world.

    (How often each outcome came, how many calls an undisturbed ``act`` makes.)
    """
    outcomes: Counter[str] = Counter()
    supply = worlds(root, signer)
    first = next(supply)
    prepare(first)
    act(first)  # imports what is imported late, in this process
    second = next(supply)
    prepare(second)
    total, was_killed = calls_until_killed(lambda: act(second), None)
    assert not was_killed
    for n in itertools.count(begin, stride):
        world = next(supply)
        prepare(world)
        _, was_killed = calls_until_killed(lambda world=world: act(world), n)
        if not was_killed:
            break
        outcomes[settle(world)] += 1
    return outcomes, total


def report(what: str, outcomes: Counter[str], total: int) -> None:
    print(f"{what}: {total} system calls, {outcomes.total()} kills, {dict(sorted(outcomes.items()))}")


@pytest.mark.parametrize("stride", STRIDES)
def test_killed_at_each_system_call_of_a_commit(
    tmp_path: Path, make_signer: Callable[..., Any], stride: int
) -> None:
    outcomes, total = at_each_call(tmp_path, make_signer(), lambda world: None, commit, stride)
    report("commit_phase", outcomes, total)
    # A few calls more or less are the allocator's.
    assert outcomes.total() * stride > total - 2 * stride - 5
    assert outcomes["begun"], "before the intent"
    assert outcomes["lost"], "between the intent and the complete stage"
    assert outcomes["completed"] + outcomes["committed"], "after the commit point"
    assert set(outcomes) <= {"begun", "lost", "rolled-forward", "completed", "committed"}
    if stride == 1:
        assert outcomes["rolled-forward"], "between the complete stage and the rename"
        assert outcomes["completed"]
        assert outcomes["committed"]


@pytest.mark.parametrize("stride", STRIDES)
@pytest.mark.parametrize(
    ("step", "settled_as"),
    [("document-fsync", {"lost"}), ("rename", {"rolled-forward"}), ("parent-fsync", {"completed"})],
)
def test_killed_at_each_system_call_of_a_recovery(
    tmp_path: Path, make_signer: Callable[..., Any], stride: int, step: str, settled_as: set[str]
) -> None:
    """A crash, then a second one in the recovery from it: the same outcome as without the second."""

    def crash(world: World) -> None:
        assert killed(lambda observe: world.commit(observe=observe), step)

    outcomes, total = at_each_call(tmp_path, make_signer(), crash, lambda world: world.recover(), stride)
    report(f"recover after a kill at {step}", outcomes, total)
    assert outcomes.total() * stride > total - 2 * stride - 5
    settled = {"lost"} if settled_as == {"lost"} else {"rolled-forward", "completed", "committed"}
    assert set(outcomes) <= settled
    if stride == 1:
        assert settled_as <= set(outcomes), "killed before the recovery had done anything"
        if settled_as != {"lost"}:
            assert outcomes["committed"], "killed after the recovery was done"


def build(folder: Path) -> None:
    (folder / "plan.json").write_bytes(b"{}")
    (folder / "sealed").mkdir()
    (folder / "sealed" / "mapping.sealed").write_bytes(bytes(5000))


@pytest.mark.parametrize("stride", STRIDES)
def test_killed_at_each_system_call_of_making_a_run(tmp_path: Path, stride: int) -> None:
    """What precommit does: the run folder is there as a whole, or not at all and can be made again."""
    commit_directory(tmp_path / "warm", build)
    outcomes: Counter[str] = Counter()
    for n in itertools.count(0, stride):
        runs = tmp_path / f"runs{n}"
        runs.mkdir()
        target = runs / "r1"
        total, was_killed = calls_until_killed(lambda target=target: commit_directory(target, build), n)
        if not was_killed:
            break
        there = target.exists()
        outcomes["whole" if there else "nothing"] += 1
        if there:
            with pytest.raises(TargetExists):
                commit_directory(target, build)
        else:
            commit_directory(target, build)
        assert names(runs) == ["r1"], "what the killed one left is gone"
        assert names(target) == ["plan.json", "sealed"]
        assert (target / "plan.json").read_bytes() == b"{}"
        assert (target / "sealed" / "mapping.sealed").read_bytes() == bytes(5000)
        for path in (target, *target.rglob("*")):
            assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600)
    report("commit_directory", outcomes, total)
    assert outcomes["whole"]
    assert outcomes["nothing"] > outcomes["whole"]


def test_the_kill_comes_before_the_call(tmp_path: Path) -> None:
    """The tracer itself: each call is stopped before it takes effect, and none is left out."""

    def act() -> None:
        for n in range(5):
            (tmp_path / str(n)).mkdir()

    total, _ = calls_until_killed(act, None)
    for path in tmp_path.iterdir():
        path.rmdir()
    found = []
    for n in range(total):
        assert calls_until_killed(act, n) == (n + 1, True)
        found.append(len(names(tmp_path)))
        for path in tmp_path.iterdir():
            path.rmdir()
    assert found == sorted(found)
    assert set(found) == set(range(6))
    assert found[0] == 0
    assert found[-1] == 5


def test_settling_notices_what_must_not_be(world: World) -> None:
    """The judge itself: half a pair, a second committed entry or a left stage would not pass."""
    world.ledger.begin_attempt("r-0001", "ex-ante")
    world.commit()
    whole(world)
    (world.run_dir / "extra").touch()
    with pytest.raises(AssertionError):
        whole(world)
    (world.run_dir / "extra").unlink()
    world.ledger.append("committed", run_id="r-0001", phase="ex-ante", attempt=2)
    with pytest.raises(AssertionError):
        whole(world)
