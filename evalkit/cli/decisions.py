"""``evalkit decisions``: the sealed-decision protocol, step by step."""

from __future__ import annotations

import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from evalkit.cli.custodian import NOT_BLIND
from evalkit.cli.options import json_option, print_json, run_argument, say, trust_option
from evalkit.cli.timestamps import prepare, stamp_phase, tsa_option
from evalkit.errors import Blocked, EvalkitError

_FOLDER = click.Path(path_type=Path, file_okay=False)
_FILE = click.Path(path_type=Path, dir_okay=False)


@click.group()
def decisions() -> None:
    """Freeze the evidence, capture the decision, score the process, sign, and only then reveal."""


@decisions.command("import")
@click.argument("sheets", nargs=-1, required=True, type=_FILE, metavar="CASE.json [CASE.json …]")
@click.option(
    "--pairs", required=True, type=_FILE, help="Pairs with roles and pairing basis (instructor side)."
)
@click.option("--out", required=True, type=_FOLDER, help="New folder for the cases.")
@click.option("--frozen-at", help="Freeze time with offset; now by default.")
def import_(sheets: tuple[Path, ...], pairs: Path, out: Path, frozen_at: str | None) -> None:
    """Convert fact sheets into frozen cases, instructor side and Part A apart."""
    from evalkit.decisions import import_cases
    from evalkit.decisions.moments import instant

    when = frozen_at or datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    try:
        instant(when)
    except ValueError as error:
        raise EvalkitError(
            f"--frozen-at {when!r} is no time with an offset ({error})",
            where="--frozen-at",
            expected="for example 2026-11-30T12:00:00+00:00",
            do="correct it, or leave it out",
        ) from None
    catalog = import_cases(list(sheets), pairs, out, frozen_at=when)
    pairs_made = f"{len(catalog.pairs)} pair{'s' if len(catalog.pairs) != 1 else ''}"
    say(f"{len(catalog.cases)} cases, {pairs_made} in {out}")
    for pair in catalog.pairs:
        say(f"  --pair {pair.pair_id}")


@decisions.command()
@click.argument("cases", type=_FOLDER)
@click.option("--pair", help="Pair id of the catalog; a bundle has its own.")
@click.option("--out", required=True, type=_FOLDER, help="New run folder.")
@click.option("--model", help="baseline (the default) or openai:NAME.")
@click.option("--base-url", help="Address of an OpenAI-compatible service, up to /v1.")
@click.option("--api-key-variable", help="Environment variable with the key [OPENAI_API_KEY].")
@click.option("--temperature", help="Decimal; left to the service by default.")
@click.option("--max-output-tokens", type=click.IntRange(min=1), default=16_000, show_default=True)
@click.option("--replay", type=_FILE, help="Recorded answers instead of a model.")
@click.option("--accept-warning", "accepted", multiple=True, metavar="CASE:CODE",
              help="Accept exactly the warnings named; all present ones by default.")  # fmt: skip
@click.option("--attempt-cap", type=click.IntRange(min=1), default=3, show_default=True)
@click.option("--nontrivial", default="0.10", show_default=True,
              help="Probability from which the realized scenario counts as foreseen.")  # fmt: skip
@click.option("--selection-rule", help="Why this pair: sealed word for word.")
@click.option("--supersedes", type=_FOLDER, metavar="RUN",
              help="A run without a result yet, whose plan gives way to this one.")  # fmt: skip
@click.option("--reason", default="", help="Why it gives way: sealed word for word.")
@click.option("--run-id", hidden=True)
@tsa_option
@trust_option
@json_option
def precommit(
    cases: Path,
    pair: str | None,
    out: Path,
    model: str | None,
    base_url: str | None,
    api_key_variable: str | None,
    temperature: str | None,
    max_output_tokens: int,
    replay: Path | None,
    accepted: tuple[str, ...],
    attempt_cap: int,
    nontrivial: str,
    selection_rule: str | None,
    supersedes: Path | None,
    reason: str,
    run_id: str | None,
    tsa: str | None,
    trust: Path | None,
    as_json: bool,
) -> None:
    """Seal a pair of CASES into a new run: evidence, model, scoring, and what must stay unseen.

    CASES is a folder made by import, the word shipped for the cases that come with evalkit, or a bundle that a
    custodian sealed (evalkit custodian seal): then she keeps the key to the outcomes.

    With no key configured, makes a signing and an unsealing key for this run, outside the workspace.
    """
    from evalkit import decisions as protocol
    from evalkit.decisions.layout import EX_ANTE
    from evalkit.decisions.session import shipped_cases
    from evalkit.decisions.shipped import shipped_among

    prepare(tsa, out, trust)
    plan = protocol.precommit(
        shipped_cases() if str(cases) == "shipped" else cases,
        pair=pair,
        out=out,
        model=protocol.configure(
            model,
            base_url=base_url,
            replay=replay,
            api_key_variable=api_key_variable,
            temperature=temperature,
            max_output_tokens=max_output_tokens,
        ),
        run_id=run_id,
        trust=trust,
        accepted_warnings=_warnings(accepted) if accepted else None,
        selection_rule=selection_rule,
        supersedes=supersedes,
        reason=reason,
        attempt_cap=attempt_cap,
        nontrivial_probability=nontrivial,
    )

    def report(timestamp: dict[str, Any]) -> None:
        if as_json:
            print_json(
                {
                    "phase": "precommitted",
                    "run_id": plan.run_id,
                    "run": str(out),
                    "order": plan.pair.order,
                    "model": plan.model,
                    "custody": plan.custody,
                    "custodian": plan.custodian.key_id if plan.custodian else None,
                    "ephemeral_keys": plan.ephemeral_keys,
                    "accepted_warnings": {c.case_id: c.accepted_warnings for c in plan.cases},
                }
                | timestamp
            )
            return
        say(f"sealed run {plan.run_id} in {out}, model {plan.model['model']}")
        for case in plan.cases:
            say(f"  {case.case_id}: accepted warnings {', '.join(case.accepted_warnings) or 'none'}")
        if plan.custodian is not None:
            say(f"custody {plan.custody}: the outcomes open by a release of {plan.custodian.key_id} only")
        elif plan.ephemeral_keys:
            say(
                "custody self: keys made for this run by this user; not blind (evalkit keys init makes yours)"
            )
        else:
            say("custody self: your own key opens the outcomes; not blind")
        if plan.custodian is not None and shipped_among(plan.cases):
            say(NOT_BLIND)
        say(f"next: evalkit decisions evaluate {shlex.quote(str(out))} --write-run   (writes {EX_ANTE}/)")

    stamp_phase(tsa, out, "precommit", trust, report, as_json=as_json)


def _warnings(accepted: tuple[str, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for item in accepted:
        case, separator, code = item.rpartition(":")
        if not separator or not case or not code:
            raise EvalkitError(
                f"{item!r} names no case and code",
                where="--accept-warning",
                expected="CASE:CODE",
                do="for example --accept-warning case-x:NAMED_CASE",
            )
        found.setdefault(case, []).append(code)
    return found


@decisions.command()
@run_argument
@click.option(
    "--write-run", is_flag=True, help="Write and sign RUN/ex-ante; without it only the ledger is written."
)
@click.option("--model", help="Refused unless it is the sealed model.")
@click.option("--base-url", help="Goes with --model.")
@click.option("--replay", type=_FILE, help="Refused unless it is the sealed replay.")
@tsa_option
@trust_option
@json_option
def evaluate(
    run: Path,
    write_run: bool,
    model: str | None,
    base_url: str | None,
    replay: Path | None,
    tsa: str | None,
    trust: Path | None,
    as_json: bool,
) -> None:
    """Ask the sealed model once per case, score the records, and sign before anything is revealed.

    Exits with 5 where a record is blocked; the run is kept all the same.
    """
    from evalkit import decisions as protocol

    prepare(tsa, run, trust, written=write_run, option="--write-run")
    given = None
    if model is not None or replay is not None or base_url is not None:
        given = protocol.configure(model, base_url=base_url, replay=replay)
    result = protocol.evaluate(run, write_run=write_run, model=given, trust=trust)
    summary = result.summary()
    missing: EvalkitError | None = None
    try:
        stamp_phase(
            tsa,
            run,
            "ex-ante",
            trust,
            lambda timestamp: _evaluated(run, result.document, summary | timestamp, as_json),
            as_json=as_json,
        )
    except EvalkitError as error:
        missing = error
    if not summary["eligible"]:
        if missing is not None:  # the exit code is the blocker's: it outweighs a missing timestamp
            click.echo(f"evalkit: {missing.message()}", err=True)
        raise Blocked(
            "a decision record is blocked",
            details=(
                *(
                    f"{c['case_id']}: {f['code']} at {f['where']}: {f['what']}"
                    for c in summary["cases"]
                    for f in c["findings"][:5]
                ),
                *(
                    f"{c['case_id']}: and {len(c['findings']) - 5} more"
                    for c in summary["cases"]
                    if len(c["findings"]) > 5
                ),
            ),
            where=f"{run}/ex-ante/run.json" if write_run else "the answers of this attempt",
            expected="no blocker in either case",
            do=f"evalkit report {shlex.quote(str(run))} shows all findings; reveal refuses this run"
            + _other_bundle(result.document)
            if write_run
            else "nothing was written, and this attempt is counted; --write-run signs what the next one gives",
        )  # fmt: skip
    if missing is not None:
        raise missing


def _other_bundle(document: dict[str, Any]) -> str:
    return "" if document["precommit"]["custodian"] is None else ", and another one needs another bundle"


def _evaluated(run: Path, document: dict[str, Any], summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    _print_evaluation(summary)
    here = shlex.quote(str(run))
    if not summary["written"]:
        if summary["attempts"] < document["precommit"]["attempt_cap"]:
            say(f"next: evalkit decisions evaluate {here} --write-run   (another attempt)")
    elif summary["eligible"] and document["precommit"]["custodian"] is not None:
        say(f"next: evalkit custodian request {here} --out REQUEST   (for the custodian)")
    elif summary["eligible"]:
        say(f"next: evalkit decisions reveal {here} --write-calibration   (opens the outcomes)")


def _print_evaluation(summary: dict[str, Any]) -> None:
    replayed = ", replayed" if summary["replayed"] else ""
    say(
        f"run {summary['run_id']}, {summary['model']}{replayed}, attempt {summary['attempt']} of"
        f" {summary['attempts']} so far, {summary['label']}"
    )
    for case in summary["cases"]:
        state = "eligible" if case["eligible"] else f"BLOCKED {', '.join(case['blockers'])}"
        say(
            f"  {case['case_id']}: process {case['process_score']} of {case['process_maximum']}, {state};"
            " a person must review the substance"
        )
    say(f"written: {summary['written'] or 'nothing but the ledger (--write-run writes the run)'}")


@decisions.command()
@run_argument
@click.option("--write-calibration", is_flag=True, help="Write and sign RUN/reveal.")
@click.option("--opening", type=_FILE, help="The custodian's file, where the run has a custodian.")
@click.option("--revealed-at", help="Time with offset; not before the run was final, not in the future.")
@tsa_option
@trust_option
@json_option
def reveal(
    run: Path,
    write_calibration: bool,
    opening: Path | None,
    revealed_at: str | None,
    tsa: str | None,
    trust: Path | None,
    as_json: bool,
) -> None:
    """Verify RUN, then open what was sealed and score the probability of what happened.

    Any failed binding (exit 10 to 19) or blocker (exit 5) stops it before anything sealed is opened. A run with a
    custodian needs --opening.
    """
    from evalkit import decisions as protocol

    prepare(tsa, run, trust, written=write_calibration, option="--write-calibration")
    result = protocol.reveal(
        run, write_calibration=write_calibration, revealed_at=revealed_at, opening=opening, trust=trust
    )
    summary = result.summary()
    stamp_phase(
        tsa,
        run,
        "reveal",
        trust,
        lambda timestamp: _revealed(run, opening, summary | timestamp, as_json),
        as_json=as_json,
    )


def _revealed(run: Path, opening: Path | None, summary: dict[str, Any], as_json: bool) -> None:
    if as_json:
        print_json(summary)
        return
    say(f"run {summary['run_id']}, revealed {summary['revealed_at']}, {summary['label']}")
    for case in summary["cases"]:
        log = "infinite" if case["log"] is None else f"{case['log']:.3f}"
        say(
            f"  {case['case_id']}: {case['realized_scenario_id']} happened, given"
            f" {float(case['realized_probability']):.3f}; Brier {case['brier']:.3f} (uniform"
            f" {case['brier_uniform']:.3f}), log {log} (uniform {case['log_uniform']:.3f}), n = 1"
        )
    for name in ("brier", "log"):
        say(f"  {name}: {summary['conventions'][name]}")
    say(f"written: {summary['written'] or 'nothing but the ledger (--write-calibration writes it)'}")
    here = shlex.quote(str(run))
    if summary["written"]:
        say(f"next: evalkit verify {here}; evalkit report {here}")
    else:
        given = f" --opening {shlex.quote(str(opening))}" if opening else ""
        say(f"next: evalkit decisions reveal {here}{given} --write-calibration")


@decisions.command()
@run_argument
@click.option("--case", "case_id", required=True, help="Which case of the run.")
@click.option("--out", required=True, type=_FOLDER, help="New folder.")
@trust_option
def export(run: Path, case_id: str, out: Path, trust: Path | None) -> None:
    """Write Part A of one case for a rehearsal by hand: packet, report and the exact prompt."""
    from evalkit.decisions.export import export_part_a

    export_part_a(run, case_id=case_id, out=out, trust=trust)
    say(f"Part A and its prompt in {out}/part-a")
