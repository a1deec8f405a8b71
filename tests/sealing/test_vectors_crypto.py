"""Published vectors for signatures, ciphers and statements, through the functions that evalkit uses.

Ed25519 goes through `envelope._holds`, on which every verification rests.  X25519 and
ChaCha20-Poly1305 are tested in `cryptography`, where the HPKE suite of sealed packets takes them
from: what is shown is that this build of it computes them right.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import PREDICATES, SealedPacket, TrustedKey, canonical_json, pae
from evalkit.sealing.envelope import PAYLOAD_TYPE, _holds
from evalkit.sealing.keys import SMALL_ORDER, ssh_string, take_string
from evalkit.sealing.packet import _suite

from .test_envelope import EX_ANTE, check, pinned, refused, resigned, trusting


def vectors(shared_data: Path, name: str) -> Any:
    return json.loads((shared_data / "sealing" / name).read_text())


# --- Ed25519 -------------------------------------------------------------------------------------


def test_wycheproof_ed25519(shared_data: Path) -> None:
    """Malleable, truncated and foreign signatures are refused, also those longer or shorter than 64 bytes."""
    count: Counter[str] = Counter()
    for group in vectors(shared_data, "ed25519/wycheproof_ed25519_test.json")["testGroups"]:
        public = bytes.fromhex(group["publicKey"]["pk"])
        for case in group["tests"]:
            held = _holds(public, bytes.fromhex(case["sig"]), bytes.fromhex(case["msg"]))
            assert held == (case["result"] == "valid"), case["comment"]
            count[case["result"]] += 1
    assert count == {"valid": 88, "invalid": 63}


#: number -> (what it is, does the signature hold, may the key be pinned)
SPECCHECK = {
    0: ("key and R of small order, S = 0", True, False),
    1: ("key of small order, R mixed", True, False),
    2: ("R of small order, key mixed", True, True),
    3: ("key and R mixed, the equation holds without a cofactor", True, True),
    4: ("holds only with the cofactor", False, True),
    5: ("holds only where the cofactor is multiplied late", False, True),
    6: ("S beyond the group order", False, True),
    7: ("S far beyond the group order", False, True),
    8: ("R not canonical, hashed reduced", False, True),
    9: ("R not canonical, hashed as it is", False, True),
    10: ("key of small order and not canonical, hashed reduced", False, False),
    11: ("key of small order and not canonical, hashed as it is", True, False),
}


def test_speccheck(shared_data: Path) -> None:
    """The twelve places where verifiers of Ed25519 disagree, and where evalkit stands.

    We check the equation without the cofactor (RFC 8032 section 5.1.7 permits both).  In 0, 1 and 11
    a signature without any secret holds; the key is refused when it is pinned.  A key of mixed order,
    as in 2 and 3, is no danger to anybody but its owner: without the secret there is no signature.
    """
    cases = vectors(shared_data, "ed25519/speccheck_cases.json")
    assert len(cases) == len(SPECCHECK)
    for number, case in enumerate(cases):
        what, holds, may_be_pinned = SPECCHECK[number]
        public = bytes.fromhex(case["pub_key"])
        found = _holds(public, bytes.fromhex(case["signature"]), bytes.fromhex(case["message"]))
        assert found == holds, what
        assert (public not in SMALL_ORDER) == may_be_pinned, what
        if may_be_pinned:
            TrustedKey.of(public, predicate_types=(EX_ANTE,))
        else:
            with pytest.raises(BindingError, match="small order") as caught:
                TrustedKey.of(public, predicate_types=(EX_ANTE,))
            assert caught.value.binding is Binding.AUTHORITY


# --- the ciphers of sealed packets ---------------------------------------------------------------


def test_wycheproof_x25519(shared_data: Path) -> None:
    """All 518; a shared secret of zeros is an error, and nothing is sealed to a key that leads to one."""
    count: Counter[str] = Counter()
    low_order: set[bytes] = set()
    for group in vectors(shared_data, "ed25519/wycheproof_x25519_test.json")["testGroups"]:
        for case in group["tests"]:
            private = X25519PrivateKey.from_private_bytes(bytes.fromhex(case["private"]))
            public = bytes.fromhex(case["public"])
            if "ZeroSharedSecret" in case["flags"]:
                with pytest.raises(ValueError, match=r"."):
                    private.exchange(X25519PublicKey.from_public_bytes(public))
                low_order.add(public)
                count["refused"] += 1
            else:
                shared = private.exchange(X25519PublicKey.from_public_bytes(public))
                assert shared == bytes.fromhex(case["shared"]), case["comment"]
                count["computed"] += 1
    assert count.total() == 518
    assert count["refused"] == 31
    for public in low_order:
        with pytest.raises(EvalkitError, match="nothing can be sealed"):
            SealedPacket.seal(b"{}", kind="part-b", run_id="r1", recipient=public)


def test_wycheproof_chacha20_poly1305(shared_data: Path) -> None:
    """All 325, in both directions; a changed tag and a nonce of another size are errors."""
    count: Counter[str] = Counter()
    for group in vectors(shared_data, "ed25519/wycheproof_chacha20_poly1305_test.json")["testGroups"]:
        for case in group["tests"]:
            cipher = ChaCha20Poly1305(bytes.fromhex(case["key"]))
            nonce, aad, plain = (bytes.fromhex(case[name]) for name in ("iv", "aad", "msg"))
            sealed = bytes.fromhex(case["ct"] + case["tag"])
            if case["result"] == "valid":
                assert cipher.decrypt(nonce, sealed, aad) == plain
                assert cipher.encrypt(nonce, plain, aad) == sealed
            else:
                with pytest.raises((InvalidTag, ValueError)):
                    cipher.decrypt(nonce, sealed, aad)
            count[case["result"]] += 1
    assert count == {"valid": 256, "invalid": 69}


def test_the_cipher_is_rfc9180(shared_data: Path) -> None:
    """Our suite and the layout "encapsulated key, then ciphertext" open the RFC's own messages.

    A suite seals one message a key, so only the first of each context can be opened with it; the others
    are opened with the context's key and its nonces.  A message of the suite with AES does not open.
    """
    from cryptography.hazmat.primitives import hpke

    seen: Counter[str] = Counter()
    for vector in vectors(shared_data, "hpke/rfc9180_base_x25519_sha256.json"):
        assert (vector["mode"], vector["kem_id"], vector["kdf_id"]) == (0, 0x20, 1)
        first = vector["encryptions"][0]

        def opened(vector: Any = vector, first: Any = first) -> bytes:
            return hpke.rust_openssl.hpke._decrypt_with_aad(
                _suite(),
                bytes.fromhex(vector["enc"] + first["ct"]),
                X25519PrivateKey.from_private_bytes(bytes.fromhex(vector["skRm"])),
                info=bytes.fromhex(vector["info"]),
                aad=bytes.fromhex(first["aad"]),
            )

        if vector["aead_id"] != 3:
            with pytest.raises(InvalidTag):
                opened()
            seen["another suite"] += 1
            continue
        assert opened() == bytes.fromhex(first["pt"])
        seen["opened"] += 1
        base = int(vector["base_nonce"], 16)
        for message in vector["encryptions"]:
            nonce = bytes.fromhex(message["nonce"])
            sequence = base ^ int.from_bytes(nonce, "big")
            assert sequence < 2**16
            plain = ChaCha20Poly1305(bytes.fromhex(vector["key"])).decrypt(
                nonce, bytes.fromhex(message["ct"]), bytes.fromhex(message["aad"])
            )
            assert plain == bytes.fromhex(message["pt"])
            seen["messages"] += 1
    assert seen == {"opened": 1, "another suite": 1, "messages": 6}


# --- envelopes and statements --------------------------------------------------------------------


def test_dsse_vectors(shared_data: Path) -> None:
    found = vectors(shared_data, "evalkit_own/dsse_ed25519_cases.json")
    kind = "https://evalkit.dev/ex-ante-score/v1"
    key = TrustedKey.of(bytes.fromhex(found["pinned"]["public_raw_hex"]), predicate_types=(kind,))
    assert key.key_id == found["pinned"]["keyid"]
    authority = {"signed by an unpinned key"}
    for case in found["cases"]:
        envelope = canonical_json(case["envelope"])
        if case["accept"]:
            verified = check(envelope, trusting(key), predicate_type=kind)
            assert pae(PAYLOAD_TYPE, verified.payload) == bytes.fromhex(found["pae_hex"])
            assert verified.predicate["part_b_released"] is False
        else:
            binding = Binding.AUTHORITY if case["name"] in authority else Binding.ATTESTATION
            refused(envelope, trusting(key), binding, predicate_type=kind)
    assert [case["accept"] for case in found["cases"]].count(True) == 1
    assert len(found["cases"]) == 16


def test_dsse_specification(shared_data: Path, make_signer: Callable[..., Any]) -> None:
    """The specification's own signature holds over our encoding; its envelope is not of our profile."""
    from cryptography.hazmat.primitives.asymmetric import ec, utils
    from cryptography.hazmat.primitives.hashes import SHA256

    vector = vectors(shared_data, "dsse/spec_vector.json")
    message = pae(vector["payloadType"], vector["payload_utf8"].encode())
    assert message == vector["pae_utf8"].encode()
    raw = base64.b64decode(vector["envelope"]["signatures"][0]["sig"])
    r, s = int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big")
    public = ec.EllipticCurvePublicNumbers(int(vector["x"]), int(vector["y"]), ec.SECP256R1()).public_key()
    public.verify(utils.encode_dss_signature(r, s), message, ec.ECDSA(SHA256()))
    trust = trusting(pinned(make_signer()))
    refused(canonical_json(vector["envelope"]), trust, Binding.ATTESTATION, "another type")


def test_intoto_statement_cases(shared_data: Path, make_signer: Callable[..., Any]) -> None:
    """The invalid ones must be refused; the valid one has no sha256, which our profile demands."""
    signer = make_signer()
    trust = trusting(pinned(signer))
    cases = vectors(shared_data, "intoto/python_statement_cases.json")
    for case in cases:
        kind = case["statement"].get("predicateType") or EX_ANTE
        envelope = resigned(signer, canonical_json(case["statement"]))
        refused(envelope, trust, Binding.ATTESTATION, subject_name="theSub", predicate_type=kind)
    assert [case["valid"] for case in cases] == [True] + [False] * 5


#: what our profile of Statement v1 says of in-toto's own examples, each validly signed
EXAMPLES = {
    "reference_1": "",
    "reference_2": "not exactly one subject",
    "release_1": "digest is malformed",  # cut short with dots
    "release_3": "digest is malformed",
    "release_4": "digest is malformed",  # sha512 only
    "svr_1": "digest is malformed",
    "svr_2": "digest is malformed",
    "svr_3": "digest is malformed",
    "test-result_1": "missing or unknown fields",  # a subject without a name
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_intoto_examples(shared_data: Path, make_signer: Callable[..., Any], name: str) -> None:
    assert {p.stem for p in (shared_data / "sealing" / "intoto" / "examples").iterdir()} == set(EXAMPLES)
    statement = vectors(shared_data, f"intoto/examples/{name}.json")
    kind, subject = statement["predicateType"], statement["subject"][0].get("name", "")
    signer = make_signer()
    trust = trusting(TrustedKey.of(signer.public_key, predicate_types=(kind,)))
    envelope = resigned(signer, canonical_json(statement))
    if EXAMPLES[name]:
        refused(
            envelope, trust, Binding.ATTESTATION, EXAMPLES[name], predicate_type=kind, subject_name=subject
        )
    else:
        assert check(envelope, trust, predicate_type=kind, subject_name=subject).statement == statement


# --- an SSH signature ----------------------------------------------------------------------------


def test_an_ssh_signature_is_no_envelope_signature(shared_data: Path) -> None:
    """The same key, a signature that holds for SSH: over other bytes, and never over an envelope."""
    folder = shared_data / "sealing" / "evalkit_own" / "sshsig"
    content = (folder / "run.bin").read_bytes()
    _kind, line = (folder / "id.pub").read_text().split()[:2]
    assert line in (folder / "allowed").read_text()
    public = take_string(take_string(base64.b64decode(line))[1])[0]
    armoured = (folder / "run.bin.sig").read_text().split("-----")[2]
    blob = base64.b64decode("".join(armoured.split()))
    rest = blob[len(b"SSHSIG") + 4 :]
    key_blob, rest = take_string(rest)
    namespace, rest = take_string(rest)
    _reserved, rest = take_string(rest)
    algorithm, rest = take_string(rest)
    signature = take_string(take_string(take_string(rest)[0])[1])[0]
    assert key_blob == base64.b64decode(line)
    parts = (namespace, b"", algorithm, hashlib.new(algorithm.decode(), content).digest())
    assert _holds(public, signature, b"SSHSIG" + b"".join(map(ssh_string, parts))), "it is a good SSHSIG"

    trust = trusting(TrustedKey.of(public, predicate_types=tuple(PREDICATES.values())))
    for payload in (content, b"SSHSIG" + b"".join(map(ssh_string, parts)), blob):
        assert not _holds(public, signature, pae(PAYLOAD_TYPE, payload))
        for claimed in (signature, blob):
            envelope = canonical_json(
                {
                    "payload": base64.b64encode(payload).decode(),
                    "payloadType": PAYLOAD_TYPE,
                    "signatures": [
                        {"keyid": trust.keys[0].key_id, "sig": base64.b64encode(claimed).decode()}
                    ],
                }
            )
            refused(envelope, trust, Binding.ATTESTATION, "does not hold|bytes")
