"""Sealed packets: content that is fixed now and read later.

A packet does two things at once.  It *hides*: HPKE (RFC 9180, base mode, X25519 / HKDF-SHA256 /
ChaCha20-Poly1305) to one recipient, padded so that its length tells no branch from another.  It
*binds*: a salted commitment, published beside the ciphertext, that admits one content only.  The
cipher alone would not bind, since one ciphertext can be made to open under two keys to two texts.

Rules
1. commitment = sha256("evalkit/commit/v1\\0" ‖ salt ‖ payload), salt = 32 random bytes that travel
   inside the packet.  Without the salt a few guesses would find an outcome from its digest.
2. plaintext = salt ‖ payload length (8 bytes, big-endian) ‖ payload ‖ zeros, as long as the bucket.
3. Buckets are powers of four from 4 KiB on (4096, 16384, 65536, ...).
4. ``info`` = domain, run id and kind, each with its length before it: a packet opens only in its
   own run and role.
5. The payload is canonical JSON.  The object holds no plaintext and cannot be pickled.

Who keeps the key decides whether anything is hidden; see custody in docs/formats/sealed-packet.md.
"""

from __future__ import annotations

import hmac
import re
import secrets
import struct
from dataclasses import dataclass, field
from hashlib import sha256
from typing import TYPE_CHECKING, Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import CanonicalError, digest, load_canonical
from evalkit.sealing.places import check_run_id

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
    from cryptography.hazmat.primitives.hpke import Suite

DOMAIN = b"evalkit/sealed-packet/v1"
COMMIT_DOMAIN = b"evalkit/commit/v1\0"
SMALLEST_BUCKET = 4096
LARGEST_BUCKET = SMALLEST_BUCKET * 4**7
SALT_BYTES = 32
HPKE_OVERHEAD = 48  # the encapsulated key (32) and the tag (16)
_LENGTH = struct.Struct(">Q")
_KIND = re.compile(r"[a-z][a-z0-9-]{0,63}")
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")
_FIELDS = frozenset(("kind", "bucket", "commitment", "ciphertext_digest"))


def commitment(payload: bytes, salt: bytes) -> str:
    """The salted commitment to ``payload`` (rule 1)."""
    if len(salt) != SALT_BYTES:
        raise EvalkitError(f"a salt of {len(salt)} bytes", expected=f"{SALT_BYTES} bytes")
    return "sha256:" + sha256(COMMIT_DOMAIN + salt + payload).hexdigest()


def bucket_for(size: int, minimum: int = 0) -> int:
    """The smallest bucket that holds a payload of ``size`` bytes and is at least ``minimum``."""
    needed = max(size + SALT_BYTES + _LENGTH.size, minimum)
    bucket = SMALLEST_BUCKET
    while bucket < needed:
        bucket *= 4
    if bucket > LARGEST_BUCKET:
        raise EvalkitError(
            f"a sealed packet of {size} bytes is too large",
            expected=f"at most {LARGEST_BUCKET - SALT_BYTES - _LENGTH.size} bytes",
            do="seal a digest and keep the content apart",
        )
    return bucket


@dataclass(frozen=True)
class Opening:
    """What anybody needs to check a commitment after the reveal: the payload and its salt."""

    payload: bytes = field(repr=False)
    salt: bytes = field(repr=False)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an opened packet is not pickled: write its parts where they belong")


@dataclass(frozen=True)
class SealedPacket:
    """A ciphertext and what was published about it."""

    kind: str
    run_id: str
    bucket: int
    commitment: str
    ciphertext_digest: str
    ciphertext: bytes = field(repr=False)

    def __post_init__(self) -> None:
        check_run_id(self.run_id)
        if type(self.kind) is not str or not _KIND.fullmatch(self.kind):
            raise EvalkitError(f"{self.kind!a} is not a packet kind", expected="a lowercase ASCII word")
        if self.bucket != bucket_for(0, self.bucket) or len(self.ciphertext) != self.bucket + HPKE_OVERHEAD:
            _refuse("the packet has another length than its bucket", self.kind, "bucket + 48 bytes")
        if digest(self.ciphertext) != self.ciphertext_digest:
            _refuse("the sealed file is not the one that was committed", self.kind, self.ciphertext_digest)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a sealed packet is not pickled: store its record and its ciphertext")

    @classmethod
    def seal(
        cls,
        payload: bytes,
        *,
        kind: str,
        run_id: str,
        recipient: bytes,
        minimum_bucket: int = 0,
        salt: bytes | None = None,
    ) -> SealedPacket:
        """Seal canonical JSON to the X25519 public key ``recipient`` (32 raw bytes).

        Packets that must not be told apart by size share a ``minimum_bucket``.  ``salt`` is for
        reproducing a packet in a test; leave it out.
        """
        from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

        load_canonical(payload)
        salt = secrets.token_bytes(SALT_BYTES) if salt is None else salt
        committed = commitment(payload, salt)
        bucket = bucket_for(len(payload), minimum_bucket)
        plaintext = (salt + _LENGTH.pack(len(payload)) + payload).ljust(bucket, b"\0")
        try:
            public = X25519PublicKey.from_public_bytes(recipient)
            ciphertext = _suite().encrypt(plaintext, public, info=_info(run_id, kind))
        except ValueError:
            # 32 bytes of small order give a shared secret that everybody knows (RFC 7748 section 6.1).
            raise EvalkitError(
                "nothing can be sealed to this key",
                where=f"packet {kind}",
                expected="the 32 raw bytes of an X25519 public key",
                do="make one with evalkit keys init",
            ) from None
        return cls(kind, run_id, bucket, committed, digest(ciphertext), ciphertext)

    def record(self) -> dict[str, Any]:
        """What the plan publishes about the packet."""
        return {
            "kind": self.kind,
            "bucket": self.bucket,
            "commitment": self.commitment,
            "ciphertext_digest": self.ciphertext_digest,
        }

    @classmethod
    def from_record(cls, record: Any, ciphertext: bytes, run_id: str) -> SealedPacket:
        """The packet of a published record, whose digest the ciphertext must have."""
        if type(record) is not dict or set(record) != _FIELDS:
            _refuse("the packet's record has missing or unknown fields", "packet", ", ".join(sorted(_FIELDS)))
        kind, bucket = record["kind"], record["bucket"]
        if type(kind) is not str or not _KIND.fullmatch(kind) or type(bucket) is not int:
            _refuse("the packet's record is malformed", "packet", "kind as a word, bucket as a number")
        if not SMALLEST_BUCKET <= bucket <= LARGEST_BUCKET:
            _refuse(f"{bucket} is not a bucket", kind, "a power of four from 4096 on")
        for name in ("commitment", "ciphertext_digest"):
            if type(record[name]) is not str or not _DIGEST.fullmatch(record[name]):
                _refuse(f"{name} is not a digest", kind, "sha256: and 64 hex digits")
        return cls(kind, run_id, bucket, record["commitment"], record["ciphertext_digest"], bytes(ciphertext))

    def open(self, private_key: X25519PrivateKey) -> bytes:
        """The payload, once everything about it holds; else `BindingError` ``sealed-packet``."""
        return self.reveal(private_key).payload

    def reveal(self, private_key: X25519PrivateKey) -> Opening:
        """The payload with its salt, for publication in a reveal."""
        from cryptography.exceptions import InvalidTag

        try:
            plaintext = _suite().decrypt(self.ciphertext, private_key, info=_info(self.run_id, self.kind))
        except (InvalidTag, ValueError):
            _refuse("the packet does not open", self.kind, "the key, the run and the kind it was sealed for")
        salt, rest = plaintext[:SALT_BYTES], plaintext[SALT_BYTES:]
        (size,) = _LENGTH.unpack(rest[: _LENGTH.size])
        payload, padding = rest[_LENGTH.size :][:size], rest[_LENGTH.size :][size:]
        if len(plaintext) != self.bucket or len(payload) != size or padding.strip(b"\0"):
            _refuse("the packet's padding is not what evalkit writes", self.kind, "zeros up to the bucket")
        opening = Opening(payload, salt)
        self.check_opening(opening)
        return opening

    def check_opening(self, opening: Opening) -> None:
        """Raise where the opening is not what was committed.  Needs no key."""
        found = commitment(opening.payload, opening.salt)
        if not hmac.compare_digest(found, self.commitment):
            _refuse("the content is not the one that was committed", self.kind, self.commitment)
        try:
            load_canonical(opening.payload)
        except CanonicalError:
            # Neither the cause nor its place: both could show the content in a traceback.
            opened_badly = True
        else:
            opened_badly = False
        if opened_badly:
            _refuse("the content is not canonical JSON", self.kind, "canonical JSON")


def _info(run_id: str, kind: str) -> bytes:
    parts = (DOMAIN, check_run_id(run_id).encode(), kind.encode())
    return b"".join(struct.pack(">I", len(part)) + part for part in parts)


def _suite() -> Suite:
    from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

    return Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)


def _refuse(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.SEALED_PACKET,
        what,
        where=f"packet {where}",
        expected=expected,
        do="restore the packet and its record as they were sealed",
    ) from None
