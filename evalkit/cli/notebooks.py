"""``evalkit notebooks`` and ``evalkit report``: run parameterised notebooks and read what came of them.

The spelling of parameters is papermill's: ``-p NAME VALUE`` and ``-f params.yaml``.  Exit codes: 2 for bad
parameters, 3 for a failed cell, 4 for a timeout or a dead kernel.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from evalkit.cli.options import print_json, say, trust_option
from evalkit.errors import EvalkitError

DEFAULT_OUT = Path("runs")


@click.group()
def notebooks() -> None:
    """List, inspect and run the notebooks that come with evalkit, or your own."""


@notebooks.command("list")
def list_notebooks() -> None:
    """The notebooks that come with this installation, with their first line."""
    from evalkit.resources import resource

    root = resource("notebooks")
    found = sorted(path for path in root.rglob("*.ipynb") if ".ipynb_checkpoints" not in path.parts)
    if not found:
        say(f"no notebooks in {root}")
    names = [path.relative_to(root).with_suffix("").as_posix() for path in found]
    width = max(map(len, names), default=0)
    for name, path in zip(names, found, strict=True):
        say(f"{name:<{width}}  {_title(path)}".rstrip())


@notebooks.command("params")
@click.argument("name")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def params(name: str, as_json: bool) -> None:
    """The parameters of notebook NAME: type, default and meaning."""
    from evalkit.reports.execution import notebook_path
    from evalkit.reports.parameters import read_parameters

    found = read_parameters(notebook_path(name))
    if as_json:
        print_json([vars(parameter) for parameter in found])
        return
    if not found:
        say(f"{name} takes no parameters")
    for parameter in found:
        default = json.dumps(parameter.default, ensure_ascii=False)
        say(f"{parameter.name}: {parameter.annotation} = {default}")
        if parameter.help:
            say(f"    {parameter.help}")


@notebooks.command("run")
@click.argument("name")
@click.option(
    "-p", "pairs", nargs=2, multiple=True, metavar="NAME VALUE",
    help="A parameter; the value is read as JSON if its type is not text. Repeatable; wins over -f.",
)  # fmt: skip
@click.option(
    "-f", "files", multiple=True, type=click.Path(path_type=Path, dir_okay=False), metavar="PARAMS.YAML",
    help="A YAML or JSON file of parameters. Repeatable; later files win.",
)  # fmt: skip
@click.option(
    "--out", type=click.Path(path_type=Path, file_okay=False), default=DEFAULT_OUT, show_default=True,
    help="Where the run folder goes: OUT/<notebook>/<key>/.",
)  # fmt: skip
@click.option("--key", help="Name the run folder yourself; it must not exist yet.")
@click.option("--timeout", type=float, default=600, show_default=True, help="Seconds for the whole run.")
@click.option("--no-progress", is_flag=True, help="Say nothing until it is done.")
def run(
    name: str,
    pairs: tuple[tuple[str, str], ...],
    files: tuple[Path, ...],
    out: Path,
    key: str | None,
    timeout: float,
    no_progress: bool,
) -> None:
    """Run notebook NAME (a name from `list`, or a path) and write its run folder and report.

    A run with the same notebook, parameters and version that is done already is not repeated.
    """
    from evalkit.reports.execution import execute, notebook_path

    path = notebook_path(name)
    given: dict[str, Any] = {}
    for file in files:
        given |= _from_file(file)
    given |= _from_pairs(path, pairs)
    done = execute(path, given, out=out, key=key, timeout=timeout, progress=not no_progress)
    say(("done before: " if done.skipped else "completed: ") + str(done.directory))
    say(f"report: {done.report}")


@click.command("report")
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--pdf", is_flag=True, help="Also print it to PDF (needs Chromium).")
@click.option("--out", type=click.Path(path_type=Path), help="The HTML file; by default beside the notebook.")
@click.option("--title", help="Title of the page; by default the notebook's first heading.")
@trust_option
def report(path: Path, pdf: bool, out: Path | None, title: str | None, trust: Path | None) -> None:
    """Make the report of PATH: a sealed run, an executed notebook or its run folder.

    A sealed run is verified with your trust file first.
    """
    from evalkit.reports.export import export_pdf, report_for
    from evalkit.reports.sealed import is_sealed_run, report_sealed_run

    if is_sealed_run(path):
        page = report_sealed_run(path, out=out, trust=trust)
    else:
        page = report_for(path, out=out, title=title)
    say(f"report: {page}")
    if pdf:
        say(f"pdf: {export_pdf(page, page.with_suffix('.pdf'))}")


def _from_file(file: Path) -> dict[str, Any]:
    import yaml

    from evalkit.sealing.exchange import read_named

    try:
        loaded = yaml.safe_load(read_named(file, max_bytes=1024 * 1024).decode())
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        # A YAML error quotes the file, and the file may hold what should not be on a screen.
        mark = getattr(error, "problem_mark", None)
        at = f" at line {mark.line + 1}" if mark else ""
        reason = error.strerror if isinstance(error, OSError) else f"it is not YAML{at}"
        raise EvalkitError(
            f"cannot read the parameters: {reason}", where=str(file), expected="YAML or JSON"
        ) from None
    if loaded is None:
        return {}
    if not isinstance(loaded, dict) or not all(isinstance(key, str) for key in loaded):
        raise EvalkitError(
            "the parameters are not names with values", where=str(file), expected="a line `name: value` each"
        )
    return loaded


def _from_pairs(path: Path, pairs: tuple[tuple[str, str], ...]) -> dict[str, Any]:
    """Values from the command line: text where the type wants text, else JSON if it is JSON."""
    from evalkit.reports.parameters import read_parameters, validate_parameters

    if not pairs:
        return {}
    annotations = {parameter.name: parameter.annotation for parameter in read_parameters(path)}
    given: dict[str, Any] = {}
    for name, text in pairs:
        if name in given:
            raise EvalkitError(f"parameter {name!r} is given twice with -p", expected="once")
        given[name] = text
        if annotations.get(name) in (None, "str"):
            continue
        try:
            read = json.loads(text)
        except ValueError:
            continue
        # ``-p case 7`` where the type allows text but no number: then the text was meant.
        try:
            validate_parameters(path, {name: read})
        except EvalkitError:
            try:
                validate_parameters(path, {name: text})
            except EvalkitError:
                given[name] = read
        else:
            given[name] = read
    return given


def _title(path: Path) -> str:
    """The first heading of a notebook."""
    try:
        cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    except (OSError, ValueError, KeyError, TypeError):
        return "(unreadable)"
    for cell in cells:
        if cell.get("cell_type") == "markdown":
            for line in "".join(cell["source"]).splitlines():
                if line.startswith("#"):
                    return line.lstrip("#").strip()
    return ""
