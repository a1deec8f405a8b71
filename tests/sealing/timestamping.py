"""Timestamp authorities for tests: keys and certificates made here, and two ways to make a token.

`OpenSSL` answers requests with ``openssl ts``, and is the oracle.  `token` builds one by hand, at any time
and with any single defect that openssl would not make.  TEST KEYS ONLY.
"""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from evalkit.sealing import TimestampAuthority

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, NULL, OID = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
UTF8_STRING, GENERALIZED_TIME, SEQUENCE, SET = 0x0C, 0x18, 0x30, 0x31
POLICY = "1.3.6.1.4.1.99999.1.1"
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
HASH_OIDS = {
    "md5": "1.2.840.113549.2.5",
    "sha1": "1.3.14.3.2.26",
    "sha256": "2.16.840.1.101.3.4.2.1",
    "sha384": "2.16.840.1.101.3.4.2.2",
    "sha512": "2.16.840.1.101.3.4.2.3",
}
ECDSA_OIDS = {"sha1": "1.2.840.10045.4.1", "sha256": "1.2.840.10045.4.3.2", "sha512": "1.2.840.10045.4.3.4"}
_HASHES: dict[str, hashes.HashAlgorithm] = {
    "md5": hashes.MD5(),
    "sha1": hashes.SHA1(),
    "sha256": hashes.SHA256(),
    "sha384": hashes.SHA384(),
    "sha512": hashes.SHA512(),
}

needs_openssl = pytest.mark.skipif(shutil.which("openssl") is None, reason="the openssl command is not here")


@dataclass
class Certified:
    """A key with its certificate."""

    key: Any
    certificate: x509.Certificate

    @property
    def der(self) -> bytes:
        return self.certificate.public_bytes(Encoding.DER)

    @property
    def pem(self) -> bytes:
        return self.certificate.public_bytes(Encoding.PEM)


@dataclass
class Authority:
    """Leaf, what lies between, and root."""

    leaf: Certified
    root: Certified
    between: list[Certified] = field(default_factory=list)

    def pinned(self, name: str = "test", **fields: Any) -> TimestampAuthority:
        return TimestampAuthority(
            name=name,
            leaf=self.leaf.der,
            roots=(self.root.der,),
            intermediates=tuple(c.der for c in self.between),
            **fields,
        )


def certify(
    name: str,
    issuer: Certified | None = None,
    *,
    ca: bool = False,
    key: Any = None,
    usage: tuple[x509.ObjectIdentifier, ...] | None = None,
    critical: bool = True,
    start: datetime = datetime(2020, 1, 1, tzinfo=UTC),
    end: datetime = datetime(2040, 1, 1, tzinfo=UTC),
    serial: int | None = None,
) -> Certified:
    """A certificate, of a root where no issuer is given; for timestamps unless it is a CA's."""
    if usage is None:
        usage = () if ca else (ExtendedKeyUsageOID.TIME_STAMPING,)
    key = key or ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signing_key = issuer.key if issuer else key
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(serial or x509.random_serial_number())
        .not_valid_before(start)
        .not_valid_after(end)
        .add_extension(x509.BasicConstraints(ca, None), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False)
        .add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(signing_key.public_key()), critical=False
        )
        .add_extension(x509.KeyUsage(not ca, False, False, False, False, ca, ca, False, False), critical=True)
    )
    if usage:
        builder = builder.add_extension(x509.ExtendedKeyUsage(usage), critical=critical)
    return Certified(key, builder.sign(signing_key, hashes.SHA256()))


def make_authority(
    *, between: int = 0, rsa_bits: int = 0, root: Certified | None = None, **leaf: Any
) -> Authority:
    root = root or certify("Test root", ca=True)
    chain = [root]
    for n in range(between):
        chain.append(certify(f"Test intermediate {n}", chain[-1], ca=True))
    if rsa_bits:
        leaf["key"] = rsa.generate_private_key(65537, rsa_bits)
    return Authority(certify(leaf.pop("name", "Test TSA"), chain[-1], **leaf), root, chain[:0:-1])


# --- openssl -------------------------------------------------------------------------------------


class OpenSSL:
    """An authority that the openssl command runs."""

    def __init__(
        self, folder: Path, authority: Authority, *, digits: int = 0, accuracy: str = "secs:1"
    ) -> None:
        self.folder, self.authority = folder, authority
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "root.pem").write_bytes(authority.root.pem)
        (folder / "leaf.pem").write_bytes(authority.leaf.pem + b"".join(c.pem for c in authority.between))
        (folder / "between.pem").write_bytes(b"".join(c.pem for c in authority.between))
        (folder / "leaf.key").write_bytes(
            authority.leaf.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        )
        (folder / "serial").write_text("01")
        (folder / "tsa.cnf").write_text(
            "[tsa]\ndefault_tsa = t\n[t]\nserial = ./serial\nsigner_cert = ./leaf.pem\nsigner_key = ./leaf.key\n"
            f"signer_digest = sha256\ndefault_policy = {POLICY}\ndigests = sha256, sha384, sha512\n"
            f"accuracy = {accuracy}\nordering = yes\ntsa_name = yes\ness_cert_id_chain = no\n"
            f"ess_cert_id_alg = sha256\nclock_precision_digits = {digits}\n"
        )

    def reply(self, query: bytes) -> bytes:
        (self.folder / "q.tsq").write_bytes(query)
        self._run("-reply", "-config", "tsa.cnf", "-section", "t", "-queryfile", "q.tsq", "-out", "r.tsr")
        return (self.folder / "r.tsr").read_bytes()

    def text(self, response: bytes) -> str:
        (self.folder / "r.tsr").write_bytes(response)
        return self._run("-reply", "-in", "r.tsr", "-text")

    def accepts(self, response: bytes, data: bytes, query: bytes | None = None) -> bool:
        """The oracle's word, with the root trusted and the leaf's chain at hand."""
        (self.folder / "v.tsr").write_bytes(response)
        (self.folder / "v.data").write_bytes(data)
        (self.folder / "v.tsq").write_bytes(query or b"")
        what = ["-queryfile", "v.tsq"] if query else ["-data", "v.data"]
        at = re.search(rb"\x18\x0f(\d{4})(\d\d)(\d\d)(\d\d)(\d\d)(\d\d)Z", response)
        try:
            time = datetime(*map(int, at.groups()), tzinfo=UTC) if at else NOW
        except ValueError:
            time = NOW
        try:
            said = self._run(
                "-verify", *what, "-in", "v.tsr", "-CAfile", "root.pem", "-untrusted", "leaf.pem",
                "-attime", str(int(time.timestamp())),
            )  # fmt: skip
        except subprocess.CalledProcessError:
            return False
        return "Verification: OK" in said

    def _run(self, *arguments: str) -> str:
        done = subprocess.run(
            ["openssl", "ts", *arguments], cwd=self.folder, check=True, capture_output=True, timeout=30
        )
        return done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")


# --- by hand -------------------------------------------------------------------------------------


def context(number: int) -> int:
    """The tag [number], constructed."""
    return 0xA0 | number


def encode(tag: int, *contents: bytes) -> bytes:
    """A DER value around the joined contents."""
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def elements(content: bytes) -> list[tuple[int, bytes, bytes]]:
    """(tag, content, whole) of each DER value in the content of a constructed one."""
    found = []
    while content:
        size, start = content[1], 2
        if size >= 0x80:
            start += size & 0x7F
            size = int.from_bytes(content[2:start], "big")
        found.append((content[0], content[start : start + size], content[: start + size]))
        content = content[start + size :]
    return found


def oid(text: str) -> bytes:
    first, second, *rest = map(int, text.split("."))
    out = b""
    for arc in (40 * first + second, *rest):
        digits = [arc & 0x7F]
        while arc := arc >> 7:
            digits.append(0x80 | arc & 0x7F)
        out += bytes(reversed(digits))
    return encode(OID, out)


def integer(value: int, tag: int = INTEGER) -> bytes:
    return encode(tag, value.to_bytes(value.bit_length() // 8 + 1, "big", signed=True))


def algorithm(kind: str, *, null: bool = False) -> bytes:
    return encode(SEQUENCE, oid(kind), encode(NULL) if null else b"")


def _attribute(kind: str, *values: bytes) -> bytes:
    return encode(SEQUENCE, oid(kind), encode(SET, *values))


def token(
    authority: Authority,
    data: bytes,
    *,
    time: datetime | bytes = NOW,
    signed_by: Certified | None = None,
    nonce: int | None = None,
    accuracy: bytes | None = encode(SEQUENCE, integer(1)),
    policy: str = POLICY,
    imprint: str = "sha256",
    imprint_value: bytes | None = None,
    digest: str = "sha256",
    listed: tuple[str, ...] | None = None,
    signature_algorithm: str | None = None,
    signature_hash: str | None = None,
    message_digest: bytes | None = None,
    content_type: str = "1.2.840.113549.1.9.16.1.4",
    signed_content_type: str = "1.2.840.113549.1.9.16.1.4",
    certificate_ids: tuple[str, ...] = ("v2",),
    certificate_of: bytes | None = None,
    certificates: tuple[bytes, ...] | None = None,
    name: bytes | None = None,
    signers: int = 1,
    status: int = 0,
    status_text: str | None = None,
    failure: bytes = b"",
    extensions: bytes = b"",
    more_attributes: tuple[bytes, ...] = (),
    unsigned: bytes = b"",
    crls: bytes = b"",
    tst_version: int = 1,
    data_version: int = 3,
    signer_version: int = 1,
    serial: int = 7,
    with_attributes: bool = True,
    detached: bool = False,
    attributes_as_content: bool = False,
    other_signers: tuple[bytes, ...] = (),
) -> bytes:
    """A TimeStampResp, right but for what is asked otherwise."""
    leaf = signed_by or authority.leaf
    hashed = hashlib.new(imprint, data).digest() if imprint_value is None else imprint_value
    stamp = time if isinstance(time, bytes) else time.strftime("%Y%m%d%H%M%SZ").encode()
    info = encode(
        SEQUENCE,
        integer(tst_version),
        oid(policy) if policy else b"",
        encode(SEQUENCE, algorithm(HASH_OIDS[imprint], null=True), encode(OCTET_STRING, hashed)),
        integer(serial),
        encode(GENERALIZED_TIME, stamp),
        accuracy or b"",
        b"" if nonce is None else integer(nonce),
        b"" if name is None else encode(context(0), name),
        encode(context(1), extensions) if extensions else b"",
    )
    named = certificate_of or leaf.der
    ids = {
        "v1": _attribute(
            "1.2.840.113549.1.9.16.2.12",
            encode(
                SEQUENCE,
                encode(SEQUENCE, encode(SEQUENCE, encode(OCTET_STRING, hashlib.sha1(named).digest()))),
            ),
        ),
        "v2": _attribute(
            "1.2.840.113549.1.9.16.2.47",
            encode(
                SEQUENCE,
                encode(SEQUENCE, encode(SEQUENCE, encode(OCTET_STRING, hashlib.sha256(named).digest()))),
            ),
        ),
    }
    attributes = [
        _attribute("1.2.840.113549.1.9.3", oid(signed_content_type)),
        _attribute(
            "1.2.840.113549.1.9.4",
            encode(OCTET_STRING, message_digest or hashlib.new(digest, info).digest()),
        ),
        *(ids[v] for v in certificate_ids),
        *more_attributes,
    ]
    joined = b"".join(sorted(attributes))
    signature_hash = signature_hash or digest
    signed = encode(SET, joined) if with_attributes else info
    shown = signed if attributes_as_content else info
    content = encode(
        SEQUENCE,
        oid(content_type),
        b"" if detached else encode(context(0), encode(OCTET_STRING, shown)),
    )
    if isinstance(leaf.key, rsa.RSAPrivateKey):
        kind = signature_algorithm or "1.2.840.113549.1.1.1"
        signature = leaf.key.sign(signed, padding.PKCS1v15(), _HASHES[signature_hash])
    else:
        kind = signature_algorithm or ECDSA_OIDS[signature_hash]
        signature = leaf.key.sign(signed, ec.ECDSA(_HASHES[signature_hash]))
    number, issuer = leaf.certificate.serial_number, leaf.certificate.issuer.public_bytes()
    signer = encode(
        SEQUENCE,
        integer(signer_version),
        encode(SEQUENCE, issuer, integer(number)),
        algorithm(HASH_OIDS[digest]),
        encode(context(0), joined) if with_attributes and not attributes_as_content else b"",
        algorithm(kind, null=isinstance(leaf.key, rsa.RSAPrivateKey)),
        encode(OCTET_STRING, signature),
        encode(context(1), unsigned) if unsigned else b"",
    )
    along = (leaf.der,) if certificates is None else certificates
    signed_data = encode(
        SEQUENCE,
        integer(data_version),
        encode(SET, *sorted(algorithm(HASH_OIDS[d]) for d in listed or (digest,))),
        content,
        encode(context(0), *sorted(along)) if along else b"",
        encode(context(1), crls) if crls else b"",
        encode(SET, *sorted([signer] * signers + list(other_signers))),
    )
    text = b"" if status_text is None else encode(SEQUENCE, encode(UTF8_STRING, status_text.encode()))
    return encode(
        SEQUENCE,
        encode(SEQUENCE, integer(status), text, failure),
        encode(SEQUENCE, oid("1.2.840.113549.1.7.2"), encode(context(0), signed_data)),
    )


def critical_extension() -> bytes:
    return encode(SEQUENCE, oid("1.2.3.4"), encode(BOOLEAN, b"\xff"), encode(OCTET_STRING, b"x"))


def harmless_extension() -> bytes:
    return encode(SEQUENCE, oid("1.2.3.4"), encode(OCTET_STRING, b"x"))


def rejection(text: str = "no such algorithm") -> bytes:
    return encode(
        SEQUENCE,
        encode(
            SEQUENCE,
            integer(2),
            encode(SEQUENCE, encode(UTF8_STRING, text.encode())),
            encode(0x03, b"\0\x80"),
        ),
    )


def later(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)
