"""A small world for sealing tests: one signer, its trust, its ledger, one private run folder."""

from __future__ import annotations

import os
import tempfile
import traceback
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.sealing import (
    PREDICATES,
    Committed,
    Ledger,
    Phase,
    Recovered,
    Signer,
    Trust,
    TrustedKey,
    canonical_json,
    commit_phase,
    recover,
)

RUN_ID = "r-0001"
NOBODY = 65534
EX_ANTE = Phase("ex-ante", "run.json", PREDICATES["decisions/ex-ante"])
REVEAL = Phase("reveal", "reveal.json", PREDICATES["decisions/reveal"])


def names(folder: Path) -> list[str]:
    """What is in a folder, sorted."""
    return sorted(path.name for path in folder.iterdir())


class Clock:
    """A clock that moves a second at each look, and can be set."""

    def __init__(self) -> None:
        self.now = datetime(2026, 11, 30, 12, tzinfo=UTC)

    def __call__(self) -> datetime:
        self.now += timedelta(seconds=1)
        return self.now


@dataclass
class World:
    signer: Signer
    trust: Trust
    ledger: Ledger
    clock: Clock
    run_dir: Path
    document: bytes = field(default=canonical_json({"score": 7}))

    def commit(
        self, *, attempt: int = 1, phase: Phase = EX_ANTE, document: bytes | None = None, **other: Any
    ) -> Committed:
        arguments: dict[str, Any] = {
            "predicate_type": phase.predicate_type,
            "predicate": lambda head, attempt: {"part_b_released": False},
            "signer": self.signer,
            "trust": self.trust,
            "ledger": self.ledger,
            "run_id": RUN_ID,
            "attempt": attempt,
        }
        return commit_phase(
            self.run_dir,
            phase.name,
            phase.file_name,
            self.document if document is None else document,
            **(arguments | other),
        )

    def recover(self, **other: Any) -> list[Recovered]:
        arguments: dict[str, Any] = {
            "phases": [EX_ANTE, REVEAL],
            "ledger": self.ledger,
            "trust": self.trust,
            "run_id": RUN_ID,
            "at": self.clock.now,
        }
        return recover(self.run_dir, **(arguments | other))

    def states(self, phase: str = "ex-ante") -> list[tuple[int, str]]:
        return [(a.number, a.state) for a in self.ledger.attempts(RUN_ID, phase)]

    def snapshot(self) -> dict[str, bytes | None]:
        """Everything in the run folder and the ledger's, to show that nothing was touched."""
        found: dict[str, bytes | None] = {}
        for root in (self.run_dir, self.ledger.path.parent):
            for path in sorted(root.rglob("*")):
                plain = path.is_file() and not path.is_symlink()
                found[str(path)] = path.read_bytes() if plain else None
        return found


@pytest.fixture
def as_another_user() -> Callable[[Callable[[Path], None]], None]:
    """Run a function as an unprivileged user in a folder of that user.

    Root ignores permissions, so a test of permissions that runs as root shows nothing.
    """

    def run(function: Callable[[Path], None]) -> None:
        if os.geteuid() != 0:
            with tempfile.TemporaryDirectory() as folder:
                function(Path(folder))
            return
        with tempfile.TemporaryDirectory() as folder:
            os.chown(folder, NOBODY, NOBODY)
            pid = os.fork()
            if pid == 0:
                code = 1
                try:
                    os.setgroups([])
                    os.setgid(NOBODY)
                    os.setuid(NOBODY)
                    os.environ["HOME"] = folder
                    function(Path(folder))
                    code = 0
                except BaseException:
                    traceback.print_exc()
                finally:
                    os._exit(code)
            _, status = os.waitpid(pid, 0)
            assert status == 0, "see the output of the other user's process"

    return run


def make_world(root: Path, signer: Signer) -> World:
    """A world of its own below ``root``, in which ``signer`` may sign every phase."""
    key = TrustedKey.of(signer.public_key, predicate_types=tuple(PREDICATES.values()))
    clock = Clock()
    run_dir = root / "runs" / "r1"
    run_dir.mkdir(parents=True)
    run_dir.chmod(0o700)
    return World(
        signer=signer,
        trust=Trust(root / "trust.json", "sha256:" + "0" * 64, (key,)),
        ledger=Ledger(root / "state" / "ledger.jsonl", clock=clock),
        clock=clock,
        run_dir=run_dir,
    )


@pytest.fixture
def world(tmp_path: Path, make_signer: Callable[..., Any]) -> World:
    return make_world(tmp_path, make_signer())
