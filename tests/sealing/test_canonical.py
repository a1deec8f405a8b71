"""Canonical JSON: reference vectors, strict loading, and that the fast way writes the same bytes."""

from __future__ import annotations

import json
import math
import random
import struct
import subprocess
import sys
from enum import IntEnum, StrEnum
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given, settings
from hypothesis import strategies as st

from evalkit.sealing import CanonicalError, canonical_json, digest, load_canonical, load_strict
from evalkit.sealing.canonical import canonical_values, max_values

text = st.text(st.characters(exclude_categories=("Cs",)), max_size=12)
# Characters on both sides of the surrogates, where code point and UTF-16 order part.
edge_text = st.text(st.sampled_from("a\u007f\u00e9\ud7ff\ue000\ufb33\uffff\U00010000\U0001f600\U0010ffff"))
numbers = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False).filter(
    lambda f: not (f.is_integer() and abs(f) >= 2**53)
)
scalars = st.none() | st.booleans() | numbers | text
documents = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(text | edge_text, inner, max_size=5),
    max_leaves=30,
)


# --- the fast way --------------------------------------------------------------------------------


@given(documents)
@settings(max_examples=600, deadline=None)
@example({"\ufb33": 2, "\U0001f600": 1})
@example([1.0, -0.0, 1e-5, 1e-7, 0.0001, 5e-324])
def test_bytes_equal_the_reference_and_round_trip(value: Any) -> None:
    data = canonical_json(value)
    assert data == rfc8785.dumps(value)
    assert load_canonical(data) == value
    assert canonical_json(load_canonical(data)) == data


# Texts that look like the numbers which are written anew, and characters that sort in two ways.
_PIECES = [
    *(".0,", ".0]", ".0}", "-0.0,", "-0,", "1.0", "e5,", "1e-7,", "e+21]", "e-09", "0.0", "true", ""),
    *('"', "\\", '\\"', "\\\\", ",", "[", "{", ":", "/", "\n", "\x00", "\x1f", "\x7f"),
    *("a", "é", "\u2028", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0001f600"),
]
_NUMBERS = [
    *(0.0, -0.0, 1.0, -1.0, 1e-4, 9.9e-5, 1.5e-5, 1e-6, -1e-6, 9.999999e-7, 1e-7, 5e-324),
    *(1e15, 2.0**53 - 1, 1 - 2.0**53, 0.5, 123456789.125),
]


def _random_text(rng: random.Random) -> str:
    return "".join(rng.choice(_PIECES) for _ in range(rng.randrange(6)))


def _random_number(rng: random.Random) -> float:
    kind = rng.randrange(6)
    if kind == 0:
        return rng.choice(_NUMBERS)
    if kind == 1:
        any_float: float = struct.unpack(">d", rng.randbytes(8))[0]
        return any_float if abs(any_float) < 2**53 else 0.25
    if kind == 2:
        return rng.randrange(1 - 2**53, 2**53)
    return rng.random() * 10.0 ** -rng.randrange(12)


def _random_document(rng: random.Random, depth: int = 0) -> Any:
    kind = rng.randrange(9 if depth < 4 else 6)
    if kind == 0:
        return rng.choice([None, True, False])
    if kind < 3:
        return _random_text(rng)
    if kind < 6:
        return _random_number(rng)
    if kind == 6:
        return [_random_document(rng, depth + 1) for _ in range(rng.randrange(5))]
    return {_random_text(rng): _random_document(rng, depth + 1) for _ in range(rng.randrange(5))}


def test_bytes_equal_the_reference_on_200_000_documents() -> None:
    """And each is read again, while what is read of a document with one byte changed is that document."""
    rng = random.Random(8785)
    for _ in range(200_000):
        value = _random_document(rng)
        data = canonical_json(value)
        assert data == rfc8785.dumps(value)
        assert load_canonical(data) == value
        changed = bytearray(data)
        changed[rng.randrange(len(data))] = rng.choice(b'0123456789.eE+-"\\,:[]{} \x00ntf\xf0\xff')
        try:
            found = load_canonical(bytes(changed))
        except CanonicalError:
            continue
        assert rfc8785.dumps(found) == changed


def test_many_documents_at_once_are_read_as_one_by_one() -> None:
    rng = random.Random(7493)
    documents = [canonical_json(_random_document(rng)) for _ in range(2000)]
    assert canonical_values(documents) == [load_canonical(data) for data in documents]
    assert canonical_values([]) == []


@pytest.mark.parametrize(
    "documents",
    [
        [b'{"x":[1', b"2]}", b"3,4"],  # whole when joined, and as many values as documents
        [b"1,2"],
        [b"1", b" 2"],
        [b'"a', b'b"'],
        [b'{"a":1,"a":1}'],
        [b"20000000000000000000"],
        [b"1.0", b"2"],
        [b"1e21", b"2"],
        [b"", b"1,1"],
        [b"[" * 65 + b"]" * 65],
        [b"11"],
    ],
)
def test_documents_that_are_not_canonical_each_are_not_read_together(documents: list[bytes]) -> None:
    assert canonical_values(documents, max_bytes=1 if documents == [b"11"] else 1000) is None


# --- threats -------------------------------------------------------------------------------------


def test_key_order_fb33_against_emoji() -> None:
    assert canonical_json({"\ufb33": 2, "\U0001f600": 1}) == '{"\U0001f600":1,"\ufb33":2}'.encode()


def test_nfc_and_nfd_keys_stay_two_keys() -> None:
    data = canonical_json({"\u00e9": 1, "e\u0301": 2})
    assert len(load_canonical(data)) == 2


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf, 2.0**53, -(2.0**53), 1e22])
def test_floats_without_canonical_form_are_refused(number: float) -> None:
    """Float re-encoding, NaN -> null."""
    with pytest.raises(CanonicalError) as caught:
        canonical_json({"a": [0, {"p": number}]})
    assert caught.value.where == "$.a[1].p"


@pytest.mark.parametrize("number", [2**53, -(2**53), 10**30])
def test_ints_beyond_2_53_are_refused(number: int) -> None:
    with pytest.raises(CanonicalError, match="integer beyond"):
        canonical_json([number])
    with pytest.raises(CanonicalError, match="integer beyond"):
        load_strict(b"[%d]" % number)


def test_an_integer_of_10_000_digits_is_refused_not_a_crash() -> None:
    with pytest.raises(CanonicalError):
        load_strict(b"1" * 10_000)


class Word(StrEnum):
    A = "a"


class Number(IntEnum):
    ONE = 1


class Mapping(dict[str, int]):
    pass


@pytest.mark.parametrize(
    "value",
    [Word.A, Number.ONE, Mapping(), (1,), {1: 2}, {None: 1}, {Word.A: 1}, b"x", object(), {1}, range(3)],
)
def test_exact_builtin_types_only(value: Any) -> None:
    with pytest.raises(CanonicalError) as caught:
        canonical_json({"deep": [value]})
    assert caught.value.where.startswith("$.deep[0]")
    assert caught.value.expected
    assert caught.value.do


@pytest.mark.parametrize("value", ["\ud800", "a\udc00", {"\ud800": 1}, ["\udfff\ud800"]])
def test_lone_surrogates_are_refused(value: Any) -> None:
    with pytest.raises(CanonicalError, match="surrogate"):
        canonical_json({"in": value})
    with pytest.raises(CanonicalError, match="surrogate"):
        load_strict(json.dumps(value).encode())


@pytest.mark.parametrize("value", ["\ud800", {"\ud800": 1.0}])
def test_lone_surrogates_are_refused_on_the_reference_way_too(value: Any) -> None:
    with pytest.raises(CanonicalError, match="surrogate"):
        canonical_json([1.0, {"\ue000": value}])


@pytest.mark.parametrize("data", [b'"\\uD800"', b'"\\uDfff"', b'["\\uDC00\\uD800"]', b'{"\\uD83D":1}'])
def test_lone_surrogates_are_refused_however_they_are_escaped(data: bytes) -> None:
    with pytest.raises(CanonicalError, match="surrogate"):
        load_strict(data)


def test_escaped_pairs_are_one_character() -> None:
    assert load_strict(b'"\\uD83D\\uDE00"') == "\U0001f600"


@pytest.mark.parametrize("data", [b'{"a":1,"a":1}', b'{"a":1,"\\u0061":2}', b'[{"b":{"x":1,"x":2}}]'])
def test_duplicate_keys_are_refused(data: bytes) -> None:
    with pytest.raises(CanonicalError, match="occurs twice"):
        load_strict(data)


@pytest.mark.parametrize("shape", [("[", "]"), ('{"a":', "}")])
def test_nesting_64_passes_65_and_2000_and_a_million_do_not(shape: tuple[str, str]) -> None:
    def nested(depth: int) -> bytes:
        middle = "1" if shape[0] != "[" else ""
        return (shape[0] * depth + middle + shape[1] * depth).encode()

    assert canonical_json(load_canonical(nested(64))) == nested(64)
    for depth in (65, 2000, 1_000_000):
        with pytest.raises(CanonicalError, match="nests deeper"):
            load_strict(nested(depth))
        with pytest.raises(CanonicalError):
            load_strict((shape[0] * depth).encode())


def test_a_value_that_contains_itself_is_too_deep() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(CanonicalError, match="nests deeper"):
        canonical_json(loop)


def test_a_value_that_doubles_at_every_level_is_too_large() -> None:
    value: list[Any] = []
    for _ in range(63):
        value = [value, value]
    with pytest.raises(CanonicalError, match="larger than"):
        canonical_json(value, max_bytes=10_000)


def test_sizes_are_capped() -> None:
    assert canonical_json("é" * 49, max_bytes=100)
    with pytest.raises(CanonicalError, match="larger than 100 bytes"):
        canonical_json("é" * 50, max_bytes=100)
    with pytest.raises(CanonicalError, match="larger than 100 bytes"):
        canonical_json({"k" * 101: 1}, max_bytes=100)
    with pytest.raises(CanonicalError, match="larger than 100 bytes"):
        load_strict(b" " * 101, max_bytes=100)


def test_deep_python_stack_gives_an_error_of_ours() -> None:
    def below(levels: int) -> None:
        if levels:
            below(levels - 1)
        else:
            with pytest.raises(CanonicalError):
                load_strict(b"[" * 5000)

    below(sys.getrecursionlimit() // 2)


@given(documents, st.data())
@settings(max_examples=200, deadline=None)
def test_truncation_at_every_length_is_refused(value: Any, data: st.DataObject) -> None:
    whole = canonical_json({"v": value})
    for length in range(len(whole)):
        with pytest.raises(CanonicalError):
            load_canonical(whole[:length])


@given(st.binary(max_size=60))
@settings(max_examples=500, deadline=None)
def test_any_bytes_load_or_raise_our_error(data: bytes) -> None:
    try:
        value = load_canonical(data)
    except CanonicalError:
        return
    assert rfc8785.dumps(value) == data


def test_an_error_shows_no_content() -> None:
    """A parse error in sealed content must not carry the content along."""
    with pytest.raises(CanonicalError) as caught:
        load_strict(b'{"a": "SENTINEL", oops}')
    assert "SENTINEL" not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_digest_is_over_the_bytes() -> None:
    assert digest(b"") == "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


# --- how much memory ------------------------------------------------------------------------------

_MEASURED = """
import resource, sys
from evalkit.sealing.canonical import CanonicalError, load_canonical, load_strict

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024

unit, size = sys.argv[1].encode(), int(sys.argv[2])
data = b"[" + unit * (size // len(unit)) + unit[:-1] + b"]"
before = peak()
said = []
for load in (load_canonical, load_strict):
    try:
        load(data)
        said.append("read")
    except CanonicalError as error:
        said.append(error.what)
print(peak() - before, *said, sep="|")
"""


@pytest.mark.parametrize("unit", ["[],", "{},", "1,", '{"a":1},', "[[]],", '"",'])
def test_a_document_of_nothing_but_brackets_is_refused_before_it_fills_the_memory(unit: str) -> None:
    """16 MiB of such took 240 to 760 MiB when they were decoded."""
    grown, *said = _measured(unit, 16 * 2**20)
    assert said == ["the document has more than 2000000 values"] * 2
    assert int(grown) < 16, f"{grown} MiB more"


def test_what_is_read_takes_a_few_hundred_megabytes_at_most() -> None:
    grown, *said = _measured('{"a":1},', 2_000_000 // 2 * 8 - 16)
    assert said == ["read"] * 2
    assert int(grown) < 400, f"{grown} MiB more"


def _measured(unit: str, size: int) -> list[str]:
    command = [sys.executable, "-c", _MEASURED, unit, str(size)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip().split("|")


@pytest.mark.parametrize("unit", ["0,", "[],", "{},"])
def test_how_many_values_goes_with_how_many_bytes(unit: str) -> None:
    most = max_values(8_000)
    assert most == 1_000
    each = unit.count(",") + unit.count("[") + unit.count("{")

    def document(values: int) -> bytes:
        return b"[" + unit.encode() * (values - 1) + unit[:-1].encode() + b"]"

    fits = document(most // each)
    assert load_canonical(fits, max_bytes=8_000) == load_strict(fits, max_bytes=8_000)
    assert canonical_values([fits, fits], max_bytes=8_000) is not None
    for load in (load_canonical, load_strict):
        with pytest.raises(CanonicalError, match="more than 1000 values") as caught:
            load(document(most // each + 1), max_bytes=8_000)
        assert caught.value.do
    more = document(most // each + 1)
    assert canonical_values([fits, more], max_bytes=8_000) is None
    # and where a line is written as it is, no more than can be read
    assert canonical_json(json.loads(fits), max_bytes=8_000) == fits
    with pytest.raises(CanonicalError, match="more than 1000 values"):
        canonical_json(json.loads(more), max_bytes=8_000)


def test_what_is_in_texts_is_no_reason_to_refuse_a_document() -> None:
    prose = canonical_json(["Neither this, nor that, nor [the other], is a value of its own. " * 200_000])
    assert load_canonical(prose) == load_strict(prose)
    nested = json.dumps([{"scenario": "a name", "probability": "0.25", "note": "a word or two"}] * 50_000)
    assert load_canonical(canonical_json({"raw": nested})) == {"raw": nested}


@pytest.mark.parametrize(
    "document",
    [
        b'["x.0,y",1e+22]',
        b'["x.0]",1e+21]',
        b'["a.0,b.0,",1e+30,1e+22]',
        b'{"a.0,":1e+30}',
        b'["x.0,",1,1e+22]',
        b"[1,1e+22,1.5]",
        b"[-1e+22,0,1e-7]",
        b'["-0.0,",1e+22,0]',
    ],
)
def test_large_floats_beside_texts_that_look_like_numbers(document: bytes) -> None:
    """How many numbers end in .0 was taken for how many are integral."""
    assert load_canonical(document) == json.loads(document)


def test_the_place_of_a_fault_is_its_own_and_not_that_of_a_value_at_the_limit() -> None:
    edge = 2**53 - 1
    for good in (edge, -edge, 1e-7, "\U0001f600", [], {}):
        with pytest.raises(CanonicalError) as caught:
            canonical_json({"a": [good, good, math.nan]})
        assert caught.value.where == "$.a[2]"


def test_a_place_in_what_is_read_is_not_that_of_a_large_float() -> None:
    """1e300 may be read, though not written: the fault is behind it."""
    with pytest.raises(CanonicalError, match="not finite") as caught:
        load_strict(b"[1e300,1e400]")
    assert caught.value.where == "$[1]"


def test_a_byte_order_mark_is_named() -> None:
    with pytest.raises(CanonicalError, match="byte order mark") as caught:
        load_strict(b"\xef\xbb\xbf{}")
    assert caught.value.where == "byte 0"
    assert load_strict('"\ufeff"'.encode()) == "\ufeff"


def test_the_key_that_occurs_twice_is_named() -> None:
    with pytest.raises(CanonicalError, match="the key 'b' occurs twice"):
        load_strict(b'{"a":1,"b":2,"c":3,"b":2}')


@pytest.mark.parametrize("keys", [("a", 1), (1, "a"), (1,), ("a", None, "b")])
def test_one_key_that_is_no_text_is_enough(keys: tuple[Any, ...]) -> None:
    with pytest.raises(CanonicalError, match="not exactly a str") as caught:
        canonical_json([dict.fromkeys(keys, 0)])
    assert caught.value.where == "$[0]"


def test_key_order_of_every_plane() -> None:
    """Every lead byte in UTF-8 of what is beyond U+FFFF, beside both of what is just below it."""
    for high in range(0x10000, 0x110000, 0x10000):
        for low in ("\ue000", "\uefff", "\uf000", "\uffff"):
            value = {low: 1, chr(high): 2, chr(high + 0xFFFF): 3}
            assert canonical_json(value) == rfc8785.dumps(value)
            assert list(load_canonical(canonical_json(value))) == [chr(high), chr(high + 0xFFFF), low]
