"""Asking for a passphrase: at the controlling terminal or not at all.

A passphrase that comes as a parameter ends in shell histories and notebook metadata, one from the
environment in every child process, and one from standard input in a pipe that somebody else may
write.  So this opens ``/dev/tty`` itself, unlike ``getpass``, which falls back to standard input.
"""

from __future__ import annotations

import os
import termios

from evalkit.errors import EvalkitError
from evalkit.sealing.files import write_all

TERMINAL = "/dev/tty"
_LONGEST = 1024


class NoTerminal(EvalkitError):
    """There is nobody to ask."""


def ask_passphrase(prompt: str, *, terminal: str = TERMINAL) -> bytes:
    """One line typed at the terminal without echo; `NoTerminal` where there is none."""
    try:
        fd = os.open(terminal, os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:
        raise NoTerminal(
            "a passphrase is needed and there is no terminal to ask for it",
            where=terminal,
            expected="a terminal, or a key that ssh-agent holds",
            do="run evalkit in a terminal, or add the key with ssh-add first",
        ) from None
    try:
        before = termios.tcgetattr(fd)
        quiet = before[:]
        quiet[3] &= ~(termios.ECHO | termios.ECHONL)
        try:
            termios.tcsetattr(fd, termios.TCSAFLUSH, quiet)
            write_all(fd, prompt.encode())
            line = _line(fd)
        finally:
            termios.tcsetattr(fd, termios.TCSAFLUSH, before)
            write_all(fd, b"\n")
    finally:
        os.close(fd)
    return line


def _line(fd: int) -> bytes:
    typed = b""
    while not typed.endswith(b"\n"):
        part = os.read(fd, _LONGEST)
        typed += part
        if not part or len(typed) > _LONGEST:
            raise EvalkitError(
                "the passphrase was not entered",
                expected=f"one line of at most {_LONGEST} bytes",
                do="try again",
            )
    return typed.removesuffix(b"\n")
