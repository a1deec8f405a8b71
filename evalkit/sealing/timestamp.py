"""Timestamps by others: that some bytes existed at a time which a pinned authority states (RFC 3161).

An authority counts through the exact certificate that signs its tokens (its leaf), pinned in the trust
file together with the root in which the leaf's chain ends.  What certificates a token carries decides
nothing: they are in no signature, and trusting them is how a forger once brought a chain of his own
(GHSA-3xxc-pwj6-jgrj).  A token counts for some bytes when

1. it has the one strict form of evalkit.sealing.timestamp_token;
2. its signer is the pinned leaf, by issuer, serial number and the hash in the signed attributes, and the
   leaf's key made the signature;
3. every certificate that it carries is pinned;
4. leaf, intermediates and root were valid at the stated time;
5. the authority's policy is among the pinned ones, where some are;
6. its imprint is the SHA-256 of the bytes, and its nonce that of the request, where there is one at hand;
7. rfc3161-client, which verifies with OpenSSL, accepts it as well, with the pinned certificates only.

Steps 1 to 6 are evalkit's own; step 7 is a second opinion.  Revocation is not looked up: whoever hears
that an authority's key was stolen takes the authority out of the trust file.

A refusal is a `BindingError` of kind ``timestamp``; of kind ``authority`` where an entry of the trust
file is at fault.  No network here: evalkit.sealing.tsa_http asks, evalkit.sealing.timestamp_folder keeps.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.der import context, encode
from evalkit.sealing.timestamp_token import Token, TokenError, names_of, read_request, read_response

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OID = re.compile(r"[0-2](\.(0|[1-9]\d{0,19})){1,30}")
_FIELDS = frozenset(("name", "leaf", "intermediates", "roots", "policies", "comment"))
_MAX_CHAIN = 8
#: a time without an accuracy is taken to mean the second that it names
_ONE_SECOND = timedelta(seconds=1)
_RSA = {
    "1.2.840.113549.1.1.1": None,  # the hash is that of the digest algorithm
    "1.2.840.113549.1.1.11": "sha256",
    "1.2.840.113549.1.1.12": "sha384",
    "1.2.840.113549.1.1.13": "sha512",
}
_ECDSA = {
    "1.2.840.10045.4.3.2": "sha256",
    "1.2.840.10045.4.3.3": "sha384",
    "1.2.840.10045.4.3.4": "sha512",
}


@dataclass(frozen=True)
class TimestampAuthority:
    """One pinned authority: certificates in DER, ``policies`` dotted OIDs (none: any policy).

    ``leaf`` is the certificate that signs tokens; ``intermediates`` are what lies between it and one of
    ``roots``.  An authority cannot exist whose chain does not hold.
    """

    name: str
    leaf: bytes = field(repr=False)
    roots: tuple[bytes, ...] = field(repr=False)
    intermediates: tuple[bytes, ...] = field(default=(), repr=False)
    policies: tuple[str, ...] = ()
    comment: str = ""

    def __post_init__(self) -> None:
        for name in ("roots", "intermediates", "policies"):
            given = getattr(self, name)
            if isinstance(given, (str, bytes)):
                _refuse_entry(f"{name} is one value", repr(self.name), "a sequence of them")
            object.__setattr__(self, name, tuple(given))
        if not _NAME.fullmatch(self.name):
            _refuse_entry(f"{self.name!a} names no authority", "name", "up to 64 of a-z 0-9 . _ -")
        for policy in self.policies:
            if not _OID.fullmatch(policy):
                _refuse_entry(f"{policy!a} is no policy", self.name, "an object identifier such as 1.2.3.4")
        _check_leaf(self.chain()[0], self.name)

    def chain(self) -> list[Certificate]:
        """The pinned certificates from the leaf to the root that it ends in, each signed by the next."""
        loaded = [_certificate(data, self.name) for data in (self.leaf, *self.intermediates, *self.roots)]
        between = 1 + len(self.intermediates)
        leaf, intermediates, roots = loaded[0], loaded[1:between], loaded[between:]
        for certificate in intermediates:
            if certificate.subject == certificate.issuer:
                _refuse_entry(
                    "an intermediate that signs itself", self.name, "it among the roots, or not at all"
                )
        for certificate in roots:
            if not _issued(certificate, certificate):
                _refuse_entry("a root that does not sign itself", self.name, "a self-signed certificate")
        path = _path([leaf], intermediates, roots)
        if path is None:
            _refuse_entry(
                "the leaf's chain does not end in a pinned root",
                self.name,
                "the leaf, the intermediates in their order behind it, and the root that they end in",
            )
        return path

    def record(self) -> dict[str, Any]:
        """The entry in the trust file; certificates in base64."""
        return {
            "name": self.name,
            "leaf": _text(self.leaf),
            "intermediates": [_text(c) for c in self.intermediates],
            "roots": [_text(c) for c in self.roots],
            "policies": list(self.policies),
            "comment": self.comment,
        }

    @classmethod
    def from_record(cls, record: Any, *, where: str = "") -> TimestampAuthority:
        """The authority of one entry; every field is required and no other is allowed."""
        if type(record) is not dict or set(record) != _FIELDS:
            _refuse_entry("an authority with missing or unknown fields", where, ", ".join(sorted(_FIELDS)))
        for name in ("name", "leaf", "comment"):
            if type(record[name]) is not str:
                _refuse_entry(f"{name} is not text", where, "a string")
        for name in ("intermediates", "roots", "policies"):
            value = record[name]
            if type(value) is not list or any(type(v) is not str for v in value):
                _refuse_entry(f"{name} is not a list of texts", where, "a list of strings")
            if len(set(value)) != len(value):
                _refuse_entry(f"{name} has an entry twice", where, "each once")
        return cls(
            name=record["name"],
            leaf=_bytes(record["leaf"], "leaf", where),
            roots=tuple(_bytes(v, "roots", where) for v in record["roots"]),
            intermediates=tuple(_bytes(v, "intermediates", where) for v in record["intermediates"]),
            policies=tuple(record["policies"]),
            comment=record["comment"],
        )


@dataclass(frozen=True)
class Timestamp:
    """A verified token: the bytes existed at ``time`` (UTC), give or take ``accuracy``, says ``authority``."""

    time: datetime
    accuracy: timedelta | None
    authority: str
    serial: int
    policy: str

    @property
    def latest(self) -> datetime:
        """The last moment that the authority can mean: by then the bytes existed."""
        return self.time + (_ONE_SECOND if self.accuracy is None else self.accuracy)

    def __str__(self) -> str:
        time = self.time.replace(tzinfo=None).isoformat() + "Z"
        if self.accuracy is None:
            return f"{time}, {self.authority}"
        return f"{time} ± {self.accuracy.total_seconds():g} s, {self.authority}"


def parse_authorities(records: Any, *, where: str = "") -> tuple[TimestampAuthority, ...]:
    """The section ``timestamp_authorities`` of a trust file: each name and each leaf once."""
    if type(records) is not list:
        _refuse_entry("timestamp_authorities is not a list", where, "a list of entries")
    found = tuple(
        TimestampAuthority.from_record(r, where=f"{where}: authority {i}") for i, r in enumerate(records)
    )
    if len({a.name for a in found}) != len(found) or len({a.leaf for a in found}) != len(found):
        _refuse_entry("a timestamp authority is pinned twice", where, "each name and each leaf once")
    return found


def available() -> bool:
    """Is the extra ``timestamps`` installed?"""
    from importlib.util import find_spec

    return find_spec("rfc3161_client") is not None


def require_extra() -> None:
    """Raise `EvalkitError` where the extra is not installed."""
    if not available():
        raise EvalkitError(
            "timestamps need a package that is not installed",
            where="rfc3161-client",
            expected="the extra `timestamps` of evalkit",
            do="pip install 'evalkit-sealed[timestamps]'",
        )


def request(data: bytes) -> bytes:
    """A DER TimeStampReq for ``data``: its SHA-256, a random nonce, and the wish for the certificate."""
    require_extra()
    from rfc3161_client import HashAlgorithm, TimestampRequestBuilder

    builder = TimestampRequestBuilder().data(data).hash_algorithm(HashAlgorithm.SHA256)
    return bytes(builder.nonce(nonce=True).cert_request(cert_request=True).build().as_bytes())


def verify_token(
    response: bytes,
    data: bytes,
    authorities: Iterable[TimestampAuthority],
    *,
    request: bytes | None = None,
) -> Timestamp:
    """The timestamp in a DER TimeStampResp over ``data``, by the rules of this module.

    ``request`` is the query that was sent, where it is at hand: the token must answer that one.
    """
    require_extra()
    try:
        token = read_response(response)
        asked = None if request is None else read_request(request)
    except TokenError as error:
        _refuse(str(error), "an answer as RFC 3161 describes it, DER, at most 64 KiB")
    imprint = hashlib.sha256(data).digest()
    if token.imprint_algorithm != "sha256":
        _refuse(f"it is over a {token.imprint_algorithm} digest", "the SHA-256 of the attestation")
    if token.imprint != imprint:
        _refuse("it is for other bytes", "the SHA-256 of this very attestation")
    if asked is not None:
        if asked[:2] != ("sha256", imprint):
            _refuse("the request is for other bytes", "the request that was made for this attestation")
        if asked[2] is None or token.nonce != asked[2]:
            _refuse("it does not answer this request: another nonce", "the nonce of the request")
    authority = signed_by(token, authorities)
    _second_opinion(token, authority, imprint)
    return Timestamp(token.time, token.accuracy, authority.name, token.serial, token.policy)


def signed_by(token: Token, authorities: Iterable[TimestampAuthority]) -> TimestampAuthority:
    """The pinned authority that signed the token (rules 2 to 5); refuses where there is none."""
    pinned = tuple(authorities)
    authority = next(
        (a for a in pinned if names_of(a.leaf)[:2] == (token.signer_serial, token.signer_issuer)), None
    )
    if authority is None:
        names = ", ".join(a.name for a in pinned) or "none"
        _refuse(
            "no pinned timestamp authority signed it",
            f"the signature of a pinned leaf certificate (pinned: {names})",
            "pin the authority if you know it (evalkit timestamps pin); or take the token away, which"
            " removes a proof and nothing else",
        )
    for algorithm, stated in token.certificate_hashes:
        if hashlib.new(algorithm, authority.leaf, usedforsecurity=False).digest() != stated:
            _refuse("its signed attributes name another certificate", f"the leaf of {authority.name}")
    if {*token.certificates} - {authority.leaf, *authority.intermediates, *authority.roots}:
        _refuse("it carries a certificate that is not pinned", f"certificates of {authority.name} only")
    chain = authority.chain()
    _check_signature(token, chain[0])
    for certificate in chain:
        if not certificate.not_valid_before_utc <= token.time <= certificate.not_valid_after_utc:
            _refuse(
                f"a certificate of {authority.name} was not valid at {token.time:%Y-%m-%d %H:%M:%S} UTC",
                f"{certificate.not_valid_before_utc} to {certificate.not_valid_after_utc}",
            )
    if authority.policies and token.policy not in authority.policies:
        _refuse(f"it was made under the policy {token.policy}", " or ".join(authority.policies))
    if token.authority_name is not None and token.authority_name != _directory_name(authority.leaf):
        _refuse("it names another authority than its signer", f"the subject of the leaf of {authority.name}")
    return authority


def _check_signature(token: Token, leaf: Certificate) -> None:
    """The leaf's key signed the attributes, and the attributes hold the digest of the content."""
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric.ec import ECDSA, EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey

    if hashlib.new(token.digest_algorithm, token.content).digest() != token.message_digest:
        _refuse("its content is not what was signed", "the content of the signed digest")
    known = {"sha256": hashes.SHA256(), "sha384": hashes.SHA384(), "sha512": hashes.SHA512()}
    key, kind = leaf.public_key(), token.signature_algorithm
    try:
        if isinstance(key, RSAPublicKey) and _RSA.get(kind, "") in (None, token.digest_algorithm):
            key.verify(token.signature, token.signed_attributes, PKCS1v15(), known[token.digest_algorithm])
            return
        if isinstance(key, EllipticCurvePublicKey) and kind in _ECDSA:
            key.verify(token.signature, token.signed_attributes, ECDSA(known[_ECDSA[kind]]))
            return
    except InvalidSignature:
        _refuse("its signature does not hold", "the signature of the pinned leaf's key")
    _refuse(
        f"its signature is of the algorithm {kind}",
        "RSA (PKCS #1 v1.5) or ECDSA, as the leaf's key is, with SHA-256, SHA-384 or SHA-512",
    )


def _second_opinion(token: Token, authority: TimestampAuthority, imprint: bytes) -> None:
    """What rfc3161-client says of the token, given the pinned chain and no certificate of the token's own.

    Its wheels bring their own OpenSSL.  A panic in its Rust code is no `Exception`.
    """
    from rfc3161_client import VerificationError, VerifierBuilder, decode_timestamp_response

    leaf, *between, root = authority.chain()
    builder = VerifierBuilder(tsa_certificate=leaf, intermediates=between, roots=[root], nonce=token.nonce)
    try:
        said = builder.build().verify(decode_timestamp_response(token.bare), imprint)
    except BaseException as error:
        if isinstance(error, (VerificationError, ValueError)) or type(error).__name__ == "PanicException":
            _refuse(f"rfc3161-client refuses it ({' '.join(str(error).split())[:200]})", "its agreement")
        raise
    if said is not True:
        _refuse("rfc3161-client refuses it", "its agreement")


def _path(
    path: list[Certificate], middle: list[Certificate], roots: list[Certificate]
) -> list[Certificate] | None:
    """``path`` continued to a root, or None where it cannot be."""
    for root in roots:
        if _issued(root, path[-1]) and _is_authority(root):
            return [*path, root]
    if len(path) < _MAX_CHAIN:
        for certificate in middle:
            if certificate not in path and _issued(certificate, path[-1]) and _is_authority(certificate):
                found = _path([*path, certificate], middle, roots)
                if found is not None:
                    return found
    return None


def _issued(issuer: Certificate, subject: Certificate) -> bool:
    """Did the issuer's key sign the subject, and do the names agree?"""
    from cryptography.exceptions import InvalidSignature

    try:
        subject.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_authority(certificate: Certificate) -> bool:
    from cryptography import x509

    try:
        return bool(certificate.extensions.get_extension_for_class(x509.BasicConstraints).value.ca)
    except (x509.ExtensionNotFound, ValueError):
        return False


def _check_leaf(leaf: Certificate, where: str) -> None:
    """RFC 3161 section 2.3: for timestamps and nothing else, and marked so as critical."""
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePublicKey
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
    from cryptography.x509.oid import ExtendedKeyUsageOID

    try:
        usage = leaf.extensions.get_extension_for_class(x509.ExtendedKeyUsage)
        right = usage.critical and list(usage.value) == [ExtendedKeyUsageOID.TIME_STAMPING]
    except (x509.ExtensionNotFound, ValueError):
        right = False
    if not right:
        _refuse_entry(
            "the leaf is not a certificate for timestamps",
            where,
            "the extended key usage timeStamping, critical, and no other",
        )
    if _is_authority(leaf):
        _refuse_entry("the leaf may issue certificates", where, "the certificate that signs the tokens")
    key = leaf.public_key()
    if not isinstance(key, (RSAPublicKey, EllipticCurvePublicKey)) or key.key_size < (
        2048 if isinstance(key, RSAPublicKey) else 256
    ):
        _refuse_entry(
            "the leaf's key is weak or of an unknown kind", where, "RSA from 2,048 bits, EC from 256"
        )


def _directory_name(leaf: bytes) -> bytes:
    """The leaf's subject as the GeneralName that a token carries."""
    return encode(context(4), names_of(leaf)[2])


def _certificate(data: bytes, where: str) -> Certificate:
    from cryptography.x509 import load_der_x509_certificate

    try:
        names_of(data)
        return load_der_x509_certificate(data)
    except ValueError:
        _refuse_entry("a certificate cannot be read", where, "an X.509 certificate in DER")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, name: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        data = b""
    if not data or _text(data) != text:
        _refuse_entry(
            f"{name} is not canonical base64", where, "a DER certificate in RFC 4648 base64, padded"
        )
    return data


def _refuse(
    what: str,
    expected: str,
    do: str = "ask the authority for a token again; do not rely on this one (taking it away removes a proof only)",
) -> NoReturn:
    raise BindingError(Binding.TIMESTAMP, what, where="timestamp token", expected=expected, do=do)


def _refuse_entry(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.AUTHORITY,
        what,
        where=where,
        expected=expected,
        do="correct the trust file by hand, or pin the timestamp authority again",
    )
