"""``evalkit verify RUN``: what a run's files prove, line by line."""

from __future__ import annotations

from pathlib import Path

import click

from evalkit.cli.options import failure_record, json_option, print_json, run_argument, trust_option
from evalkit.errors import EvalkitError
from evalkit.offline import no_network


@click.command()
@run_argument
@trust_option
@click.option(
    "--offline", is_flag=True, help="Refuse any use of the network, which verify does not need anyway."
)
@json_option
def verify(run: Path, trust: Path | None, offline: bool, as_json: bool) -> None:
    """Verify the run folder RUN with your own trust file, and nothing else.

    Prints the trust file used and its digest, then what is proven, what is declared policy and what is not
    proven.  Exits with 10 to 20 where a binding fails: one code a kind of binding.  With --json a failure is
    an object as well: verified is false, and failure says which binding, what, where and what to do.
    """
    from evalkit.decisions import verify_run

    try:
        with no_network(offline):
            report = verify_run(run, trust=trust)
    except EvalkitError as error:
        if as_json:
            print_json({"verified": False, "failure": failure_record(error)})
        raise
    if as_json:
        print_json({"verified": True, **report.summary()})
    else:
        click.echo(str(report))
