"""nbconvert's HTML exporter with our template, and what that template calls for each output.

It is a module of its own because importing nbconvert is slow and only an export needs it.
"""

from __future__ import annotations

import html
import re
from pathlib import Path
from typing import Any

from jinja2 import pass_context
from nbconvert.exporters import HTMLExporter
from nbconvert.exporters.templateexporter import TemplateExporter
from traitlets.config import Config

from evalkit.reports import fragments, markdown
from evalkit.reports.export import escape, plain_text
from evalkit.reports.results import MIME as RESULTS
from evalkit.resources import resource

_WIDGET = "application/vnd.jupyter.widget-view+json"
# First what is best shown.  Results are data for machines; the template shows nothing for them.
_PRIORITY = [
    RESULTS,
    "image/svg+xml",
    "text/html",
    "text/markdown",
    "text/latex",
    "image/png",
    "image/jpeg",
    "text/plain",
]


#: where a warning came from: the folders are those of one machine, and of one kernel
_SOURCE = re.compile(r"(?:[A-Za-z]:)?[/\\][^\n:]*[/\\]([^/\\\n:]+\.py)(?=:\d+:)")


class ReportExporter(HTMLExporter):
    """One export: the object counts figures and collects headings, so make a new one for each."""

    def __init__(self, *, folder: Path, **options: Any) -> None:
        self.folder = folder
        self.figures = 0
        self.messages: list[str] = []
        self.ids: set[str] = {"top", "contents"}
        self.outline = markdown.Outline(taken=self.ids)
        templates = resource("templates", "report").parent
        super().__init__(  # type: ignore[no-untyped-call]
            template_name="report", extra_template_basedirs=[str(templates)], config=Config(), **options
        )

    @property
    def default_config(self) -> Any:
        config = super().default_config
        config.merge({"NbConvertBase": {"display_data_priority": _PRIORITY}})
        return config

    def default_filters(self) -> Any:
        yield from super().default_filters()  # type: ignore[no-untyped-call]
        yield "report_markdown", self.report_markdown
        yield "report_html", lambda markup: fragments.clean(_joined(markup), self.ids)
        yield "report_svg", self.report_svg
        yield "report_image", self.report_image
        yield "report_latex", lambda tex: markdown.latex_output(_joined(tex))
        yield "report_text", lambda text: escape(plain_text(_joined(text)))
        yield "report_message", self.report_message
        yield "report_left_out", _left_out
        # The base template walks through what this returns; see `_shown`.
        yield "filter_data_type", _shown

    def from_notebook_node(  # type: ignore[override]
        self, nb: Any, resources: Any = None, **kw: Any
    ) -> tuple[str, dict[str, Any]]:
        # HTMLExporter would parse and re-write the page and give missing alternative text a filler.
        resources = resources or {}
        # A global and not a resource: nbconvert copies the resources, and these two fill as cells render.
        self.environment.globals.update(outline=self.outline, messages=self.messages)
        resources["evalkit"]["css"] = _compact(
            resource("templates", "report", "report.css").read_text("utf-8")
        )
        page: tuple[str, dict[str, Any]] = TemplateExporter.from_notebook_node(self, nb, resources, **kw)
        return page

    def _init_resources(self, resources: Any) -> Any:
        return TemplateExporter._init_resources(self, resources)  # type: ignore[no-untyped-call]

    @pass_context
    def report_markdown(self, context: Any, source: str) -> str:
        cell = context.get("cell", {})
        if "papermill-error-cell-tag" in cell.get("metadata", {}).get("tags", []):
            return ""  # papermill's own marker; the error itself is shown where it happened
        attachments = cell.get("attachments", {})
        before = len(self.outline.headings)
        rendered = markdown.render(_joined(source), self.outline, attachments, str(self.folder))
        # The headings of this cell hold their ids already; cleaning would take them for duplicates.
        own = {heading.id for heading in self.outline.headings[before:]}
        self.ids -= own
        cleaned = fragments.clean(rendered, self.ids)
        self.ids |= own
        return cleaned

    def report_message(self, text: Any) -> str:
        """Keep what went to stderr for the end of the page."""
        if message := plain_text(_joined(text)).strip():
            self.messages.append(escape(_SOURCE.sub(r"\1", message)))
        return ""

    def report_svg(self, output: Any) -> str:
        alt, caption = self._words(output, "image/svg+xml")
        label = alt or f"Figure {self.figures}, without a description"
        svg = fragments.inline_svg(_joined(output.data["image/svg+xml"]), f"f{self.figures}", label)
        return fragments.figure(
            svg, self.figures, self.outline.unique(f"fig-{self.figures}"), caption=caption, alt=alt
        )

    def report_image(self, output: Any, mime: str) -> str:
        alt, caption = self._words(output, mime)
        label = html.escape(alt or f"Figure {self.figures}, without a description", quote=True)
        data = re.sub(r"\s", "", _joined(output.data[mime]))
        image = f'<img alt="{label}" src="data:{mime};base64,{data}">'
        return fragments.figure(
            image, self.figures, self.outline.unique(f"fig-{self.figures}"), caption=caption, alt=alt
        )

    def _words(self, output: Any, mime: str) -> tuple[str, str]:
        self.figures += 1
        note = output.get("metadata", {}).get(mime, {})
        return str(note.get("alt", "")).strip(), str(note.get("caption", "")).strip()


def _shown(data: Any) -> list[str]:
    """The type to show of an output's types; ``other/<type>`` where there is none we can show."""
    if _WIDGET in data:
        return [f"other/{_WIDGET}"]
    known = [mime for mime in _PRIORITY if mime in data]
    return known[:1] or [f"other/{mime}" for mime in sorted(data)[:1]]


def _left_out(kind: str) -> str:
    what = (
        "an interactive widget"
        if kind.endswith(_WIDGET)
        else f"an output of the type {kind.removeprefix('other/')}"
    )
    return fragments.remark(f"Left out of this report: {what}.")


def _joined(text: Any) -> str:
    return "".join(text) if isinstance(text, list) else str(text)


def _compact(css: str) -> str:
    """The style sheet without comments and indentation."""
    css = re.sub(r"/\*.*?\*/", "", css, flags=re.DOTALL)
    return re.sub(r"\n\s*", "\n", css).strip()
