"""The commands: the README's section as it is written, what is printed, and what is refused by which code."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from decisions.support import CASES, PAIR, ROOT, World, cli
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.sealing import PREDICATES, Trust

from .people import Two, entry
from .test_exchange import sentinels, shows

README = (ROOT / "README.md").read_text()


def section() -> list[tuple[str, str, str]]:
    """(who, command, what is handed over) of the README's section on two people."""
    text = README[README.index("## Two people") :]
    block = text[text.index("```sh\n") + 6 : text.index("\n```\n")]
    found, who = [], ""
    for line in block.splitlines():
        if line.startswith("# the "):
            who = line.removeprefix("# the ")
            continue
        command, _, remark = line.partition("#")
        found.append((who, command.strip(), remark.strip().removeprefix("hand over ")))
    return found


@pytest.mark.slow
def test_the_readme_section_works_as_it_is_written(tmp_path: Path) -> None:
    """In two homes and two working folders; only KEY_ID, PAIR and the passphrase are filled in."""
    homes = {who: tmp_path / who for who in ("custodian", "evaluator")}
    key_ids: dict[str, str] = {}
    for home in homes.values():
        (home / "work").mkdir(parents=True)
    shutil.copytree(CASES, homes["custodian"] / "work" / "CASES")
    said = ""
    for who, command, handed_over in section():
        home = homes[who]
        command = command.replace("evalkit", f"{sys.executable} -m evalkit", 1)
        command = command.replace("keys init", "keys init --no-passphrase")
        command = command.replace("KEY_ID", key_ids.get(who, "")).replace("PAIR", PAIR)
        done = subprocess.run(
            command, shell=True, cwd=home / "work", capture_output=True, text=True,
            env={"PATH": os.environ["PATH"], "HOME": str(home)},
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr)
        said += done.stdout
        if "keys init" in command:
            key_ids[who] = re.search(r"sha256:[0-9a-f]{64}", done.stdout)[0]
        if handed_over:
            (other,) = (homes[o] / "work" / handed_over for o in homes if o != who)
            source = home / "work" / handed_over
            (shutil.copytree if source.is_dir() else shutil.copy)(source, other)
    assert "the custodian's key signed that it releases these openings" in said
    assert not (homes["evaluator"] / "work" / "CASES").exists()
    assert not re.search(r"(?<!not )\bblind\b", said)


def here(monkeypatch: pytest.MonkeyPatch, world: World) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(world.state))


@pytest.mark.parametrize(("role", "phases"), [
    ("evaluator", set(SIGNED_PHASES)), ("custodian", {"custody/seal", "custody/opening"}),
])  # fmt: skip
def test_a_role_gives_a_key_the_words_of_that_role_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, role: str, phases: set[str]
) -> None:
    world = World(tmp_path / "w")
    here(monkeypatch, world)
    assert cli("keys", "init", "--no-passphrase", "--role", role).code == 0
    (key,) = Trust.load(world.places.trust, []).keys
    assert set(key.predicate_types) & {
        PREDICATES[p] for p in (*SIGNED_PHASES, "custody/seal", "custody/opening")
    } == {PREDICATES[p] for p in phases}
    assert role in key.roles


def test_what_the_commands_print(strangers: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two = strangers
    said = []

    def run(world: World, *arguments: str | Path) -> str:
        here(monkeypatch, world)
        done = cli(*arguments)
        assert done.code == 0, done.err
        said.append(done.out)
        return done.out

    out = run(two.custodian, "custodian", "seal", CASES, "--pair", PAIR, "--out", two.bundle)
    assert f"precommit {two.bundle} --out RUN" in out
    assert two.custodian_id in out
    out = run(two.evaluator, "decisions", "precommit", two.bundle, "--out", two.run)
    assert f"custody second_party: the outcomes open by a release of {two.custodian_id} only" in out
    run(two.evaluator, "decisions", "evaluate", two.run, "--write-run")
    out = run(two.evaluator, "custodian", "request", two.run, "--out", two.request)
    assert f"custodian open {two.request} --out OPENING" in out
    out = run(two.custodian, "custodian", "open", two.request, "--out", two.opening)
    assert "released" in out
    assert "in the clear" in out
    assert all(shows(text.encode()) == [] for text in said)
    run(two.evaluator, "decisions", "reveal", two.run, "--opening", two.opening, "--write-calibration")
    out = run(two.evaluator, "verify", two.run)
    assert "not proven  that nobody peeked: the custodian could open" in out
    # these cases come with evalkit, and nothing is called blind
    assert not any(re.search(r"(?<!not )blind", text) for text in said)


def test_json_of_the_commands(strangers: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two = strangers
    here(monkeypatch, two.custodian)
    value = json.loads(
        cli(
            "custodian", "seal", CASES, "--pair", PAIR, "--custody", "process", "--out", two.bundle, "--json"
        ).out
    )
    assert (value["custody"], value["custodian"]) == ("process", two.custodian_id)
    here(monkeypatch, two.evaluator)
    planned = json.loads(cli("decisions", "precommit", two.bundle, "--out", two.run, "--json").out)
    assert (planned["custody"], planned["custodian"]) == ("process", two.custodian_id)
    assert planned["run_id"] == value["run_id"]
    assert cli("decisions", "evaluate", two.run, "--write-run").code == 0
    asked = json.loads(cli("custodian", "request", two.run, "--out", two.request, "--json").out)
    here(monkeypatch, two.custodian)
    answer = json.loads(cli("custodian", "open", two.request, "--out", two.opening, "--json").out)
    assert asked["run_id"] == answer["run_id"] == value["run_id"]
    assert set(answer) == {"phase", "run_id", "opening", "released_at", "custodian"}


def test_errors_are_messages_and_show_nothing_kept(answered: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two = answered
    here(monkeypatch, two.custodian)
    missing = two.root / "nowhere"
    damaged = two.root / "damaged"
    data = bytearray(two.opening.read_bytes())
    data[data.index(b'"realized_scenario_id"') + 30] ^= 1
    damaged.write_bytes(bytes(data))
    bad = two.root / "bad-request"
    bad.write_bytes(two.opening.read_bytes())
    outcomes = [
        (2, cli("custodian", "seal", CASES, "--pair", PAIR, "--out", missing / "b")),
        (2, cli("custodian", "seal", CASES, "--pair", "none", "--out", two.root / "b")),
        (
            2,
            cli("custodian", "seal", CASES, "--pair", PAIR, "--custody", "timelock", "--out", two.root / "b"),
        ),
        (2, cli("custodian", "seal", missing, "--pair", PAIR, "--out", two.root / "b")),
        (2, cli("custodian", "open", missing, "--out", two.root / "o")),
        (2, cli("custodian", "open", bad, "--out", two.root / "o")),
        (2, cli("custodian", "open", two.request, "--out", missing / "o")),
        (2, cli("custodian", "open", two.request, "--out", two.opening)),
    ]
    here(monkeypatch, two.evaluator)
    outcomes += [
        (2, cli("custodian", "request", two.run, "--out", two.request)),
        (2, cli("custodian", "request", missing, "--out", two.root / "q")),
        (2, cli("decisions", "reveal", two.run)),
        (10, cli("decisions", "reveal", two.run, "--opening", damaged)),
        (2, cli("decisions", "reveal", two.run, "--opening", two.request)),
        (2, cli("decisions", "reveal", two.run, "--opening", missing)),
    ]
    for code, outcome in outcomes:
        assert outcome.code == code, outcome.err
        assert outcome.err.startswith("evalkit: ")
        assert "Traceback" not in outcome.err
        assert shows((outcome.err + outcome.out).encode()) == []
    assert len(sentinels()) > 60
    assert {p.name for p in two.root.iterdir()} == {
        "custodian", "evaluator", "bundle", "request", "opening", "damaged", "bad-request"
    }  # fmt: skip


NOT_BLIND = "not blind: these cases come with evalkit, and everybody has the outcomes"
PUBLIC = "that anybody was kept from the outcomes: these cases come with evalkit, and everybody has them"


def test_shipped_cases_are_not_blind_for_whoever_looks_later(
    strangers: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By their packets and not by the word that the custodian typed: a copy in another folder is as public."""
    from evalkit.reports.decisions import DecisionReport

    shutil.copytree(CASES, tmp_path / "copy")
    here(monkeypatch, strangers.custodian)
    done = cli("custodian", "seal", tmp_path / "copy", "--pair", PAIR, "--out", strangers.bundle)
    assert NOT_BLIND in done.out
    here(monkeypatch, strangers.evaluator)
    assert NOT_BLIND in cli("decisions", "precommit", strangers.bundle, "--out", strangers.run).out
    assert f"not proven  {PUBLIC} (case-bbi-2007-07, case-nflx-2007-07)" in cli("verify", strangers.run).out
    strangers.evaluate()
    report = DecisionReport.load([strangers.run])
    assert "Not blind: public outcomes" in str(report.labels())
    assert any(str(claim).startswith(PUBLIC) for _, claim in report.proof.custody().rows)


def test_cases_of_ones_own_are_not_called_public(
    strangers: Two, ferries: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.reports.decisions import DecisionReport

    here(monkeypatch, strangers.custodian)
    said = cli("custodian", "seal", ferries, "--pair", "pair-ferries", "--out", strangers.bundle).out
    here(monkeypatch, strangers.evaluator)
    said += cli("decisions", "precommit", strangers.bundle, "--out", strangers.run).out
    strangers.evaluate()
    said += cli("verify", strangers.run).out
    said += str(DecisionReport.load([strangers.run]).labels())
    assert "Second party, as declared" in said
    for word in ("blind", "come with evalkit", "everybody"):
        assert word not in said.lower()


def test_shipped_cases_are_not_blind_and_the_command_says_so(
    strangers: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    here(monkeypatch, strangers.custodian)
    done = cli("custodian", "seal", "shipped", "--pair", PAIR, "--out", strangers.bundle)
    assert NOT_BLIND in done.out


# --- reports and notebooks


def test_the_report_says_whose_custody(planned: Two, revealed: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.reports.decisions import DecisionReport

    here(monkeypatch, revealed.evaluator)
    report = DecisionReport.load([revealed.run])
    labels = str(report.labels())
    assert "Declared is that another person, the custodian, sealed the outcomes and kept their key" in labels
    assert "not whose they are" in labels
    digests = str(report.proof.digests())
    assert revealed.custodian_id in digests
    assert "second_party" in digests
    commands = str(report.proof.reproduce())
    assert "evalkit custodian seal CASES" in commands
    assert "reveal NEW --opening OPENING" in commands
    grouped = report.proof.custody()
    claims = [str(claim) for _, claim in grouped.rows]
    assert any("two people who did not collude" in claim for claim in claims)
    assert any(claim.endswith("; 0 sealed, 0 released") for claim in claims), "the count that is claimed"
    custody = [line.text for line in report.runs[0].lines if line.topic == "custody"]
    assert len(claims) == len(custody) > 8
    other = str([str(claim) for _, claim in report.proof.table().rows])
    assert not [text for text in custody if text in other]
    assert "custodian" not in other


def test_the_report_of_process_is_not_blind(strangers: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.reports.decisions import DecisionReport

    strangers.seal(custody="process")
    strangers.plan()
    strangers.evaluate()
    here(monkeypatch, strangers.evaluator)
    labels = str(DecisionReport.load([strangers.run]).labels())
    assert "Not blind" in labels
    assert "Another account of the same person" in labels
    assert "Second party" not in labels


@pytest.mark.slow
def test_notebooks_run_on_a_bundle_and_show_nothing_before_the_release(
    sealed: Two, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.reports import execute

    here(monkeypatch, sealed.evaluator)
    done = execute(
        "run-decisions", {"cases": str(sealed.bundle), "pair": "", "out": str(sealed.run)},
        out=tmp_path, key="k", progress=False,
    )  # fmt: skip
    looked = [p for folder in (done.directory, sealed.run) for p in folder.rglob("*") if p.is_file()]
    assert {"run.ipynb", "results.json", "report.html", "plan.json"} <= {p.name for p in looked}
    for path in looked:
        assert shows(path.read_bytes()) == [], path
    sealed.ask()
    sealed.answer()
    execute(
        "reveal-decisions", {"run": str(sealed.run), "opening": str(sealed.opening)},
        out=tmp_path, key="k", progress=False,
    )  # fmt: skip
    assert sealed.verify().phase == "post_reveal_calibration"
    assert entry(sealed.custodian, ()).key_id == sealed.evaluator.plan["custodian"]["key_id"]
