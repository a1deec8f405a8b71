"""A notebook's Markdown as HTML for a report: headings with ids, MathML, nothing loaded from elsewhere.

Rules
- TeX becomes MathML here, so that a reader needs no script.  TeX that does not convert stays visible as
  TeX, marked as such.
- The first heading of level 1 is the report's title; the others of that level count as level 2.
- An image is embedded (attachment or file beside the notebook) or replaced by a remark that it is not.
"""

from __future__ import annotations

import html
import re
import unicodedata
from dataclasses import dataclass, field
from typing import Any

from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath


@dataclass(frozen=True)
class Heading:
    level: int
    id: str
    markup: str


@dataclass
class Outline:
    """Headings in order, with ids that are unique in the document."""

    title: str | None = None
    headings: list[Heading] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)

    def add(self, level: int, markup: str) -> Heading | None:
        """The heading, or None where it became the title."""
        if level == 1 and self.title is None and not self.headings:
            self.title = markup
            return None
        heading = Heading(max(level, 2), self.unique(slug(markup)), markup)
        self.headings.append(heading)
        return heading

    def unique(self, wanted: str) -> str:
        name, number = wanted, 2
        while name in self.taken:
            name, number = f"{wanted}-{number}", number + 1
        self.taken.add(name)
        return name


def slug(markup: str) -> str:
    text = html.unescape(re.sub(r"<[^>]*>", "", markup))
    text = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    # The prefix keeps a heading called "fig 1" or "top" apart from the ids that the template gives.
    return "s-" + (re.sub(r"[^a-z0-9]+", "-", text).strip("-") or "section")


def mathml(tex: str, *, block: bool) -> str:
    """TeX as MathML; the TeX itself where it cannot be converted."""
    from latex2mathml.converter import convert

    try:
        markup: str = convert(tex.strip(), display="block" if block else "inline")
    except Exception:  # the converter raises its own many kinds and IndexError
        return f'<code class="tex" title="TeX that could not be converted">{html.escape(tex.strip())}</code>'
    # A wide formula scrolls by itself instead of widening the page.
    return f'<div class="math-scroll">{markup}</div>' if block else markup


def latex_output(tex: str) -> str:
    """A ``text/latex`` output: math with or without its delimiters."""
    tex = tex.strip()
    for opening, closing in (("$$", "$$"), (r"\[", r"\]"), ("$", "$"), (r"\(", r"\)")):
        if tex.startswith(opening) and tex.endswith(closing) and len(tex) > len(opening):
            tex = tex[len(opening) : -len(closing)]
            break
    return mathml(tex.replace(r"\displaystyle", ""), block=True)


class ReportRenderer(IPythonRenderer):
    """nbconvert's Markdown renderer with our headings, math and images."""

    def __init__(self, outline: Outline, **options: Any) -> None:
        super().__init__(escape=False, embed_images=True, exclude_anchor_links=True, **options)
        self._outline = outline

    def heading(self, text: str, level: int, **_: Any) -> str:
        heading = self._outline.add(level, text)
        return "" if heading is None else f'<h{heading.level} id="{heading.id}">{text}</h{heading.level}>\n'

    def block_math(self, body: str) -> str:
        return mathml(body, block=True)

    def inline_math(self, body: str) -> str:
        return mathml(body, block=False)

    def latex_environment(self, name: str, body: str) -> str:
        return mathml(rf"\begin{{{name}}}{body}\end{{{name}}}", block=True)

    def block_mermaidjs(self, code: str) -> str:
        return f"<pre><code>{html.escape(code.strip())}</code></pre>\n"

    def paragraph(self, text: str) -> str:
        # Block math is a paragraph to the parser, but a <div> may not stand in a <p>.
        if text.startswith('<div class="math-scroll">') and text.endswith("</div>"):
            return text + "\n"
        return str(super().paragraph(text))

    def table(self, text: str) -> str:
        return f'<div class="table-scroll"><table class="data">\n{text}</table></div>\n'


def render(source: str, outline: Outline, attachments: dict[str, Any], path: str) -> str:
    renderer = ReportRenderer(outline, attachments=attachments, path=path)
    return str(MarkdownWithMath(renderer=renderer).render(source))
