"""Canonical JSON: one byte string per value, and a loader that accepts nothing else.

The rules are RFC 8785 (JCS) cut down to I-JSON (RFC 7493), so that text, value and digest can
never drift apart:

1. Only the builtin types ``dict`` (with ``str`` keys), ``list``, ``str``, ``int``, ``float``,
   ``bool`` and ``None``; a subclass is refused, for it may print differently than it compares.
2. Integers lie within ±(2^53 - 1).  A float that is integral and at least 2^53 is refused on
   writing: JCS prints it as an integer literal that no strict reader may accept again.
3. No NaN, no infinity, no lone surrogate, at most 64 nested containers, at most `MAX_BYTES`.
4. Keys are ordered by UTF-16 code units (RFC 8785 section 3.2.3), not by code point.
5. Reading is strict: UTF-8 without BOM, no duplicate key (also not one spelt with escapes), no
   ``NaN``; `load_canonical` further demands that writing the value again gives the same bytes.

``rfc8785`` is the reference writer.  Most documents take a shorter way through the C encoder of
the standard library, which `_survey` permits only where both are known to agree; the tests show
byte equality on random documents.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NoReturn

from evalkit.errors import EvalkitError

MAX_DEPTH = 64
MAX_BYTES = 64 * 1024 * 1024
MAX_INTEGER = 2**53 - 1

# Keys with a character from here on may sort differently by code point and by UTF-16 unit.
_LAST_BELOW_SURROGATES = "\ud7ff"
_STR_ONLY = frozenset({str})
# repr() of a non-integral float from here to 2^53 is plain decimal notation, as in JCS.
_PLAIN_DECIMAL_FROM = 1e-4


class CanonicalError(EvalkitError):
    """The value has no canonical JSON, or the bytes are not strict or canonical JSON."""


def digest(data: bytes) -> str:
    """``sha256:`` and 64 lowercase hex digits over the stored bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def canonical_json(value: Any, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The one canonical encoding of ``value`` (RFC 8785 with the limits above).

    Raises `CanonicalError` naming the place of the first thing that cannot be encoded.
    """
    same_as_json = _survey(value, max_bytes=max_bytes, writing=True)
    return _encode(value, same_as_json, max_bytes=max_bytes)


def _encode(value: Any, same_as_json: bool, *, max_bytes: int) -> bytes:
    """The bytes of a surveyed value."""
    try:
        if same_as_json:
            data = _ENCODER.encode(value).encode("utf-8")
        else:
            import rfc8785

            data = rfc8785.dumps(value)
    except ValueError:
        # Types, numbers and depth are surveyed, so what is left is text that UTF-8 cannot hold.
        _refuse_surrogates(value)
        raise
    if len(data) > max_bytes:
        _too_large(max_bytes)
    return data


def load_canonical(data: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The value of ``data``, which must be exactly the canonical encoding of that value.

    Floats from 1e21 on, which JCS prints with an exponent, are read although `canonical_json` does
    not write them: their text and their value determine each other.
    """
    value, same_as_json = _load(data, max_bytes=max_bytes)
    again = _encode(value, same_as_json, max_bytes=max_bytes)
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


def load_strict(data: bytes, *, max_bytes: int = MAX_BYTES) -> Any:
    """The value of JSON that a person may have written: any layout, but nothing ambiguous.

    Raises `CanonicalError`; never ``RecursionError``, whatever the nesting.
    """
    return _load(data, max_bytes=max_bytes)[0]


def _load(data: bytes, *, max_bytes: int) -> tuple[Any, bool]:
    """(strictly loaded value, whether the C encoder writes it canonically)."""
    if len(data) > max_bytes:
        _too_large(max_bytes)
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
    same_as_json = _survey(value, max_bytes=max_bytes, writing=False)
    # Raw text came through a strict decoder, so only an escape can bring a lone surrogate in.
    if "\\ud" in text or "\\uD" in text:
        _refuse_surrogates(value)
    return value, same_as_json


def _survey(value: Any, *, max_bytes: int, writing: bool) -> bool:
    """Check types, numbers, depth and size in one walk, level by level.

    Returns whether ``json.dumps`` writes the same bytes as JCS: no key that the two would sort
    differently, and no float that they would print differently.  With ``writing`` false, integral
    floats from 2^53 are let through, since reading them is not ambiguous.
    """
    same_as_json = True
    budget = max_bytes
    level: list[Any] = [value]
    depth = 0
    while level:
        below: list[Any] = []
        budget -= len(level)
        if budget < 0:
            _too_large(max_bytes)
        for item in level:
            kind = type(item)
            if kind is str:
                budget -= len(item)
            elif kind is dict:
                if not _STR_ONLY.issuperset(map(type, item)):
                    _explain(value, writing=writing)
                keys = "".join(item)
                budget -= len(keys)
                if not keys.isascii() and max(keys) > _LAST_BELOW_SURROGATES:
                    same_as_json = False
                below.extend(item.values())
            elif kind is list:
                below.extend(item)
            elif kind is int:
                if not -MAX_INTEGER <= item <= MAX_INTEGER:
                    _explain(value, writing=writing)
            elif kind is float:
                if _float_fault(item, writing=writing):
                    _explain(value, writing=writing)
                if item.is_integer() or abs(item) < _PLAIN_DECIMAL_FROM:
                    same_as_json = False
            elif kind is not bool and item is not None:
                _explain(value, writing=writing)
            if budget < 0:
                _too_large(max_bytes)
        # A scalar stands below its container, so only containers below the limit are too deep.
        if depth == MAX_DEPTH and any(type(item) is dict or type(item) is list for item in level):
            _too_deep()
        depth += 1
        level = below
    return same_as_json


def _float_fault(number: float, *, writing: bool) -> str:
    if number != number or number in (float("inf"), float("-inf")):
        return "a number that is not finite"
    if writing and abs(number) > MAX_INTEGER and number.is_integer():
        return "an integral float of 2^53 or more"
    return ""


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


def _explain(value: Any, *, writing: bool) -> NoReturn:
    """Raise the error for the first fault that `_survey` saw, with its place.

    Kept out of the fast walk, which does not carry paths.
    """
    for path, item, _key in _walk(value):
        kind = type(item)
        fault = ""
        if kind is dict and any(type(k) is not str for k in item):
            fault = "a key that is not exactly a str"
        elif kind is int and not -MAX_INTEGER <= item <= MAX_INTEGER:
            fault = "an integer beyond 2^53 - 1"
        elif kind is float:
            fault = _float_fault(item, writing=writing)
        elif kind not in (str, dict, list, int, bool) and item is not None:
            fault = f"a value of type {kind.__module__}.{kind.__qualname__}"
        if fault:
            raise CanonicalError(
                f"{fault} has no canonical JSON",
                where=path,
                expected="dict with str keys, list, str, bool, None, finite floats, "
                f"and integers within ±{MAX_INTEGER}",
                do="convert the value first; write large numbers as strings",
            )
    raise AssertionError("the survey refused a value in which no fault can be found")


def _refuse_surrogates(value: Any) -> None:
    for path, item, key in _walk(value):
        for text in (key, item):
            if type(text) is str:
                try:
                    text.encode("utf-8")
                except UnicodeEncodeError:
                    raise CanonicalError(
                        "a lone surrogate is not text",
                        where=path,
                        expected="Unicode text (surrogates in pairs only)",
                        do="remove or replace the character",
                    ) from None


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


# Built once: making a decoder or an encoder costs more than a ledger line takes to read.
_DECODER = json.JSONDecoder(object_pairs_hook=_distinct, parse_constant=_no_constant)
_ENCODER = json.JSONEncoder(sort_keys=True, ensure_ascii=False, separators=(",", ":"), check_circular=False)
