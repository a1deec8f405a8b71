"""Nothing that is sealed stands in the memory of a process that evaluates or verifies.

`pickle`, ``vars()``, a debugger or a core dump of an object that only hides its plaintext would show
it.  Here the whole memory of the process is searched from outside (/proc/PID/mem), after its work.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from decisions.support import CASES, World, strings

from evalkit.sealing import load_strict

from .test_tripwire import environment

WORK = (
    "import sys; from pathlib import Path; from evalkit import decisions;"
    "kept = [getattr(decisions, name)(Path(sys.argv[1])) for name in sys.argv[2].split()];"
    "print('ready', flush=True); sys.stdin.read()"
)


def sentinels(world: World) -> list[bytes]:
    """Long texts of both outcomes that are nowhere in the clear in the run."""
    clear = b"".join(
        p.read_bytes() for p in world.run.rglob("*") if p.is_file() and p.parent.name != "reveal"
    )
    found = set()
    for case in world.plan["pair"]["order"]:
        value = load_strict((CASES / case / "part-b" / "outcome.json").read_bytes())
        found |= {text for text in strings(value) if len(text) > 60 and text.isascii()}
    hidden = [text.encode() for text in found if text.encode() not in clear]
    assert len(hidden) > 20
    return hidden


def memory_of(pid: int) -> bytes:
    """All writable memory of a process."""
    parts = []
    with Path(f"/proc/{pid}/mem").open("rb", buffering=0) as memory:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            match = re.match(r"([0-9a-f]+)-([0-9a-f]+) rw", line)
            if match and "[v" not in line:
                begin, end = (int(x, 16) for x in match.groups())
                memory.seek(begin)
                try:
                    parts.append(memory.read(end - begin))
                except OSError:
                    continue
    return b"\n".join(parts)


def found_in_memory(world: World, work: str) -> set[bytes]:
    process = subprocess.Popen(
        [sys.executable, "-c", WORK, str(world.run), work],
        env=environment(world), stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=world.root,
    )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == b"ready\n", "its work failed: see its output"
        try:
            memory = memory_of(process.pid)
        except PermissionError:
            pytest.skip("the memory of a child cannot be read here")
    finally:
        process.stdin.close()
        process.wait()
        process.stdout.close()
    assert world.run_id.encode() in memory, "the search finds what is there"
    return {text for text in sentinels(world) if text in memory}


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_evaluate_and_verify_hold_nothing_of_part_b_in_memory(planned: World) -> None:
    assert found_in_memory(planned, "verify_run evaluate evaluate verify_run") == set()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="/proc is Linux's")
def test_the_same_search_finds_part_b_after_a_reveal(evaluated: World) -> None:
    assert len(found_in_memory(evaluated, "reveal")) > 20
