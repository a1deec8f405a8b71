"""What a terminal would obey or hide is shown as an escape; everything else stays as it is."""

import pytest

from evalkit.visible import visible


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[2J", r"\x1b[2J"),
        ("a\nevalkit: verified", r"a\x0aevalkit: verified"),
        ("a\r\tb\x00", r"a\x0d\x09b\x00"),
        ("\x7f\x85\x9b31m", r"\x7f\x85\x9b31m"),
        ("\u202egpj.exe\u2066\u2069\u200f\u061c", r"\u202egpj.exe\u2066\u2069\u200f\u061c"),
        ("\u2028\u2029\ufeff\u200b", r"\u2028\u2029\ufeff\u200b"),
        ("\udcff", r"\udcff"),
        ("\U000e0041", r"\U000e0041"),
    ],
)
def test_what_a_terminal_obeys_or_hides_is_escaped(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(text).isprintable()
    visible(text).encode()


@pytest.mark.parametrize(
    "text", ["", "plain text", "Ärger: naïve 東京\u3000駅", "a\u00a0b", r"C:\x1b", "😀 ∑"]
)
def test_everything_else_stays(text: str) -> None:
    assert visible(text) == text


def test_no_control_of_any_kind_comes_through() -> None:
    for number in (*range(0x20), *range(0x7F, 0xA0), *range(0xD800, 0xE000), *range(0x202A, 0x202F)):
        assert chr(number) not in visible(f"a{chr(number)}b"), hex(number)
