"""``evalkit ledger``: what a signer set out to do, and whether all of it is still there."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from evalkit.cli.options import json_option, print_json, trust_option
from evalkit.errors import EvalkitError

if TYPE_CHECKING:
    from evalkit.sealing.hash_chain import Head
    from evalkit.sealing.ledger_check import CheckedLedger


@click.group()
def ledger() -> None:
    """Check the ledgers in which plans, attempts and their ends are recorded."""


@ledger.command()
@click.argument(
    "files", nargs=-1, type=click.Path(path_type=Path, exists=True, dir_okay=False), metavar="[LEDGER] …"
)
@click.option(
    "--run",
    "runs",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A run whose signed ledger heads must be in the ledger; may be repeated.",
)
@trust_option
@json_option
def verify(files: tuple[Path, ...], runs: tuple[Path, ...], trust: Path | None, as_json: bool) -> None:
    """Verify the chain of each LEDGER, or of all your own ledgers.

    LEDGER may be anybody's, or the journal.jsonl of a run.  A chain that was cut at the end of a line is
    whole all the same: only a head that was signed shows it, so name the runs that you have with --run.
    Exits with 19 where a line was changed, removed, added or moved, or a signed entry is missing.
    """
    from evalkit.sealing.ledger_check import check_ledger

    paths = files or _own()
    heads = [_heads(run, trust) for run in runs]
    checked = []
    for path in paths:
        covers = [head for key_id, of_run in heads for head in of_run if files or _is_of(path, key_id)]
        checked.append(check_ledger(path, covers=covers))
    if as_json:
        print_json({"verified": True, "ledgers": [one.summary() for one in checked]})
        return
    for one in checked:
        _print(one)


def _own() -> tuple[Path, ...]:
    from evalkit.sealing import Places

    folder = Places.from_environment().ledgers
    found = tuple(sorted(folder.glob("*.jsonl"))) if folder.is_dir() else ()
    if not found:
        raise EvalkitError(
            "there is no ledger of yours",
            where=str(folder),
            expected="a file that precommit made",
            do="name a ledger, or the journal.jsonl of a run",
        )
    return found


def _is_of(path: Path, key_id: str) -> bool:
    return path.stem == key_id.removeprefix("sha256:")


def _heads(run: Path, trust: Path | None) -> tuple[str, list[Head]]:
    """(id of the signing key, ledger heads) that the verified attestations of a run have signed."""
    from evalkit.decisions import verify_run

    report = verify_run(run, trust=trust)
    return report.evidence.opened.plan.signing_key_id, list(report.heads)


def _print(one: CheckedLedger) -> None:
    click.echo(f"{one.path}")
    if one.start.size:
        click.echo(f"  a segment: what came before entry {one.start.size} is not in it")
    click.echo(f"  whole: {one.head.size - one.start.size} entries, head {one.head.size} {one.head.digest}")
    if one.first_time:
        click.echo(f"  from {one.first_time} to {one.last_time}, by its signer's clock")
    click.echo(f"  {', '.join(f'{count} {event}' for event, count in one.events.items()) or 'no events'}")
    for (run, phase), attempts in one.runs.items():
        states = Counter(attempt.state for attempt in attempts)
        counted = ", ".join(f"{count} {state}" for state, count in states.items())
        number = f"{len(attempts)} attempt{'s' if len(attempts) != 1 else ''}"
        click.echo(f"  run {run}, {phase}: {number}: {counted}")
    for name, state in one.set_aside:
        click.echo(f"  torn line set aside in {name}: {state}")
    if one.torn:
        click.echo(f"  a last line without its end ({one.torn} bytes): the next entry sets it aside")
