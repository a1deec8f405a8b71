"""Any single changed byte of a run is refused, by reveal or by verify (model-transparency's fuzzing)."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.decisions import reveal, verify_run
from evalkit.decisions.calibration import _check_journal
from evalkit.decisions.chain import load_trust, open_evidence, open_ex_ante, open_plan
from evalkit.decisions.openings import sealed_packets
from evalkit.decisions.releasable import refuse_blocked
from evalkit.decisions.settling import settle
from evalkit.errors import BindingError

from .support import World

pytestmark = pytest.mark.usefixtures("quick_signer")


def files_of(world: World) -> list[Path]:
    return sorted(p for p in world.run.rglob("*") if p.is_file() and p.name != "report.html")


@contextmanager
def changed(path: Path, at: int, bit: int) -> Iterator[None]:
    """The file with one bit turned, in place (same inode, mode and length), and whole again after."""
    fd = os.open(path, os.O_RDWR)
    try:
        old = os.pread(fd, 1, at)
        os.pwrite(fd, bytes([old[0] ^ (1 << bit)]), at)
        try:
            yield
        finally:
            os.pwrite(fd, old, at)
    finally:
        os.close(fd)


def everything_that_reveal_verifies(world: World) -> None:
    """All of `reveal` up to the unsealing key, and the ciphertexts, without starting a signing process."""
    opened = open_plan(world.run, load_trust(world.run, None, world.places))
    settle(world.run, opened, world.ledger)
    run = open_ex_ante(open_evidence(opened))
    _check_journal(run, world.ledger)
    refuse_blocked(run)
    sealed_packets(world.run, opened.plan)


def refuses(world: World) -> bool:
    try:
        verify_run(world.run, places=world.places)
        everything_that_reveal_verifies(world)
    except BindingError:
        return True
    return False


def fuzz(world: World, examples: int) -> None:
    names = files_of(world)
    assert len(names) > 15
    assert not refuses(world)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.data())
    def one(data: st.DataObject) -> None:
        path = data.draw(st.sampled_from(names))
        at = data.draw(st.integers(0, path.stat().st_size - 1))
        bit = data.draw(st.integers(0, 7))
        with changed(path, at, bit):
            assert refuses(world), f"{path.relative_to(world.run)}, byte {at}, bit {bit}"

    one()
    assert not refuses(world)


def test_any_changed_byte_is_refused(evaluated: World) -> None:
    fuzz(evaluated, 200)


@pytest.mark.slow
def test_any_of_many_changed_bytes_is_refused(evaluated: World) -> None:
    fuzz(evaluated, 2000)


@pytest.mark.slow
def test_any_changed_byte_after_the_reveal_is_refused(revealed: World) -> None:
    fuzz(revealed, 1000)


def test_every_byte_of_the_journals_last_line_counts(evaluated: World) -> None:
    """The tail is under no signature of its own: the hardest place."""
    path = evaluated.run / "journal.jsonl"
    size = path.stat().st_size
    last = len(path.read_bytes().splitlines()[-1]) + 1
    for at in range(size - last, size, 17):
        with changed(path, at, 0):
            assert refuses(evaluated), at


def test_a_file_cut_at_any_length_is_refused(evaluated: World) -> None:
    for path in files_of(evaluated):
        if path.name == "journal.jsonl":
            continue  # its owner restores it: see test_tampering
        data = path.read_bytes()
        for size in (0, 1, len(data) // 2, len(data) - 1):
            os.truncate(path, size)
            assert refuses(evaluated), (path, size)
            fd = os.open(path, os.O_WRONLY | os.O_TRUNC)
            os.write(fd, data)
            os.close(fd)
    assert not refuses(evaluated)


def test_reveal_itself_refuses_what_was_checked_here(evaluated: World) -> None:
    """`everything_that_reveal_verifies` stands for `reveal`; here the real one, once for each file."""
    for path in files_of(evaluated):
        with changed(path, path.stat().st_size // 2, 1), pytest.raises(BindingError):
            reveal(evaluated.run, write_calibration=True, places=evaluated.places)
        assert not (evaluated.run / "reveal").exists()
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)
