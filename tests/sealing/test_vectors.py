"""Published vectors for JSON, and the list of all vectors: each file is read by a test that is named.

Signatures, ciphers and statements: test_vectors_crypto.py.  The ledger's chains, commitments and small
order keys: with what they are about, as listed here.
"""

from __future__ import annotations

import json
import math
import struct
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import rfc8785

from evalkit.sealing import CanonicalError, canonical_json, load_canonical, load_strict

#: folder or file -> (how many vectors, who reads them)
READ_BY = {
    "jcs/input": (6, "test_vectors.py"),
    "jcs/output": (6, "test_vectors.py"),
    "jcs/outhex": (6, "test_vectors.py"),
    "jcs/es6_numbers_10000.txt": (1, "test_vectors.py"),
    "jsontestsuite": (316, "test_vectors.py"),
    "evalkit_own/canonical_dump_cases.json": (1, "test_vectors.py"),
    "evalkit_own/strict_load_cases.json": (1, "test_vectors.py"),
    "evalkit_own/commitment_bruteforce.json": (1, "test_packet.py"),
    "evalkit_own/ed25519_small_order_keys.json": (1, "test_keys.py"),
    "evalkit_own/hashchain": (8, "test_ledger.py"),
    "evalkit_own/dsse_ed25519_cases.json": (1, "test_vectors_crypto.py"),
    "evalkit_own/sshsig": (4, "test_vectors_crypto.py"),
    "dsse/spec_vector.json": (1, "test_vectors_crypto.py"),
    "ed25519/speccheck_cases.json": (1, "test_vectors_crypto.py"),
    "ed25519/wycheproof_ed25519_test.json": (1, "test_vectors_crypto.py"),
    "ed25519/wycheproof_x25519_test.json": (1, "test_vectors_crypto.py"),
    "ed25519/wycheproof_chacha20_poly1305_test.json": (1, "test_vectors_crypto.py"),
    "hpke": (1, "test_vectors_crypto.py"),
    "intoto/examples": (9, "test_vectors_crypto.py"),
    "intoto/python_statement_cases.json": (1, "test_vectors_crypto.py"),
}
NOT_READ = {
    "evalkit_own/rfc6962_merkle.json": "evalkit has no Merkle tree: its ledger is a chain",
    "rfc3161": "timestamps: see the tests of timestamps",
    "evalkit_own/rfc3161_local": "timestamps: see the tests of timestamps",
}


def vectors_below(path: Path) -> list[Path]:
    """A file itself, or all files of a folder, without texts and licences."""
    found = [path] if path.is_file() else path.rglob("*")
    return [p for p in found if p.is_file() and p.suffix != ".md" and "LICENSE" not in p.name]


def test_every_vector_is_read(shared_data: Path) -> None:
    """A vector that is added, lost or no longer read shows here."""
    root = shared_data / "sealing"
    listed: list[Path] = []
    for name, (count, module) in READ_BY.items():
        vectors = vectors_below(root / name)
        assert len(vectors) == count, name
        listed += vectors
        reader = Path(__file__).with_name(module).read_text()
        assert Path(name).name in reader, f"{module} does not read {name}"
    left_out = {path for name in NOT_READ for path in vectors_below(root / name)}
    assert set(vectors_below(root)) == set(listed) | left_out
    assert len(listed) == len(set(listed)) == 368


# --- RFC 8785 ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["arrays", "french", "structures", "unicode", "values", "weird"])
def test_rfc8785_reference_transforms(shared_data: Path, name: str) -> None:
    folder = shared_data / "sealing" / "jcs"
    value = load_strict((folder / "input" / f"{name}.json").read_bytes())
    expected = (folder / "output" / f"{name}.json").read_bytes()
    assert expected == bytes.fromhex((folder / "outhex" / f"{name}.txt").read_text())
    assert rfc8785.dumps(value) == expected
    if name == "values":
        # It holds 1E30, which our profile reads and does not write.
        with pytest.raises(CanonicalError, match="integral float"):
            canonical_json(value)
    else:
        assert canonical_json(value) == expected
    assert load_canonical(expected) == value


def test_es6_number_sequence(shared_data: Path) -> None:
    """All 10,000: written as listed, or refused where the text would be an integer beyond 2^53."""
    seen: Counter[str] = Counter()
    for line in (shared_data / "sealing" / "jcs" / "es6_numbers_10000.txt").read_text().split():
        bits, expected = line.split(",")
        (number,) = struct.unpack(">d", bytes.fromhex(bits.rjust(16, "0")))
        assert math.isfinite(number)
        text = f"[{expected}]".encode()
        if number.is_integer() and abs(number) >= 2**53:
            with pytest.raises(CanonicalError, match="integral float"):
                canonical_json([number])
            if "e" in expected:
                assert load_canonical(text) == [number]
                seen["read only"] += 1
            else:
                with pytest.raises(CanonicalError, match="integer beyond"):
                    load_canonical(text)
                seen["refused"] += 1
        else:
            assert canonical_json([number]) == text
            assert load_canonical(text) == [number]
            seen["both ways"] += 1
    assert seen.total() == 10_000
    assert seen["both ways"] == 6284


def test_dump_vectors(shared_data: Path) -> None:
    cases = json.loads((shared_data / "sealing/evalkit_own/canonical_dump_cases.json").read_text())
    for case in cases:
        if case["kind"] == "float":
            (value,) = struct.unpack(">d", bytes.fromhex(case["ieee_be_hex"]))
            expected = (case["jcs"] or "").encode()
        elif case["kind"] == "int":
            value, expected = int(case["decimal"]), (case["jcs"] or "").encode()
        else:
            value = load_strict(case["input_ascii"].encode())
            expected = bytes.fromhex(case["canonical_utf8_hex"])
        if case["evalkit"] == "accept":
            assert canonical_json(value) == expected, case
        else:
            with pytest.raises(CanonicalError):
                canonical_json(value)
    assert len(cases) == 32


def test_strict_load_vectors(shared_data: Path) -> None:
    cases = json.loads((shared_data / "sealing/evalkit_own/strict_load_cases.json").read_text())
    for case in cases:
        data = bytes.fromhex(case["utf8_hex"])
        if case["accept"]:
            value = load_canonical(data)
            if case["name"] == "1e+21":
                assert value == [1e21]  # read, but not written
            else:
                assert canonical_json(value) == data, case["name"]
        else:
            with pytest.raises(CanonicalError):
                load_canonical(data)
    assert len(cases) == 37


# --- JSONTestSuite -------------------------------------------------------------------------------

#: I-JSON (RFC 7493 section 2.3) forbids a key that occurs twice, which JSON itself only advises against.
Y_REFUSED = {"y_object_duplicated_key.json", "y_object_duplicated_key_and_value.json"}
#: Numbers that become zero: their value is what every reader of doubles has.
I_ACCEPTED = {"i_number_double_huge_neg_exp.json", "i_number_real_underflow.json"}


def decided(data: bytes, load: Any = load_strict) -> tuple[bool, str]:
    """(Whether it loads, the value or the error's text); any other exception fails the test."""
    try:
        return True, repr(load(data))
    except CanonicalError as error:
        return False, str(error)


def test_json_test_suite(shared_data: Path) -> None:
    """y_ is accepted but for what I-JSON refuses, n_ refused, i_ decided: the same way each time.

    The i_ files hold numbers beyond doubles and 2^53, lone surrogates, other encodings than UTF-8, a
    byte order mark and 500 nested arrays.  I-JSON and the depth of 64 refuse all of these.
    """
    count: Counter[str] = Counter()
    for path in sorted((shared_data / "sealing" / "jsontestsuite").glob("[yni]_*.json")):
        data, kind = path.read_bytes(), path.name[0]
        count[kind] += 1
        accepted, said = decided(data)
        assert (accepted, said) == decided(data), path.name
        assert accepted or all(word in said for word in ("where:", "expected:", "do:")), path.name
        if kind == "y":
            assert accepted == (path.name not in Y_REFUSED), path.name
        elif kind == "n":
            assert not accepted, path.name
        else:
            assert accepted == (path.name in I_ACCEPTED), path.name
        # What is canonical is strict as well, and has the same value.
        canonical, value = decided(data, load_canonical)
        if canonical:
            assert accepted
            assert value == said
    assert count == {"y": 95, "n": 186, "i": 35}
