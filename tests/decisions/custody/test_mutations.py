"""Any changed byte of a request or an opening is refused: nothing in them is beyond a signature."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.decisions.calibration import read_opening
from evalkit.decisions.chain import load_trust, open_evidence, open_ex_ante, open_plan
from evalkit.decisions.openings import published
from evalkit.errors import EvalkitError

from .people import Two


@contextlib.contextmanager
def changed(path: Path, at: int, byte: int) -> object:
    """The file with another byte at one place, and whole again after."""
    data = path.read_bytes()
    path.write_bytes(data[:at] + bytes([byte]) + data[at + 1 :])
    try:
        yield
    finally:
        path.write_bytes(data)


def fuzz(path: Path, examples: int, refused: Callable[[], bool]) -> None:
    data = path.read_bytes()
    assert not refused()

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    @given(st.integers(0, len(data) - 1), st.integers(0, 255))
    def one(at: int, byte: int) -> None:
        if byte == data[at]:
            return
        with changed(path, at, byte):
            assert refused(), f"byte {at} as {byte}"

    one()
    # where the hints, digests and times stand: the beginning and the end of the file, every byte
    for at in [*range(60), *range(len(data) - 60, len(data))]:
        with changed(path, at, data[at] ^ 1):
            assert refused(), f"byte {at}"
    assert not refused()


def request_refused(two: Two) -> bool:
    """By the whole of `release`; what it writes where it accepts is taken away again."""
    try:
        two.answer()
    except EvalkitError:
        assert not two.opening.exists()
        return True
    two.opening.unlink()
    return False


def opening_refused(two: Two) -> Callable[[], bool]:
    """By all that `reveal` asks of an opening, of a run that was verified once."""
    opened = open_plan(two.run, load_trust(two.run, None, two.evaluator.places))
    run = open_ex_ante(open_evidence(opened))

    def refused() -> bool:
        try:
            published(two.run, opened.plan, read_opening(two.opening, run).openings)
        except EvalkitError:
            return True
        return False

    return refused


def test_any_changed_byte_of_a_request_is_refused(asked: Two) -> None:
    fuzz(asked.request, 60, lambda: request_refused(asked))
    assert len(asked.events("released")) == 1


def test_any_changed_byte_of_an_opening_is_refused(answered: Two) -> None:
    fuzz(answered.opening, 250, opening_refused(answered))
    answered.reveal()


@pytest.mark.slow
def test_any_of_many_changed_bytes_is_refused(asked: Two) -> None:
    fuzz(asked.request, 2000, lambda: request_refused(asked))
    asked.answer()
    fuzz(asked.opening, 4000, opening_refused(asked))


def test_the_small_parts_of_a_request_byte_by_byte(asked: Two) -> None:
    """Attestations and journal are small beside the rest, and chance seldom hits them: at every 97th byte."""
    data = asked.request.read_bytes()
    for name in (b'"ex-ante/run.dsse.json":"', b'"journal.jsonl":"', b'"plan.dsse.json":"'):
        start = data.index(name) + len(name)
        for at in range(start, data.index(b'"', start), 97):
            with changed(asked.request, at, ord("A") if data[at] != ord("A") else ord("B")):
                assert request_refused(asked), (name, at)
    assert asked.events("released") == []


@pytest.mark.parametrize("which", ["request", "opening"])
def test_a_file_cut_at_any_length_is_refused(answered: Two, which: str) -> None:
    path: Path = getattr(answered, which)
    data = path.read_bytes()
    refused = opening_refused(answered)
    if which == "request":
        answered.opening.unlink()
        refused = lambda: request_refused(answered)  # noqa: E731
    for size in (0, 1, 2, 100, len(data) // 2, len(data) - 2, len(data) - 1):
        os.truncate(path, size)
        assert refused(), size
        path.write_bytes(data)
