from __future__ import annotations

import numpy as np
import pytest
from bs4 import BeautifulSoup

from evalkit.errors import EvalkitError
from evalkit.reports.tables import Card, Column, Table, badge, cards, notice


def test_a_table_has_caption_scopes_and_numeric_columns() -> None:
    table = Table(
        ["Case", Column("Brier", format=".2f"), "Seal"],
        [["<b>A", -0.5, badge("verified", "ok")], ["B", None, "x"]],
        caption="Scores & seals",
        note="a note",
    )
    soup = BeautifulSoup(table._repr_html_(), "html.parser")
    assert soup.caption is not None
    assert soup.caption.text == "Scores & seals"
    assert [th["scope"] for th in soup.select("thead th")] == ["col"] * 3
    assert [th["scope"] for th in soup.select("tbody th")] == ["row"] * 2
    assert soup.select_one("tbody th").text == "<b>A"
    assert [td.text for td in soup.select("td.num")] == ["−0.50", "–"]
    assert "style=" not in table._repr_html_()
    assert soup.select_one("div.table-scroll[tabindex='0'][aria-label='Scores & seals']")
    assert list(table.to_frame()["Seal"]) == ["verified", "x"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1234567, "1,234,567"),
        (0.12345, "0.123"),
        (12345.6, "12,346"),
        (np.float64(-2.0), "−2.000"),
        (float("nan"), "not a number"),
        (float("-inf"), "−∞"),
        (True, "True"),
    ],
)
def test_numbers_are_readable(value: object, text: str) -> None:
    soup = BeautifulSoup(Table(["a", "b"], [["x", value]])._repr_html_(), "html.parser")
    assert soup.td is not None
    assert soup.td.text == text


def test_zero_has_no_sign() -> None:
    markup = Table(["a", Column("x", format="+.3f")], [["u", -0.0], ["v", 0.0], ["w", -0.25]])._repr_html_()
    assert [cell.text for cell in BeautifulSoup(markup, "html.parser").select("td")] == [
        "0.000",
        "0.000",
        "−0.250",
    ]


def test_long_text_gets_room_and_short_text_stays_whole() -> None:
    soup = BeautifulSoup(
        Table(["a", "b", "c"], [["x", "a word " * 9, "1 of 1"]])._repr_html_(), "html.parser"
    )
    assert [td["class"] for td in soup.find_all("td")] == [["long"], ["short"]]


def test_rows_must_fit_their_columns() -> None:
    with pytest.raises(EvalkitError, match=r"row 1 .* 1 cells"):
        Table(["a", "b"], [[1, 2], [3]])


def test_an_empty_table_says_so() -> None:
    assert "no rows" in Table(["a"], [])._repr_html_()


def test_cards_badges_and_notices_escape_and_have_words() -> None:
    html = cards([Card("<x>", "1", "of 2", "95% interval 0 to 1", 4, "mean & more", kind="warn")]).markup
    assert "&lt;x&gt;" in html
    assert "mean &amp; more" in html
    assert "<i>n</i> = 4" in html
    assert "Warning" in notice("warn", "<script>").markup
    assert "<script>" not in notice("warn", "<script>").markup
    assert "verified" in badge("verified", "ok").markup
    assert str(badge("verified", "ok")) == "verified"


def test_a_day_is_not_broken_at_its_hyphens() -> None:
    page = Table(["case", "cutoff", "text"], [["a", "2007-07-27", "on 2007-07-27 or later"]])._repr_html_()
    assert '<td class="short">2007-07-27</td>' in page
    assert "<td>on 2007-07-27 or later</td>" in page
