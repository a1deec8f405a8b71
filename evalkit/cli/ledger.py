"""``evalkit ledger``: what a signer set out to do, and whether all of it is still there."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from evalkit.cli.options import failure_record, json_option, print_json, say, trust_option
from evalkit.errors import Binding, BindingError, EvalkitError

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
@click.option(
    "--segment",
    is_flag=True,
    help="The named files may begin in the middle of a ledger, as a journal.jsonl always may.",
)
@trust_option
@json_option
def verify(
    files: tuple[Path, ...], runs: tuple[Path, ...], segment: bool, trust: Path | None, as_json: bool
) -> None:
    """Verify the chain of each LEDGER, or of all your own ledgers.

    LEDGER may be anybody's, or the journal.jsonl of a run.  A chain that was cut at the end of a line is
    whole all the same: only a head that was signed shows it, so name the runs that you have with --run.
    Your own ledgers must fit each other as well, where a key was rotated.  Every ledger is checked,
    whatever is found in another.  Exits with 19 where a line was changed, removed, added or moved, or a
    signed entry is missing.
    """
    from evalkit.sealing.ledger_check import check_ledger, rotation_failures

    if segment and not files:
        raise EvalkitError(
            "your own ledgers are whole, or something was removed",
            where="--segment",
            expected="the name of a file that begins in the middle",
            do="name it, or leave --segment out",
        )
    paths = files or _own()
    failures: list[EvalkitError] = []
    signed: list[SignedHeads] = []
    for run in runs:
        with _collected(failures, run):
            signed.append(_heads(run, trust))
    checked: dict[Path, CheckedLedger] = {}
    for path in paths:
        with _collected(failures, path):
            checked[path] = check_ledger(
                path,
                covers={f"run {one.run_id}": one.heads for one in signed if one.belong_to(path)},
                segment=segment or path.name == "journal.jsonl",
            )
    for one in signed:
        if not any(one.belong_to(path) for path in paths):
            failures.append(one.without_ledger())
    if not files:
        known = {key: one for path, one in checked.items() if (key := _key_of(path))}
        spoilt = {_key_of(path) for path in paths if path not in checked}
        for key, error in rotation_failures(known, spoilt).items():
            with _collected(failures, _place(key, known)):
                raise error
    counted = {
        path: {one.run_id: len(one.heads) for one in signed if one.belong_to(path)} for path in checked
    }
    if as_json:
        ledgers = [one.summary() | {"signed_heads": counted[path]} for path, one in checked.items()]
        print_json({"verified": not failures, **_for_programs(failures), "ledgers": ledgers})
    else:
        for path, found in checked.items():
            _print(found, counted[path])
    if failures:
        *others, worst = sorted(failures, key=lambda error: error.exit_code)
        for error in others:
            say(f"evalkit: {error.message()}", err=True)
        raise worst


@contextmanager
def _collected(failures: list[EvalkitError], place: Path) -> Iterator[None]:
    """Keep a failure, with the name of the file or run that it is about, and go on."""
    try:
        yield
    except EvalkitError as error:
        if str(place) not in error.where:
            error.where = f"{place}: {error.where}".removesuffix(": ")
        failures.append(error)


def _for_programs(failures: list[EvalkitError]) -> dict[str, Any]:
    """``failure`` is the one that decides the exit code, as in evalkit verify."""
    if not failures:
        return {}
    records = [failure_record(e) for e in sorted(failures, key=lambda error: -error.exit_code)]
    return {"failure": records[0], "failures": records}


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


def _key_of(path: Path) -> str:
    """The key whose ledger bears that name; of any other name, nobody's."""
    return f"sha256:{path.stem}" if re.fullmatch(r"[0-9a-f]{64}", path.stem) else ""


def _place(key: str, known: dict[str, CheckedLedger]) -> Path:
    """The ledger of that key, or where it would be."""
    if key in known:
        return known[key].path
    folder = next(iter(known.values())).path.parent
    return folder / f"{key.removeprefix('sha256:')}.jsonl"


@dataclass(frozen=True)
class SignedHeads:
    """The ledger heads that the verified attestations of a run have signed."""

    run: Path
    run_id: str
    key_id: str
    heads: tuple[Head, ...]

    def belong_to(self, path: Path) -> bool:
        """Whether they must be in that file: its name is that of the run's signer, or of nobody."""
        return _key_of(path) in (self.key_id, "")

    def without_ledger(self) -> EvalkitError:
        return BindingError(
            Binding.RUN,
            f"the ledger in which run {self.run_id} was planned is not here",
            where=str(self.run),
            expected=f"the ledger of {self.key_id}",
            do="name the ledger of the run's signer; if the key is yours, find out who removed it",
        )


def _heads(run: Path, trust: Path | None) -> SignedHeads:
    from evalkit.decisions import verify_run

    report = verify_run(run, trust=trust)
    plan = report.evidence.opened.plan
    return SignedHeads(run, plan.run_id, plan.signing_key_id, report.heads)


def _print(one: CheckedLedger, signed: dict[str, int]) -> None:
    say(f"{one.path}")
    if one.start.size:
        say(f"  a segment: what came before entry {one.start.size} is not in it")
    entries = _counted(one.head.size - one.start.size, "entry", "entries")
    say(f"  whole: {entries}, head {one.head.size} {one.head.digest}")
    if one.first_time:
        say(f"  from {one.first_time} to {one.last_time}, by its signer's clock")
    say(f"  {', '.join(f'{count} {event}' for event, count in one.events.items()) or 'no events'}")
    for (run, phase), attempts in one.runs.items():
        states = Counter(attempt.state for attempt in attempts)
        counted = ", ".join(f"{count} {state}" for state, count in states.items())
        say(f"  run {run}, {phase}: {_counted(len(attempts), 'attempt', 'attempts')}: {counted}")
    for run, count in signed.items():
        say(f"  signed heads of run {run}: {count}, all in this ledger")
    for name, state in one.set_aside:
        say(f"  torn line set aside in {name}: {state}")
    if one.torn:
        say(
            f"  a last line without its end ({_counted(one.torn, 'byte', 'bytes')}): the next entry sets it aside"
        )


def _counted(count: int, one: str, more: str) -> str:
    return f"{count} {one if count == 1 else more}"
