"""Reading DER, strictly: one value has one spelling, and nothing is left over.

Just what a timestamp token needs (X.690 section 10): definite lengths in the shortest form, tags below
31, integers in the shortest form.  Tools that accept more (BER) read one and the same token in several
ways, and what two readers read differently is where forgeries live.

Anything else is a `DerError`; it says what was expected, and the caller says where.
"""

from __future__ import annotations

from dataclasses import dataclass

BOOLEAN, INTEGER, BIT_STRING, OCTET_STRING, NULL, OID = 0x01, 0x02, 0x03, 0x04, 0x05, 0x06
UTF8_STRING, GENERALIZED_TIME, SEQUENCE, SET = 0x0C, 0x18, 0x30, 0x31


class DerError(ValueError):
    """These bytes are not the DER that was expected."""


def context(number: int, *, constructed: bool = True) -> int:
    """The tag [number] of context class."""
    return 0x80 | (0x20 if constructed else 0) | number


@dataclass(frozen=True)
class Element:
    """One value: its tag octet, its content, and all of it as it was written."""

    tag: int
    content: bytes
    raw: bytes

    def integer(self) -> int:
        """The value of an INTEGER (or of an implicitly tagged one)."""
        data = self.content
        if not data or (len(data) > 1 and data[0] in (0, 0xFF) and (data[0] ^ data[1]) < 0x80):
            raise DerError("an integer in its shortest form")
        return int.from_bytes(data, "big", signed=True)

    def oid(self) -> str:
        """The dotted form of an OBJECT IDENTIFIER."""
        if self.tag != OID or not self.content or self.content[-1] & 0x80:
            raise DerError("an object identifier")
        arcs, value, begins = [], 0, True
        for octet in self.content:
            if begins and octet == 0x80:
                raise DerError("an object identifier in its shortest form")
            value, begins = value << 7 | octet & 0x7F, not octet & 0x80
            if begins:
                arcs.append(value)
                value = 0
        first = min(arcs[0] // 40, 2)
        return ".".join(map(str, [first, arcs[0] - 40 * first, *arcs[1:]]))


def parse(data: bytes) -> Element:
    """The one element that ``data`` is."""
    element, rest = _next(data)
    if rest:
        raise DerError("nothing behind the value")
    return element


def elements(content: bytes) -> list[Element]:
    """All elements in the content of a SEQUENCE, SET or constructed tag."""
    found = []
    while content:
        element, content = _next(content)
        found.append(element)
    return found


class Fields:
    """The fields of a SEQUENCE, taken one after the other, optional ones by their tag."""

    def __init__(self, element: Element, tag: int = SEQUENCE) -> None:
        if element.tag != tag:
            raise DerError(f"a value with tag {tag:#04x}, not {element.tag:#04x}")
        self._left = elements(element.content)

    def take(self, tag: int) -> Element:
        found = self.optional(tag)
        if found is None:
            raise DerError(f"a field with tag {tag:#04x}")
        return found

    def optional(self, tag: int) -> Element | None:
        return self._left.pop(0) if self._left and self._left[0].tag == tag else None

    def end(self) -> None:
        if self._left:
            raise DerError(f"no field with tag {self._left[0].tag:#04x} here")


def encode(tag: int, *contents: bytes) -> bytes:
    """An element around the joined contents."""
    content = b"".join(contents)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8, "big")
    return bytes((tag, 0x80 | len(length))) + length + content


def _next(data: bytes) -> tuple[Element, bytes]:
    if len(data) < 2:
        raise DerError("a tag and a length")
    if data[0] & 0x1F == 0x1F:
        raise DerError("a tag below 31")
    size, start = data[1], 2
    if size >= 0x80:
        start += size & 0x7F
        length = data[2:start]
        size = int.from_bytes(length, "big")
        if not 1 <= len(length) <= 4 or len(length) != start - 2 or length[0] == 0 or size < 0x80:
            raise DerError("a definite length in its shortest form")
    if len(data) < start + size:
        raise DerError("as many bytes as the length says")
    end = start + size
    return Element(data[0], data[start:end], data[:end]), data[end:]
