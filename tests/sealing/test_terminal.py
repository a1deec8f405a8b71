"""Asking at a terminal: one line, not echoed, and the terminal is as it was before."""

from __future__ import annotations

import contextlib
import os
import pty
import termios
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing import ask_passphrase
from evalkit.sealing.terminal import TERMINAL, _line


@contextlib.contextmanager
def typed(text: bytes) -> Iterator[int]:
    read, write = os.pipe()
    try:
        os.write(write, text)
        os.close(write)
        yield read
    finally:
        os.close(read)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (b"a b\n", b"a b"),
        (b"\n", b""),
        (b"x\r\n", b"x\r"),
        (b"y" * 1023 + b"\n", b"y" * 1023),
        (b"\n\n", b"\n"),
    ],
)
def test_one_line(text: bytes, line: bytes) -> None:
    with typed(text) as fd:
        assert _line(fd) == line


@pytest.mark.parametrize("text", [b"", b"no end", b"y" * 1024 + b"\n", b"y" * 5000 + b"\n"])
def test_no_line_is_no_passphrase(text: bytes) -> None:
    with typed(text) as fd, pytest.raises(EvalkitError, match="not entered"):
        _line(fd)


def test_the_terminal_is_the_controlling_one() -> None:
    assert TERMINAL == "/dev/tty"


def test_nothing_is_echoed_and_the_terminal_is_given_back() -> None:
    ours, theirs = pty.openpty()
    try:
        before = termios.tcgetattr(theirs)
        before[3] |= termios.ECHO | termios.ECHONL
        termios.tcsetattr(theirs, termios.TCSANOW, before)
        during: list[int] = []

        def type_it() -> None:
            assert os.read(ours, 100) == b"Who? "
            during.append(termios.tcgetattr(theirs)[3])
            os.write(ours, b"correct horse\n")

        person = threading.Thread(target=type_it)
        person.start()
        assert ask_passphrase("Who? ", terminal=os.ttyname(theirs)) == b"correct horse"
        person.join()
        assert os.read(ours, 100) == b"\r\n"
        assert not during[0] & (termios.ECHO | termios.ECHONL)
        assert during[0] & termios.ICANON
        assert termios.tcgetattr(theirs) == before
    finally:
        os.close(ours)
        os.close(theirs)


def test_no_terminal(tmp_path: Path) -> None:
    with pytest.raises(EvalkitError, match="no terminal") as caught:
        ask_passphrase("Who? ", terminal=str(tmp_path / "tty"))
    assert caught.value.where == str(tmp_path / "tty")
