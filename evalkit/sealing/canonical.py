"""Canonical JSON: one byte string per value, and a loader that accepts nothing else.

The rules are RFC 8785 (JCS) cut down to I-JSON (RFC 7493), so that text, value and digest can
never drift apart:

1. Only the builtin types ``dict`` (with ``str`` keys), ``list``, ``str``, ``int``, ``float``,
   ``bool`` and ``None``; a subclass is refused, for it may print differently than it compares.
2. Integers lie within ±(2^53 - 1).  A float that is integral and at least 2^53 is refused on
   writing: JCS prints it as an integer literal that no strict reader may accept again.
3. No NaN, no infinity, no lone surrogate, at most 64 nested containers, at most `MAX_BYTES`; on reading
   (and for a limit below `MAX_BYTES` on writing) at most `max_values` values, for a value of two bytes
   may take two hundred in memory.
4. Keys are ordered by UTF-16 code units (RFC 8785 section 3.2.3), not by code point.
5. Reading is strict: UTF-8 without BOM, no duplicate key (also not one spelt with escapes), no
   ``NaN``; `load_canonical` further demands that writing the value again gives the same bytes.

The bytes come from ``orjson``, which agrees with RFC 8785 but for two things, mended here: how it writes
floats that are integral, small or large, and how it sorts keys with characters on both sides of the
surrogates.  The tests hold the result against the reference implementation (``rfc8785``) on its vectors
and on 200,000 random documents.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Sequence
from decimal import Decimal
from itertools import chain
from typing import Any, NoReturn

import orjson

from evalkit.errors import EvalkitError

MAX_DEPTH = 64
MAX_BYTES = 64 * 1024 * 1024
MAX_VALUES = 2_000_000
MAX_INTEGER = 2**53 - 1

_TYPES = frozenset((str, int, float, bool, type(None), dict, list))
_CONTAINERS = frozenset((dict, list))
_FLAT = frozenset((str, int, bool, type(None)))
# orjson writes no float between this and 2^53 with an exponent.
_PLAIN_DECIMAL_FROM = 1e-4
_UNSORTED = orjson.OPT_STRICT_INTEGER
_SORTED = _UNSORTED | orjson.OPT_SORT_KEYS
# Lead bytes in UTF-8 of the characters beyond U+FFFF, and of those from U+E000 to U+FFFF.
_BEYOND_BMP = (b"\xf0", b"\xf1", b"\xf2", b"\xf3", b"\xf4")
_ABOVE_SURROGATES = (b"\xee", b"\xef")
_POINT_ZERO = re.compile(rb"\.0(?=[],}]|$)")
_MINUS_ZERO = re.compile(rb"-0\.0(?=[],}]|$)")
_EXPONENT = re.compile(rb"e[-+]?[0-9]+")
_BEFORE_VALUE = (b",", b"[", b"{")
_BEFORE_NUMBER = (b",", b":", b"[")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD]")
_MANY_DIGITS = re.compile(r"[0-9]{16}")


class CanonicalError(EvalkitError):
    """The value has no canonical JSON, or the bytes are not strict or canonical JSON."""


def max_values(max_bytes: int) -> int:
    """How many commas and opening brackets a document may have that may have ``max_bytes``.

    Each value but the first has one before it; those inside of strings count too, which spares a parser.
    """
    return min(MAX_VALUES, max_bytes // 8)


def digest(data: bytes) -> str:
    """``sha256:`` and 64 lowercase hex digits over the stored bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: Any, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The one canonical encoding of ``value`` (RFC 8785 with the limits above).

    Raises `CanonicalError` naming the place of the first thing that cannot be encoded.
    """
    floats = _survey([value], max_bytes=max_bytes)
    if floats.large:
        _explain(value, large=True)
    return _encode(value, floats, max_bytes=max_bytes)


def load_canonical(data: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The value of ``data``, which must be exactly the canonical encoding of that value.

    Floats from 1e21 on, which JCS prints with an exponent, are read although `canonical_json` does
    not write them: their text and their value determine each other.
    """
    found = canonical_values([data], max_bytes=max_bytes)
    if found is not None:
        return found[0]
    value = load_strict(data, max_bytes=max_bytes)
    again = _encode(value, _survey([value], max_bytes=max_bytes), max_bytes=max_bytes)
    if again != data:
        at = next(
            (i for i, (a, b) in enumerate(zip(again, data, strict=False)) if a != b),
            min(len(again), len(data)),
        )
        raise CanonicalError(
            "this JSON is not canonical",
            where=f"byte {at}",
            expected="RFC 8785: sorted keys, no spaces, shortest numbers, no final newline",
            do="restore the file as it was written; do not format it by hand",
        )
    return value


def canonical_values(documents: list[bytes], *, max_bytes: int = MAX_BYTES) -> list[Any] | None:
    """The values of many canonical documents at once, or None where one of them may not be canonical.

    The fast way, which explains nothing: after a None, `load_canonical` says of each document what is
    wrong with it, or reads it after all.
    """
    most = max_values(max_bytes)
    if any(len(data) > most and (len(data) > max_bytes or _too_many(data, max_bytes)) for data in documents):
        return None
    joined = b",".join(documents)
    try:
        values: list[Any] = orjson.loads(b"[%b]" % joined)
        floats = _Floats() if _flat(values) else _survey(values, max_bytes=len(documents) * max_bytes)
        # An integer beyond 64 bits was read as a float, and would be written with the same digits.
        if floats.large or len(values) != len(documents):
            return None
        # Each for itself, since documents that are cut in the wrong places may be whole when joined.  What
        # the reader lets through (a key twice, layout, escapes) does not come out as the same bytes.
        if joined.isascii() and not floats.numbers:
            again = [orjson.dumps(value, option=_SORTED) for value in values]
        else:
            again = [_bytes(value, floats) for value in values]
    except (ValueError, TypeError, CanonicalError):
        return None
    return values if again == documents else None


def load_strict(data: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The value of JSON that a person may have written: any layout, but nothing ambiguous.

    Raises `CanonicalError`; never ``RecursionError``, whatever the nesting.
    """
    if len(data) > max_bytes:
        _too_large(max_bytes)
    _refuse_too_many(data, max_bytes)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise CanonicalError(
            "this is not UTF-8", where=f"byte {error.start}", expected="JSON as UTF-8", do="save it as UTF-8"
        ) from None
    if text.startswith("\ufeff"):
        raise CanonicalError(
            "the text begins with a byte order mark",
            where="byte 0",
            expected="JSON as UTF-8 without BOM",
            do="save it without the mark",
        )
    try:
        value = _DECODER.decode(text)
    except RecursionError:
        _too_deep()
    except json.JSONDecodeError as error:
        # `from None`: the decoder's error keeps the whole document, which may be secret.
        raise CanonicalError(
            f"this is not JSON ({error.msg})",
            where=f"line {error.lineno}, column {error.colno}",
            expected="one JSON value (RFC 8259)",
            do="correct the text at that place",
        ) from None
    except ValueError:
        # Python refuses to convert decimal literals of more than 4,300 digits.
        raise CanonicalError(
            "an integer has too many digits",
            where="a number of the document",
            expected=f"integers within ±{MAX_INTEGER}",
            do="write it as a string",
        ) from None
    _survey([value], max_bytes=max_bytes)
    # What the survey leaves to the encoder: only an escape brings a lone surrogate in, for the text itself
    # was decoded strictly, and an integer beyond 2^53 has at least 16 digits.
    if _SURROGATE_ESCAPE.search(text) or _MANY_DIGITS.search(text):
        _refuse_first_fault(value)
    return value


def _too_many(data: bytes, max_bytes: int) -> bool:
    """Whether there are too many values to be decoded; see `max_values`."""
    most = max_values(max_bytes)
    return len(data) > most and sum(map(data.count, _BEFORE_VALUE)) > most


def _refuse_too_many(data: bytes, max_bytes: int) -> None:
    if _too_many(data, max_bytes):
        most = max_values(max_bytes)
        raise CanonicalError(
            f"the document has more than {most} values",
            where="the document",
            expected=f"at most {most} commas and opening brackets",
            do="split it",
        )


class _Floats:
    """The floats of a value, as far as they decide how it is to be written."""

    def __init__(self) -> None:
        self.numbers: list[float] = []
        self.large = False
        self.small = False

    def add(self, numbers: list[float], values: Sequence[Any]) -> None:
        magnitudes = list(map(abs, numbers))
        if not sum(magnitudes) <= MAX_INTEGER:  # which no sum with a NaN in it is
            if not all(map(math.isfinite, numbers)):
                _explain(*values)
            self.large = self.large or max(magnitudes) > MAX_INTEGER
        smallest = min(magnitudes) or min(filter(None, magnitudes), default=1.0)
        self.small = self.small or smallest < _PLAIN_DECIMAL_FROM
        self.numbers += numbers


def _survey(values: Sequence[Any], *, max_bytes: int) -> _Floats:
    """Check types and depth of some values in one walk, level by level and kind by kind.

    Each pass over a level runs in C, which makes this several times as fast as looking at one item after
    the other.  Keys, integers and texts are left to the encoder, which refuses what has no canonical form.
    """
    floats = _Floats()
    budget = max_bytes
    level: Sequence[Any] = values
    for depth in range(MAX_DEPTH + 1):
        # No item takes less than a byte: this stops a value that doubles at every level.
        budget -= len(level)
        if budget < 0:
            _too_large(max_bytes)
        kinds = set(map(type, level))
        if not kinds <= _TYPES:
            _explain(*values)
        if float in kinds:
            floats.add([item for item in level if type(item) is float], values)
        if kinds.isdisjoint(_CONTAINERS):
            return floats
        # A scalar stands below its container, so only containers below the limit are too deep.
        if depth == MAX_DEPTH:
            break
        below: list[Any] = []
        if dict in kinds:
            below.extend(chain.from_iterable([item.values() for item in level if type(item) is dict]))
        if list in kinds:
            below.extend(chain.from_iterable([item for item in level if type(item) is list]))
        level = below
    return _too_deep()


def _flat(values: list[Any]) -> bool:
    """Whether these are objects of texts and integers only, as lines of a ledger are: no need to survey them."""
    return set(map(type, values)) == {dict} and _FLAT.issuperset(
        map(type, chain.from_iterable(map(dict.values, values)))
    )


def _encode(value: Any, floats: _Floats, *, max_bytes: int) -> bytes:
    """The bytes of a surveyed value."""
    try:
        data = _bytes(value, floats)
    except (TypeError, ValueError):
        data = None
    if data is None:  # outside of the handler, for its error may carry the content along
        _explain(value)
    if len(data) > max_bytes:
        _too_large(max_bytes)
    # A line is appended as it is written.  A whole document is read before it is committed, which counts its
    # values: that takes as long as a fifth of the writing of ten megabytes, and is not done twice.
    if max_bytes < MAX_BYTES:
        _refuse_too_many(data, max_bytes)
    return data


def _bytes(value: Any, floats: _Floats) -> bytes:
    """The bytes of a surveyed value; TypeError or ValueError where it holds what has none."""
    data = orjson.dumps(value, option=_SORTED)
    # By code point, where JCS sorts by UTF-16 unit: the same unless there are characters of both kinds.
    if not data.isascii() and all(
        any(lead in data for lead in leads) for leads in (_ABOVE_SURROGATES, _BEYOND_BMP)
    ):
        data = orjson.dumps(_in_utf16_order(value), option=_UNSORTED)
    if (floats.small or floats.large) and _EXPONENT.search(data):
        data = _written_anew(data, _EXPONENT)
    if floats.numbers and _POINT_ZERO.search(data):
        without, found = _POINT_ZERO.subn(b"", data)
        # Some of them may be in strings; large floats are integral and end otherwise, so they cannot be counted.
        if floats.large or found != sum(map(float.is_integer, floats.numbers)):
            data = _written_anew(data, _POINT_ZERO)
        elif b"-0.0" in data:
            data = _POINT_ZERO.sub(b"", _MINUS_ZERO.sub(b"0", data))
        else:
            data = without
    return data


def _in_utf16_order(value: Any) -> Any:
    """A copy of the value whose keys are in the order of RFC 8785 section 3.2.3."""
    if type(value) is dict:
        return {key: _in_utf16_order(value[key]) for key in sorted(value, key=_utf16)}
    return list(map(_in_utf16_order, value)) if type(value) is list else value


def _utf16(key: str) -> bytes:
    return key.encode("utf-16-be")


def _written_anew(data: bytes, end: re.Pattern[bytes]) -> bytes:
    """The same JSON, in which the numbers that end like that are written as ECMAScript writes them."""
    written, done, counted, inside = [], 0, 0, False
    for match in end.finditer(data):
        # An odd number of quotes, but for escaped ones, leads into a string or out of it.
        between = data[counted : match.start()]
        if b"\\" in between:
            between = between.replace(b"\\\\", b"").replace(b'\\"', b"")
        inside ^= between.count(b'"') % 2 == 1
        counted = match.start()
        if not inside:
            before = max(data.rfind(mark, max(done, counted - 32), counted) for mark in _BEFORE_NUMBER)
            start = before + 1 if before >= 0 else done
            written += [data[done:start], _ecmascript(float(data[start : match.end()]))]
            done = match.end()
    return b"".join((*written, data[done:]))


def _ecmascript(number: float) -> bytes:
    """Number::toString of ECMAScript (RFC 8785 section 3.2.2.3)."""
    magnitude = abs(number)
    if number.is_integer() and magnitude < 1e21:
        return b"%d" % int(number)
    if magnitude >= 1e-6 and magnitude < 1e21:
        return format(Decimal(repr(number)), "f").encode()
    # repr() has the shortest digits as well, but pads the exponent to two.
    return repr(number).replace("e-0", "e-").encode()


def _walk(value: Any) -> Iterator[tuple[str, Any, str]]:
    """(path, item, key) of everything in ``value``; shared containers are visited once."""
    seen: set[int] = set()
    stack: list[tuple[str, Any, str]] = [("$", value, "")]
    while stack:
        path, item, key = stack.pop()
        yield path, item, key
        if type(item) in (dict, list):
            if id(item) in seen:
                continue
            seen.add(id(item))
            if type(item) is dict:
                stack.extend((f"{path}.{_shown(k)}", v, k) for k, v in reversed(list(item.items())))
            else:
                stack.extend((f"{path}[{i}]", v, "") for i, v in reversed(list(enumerate(item))))


def _shown(key: Any) -> str:
    return ascii(key)[1:-1] if type(key) is str else f"<{type(key).__name__}>"


def _explain(*values: Any, large: bool = False) -> NoReturn:
    """Raise for the first fault of values that were refused."""
    for value in values:
        _refuse_first_fault(value, large=large)
    raise AssertionError("a value was refused in which no fault can be found")


def _refuse_first_fault(value: Any, *, large: bool = False) -> None:
    """Raise for the first thing in ``value`` that has no canonical form, with its place, if there is one.

    ``large``: also where a float is integral and 2^53 or more, which may be read but not written.  Kept
    out of the fast walk, which does not carry places.
    """
    for path, item, key in _walk(value):
        fault = _fault(item, large=large)
        if fault:
            raise CanonicalError(
                f"{fault} has no canonical JSON",
                where=path,
                expected="dict with str keys, list, str, bool, None, finite floats, "
                f"and integers within ±{MAX_INTEGER}",
                do="convert the value first; write large numbers as strings",
            )
        if any(type(text) is str and _has_surrogate(text) for text in (key, item)):
            raise CanonicalError(
                "a lone surrogate is not text",
                where=path,
                expected="Unicode text (surrogates in pairs only)",
                do="remove or replace the character",
            )


def _fault(item: Any, *, large: bool) -> str:
    kind = type(item)
    if kind is dict:
        return "a key that is not exactly a str" if any(type(key) is not str for key in item) else ""
    if kind is int:
        return "" if -MAX_INTEGER <= item <= MAX_INTEGER else "an integer beyond 2^53 - 1"
    if kind is float:
        if not math.isfinite(item):
            return "a number that is not finite"
        return "an integral float of 2^53 or more" if large and abs(item) > MAX_INTEGER else ""
    return "" if kind in _TYPES else f"a value of type {kind.__module__}.{kind.__qualname__}"


def _has_surrogate(text: str) -> bool:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return True
    return False


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Build an object, refusing a key that occurs twice once its escapes are resolved."""
    made = dict(pairs)
    if len(made) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise CanonicalError(
                    f"the key {key!a} occurs twice in one object",
                    where="an object of the document",
                    expected="distinct keys (RFC 7493 section 2.3)",
                    do="remove one of them",
                )
            seen.add(key)
    return made


def _no_constant(name: str) -> NoReturn:
    raise CanonicalError(
        f"{name} is not JSON",
        where="a number of the document",
        expected="finite numbers",
        do="write null or leave the field out",
    )


def _too_deep() -> NoReturn:
    raise CanonicalError(
        f"the value nests deeper than {MAX_DEPTH} containers",
        where="the document",
        expected=f"at most {MAX_DEPTH} levels of objects and arrays",
        do="flatten the document",
    ) from None


def _too_large(max_bytes: int) -> NoReturn:
    raise CanonicalError(
        f"the document is larger than {max_bytes} bytes",
        where="the document",
        expected=f"at most {max_bytes} bytes of JSON",
        do="split it, or refer to large content by its digest",
    )


# Built once: making a decoder costs more than a short document takes to read.
_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)
