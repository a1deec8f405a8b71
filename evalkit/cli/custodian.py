"""``evalkit custodian``: keep the outcomes of somebody else's run, and release them for an attested one only."""

from __future__ import annotations

import shlex
from pathlib import Path

import click

from evalkit.cli.options import json_option, print_json, run_argument, say, trust_option

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)
#: of a bundle or a run with a custodian
NOT_BLIND = "not blind: these cases come with evalkit, and everybody has the outcomes"


@click.group()
def custodian() -> None:
    """Two people, three files: a bundle, a request, an opening.

    The custodian seals a BUNDLE; the evaluator makes a run of it (evalkit decisions precommit BUNDLE) and, when it
    is evaluated, a REQUEST; the custodian verifies that and hands back an OPENING, with which the evaluator reveals.
    """


@custodian.command()
@click.argument("cases", type=_FOLDER)
@click.option("--pair", required=True, help="Pair id of the catalog.")
@click.option("--out", required=True, type=_FOLDER, help="New folder for the bundle.")
@click.option("--custody", default="second_party", show_default=True,
              help="second_party, or process: another account of the same person.")  # fmt: skip
@click.option("--selection-rule", help="Why this pair: sealed word for word.")
@trust_option
@json_option
def seal(
    cases: Path,
    pair: str,
    out: Path,
    custody: str,
    selection_rule: str | None,
    trust: Path | None,
    as_json: bool,
) -> None:
    """Custodian: seal a pair of CASES for one run of an evaluator who has no cases.

    CASES is a folder made by import, or the word shipped for the cases that come with evalkit. Needs keys of your
    own (evalkit keys init --role custodian).
    """
    from evalkit.decisions.custody.sealing import seal_bundle
    from evalkit.decisions.session import shipped_cases
    from evalkit.decisions.shipped import shipped_among

    bundle = seal_bundle(
        shipped_cases() if str(cases) == "shipped" else cases,
        pair=pair,
        out=out,
        custody=custody,
        trust=trust,
        selection_rule=selection_rule,
    )
    if as_json:
        print_json(
            {
                "phase": "sealed",
                "run_id": bundle.run_id,
                "bundle": str(out),
                "order": bundle.pair.order,
                "custody": bundle.custody,
                "custodian": bundle.custodian_key_id,
            }
        )
        return
    say(f"sealed for run {bundle.run_id} in {out}, custody {bundle.custody}")
    say(f"custodian {bundle.custodian_key_id}")
    if shipped_among(bundle.cases):
        say(NOT_BLIND)
    say(
        f"hand over {out} and nothing else; the evaluator: evalkit decisions precommit {_quoted(out)} --out RUN"
    )


@custodian.command()
@run_argument
@click.option("--out", required=True, type=_FILE, help="New file for the custodian.")
@trust_option
@json_option
def request(run: Path, out: Path, trust: Path | None, as_json: bool) -> None:
    """Evaluator: pack the attested RUN into one file, for its custodian to verify.

    Nothing sealed is opened. A blocked run is refused (exit 5): its outcomes are not released.
    """
    from evalkit.decisions.custody.request import write_request

    made = write_request(run, out=out, trust=trust)
    if as_json:
        print_json({"phase": "requested", "run_id": made.run_id, "request": str(out)})
        return
    say(f"request for run {made.run_id} in {out}")
    say(f"hand it to the custodian, who answers with: evalkit custodian open {_quoted(out)} --out OPENING")


@custodian.command("open")
@click.argument("request", type=_FILE)
@click.option("--out", required=True, type=_FILE, help="New file for the evaluator.")
@trust_option
@json_option
def open_(request: Path, out: Path, trust: Path | None, as_json: bool) -> None:
    """Custodian: verify REQUEST in full, record the release, and write the opening.

    Released once, for one attestation of the run: the same request gets the same opening again, another one is
    refused (exit 5). Your trust file must pin the evaluator's key.
    """
    from evalkit.decisions.custody.release import release

    made = release(request, out=out, trust=trust)
    if as_json:
        print_json(
            {
                "phase": "released",
                "run_id": made.run_id,
                "opening": str(out),
                "released_at": made.released_at,
                "custodian": made.key_id,
            }
        )
        return
    if made.again:
        say(f"run {made.run_id} verified; released before, {made.released_at}: the same bytes in {out}")
    else:
        say(f"run {made.run_id} verified and released {made.released_at}; opening in {out}")
    say("it holds the outcomes in the clear: hand it to the evaluator and to nobody else")
    say(f"the evaluator: evalkit decisions reveal RUN --opening {_quoted(out)} --write-calibration")


def _quoted(path: Path) -> str:
    return shlex.quote(str(path))
