"""The report as a reader gets it: offline, on a phone and on a desk, light, dark and on paper.

Screenshots go to the folder that EVALKIT_SCREENSHOTS names, or to the test's own folder.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.reports import Execution, export_pdf

pytestmark = pytest.mark.browser


class Visit:
    """A page that is open, with what it requested and what the console said."""

    def __init__(self, page: Any, requests: list[str], said: list[str]) -> None:
        self.page, self.requests, self.said = page, requests, said


@pytest.fixture
def visit(chromium: Any, executed: Execution) -> Iterator[Any]:
    contexts = []

    def open_page(width: int = 1000, scheme: str = "light", media: str = "screen") -> Visit:
        context = chromium.new_context(
            viewport={"width": width, "height": 900}, color_scheme=scheme, offline=True
        )
        contexts.append(context)
        page = context.new_page()
        requests: list[str] = []
        said: list[str] = []
        page.on("request", lambda request: requests.append(request.url))
        page.on("console", lambda message: said.append(message.text))
        page.on("pageerror", lambda error: said.append(str(error)))
        page.emulate_media(media=media, color_scheme=scheme)
        page.goto(executed.report.as_uri())
        return Visit(page, requests, said)

    yield open_page
    for context in contexts:
        context.close()


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    folder = Path(os.environ.get("EVALKIT_SCREENSHOTS", tmp_path))
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def test_it_loads_nothing_and_says_nothing(visit: Any, executed: Execution) -> None:
    seen = visit()
    assert [url for url in seen.requests if not url.startswith("data:")] == [executed.report.as_uri()]
    assert seen.said == []


def test_the_policy_stops_what_a_page_might_try(visit: Any) -> None:
    seen = visit()
    seen.page.evaluate(
        """() => { const i = new Image(); i.src = 'https://example.org/x.png'; document.body.append(i);
        const s = document.createElement('script'); s.textContent = 'window.ran = 1'; document.body.append(s); }"""
    )
    assert seen.page.evaluate("window.ran") is None
    assert len(seen.said) >= 2
    assert all("Content Security Policy" in line for line in seen.said)


def test_ids_are_unique_and_figures_labelled(visit: Any) -> None:
    page = visit().page
    ids = page.evaluate("[...document.querySelectorAll('[id]')].map(e => e.id)")
    assert len(ids) == len(set(ids))
    labels = page.evaluate(
        "[...document.querySelectorAll('svg')].map(e => [e.getAttribute('role'), e.getAttribute('aria-label')])"
    )
    assert len(labels) == 3
    assert all(role == "img" and label for role, label in labels)
    assert page.get_by_role("img").count() == 3
    assert page.get_by_role("navigation", name="Contents").count() == 1


@pytest.mark.parametrize("width", [320, 360, 768, 1000, 1400])
def test_the_page_never_scrolls_sideways(visit: Any, pictures: Path, width: int) -> None:
    page = visit(width).page
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    outside = page.evaluate(
        """[...document.querySelectorAll('main *, footer *')].filter(e =>
        !e.closest('.table-scroll, .math-scroll, pre, svg') && e.getBoundingClientRect().right > innerWidth + 1
        ).map(e => e.outerHTML.slice(0, 80))"""
    )
    assert outside == []
    page.screenshot(path=pictures / f"light-{width}.png", full_page=True)


def test_type_in_figures_is_readable_on_a_phone(visit: Any) -> None:
    sizes = visit(360).page.evaluate(
        "[...document.querySelectorAll('figure svg text')].map(e => e.getBoundingClientRect().height)"
    )
    assert min(sizes) >= 8


def colours(page: Any) -> dict[str, str]:
    found: dict[str, str] = page.evaluate(
        """() => { const s = (e, p) => getComputedStyle(e)[p];
        return { paper: s(document.body, 'backgroundColor'), ink: s(document.body, 'color'),
                 axis: s(document.querySelector('figure svg text'), 'fill') } }"""
    )
    return found


def brightness(colour: str) -> float:
    return sum(map(int, re.findall(r"\d+", colour)[:3])) / 3


def test_dark_is_dark_in_text_and_figures(visit: Any, pictures: Path) -> None:
    light, dark = colours(visit().page), colours(visit(scheme="dark").page)
    assert brightness(light["paper"]) > 240
    assert brightness(dark["paper"]) < 40
    for name in ("ink", "axis"):
        assert brightness(light[name]) < 110
        assert brightness(dark[name]) > 150
    for width in (360, 1000):
        visit(width, scheme="dark").page.screenshot(path=pictures / f"dark-{width}.png", full_page=True)


def test_paper_is_white_even_for_who_likes_it_dark(visit: Any, pictures: Path) -> None:
    page = visit(794, scheme="dark", media="print").page
    assert brightness(colours(page)["paper"]) == 255
    assert brightness(colours(page)["ink"]) < 60
    assert page.evaluate("getComputedStyle(document.querySelector('nav')).display") == "none"
    page.screenshot(path=pictures / "print.png", full_page=True)


def test_pdf_has_pages_outline_and_tags(executed: Execution, chromium_path: str, pictures: Path) -> None:
    made = export_pdf(executed.report, pictures / "report.pdf", browser=chromium_path)
    content = made.read_bytes()
    assert content.startswith(b"%PDF-")
    assert 2 <= len(re.findall(rb"/Type\s*/Page\b", content)) <= 6
    assert b"/Outlines" in content
    assert b"/StructTreeRoot" in content
    assert sorted(p.name for p in pictures.iterdir() if p.suffix != ".png") == ["report.pdf"]


def test_contents_lead_to_their_headings_with_the_keyboard(visit: Any) -> None:
    page = visit().page
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Method"
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector(':target').textContent") == "Method"
