"""Ways to change a file that was signed: each a Hypothesis strategy from bytes to other bytes.

``lo`` and ``hi`` bound where the change begins, so that a test can reach every part of a file.  What
cannot be done to a file (an equal number where there is none) is rejected with `assume`, and another
way is drawn.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st

Draw = Callable[[st.SearchStrategy[Any]], Any]
Mutation = Callable[[bytes, int, int, Draw], bytes]

_NUMBER = re.compile(rb"(?<=[:\[,])-?\d+(?:\.\d+)?(?=[,\]}])")


def _at(lo: int, hi: int, draw: Draw) -> int:
    return int(draw(st.integers(lo, hi - 1)))


def bit_flip(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    at = _at(lo, hi, draw)
    return data[:at] + bytes([data[at] ^ (1 << draw(st.integers(0, 7)))]) + data[at + 1 :]


def byte_replaced(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    at = _at(lo, hi, draw)
    return data[:at] + bytes([data[at] ^ draw(st.integers(1, 255))]) + data[at + 1 :]


def inserted(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    at = _at(lo, hi, draw)
    return data[:at] + draw(st.binary(min_size=1, max_size=9)) + data[at:]


def deleted(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    at = _at(lo, hi, draw)
    return data[:at] + data[at + draw(st.integers(1, 40)) :]


def truncated(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    return data[: _at(lo, hi, draw)]


def blocks_swapped(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """Two blocks of equal length, the first in the part of the file that is aimed at."""
    size = draw(st.integers(1, max(1, min(64, len(data) // 2))))
    a = min(_at(lo, hi, draw), len(data) - 2 * size)
    assume(a >= 0)
    b = draw(st.integers(a + size, len(data) - size))
    return data[:a] + data[b : b + size] + data[a + size : b] + data[a : a + size] + data[b + size :]


def line_doubled(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """The line at a place once more; where a file is one line, the member or element at that place."""
    at = _at(lo, hi, draw)
    mark = b"\n" if b"\n" in data.rstrip(b"\n") else b","
    begin = data.rfind(mark, 0, at) + 1
    end = data.find(mark, at) + 1 or len(data)
    return data[:end] + data[begin:end] + data[end:]


def white_space(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """A blank more, where one would change no meaning: after a mark of JSON, or at a line's end."""
    at = _at(lo, hi, draw)
    places = [m.end() for m in re.finditer(rb"[,:{\[\n]", data[at : at + 4000])]
    at += draw(st.sampled_from(places)) if places else 0
    return data[:at] + draw(st.sampled_from([b" ", b"\n", b"\t", b"\r\n", "\u00a0".encode()])) + data[at:]


def spelt_otherwise(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """JSON of the same value in another layout, order or escaping."""
    try:
        value = json.loads(data)
    except ValueError:
        assume(False)
    return draw(
        st.sampled_from(
            [
                lambda: json.dumps(value, ensure_ascii=False).encode(),
                lambda: json.dumps(value, ensure_ascii=False, indent=2).encode(),
                lambda: json.dumps(value, separators=(",", ":")).encode() + b"\n",
                lambda: json.dumps(_turned(value), ensure_ascii=False, separators=(",", ":")).encode(),
                lambda: data.replace(b"/", b"\\/", draw(st.integers(1, 3))),
                lambda: b"\xef\xbb\xbf" + data,
                lambda: data.decode().encode("utf-16"),
            ]
        )
    )()


def _turned(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _turned(item) for key, item in reversed(value.items())}
    return value


def escaped(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """One letter of a text written as ``\\uXXXX``."""
    letters = [m.start() for m in re.finditer(rb"[a-z]", data[lo : lo + 4000])]
    assume(data[:1] == b"{" and letters)
    at = lo + draw(st.sampled_from(letters))
    return data[:at] + b"\\u%04x" % data[at] + data[at + 1 :]


def equal_number(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """A number written as another number that is equal to it: 1 as 1.0, 1e0 or 01."""
    assume(data[:1] in b"{[")
    found = list(_NUMBER.finditer(data, lo, hi)) or list(_NUMBER.finditer(data))
    assume(found)
    match = draw(st.sampled_from(found))
    text = match.group()
    forms = [text + b".0", text + b"e0", b"0" + text] if b"." not in text else [text + b"0", text + b"e0"]
    return data[: match.start()] + draw(st.sampled_from(forms)) + data[match.end() :]


def normal_form(data: bytes, lo: int, hi: int, draw: Draw) -> bytes:
    """The text in another Unicode normal form; where it has none, a letter gets a twin that looks alike."""
    try:
        text = data.decode()
    except UnicodeDecodeError:
        assume(False)
    forms = [unicodedata.normalize(form, text) for form in ("NFC", "NFD", "NFKC", "NFKD")]
    others = [form.encode() for form in forms if form != text]
    twins = [m.start() for m in re.finditer(rb"[aeo]", data[lo : lo + 4000])]
    assume(others or twins)
    if others and (not twins or draw(st.booleans())):
        return draw(st.sampled_from(others))
    at = lo + draw(st.sampled_from(twins))
    twin = {"a": "\u0430", "e": "\u0435", "o": "\u043e"}[chr(data[at])]
    return data[:at] + twin.encode() + data[at + 1 :]


MUTATIONS: tuple[Mutation, ...] = (
    bit_flip,
    byte_replaced,
    inserted,
    deleted,
    truncated,
    blocks_swapped,
    line_doubled,
    white_space,
    spelt_otherwise,
    escaped,
    equal_number,
    normal_form,
)
