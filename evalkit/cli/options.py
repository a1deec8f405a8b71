"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from evalkit.errors import BindingError, EvalkitError
from evalkit.visible import visible

trust_option = click.option(
    "--trust",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Trust file to use instead of $XDG_CONFIG_HOME/evalkit/trust.json.",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print one JSON object, for programs.")
run_argument = click.argument("run", type=click.Path(path_type=Path))


def failure_record(error: EvalkitError) -> dict[str, str | int | None]:
    """A failure, for programs."""
    return {
        "binding": error.binding.value if isinstance(error, BindingError) else None,
        "exit_code": error.exit_code,
        "what": error.what,
        "where": error.where,
        "expected": error.expected,
        "do": error.do,
    }


def say(line: str, *, err: bool = False) -> None:
    """Print one line; what a terminal would obey or hide is shown (`visible`)."""
    click.echo(visible(line), err=err)


def print_json(value: Any) -> None:
    """Print a value as JSON, whose own escapes stand for what a terminal would obey or hide."""
    text = json.dumps(value, indent=2, ensure_ascii=False)
    click.echo(text if text.replace("\n", "").isprintable() else json.dumps(value, indent=2))
