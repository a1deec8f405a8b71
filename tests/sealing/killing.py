"""A forked child that is killed (SIGKILL): at a moment, or at exactly one of its system calls.

A timer (`killed_after`) hits where a process spends its time.  ptrace(2) (`calls_until_killed`) hits
every place, also those that last a microsecond: the child stops at the entry of each system call, and
dies there before the kernel carries the call out.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import statistics
import sys
import time
from collections.abc import Callable
from functools import cache
from typing import Any


def killed_after(act: Callable[[], Any], seconds: float) -> float | None:
    """Run ``act`` in a child and kill it that many seconds after it began.

    None where the kill met it at work, else how long it took until it was done.
    """
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            os.write(writing, b"begin")
            act()
            os.write(writing, b"end")
            signal.pause()
        finally:
            os._exit(1)
    os.close(writing)
    try:
        assert os.read(reading, 5) == b"begin"
        begin = time.perf_counter()
        select.select([reading], [], [], seconds)
        took = time.perf_counter() - begin
        os.kill(pid, signal.SIGKILL)
        _, status = os.waitpid(pid, 0)
        assert os.WIFSIGNALED(status), "it failed of itself: see its output"
        return took if os.read(reading, 3) == b"end" else None
    finally:
        os.close(reading)


def usual(act: Callable[[], Callable[[], Any]], times: int = 9) -> float:
    """How long what ``act`` prepares usually takes in a child, seconds."""
    return statistics.median(killed_after(act(), 60) or 60 for _ in range(times))


# linux/ptrace.h
_TRACEME, _SYSCALL, _SETOPTIONS = 0, 24, 0x4200
_TRACESYSGOOD, _EXITKILL = 0x1, 0x100000
_AT_A_CALL = signal.SIGTRAP | 0x80


def _ptrace(request: int, pid: int, data: int = 0) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long,) * 4
    libc.ptrace.restype = ctypes.c_long
    if libc.ptrace(request, pid, 0, data) == -1:
        code = ctypes.get_errno()
        raise OSError(code, os.strerror(code))


def calls_until_killed(act: Callable[[], Any], kill_at: int | None) -> tuple[int, bool]:
    """Run ``act`` in a child and kill it at the entry of system call number ``kill_at`` (from 0).

    (How many calls it entered, whether it was killed.)  The last call of a child that is not killed
    is its exit.  AssertionError where ``act`` raises.
    """
    pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _ptrace(_TRACEME, 0)
            os.kill(os.getpid(), signal.SIGSTOP)
            act()
            code = 0
        finally:
            os._exit(code)
    entered, inside, deliver = 0, False, 0
    _, status = os.waitpid(pid, 0)
    if not os.WIFSTOPPED(status):
        raise OSError("the child may not be traced")
    _ptrace(_SETOPTIONS, pid, _TRACESYSGOOD | _EXITKILL)
    while True:
        _ptrace(_SYSCALL, pid, deliver)
        _, status = os.waitpid(pid, 0)
        if not os.WIFSTOPPED(status):
            assert os.waitstatus_to_exitcode(status) == 0, "the child failed: see its output"
            return entered, False
        deliver = 0
        if os.WSTOPSIG(status) != _AT_A_CALL:
            deliver = os.WSTOPSIG(status)
            continue
        # Entry and exit of a call stop alike, in turns.
        inside = not inside
        if inside:
            entered += 1
            if kill_at == entered - 1:
                os.kill(pid, signal.SIGKILL)
                _, status = os.waitpid(pid, 0)
                assert os.WIFSIGNALED(status)
                assert os.WTERMSIG(status) == signal.SIGKILL
                return entered, True


@cache
def why_not() -> str:
    """Why children cannot be traced here, or the empty string."""
    if not sys.platform.startswith("linux"):
        return "ptrace of system calls is Linux's"
    try:
        entered, killed = calls_until_killed(os.getppid, 0)
    except (OSError, AssertionError) as error:
        return f"children may not be traced here ({error})"
    return "" if (entered, killed) == (1, True) else "ptrace does not stop at system calls here"
