"""The disk fails (EIO, ENOSPC) at each fsync, write and rename that the kernel is asked for.

strace injects the error into a forked child, so that nothing of Python stands in between.  The commit
ends with one clean error, no fsync is tried again, and recovery finds an allowed state.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing import commit_directory
from evalkit.sealing.files import directory, write_new_at

from .conftest import names
from .crashes import settle, worlds
from .test_commit import killed

DONE, CLEAN, UNCLEAN = 0, 7, 8
CALLS = ("fsync", "write", "renameat2", "?rename,renameat", "?mkdir,mkdirat", "unlinkat")
_ANY_TRACER = (0x59616D61, ctypes.c_ulong(-1))  # PR_SET_PTRACER, PR_SET_PTRACER_ANY: prctl(2)


def with_error(
    strace: str, log: Path, act: Callable[[], Any], calls: str, error: str, nth: int
) -> tuple[int, list[str]]:
    """Run ``act`` in a child in which the ``nth`` of ``calls`` (from 1) fails.

    (Its exit code, the traced calls; the one that failed ends with ``(INJECTED)``.)
    """
    ready, go = os.pipe()
    pid = os.fork()
    if pid == 0:
        code = UNCLEAN
        try:
            ctypes.CDLL(None).prctl(*_ANY_TRACER, 0, 0, 0)
            os.close(go)
            os.read(ready, 1)
            act()
            code = DONE
        except EvalkitError as refusal:
            if refusal.where and refusal.expected and refusal.do:
                code = CLEAN
        finally:
            os._exit(code)
    os.close(ready)
    tracer = subprocess.Popen(
        [strace, "-qq", "-y", "-o", str(log), "-e", f"trace={calls},fsync", "-p", str(pid),
         "-e", f"inject={calls}:error={error}:when={nth}"],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        while "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text():
            if tracer.poll() is not None:
                pytest.skip("strace cannot attach to a child here")
            time.sleep(0.001)
    finally:
        os.close(go)
    _, status = os.waitpid(pid, 0)
    tracer.wait(30)
    return os.waitstatus_to_exitcode(status), log.read_text().splitlines()


def no_fsync_is_tried_again(traced: list[str]) -> None:
    """After an fsync that failed there is none at all: the process gave up."""
    (failed,) = (n for n, line in enumerate(traced) if "(INJECTED)" in line)
    if traced[failed].startswith("fsync"):
        assert not [line for line in traced[failed + 1 :] if line.startswith("fsync")], traced


def fail_each(
    strace: str, root: Path, trial: Callable[[], tuple[Callable[[], Any], Callable[[], str]]]
) -> Counter[tuple[str, str]]:
    """Let each call of each kind fail once with each error.

    ``trial`` prepares an action and the judge of what it left.  (How often a failing call led to an
    outcome.)
    """
    outcomes: Counter[tuple[str, str]] = Counter()
    for calls in CALLS:
        for error in ("EIO", "ENOSPC"):
            for nth in range(1, 100):
                act, judge = trial()
                code, traced = with_error(strace, root / "log", act, calls, error, nth)
                if not any("(INJECTED)" in line for line in traced):
                    assert code == DONE, traced
                    break
                assert code == CLEAN, (calls, error, nth, traced)
                no_fsync_is_tried_again(traced)
                outcomes[calls.rpartition(",")[2], judge()] += 1
    print(dict(outcomes))
    return outcomes


def test_the_disk_fails_in_a_commit(strace: str, tmp_path: Path, make_signer: Callable[..., Any]) -> None:
    supply = worlds(tmp_path, make_signer())
    next(supply).commit()  # imports what is imported late

    def trial() -> tuple[Callable[[], Any], Callable[[], str]]:
        world = next(supply)
        return world.commit, lambda: settle(world)

    outcomes = fail_each(strace, tmp_path, trial)
    assert {call for call, _ in outcomes} == {"fsync", "write", "renameat2", "renameat", "mkdirat"}
    assert {outcome for _, outcome in outcomes} >= {"lost", "completed", "committed"}
    assert sum(count for (call, _), count in outcomes.items() if call == "fsync") >= 2 * 6
    # Whole in memory and on disk: only what every fsync confirmed is rolled forward.
    assert {call for call, outcome in outcomes if outcome == "rolled-forward"} == {"renameat2"}


@pytest.mark.slow
@pytest.mark.parametrize("step", ["document-fsync", "rename", "parent-fsync"])
def test_the_disk_fails_in_a_recovery(
    strace: str, tmp_path: Path, make_signer: Callable[..., Any], step: str
) -> None:
    supply = worlds(tmp_path, make_signer())
    next(supply).recover()

    def trial() -> tuple[Callable[[], Any], Callable[[], str]]:
        world = next(supply)
        assert killed(lambda observe: world.commit(observe=observe), step)
        return world.recover, lambda: settle(world)

    outcomes = fail_each(strace, tmp_path, trial)
    expected = {
        "document-fsync": {"lost"},
        "rename": {"lost", "rolled-forward", "completed", "committed"},
        "parent-fsync": {"completed", "committed"},
    }[step]
    assert {outcome for _, outcome in outcomes} == expected
    assert ("fsync", "rolled-forward") not in outcomes, "an fsync that failed is not tried again"
    assert {"fsync", "write", "renameat"} <= {call for call, _ in outcomes}
    assert ("renameat2" in {call for call, _ in outcomes}) == (step == "rename")


def build(folder: Path) -> None:
    """What a plan is made with; its own writes report their own errors."""
    with directory(folder, binding=None) as fd:
        write_new_at(fd, "plan.json", b"{}", where="plan.json")
        write_new_at(fd, "mapping.sealed", bytes(5000), where="mapping.sealed")


@pytest.mark.slow
def test_the_disk_fails_in_making_a_run(strace: str, tmp_path: Path) -> None:
    made = 0

    def trial() -> tuple[Callable[[], Any], Callable[[], str]]:
        nonlocal made
        made += 1
        runs = tmp_path / f"runs{made}"
        runs.mkdir()
        return lambda: commit_directory(runs / "r1", build), lambda: judge(runs)

    def judge(runs: Path) -> str:
        found = names(runs)
        if found == ["r1"]:
            outcome = "whole"
        else:
            assert found == [], "what failed was cleaned away"
            outcome = "nothing"
            commit_directory(runs / "r1", build)
        assert names(runs / "r1") == ["mapping.sealed", "plan.json"]
        return outcome

    outcomes = fail_each(strace, tmp_path, trial)
    assert {outcome for _, outcome in outcomes} == {"whole", "nothing"}
