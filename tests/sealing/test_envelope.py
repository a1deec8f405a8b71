"""Envelopes: vectors, interoperation, and every way to make one signature say something else."""

from __future__ import annotations

import base64
import copy
import dataclasses
import itertools
import json
import pickle
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Trust,
    TrustedKey,
    Verified,
    canonical_json,
    digest,
    load_canonical,
    pae,
    sign,
    verify,
)
from evalkit.sealing.envelope import PAYLOAD_TYPE, STATEMENT_TYPE
from evalkit.sealing.keys import SMALL_ORDER
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.times import signed_text

EX_ANTE = PREDICATES["decisions/ex-ante"]
SUBJECT = b'{"score":7}'
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)


def trusting(*keys: TrustedKey) -> Trust:
    return Trust(Path("trust.json"), "sha256:" + "0" * 64, keys)


def pinned(signer: Any, **fields: Any) -> TrustedKey:
    return TrustedKey.of(signer.public_key, **({"predicate_types": tuple(PREDICATES.values())} | fields))


def signed(
    signer: Any, *, predicate_type: str = EX_ANTE, signed_at: datetime = NOW, **predicate: Any
) -> bytes:
    return sign(
        "run.json",
        SUBJECT,
        predicate_type=predicate_type,
        predicate={"run_id": "r1"} | predicate,
        signer=signer,
        at=signed_at,
    )


def check(envelope: bytes, trust: Trust, **other: Any) -> Verified:
    arguments: dict[str, Any] = {"subject_name": "run.json", "predicate_type": EX_ANTE, "at": NOW}
    return verify(envelope, trust=trust, **(arguments | other))


def refused(envelope: bytes, trust: Trust, binding: Binding, match: str = ".", **other: Any) -> None:
    with pytest.raises(BindingError, match=match) as caught:
        check(envelope, trust, **other)
    assert caught.value.binding is binding, caught.value
    assert caught.value.where
    assert caught.value.expected
    assert caught.value.do


def resigned(signer: Any, payload: bytes, **fields: Any) -> bytes:
    """An envelope around any bytes, validly signed."""
    return canonical_json(
        {
            "payload": base64.b64encode(payload).decode(),
            "payloadType": PAYLOAD_TYPE,
            "signatures": [
                {
                    "keyid": signer.key_id,
                    "sig": base64.b64encode(signer.sign(pae(PAYLOAD_TYPE, payload))).decode(),
                }
            ],
        }
        | fields
    )


@pytest.fixture
def signer(make_signer: Callable[..., Any]) -> Any:
    return make_signer()


@pytest.fixture
def trust(signer: Any) -> Trust:
    return trusting(pinned(signer))


# --- interoperation ------------------------------------------------------------------------------


def test_securesystemslib_verifies_ours(signer: Any) -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import SSlibKey

    theirs = Envelope.from_dict(json.loads(signed(signer)))
    key = SSlibKey.from_crypto(Ed25519PublicKey.from_public_bytes(signer.public_key), keyid=signer.key_id)
    assert theirs.verify([key], 1)
    assert theirs.pae() == pae(PAYLOAD_TYPE, theirs.payload)


def test_ours_verifies_securesystemslib() -> None:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from securesystemslib.dsse import Envelope
    from securesystemslib.signer import CryptoSigner, SSlibKey

    private = Ed25519PrivateKey.generate()
    key = TrustedKey.of(private.public_key().public_bytes_raw(), predicate_types=(EX_ANTE,))
    payload = canonical_json(
        {
            "_type": STATEMENT_TYPE,
            "subject": [{"name": "run.json", "digest": {"sha256": digest(SUBJECT)[7:]}}],
            "predicateType": EX_ANTE,
            "predicate": {"signed_at": signed_text(NOW)},
        }
    )
    envelope = Envelope(payload, PAYLOAD_TYPE, {})
    envelope.sign(CryptoSigner(private, SSlibKey.from_crypto(private.public_key(), keyid=key.key_id)))
    check(canonical_json(envelope.to_dict()), trusting(key)).check_subject(SUBJECT)


# --- what a verified statement is ----------------------------------------------------------------


def test_round_trip(signer: Any, trust: Trust) -> None:
    envelope = signed(signer, attempt=2)
    verified = check(envelope, trust, run_id="r1")
    assert verified.predicate == {"run_id": "r1", "attempt": 2, "signed_at": "2026-11-30T12:00:00.000000Z"}
    assert verified.signed_at == NOW
    assert verified.caveats == ()
    assert verified.statement["_type"] == STATEMENT_TYPE
    assert verified.subject_digest == digest(SUBJECT)
    assert verified.subject_name == "run.json"
    assert verified.key == trust.keys[0]
    assert verified.envelope_digest == digest(envelope)
    assert load_canonical(envelope)["signatures"][0]["keyid"] == signer.key_id


@given(
    st.dictionaries(st.text(st.characters(max_codepoint=0x2FF), max_size=5), st.integers(-9, 9) | st.none()),
    st.binary(max_size=40),
)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_round_trip_of_any_predicate_and_subject(
    make_signer: Callable[..., Any], predicate: dict[str, Any], subject: bytes
) -> None:
    signer = make_signer(bytes(32))
    envelope = sign("run.json", subject, predicate_type=EX_ANTE, predicate=predicate, signer=signer, at=NOW)
    verified = check(envelope, trusting(pinned(signer)))
    assert verified.predicate == predicate | {"signed_at": signed_text(NOW)}
    verified.check_subject(subject)
    with pytest.raises(BindingError):
        verified.check_subject(subject + b"\0")


def test_another_subject_is_an_attestation_error(signer: Any, trust: Trust) -> None:
    verified = check(signed(signer), trust)
    verified.check_subject(SUBJECT)
    with pytest.raises(BindingError, match="not the one that was signed") as caught:
        verified.check_subject(SUBJECT + b" ")
    assert caught.value.binding is Binding.ATTESTATION


def test_nobody_but_verify_makes_a_verified(signer: Any, trust: Trust) -> None:
    verified = check(signed(signer), trust)
    with pytest.raises(TypeError, match="verify only"):
        Verified(verified.payload, verified.key, "", verified.envelope_digest, NOW, (), token=object())
    with pytest.raises((TypeError, ValueError)):
        dataclasses.replace(verified, payload=b"{}")
    for copier in (pickle.dumps, copy.copy, copy.deepcopy):
        with pytest.raises(TypeError, match="cannot be copied"):
            copier(verified)
    with pytest.raises(dataclasses.FrozenInstanceError):
        verified.payload = b""
    verified.predicate["run_id"] = "other"
    assert verified.predicate["run_id"] == "r1"


def test_a_predicate_name_is_not_its_uri(signer: Any) -> None:
    with pytest.raises(ValueError, match="PREDICATES"):
        signed(signer, predicate_type="decisions/plan")


def test_a_signer_that_computes_nonsense_writes_nothing(signer: Any) -> None:
    class Broken:
        public_key, key_id = signer.public_key, signer.key_id

        def sign(self, message: bytes) -> bytes:
            return signer.sign(message + b"x")

    with pytest.raises(BindingError, match="does not verify"):
        signed(Broken())


# --- whose signature -----------------------------------------------------------------------------


def test_unpinned_key_is_an_authority_error(trust: Trust, make_signer: Callable[..., Any]) -> None:
    refused(signed(make_signer()), trust, Binding.AUTHORITY, "no pinned key")


def test_key_substitution_with_a_pinned_keyid_claimed(
    signer: Any, trust: Trust, make_signer: Callable[..., Any]
) -> None:
    record = load_canonical(signed(make_signer()))
    record["signatures"][0]["keyid"] = signer.key_id
    refused(canonical_json(record), trust, Binding.ATTESTATION, "does not hold")


def test_keyid_is_only_a_hint(signer: Any, trust: Trust, make_signer: Callable[..., Any]) -> None:
    record = load_canonical(signed(signer))
    for hint in ("", "unknown", make_signer().key_id):
        record["signatures"][0]["keyid"] = hint
        assert check(canonical_json(record), trust).key.key_id == signer.key_id


def test_small_order_key_cannot_be_pinned(signer: Any) -> None:
    """Otherwise the all-zero scalar signs anything (see test_keys)."""
    for public in SMALL_ORDER:
        with pytest.raises(BindingError, match="small order"):
            trusting(TrustedKey.of(public, predicate_types=(EX_ANTE,)))


def test_key_pinned_for_other_phases_runs_or_times_is_an_authority_error(signer: Any) -> None:
    envelope = signed(signer)
    reveal = PREDICATES["decisions/reveal"]
    for key, match in (
        (pinned(signer, predicate_types=(reveal,)), "not pinned for"),
        (pinned(signer, runs=("r2",)), "other runs"),
        (pinned(signer, valid_from=NOW + timedelta(seconds=1)), "valid only from"),
        (pinned(signer, valid_until=NOW), "valid only until"),
    ):
        refused(envelope, trusting(key), Binding.AUTHORITY, match, run_id="r1")
    # A key for some runs only does not speak where no run is named.
    refused(envelope, trusting(pinned(signer, runs=("r1",))), Binding.AUTHORITY, "other runs")
    check(envelope, trusting(pinned(signer, runs=("r1",))), run_id="r1")


# --- when it was signed --------------------------------------------------------------------------


def test_sign_writes_the_time_and_the_caller_cannot_state_another(signer: Any, trust: Trust) -> None:
    before = datetime.now(UTC)
    envelope = sign("run.json", SUBJECT, predicate_type=EX_ANTE, predicate={}, signer=signer)
    verified = check(envelope, trust, at=None)
    assert before <= verified.signed_at <= datetime.now(UTC)
    elsewhere = NOW.astimezone(timezone(timedelta(hours=-5)))
    assert check(signed(signer, signed_at=elsewhere), trust).predicate["signed_at"] == signed_text(NOW)
    stated = {"predicate_type": EX_ANTE, "signer": signer, "at": NOW}
    sign("run.json", SUBJECT, predicate={"signed_at": signed_text(NOW)}, **stated)
    with pytest.raises(ValueError, match="signed_at"):
        sign("run.json", SUBJECT, predicate={"signed_at": "2020-01-01T00:00:00.000000Z"}, **stated)
    with pytest.raises(ValueError, match="time zone"):
        sign("run.json", SUBJECT, predicate={}, **(stated | {"at": datetime(2026, 1, 1)}))


@pytest.mark.parametrize(
    "value",
    [None, 1, "", "2026-11-30T12:00:00Z", "2026-11-30T12:00:00.000000", "2026-11-30T12:00:00.000000+00:00",
     "2026-02-30T12:00:00.000000Z", "2026-11-30T25:00:00.000000Z", "2026-11-30 12:00:00.000000Z",
     "\u0662026-11-30T12:00:00.000000Z"],
)  # fmt: skip
def test_a_time_that_is_none_is_refused_though_signed(signer: Any, trust: Trust, value: Any) -> None:
    statement = check(signed(signer), trust).statement
    statement["predicate"] |= {"signed_at": value}
    refused(resigned(signer, canonical_json(statement)), trust, Binding.ATTESTATION, "does not say when")


def test_without_a_stated_time_the_key_must_be_good_now(signer: Any) -> None:
    """As other signers' envelopes are: an ended key cannot be rescued by leaving the time out."""
    statement = load_canonical(check(signed(signer), trusting(pinned(signer))).payload)
    del statement["predicate"]["signed_at"]
    envelope = resigned(signer, canonical_json(statement))
    assert check(envelope, trusting(pinned(signer))).signed_at is None
    ended = trusting(pinned(signer, valid_until=NOW))
    refused(envelope, ended, Binding.AUTHORITY, "valid only until|was valid only")
    with_time = signed(signer, signed_at=NOW - timedelta(days=1))
    assert check(with_time, ended).caveats


def test_a_signature_from_the_future_is_refused(signer: Any, trust: Trust) -> None:
    check(signed(signer, signed_at=NOW + CLOCK_TOLERANCE), trust)
    late = signed(signer, signed_at=NOW + CLOCK_TOLERANCE + timedelta(microseconds=1))
    refused(late, trust, Binding.ATTESTATION, "still to come")
    refused(
        signed(signer, signed_at=datetime.now(UTC) + timedelta(hours=1)), trust, Binding.ATTESTATION, at=None
    )


def test_a_key_that_ended_keeps_what_it_signed_with_a_caveat(signer: Any) -> None:
    """The end of a key is judged at the time of signing, which is the signer's own word."""
    end = NOW + timedelta(days=1)
    trust = trusting(pinned(signer, valid_until=end))
    envelope = signed(signer)
    assert check(envelope, trust, at=end - timedelta(microseconds=1)).caveats == ()
    (caveat,) = check(envelope, trust, at=end).caveats
    assert "own clock" in caveat
    assert signer.key_id in caveat
    # An authority that saw it before the end takes the doubt away; one that saw it later does not.
    later = end + timedelta(days=1)
    assert check(envelope, trust, at=later, attested_at=end - timedelta(microseconds=1)).caveats == ()
    assert len(check(envelope, trust, at=later, attested_at=end).caveats) == 1


def test_a_key_signs_nothing_outside_its_time(signer: Any) -> None:
    trust = trusting(pinned(signer, valid_from=NOW, valid_until=NOW + timedelta(days=1)))
    check(signed(signer), trust)
    late = {"at": NOW + timedelta(days=9), "attested_at": NOW + timedelta(hours=1)}
    early = signed(signer, signed_at=NOW - timedelta(microseconds=1))
    refused(early, trust, Binding.AUTHORITY, "valid only from", **late)
    after = signed(signer, signed_at=NOW + timedelta(days=1))
    refused(after, trust, Binding.AUTHORITY, "valid only until", **late)


def test_a_time_of_signing_after_an_authority_saw_it_is_a_caveat(signer: Any, trust: Trust) -> None:
    seen = NOW - CLOCK_TOLERANCE
    assert check(signed(signer), trust, attested_at=seen).caveats == ()
    (caveat,) = check(signed(signer), trust, attested_at=seen - timedelta(seconds=1)).caveats
    assert "saw it before" in caveat


def test_times_without_a_zone_are_refused(signer: Any, trust: Trust) -> None:
    for naive in ({"at": datetime(2027, 1, 1)}, {"attested_at": datetime(2027, 1, 1)}):
        with pytest.raises(EvalkitError, match="time zone"):
            check(signed(signer), trust, **naive)


# --- what it says --------------------------------------------------------------------------------


def test_phase_confusion_all_phases_against_all(signer: Any, trust: Trust) -> None:
    """Every phase's attestation is refused by every other phase."""
    envelopes = {kind: signed(signer, predicate_type=kind) for kind in PREDICATES.values()}
    assert len(set(PREDICATES.values())) == len(PREDICATES)
    for made, asked in itertools.product(envelopes, repeat=2):
        if made == asked:
            check(envelopes[made], trust, predicate_type=asked)
        else:
            refused(envelopes[made], trust, Binding.ATTESTATION, "another phase", predicate_type=asked)


def test_replay_of_an_old_attestation_in_another_run(signer: Any, trust: Trust) -> None:
    """Attestation of run A beside run B."""
    refused(signed(signer), trust, Binding.ATTESTATION, "another run", run_id="r2")
    without = sign("run.json", SUBJECT, predicate_type=EX_ANTE, predicate={}, signer=signer, at=NOW)
    refused(without, trust, Binding.ATTESTATION, "another run", run_id="r2")


def test_another_subject_name(signer: Any, trust: Trust) -> None:
    refused(signed(signer), trust, Binding.ATTESTATION, "another file", subject_name="plan.json")


def test_algorithm_confusion(signer: Any, trust: Trust) -> None:
    """Another payload type, or a field that names an algorithm, changes nothing but refuses."""
    record = load_canonical(signed(signer))
    refused(
        canonical_json(record | {"payloadType": "application/json"}),
        trust,
        Binding.ATTESTATION,
        "another type",
    )
    record["signatures"][0]["alg"] = "none"
    refused(canonical_json(record), trust, Binding.ATTESTATION, "unknown fields")


@pytest.mark.parametrize(
    "change",
    [
        {"extra": 1},
        {"_type": "https://in-toto.io/Statement/v0.1"},
        {"subject": []},
        {"subject": [{"name": "run.json", "digest": {"sha256": "0" * 64}}] * 2},
        {"subject": [{"name": "run.json", "digest": {"sha256": "0" * 64, "sha512": "0"}}]},
        {"subject": [{"name": "run.json", "digest": {"sha256": "A" * 64}}]},
        {"subject": [{"name": "run.json", "digest": {"sha256": "0" * 64}, "uri": "x"}]},
        {"subject": [{"digest": {"sha256": "0" * 64}}]},
        {"subject": {}},
        {"predicate": []},
        {"predicateType": 1},
    ],
)
def test_statements_out_of_profile_are_refused_though_signed(
    signer: Any, trust: Trust, change: dict[str, Any]
) -> None:
    statement = check(signed(signer), trust).statement | change
    refused(resigned(signer, canonical_json(statement)), trust, Binding.ATTESTATION)


def test_payload_must_be_canonical_though_signed(signer: Any, trust: Trust) -> None:
    statement = check(signed(signer), trust).statement
    refused(
        resigned(signer, json.dumps(statement).encode()), trust, Binding.ATTESTATION, "payload does not parse"
    )


def test_payload_is_not_parsed_before_its_signature_holds(
    signer: Any, trust: Trust, make_signer: Callable[..., Any]
) -> None:
    """An unsigned payload of rubbish must fail for its signature, not for its content."""
    refused(resigned(make_signer(), b"rubbish"), trust, Binding.AUTHORITY)
    refused(resigned(signer, b"rubbish"), trust, Binding.ATTESTATION, "payload does not parse")


# --- damage --------------------------------------------------------------------------------------


def test_every_changed_byte_is_refused(signer: Any, trust: Trust) -> None:
    envelope = signed(signer)
    keyid = envelope.index(b'"keyid":"') + 9
    for position in range(len(envelope)):
        if keyid <= position < keyid + 71:
            continue  # the hint is not authenticated; see test_keyid_is_only_a_hint
        changed = bytearray(envelope)
        changed[position] ^= 1
        with pytest.raises(BindingError) as caught:
            check(bytes(changed), trust)
        assert caught.value.binding is Binding.ATTESTATION


def test_truncation_at_every_length(signer: Any, trust: Trust) -> None:
    envelope = signed(signer)
    for length in range(len(envelope)):
        refused(envelope[:length], trust, Binding.ATTESTATION)


@pytest.mark.parametrize("rewrite", [lambda d: json.dumps(d).encode(), lambda d: canonical_json(d) + b"\n"])
def test_the_envelope_itself_has_one_spelling(
    signer: Any, trust: Trust, rewrite: Callable[[Any], bytes]
) -> None:
    refused(rewrite(load_canonical(signed(signer))), trust, Binding.ATTESTATION, "does not parse")


@pytest.mark.parametrize("part", ["sig", "payload"])
def test_base64_has_one_spelling(signer: Any, trust: Trust, part: str) -> None:
    """A lenient decoder finds the same bytes: nothing else in the envelope would tell the difference."""
    digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    # With a comment of the right length the payload ends in unused bits too.
    for comment in ("", "x", "xx"):
        record = load_canonical(signed(signer, comment=comment))
        holder = record["signatures"][0] if part == "sig" else record
        text = holder[part]
        if text.endswith("="):
            break
    bare = text.rstrip("=")
    unused = [bare[:-1] + digits[digits.index(bare[-1]) ^ 1] + text[len(bare) :]]
    for other in (*unused, bare, text + "=", text + "\n", " " + text, text[:4] + "\n" + text[4:]):
        holder[part] = other
        refused(canonical_json(record), trust, Binding.ATTESTATION, "not canonical base64")
    assert base64.b64decode(unused[0]) == base64.b64decode(text)


@pytest.mark.parametrize(
    "fields",
    [
        {"signatures": []},
        {"signatures": {}},
        {"signatures": [1]},
        {"payload": 1},
        {"payload": "ä"},
        {"signatures": [{"keyid": "x", "sig": ""}]},
        {"signatures": [{"keyid": "x", "sig": "AAAA"}]},
        {"signatures": [{"keyid": 1, "sig": "AAAA"}]},
    ],
)
def test_malformed_envelopes_are_refused(signer: Any, trust: Trust, fields: dict[str, Any]) -> None:
    refused(canonical_json(load_canonical(signed(signer)) | fields), trust, Binding.ATTESTATION)
