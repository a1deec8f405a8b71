"""Text from files, made safe to show: what a terminal would obey or hide is written out as an escape.

A file name, a predicate type or a field of a ledger can hold anything.  Printed as it is, an escape
sequence moves the cursor over what was said before, a newline begins a line that evalkit never
wrote, and a bidirectional control shows the letters in another order (CVE-2021-42574, "Trojan
Source").  A lone surrogate (a file name that is not UTF-8) cannot be printed at all.
"""

from __future__ import annotations

import unicodedata


def visible(text: str) -> str:
    r"""``text`` in one line, its unprintable characters as ``\x1b``, ``\u202e`` or ``\U000e0041``.

    Escaped are the categories C (controls C0 and C1, formats with the bidirectional ones, surrogates,
    private and unassigned characters), Zl and Zp.  Everything else stays, other scripts and their
    spaces too.  A backslash stays as well: the result is for reading, not for decoding.
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or unicodedata.category(c) == "Zs" else _escaped(c) for c in text)


def _escaped(character: str) -> str:
    number = ord(character)
    if number < 0x100:
        return f"\\x{number:02x}"
    return f"\\u{number:04x}" if number < 0x10000 else f"\\U{number:08x}"
