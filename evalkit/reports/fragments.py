"""Outputs of a notebook made fit for one offline page: figures, tables, and markup of strangers.

Rules
- Every id inside a figure gets the figure's own prefix: matplotlib repeats its ids from figure to figure.
- Every figure has a label.  One without alternative text says so where it stands.
- Whatever would load or run something (scripts, frames, remote images) is taken out, and a remark stands
  where it was.  The page's content security policy would stop it anyway; the remark is for the reader.
"""

from __future__ import annotations

import html
import re
from typing import Any

from evalkit.figure_style import COLOURS
from evalkit.reports.tables import table_classes

_PROLOG = re.compile(r"<\?xml.*?\?>|<!DOCTYPE.*?>|<!--.*?-->|<metadata>.*?</metadata>", re.DOTALL)
# matplotlib's own style block would apply to the whole page; the report's style sheet has its one rule.
_STYLE_BLOCK = re.compile(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>|<style[^>]*>.*?</style>", re.DOTALL)
_ID = re.compile(r'(\sid=")([^"]+)"')
_URL = re.compile(r"url\(#([^)]+)\)")
_HREF = re.compile(r'((?:xlink:)?href=")#([^"]+)"')
_FONT = re.compile(r"font: ((?:(?:italic|oblique|bold|\d{3}) )*)([\d.]+px) [^;\"]+")
_FONT_FAMILY = re.compile(r"font-family: [^;\"]+")
_STYLE_ATTRIBUTE = re.compile(r'style="[^"]*"')
# A hatch has its ground colour as an attribute, which cannot hold a variable, and no style.
_BARE_COLOUR = re.compile(r'(<[a-z]+\b(?![^>]*\bstyle=)[^>]*?) (fill|stroke)="(#[0-9a-fA-F]{6})"')
_COLOUR_NAMES = {value: name for name, value in COLOURS.items()}
_COLOUR = re.compile("|".join(COLOURS.values()), re.IGNORECASE)

_FORBIDDEN = (
    "script", "iframe", "object", "embed", "applet", "frame", "frameset", "base", "link", "meta", "form",
    "audio", "video", "source", "input", "button", "textarea", "select",
)  # fmt: skip
_SUSPICIOUS = re.compile(
    rf"<(?:{'|'.join(_FORBIDDEN)}|img|image|style|table|svg)\b|\son[a-z]+\s*=|javascript:|\sid\s*=|<use\b|srcset|background=|url\(",
    re.IGNORECASE,
)


def inline_svg(svg: str, prefix: str, label: str) -> str:
    """The SVG as an element of the page, labelled, with its ids prefixed and its colours as variables."""
    svg = _STYLE_BLOCK.sub("", _PROLOG.sub("", svg)).strip()
    svg = _ID.sub(rf'\1{prefix}-\2"', svg)
    svg = _URL.sub(rf"url(#{prefix}-\1)", svg)
    svg = _HREF.sub(rf'\1#{prefix}-\2"', svg)
    svg = _BARE_COLOUR.sub(_as_style, svg)
    svg = _STYLE_ATTRIBUTE.sub(lambda style: _variables(style[0]), svg)
    svg = re.sub(r"\n\s*", "\n", svg)
    opening = f'<svg role="img" aria-label="{html.escape(label, quote=True)}"'
    return re.sub(r"<svg\b", lambda _: opening, svg, count=1)


def _as_style(match: re.Match[str]) -> str:
    return f'{match[1]} style="{match[2]}: {match[3]}"'


def _variables(style: str) -> str:
    style = _COLOUR.sub(lambda c: f"var(--fig-{_COLOUR_NAMES[c[0].lower()]})", style)
    style = _FONT.sub(r"font: \1\2 var(--sans)", style)
    return _FONT_FAMILY.sub("font-family: var(--sans)", style)


def figure(content: str, number: int, name: str, *, caption: str, alt: str) -> str:
    """A numbered figure with the id ``name``; ``content`` is an inline SVG or an image."""
    text = f"<b>Figure {number}.</b> {html.escape(caption)}" if caption else f"<b>Figure {number}.</b>"
    if not alt:
        text += ' <span class="badge warn">no description given</span>'
    return (
        f'<figure id="{name}">\n<div class="figure-frame">{content}</div>\n'
        f"<figcaption>{text}</figcaption>\n</figure>"
    )


def remark(text: str) -> str:
    return f'<p class="left-out">{html.escape(text)}</p>'


def clean(markup: str, taken: set[str]) -> str:
    """HTML from a cell or an output, made safe for the page.  ``taken`` collects the ids in use."""
    if not _SUSPICIOUS.search(markup):
        return markup
    from bs4 import BeautifulSoup

    soup = BeautifulSoup(markup, "html.parser")

    def leave_out(element: Any, what: str) -> None:
        element.replace_with(BeautifulSoup(remark(f"Left out of this report: {what}."), "html.parser"))

    for element in soup.find_all(_FORBIDDEN):
        # Markdown's task lists have boxes that nobody can tick; those may stay.
        if element.get("type") == "checkbox" and element.has_attr("disabled"):
            element["aria-label"] = "done" if element.has_attr("checked") else "open"
        elif not element.decomposed:
            leave_out(element, f"an element of the kind {element.name}")
    # A style block in an output (pandas and our own have one, for Jupyter) would apply to the whole page.
    for element in soup.find_all("style"):
        element.decompose()
    for element in soup.find_all(["img", "image"]):
        source = str(element.get("src") or element.get("href") or element.get("xlink:href") or "")
        if not source.startswith("data:image/"):
            leave_out(element, f"the image {source or 'without a source'}, which is not embedded")
        elif element.name == "img" and not element.get("alt"):
            element["alt"] = "image without a description"
    for element in soup.find_all(True):
        for name in list(element.attrs):
            value = str(element.attrs[name]).strip().lower()
            active = name.lower().startswith("on") or name.lower() in ("srcset", "background", "ping")
            remote = "url(" in value and name.lower() == "style" and "url(#" not in value
            if active or remote or value.startswith("javascript:"):
                del element.attrs[name]
    _unique_ids(soup, taken)
    _label_tables(soup)
    for element in soup.find_all("svg"):
        if not element.get("role"):
            element["role"] = "img"
        if not (element.get("aria-label") or element.get("aria-labelledby") or element.find("title")):
            element["aria-label"] = "drawing without a description"
    return str(soup)


def _unique_ids(soup: Any, taken: set[str]) -> None:
    renamed: dict[str, str] = {}
    for element in soup.find_all(id=True):
        wanted = name = element["id"]
        number = 2
        while name in taken:
            name, number = f"{wanted}-{number}", number + 1
        taken.add(name)
        if name != wanted:
            element["id"] = renamed[wanted] = name
    for element in soup.find_all(href=True):
        if element["href"][1:] in renamed and element["href"].startswith("#"):
            element["href"] = "#" + renamed[element["href"][1:]]
    for attribute in ("aria-labelledby", "aria-describedby", "for", "headers"):
        for element in soup.find_all(attrs={attribute: True}):
            if element[attribute] in renamed:
                element[attribute] = renamed[element[attribute]]


def _label_tables(soup: Any) -> None:
    """pandas' tables: scopes for who listens, our look, and a container that scrolls."""
    for table in soup.find_all("table"):
        if "data" in table.get("class", []):
            continue
        for name in ("border", "style"):
            table.attrs.pop(name, None)
        columns = max((len(row.find_all(["th", "td"])) for row in table.find_all("tr")), default=0)
        table["class"] = [*table_classes(columns).split(), "frame"]
        _one_header_row(table)
        for cell in table.select("thead th"):
            cell["scope"] = "col"
        for cell in table.select("tbody th"):
            cell["scope"] = "row"
        for row in table.find_all("tr"):
            row.attrs.pop("style", None)
        if "table-scroll" not in (table.parent.get("class") or []):
            table.wrap(soup.new_tag("div", attrs={"class": "table-scroll", "tabindex": "0"}))


def _one_header_row(table: Any) -> None:
    """pandas puts the index's name in a row of its own, below the columns' names: one row says both."""
    rows = table.select("thead tr")
    if len(rows) != 2:
        return
    first, second = (row.find_all("th", recursive=False) for row in rows)
    if len(first) != len(second):
        return
    pairs = list(zip(first, second, strict=True))
    if all(not (a.get_text(strip=True) and b.get_text(strip=True)) for a, b in pairs):
        for above, below in pairs:
            if not above.get_text(strip=True):
                above.string = below.get_text(strip=True)
        rows[1].decompose()
