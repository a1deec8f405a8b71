"""DER: one value, one spelling."""

from __future__ import annotations

import pytest
from cryptography.x509 import ObjectIdentifier
from hypothesis import given
from hypothesis import strategies as st

from evalkit.sealing.der import OCTET_STRING, SEQUENCE, DerError, Fields, elements, encode, parse

from .timestamping import integer, oid


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(b"", id="empty"),
        pytest.param(b"\x04", id="no length"),
        pytest.param(b"\x04\x02a", id="cut"),
        pytest.param(b"\x04\x01ab", id="trailing"),
        pytest.param(b"\x04\x81\x01a", id="long form of a short length"),
        pytest.param(b"\x04\x82\x00\x80" + b"a" * 128, id="length with a leading zero"),
        pytest.param(b"\x24\x80\x04\x01a\x00\x00", id="indefinite length"),
        pytest.param(b"\x04\x85\x00\x00\x00\x00\x80" + b"a" * 128, id="length of five octets"),
        pytest.param(b"\x04\x84\x00", id="length cut"),
        pytest.param(b"\x1f\x01\x00", id="long tag"),
        pytest.param(b"\xbf\x1f\x01\x00", id="long context tag"),
    ],
)
def test_other_spellings_are_refused(data: bytes) -> None:
    with pytest.raises(DerError):
        parse(data)


@given(st.binary(max_size=300))
def test_lengths_of_all_sizes(content: bytes) -> None:
    element = parse(encode(OCTET_STRING, content))
    assert (element.tag, element.content) == (OCTET_STRING, content)
    assert encode(element.tag, element.content) == element.raw


@given(st.integers(-(2**170), 2**170))
def test_integers(value: int) -> None:
    raw = value.to_bytes((value if value >= 0 else ~value).bit_length() // 8 + 1, "big", signed=True)
    assert parse(encode(2, raw)).integer() == value
    with pytest.raises(DerError):
        parse(encode(2, b"\x00" if value >= 0 else b"\xff", raw)).integer()


@given(st.integers(0, 2), st.integers(0, 39), st.lists(st.integers(0, 2**70), max_size=6))
def test_object_identifiers_are_read_as_cryptography_writes_them(
    first: int, second: int, rest: list[int]
) -> None:
    text = ".".join(map(str, [first, second, *rest]))
    assert parse(oid(text)).oid() == text
    if first == 2:
        assert parse(oid(f"2.{second + 960}")).oid() == f"2.{second + 960}"
    assert ObjectIdentifier("1.2.3.4").dotted_string == parse(b"\x06\x03\x2a\x03\x04").oid()


@pytest.mark.parametrize("content", [b"", b"\x80\x01", b"\x2a\x80\x01", b"\x2a\x83"])
def test_object_identifiers_have_one_spelling(content: bytes) -> None:
    with pytest.raises(DerError):
        parse(encode(6, content)).oid()


def test_fields_in_their_order() -> None:
    fields = Fields(parse(encode(SEQUENCE, integer(1), integer(2))))
    assert fields.optional(OCTET_STRING) is None
    assert fields.take(2).integer() == 1
    with pytest.raises(DerError):
        fields.end()
    with pytest.raises(DerError):
        fields.take(OCTET_STRING)
    assert fields.take(2).integer() == 2
    fields.end()
    with pytest.raises(DerError):
        Fields(parse(integer(1)))
    assert elements(b"") == []
