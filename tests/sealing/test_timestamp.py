"""Timestamp tokens: what counts, what does not, and an oracle that agrees."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import ExtendedKeyUsageOID
from hypothesis import given, settings
from hypothesis import strategies as st
from rfc3161_client import decode_timestamp_response

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Timestamp, TimestampAuthority, timestamp, verify_token
from evalkit.sealing.timestamp import MAX_TOKEN, read_request, request, status_of
from evalkit.sealing.timestamp_authority import _bytes

from .timestamping import (
    ECDSA_OIDS,
    NOW,
    POLICY,
    SEQUENCE,
    SET,
    Authority,
    OpenSSL,
    certify,
    context,
    critical_extension,
    elements,
    encode,
    harmless_extension,
    integer,
    later,
    make_authority,
    needs_openssl,
    oid,
    rejection,
    token,
)

DATA = b'{"payload":"..."}'


@pytest.fixture(scope="module")
def authority() -> Authority:
    return make_authority()


def refused(
    match: str | None, response: bytes, *pinned: TimestampAuthority, data: bytes = DATA, **other: Any
) -> BindingError:
    with pytest.raises(BindingError, match=match) as caught:
        verify_token(response, data, pinned, **other)
    assert caught.value.binding is Binding.TIMESTAMP
    assert caught.value.exit_code == 20
    assert "(timestamp: " not in str(caught.value)  # not one refusal within another
    assert caught.value.expected
    assert caught.value.do
    return caught.value


# --- good tokens ---------------------------------------------------------------------------------


@needs_openssl
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({}, id="EC"),
        pytest.param({"rsa_bits": 2048}, id="RSA"),
        pytest.param({"between": 2}, id="two intermediates"),
    ],
)
@pytest.mark.parametrize(("digits", "accuracy"), [(0, "secs:1"), (3, "secs:2, millisecs:500, microsecs:100")])
def test_a_token_by_openssl_is_accepted_and_openssl_agrees(
    shape: dict[str, Any], digits: int, accuracy: str, tmp_path: Path
) -> None:
    made = make_authority(**shape)
    tsa = OpenSSL(tmp_path, made, digits=digits, accuracy=accuracy)
    query = request(DATA)
    before = datetime.now(UTC) - timedelta(seconds=1)
    response = tsa.reply(query)
    found = verify_token(response, DATA, [made.pinned()], request=query)
    assert before <= found.time <= datetime.now(UTC)
    assert found.accuracy == (timedelta(seconds=1) if digits == 0 else timedelta(seconds=2.5001))
    assert (found.authority, found.policy, found.serial) == ("test", POLICY, 2)
    assert bool(found.time.microsecond % 1000) is False
    said = tsa.text(response)
    assert (
        re.search(r"Time stamp: (.*) GMT", said)[1].split(".")[0] in found.time.strftime("%b %e %H:%M:%S %Y")
        or digits
    )
    assert tsa.accepts(response, DATA)
    assert tsa.accepts(response, DATA, query)
    assert verify_token(response, DATA, [made.pinned(policies=("1.2.3", POLICY))]) == found


@needs_openssl
@pytest.mark.parametrize(
    "shape",
    [
        pytest.param({}, id="plain"),
        pytest.param({"certificate_ids": ("v1",)}, id="certificate named by SHA-1 (RFC 2634)"),
        pytest.param({"certificate_ids": ("v1", "v2")}, id="named twice"),
        pytest.param({"digest": "sha512"}, id="SHA-512"),
        pytest.param({"extensions": harmless_extension()}, id="extension"),
        pytest.param({"accuracy": None}, id="no accuracy"),
        pytest.param({"status_text": "Operation Okay"}, id="status text"),
        pytest.param({"serial": 2**159 + 1}, id="serial of 160 bits"),
        pytest.param({"certificates": ()}, id="no certificate along"),
    ],
)
def test_a_token_by_hand_is_accepted_and_openssl_agrees(
    authority: Authority, shape: dict[str, Any], tmp_path: Path
) -> None:
    response = token(authority, DATA, **shape)
    found = verify_token(response, DATA, [authority.pinned()])
    assert found.time == NOW
    assert OpenSSL(tmp_path, authority).accepts(response, DATA)


def test_the_latest_moment_that_is_meant(authority: Authority) -> None:
    accuracy = encode(SEQUENCE, integer(2), integer(3, 0x80), integer(4, 0x81))
    found = verify_token(token(authority, DATA, accuracy=accuracy), DATA, [authority.pinned()])
    assert found.latest - found.time == timedelta(seconds=2, milliseconds=3, microseconds=4)
    assert str(found) == "2026-11-30T12:00:00Z ± 2.003 s, test"
    found = verify_token(token(authority, DATA, accuracy=None), DATA, [authority.pinned()])
    assert found.latest - found.time == timedelta(seconds=1)
    assert str(found) == "2026-11-30T12:00:00Z, test"


def test_a_fraction_of_a_second(authority: Authority) -> None:
    found = verify_token(token(authority, DATA, time=b"20261130120000.25Z"), DATA, [authority.pinned()])
    assert found.time == later(0.25)
    for digits, micros in ((b"000001", 1), (b"5", 500_000), (b"999999", 999_999)):
        response = token(authority, DATA, time=b"20261130120000." + digits + b"Z")
        found = verify_token(response, DATA, [authority.pinned()])
        assert found.time == NOW + timedelta(microseconds=micros)
    too_fine = token(authority, DATA, time=b"20261130120000.0000001Z")
    refused("finer than a microsecond", too_fine, authority.pinned())


def test_the_fraction_is_read_where_it_is_signed(authority: Authority) -> None:
    """Not in the text of the status, say, which comes first and which anybody can write."""
    said = "\x18\x1120261130120000.1Z"
    late = token(authority, DATA, time=b"20261130120000.9Z", status_text=said)
    assert verify_token(late, DATA, [authority.pinned()]).time == later(0.9)


def test_the_request(authority: Authority) -> None:
    query = request(DATA)
    asked = read_request(query)
    assert asked.message_imprint.hash_algorithm.dotted_string == "2.16.840.1.101.3.4.2.1"
    assert asked.message_imprint.message == hashlib.sha256(DATA).digest()
    assert asked.nonce is not None
    assert asked.nonce.bit_length() > 32
    assert asked.cert_req
    assert query != request(DATA)
    good = token(authority, DATA, nonce=asked.nonce)
    assert verify_token(good, DATA, [authority.pinned()], request=query).time == NOW
    pinned = authority.pinned()
    refused("another nonce", good, pinned, request=request(DATA))
    refused("another nonce", token(authority, DATA), pinned, request=query)
    refused("request is for other bytes", good, pinned, request=request(b"other"))
    refused("timestamp request", good, pinned, request=b"0")
    refused("timestamp request", good, pinned, request=query + b"0")
    # a request without a nonce proves nothing about the answer
    bare = encode(SEQUENCE, integer(1), elements(elements(query)[0][1])[1][2])
    assert read_request(bare).nonce is None
    refused("another nonce", token(authority, DATA), pinned, request=bare)
    other = bytearray(bare)
    other[bare.index(b"\x04\x02\x01") + 2] = 2  # SHA-384, said of as many bytes
    refused("request is over another digest", token(authority, DATA), pinned, request=bytes(other))


# --- vectors -------------------------------------------------------------------------------------


def _certificates(path: Path) -> list[bytes]:
    return [c.public_bytes(Encoding.DER) for c in x509.load_pem_x509_certificates(path.read_bytes())]


def test_vectors_made_locally(shared_data: Path) -> None:
    folder = shared_data / "sealing" / "evalkit_own" / "rfc3161_local"
    (leaf,), (root,) = _certificates(folder / "tsa.pem"), _certificates(folder / "root.pem")
    pinned = TimestampAuthority("local", leaf, (root,), policies=("1.3.6.1.4.1.99999.1.1",))
    data = b"pair-digest: run||attestation"
    good = (folder / "response_ok.tsr").read_bytes()
    found = verify_token(good, data, [pinned], request=(folder / "request.tsq").read_bytes())
    assert found == Timestamp(
        datetime(2026, 11, 30, 6, 38, 39, tzinfo=UTC), timedelta(seconds=1), "local", 4, POLICY
    )
    forged = (folder / "response_attacker_chain_embedded.tsr").read_bytes()
    refused("no pinned timestamp authority", forged, pinned, data=b"pair-digest")
    refused("other bytes", good, pinned, data=b"pair-digest")


def test_vectors_of_the_library(shared_data: Path) -> None:
    """They are over SHA-512 of "hello", which counts for no attestation; the signer is judged all the same."""
    folder = shared_data / "sealing" / "rfc3161" / "upstream_test_tsa"
    leaf, between, root = _certificates(folder / "ts_chain.pem")
    pinned = TimestampAuthority("upstream", leaf, (root,), (between,))
    good = decode_timestamp_response((folder / "response.tsr").read_bytes())
    assert timestamp._signer(good.signed_data, (pinned,)) is pinned
    timestamp._verify(good, pinned, hashlib.sha512(b"hello").digest())
    assert timestamp._time(good.tst_info) == datetime(2024, 10, 8, 15, 40, 32, tzinfo=UTC)
    refused("another digest", (folder / "response.tsr").read_bytes(), pinned, data=b"hello")

    other = decode_timestamp_response((folder / "other_response.tsr").read_bytes())
    with pytest.raises(BindingError, match="no pinned timestamp authority"):
        timestamp._signer(other.signed_data, (pinned,))
    # GHSA-3xxc-pwj6-jgrj: certificates were put into a token that was signed by somebody else
    injected = decode_timestamp_response((folder / "response-injected-certs.tsr").read_bytes())
    timestamp._verify(injected, pinned, hashlib.sha512(b"hello").digest())  # its signature is genuine
    with pytest.raises(BindingError, match="carries a certificate that is not pinned"):
        timestamp._signer(injected.signed_data, (pinned,))
    for certificate in injected.signed_data.certificates - {leaf}:
        with pytest.raises(BindingError):
            TimestampAuthority("spoofed", certificate, (root,), (between,))


# --- forgeries and defects -----------------------------------------------------------------------


def _twin(authority: Authority, root: str = "Test root") -> Authority:
    """Another authority that has copied every name and number, with keys of its own."""
    issuer = certify(root, ca=True)
    serial = authority.leaf.certificate.serial_number
    return Authority(certify("Test TSA", issuer, serial=serial), issuer)


Forge = Callable[[Authority], bytes]
TWO_TIMES = encode(SEQUENCE, oid("1.2.840.113549.1.9.5"), encode(SET, encode(0x17, b"261130120000Z") * 2))
SIGNING_TIME = encode(SEQUENCE, oid("1.2.840.113549.1.9.5"), encode(SET, encode(0x17, b"261130120000Z")))


def _at(data: bytes, *path: int) -> bytes:
    """The DER value at a path of positions, each counted in the content of the one before."""
    for n in path[:-1]:
        data = elements(data)[n][1]
    return elements(data)[path[-1]][2]


def _content(response: bytes) -> bytes:
    """EncapsulatedContentInfo, in which the TSTInfo is."""
    return _at(response, 0, 1, 1, 0, 2)


def _signer_info(response: bytes) -> bytes:
    return _at(response, 0, 1, 1, 0, -1, 0)


def _rebuilt(value: bytes, old: bytes, new: bytes) -> bytes:
    """The DER value with one element in it replaced."""
    tag, content, whole = elements(value)[0]
    if whole == old:
        return new
    if not tag & 0x20:
        return whole
    return encode(tag, *(_rebuilt(child, old, new) for _, _, child in elements(content)))


DEFECTS: list[Any] = [
    pytest.param("no pinned", lambda a: token(make_authority(), DATA), id="another authority"),
    pytest.param(
        "no pinned", lambda a: token(make_authority(root=a.root), DATA), id="another leaf under the same root"
    ),
    pytest.param(
        "no pinned",
        lambda a: token(make_authority(root=a.root, usage=()), DATA),
        id="a leaf without the usage under the same root",
    ),
    pytest.param(
        "no pinned",
        lambda a: token(_twin(a, root="Other root"), DATA, certificates=()),
        id="the leaf's number by another issuer",
    ),
    pytest.param("not pinned", lambda a: token(_twin(a), DATA), id="copied names"),
    pytest.param(
        "refuses it .*signature",
        lambda a: token(_twin(a), DATA, certificates=()),
        id="copied names, no certificate",
    ),
    pytest.param(
        "refuses it .*signature",
        lambda a: token(_twin(a), DATA, certificate_of=a.leaf.der, certificates=(a.leaf.der,)),
        id="copied names, the true leaf embedded",
    ),
    pytest.param(
        "not pinned",
        lambda a: token(a, DATA, certificates=(a.leaf.der, make_authority().leaf.der)),
        id="injected certificate",
    ),
    pytest.param(
        "not a timestamp answer", lambda a: token(a, DATA, certificates=(b"0\x00",)), id="no certificate"
    ),
    pytest.param("other bytes", lambda a: token(a, b"other"), id="other data"),
    pytest.param("another digest", lambda a: token(a, DATA, imprint="sha512"), id="SHA-512 imprint"),
    pytest.param("another digest", lambda a: token(a, DATA, imprint="sha1"), id="SHA-1 imprint"),
    pytest.param(
        "another digest",
        lambda a: token(a, DATA, imprint="sha384", imprint_value=hashlib.sha256(DATA).digest()),
        id="a SHA-256 imprint said to be SHA-384",
    ),
    pytest.param("other bytes", lambda a: token(a, DATA, imprint_value=b"\0" * 20), id="short imprint"),
    pytest.param("weak", lambda a: token(a, DATA, digest="sha1"), id="signed over a SHA-1 digest"),
    pytest.param(
        "weak",
        lambda a: token(a, DATA, digest="sha1", listed=("sha1", "sha256")),
        id="SHA-1 beside SHA-256",
    ),
    pytest.param(
        "refuses it .*digest",
        lambda a: token(a, DATA, digest="sha1", listed=("sha256",)),
        id="SHA-1 not listed",
    ),
    pytest.param("weak", lambda a: token(a, DATA, digest="md5", signature_hash="sha256"), id="MD5"),
    pytest.param(
        "refuses it",
        lambda a: token(a, DATA, signature_hash="sha1", signature_algorithm=ECDSA_OIDS["sha1"]),
        id="ECDSA with SHA-1",
    ),
    pytest.param(
        "refuses it .*signature",
        lambda a: token(a, DATA, signature_hash="sha512", signature_algorithm=ECDSA_OIDS["sha256"]),
        id="another hash",
    ),
    pytest.param(
        "refuses it .*digest", lambda a: token(a, DATA, message_digest=b"\0" * 32), id="message digest"
    ),
    pytest.param(
        "refuses it", lambda a: token(a, DATA, content_type="1.2.840.113549.1.7.1"), id="content type"
    ),
    pytest.param("refuses it", lambda a: token(a, DATA, detached=True), id="detached content"),
    pytest.param(
        "refuses it",
        lambda a: token(a, DATA, attributes_as_content=True),
        id="signed attributes passed off as the content",
    ),
    pytest.param("refuses it", lambda a: token(a, DATA, crls=b"0\x00"), id="no revocation list"),
    pytest.param(
        "refuses it",
        lambda a: token(a, DATA, certificates=()).replace(b"\x0c\x09Test root", b"\x44\x09Test root"),
        id="a signer's name of an unknown kind",
    ),
    pytest.param("refuses it", lambda a: token(a, DATA, policy=""), id="no policy"),
    pytest.param(
        "refuses it .*digest", lambda a: token(a, DATA, listed=("sha512",)), id="another listed digest"
    ),
    pytest.param("2 signers", lambda a: token(a, DATA, signers=2), id="the signer twice"),
    pytest.param(
        "2 signers",
        lambda a: token(a, DATA, other_signers=(_signer_info(token(make_authority(), DATA)),)),
        id="a second signer",
    ),
    pytest.param(
        "2 signers",
        lambda a: token(
            make_authority(), DATA, other_signers=(_signer_info(token(a, DATA)),), certificates=()
        ),
        id="the true signer beside a forger",
    ),
    pytest.param("0 signers", lambda a: token(a, DATA, signers=0), id="no signer"),
    pytest.param(
        "not valid at",
        lambda a: token(a, DATA, time=datetime(2019, 12, 31, tzinfo=UTC)),
        id="before the leaf",
    ),
    pytest.param(
        "not valid at", lambda a: token(a, DATA, time=datetime(2040, 1, 2, tzinfo=UTC)), id="after the leaf"
    ),
    pytest.param(
        "granted with modifications", lambda a: token(a, DATA, status=1), id="granted with modifications"
    ),
    pytest.param("rejected", lambda a: token(a, DATA, status=2), id="rejected with a token"),
    pytest.param("rejected: no such algorithm", lambda a: rejection(), id="rejected"),
    pytest.param("status 77", lambda a: token(a, DATA, status=77), id="an unknown status"),
    pytest.param(
        "refuses it", lambda a: encode(SEQUENCE, encode(SEQUENCE, integer(0))), id="granted without a token"
    ),
    pytest.param(
        "refuses it", lambda a: token(a, DATA, accuracy=encode(SEQUENCE, integer(-1))), id="negative accuracy"
    ),
    pytest.param(
        "refuses it",
        lambda a: token(a, DATA, accuracy=encode(SEQUENCE, integer(0), integer(1000, 0x80))),
        id="accuracy of 1000 ms",
    ),
    pytest.param(
        "accuracy is 86401 s",
        lambda a: token(a, DATA, accuracy=encode(SEQUENCE, integer(86401))),
        id="accuracy of more than a day",
    ),
    *(
        pytest.param("refuses it", lambda a, t=t: token(a, DATA, time=t), id=f"time {t.decode()}")
        for t in (
            b"20261130120000",
            b"20261130120000+0100",
            b"20261130120000.Z",
            b"20261130120000.50Z",
            b"202611301200Z",
            b"20261331120000Z",
            b"20261130120060Z",
            b"20261130120000,5Z",
            b"20261130120000Z ",
        )
    ),
]


@pytest.mark.parametrize(("match", "forge"), DEFECTS)
def test_a_defect_is_refused_and_named(authority: Authority, match: str, forge: Forge) -> None:
    refused(match, forge(authority), authority.pinned())


#: what the library does not look at: nobody signs it, or the authority itself has to make it
LEFT_OPEN: list[Any] = [
    pytest.param({"signed_content_type": "1.2.840.113549.1.7.1"}, id="signed content type"),
    pytest.param({"certificate_ids": ()}, id="no signing certificate"),
    pytest.param({"certificate_of": b"another"}, id="another signing certificate"),
    pytest.param({"with_attributes": False}, id="no signed attributes"),
    pytest.param({"more_attributes": (SIGNING_TIME, TWO_TIMES)}, id="an attribute twice"),
    pytest.param({"unsigned": SIGNING_TIME}, id="unsigned attributes"),
    pytest.param({"listed": ("sha256", "sha512")}, id="two listed digests"),
    pytest.param({"signature_algorithm": "1.2.840.113549.1.1.1"}, id="an EC key said to be RSA"),
    pytest.param({"failure": encode(3, b"\0\x80")}, id="granted with a failure"),
    pytest.param({"extensions": critical_extension()}, id="critical extension"),
    pytest.param({"name": encode(context(4), encode(SEQUENCE))}, id="another name"),
    pytest.param({"tst_version": 2}, id="TSTInfo version"),
    pytest.param({"data_version": 1}, id="SignedData version"),
    pytest.param({"signer_version": 3}, id="SignerInfo version"),
]


@pytest.mark.parametrize("shape", LEFT_OPEN)
def test_what_is_not_looked_at_changes_nothing_that_is_said(
    authority: Authority, shape: dict[str, Any]
) -> None:
    pinned = [authority.pinned()]
    assert verify_token(token(authority, DATA, **shape), DATA, pinned) == verify_token(
        token(authority, DATA), DATA, pinned
    )


#: what openssl accepts by default although RFC 3161 or this format forbids it; evalkit is the stricter one
LENIENT = {
    "another listed digest", "SHA-1 imprint", "SHA-512 imprint", "accuracy of 1000 ms",
    "another leaf under the same root", "granted with modifications", "injected certificate", "negative accuracy",
    "signed over a SHA-1 digest", "SHA-1 beside SHA-256", "SHA-1 not listed", "accuracy of more than a day",
}  # fmt: skip


@needs_openssl
def test_evalkit_is_at_least_as_strict_as_openssl(authority: Authority, tmp_path: Path) -> None:
    oracle = OpenSSL(tmp_path, authority)
    accepted = {p.id for p in DEFECTS if oracle.accepts(p.values[1](authority), DATA)}
    times = {p.id for p in DEFECTS if str(p.id).startswith("time ")}
    assert accepted - times <= LENIENT
    assert oracle.accepts(token(authority, DATA), DATA)


def test_no_authority_and_several(authority: Authority) -> None:
    good = token(authority, DATA)
    refused("no pinned timestamp authority", good)
    others = [make_authority().pinned(f"other-{n}") for n in range(3)]
    assert verify_token(good, DATA, [*others, authority.pinned()]).authority == "test"


def test_algorithms_of_an_rsa_key() -> None:
    made = make_authority(rsa_bits=2048)
    for kind in ("1", "11"):
        response = token(made, DATA, signature_algorithm="1.2.840.113549.1.1." + kind)
        assert verify_token(response, DATA, [made.pinned()]).time == NOW
    for weak in ("sha1", "sha512"):
        refused("refuses it .*signature", token(made, DATA, signature_hash=weak), made.pinned())


def test_a_policy_that_is_not_pinned(authority: Authority) -> None:
    refused("under the policy", token(authority, DATA), authority.pinned(policies=("1.2.3.4",)))


def test_an_intermediate_that_had_expired() -> None:
    root = certify("Test root", ca=True)
    between = certify("Between", root, ca=True, end=NOW - timedelta(days=1))
    made = Authority(certify("Test TSA", between), root, [between])
    refused("not valid at", token(made, DATA), made.pinned())
    assert verify_token(token(made, DATA, time=NOW - timedelta(days=2)), DATA, [made.pinned()])


def test_an_expired_leaf_still_vouches_for_what_it_stamped_when_it_was_valid() -> None:
    made = make_authority(end=datetime(2021, 1, 1, tzinfo=UTC))
    at = datetime(2020, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert verify_token(token(made, DATA, time=at), DATA, [made.pinned()]).time == at


def test_truncation_at_every_length(authority: Authority) -> None:
    good = token(authority, DATA)
    for size in range(len(good)):
        refused(None, good[:size], authority.pinned())


def test_huge_and_trailing_and_nonsense(authority: Authority) -> None:
    good, pinned = token(authority, DATA), authority.pinned()
    longest = token(authority, DATA, status_text="x" * (MAX_TOKEN - len(token(authority, DATA)) - 20))
    assert verify_token(longest, DATA, [pinned]) == verify_token(good, DATA, [pinned])
    refused("at most 65536 bytes", token(authority, DATA, status_text="x" * MAX_TOKEN), pinned)
    refused("not a timestamp answer", good + b"\0", pinned)
    refused("not a timestamp answer", good + good, pinned)
    for nonsense in (
        b"",
        b"0",
        b"0\x80",
        b"\x30\x80\0\0",
        b"<html>",
        b"0\x84\xff\xff\xff\xff",
        b"\x3f\x81\x00",
    ):
        refused(None, nonsense, pinned)
    with_long_length = b"\x30\x84" + (len(good) - 4).to_bytes(4, "big") + good[4:]
    refused("not a timestamp answer", with_long_length, pinned)


# --- mutations -----------------------------------------------------------------------------------


def _outcome(response: bytes, pinned: TimestampAuthority) -> Timestamp | None:
    try:
        return verify_token(response, DATA, [pinned])
    except BindingError as error:
        if error.binding is Binding.TIMESTAMP:
            return None
        raise


@pytest.fixture(scope="module")
def stamped(authority: Authority) -> tuple[bytes, TimestampAuthority, Timestamp]:
    good = token(authority, DATA, status_text="Okay")
    pinned = authority.pinned()
    return good, pinned, verify_token(good, DATA, [pinned])


@settings(max_examples=400, deadline=None)
@given(st.data())
def test_any_mutation_is_refused_or_changes_nothing_that_is_said(
    stamped: tuple[bytes, TimestampAuthority, Timestamp], data: st.DataObject
) -> None:
    good, pinned, expected = stamped
    changed = bytearray(good)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        how = data.draw(st.sampled_from(["set", "delete", "insert"]))
        octet = data.draw(st.integers(0, 255))
        if how == "set":
            changed[at] = octet
        elif how == "delete":
            del changed[at]
        else:
            changed.insert(at, octet)
    assert _outcome(bytes(changed), pinned) in (None, expected)


@pytest.mark.slow
def test_every_single_bit_that_is_signed_counts(
    authority: Authority, stamped: tuple[bytes, TimestampAuthority, Timestamp]
) -> None:
    good, pinned, expected = stamped
    still = set()
    for at in range(len(good)):
        for bit in range(8):
            changed = bytearray(good)
            changed[at] ^= 1 << bit
            found = _outcome(bytes(changed), pinned)
            assert found in (None, expected)
            if found is not None:
                still.add(at)
    signer = _signer_info(good)
    for counts in (_content(good), _at(signer, 0, 3), _at(signer, 0, 5), authority.leaf.der):
        start = good.index(counts)
        assert still.isdisjoint(range(start, start + len(counts)))
    text = good.index(b"Okay")
    assert set(range(text, text + 4)) <= still


def _trees(value: bytes, more: tuple[bytes, ...] = (b"\x05\x00",)) -> Iterator[bytes]:
    """Each way to repeat or leave out one element of a DER value, or to put one of ``more`` beside it."""
    tag, content, _ = elements(value)[0]
    if not tag & 0x20:
        return
    raw = [whole for _, _, whole in elements(content)]
    for n in range(len(raw) + 1):
        for element in more:
            yield encode(tag, *raw[:n], element, *raw[n:])
    for n, child in enumerate(raw):
        yield encode(tag, *raw[: n + 1], *raw[n:])
        yield encode(tag, *raw[:n], *raw[n + 1 :])
        for inner in _trees(child, more):
            yield encode(tag, *raw[:n], inner, *raw[n + 1 :])


def test_elements_added_repeated_or_left_out(stamped: tuple[bytes, TimestampAuthority, Timestamp]) -> None:
    good, pinned, expected = stamped
    outcomes = [_outcome(changed, pinned) for changed in _trees(good)]
    assert len(outcomes) > 300
    assert set(outcomes) == {None, expected}


def test_a_second_content_is_never_the_one_that_is_read(
    authority: Authority, stamped: tuple[bytes, TimestampAuthority, Timestamp]
) -> None:
    """Another TSTInfo, unsigned, in every wrapping and at every place of the token, of the attributes too.

    Were it read in place of the signed one, another time would come out.
    """
    _, pinned, expected = stamped
    forged = _content(token(authority, DATA, time=later(-86_400), serial=8))
    octets = _at(forged, 0, 1, 0)
    attribute = encode(SEQUENCE, oid("1.2.840.113549.1.9.16.1.4"), encode(SET, octets))
    good = token(authority, DATA, status_text="Okay", unsigned=attribute)
    assert _outcome(good, pinned) == expected
    changes = list(_trees(good, (forged, _at(forged, 0, 1), octets, elements(octets)[0][1])))
    assert len(changes) > 500
    for changed in changes:
        assert _outcome(changed, pinned) in (None, expected)
    # within the content, where one reader may take the first and another the last
    genuine = _at(_content(good), 0, 1, 0)
    for pair in ((genuine, octets), (octets, genuine)):
        for wrapping in (context(0), 0x24):
            assert _outcome(_rebuilt(good, genuine, encode(wrapping, *pair)), pinned) is None
            assert (
                _outcome(_rebuilt(good, _at(_content(good), 0, 1), encode(wrapping, *pair)), pinned) is None
            )


def test_what_is_said_is_what_is_signed(authority: Authority) -> None:
    """The content of one token under the signature of another: refused, whatever of it differs."""
    pinned, stranger = authority.pinned(), token(authority, b"other", nonce=5)
    good = token(authority, DATA, nonce=5)
    shapes: list[dict[str, Any]] = [
        {"time": later(-1)},
        {"time": b"20261130115959.5Z"},
        {"serial": 8},
        {"policy": "1.2.3"},
        {"accuracy": None},
        {"accuracy": encode(SEQUENCE, integer(0))},
        {"nonce": 6},
    ]
    for shape in shapes:
        other = token(authority, DATA, **({"nonce": 5} | shape))
        assert verify_token(other, DATA, [pinned])
        refused("refuses it .*digest", _rebuilt(good, _content(good), _content(other)), pinned)
    refused("refuses it .*digest", _rebuilt(stranger, _content(stranger), _content(good)), pinned)


def test_what_no_signature_covers_changes_nothing(
    authority: Authority, stamped: tuple[bytes, TimestampAuthority, Timestamp]
) -> None:
    """Certificates may be taken out, or pinned ones put in: the list is unsigned, and decides nothing."""
    _, pinned, expected = stamped
    for along in ((), (authority.leaf.der, authority.root.der)):
        assert _outcome(token(authority, DATA, certificates=along), pinned) == expected


# --- authorities ---------------------------------------------------------------------------------


def _refused_entry(match: str | None, make: Callable[[], Any]) -> None:
    with pytest.raises(BindingError, match=match) as caught:
        make()
    assert caught.value.binding is Binding.AUTHORITY


def test_every_field_of_an_authority_survives() -> None:
    pinned = make_authority(between=2).pinned("dfn-2026", policies=("1.2.3", "2.999.4"), comment="ü")
    assert TimestampAuthority.from_record(pinned.record()) == pinned
    assert [c.subject.rfc4514_string() for c in pinned.chain()] == [
        "CN=Test TSA", "CN=Test intermediate 1", "CN=Test intermediate 0", "CN=Test root",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("match", "make"),
    [
        ("names no authority", lambda: make_authority().pinned("A b")),
        ("no policy", lambda: make_authority().pinned(policies=("1.2.03",))),
        ("one value", lambda: make_authority().pinned(policies="1.2.3")),
        ("not a certificate for timestamps", lambda: make_authority(usage=()).pinned()),
        ("not a certificate for timestamps", lambda: make_authority(critical=False).pinned()),
        (
            "not a certificate for timestamps",
            lambda: make_authority(
                usage=(ExtendedKeyUsageOID.TIME_STAMPING, ExtendedKeyUsageOID.CODE_SIGNING)
            ).pinned(),
        ),
        (
            "not a certificate for timestamps",
            lambda: make_authority(usage=(ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE,)).pinned(),
        ),
        (
            "may issue certificates",
            lambda: make_authority(ca=True, usage=(ExtendedKeyUsageOID.TIME_STAMPING,)).pinned(),
        ),
        ("weak", lambda: make_authority(rsa_bits=1024).pinned()),
        ("weak", lambda: make_authority(key=ec.generate_private_key(ec.SECP224R1())).pinned()),
        ("weak", lambda: make_authority(key=ed25519.Ed25519PrivateKey.generate()).pinned()),
    ],
)
def test_an_authority_that_makes_no_sense_cannot_exist(match: str, make: Callable[[], Any]) -> None:
    _refused_entry(match, make)


def test_a_chain_that_does_not_hold_cannot_be_pinned() -> None:
    made, other = make_authority(between=1), make_authority(between=1)
    leaf, root, between = made.leaf.der, made.root.der, made.between[0].der
    make = TimestampAuthority
    _refused_entry("does not end in a pinned root", lambda: make("t", leaf, (root,)))
    _refused_entry("does not end in a pinned root", lambda: make("t", leaf, (), (between,)))
    _refused_entry("does not end in a pinned root", lambda: make("t", leaf, (other.root.der,), (between,)))
    _refused_entry("does not end in a pinned root", lambda: make("t", leaf, (root,), (other.between[0].der,)))
    _refused_entry("does not sign itself", lambda: make("t", leaf, (between,)))
    _refused_entry("does not sign itself", lambda: make("t", leaf, (root, between), (between,)))
    _refused_entry("signs itself", lambda: make("t", leaf, (root,), (between, root)))
    _refused_entry("cannot be read", lambda: make("t", b"\x30\x00", (root,), (between,)))
    two = make_authority(between=2)
    first, second = (c.der for c in two.between)
    assert len(make("t", two.leaf.der, (other.root.der, two.root.der), (first, second)).chain()) == 4
    for wrong in ((second, first), (first,), (second,), (first, second, between)):
        with pytest.raises(BindingError, match="does not end in a pinned root"):
            make("t", two.leaf.der, (two.root.der,), wrong)
    # a certificate that may not issue others: an ordinary one, used as an intermediate
    ordinary = certify("Ordinary", made.root)
    _refused_entry("does not end", lambda: make("t", certify("TSA", ordinary).der, (root,), (ordinary.der,)))


@pytest.mark.parametrize(
    "change",
    [
        {"name": 1},
        {"leaf": "AA=="},
        {"leaf": "not base64"},
        {"leaf": ["x"]},
        {"roots": "x"},
        {"roots": []},
        {"policies": [1]},
        {"policies": ["1.2", "1.2"]},
        {"comment": None},
        {"unknown": 1},
    ],
)
def test_malformed_entries_are_refused(authority: Authority, change: dict[str, Any]) -> None:
    good = authority.pinned().record()
    _refused_entry(None, lambda: TimestampAuthority.from_record(good | change))
    for name in good:
        _refused_entry(
            "missing or unknown",
            lambda name=name: TimestampAuthority.from_record({k: v for k, v in good.items() if k != name}),
        )


def test_one_spelling_of_base64(authority: Authority) -> None:
    assert _bytes("MAA=", "leaf", "") == b"\x30\x00"
    _refused_entry("base64", lambda: _bytes("MAB=", "leaf", ""))
    good = authority.pinned().record()
    _refused_entry("base64", lambda: TimestampAuthority.from_record(good | {"leaf": good["leaf"] + "\n"}))
    _refused_entry(
        "base64", lambda: TimestampAuthority.from_record(good | {"leaf": good["leaf"].rstrip("=")[:-1]})
    )


# --- the library and the extra ------------------------------------------------------------


def test_the_library_must_agree(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    import rfc3161_client.verify as library

    good, pinned = token(authority, DATA), authority.pinned()
    monkeypatch.setattr(library._Verifier, "verify", lambda *_: False)
    refused("rfc3161-client refuses", good, pinned)

    def says_no(*_: Any) -> bool:
        raise library.VerificationError("because")

    monkeypatch.setattr(library._Verifier, "verify", says_no)
    refused("rfc3161-client refuses it .because", good, pinned)


def test_a_panic_of_the_library_is_a_refusal_and_an_interrupt_is_not(
    authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    import rfc3161_client

    class PanicException(BaseException):
        pass

    def panics(_: bytes) -> Any:
        raise PanicException("called Option::unwrap on a None value")

    monkeypatch.setattr(rfc3161_client, "decode_timestamp_response", panics)
    refused("called Option::unwrap", token(authority, DATA), authority.pinned())

    def interrupted(_: bytes) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(rfc3161_client, "decode_timestamp_response", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verify_token(token(authority, DATA), DATA, [authority.pinned()])


def test_without_the_extra(authority: Authority, monkeypatch: pytest.MonkeyPatch) -> None:
    good, pinned = token(authority, DATA), authority.pinned()
    monkeypatch.setattr(timestamp, "available", lambda: False)
    for call in (lambda: request(DATA), lambda: verify_token(good, DATA, [pinned])):
        with pytest.raises(EvalkitError, match=r"pip install 'evalkit-sealed\[timestamps\]'") as caught:
            call()
        assert caught.value.exit_code == 2


def test_the_lowest_version_of_the_library() -> None:
    """1.0.7 and 1.0.8 accept a token whose chain the attacker embedded himself."""
    from importlib.metadata import version

    assert tuple(map(int, version("rfc3161-client").split(".")[:3])) >= (1, 0, 9)


# --- the words of the authority ------------------------------------------------------------------


def test_status_of(authority: Authority) -> None:
    assert status_of(token(authority, DATA)) == ""
    assert status_of(rejection()) == "rejected: no such algorithm"
    assert status_of(rejection("a\x1b[31m\nb")) == "rejected: a [31m b"
    assert len(status_of(rejection("x" * 9000))) < 250
    assert status_of(b"<html>") == ""
