"""Every mistake of a user ends with exit 2, what is wrong and what to do, and no traceback."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path

import pytest
from decisions.support import CASES, PAIR, Outcome, World, cli, sheet, write_sheets


def mistake(*arguments: str | Path) -> Outcome:
    done = cli(*arguments)
    assert done.code == 2, (done.code, done.err)
    assert "Traceback" not in done.err
    assert done.err.strip()
    return done


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out"


@pytest.mark.parametrize(
    "arguments",
    [
        ["nosuch"],
        ["decisions", "nosuch"],
        ["decisions", "import"],
        ["decisions", "import", "x.json"],
        ["decisions", "precommit"],
        ["decisions", "precommit", "cases", "--pair", "x"],
        ["decisions", "evaluate"],
        ["decisions", "evaluate", "no-such-run"],
        ["decisions", "evaluate", "no-such-run", "--nosuch"],
        ["decisions", "reveal", "no-such-run"],
        ["decisions", "reveal", "no-such-run", "--skip-attestation"],
        ["decisions", "export", "no-such-run", "--case", "x", "--out", "y"],
        ["verify"],
        ["verify", "no-such-run"],
        ["keys", "nosuch"],
    ],
    ids=" ".join,
)
def test_a_command_that_is_none(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    mistake(*arguments)
    assert list(tmp_path.iterdir()) == []


BAD_SHEETS: dict[str, bytes] = {
    "not JSON": b"{",
    "empty": b"",
    "duplicate key": b'{"a": 1, "a": 2}',
    "NaN": b'{"a": NaN}',
    "not UTF-8": b'{"a": "\xff"}',
    "a list": b"[]",
    "a number": b"3",
    "an empty object": b"{}",
    "deep": b"[" * 3000,
    "unknown field": json.dumps(sheet() | {"surprise": 1}).encode(),
}


@pytest.mark.parametrize("name", BAD_SHEETS)
def test_import_of_a_bad_sheet(tmp_path: Path, out: Path, name: str) -> None:
    paths, pairs = write_sheets(tmp_path / "s", [BAD_SHEETS[name], sheet("case-ferry-b")])
    mistake("decisions", "import", *paths, "--pairs", pairs, "--out", out)
    assert not out.exists()


@pytest.mark.parametrize("name", [n for n in BAD_SHEETS if n != "unknown field"])
def test_import_with_a_bad_pairs_file(tmp_path: Path, out: Path, name: str) -> None:
    paths, pairs = write_sheets(tmp_path / "s")
    pairs.write_bytes(BAD_SHEETS[name])
    mistake("decisions", "import", *paths, "--pairs", pairs, "--out", out)
    assert not out.exists()


def test_import_of_missing_files(tmp_path: Path, out: Path) -> None:
    paths, pairs = write_sheets(tmp_path / "s")
    mistake("decisions", "import", tmp_path / "no.json", "--pairs", pairs, "--out", out)
    mistake("decisions", "import", *paths, "--pairs", tmp_path / "no.json", "--out", out)
    mistake("decisions", "import", tmp_path, "--pairs", pairs, "--out", out)
    mistake("decisions", "import", *paths, "--pairs", pairs, "--out", tmp_path / "no" / "out")
    mistake("decisions", "import", *paths, "--pairs", pairs, "--out", tmp_path)
    mistake("decisions", "import", *paths, "--pairs", pairs, "--out", paths[0])
    assert not out.exists()


@pytest.mark.parametrize("time", ["2026-11-30", "2026-11-30T12:00:00", "yesterday"])
def test_import_at_a_time_that_is_none(tmp_path: Path, out: Path, time: str) -> None:
    paths, pairs = write_sheets(tmp_path / "s")
    mistake("decisions", "import", *paths, "--pairs", pairs, "--out", out, "--frozen-at", time)
    assert not out.exists()


def test_import_says_what_to_do_next(tmp_path: Path, out: Path) -> None:
    paths, pairs = write_sheets(tmp_path / "s")
    done = cli("decisions", "import", *paths, "--pairs", pairs, "--out", out)
    assert done.code == 0
    assert "--pair pair-ferries" in done.out


@pytest.mark.parametrize(
    "options",
    [
        ["--pair", "no-such-pair"],
        ["--pair", PAIR, "--model", "gpt"],
        ["--pair", PAIR, "--model", "openai:"],
        ["--pair", PAIR, "--model", "openai:x", "--base-url", "localhost"],
        ["--pair", PAIR, "--base-url", "http://127.0.0.1/v1"],
        ["--pair", PAIR, "--replay", "no-such-file.json"],
        ["--pair", PAIR, "--replay", "no-such-file.json", "--model", "baseline"],
        ["--pair", PAIR, "--nontrivial", "ten"],
        ["--pair", PAIR, "--nontrivial", "2"],
        ["--pair", PAIR, "--attempt-cap", "0"],
        ["--pair", PAIR, "--attempt-cap", "many"],
        ["--pair", PAIR, "--accept-warning", "NAMED_CASE"],
        ["--pair", PAIR, "--accept-warning", ":NAMED_CASE"],
        ["--pair", PAIR, "--accept-warning", "case-amzn-2001-04:NAMED_CASE"],
        ["--pair", PAIR, "--run-id", "../up"],
    ],
    ids=" ".join,
)
def test_precommit_with_bad_options(out: Path, options: list[str], home_of_its_own: Path) -> None:
    mistake("decisions", "precommit", CASES, "--out", out, *options)
    assert not out.exists()
    assert not [p for p in home_of_its_own.rglob("*") if p.is_file()], "no key and no ledger was made"


def test_precommit_of_folders_that_are_none(tmp_path: Path, out: Path) -> None:
    mistake("decisions", "precommit", tmp_path / "no", "--pair", PAIR, "--out", out)
    mistake("decisions", "precommit", tmp_path, "--pair", PAIR, "--out", out)
    mistake("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path)
    mistake("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path / "no" / "out")
    assert not out.exists()


def test_precommit_onto_a_run(planned: World) -> None:
    before = planned.listing()
    mistake("decisions", "precommit", CASES, "--pair", PAIR, "--out", planned.run)
    assert planned.listing() == before


@pytest.mark.parametrize("content", [b"{", b"[]", b'{"schema": "evalkit/replay/1"}', b'{"phase": "ex_ante_scored"}',
                                     b'{"phase": "ex_ante_scored", "cases": [3]}', b"\xff"])  # fmt: skip
def test_precommit_with_a_replay_that_is_none(tmp_path: Path, out: Path, content: bytes) -> None:
    path = tmp_path / "replay.json"
    path.write_bytes(content)
    mistake("decisions", "precommit", CASES, "--pair", PAIR, "--out", out, "--replay", path)
    assert not out.exists()


def test_evaluate_without_the_keys(planned: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Another user's machine: the trust file is there, the signing key is not."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "empty"))
    done = mistake("decisions", "evaluate", planned.run, "--write-run")
    assert "no signing key" in done.err


@pytest.mark.parametrize(
    "time", ["2026-11-30T12:00:00", "soon", "2099-01-01T00:00:00+00:00", "2020-01-01T00:00:00Z"]
)
def test_reveal_at_an_impossible_time(evaluated: World, time: str) -> None:
    mistake("decisions", "reveal", evaluated.run, "--write-calibration", "--revealed-at", time)
    assert not (evaluated.run / "reveal").exists()


def test_export_of_an_unknown_case(planned: World, out: Path) -> None:
    done = mistake("decisions", "export", planned.run, "--case", "case-x", "--out", out)
    assert "case-bbi-2007-07 or case-nflx-2007-07" in done.err
    mistake("decisions", "export", planned.run, "--case", "case-bbi-2007-07", "--out", planned.root)


def test_keys_init_twice(home_of_its_own: Path) -> None:
    assert cli("keys", "init", "--no-passphrase").code == 0
    before = {p: p.read_bytes() for p in home_of_its_own.rglob("*") if p.is_file()}
    mistake("keys", "init", "--no-passphrase")
    assert {p: p.read_bytes() for p in home_of_its_own.rglob("*") if p.is_file()} == before


def test_an_error_says_what_where_expected_and_what_to_do(planned: World, out: Path) -> None:
    err = mistake("decisions", "export", planned.run, "--case", "case-x", "--out", out).err
    for part in ("evalkit: ", "where: ", "expected: ", "do: "):
        assert part in err


def test_help_lists_the_exit_codes() -> None:
    done = cli("--help")
    assert done.code == 0
    for word in ("5 blocked", "10 attestation", "18 sealed packet", "19 run"):
        assert word in " ".join(done.out.split())


def test_w40_no_option_bypasses_attestation() -> None:
    """The options of evaluate, reveal and verify, in full: a new one must be looked at here."""
    from evalkit.cli.decisions import evaluate, reveal
    from evalkit.cli.verify import verify

    options = {c.name: {p.name for p in c.params} for c in (evaluate, reveal, verify)}
    # tsa stamps what is committed, afterwards
    assert options["reveal"] == {
        "run",
        "write_calibration",
        "opening",
        "revealed_at",
        "tsa",
        "trust",
        "as_json",
    }
    # offline forbids more, and lets nothing through
    assert options["verify"] == {"run", "trust", "offline", "as_json"}
    assert options["evaluate"] == {
        "run", "write_run", "model", "base_url", "replay", "tsa", "trust", "as_json"
    }  # fmt: skip


def test_w5_no_option_sets_the_verification_mode() -> None:
    from evalkit.cli.decisions import decisions

    for command in decisions.commands.values():
        names = {p.name for p in command.params}
        assert not names & {"mode", "verification_mode", "artifact_store", "artifact_backed", "frozen_bundle"}


@pytest.mark.parametrize("command", [["verify"], ["decisions", "evaluate"], ["decisions", "reveal"]])
def test_a_folder_that_is_no_run(tmp_path: Path, command: list[str]) -> None:
    """`evalkit verify .` beside the run, most often."""
    (tmp_path / "run").mkdir()
    done = mistake(*command, tmp_path)
    assert "this is no run folder" in done.err
    assert "find out who" not in done.err


def test_a_run_without_its_plan_is_still_a_run(planned: World) -> None:
    (planned.run / "plan.json").unlink()
    assert cli("verify", planned.run).code == 12
    (planned.run / "plan.dsse.json").unlink()
    assert cli("verify", planned.run).code == 12


def test_nothing_to_report_on(tmp_path: Path) -> None:
    done = mistake("report", tmp_path / "nothing")
    assert "a sealed run" in done.err
    assert "do: check the path" in done.err


@pytest.mark.parametrize(
    "arguments",
    [
        ["keys", "pin", "PIPE"],
        ["timestamps", "pin", "--name", "x", "--root", "PIPE", "--leaf", "PIPE"],
        ["decisions", "import", "PIPE", "--pairs", "PIPE", "--out", "out"],
        ["decisions", "precommit", "shipped", "--pair", PAIR, "--out", "out", "--replay", "PIPE"],
        ["decisions", "precommit", "PIPES", "--pair", PAIR, "--out", "out"],
        ["custodian", "open", "PIPE", "--out", "out"],
        ["notebooks", "run", "report-decisions", "-f", "PIPE", "--out", "out"],
        ["ledger", "verify", "PIPE"],
    ],
    ids=" ".join,
)
def test_a_pipe_is_refused_and_not_waited_for(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody writes into it: to open it, or to read it to its end, would take for ever."""

    def waited(*_: object) -> None:
        pytest.fail("it waits for the pipe")

    monkeypatch.chdir(tmp_path)
    os.mkfifo("PIPE")
    shutil.copytree(CASES, "PIPES")
    (tmp_path / "PIPES" / "catalog.json").unlink()
    os.mkfifo("PIPES/catalog.json")
    before = signal.signal(signal.SIGALRM, waited)
    signal.alarm(20)
    try:
        done = cli(*arguments)
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
    assert done.code == (19 if arguments[0] == "ledger" else 2), done.err
    assert "not a regular file" in done.err
    assert "PIPE" in done.err
    assert not (tmp_path / "out").exists()
