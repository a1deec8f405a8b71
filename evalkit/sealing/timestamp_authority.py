"""The timestamp authorities that a trust file pins: each the exact certificate that signs tokens, and its chain.

Whoever holds some certificate under the same root is another authority.  So the leaf itself is pinned, and
has to be what RFC 3161 section 2.3 wants: for timestamps and nothing else.

A refusal is a `BindingError` of kind ``authority``.
"""

from __future__ import annotations

import base64
import binascii
import re
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NoReturn

from evalkit.errors import Binding, BindingError

if TYPE_CHECKING:
    from cryptography.x509 import Certificate

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_OID = re.compile(r"[0-2](\.(0|[1-9]\d{0,19})){1,30}")
_TEXTS, _LISTS = ("name", "leaf", "comment"), ("intermediates", "roots", "policies")


@dataclass(frozen=True)
class TimestampAuthority:
    """One pinned authority: certificates in DER, ``policies`` dotted OIDs (none: any policy).

    ``leaf`` is the certificate that signs tokens; ``intermediates`` follow it, each the issuer of the one
    before, and the last is issued by one of ``roots``.  An authority cannot exist whose chain does not hold.
    """

    name: str
    leaf: bytes = field(repr=False)
    roots: tuple[bytes, ...] = field(repr=False)
    intermediates: tuple[bytes, ...] = field(default=(), repr=False)
    policies: tuple[str, ...] = ()
    comment: str = ""

    def __post_init__(self) -> None:
        for name in _LISTS:
            given = getattr(self, name)
            if isinstance(given, (str, bytes)):
                _refuse(f"{name} is one value", repr(self.name), "a sequence of them")
            object.__setattr__(self, name, tuple(given))
        if not _NAME.fullmatch(self.name):
            _refuse(f"{self.name!a} names no authority", "name", "up to 64 of a-z 0-9 . _ -")
        for policy in self.policies:
            if not _OID.fullmatch(policy):
                _refuse(f"{policy!a} is no policy", self.name, "an object identifier such as 1.2.3.4")
        _check_leaf(self.chain()[0], self.name)

    def chain(self) -> list[Certificate]:
        """The pinned certificates from the leaf to the root that it ends in, each signed by the next."""
        path = [_certificate(data, self.name) for data in (self.leaf, *self.intermediates)]
        roots = [_certificate(data, self.name) for data in self.roots]
        if not all(_issued(root, root) for root in roots):
            _refuse("a root that does not sign itself", self.name, "a self-signed certificate")
        if any(certificate.subject == certificate.issuer for certificate in path[1:]):
            _refuse("an intermediate that signs itself", self.name, "it among the roots, or not at all")
        ends = [root for root in roots if _issued(root, path[-1])]
        path += ends[:1]
        if not ends or not all(_issued(issuer, subject) for subject, issuer in pairwise(path)):
            expected = "the leaf, the intermediates in their order behind it, and the root that they end in"
            _refuse("the leaf's chain does not end in a pinned root", self.name, expected)
        return path

    @property
    def certificates(self) -> set[bytes]:
        """All that is pinned, in DER."""
        return {self.leaf, *self.intermediates, *self.roots}

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
        if type(record) is not dict or set(record) != {*_TEXTS, *_LISTS}:
            _refuse("an authority with missing or unknown fields", where, ", ".join((*_TEXTS, *_LISTS)))
        for name in _TEXTS:
            if type(record[name]) is not str:
                _refuse(f"{name} is not text", where, "a string")
        for name in _LISTS:
            value = record[name]
            if type(value) is not list or any(type(v) is not str for v in value):
                _refuse(f"{name} is not a list of texts", where, "a list of strings")
            if len(set(value)) != len(value):
                _refuse(f"{name} has an entry twice", where, "each once")
        return cls(
            name=record["name"],
            leaf=_bytes(record["leaf"], "leaf", where),
            roots=tuple(_bytes(v, "roots", where) for v in record["roots"]),
            intermediates=tuple(_bytes(v, "intermediates", where) for v in record["intermediates"]),
            policies=tuple(record["policies"]),
            comment=record["comment"],
        )


def parse_authorities(records: Any, *, where: str = "") -> tuple[TimestampAuthority, ...]:
    """The section ``timestamp_authorities`` of a trust file: each name and each leaf once."""
    if type(records) is not list:
        _refuse("timestamp_authorities is not a list", where, "a list of entries")
    found = tuple(
        TimestampAuthority.from_record(r, where=f"{where}: authority {i}") for i, r in enumerate(records)
    )
    if len({a.name for a in found}) != len(found) or len({a.leaf for a in found}) != len(found):
        _refuse("a timestamp authority is pinned twice", where, "each name and each leaf once")
    return found


def _issued(issuer: Certificate, subject: Certificate) -> bool:
    """May the issuer issue certificates, did its key sign the subject, and do the names agree?"""
    from cryptography.exceptions import InvalidSignature

    try:
        subject.verify_directly_issued_by(issuer)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return _is_authority(issuer)


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
        expected = "the extended key usage timeStamping, critical, and no other"
        _refuse("the leaf is not a certificate for timestamps", where, expected)
    if _is_authority(leaf):
        _refuse("the leaf may issue certificates", where, "the certificate that signs the tokens")
    key = leaf.public_key()
    if not isinstance(key, (RSAPublicKey, EllipticCurvePublicKey)) or key.key_size < (
        2048 if isinstance(key, RSAPublicKey) else 256
    ):
        _refuse("the leaf's key is weak or of an unknown kind", where, "RSA from 2,048 bits, EC from 256")


def _certificate(data: bytes, where: str) -> Certificate:
    from cryptography.x509 import load_der_x509_certificate

    try:
        return load_der_x509_certificate(data)
    except ValueError:
        _refuse("a certificate cannot be read", where, "an X.509 certificate in DER")


def _text(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bytes(text: str, name: str, where: str) -> bytes:
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        data = b""
    if not data or _text(data) != text:
        _refuse(f"{name} is not canonical base64", where, "a DER certificate in RFC 4648 base64, padded")
    return data


def _refuse(what: str, where: str, expected: str) -> NoReturn:
    do = "correct the trust file by hand, or pin the timestamp authority again"
    raise BindingError(Binding.AUTHORITY, what, where=where, expected=expected, do=do)
