"""What a timestamp authority's answer says (RFC 3161, 5816; CMS: RFC 5652), before anyone believes it.

`read_response` takes the DER TimeStampResp apart and keeps to one strict form of it:

1. DER (evalkit.sealing.der), at most `MAX_TOKEN` bytes, nothing behind it.
2. Status granted.  Granted "with modifications" is another thing than what was asked for.
3. SignedData version 3 over a TSTInfo version 1, exactly one signer, named by issuer and serial number.
4. Digests are SHA-256, SHA-384 or SHA-512.
5. Signed attributes with content type, message digest and signing certificate, each once.
6. No revocation lists, no unsigned attributes: nobody signed those, and nobody here reads them.
7. No critical extension in the TSTInfo, since none is understood.

What is read is in `Token`.  Whose signature it is, evalkit.sealing.timestamp decides.  Any other form is
a `TokenError` that says what was expected.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from evalkit.sealing.der import (
    BIT_STRING,
    BOOLEAN,
    GENERALIZED_TIME,
    INTEGER,
    NULL,
    OCTET_STRING,
    OID,
    SEQUENCE,
    SET,
    UTF8_STRING,
    DerError,
    Element,
    Fields,
    context,
    elements,
    encode,
    parse,
)

#: bytes of an answer; real ones have 500 to 8,000
MAX_TOKEN = 64 * 1024

HASHES = {
    "2.16.840.1.101.3.4.2.1": "sha256",
    "2.16.840.1.101.3.4.2.2": "sha384",
    "2.16.840.1.101.3.4.2.3": "sha512",
}
_SIGNED_DATA = "1.2.840.113549.1.7.2"
_TST_INFO = "1.2.840.113549.1.9.16.1.4"
_CONTENT_TYPE = "1.2.840.113549.1.9.3"
_MESSAGE_DIGEST = "1.2.840.113549.1.9.4"
_SIGNING_CERTIFICATE = "1.2.840.113549.1.9.16.2.12"
_SIGNING_CERTIFICATE_V2 = "1.2.840.113549.1.9.16.2.47"
_STATUS = ("granted", "granted with modifications", "rejected", "waiting", "revocation warning", "revoked")
_TIME = re.compile(rb"(\d{14})(?:\.(\d{0,5}[1-9]))?Z")


class TokenError(ValueError):
    """An answer of another form; the text says what is wrong with it."""


@dataclass(frozen=True)
class Token:
    """An answer that is well formed.  Nothing in it is verified yet.

    ``signed_attributes`` are the bytes that the signature is over.  ``certificate_hashes``: (hash name,
    hash) of the signer's certificate as the signed attributes state it.  ``certificates`` are those that
    came along, in DER; no signature covers that list.  ``bare`` is the answer without them.
    """

    signer_issuer: bytes
    signer_serial: int
    digest_algorithm: str
    signature_algorithm: str
    signature: bytes
    signed_attributes: bytes
    message_digest: bytes
    certificate_hashes: tuple[tuple[str, bytes], ...]
    certificates: tuple[bytes, ...]
    content: bytes
    policy: str
    imprint_algorithm: str
    imprint: bytes
    serial: int
    time: datetime
    accuracy: timedelta | None
    nonce: int | None
    authority_name: bytes | None
    bare: bytes


def status_of(response: bytes) -> str:
    """Why the authority gave no token, or the empty string where it says that it gave one."""
    try:
        status, words, _ = _status(Fields(_whole(response)))
    except DerError:
        return ""
    said = "".join(c if c.isprintable() else " " for c in " ".join(words))[:200]
    known = _STATUS[status] if 0 <= status < len(_STATUS) else f"status {status}"
    return "" if status == 0 else f"{known}{': ' if said else ''}{said}"


def read_response(response: bytes) -> Token:
    """The token in a TimeStampResp, by the rules above."""
    try:
        return _response(response)
    except DerError as error:
        raise TokenError(f"it is not a timestamp answer in DER: expected {error}") from None


def read_request(request: bytes) -> tuple[str, bytes, int | None]:
    """(imprint algorithm, imprint, nonce) of a TimeStampReq."""
    try:
        fields = Fields(_whole(request))
        if fields.take(INTEGER).integer() != 1:
            raise DerError("version 1")
        algorithm, imprint = _imprint(fields.take(SEQUENCE))
        fields.optional(OID)
        nonce = fields.optional(INTEGER)
        fields.optional(BOOLEAN)
        fields.end()
    except DerError as error:
        raise TokenError(f"it is not a timestamp request in DER: expected {error}") from None
    return algorithm, imprint, None if nonce is None else nonce.integer()


def names_of(certificate: bytes) -> tuple[int, bytes, bytes]:
    """(serial number, issuer, subject) of a certificate, the names as they are encoded in it."""
    try:
        fields = Fields(Fields(parse(certificate)).take(SEQUENCE))
        fields.optional(context(0))
        serial = fields.take(INTEGER).integer()
        fields.take(SEQUENCE)  # the algorithm of its signature
        issuer = fields.take(SEQUENCE).raw
        fields.take(SEQUENCE)  # validity
        return serial, issuer, fields.take(SEQUENCE).raw
    except DerError as error:
        raise TokenError(f"it is not a certificate in DER: expected {error}") from None


def _whole(data: bytes) -> Element:
    if len(data) > MAX_TOKEN:
        raise DerError(f"at most {MAX_TOKEN} bytes")
    return parse(data)


def _status(fields: Fields) -> tuple[int, list[str], Element]:
    element = fields.take(SEQUENCE)
    inner = Fields(element)
    status = inner.take(INTEGER).integer()
    text = inner.optional(SEQUENCE)
    words = [] if text is None else [_text(e) for e in elements(text.content)]
    failure = inner.optional(BIT_STRING)
    inner.end()
    if status == 0 and failure is not None:
        raise DerError("no failure beside the status granted")
    return status, words, element


def _text(element: Element) -> str:
    if element.tag != UTF8_STRING:
        raise DerError("status texts in UTF-8")
    try:
        return element.content.decode()
    except UnicodeDecodeError:
        raise DerError("status texts in UTF-8") from None


def _response(response: bytes) -> Token:
    outer = Fields(_whole(response))
    status, _, status_element = _status(outer)
    if status != 0:
        raise TokenError(f"the authority gave no timestamp ({status_of(response)})")
    token = Fields(outer.take(SEQUENCE))
    outer.end()
    kind = token.take(OID)
    if kind.oid() != _SIGNED_DATA:
        raise TokenError("the token is not signed data")
    wrapped = Fields(token.take(context(0)), context(0))
    token.end()
    data = Fields(wrapped.take(SEQUENCE))
    wrapped.end()

    version = data.take(INTEGER)
    if version.integer() != 3:
        raise TokenError("the signed data are not of version 3")
    algorithms = data.take(SET)
    content_info = data.take(SEQUENCE)
    certificates = data.optional(context(0))
    signers = data.take(SET)
    data.end()

    content = _content(content_info)
    listed = elements(signers.content)
    if len(listed) != 1:
        raise TokenError(f"the token has {len(listed)} signers, not one")
    signer = _signer(listed[0])
    if [_hash(a) for a in elements(algorithms.content)] != [signer["digest_algorithm"]]:
        raise TokenError("the token lists other digest algorithms than its signer's")
    bare = encode(
        SEQUENCE,
        status_element.raw,
        encode(
            SEQUENCE,
            kind.raw,
            encode(
                context(0),
                encode(SEQUENCE, version.raw, algorithms.raw, content_info.raw, signers.raw),
            ),
        ),
    )
    along = () if certificates is None else tuple(e.raw for e in elements(certificates.content))
    return Token(**signer, **_tst_info(content), certificates=along, content=content, bare=bare)


def _content(info: Element) -> bytes:
    fields = Fields(info)
    if fields.take(OID).oid() != _TST_INFO:
        raise TokenError("the token does not hold a TSTInfo")
    wrapped = Fields(fields.take(context(0)), context(0))
    content = wrapped.take(OCTET_STRING).content
    wrapped.end()
    fields.end()
    return content


def _signer(info: Element) -> dict[str, Any]:
    fields = Fields(info)
    if fields.take(INTEGER).integer() != 1:
        raise TokenError("the signer is not named by issuer and serial number")
    name = Fields(fields.take(SEQUENCE))
    issuer, serial = name.take(SEQUENCE), name.take(INTEGER).integer()
    name.end()
    algorithm = _hash(fields.take(SEQUENCE))
    attributes = fields.optional(context(0))
    if attributes is None:
        raise TokenError("the token has no signed attributes")
    signature_algorithm = _algorithm(fields.take(SEQUENCE))
    signature = fields.take(OCTET_STRING).content
    if fields.optional(context(1)) is not None:
        raise TokenError("the token has unsigned attributes")
    fields.end()
    message_digest, hashes = _attributes(attributes)
    return {
        "signer_issuer": issuer.raw,
        "signer_serial": serial,
        "digest_algorithm": algorithm,
        "signature_algorithm": signature_algorithm,
        "signature": signature,
        # RFC 5652 section 5.4: signed with the tag of a SET, sent with the tag [0]
        "signed_attributes": encode(SET, attributes.content),
        "message_digest": message_digest,
        "certificate_hashes": hashes,
    }


def _attributes(attributes: Element) -> tuple[bytes, tuple[tuple[str, bytes], ...]]:
    """(message digest, hashes of the signer's certificate) in the signed attributes."""
    values: dict[str, Element] = {}
    for attribute in elements(attributes.content):
        fields = Fields(attribute)
        kind = fields.take(OID).oid()
        held = elements(fields.take(SET).content)
        fields.end()
        if kind in values or len(held) != 1:
            raise TokenError("a signed attribute is there twice, or does not have one value")
        values[kind] = held[0]
    if _CONTENT_TYPE not in values or values[_CONTENT_TYPE].oid() != _TST_INFO:
        raise TokenError("the signed content type is not TSTInfo")
    digest = values.get(_MESSAGE_DIGEST)
    if digest is None or digest.tag != OCTET_STRING:
        raise TokenError("the message digest is not among the signed attributes")
    hashes = []
    for kind, algorithm in ((_SIGNING_CERTIFICATE, "sha1"), (_SIGNING_CERTIFICATE_V2, "sha256")):
        if kind in values:
            named = Fields(values[kind]).take(SEQUENCE)
            certificate = Fields(Fields(named).take(SEQUENCE))
            stated = certificate.optional(SEQUENCE) if kind == _SIGNING_CERTIFICATE_V2 else None
            hashes.append((_hash(stated) if stated else algorithm, certificate.take(OCTET_STRING).content))
    if not hashes:
        raise TokenError("the signer's certificate is not among the signed attributes")
    return digest.content, tuple(hashes)


def _tst_info(content: bytes) -> dict[str, Any]:
    fields = Fields(parse(content))
    if fields.take(INTEGER).integer() != 1:
        raise TokenError("the TSTInfo is not of version 1")
    policy = fields.take(OID).oid()
    algorithm, imprint = _imprint(fields.take(SEQUENCE))
    serial = fields.take(INTEGER).integer()
    time = _time(fields.take(GENERALIZED_TIME))
    accuracy = fields.optional(SEQUENCE)
    ordering = fields.optional(BOOLEAN)
    if ordering is not None and ordering.content != b"\xff":
        raise TokenError("the ordering is not in DER")
    nonce = fields.optional(INTEGER)
    name = fields.optional(context(0))
    extensions = fields.optional(context(1))
    fields.end()
    for extension in [] if extensions is None else elements(extensions.content):
        parts = Fields(extension)
        parts.take(OID)
        if parts.optional(BOOLEAN) is not None:
            raise TokenError("the TSTInfo has a critical extension that evalkit does not know")
    return {
        "policy": policy,
        "imprint_algorithm": algorithm,
        "imprint": imprint,
        "serial": serial,
        "time": time,
        "accuracy": None if accuracy is None else _accuracy(accuracy),
        "nonce": None if nonce is None else nonce.integer(),
        "authority_name": None if name is None else name.content,
    }


def _imprint(element: Element) -> tuple[str, bytes]:
    fields = Fields(element)
    algorithm, imprint = _hash(fields.take(SEQUENCE)), fields.take(OCTET_STRING).content
    fields.end()
    return algorithm, imprint


def _time(element: Element) -> datetime:
    """UTC; RFC 3161 section 2.4.2 allows a fraction, without zeros at its end."""
    found = _TIME.fullmatch(element.content)
    try:
        if found is None:
            raise ValueError
        whole = datetime.strptime(found[1].decode(), "%Y%m%d%H%M%S").replace(tzinfo=UTC)
    except ValueError:
        raise TokenError("the time is not of the form YYYYMMDDhhmmss[.f]Z") from None
    return whole + timedelta(microseconds=int((found[2] or b"").ljust(6, b"0")))


def _accuracy(element: Element) -> timedelta:
    fields = Fields(element)
    seconds = fields.optional(INTEGER)
    millis, micros = (fields.optional(context(n, constructed=False)) for n in (0, 1))
    fields.end()
    parts = [0 if e is None else e.integer() for e in (seconds, millis, micros)]
    if not (0 <= parts[0] <= 86_400 and 0 <= parts[1] <= 999 and 0 <= parts[2] <= 999):
        raise TokenError("the accuracy is not from 0 s to a day")
    return timedelta(seconds=parts[0], milliseconds=parts[1], microseconds=parts[2])


def _algorithm(element: Element) -> str:
    """The OID of an AlgorithmIdentifier without parameters (absent, or NULL)."""
    fields = Fields(element)
    kind = fields.take(OID).oid()
    null = fields.optional(NULL)
    fields.end()
    if null is not None and null.content:
        raise DerError("an empty NULL")
    return kind


def _hash(element: Element) -> str:
    kind = _algorithm(element)
    if kind not in HASHES:
        raise TokenError(f"the digest algorithm {kind} is not SHA-256, SHA-384 or SHA-512")
    return HASHES[kind]
