"""A promise that is kept by force: while it holds, this process opens no network connection.

It rests on Python's audit events (PEP 578), which the socket module raises before it connects, looks a
name up or sends.  It binds this process's own Python code; it is no sandbox for hostile code.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from evalkit.errors import EvalkitError

_EVENTS = frozenset(
    f"socket.{name}"
    for name in (
        "bind",
        "connect",
        "getaddrinfo",
        "gethostbyaddr",
        "gethostbyname",
        "getnameinfo",
        "sendmsg",
        "sendto",
    )
)
_depth = 0
_installed = False


def _audit(event: str, _arguments: tuple[Any, ...]) -> None:
    if _depth and event in _EVENTS:
        raise EvalkitError(
            f"something tried to use the network ({event})",
            where="--offline",
            expected="a verification from files only",
            do="report it: verify needs no network",
        )


@contextmanager
def no_network(wanted: bool = True) -> Iterator[None]:
    """Refuse the network inside the block, if ``wanted``; `EvalkitError` where something tries."""
    global _depth, _installed
    if not wanted:
        yield
        return
    if not _installed:  # an audit hook cannot be taken away again
        sys.addaudithook(_audit)
        _installed = True
    _depth += 1
    try:
        yield
    finally:
        _depth -= 1
