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

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Timestamp, TimestampAuthority, timestamp, verify_token
from evalkit.sealing.der import (
    OCTET_STRING,
    SEQUENCE,
    SET,
    DerError,
    Element,
    context,
    elements,
    encode,
    parse,
)
from evalkit.sealing.timestamp import request, signed_by
from evalkit.sealing.timestamp_token import MAX_TOKEN, TokenError, read_request, read_response, status_of

from .timestamping import (
    ECDSA_OIDS,
    NOW,
    POLICY,
    Authority,
    OpenSSL,
    certify,
    critical_extension,
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
        re.search(r"Time stamp: (.*) GMT", said)[1].split(".")[0]
        in found.time.strftime(  # type: ignore[index]
            "%b %e %H:%M:%S %Y"
        )
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


def test_the_request(authority: Authority) -> None:
    query = request(DATA)
    algorithm, imprint, nonce = read_request(query)
    assert (algorithm, imprint) == ("sha256", hashlib.sha256(DATA).digest())
    assert nonce is not None
    assert nonce.bit_length() > 32
    assert query != request(DATA)
    assert query.endswith(b"\x01\x01\xff")  # the certificate is asked for
    good = token(authority, DATA, nonce=nonce)
    assert verify_token(good, DATA, [authority.pinned()], request=query).time == NOW
    pinned = authority.pinned()
    refused("another nonce", good, pinned, request=request(DATA))
    refused("another nonce", token(authority, DATA), pinned, request=query)
    refused("request is for other bytes", good, pinned, request=request(b"other"))
    refused("not a timestamp request", good, pinned, request=b"0")
    # a request without a nonce proves nothing about the answer
    bare = encode(SEQUENCE, integer(1), parse(query).content[3 : 3 + 51])
    assert read_request(bare) == ("sha256", hashlib.sha256(DATA).digest(), None)
    refused("another nonce", token(authority, DATA), pinned, request=bare)


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
    good = read_response((folder / "response.tsr").read_bytes())
    assert signed_by(good, [pinned]) is pinned
    timestamp._second_opinion(good, pinned, hashlib.sha512(b"hello").digest())
    assert good.time == datetime(2024, 10, 8, 15, 40, 32, tzinfo=UTC)
    refused("sha512", (folder / "response.tsr").read_bytes(), pinned, data=b"hello")

    other = read_response((folder / "other_response.tsr").read_bytes())
    with pytest.raises(BindingError, match="no pinned timestamp authority"):
        signed_by(other, [pinned])
    # GHSA-3xxc-pwj6-jgrj: certificates were put into a token that was signed by somebody else
    injected = read_response((folder / "response-injected-certs.tsr").read_bytes())
    with pytest.raises(BindingError, match="carries a certificate that is not pinned"):
        signed_by(injected, [pinned])
    for certificate in {*injected.certificates} - {leaf}:
        with pytest.raises(BindingError):
            TimestampAuthority("spoofed", certificate, (root,), (between,))


# --- forgeries and defects -----------------------------------------------------------------------


def _twin(authority: Authority) -> Authority:
    """Another authority that has copied every name and number, with keys of its own."""
    root = certify("Test root", ca=True)
    serial = authority.leaf.certificate.serial_number
    return Authority(certify("Test TSA", root, serial=serial), root)


Forge = Callable[[Authority], bytes]
TWO_TIMES = encode(SEQUENCE, oid("1.2.840.113549.1.9.5"), encode(SET, encode(0x17, b"261130120000Z") * 2))
SIGNING_TIME = encode(SEQUENCE, oid("1.2.840.113549.1.9.5"), encode(SET, encode(0x17, b"261130120000Z")))
DEFECTS: list[Any] = [
    pytest.param("no pinned", lambda a: token(make_authority(), DATA), id="another authority"),
    pytest.param(
        "no pinned", lambda a: token(make_authority(root=a.root), DATA), id="another leaf under the same root"
    ),
    pytest.param("name another certificate", lambda a: token(_twin(a), DATA), id="copied names"),
    pytest.param(
        "not pinned",
        lambda a: token(_twin(a), DATA, certificate_of=a.leaf.der),
        id="copied names, the true leaf claimed",
    ),
    pytest.param(
        "signature does not hold",
        lambda a: token(_twin(a), DATA, certificate_of=a.leaf.der, certificates=(a.leaf.der,)),
        id="copied names, the true leaf embedded",
    ),
    pytest.param(
        "not pinned",
        lambda a: token(a, DATA, certificates=(a.leaf.der, make_authority().leaf.der)),
        id="injected certificate",
    ),
    pytest.param("not pinned", lambda a: token(a, DATA, certificates=(b"0\x00",)), id="no certificate"),
    pytest.param("other bytes", lambda a: token(a, b"other"), id="other data"),
    pytest.param("sha512", lambda a: token(a, DATA, imprint="sha512"), id="SHA-512 imprint"),
    pytest.param("digest algorithm", lambda a: token(a, DATA, imprint="sha1"), id="SHA-1 imprint"),
    pytest.param("other bytes", lambda a: token(a, DATA, imprint_value=b"\0" * 20), id="short imprint"),
    pytest.param(
        "digest algorithm", lambda a: token(a, DATA, digest="sha1"), id="signed over a SHA-1 digest"
    ),
    pytest.param(
        "digest algorithm", lambda a: token(a, DATA, digest="md5", signature_hash="sha256"), id="MD5"
    ),
    pytest.param(
        "of the algorithm",
        lambda a: token(a, DATA, signature_hash="sha1", signature_algorithm=ECDSA_OIDS["sha1"]),
        id="ECDSA with SHA-1",
    ),
    pytest.param(
        "of the algorithm",
        lambda a: token(a, DATA, signature_algorithm="1.2.840.113549.1.1.1"),
        id="an EC key said to be RSA",
    ),
    pytest.param(
        "signature does not hold",
        lambda a: token(a, DATA, signature_hash="sha512", signature_algorithm=ECDSA_OIDS["sha256"]),
        id="another hash",
    ),
    pytest.param(
        "not what was signed", lambda a: token(a, DATA, message_digest=b"\0" * 32), id="message digest"
    ),
    pytest.param(
        "content type",
        lambda a: token(a, DATA, signed_content_type="1.2.840.113549.1.7.1"),
        id="signed content type",
    ),
    pytest.param("TSTInfo", lambda a: token(a, DATA, content_type="1.2.840.113549.1.7.1"), id="content type"),
    pytest.param(
        "not among the signed", lambda a: token(a, DATA, certificate_ids=()), id="no signing certificate"
    ),
    pytest.param(
        "name another certificate",
        lambda a: token(a, DATA, certificate_of=a.root.der),
        id="wrong signing certificate",
    ),
    pytest.param(
        "name another certificate",
        lambda a: token(a, DATA, certificate_of=a.root.der, certificate_ids=("v1",)),
        id="wrong signing certificate v1",
    ),
    pytest.param(
        "there twice",
        lambda a: token(a, DATA, more_attributes=(SIGNING_TIME, SIGNING_TIME)),
        id="an attribute twice",
    ),
    pytest.param(
        "no signed attributes", lambda a: token(a, DATA, with_attributes=False), id="no signed attributes"
    ),
    pytest.param(
        "unsigned attributes", lambda a: token(a, DATA, unsigned=SIGNING_TIME), id="unsigned attributes"
    ),
    pytest.param(
        "no field with tag 0xa1|tag 0x31", lambda a: token(a, DATA, crls=b"0\x00"), id="revocation list"
    ),
    pytest.param(
        "does not have one value",
        lambda a: token(a, DATA, more_attributes=(TWO_TIMES,)),
        id="an attribute with two values",
    ),
    pytest.param(
        "other digest algorithms", lambda a: token(a, DATA, listed=("sha512",)), id="another listed digest"
    ),
    pytest.param(
        "other digest algorithms",
        lambda a: token(a, DATA, listed=("sha256", "sha512")),
        id="two listed digests",
    ),
    pytest.param("2 signers", lambda a: token(a, DATA, signers=2), id="two signers"),
    pytest.param("0 signers", lambda a: token(a, DATA, signers=0), id="no signer"),
    pytest.param(
        "critical extension",
        lambda a: token(a, DATA, extensions=critical_extension()),
        id="critical extension",
    ),
    pytest.param(
        "another authority than its signer",
        lambda a: token(a, DATA, name=encode(context(4), encode(SEQUENCE))),
        id="another name",
    ),
    pytest.param(
        "not valid at",
        lambda a: token(a, DATA, time=datetime(2019, 12, 31, tzinfo=UTC)),
        id="before the leaf",
    ),
    pytest.param(
        "not valid at", lambda a: token(a, DATA, time=datetime(2040, 1, 2, tzinfo=UTC)), id="after the leaf"
    ),
    pytest.param("version 1", lambda a: token(a, DATA, tst_version=2), id="TSTInfo version"),
    pytest.param("version 3", lambda a: token(a, DATA, data_version=1), id="SignedData version"),
    pytest.param("issuer and serial", lambda a: token(a, DATA, signer_version=3), id="SignerInfo version"),
    pytest.param(
        "granted with modifications", lambda a: token(a, DATA, status=1), id="granted with modifications"
    ),
    pytest.param(
        "no failure beside",
        lambda a: token(a, DATA, failure=encode(3, b"\0\x80")),
        id="granted with a failure",
    ),
    pytest.param("rejected", lambda a: token(a, DATA, status=2), id="rejected with a token"),
    pytest.param("rejected: no such algorithm", lambda a: rejection(), id="rejected"),
    pytest.param(
        "accuracy", lambda a: token(a, DATA, accuracy=encode(SEQUENCE, integer(-1))), id="negative accuracy"
    ),
    pytest.param(
        "accuracy",
        lambda a: token(a, DATA, accuracy=encode(SEQUENCE, integer(0), integer(1000, 0x80))),
        id="accuracy of 1000 ms",
    ),
    *(
        pytest.param("form YYYY", lambda a, t=t: token(a, DATA, time=t), id=f"time {t.decode()}")
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


#: what openssl accepts by default although RFC 3161 or this format forbids it; evalkit is the stricter one
LENIENT = {
    "granted with a failure",
    "two listed digests", "another listed digest", "an attribute with two values",
    "SHA-1 imprint", "SHA-512 imprint", "SignedData version", "SignerInfo version", "accuracy of 1000 ms",
    "an EC key said to be RSA", "an attribute twice", "another leaf under the same root", "critical extension",
    "granted with modifications", "injected certificate", "negative accuracy", "signed content type",
    "signed over a SHA-1 digest", "unsigned attributes",
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
    rsa = "1.2.840.113549.1.1."
    for kind in (rsa + "1", rsa + "11"):
        response = token(made, DATA, signature_algorithm=kind)
        assert verify_token(response, DATA, [made.pinned()]).time == NOW
    # PSS, SHA-1, another hash than the digest's, no RSA at all
    for kind in (rsa + "10", rsa + "5", rsa + "13", ECDSA_OIDS["sha256"]):
        refused("of the algorithm", token(made, DATA, signature_algorithm=kind), made.pinned())


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
    refused("at most 65536 bytes", encode(OCTET_STRING, b"\0" * MAX_TOKEN), pinned)
    refused("nothing behind", good + b"\0", pinned)
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
    refused("shortest form", with_long_length, pinned)


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
def test_every_single_bit_but_those_of_the_status_text_counts(
    stamped: tuple[bytes, TimestampAuthority, Timestamp],
) -> None:
    good, pinned, expected = stamped
    text = good.index(b"Okay")
    still = set()
    for at in range(len(good)):
        for bit in range(8):
            changed = bytearray(good)
            changed[at] ^= 1 << bit
            found = _outcome(bytes(changed), pinned)
            assert found in (None, expected)
            if found is not None:
                still.add(at)
    assert still == set(range(text, text + 4))


def _trees(element: Element) -> Iterator[tuple[str, bytes]]:
    """(what was done, the value) for each way to add, repeat, or leave out one element of a DER value."""
    if not element.tag & 0x20:
        return
    children = elements(element.content)
    raw = [c.raw for c in children]
    yield "add", encode(element.tag, *raw, b"\x05\x00")
    yield "add", encode(element.tag, b"\x05\x00", *raw)
    for n, child in enumerate(children):
        yield "repeat", encode(element.tag, *raw[: n + 1], *raw[n:])
        yield "leave out", encode(element.tag, *raw[:n], *raw[n + 1 :])
        for how, inner in _trees(child):
            yield how, encode(element.tag, *raw[:n], inner, *raw[n + 1 :])


def test_no_element_can_be_added_and_few_can_be_left_out(
    stamped: tuple[bytes, TimestampAuthority, Timestamp],
) -> None:
    good, pinned, expected = stamped
    still: dict[str, set[bytes]] = {}
    for how, changed in _trees(parse(good)):
        found = _outcome(changed, pinned)
        assert found in (None, expected)
        if found is not None:
            still.setdefault(how, set()).add(changed)
    # NULL as the parameters of two digest algorithms: the listed one, the signer's
    assert len(still["add"]) == 2
    # the certificate may come twice, or not at all, with its list or without; the status text likewise
    assert len(still["repeat"]) == 2
    assert len(still["leave out"]) == 4


def test_what_no_signature_covers_changes_nothing(
    authority: Authority, stamped: tuple[bytes, TimestampAuthority, Timestamp]
) -> None:
    """Certificates may be taken out, or pinned ones put in: the list is unsigned, and decides nothing."""
    _, pinned, expected = stamped
    for along in ((), (authority.root.der,), (authority.leaf.der, authority.root.der)):
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
    _refused_entry("signs itself", lambda: make("t", leaf, (root,), (between, root)))
    _refused_entry("cannot be read", lambda: make("t", b"\x30\x00", (root,), (between,)))
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
    assert timestamp._bytes("MAA=", "leaf", "") == b"\x30\x00"
    _refused_entry("base64", lambda: timestamp._bytes("MAB=", "leaf", ""))
    good = authority.pinned().record()
    _refused_entry("base64", lambda: TimestampAuthority.from_record(good | {"leaf": good["leaf"] + "\n"}))
    _refused_entry(
        "base64", lambda: TimestampAuthority.from_record(good | {"leaf": good["leaf"].rstrip("=")[:-1]})
    )


# --- the second opinion and the extra ------------------------------------------------------------


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
    refused("rfc3161-client refuses", token(authority, DATA), authority.pinned())

    def interrupted(_: bytes) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(rfc3161_client, "decode_timestamp_response", interrupted)
    with pytest.raises(KeyboardInterrupt):
        verify_token(token(authority, DATA), DATA, [authority.pinned()])


def test_the_library_sees_no_certificate_of_the_token(authority: Authority) -> None:
    """It refuses certificate sets that are not sorted, and once trusted what was in them."""
    import rfc3161_client

    sees = read_response(token(authority, DATA)).bare
    assert rfc3161_client.decode_timestamp_response(sees).signed_data.certificates == set()


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
    with pytest.raises(TokenError):
        read_response(encode(SEQUENCE, encode(SEQUENCE, integer(0))))
    with pytest.raises(DerError):
        parse(b"\x02\x02\x00")
    for bad in (b"\x02\x00", b"\x02\x02\x00\x01", b"\x02\x02\xff\x80"):
        with pytest.raises(DerError):
            parse(bad).integer()
