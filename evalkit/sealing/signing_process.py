"""The process that holds the signing key, and nothing else.

It is started by `evalkit.sealing.signer.HelperSigner`, asks for the passphrase itself, and then
answers requests on standard input and output until the input ends.  It signs DSSE pre-authentication
encodings only, so that the key cannot be lent to another protocol through it.

Frames: four bytes big-endian length, then the content.  An answer begins with 0 (then the public
key, at the start, or a signature) or 1 (then a JSON object with what, where, expected, do).
"""

from __future__ import annotations

import json
import struct
import sys
from pathlib import Path
from typing import IO

from evalkit.errors import EvalkitError
from evalkit.sealing.keys import load_signing_key, public_part
from evalkit.sealing.terminal import ask_passphrase

MAX_FRAME = 96 * 1024 * 1024
PAE_PREFIX = b"DSSEv1 "
_TRIES = 3


def read_frame(stream: IO[bytes]) -> bytes | None:
    """The next frame, or None at the end of the input; ValueError for half a frame."""
    head = stream.read(4)
    if not head:
        return None
    if len(head) < 4:
        raise ValueError("the stream ends within a length")
    (size,) = struct.unpack(">I", head)
    if size > MAX_FRAME:
        raise ValueError("the frame is too long")
    content = stream.read(size)
    if len(content) < size:
        raise ValueError("the stream ends within a frame")
    return content


def write_frame(stream: IO[bytes], content: bytes) -> None:
    stream.write(struct.pack(">I", len(content)) + content)
    stream.flush()


def serve(key_path: Path, requests: IO[bytes], answers: IO[bytes], *, prompt: str = "Passphrase") -> None:
    """Open the key, then sign until ``requests`` ends."""
    try:
        _public, encrypted = public_part(key_path)
        key, said = None, ""
        for tries_left in range(_TRIES - 1, -1, -1):
            passphrase = ask_passphrase(f"{said}{prompt} for {key_path}: ") if encrypted else None
            try:
                key = load_signing_key(key_path, passphrase)
                break
            except EvalkitError:
                if not encrypted or not tries_left:
                    raise
                said = "This passphrase does not open the key; try again.\n"
        assert key is not None
    except EvalkitError as error:
        _answer_error(answers, error)
        return
    write_frame(answers, b"\0" + key.public_key().public_bytes_raw())
    while (message := read_frame(requests)) is not None:
        if message.startswith(PAE_PREFIX):
            write_frame(answers, b"\0" + key.sign(message))
        else:
            _answer_error(answers, EvalkitError("this key signs DSSE envelopes only", do="use evalkit.sign"))


def _answer_error(answers: IO[bytes], error: EvalkitError) -> None:
    parts = {"what": error.what, "where": error.where, "expected": error.expected, "do": error.do}
    write_frame(answers, b"\1" + json.dumps(parts).encode())


def forbid_inspection() -> None:
    """No core dump, and on Linux no debugger of the same user, may read the key from memory."""
    import ctypes
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        pr_set_dumpable = 4
        ctypes.CDLL(None).prctl(pr_set_dumpable, 0, 0, 0, 0)


def main() -> None:
    forbid_inspection()
    try:
        serve(Path(sys.argv[1]), sys.stdin.buffer, sys.stdout.buffer, prompt=sys.argv[2])
    except KeyboardInterrupt:
        sys.exit(130)  # Ctrl-C at the terminal reaches this process too, and is no defect
