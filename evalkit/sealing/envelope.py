"""Signed statements: DSSE 1.0.2 around an in-toto Statement v1, in one strict form.

A verification runs in this order, and nothing of the payload is parsed before its signature holds:

1. The envelope is canonical JSON with exactly ``payload``, ``payloadType`` and one signature with
   exactly ``keyid`` and ``sig``; base64 is padded and canonical.  DSSE allows more; each freedom is
   a way to write one signature in several ways.
2. The signature is checked over the pre-authentication encoding of the decoded payload, with keys
   from the trust file only.  ``keyid`` decides which is tried first, never whether it counts.
3. Those same bytes are parsed: canonical, a Statement v1, one subject with one sha256.
4. Predicate type, subject name and run id must be the ones that the caller asks for, and the key
   must be pinned for them.
5. The key must have been valid when the predicate says that it was signed (``signed_at``; now, where
   it does not say): a key that ended since does not unmake what it signed.  But that time is the signer's own word.
   So where the key has ended, the result carries a caveat, and where the key is revoked, the
   signature counts only if a timestamp authority saw it before (``attested_at``).

The result is a `Verified`, which only `verify` can make.  The caller compares the subject, because
only the caller can say which part of it differs.

Errors: ``authority`` where the signer is not one that counts here; ``attestation`` where the
envelope is malformed, damaged, dated in the future, or says something else than what was asked.  A
keyid that names a pinned key while no pinned key verifies is damage (or a lie); an unpinned keyid
is a foreign signer.

Sources: secure-systems-lab/dsse protocol.md 1.0.2; in-toto/attestation spec v1.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import CanonicalError, canonical_json, digest, load_canonical
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.predicates import PREDICATES
from evalkit.sealing.signer import Signer
from evalkit.sealing.times import parse_signed, short_text, signed_text
from evalkit.sealing.trusted_key import TrustedKey

if TYPE_CHECKING:
    from evalkit.sealing.trust import Trust  # which itself reads envelopes, those of rotations

__all__ = ["PAYLOAD_TYPE", "PREDICATES", "STATEMENT_TYPE", "Verified", "pae", "sign", "verify"]

PAYLOAD_TYPE = "application/vnd.in-toto+json"
STATEMENT_TYPE = "https://in-toto.io/Statement/v1"
MAX_ENVELOPE = 64 * 1024 * 1024
_HEX64 = re.compile(r"[0-9a-f]{64}")
_ONLY_VERIFY = object()


@dataclass(frozen=True)
class Verified:
    """What a pinned key has signed.  Only `verify` makes one.

    ``payload`` is the statement as signed; `statement` and `predicate` are parsed from it anew each
    time, so a caller who changes them changes a copy.  ``hint`` is the keyid, which no signature covers.
    ``signed_at`` is the signer's own word, None where the predicate has none.  ``caveats`` lists what is not proven about this signature; each reads after "not proven:".
    """

    payload: bytes
    key: TrustedKey
    hint: str
    envelope_digest: str
    signed_at: datetime | None
    caveats: tuple[str, ...]
    _: KW_ONLY
    token: InitVar[object]

    def __post_init__(self, token: object) -> None:
        if token is not _ONLY_VERIFY:
            raise TypeError("a Verified comes from evalkit.sealing.verify only")

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Verified cannot be copied or pickled: verify the envelope again")

    @property
    def statement(self) -> dict[str, Any]:
        value: dict[str, Any] = load_canonical(self.payload)
        return value

    @property
    def predicate(self) -> dict[str, Any]:
        value: dict[str, Any] = self.statement["predicate"]
        return value

    @property
    def subject_name(self) -> str:
        return str(self.statement["subject"][0]["name"])

    @property
    def subject_digest(self) -> str:
        return f"sha256:{self.statement['subject'][0]['digest']['sha256']}"

    def check_subject(self, data: bytes) -> None:
        """Raise where ``data`` is not what was signed."""
        if digest(data) != self.subject_digest:
            raise BindingError(
                Binding.ATTESTATION,
                "the file is not the one that was signed",
                where=self.subject_name,
                expected=f"{self.subject_digest}, not {digest(data)}",
                do="restore the file that was attested",
            )


def pae(payload_type: str, payload: bytes) -> bytes:
    """DSSE's pre-authentication encoding: the bytes that are signed."""
    kind = payload_type.encode("utf-8")
    return b"DSSEv1 %d %s %d %s" % (len(kind), kind, len(payload), payload)


def sign(
    subject_name: str,
    subject: bytes,
    *,
    predicate_type: str,
    predicate: dict[str, Any],
    signer: Signer,
    at: datetime | None = None,
) -> bytes:
    """The envelope (canonical JSON) that binds ``subject`` to ``predicate`` under the signer's key.

    ``at`` (aware; now by default) becomes ``signed_at`` of the predicate, which may not say another.
    """
    if not predicate_type.startswith("https://"):
        raise ValueError(f"{predicate_type!r} is a name; pass its URI, PREDICATES[{predicate_type!r}]")
    signed_at = signed_text(at if at is not None else datetime.now(UTC))
    if predicate.get("signed_at", signed_at) != signed_at:
        raise ValueError(f"the predicate says signed_at = {predicate['signed_at']!r}, not {signed_at}")
    payload = canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [
                {"name": subject_name, "digest": {"sha256": digest(subject).removeprefix("sha256:")}}
            ],
            "predicateType": predicate_type,
            "predicate": predicate | {"signed_at": signed_at},
        }
    )
    message = pae(PAYLOAD_TYPE, payload)
    signature = signer.sign(message)
    # A signature that does not verify must not reach the disk, whoever computed it.
    if not _holds(signer.public_key, signature, message):
        raise BindingError(
            Binding.ATTESTATION,
            "the signer returned a signature that does not verify",
            where=signer.key_id,
            expected="an Ed25519 signature over the envelope",
            do="check the signer; nothing was written",
        )
    return canonical_json(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [{"keyid": signer.key_id, "sig": base64.b64encode(signature).decode()}],
        }
    )


@dataclass(frozen=True)
class Signed:
    """A statement with a signature that holds: whether it counts is still to be judged."""

    payload: bytes
    statement: dict[str, Any]
    key: TrustedKey
    hint: str
    signed_at: datetime | None


def verify(
    envelope: bytes,
    *,
    subject_name: str,
    predicate_type: str,
    trust: Trust,
    run_id: str | None = None,
    at: datetime | None = None,
    attested_at: datetime | None = None,
) -> Verified:
    """Check an envelope against pinned keys; see the module for order, rules and errors.

    With ``run_id`` the predicate must name that run: an old attestation cannot be replayed in
    another one.  ``at`` is the time of checking, now by default: nothing may be signed later than
    `CLOCK_TOLERANCE` after it.  ``attested_at`` is a time at which a pinned timestamp authority saw
    this very envelope; the caller has verified that.  Both carry a time zone.
    """
    now = at if at is not None else datetime.now(UTC)
    for moment in (now, attested_at):
        if moment is not None and moment.tzinfo is None:
            raise EvalkitError("a time without a time zone", expected="an aware datetime")
    signed = read_signed(
        envelope,
        keys=trust.keys,
        pinned_in=str(trust.path),
        subject_name=subject_name,
        predicate_type=predicate_type,
    )
    key, predicate = signed.key, signed.statement["predicate"]
    if run_id is not None and predicate.get("run_id") != run_id:
        _refuse(
            f"this attests another run ({predicate.get('run_id')!a})",
            where="predicate.run_id",
            expected=run_id,
        )
    # Other signers do not say when they signed: then the key must be good at the time of checking.
    stated = now if signed.signed_at is None else signed.signed_at
    if stated > now + CLOCK_TOLERANCE:
        _refuse(
            f"this says that it was signed at {signed_text(stated)}, which is still to come",
            where="predicate.signed_at",
            expected=f"a time up to now, {short_text(now)}",
        )
    objection = trust.objection(key, predicate_type, run_id, stated, attested_at=attested_at)
    if objection:
        raise BindingError(
            Binding.AUTHORITY,
            f"the key that signed this may not: {objection}",
            where=key.key_id,
            expected="a key that is pinned for this phase, run and time",
            do="check the key's entry in the trust file (evalkit keys list)",
        )
    return Verified(
        signed.payload,
        key,
        signed.hint,
        digest(envelope),
        signed.signed_at,
        _caveats(key, trust.end(key), stated, now, attested_at),
        token=_ONLY_VERIFY,
    )


def _caveats(
    key: TrustedKey,
    end: datetime | None,
    signed_at: datetime,
    now: datetime,
    attested_at: datetime | None,
) -> tuple[str, ...]:
    """What only the signer's own clock says about the time of a signature."""
    found = []
    # Whoever holds an ended key can still sign and write an older time.
    if end is not None and end <= now and not (attested_at is not None and attested_at < end):
        found.append(
            f"that {key.key_id} signed this before its validity ended on {short_text(end)}:"
            " only the signer's own clock says so"
        )
    if attested_at is not None and attested_at + CLOCK_TOLERANCE < signed_at:
        found.append(
            f"that this was signed at {short_text(signed_at)}, as it says: an authority saw it before that"
        )
    return tuple(found)


def read_signed(
    envelope: bytes,
    *,
    keys: Sequence[TrustedKey],
    pinned_in: str,
    subject_name: str,
    predicate_type: str,
) -> Signed:
    """Steps 1 to 4 of the module, but for run and rights: whose signature it is, and over what."""
    payload, signature, hint = _open(envelope)
    key = _signed_by(keys, pinned_in, hint, signature, pae(PAYLOAD_TYPE, payload))
    statement = _statement(payload)
    if statement["predicateType"] != predicate_type:
        _refuse(
            f"this attests another phase ({statement['predicateType']!a})",
            where="predicateType",
            expected=predicate_type,
        )
    if statement["subject"][0]["name"] != subject_name:
        _refuse(
            f"this attests another file ({statement['subject'][0]['name']!a})",
            where="subject",
            expected=subject_name,
        )
    predicate = statement["predicate"]
    signed_at = parse_signed(predicate.get("signed_at"))
    if signed_at is None and "signed_at" in predicate:
        _refuse(
            "this does not say when it was signed",
            where="predicate.signed_at",
            expected="UTC with microseconds, such as 2026-11-30T12:00:00.000000Z",
        )
    return Signed(payload, statement, key, hint, signed_at)


def _open(envelope: bytes) -> tuple[bytes, bytes, str]:
    """(payload, signature, keyid) of a well-formed envelope."""
    try:
        record = load_canonical(envelope, max_bytes=MAX_ENVELOPE)
    except CanonicalError as error:
        _refuse(f"the envelope does not parse: {error.what}", where=error.where, expected=error.expected)
    if type(record) is not dict or set(record) != {"payload", "payloadType", "signatures"}:
        _refuse("the envelope has missing or unknown fields", expected="payload, payloadType, signatures")
    if record["payloadType"] != PAYLOAD_TYPE:
        _refuse("the payload is of another type", where="payloadType", expected=PAYLOAD_TYPE)
    signatures = record["signatures"]
    if type(signatures) is not list or len(signatures) != 1:
        _refuse("the envelope has not exactly one signature", where="signatures", expected="one signature")
    entry = signatures[0]
    if type(entry) is not dict or set(entry) != {"keyid", "sig"} or type(entry["keyid"]) is not str:
        _refuse("the signature has missing or unknown fields", where="signatures[0]", expected="keyid, sig")
    signature = _base64(entry["sig"], "signatures[0].sig")
    if len(signature) != 64:
        _refuse(
            f"the signature has {len(signature)} bytes",
            where="signatures[0].sig",
            expected="64 bytes of Ed25519",
        )
    return _base64(record["payload"], "payload"), signature, entry["keyid"]


def _base64(text: Any, where: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True) if type(text) is str else None
    except (binascii.Error, UnicodeEncodeError):
        data = None
    # One value has several spellings for a lenient decoder: the unused bits of the last digit.
    if data is None or base64.b64encode(data).decode() != text:
        _refuse("this is not canonical base64", where=where, expected="RFC 4648 section 4, padded")
    return data


def _signed_by(
    keys: Sequence[TrustedKey], pinned_in: str, hint: str, signature: bytes, message: bytes
) -> TrustedKey:
    """The pinned key whose signature this is; the hinted one is tried first."""
    for key in sorted(keys, key=lambda key: key.key_id != hint):
        if _holds(key.public_key, signature, message):
            return key
    if any(key.key_id == hint for key in keys):
        _refuse(
            "the signature does not hold",
            where=f"key {hint}",
            expected="the signed bytes, unchanged, and that key's signature",
        )
    raise BindingError(
        Binding.AUTHORITY,
        "no pinned key made this signature",
        where=f"it claims the key {hint[:80]!a}",
        expected=f"one of the {len(keys)} keys in {pinned_in}",
        do="pin the key if you know whose it is; evalkit keys list shows what is pinned",
    )


def _holds(public_key: bytes, signature: bytes, message: bytes) -> bool:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

    try:
        Ed25519PublicKey.from_public_bytes(public_key).verify(signature, message)
    except InvalidSignature:
        return False
    return True


def _statement(payload: bytes) -> dict[str, Any]:
    try:
        statement = load_canonical(payload)
    except CanonicalError as error:
        _refuse(f"the payload does not parse: {error.what}", where=error.where, expected=error.expected)
    fields = {"_type", "subject", "predicateType", "predicate"}
    if type(statement) is not dict or set(statement) != fields:
        _refuse("the statement has missing or unknown fields", expected=", ".join(sorted(fields)))
    if statement["_type"] != STATEMENT_TYPE:
        _refuse("this is no Statement v1", where="_type", expected=STATEMENT_TYPE)
    if type(statement["predicateType"]) is not str or type(statement["predicate"]) is not dict:
        _refuse("the predicate is malformed", expected="predicateType as text, predicate as an object")
    subjects = statement["subject"]
    if type(subjects) is not list or len(subjects) != 1 or type(subjects[0]) is not dict:
        _refuse("the statement has not exactly one subject", where="subject", expected="one subject")
    name, sums = subjects[0].get("name"), subjects[0].get("digest")
    if set(subjects[0]) != {"name", "digest"} or type(name) is not str or type(sums) is not dict:
        _refuse("the subject has missing or unknown fields", where="subject[0]", expected="name, digest")
    value = sums.get("sha256")
    if set(sums) != {"sha256"} or type(value) is not str or not _HEX64.fullmatch(value):
        _refuse("the subject's digest is malformed", where="subject[0].digest", expected="one sha256")
    return statement


def _refuse(what: str, *, where: str = "envelope", expected: str) -> NoReturn:
    raise BindingError(
        Binding.ATTESTATION,
        what,
        where=where,
        expected=expected,
        do="take an unchanged copy of it; an envelope cannot be repaired",
    )
