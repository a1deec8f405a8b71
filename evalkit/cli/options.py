"""Options that several commands share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click

from evalkit.errors import BindingError, EvalkitError

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


def print_json(value: Any) -> None:
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))
