"""Timestamps by others: that some bytes existed at a time which a pinned authority states (RFC 3161).

rfc3161-client reads a token, and verifies with OpenSSL that the pinned leaf's key signed what it read.  It
does not mind which other certificates a token carries, which no signature covers: trusting those is how a
forger once brought a chain of his own (GHSA-3xxc-pwj6-jgrj).  So a token counts here only if, besides,

1. it is the answer ``granted``, of at most `MAX_TOKEN` bytes;
2. its imprint is the SHA-256 of the bytes, and its nonce that of the request, where there is one at hand;
3. its one signer is named as the pinned leaf, and the digest that is signed is no weaker than SHA-256;
4. every certificate that it carries is pinned, and the pinned chain was valid at the stated time;
5. its policy is among the pinned ones, where some are.

Revocation is not looked up: whoever hears that an authority's key was stolen takes the authority out of
the trust file.  A refusal is a `BindingError` of kind ``timestamp``.  No network here:
evalkit.sealing.tsa_http asks, evalkit.sealing.timestamp_folder keeps.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.timestamp_authority import TimestampAuthority

if TYPE_CHECKING:
    from rfc3161_client import SignedData, TimeStampRequest, TimeStampResponse, TimeStampTokenInfo

#: bytes of an answer; real ones have 500 to 8,000
MAX_TOKEN = 64 * 1024
_SHA256, _SHA384, _SHA512 = (f"2.16.840.1.101.3.4.2.{n}" for n in (1, 2, 3))
_STATUS = ("granted", "granted with modifications", "rejected", "waiting", "revocation warning", "revoked")
#: a time without an accuracy is taken to mean the second that it names
_ONE_SECOND = timedelta(seconds=1)
_MAX_ACCURACY = 86_400  # s


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


def read_request(query: bytes) -> TimeStampRequest:
    """A DER TimeStampReq, taken apart."""
    from rfc3161_client._rust import parse_timestamp_request  # the package exports it nowhere else

    with _refusing("the request is not a timestamp request"):
        return parse_timestamp_request(query)


def asked_imprint(query: bytes) -> bytes | None:
    """The digest for which a request asks; None where it is no request."""
    try:
        return read_request(query).message_imprint.message
    except BindingError:
        return None


def stated_imprint(response: bytes) -> bytes | None:
    """The digest that a token says it is over, nothing verified; None where it cannot be read."""
    try:
        with _refusing("it cannot be read"):
            return _read_response(response).tst_info.message_imprint.message
    except BindingError:
        return None


def status_of(response: bytes) -> str:
    """Why the authority gave no token, or the empty string where it says that it gave one."""
    try:
        return _refusal(_read_response(response))
    except BindingError:
        return ""


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
    imprint, answer = hashlib.sha256(data).digest(), _read_response(response)
    if refusal := _refusal(answer):
        _refuse(f"the authority gave no timestamp ({refusal})", "the status granted")
    with _refusing("rfc3161-client refuses it"):
        info = answer.tst_info
        _check_imprint(info, imprint, "it")
        if request is not None:
            asked = read_request(request)
            _check_imprint(asked, imprint, "the request")
            if asked.nonce is None or info.nonce != asked.nonce:
                _refuse("it does not answer this request: another nonce", "the nonce of the request")
        authority = _signer(answer.signed_data, tuple(authorities))
        _verify(answer, authority, imprint)
        policy = info.policy.dotted_string
        if authority.policies and policy not in authority.policies:
            _refuse(f"it was made under the policy {policy}", " or ".join(authority.policies))
        return Timestamp(_time(info), _accuracy(info), authority.name, info.serial_number, policy)


def _read_response(response: bytes) -> TimeStampResponse:
    from rfc3161_client import decode_timestamp_response

    if len(response) > MAX_TOKEN:
        _refuse(f"it has {len(response)} bytes", f"at most {MAX_TOKEN} bytes")
    with _refusing("it is not a timestamp answer"):
        return decode_timestamp_response(response)


def _refusal(answer: TimeStampResponse) -> str:
    said = "".join(c if c.isprintable() else " " for c in " ".join(answer.status_string))[:200]
    known = _STATUS[answer.status] if answer.status < len(_STATUS) else f"status {answer.status}"
    return "" if answer.status == 0 else f"{known}{': ' if said else ''}{said}"


def _check_imprint(holder: TimeStampTokenInfo | TimeStampRequest, imprint: bytes, what: str) -> None:
    found = holder.message_imprint
    if found.hash_algorithm.dotted_string != _SHA256:
        _refuse(f"{what} is over another digest than SHA-256", "the SHA-256 of the attestation")
    if found.message != imprint:
        _refuse(f"{what} is for other bytes", "the SHA-256 of this very attestation")


def _signer(signed: SignedData, pinned: tuple[TimestampAuthority, ...]) -> TimestampAuthority:
    """The pinned authority whose leaf the token names as its one signer."""
    if len(signed.signer_infos) != 1:
        _refuse(f"it has {len(signed.signer_infos)} signers", "one")
    (signer,) = signed.signer_infos
    for authority in pinned:
        leaf = authority.chain()[0]
        if (leaf.issuer, leaf.serial_number) == (signer.issuer, signer.serial_number):
            break
    else:
        _refuse(
            "no pinned timestamp authority signed it",
            f"the signature of a pinned leaf certificate (pinned: {', '.join(a.name for a in pinned) or 'none'})",
            "pin the authority if you know it (evalkit timestamps pin); or take the token away, which"
            " removes a proof and nothing else",
        )
    # OpenSSL computes the digests that are listed here and no other, so the signer's is one of them.
    if not {d.dotted_string for d in signed.digest_algorithms} <= {_SHA256, _SHA384, _SHA512}:
        _refuse("a weak or unknown digest is signed", "SHA-256, SHA-384 or SHA-512")
    if not signed.certificates <= authority.certificates:
        _refuse("it carries a certificate that is not pinned", f"certificates of {authority.name} only")
    return authority


def _verify(answer: TimeStampResponse, authority: TimestampAuthority, imprint: bytes) -> None:
    """The leaf's key signed it, when all of the chain was valid."""
    from rfc3161_client import VerifierBuilder

    leaf, *between, root = chain = authority.chain()
    time = answer.tst_info.gen_time
    for certificate in chain:
        if not certificate.not_valid_before_utc <= time <= certificate.not_valid_after_utc:
            _refuse(
                f"a certificate of {authority.name} was not valid at {time:%Y-%m-%d %H:%M:%S} UTC",
                f"{certificate.not_valid_before_utc} to {certificate.not_valid_after_utc}",
            )
    verifier = VerifierBuilder(tsa_certificate=leaf, intermediates=between, roots=[root]).build()
    if verifier.verify(answer, imprint) is not True:
        raise ValueError("no reason given")


def _time(info: TimeStampTokenInfo) -> datetime:
    """UTC.  The library drops the fraction of a second: the token would count for earlier than it says."""
    second = f"{info.gen_time:%Y%m%d%H%M%S}".encode()
    found = re.search(second + rb"(?:\.(\d{1,6}))?Z", info.as_bytes())  # type: ignore[attr-defined]
    if found is None:
        _refuse("its time is finer than a microsecond", "a fraction of at most six digits")
    return info.gen_time + timedelta(microseconds=int((found[1] or b"").ljust(6, b"0")))


def _accuracy(info: TimeStampTokenInfo) -> timedelta | None:
    if (stated := info.accuracy) is None:
        return None
    seconds, millis, micros = stated.seconds or 0, stated.millis or 0, stated.micros or 0
    if seconds > _MAX_ACCURACY:
        _refuse(f"its accuracy is {seconds} s", f"at most {_MAX_ACCURACY} s")
    return timedelta(seconds=seconds, milliseconds=millis, microseconds=micros)


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """What rfc3161-client raises is a refusal.  A panic in its Rust code is no `Exception`."""
    try:
        yield
    except (EvalkitError, MemoryError):
        raise
    except BaseException as error:
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        reasons = re.findall(r'reason: "([^"]+)"', str(error)) or [str(error)]  # OpenSSL gives a list of them
        _refuse(f"{what} ({' '.join(', '.join(reasons).split())[:200]})", "DER, as RFC 3161 describes it")


def _refuse(
    what: str,
    expected: str,
    do: str = "ask the authority for a token again; do not rely on this one (taking it away removes a proof only)",
) -> NoReturn:
    raise BindingError(Binding.TIMESTAMP, what, where="timestamp token", expected=expected, do=do)
