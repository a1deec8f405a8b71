"""Sealed packets: they open to what was committed, for the right key, run and kind, and tell nothing."""

from __future__ import annotations

import copy
import json
import pickle
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import CanonicalError, Opening, SealedPacket, canonical_json, digest
from evalkit.sealing.packet import (
    HPKE_OVERHEAD,
    LARGEST_BUCKET,
    SALT_BYTES,
    SMALLEST_BUCKET,
    _info,
    _suite,
    bucket_for,
    commitment,
)

KEY = X25519PrivateKey.generate()
PUBLIC = KEY.public_key().public_bytes_raw()
PAYLOAD = canonical_json({"outcome": "SENTINEL", "rows": [1, 2.5]})


def sealed(payload: bytes = PAYLOAD, **fields: Any) -> SealedPacket:
    return SealedPacket.seal(payload, **({"kind": "part-b", "run_id": "r1", "recipient": PUBLIC} | fields))


def refused(action: Any, match: str) -> None:
    with pytest.raises(BindingError, match=match) as caught:
        action()
    assert caught.value.binding is Binding.SEALED_PACKET
    assert caught.value.where
    assert "SENTINEL" not in str(caught.value)


def forged(plaintext: bytes, committed: str, **names: str) -> SealedPacket:
    """A packet around any plaintext, as somebody with the public key could make it."""
    info = _info(names.get("run_id", "r1"), names.get("kind", "part-b"))
    ciphertext = _suite().encrypt(plaintext, KEY.public_key(), info=info)
    return SealedPacket("part-b", "r1", len(plaintext), committed, digest(ciphertext), ciphertext)


def test_round_trip_through_the_record() -> None:
    packet = sealed()
    record = json.loads(canonical_json(packet.record()))
    again = SealedPacket.from_record(record, packet.ciphertext, "r1")
    assert again == packet
    assert again.open(KEY) == PAYLOAD
    opening = again.reveal(KEY)
    again.check_opening(opening)
    assert commitment(opening.payload, opening.salt) == packet.commitment


@given(
    st.dictionaries(st.text(st.characters(max_codepoint=0x4FF), max_size=20), st.integers(0, 9), max_size=50)
)
@settings(max_examples=40, deadline=None)
def test_round_trip_of_any_payload(value: dict[str, int]) -> None:
    assert sealed(canonical_json(value)).open(KEY) == canonical_json(value)


# --- binding -------------------------------------------------------------------------------------


def test_commitment_is_salted_as_documented() -> None:
    salt = bytes(range(32))
    expected = sha256(b"evalkit/commit/v1\0" + salt + PAYLOAD).hexdigest()
    assert sealed(salt=salt).commitment == f"sha256:{expected}"
    with pytest.raises(EvalkitError, match="salt"):
        sealed(salt=b"short")


def test_outcome_brute_force_finds_nothing(shared_data: Path) -> None:
    """An unsalted digest of a mapping falls to three guesses; the commitment does not."""
    case = json.loads((shared_data / "sealing/evalkit_own/commitment_bruteforce.json").read_text())
    guesses = {
        digest(canonical_json(shape(name)))
        for name in case["candidates"]
        for shape in (str, lambda n: {"outcome": n}, lambda n: {"mapping": n}, lambda n: [n])
    }
    packets = [sealed(canonical_json(name)) for name in case["candidates"] for _ in range(2)]
    assert len({packet.commitment for packet in packets}) == len(packets)
    assert not guesses & {packet.commitment for packet in packets}
    assert digest(canonical_json("s1")) in guesses


def test_mapping_rewrite_one_packet_two_plaintexts() -> None:
    """A new ciphertext for another content does not meet the old commitment."""
    first = sealed()
    salt = first.reveal(KEY).salt
    other = canonical_json({"outcome": "other"})
    plaintext = (salt + len(other).to_bytes(8, "big") + other).ljust(4096, b"\0")
    refused(lambda: forged(plaintext, first.commitment).open(KEY), "not the one that was committed")
    refused(lambda: first.check_opening(Opening(other, salt)), "not the one that was committed")
    refused(lambda: first.check_opening(Opening(PAYLOAD, bytes(32))), "not the one that was committed")


def test_another_ciphertext_than_the_committed_one() -> None:
    record = sealed().record()
    refused(
        lambda: SealedPacket.from_record(record, sealed().ciphertext, "r1"), "not the one that was committed"
    )


def test_two_keys() -> None:
    refused(lambda: sealed().open(X25519PrivateKey.generate()), "does not open")


@pytest.mark.parametrize("names", [{"run_id": "r2"}, {"kind": "mapping"}])
def test_a_packet_opens_in_its_own_run_and_role_only(names: dict[str, str]) -> None:
    salt = bytes(32)
    plaintext = (salt + len(PAYLOAD).to_bytes(8, "big") + PAYLOAD).ljust(4096, b"\0")
    assert forged(plaintext, commitment(PAYLOAD, salt)).open(KEY) == PAYLOAD
    refused(lambda: forged(plaintext, commitment(PAYLOAD, salt), **names).open(KEY), "does not open")


def test_info_is_length_prefixed() -> None:
    assert _info("ab", "c") != _info("a", "bc")
    assert _info("r1", "part-b").startswith((24).to_bytes(4, "big") + b"evalkit/sealed-packet/v1")


@pytest.mark.parametrize("position", [0, 31, 32, 100, 4096 + 47])
def test_a_changed_byte_does_not_open(position: int) -> None:
    packet = sealed()
    changed = bytearray(packet.ciphertext)
    changed[position] ^= 1
    refused(
        lambda: SealedPacket.from_record(
            packet.record() | {"ciphertext_digest": digest(bytes(changed))}, bytes(changed), "r1"
        ).open(KEY),
        "does not open",
    )


def test_padding_holds_no_hidden_content() -> None:
    salt = bytes(32)
    whole = salt + len(PAYLOAD).to_bytes(8, "big") + PAYLOAD
    refused(lambda: forged(whole.ljust(4095, b"\0") + b"x", commitment(PAYLOAD, salt)).open(KEY), "padding")
    too_long = salt + (10**9).to_bytes(8, "big") + PAYLOAD
    refused(lambda: forged(too_long.ljust(4096, b"\0"), commitment(PAYLOAD, salt)).open(KEY), "padding")


def test_payload_must_be_canonical() -> None:
    loose = b'{"a": "SENTINEL"}'
    with pytest.raises(CanonicalError):
        sealed(loose)
    salt = bytes(32)
    plaintext = (salt + len(loose).to_bytes(8, "big") + loose).ljust(4096, b"\0")
    refused(lambda: forged(plaintext, commitment(loose, salt)).open(KEY), "not canonical")
    with pytest.raises(BindingError) as caught:
        forged(plaintext, commitment(loose, salt)).open(KEY)
    assert caught.value.__context__ is None  # no inner error that would carry the content along


# --- hiding --------------------------------------------------------------------------------------


def test_buckets_are_powers_of_four() -> None:
    assert [bucket_for(n) for n in (0, 4056, 4057, 16344, 16345)] == [4096, 4096, 16384, 16384, 65536]
    assert bucket_for(10, 5000) == 16384
    with pytest.raises(EvalkitError, match="too large"):
        bucket_for(2**30)


def test_ciphertext_length_does_not_tell_the_branch() -> None:
    short, long = sealed(b'"s1"'), sealed(canonical_json("x" * 4000))
    assert len(short.ciphertext) == len(long.ciphertext) == 4096 + HPKE_OVERHEAD
    larger = sealed(canonical_json("x" * 5000))
    assert len(sealed(b'"s1"', minimum_bucket=larger.bucket).ciphertext) == len(larger.ciphertext)


def test_no_plaintext_on_the_object() -> None:
    """Pickle or vars() of a "redacted" object: there is nothing in it."""
    packet = sealed()
    assert b"SENTINEL" not in repr(vars(packet)).encode()
    assert "ciphertext=" not in repr(packet)
    for thing in (packet, packet.reveal(KEY)):
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not pickled"):
                copier(thing)
    assert "SENTINEL" not in repr(packet.reveal(KEY))
    packet.open(KEY)
    assert b"SENTINEL" not in repr(vars(packet)).encode()


def test_salts_are_fresh() -> None:
    assert len({sealed().reveal(KEY).salt for _ in range(10)}) == 10
    assert len(sealed().reveal(KEY).salt) == SALT_BYTES


# --- malformed -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"bucket": 5000},
        {"bucket": 16384},
        {"bucket": -1},
        {"bucket": 4096.5},
        {"bucket": True},
        {"bucket": 4**40},
        {"kind": "Part B"},
        {"kind": None},
        {"commitment": "sha256:0"},
        {"ciphertext_digest": None},
        {"more": 1},
    ],
)
def test_malformed_records_are_refused(change: dict[str, Any]) -> None:
    packet = sealed()
    refused(lambda: SealedPacket.from_record(packet.record() | change, packet.ciphertext, "r1"), ".")


def test_truncation() -> None:
    packet = sealed()
    for length in (0, 31, 48, 4096, 4096 + 47):
        cut = packet.ciphertext[:length]
        refused(
            lambda cut=cut: SealedPacket.from_record(
                packet.record() | {"ciphertext_digest": digest(cut)}, cut, "r1"
            ),
            "another length",
        )


@pytest.mark.parametrize("recipient", [b"", bytes(31), bytes(32), b"\x01" + bytes(31)])
def test_nothing_is_sealed_to_a_key_that_everybody_has(recipient: bytes) -> None:
    with pytest.raises(EvalkitError, match="nothing can be sealed"):
        sealed(recipient=recipient)


def test_the_largest_bucket_is_a_bucket() -> None:
    """The refusal is of the length of the ciphertext, and comes without 64 MiB of it."""
    record = {
        "kind": "mapping",
        "bucket": LARGEST_BUCKET,
        "commitment": "sha256:" + "0" * 64,
        "ciphertext_digest": "sha256:" + "0" * 64,
    }
    for bucket, match in (
        (LARGEST_BUCKET, "another length than its bucket"),
        (LARGEST_BUCKET + 1, "is not a bucket"),
        (SMALLEST_BUCKET, "another length than its bucket"),
        (SMALLEST_BUCKET - 1, "is not a bucket"),
    ):
        with pytest.raises(BindingError, match=match):
            SealedPacket.from_record(record | {"bucket": bucket}, b"", "r-1")
