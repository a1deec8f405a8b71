"""W3, W36: evaluate and a refused reveal open nothing sealed, nothing of the instructor, no unsealing key."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from decisions.support import World, make_world, replay_world

HOOKED = """
import json, os, sys
log = open(sys.argv[1], "a")
def hook(event, args):
    if event == "open":
        log.write(json.dumps(os.fsdecode(args[0]) if isinstance(args[0], (str, bytes)) else repr(args[0])) + "\\n")
        log.flush()
sys.addaudithook(hook)
"""
CLI = HOOKED + "from evalkit.cli import main; main(sys.argv[2:])"
PYTHON = HOOKED + (
    "from pathlib import Path; from evalkit import decisions;"
    "getattr(decisions, sys.argv[2])(Path(sys.argv[3]), **json.loads(sys.argv[4]))"
)
FORBIDDEN = re.compile(
    r"\.sealed$|part-b|mapping\.json$|catalog\.json$|episode\.json$|outcome\.json$|teaching-note|unsealing"
)


def environment(world: World) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(world.root),
        "XDG_CONFIG_HOME": str(world.config),
        "XDG_STATE_HOME": str(world.state),
    }


def opened_by(world: World, tmp_path: Path, code: str, *arguments: str) -> tuple[list[str], int]:
    """Everything a process asked Python to open, and its exit code."""
    log = tmp_path / f"opened-{len(list(tmp_path.glob('opened-*')))}"
    done = subprocess.run(
        [sys.executable, "-c", code, str(log), *arguments],
        env=environment(world),
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert "Traceback" not in done.stderr or code is PYTHON, done.stderr
    return [json.loads(line) for line in log.read_text().splitlines()], done.returncode


def forbidden(paths: list[str]) -> list[str]:
    return [p for p in paths if FORBIDDEN.search(p)]


def test_evaluate_by_the_command_line_opens_nothing_sealed(planned: World, tmp_path: Path) -> None:
    paths, code = opened_by(planned, tmp_path, CLI, "decisions", "evaluate", str(planned.run), "--write-run")
    assert code == 0
    assert any(p.endswith("packet.json") for p in paths), "the hook sees what is opened"
    assert not forbidden(paths)
    assert (planned.run / "ex-ante" / "run.json").exists()


def test_evaluate_in_python_opens_nothing_sealed(planned: World, tmp_path: Path) -> None:
    paths, code = opened_by(planned, tmp_path, PYTHON, "evaluate", str(planned.run), '{"write_run": true}')
    assert code == 0
    assert any(p.endswith("packet.json") for p in paths)
    assert not forbidden(paths)


def test_the_tripwire_fires_at_an_accepted_reveal(evaluated: World, tmp_path: Path) -> None:
    paths, code = opened_by(evaluated, tmp_path, CLI, "decisions", "reveal", str(evaluated.run))
    assert code == 0
    assert {Path(p).name for p in forbidden(paths)} >= {"mapping.sealed", "part-b-0.sealed", "unsealing.pem"}


@pytest.mark.parametrize(
    ("file", "code"),
    [
        ("plan.json", 12),
        ("part-a/case-bbi-2007-07/packet.json", 13),
        ("part-a/case-nflx-2007-07/report.md", 13),
        ("instructions/prompt.md", 14),
        ("instructions/rubric.json", 17),
        ("ex-ante/run.dsse.json", 10),
        ("journal.jsonl", 19),
    ],
)
def test_a_refused_reveal_opens_nothing_sealed(
    evaluated: World, tmp_path: Path, file: str, code: int
) -> None:
    path = evaluated.run / file
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(bytes(data))
    paths, found = opened_by(
        evaluated, tmp_path, CLI, "decisions", "reveal", str(evaluated.run), "--write-calibration"
    )
    assert found == code
    assert not forbidden(paths)
    assert not (evaluated.run / "reveal").exists()


def test_a_blocked_reveal_opens_nothing_sealed(tmp_path: Path) -> None:
    world = replay_world(tmp_path / "w", {"case-bbi-2007-07": "no record"})
    paths, code = opened_by(world, tmp_path, CLI, "decisions", "evaluate", str(world.run), "--write-run")
    assert code == 5
    assert not forbidden(paths)
    paths, code = opened_by(
        world, tmp_path, CLI, "decisions", "reveal", str(world.run), "--write-calibration"
    )
    assert code == 5
    assert not forbidden(paths)


def test_evaluate_does_not_even_import_what_opens_packets(planned: World, tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path; from evalkit.decisions import evaluate;"
        "evaluate(Path(sys.argv[1])); print([m for m in sys.modules if m.startswith('evalkit.decisions.')])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(planned.run)], env=environment(planned), capture_output=True,
        text=True, check=True, cwd=tmp_path,
    )  # fmt: skip
    for module in ("calibration", "catalog", "precommitment", "preparation", "importing", "factsheet"):
        assert f"evalkit.decisions.{module}'" not in done.stdout


def traced(strace: str, world: World, tmp_path: Path, *arguments: str) -> tuple[list[str], int]:
    """Everything that a command and all its processes asked the kernel to open."""
    log = tmp_path / f"trace-{len(list(tmp_path.glob('trace-*')))}"
    done = subprocess.run(
        [strace, "-f", "-qq", "-o", str(log), "-e", "trace=openat,open", sys.executable, "-m", "evalkit",
         *arguments],
        env=environment(world), capture_output=True, text=True, cwd=tmp_path,
    )  # fmt: skip
    return re.findall(r'open(?:at)?\([^"]*"([^"]*)"', log.read_text()), done.returncode


def test_the_kernel_sees_no_sealed_file_opened_by_evaluate(
    planned: World, tmp_path: Path, strace: str
) -> None:
    paths, code = traced(strace, planned, tmp_path, "decisions", "evaluate", str(planned.run), "--write-run")
    assert code == 0
    assert any(p.endswith("packet.json") for p in paths)
    assert "signing" in [Path(p).name for p in paths], "the signing process is traced too"
    assert not forbidden(paths)
    assert not [p for p in paths if "/sealed/" in p]


def test_the_kernel_sees_no_sealed_file_opened_by_a_refused_reveal(
    evaluated: World, tmp_path: Path, strace: str
) -> None:
    path = evaluated.run / "ex-ante" / "run.json"
    path.write_bytes(path.read_bytes().replace(b'"total":"9', b'"total":"8', 1))
    arguments = ("decisions", "reveal", str(evaluated.run), "--write-calibration")
    paths, code = traced(strace, evaluated, tmp_path, *arguments)
    assert code == 17
    assert not forbidden(paths)


def test_the_trace_fires_at_an_accepted_reveal(evaluated: World, tmp_path: Path, strace: str) -> None:
    paths, code = traced(strace, evaluated, tmp_path, "decisions", "reveal", str(evaluated.run))
    assert code == 0
    assert [p for p in paths if p.endswith("mapping.sealed")]


def test_no_sealed_file_is_readable_without_the_key(tmp_path: Path) -> None:
    """What evaluate may not open would tell nothing either: it is ciphertext."""
    world = make_world(tmp_path / "w")
    for path in (world.run / "sealed").iterdir():
        data = path.read_bytes()
        for word in (b"scenario-", b"favorable", b"case-", b"schema"):
            assert word not in data
