"""An executed notebook as one HTML page that needs nothing else, and that page as PDF.

Rules
- One file, no scripts, no requests; a content security policy makes the browser hold us to it.
- Code, prompts and execution counts stay in the notebook.  Everything else is shown: an output that cannot
  be is named where it would stand; text on stderr is folded; an error is not to be overlooked.
- The same executed notebook gives the same bytes: no clock, no random ids, no paths of this machine.
- Look and layout are in ``templates/report``; this module turns cells into what the template places.
"""

from __future__ import annotations

import html
import json
import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import evalkit
from evalkit.errors import EvalkitError

_ANSI = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)")
_BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
_PDF_TIMEOUT = 120


def export_html(
    nb_path: Path | str, out_path: Path | str, *, title: str | None = None, shipped: str | None = None
) -> Path:
    """Write the report of an executed notebook.

    title: of the page; by default the notebook's first heading, or its file name.
    shipped: the name of the notebook as it comes with evalkit, where the executed one is not kept.
    Raises `EvalkitError` where the notebook cannot be read.
    """
    import nbformat

    path, out = Path(nb_path), Path(out_path)
    try:
        text = path.read_text(encoding="utf-8")
        if json.loads(text)["nbformat"] != 4:
            raise ValueError("its format is not version 4")
        notebook = nbformat.reads(text, as_version=4)  # type: ignore[no-untyped-call]
        nbformat.validate(notebook)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, nbformat.ValidationError) as error:
        raise EvalkitError(
            f"cannot read the notebook {path.name}: {str(error).splitlines()[0] if str(error) else error!r}",
            where=str(path),
            expected="an executed Jupyter notebook",
        ) from None
    page = render(notebook, name=shipped or path.name, folder=path.parent, title=title, kept=shipped is None)
    out.parent.mkdir(parents=True, exist_ok=True)
    temporary = out.with_name(f".{out.name}.new")
    temporary.write_text(page, encoding="utf-8")
    temporary.replace(out)
    return out


def render(notebook: Any, *, name: str, folder: Path, title: str | None, kept: bool = True) -> str:
    """The page of a notebook node; ``kept``: a reader finds the executed notebook ``name`` beside the page."""
    from evalkit.reports.exporter import ReportExporter

    exporter = ReportExporter(folder=folder)
    page, _ = exporter.from_notebook_node(
        notebook,
        resources={
            "evalkit": {"title": title, "name": name, "kept": kept, "provenance": _provenance(notebook)}
        },
    )
    # Trailing blanks and runs of empty lines come from the template's logic.
    page = re.sub(r"[ \t]+\n", "\n", page)
    return re.sub(r"\n{3,}", "\n\n", page).strip() + "\n"


def _provenance(notebook: Any) -> dict[str, Any]:
    """What the footer says about where the numbers come from: facts of the notebook, none of this moment."""
    from evalkit.reports.results import MIME

    versions: Mapping[str, str] = {}
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            bundle = output.get("data", {}).get(MIME)
            if isinstance(bundle, str):
                bundle = json.loads(bundle)
            if isinstance(bundle, Mapping):
                versions = dict(bundle.get("environment", {}))
    parameters = notebook.metadata.get("papermill", {}).get("parameters", {})
    return {
        "versions": versions,
        "parameters": {
            key: json.dumps(without_folders(value), ensure_ascii=False, sort_keys=True)
            for key, value in parameters.items()
        },
        "exporter": evalkit.__version__,
    }


def without_folders(value: Any) -> Any:
    """A path as the name of its file: a page is passed on, and folders have names of people and of other work."""
    if not isinstance(value, str) or "://" in value or "\n" in value:
        return value
    path = PureWindowsPath(value) if "\\" in value else PurePosixPath(value)
    names_folders = path.is_absolute() or ".." in path.parts or value.startswith("~")
    return path.name if len(path.parts) > 1 and (names_folders or path.suffix) else value


def plain_text(text: str) -> str:
    """Output of a terminal as text: no escape codes, and of overwritten lines the last state."""
    lines = _ANSI.sub("", text).replace("\r\n", "\n").split("\n")
    return "\n".join(line.rstrip("\r").rsplit("\r", 1)[-1].rstrip() for line in lines).strip("\n")


def escape(text: str) -> str:
    return html.escape(text, quote=False)


def export_pdf(html_path: Path | str, pdf_path: Path | str, *, browser: str | None = None) -> Path:
    """Print a report to an A4 PDF with outline and tags, by a headless Chromium.

    browser: the program; by default EVALKIT_CHROMIUM or the first Chromium or Chrome on PATH.
    Raises `EvalkitError` where there is none or it fails.
    """
    source, out = Path(html_path).absolute(), Path(pdf_path).absolute()
    if not source.is_file():
        raise EvalkitError("there is no report to print", where=str(source), expected="an HTML report")
    program = (
        browser
        or os.environ.get("EVALKIT_CHROMIUM")
        or next(filter(None, map(shutil.which, _BROWSERS)), None)
    )
    if program is None or shutil.which(program) is None:
        raise EvalkitError(
            "there is no Chromium to print the report with",
            where=program or "PATH",
            expected=f"one of {', '.join(_BROWSERS)}",
            do="install Chromium, set EVALKIT_CHROMIUM to it, or print report.html from any browser",
        )
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="evalkit-pdf-") as scratch:
        made = Path(scratch) / "out.pdf"
        command = [
            program,
            "--headless",
            "--no-sandbox",  # the page is our own and has no scripts; a sandbox fails in many containers
            "--disable-gpu",
            "--no-first-run",
            "--disable-background-networking",
            "--disable-component-update",
            "--disable-sync",
            f"--user-data-dir={scratch}/profile",
            "--no-pdf-header-footer",
            "--generate-pdf-document-outline",
            f"--print-to-pdf={made}",
            source.as_uri(),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=_PDF_TIMEOUT, check=False)
            problem = "" if done.returncode == 0 else (done.stderr.strip().splitlines() or ["no message"])[-1]
        except (OSError, subprocess.TimeoutExpired) as error:
            problem = str(error)
        if problem or not made.is_file() or not made.read_bytes().startswith(b"%PDF-"):
            raise EvalkitError(
                f"Chromium did not print the report: {problem or 'it wrote no PDF'}",
                where=str(source),
                do="print report.html from any browser",
            )
        # The scratch folder may be on another file system: copy beside the goal, then move.
        temporary = out.with_name(f".{out.name}.new")
        shutil.copyfile(made, temporary)
        temporary.replace(out)
    return out


def report_for(path: Path | str, *, out: Path | str | None = None, title: str | None = None) -> Path:
    """Write the report again for an executed notebook or a notebook run folder; returns the HTML file.

    This is where other kinds of run folders get their report: look at what ``path`` is and find the notebook
    that reports it.  The default place is ``report.html`` beside a run's notebook, or the notebook's name
    with ``.html``.
    """
    from evalkit.reports.folders import NOTEBOOK, REPORT

    path = Path(path)
    if path.is_dir() and (path / NOTEBOOK).is_file():
        notebook, default = path / NOTEBOOK, path / REPORT
    elif path.suffix == ".ipynb" and path.is_file():
        notebook = path
        default = path.with_name(REPORT) if path.name == NOTEBOOK else path.with_suffix(".html")
    else:
        raise EvalkitError(
            f"there is nothing to report on in {path}",
            where=str(path),
            expected=f"a sealed run, an executed .ipynb, or the folder of a notebook's run, with {NOTEBOOK} in it",
            do="check the path; evalkit decisions precommit makes a sealed run, evalkit notebooks run the other",
        )
    return export_html(notebook, Path(out) if out else default, title=title)
