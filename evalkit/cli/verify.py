"""``evalkit verify RUN``: what a run's files prove, line by line."""

from __future__ import annotations

from pathlib import Path

import click

from evalkit.cli.options import json_option, print_json, run_argument, trust_option


@click.command()
@run_argument
@trust_option
@json_option
def verify(run: Path, trust: Path | None, as_json: bool) -> None:
    """Verify the run folder RUN with your own trust file.

    Prints the trust file used and its digest, then what is proven, what is declared policy and what is not
    proven.  Exits with 10 to 20 where a binding fails: one code a kind of binding.
    """
    from evalkit.decisions import verify_run

    report = verify_run(run, trust=trust)
    if as_json:
        print_json(report.summary())
    else:
        click.echo(str(report))
