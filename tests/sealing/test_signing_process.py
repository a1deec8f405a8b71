"""The frames between a signer and its process, byte by byte, and what the process answers."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from evalkit.errors import EvalkitError
from evalkit.sealing import create_signing_key, pae, signing_process
from evalkit.sealing.signing_process import MAX_FRAME, read_frame, serve, write_frame


def frames(data: bytes) -> list[bytes]:
    stream = io.BytesIO(data)
    return list(iter(lambda: read_frame(stream), None))


def test_frames() -> None:
    stream = io.BytesIO()
    for content in (b"", b"a", b"b" * 300):
        write_frame(stream, content)
    assert stream.getvalue() == b"\0\0\0\0" + b"\0\0\0\1a" + b"\0\0\1\x2c" + b"b" * 300
    assert frames(stream.getvalue()) == [b"", b"a", b"b" * 300]


@pytest.mark.parametrize("length", range(1, 6))
def test_half_a_frame_is_an_error_and_no_end(length: int) -> None:
    with pytest.raises(ValueError, match="the stream ends within"):
        frames(b"\0\0\0\2ab"[:length])


def test_a_frame_that_claims_too_much_is_not_waited_for() -> None:
    assert MAX_FRAME == 96 * 1024 * 1024  # an envelope of 64 MiB as base64, and room
    with pytest.raises(ValueError, match="too long"):
        frames((MAX_FRAME + 1).to_bytes(4, "big"))
    with pytest.raises(ValueError, match="ends within a frame"):
        frames(MAX_FRAME.to_bytes(4, "big"))


def test_what_the_process_answers(tmp_path: Path) -> None:
    public = create_signing_key(tmp_path / "key")
    message, requests, answers = pae("x", b"{}"), io.BytesIO(), io.BytesIO()
    for request in (message, b"DSSEv1", b"x" + message, message):
        write_frame(requests, request)
    requests.seek(0)
    serve(tmp_path / "key", requests, answers)
    hello, first, refused, again, last = frames(answers.getvalue())
    assert hello == b"\0" + public
    for signature in (first, last):
        assert signature[:1] == b"\0"
        Ed25519PublicKey.from_public_bytes(public).verify(signature[1:], message)
    for answer in (refused, again):
        assert answer[:1] == b"\1"
        assert json.loads(answer[1:])["what"] == "this key signs DSSE envelopes only"


@pytest.mark.parametrize("right_at", [1, 2, 3, None])
def test_a_passphrase_may_be_wrong_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, right_at: int | None
) -> None:
    """With the 100 rounds of the product each guess takes half a second; one round is enough here."""
    monkeypatch.setattr("evalkit.sealing.keys.BCRYPT_ROUNDS", 1)
    public = create_signing_key(tmp_path / "key", b"right")
    asked: list[str] = []

    def ask(prompt: str) -> bytes:
        asked.append(prompt)
        return b"right" if len(asked) == right_at else b"wrong"

    monkeypatch.setattr(signing_process, "ask_passphrase", ask)
    answers = io.BytesIO()
    serve(tmp_path / "key", io.BytesIO(), answers)
    (answer,) = frames(answers.getvalue())
    assert len(asked) == (right_at or 3)
    assert all(prompt.endswith(f"Passphrase for {tmp_path / 'key'}: ") for prompt in asked)
    assert all("does not open the key" in prompt for prompt in asked[1:])
    if right_at is None:
        assert json.loads(answer[1:])["what"] == "the signing key does not open"
    else:
        assert answer == b"\0" + public


def test_an_error_crosses_with_all_its_parts(tmp_path: Path) -> None:
    answers = io.BytesIO()
    with pytest.raises(EvalkitError) as direct:
        signing_process.public_part(tmp_path / "none")
    serve(tmp_path / "none", io.BytesIO(), answers)
    (answer,) = frames(answers.getvalue())
    error = direct.value
    assert answer[:1] == b"\1"
    assert json.loads(answer[1:]) == {
        "what": error.what,
        "where": error.where,
        "expected": error.expected,
        "do": error.do,
    }
