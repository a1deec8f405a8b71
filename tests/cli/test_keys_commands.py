"""evalkit keys: what is printed can be copied into the next command, and mistakes change nothing."""

from __future__ import annotations

import json
import os
import pty
import select
import shlex
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from decisions.support import CASES, PAIR, Outcome, cli

from evalkit.sealing import Places, Trust


def done(*arguments: str | Path) -> Outcome:
    outcome = cli(*arguments)
    assert outcome.code == 0, outcome.err
    return outcome


def value(*arguments: str | Path) -> Any:
    return json.loads(done(*arguments).out)


@pytest.fixture
def mine() -> str:
    """A key of one's own; its id."""
    done("keys", "init", "--no-passphrase")
    return str(value("keys", "show", "--json")["signing"]["key_id"])


@dataclass
class Verifier:
    """Another person, with a home of her own."""

    home: Path
    monkeypatch: pytest.MonkeyPatch

    def __call__(self, *arguments: str | Path) -> Outcome:
        with self.monkeypatch.context() as patch:
            patch.setenv("XDG_CONFIG_HOME", str(self.home / "config"))
            patch.setenv("XDG_STATE_HOME", str(self.home / "state"))
            return cli(*arguments)


@pytest.fixture
def her(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Verifier:
    (tmp_path / "her").mkdir(mode=0o700)
    return Verifier(tmp_path / "her", monkeypatch)


def handed_over(tmp_path: Path, key: str, name: str = "entry.json") -> Path:
    path = tmp_path / name
    path.write_text(done("keys", "export", key).out)
    return path


def planned(tmp_path: Path, name: str) -> Path:
    done("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path / name)
    return tmp_path / name


def seen(tmp_path: Path, run: Path) -> Path:
    """A copy of a run, as another person has it."""
    copy = tmp_path / f"{run.name}-copy"
    shutil.rmtree(copy, ignore_errors=True)
    return Path(shutil.copytree(run, copy))


# --- show and list --------------------------------------------------------------------------------


def test_show_is_about_ones_own_keys(mine: str, tmp_path: Path) -> None:
    shown = done("keys", "show").out
    assert mine in shown
    assert "without passphrase" in shown
    places = Places.from_environment()
    own = value("keys", "show", "--json")
    assert own["signing"]["path"] == str(places.signing_key)
    assert own["signing"] == own["signing"] | {"encrypted": False, "in_agent": False}
    assert own["unsealing"]["public_key"] in shown
    assert own["retired"] == []
    assert len(own["unsealing"]["public_key"]) == 64


def test_show_without_keys() -> None:
    assert "no signing key" in done("keys", "show").out
    assert value("keys", "show", "--json") == {
        "signing": None, "retired": [], "unused": [], "unsealing": None
    }  # fmt: skip


def test_list_says_what_each_key_is_worth(mine: str, tmp_path: Path) -> None:
    listed = value("keys", "list", "--json")
    (key,) = listed["keys"]
    assert listed["trust"] == {
        "path": str(Places.from_environment().trust),
        "digest": Trust.load(Places.from_environment().trust, []).digest,
    }
    assert (key["key_id"], key["status"], key["ends"], key["runs"]) == (mine, "valid", None, None)
    text = done("keys", "list").out
    for part in (mine, "valid", "evaluator", "trust/rotation/v1", "every run", "self"):
        assert part in text


def test_every_status(make_signer: Callable[..., Any]) -> None:
    from datetime import UTC, datetime, timedelta

    from evalkit.sealing import TrustedKey, pin, revoke

    now = datetime.now(UTC)
    path = Places.from_environment().trust
    day = timedelta(days=1)
    entries = {
        "valid": {},
        "not_yet": {"valid_from": now + day},
        "expired": {"valid_until": now - day},
        "revoked": {},
    }
    keys = {word: TrustedKey.of(make_signer().public_key, **fields) for word, fields in entries.items()}
    for key in keys.values():
        pin(path, key)
    revoke(path, keys["revoked"].key_id, reason="lost")
    listed = {key["key_id"]: key for key in value("keys", "list", "--json")["keys"]}
    assert {word: listed[key.key_id]["status"] for word, key in keys.items()} == {w: w for w in keys}
    assert listed[keys["revoked"].key_id]["revocation"]["reason"] == "lost"
    text = done("keys", "list").out
    for part in ("not yet valid, from", "expired, ended", "revoked since", "(lost)"):
        assert part in text


def test_list_without_a_trust_file() -> None:
    outcome = cli("keys", "list")
    assert outcome.code == 11
    assert "there is no trust file" in outcome.err


# --- rotate ---------------------------------------------------------------------------------------


def test_rotate_says_what_to_do_next(mine: str, tmp_path: Path, her: Verifier) -> None:
    assert her("keys", "pin", handed_over(tmp_path, mine)).code == 0
    said = done("keys", "rotate", "--no-passphrase").out
    new = value("keys", "show", "--json")["signing"]["key_id"]
    assert new != mine
    assert "cannot be finished" in said
    assert "--overlap-days" in said
    # the printed commands work as they stand
    command = next(line for line in said.splitlines() if "keys export" in line).split("evalkit ")[1]
    assert command == f"keys export {new} > chain.json"
    chain = handed_over(tmp_path, new, "chain.json")
    pinned = her("keys", "pin", chain)
    assert pinned.code == 0
    assert f"proven by the key you pinned before, {mine}" in pinned.out
    again = her("keys", "pin", chain, "--json")
    assert json.loads(again.out)["added"] == []


def test_the_status_of_a_rotated_key(mine: str) -> None:
    turned = value("keys", "rotate", "--no-passphrase", "--json")
    assert (turned["previous"], turned["serial"], turned["resumed"]) == (mine, 1, False)
    old, new = value("keys", "list", "--json")["keys"]
    assert (old["status"], old["rotated_to"], old["ends"]) == (
        "rotated",
        new["key_id"],
        turned["ends_previous"],
    )
    assert (new["status"], new["key_id"]) == ("valid", turned["next"])
    assert f"rotated to {new['key_id']}, ended" in done("keys", "list").out
    shown = value("keys", "show", "--json")
    assert [k["key_id"] for k in shown["retired"]] == [mine]
    assert shown["retired"][0]["path"] == turned["retired_key"]


def test_a_run_planned_before_is_finished_within_the_overlap(
    mine: str, tmp_path: Path, her: Verifier
) -> None:
    run = planned(tmp_path, "r")
    assert her("keys", "pin", handed_over(tmp_path, mine)).code == 0
    said = done("keys", "rotate", "--no-passphrase", "--overlap-days", "2").out
    assert "can be finished until" in said
    done("decisions", "evaluate", run, "--write-run")
    done("decisions", "reveal", run, "--write-calibration")
    new = value("keys", "show", "--json")["signing"]["key_id"]
    other = planned(tmp_path, "s")
    assert json.loads((other / "plan.json").read_bytes())["signing_key_id"] == new
    done("decisions", "evaluate", other, "--write-run")
    # She had pinned the old key only: its run verifies, the new key's does once she follows the chain.
    assert her("verify", seen(tmp_path, run)).code == 0
    assert her("verify", seen(tmp_path, other)).code == 11
    assert her("keys", "pin", handed_over(tmp_path, new, "chain.json")).code == 0
    assert her("verify", seen(tmp_path, other)).code == 0


def test_a_run_planned_before_is_refused_before_an_attempt_is_spent(mine: str, tmp_path: Path) -> None:
    from evalkit.sealing import Ledger

    run = planned(tmp_path, "r")
    done("keys", "rotate", "--no-passphrase")
    ledger = Ledger(Places.from_environment().ledger(mine))
    before = ledger.head
    outcome = cli("decisions", "evaluate", run, "--write-run")
    assert outcome.code == 11
    assert "valid only until" in outcome.err
    assert ledger.head == before


def test_a_run_of_a_rotated_key_verifies_with_a_caveat(mine: str, tmp_path: Path, her: Verifier) -> None:
    run = planned(tmp_path, "r")
    done("decisions", "evaluate", run, "--write-run")
    done("decisions", "reveal", run, "--write-calibration")
    assert "own clock says so" not in done("verify", run).out
    done("keys", "rotate", "--no-passphrase")
    lines = value("verify", run, "--json")["lines"]
    caveats = [x for x in lines if "only the signer's own clock says so" in x["text"]]
    assert [x["status"] for x in caveats] == ["not proven"] * 3
    assert [x["detail"] for x in caveats] == ["plan.json", "run.json", "calibration.json"]


def test_a_stranger_is_told_that_a_chain_proves_nothing_to_her(
    mine: str, tmp_path: Path, her: Verifier
) -> None:
    done("keys", "rotate", "--no-passphrase")
    new = value("keys", "show", "--json")["signing"]["key_id"]
    pinned = her("keys", "pin", handed_over(tmp_path, new))
    assert pinned.code == 0
    assert "cannot be checked" in pinned.out
    assert "compare this id with the key's owner" in pinned.out
    assert new in pinned.out


def test_a_chain_forged_for_a_pinned_key_is_refused(mine: str, tmp_path: Path, her: Verifier) -> None:
    """Key substitution: the first entry is the one she pinned, the rotation is not by its key."""
    assert her("keys", "pin", handed_over(tmp_path, mine)).code == 0
    before = (her.home / "config" / "evalkit" / "trust.json").read_bytes()
    done("keys", "rotate", "--no-passphrase")
    first = json.loads(handed_over(tmp_path, mine, "one.json").read_text())
    done("keys", "rotate", "--no-passphrase")
    second = json.loads(handed_over(tmp_path, mine, "two.json").read_text())
    forged = tmp_path / "forged.json"
    forged.write_text(json.dumps(first | {"rotations": second["rotations"][1:]}))
    outcome = her("keys", "pin", forged)
    assert outcome.code == 11
    assert "Traceback" not in outcome.err
    assert (her.home / "config" / "evalkit" / "trust.json").read_bytes() == before


def test_rotate_without_a_key_or_a_right(tmp_path: Path) -> None:
    assert cli("keys", "rotate", "--no-passphrase").code == 2
    done("keys", "init", "--no-passphrase")
    places = Places.from_environment()
    places.trust.write_text(
        places.trust.read_text().replace(',"https://evalkit.dev/attestation/trust/rotation/v1"', "")
    )
    outcome = cli("keys", "rotate", "--no-passphrase")
    assert outcome.code == 11
    assert "may not name a successor" in outcome.err
    assert cli("keys", "rotate", "--overlap-days", "-1").code == 2


def test_rotate_without_a_terminal_makes_nothing(mine: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A passphrase is asked for at the terminal only."""
    import evalkit.sealing.terminal as terminal

    monkeypatch.setattr(terminal.ask_passphrase, "__kwdefaults__", {"terminal": "/nonexistent/tty"})
    places = Places.from_environment()
    before = {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()}
    outcome = cli("keys", "rotate")
    assert outcome.code == 2
    assert "no terminal" in outcome.err
    assert "--no-passphrase" in outcome.err
    assert "ssh-add" not in outcome.err, "a key that is still to be made is in no agent"
    assert {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()} == before


def test_a_wrong_passphrase_is_said_and_an_abandoned_rotation_leaves_nothing(home_of_its_own: Path) -> None:
    command = [sys.executable, "-m", "evalkit", "keys"]
    assert in_a_terminal([*command, "init"], [b"old horse", b"old horse"])[0] == 0
    places = Places.from_environment()
    before = {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()}
    code, output = in_a_terminal([*command, "rotate"], [b"a", b"b", b"c"])
    assert code == 2, output
    assert output.count(b"does not open the key; try again") == 2
    assert {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()} == before
    code, output = in_a_terminal([*command, "rotate"], [b"a", b"old horse", b"new", b"new"])
    assert code == 0, output
    shown = value("keys", "show", "--json")
    assert (len(shown["retired"]), shown["unused"]) == (1, [])


def test_one_word_for_keys_that_were_rotated(mine: str) -> None:
    assert "retired key" in done("keys", "rotate", "--no-passphrase").out
    shown = done("keys", "show").out
    assert f"retired key {mine}" in shown
    assert "rotated key" not in shown


def test_a_key_that_was_never_used_is_called_unused(mine: str) -> None:
    from evalkit.sealing import create_signing_key, key_id

    places = Places.from_environment()
    left = key_id(create_signing_key(places.next_signing_key))  # as a process that was killed leaves it
    done("keys", "rotate", "--no-passphrase")
    shown = value("keys", "show", "--json")
    assert [k["key_id"] for k in shown["retired"]] == [mine]
    assert [k["key_id"] for k in shown["unused"]] == [left]
    assert f"unused key {left}" in done("keys", "show").out


# --- init -----------------------------------------------------------------------------------------


def kept(folder: Path) -> dict[Path, bytes]:
    return {p: p.read_bytes() for p in folder.rglob("*") if p.is_file()}


def test_init_without_a_terminal_names_the_option(monkeypatch: pytest.MonkeyPatch) -> None:
    import evalkit.sealing.terminal as terminal

    monkeypatch.setattr(terminal.ask_passphrase, "__kwdefaults__", {"terminal": "/nonexistent/tty"})
    outcome = cli("keys", "init")
    assert outcome.code == 2
    assert "--no-passphrase" in outcome.err
    assert "ssh-add" not in outcome.err
    assert kept(Places.from_environment().config) == {}


def test_init_again_asks_nothing_and_points_to_show_and_rotate(
    mine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(*_: object, **__: object) -> bytes:
        raise AssertionError("asked for a passphrase that serves nothing")

    monkeypatch.setattr("evalkit.sealing.ask_passphrase", ask)
    before = kept(Places.from_environment().config)
    outcome = cli("keys", "init", "--role", "custodian")
    assert outcome.code == 2
    for words in ("you have a signing key already", "keys show", "keys rotate", "one role"):
        assert words in outcome.err
    assert "choose another path" not in outcome.err
    assert kept(Places.from_environment().config) == before


def test_a_lost_signing_key_is_made_anew_and_the_unsealing_key_stays() -> None:
    done("keys", "init", "--no-passphrase", "--role", "custodian")
    places = Places.from_environment()
    first, unsealing = value("keys", "show", "--json")["signing"]["key_id"], places.unsealing_key.read_bytes()
    places.signing_key.rename(places.config / "elsewhere")
    said = done("keys", "init", "--no-passphrase", "--role", "custodian").out
    assert f"{places.unsealing_key}, kept" in said
    assert places.unsealing_key.read_bytes() == unsealing
    new = value("keys", "show", "--json")["signing"]["key_id"]
    assert [k["key_id"] for k in value("keys", "list", "--json")["keys"]] == [first, new]
    done("keys", "rotate", "--no-passphrase")


def test_an_own_key_that_is_not_pinned_has_a_way_out(mine: str, tmp_path: Path) -> None:
    """A trust file that was lost, or an init of old that stopped half way."""
    places = Places.from_environment()
    before = places.signing_key.read_bytes()
    places.trust.unlink()
    outcome = cli("keys", "rotate", "--no-passphrase")
    assert outcome.code == 11
    assert "evalkit keys init" in outcome.err
    assert f"{places.signing_key}, kept" in done("keys", "init").out
    assert places.signing_key.read_bytes() == before
    assert [k["key_id"] for k in value("keys", "list", "--json")["keys"]] == [mine]
    planned(tmp_path, "r")


def test_a_key_that_is_not_in_the_trust_file_may_not_rotate_and_is_told_how(
    mine: str, make_signer: Callable[..., Any]
) -> None:
    from evalkit.sealing import TrustedKey, pin

    places = Places.from_environment()
    places.trust.unlink()
    pin(places.trust, TrustedKey.of(make_signer().public_key))
    outcome = cli("keys", "rotate", "--no-passphrase")
    assert outcome.code == 11
    assert "evalkit keys init pins it" in outcome.err
    done("keys", "init")
    done("keys", "rotate", "--no-passphrase")


@pytest.mark.parametrize("spoil", ["trust", "unsealing", "signing"])
def test_init_checks_everything_before_it_makes_anything(spoil: str) -> None:
    places = Places.from_environment()
    done("keys", "init", "--no-passphrase")
    places.trust.unlink()
    places.signing_key.unlink()
    path = {"trust": places.trust, "unsealing": places.unsealing_key, "signing": places.signing_key}[spoil]
    path.write_bytes(b"no such thing")
    path.chmod(0o600)
    before = kept(places.config)
    outcome = cli("keys", "init", "--no-passphrase")
    assert outcome.code == (11 if spoil == "trust" else 2)
    assert kept(places.config) == before


@pytest.mark.parametrize("step", ["unsealing", "signing", "pin"])
def test_init_that_was_stopped_is_finished_by_the_next(step: str) -> None:
    from evalkit.sealing import TrustedKey
    from evalkit.sealing.first_key import begin

    class Stopped(Exception):
        pass

    def stop(now: str) -> None:
        if now == step:
            raise Stopped

    places = Places.from_environment()
    with pytest.raises(Stopped):
        begin(places, places.trust, TrustedKey.of, passphrase=lambda: None, observe=stop)
    made = kept(places.config)
    done("keys", "init", "--no-passphrase")
    assert {p: kept(places.config)[p] for p in made} == made
    own = value("keys", "show", "--json")["signing"]["key_id"]
    assert [k["key_id"] for k in value("keys", "list", "--json")["keys"]] == [own]
    done("keys", "rotate", "--no-passphrase")


def test_after_a_theft_the_printed_command_works(mine: str, tmp_path: Path) -> None:
    done("keys", "revoke", mine, "--reason", "compromised")
    outcome = cli("keys", "init", "--no-passphrase")
    assert outcome.code == 2
    command = outcome.err.split("): ")[1].split(", then")[0]
    subprocess.run(shlex.split(command), check=True)
    done("keys", "init", "--no-passphrase")
    shown = value("keys", "show", "--json")
    assert shown["signing"]["key_id"] != mine
    assert [k["key_id"] for k in shown["retired"]] == [mine]
    planned(tmp_path, "r")


def test_interrupted_says_nothing_of_attempts_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    def stop(*_: object, **__: object) -> bytes:
        raise KeyboardInterrupt

    monkeypatch.setattr("evalkit.sealing.ask_passphrase", stop)
    outcome = cli("keys", "init")
    assert (outcome.code, outcome.err.strip()) == (130, "evalkit: interrupted")
    monkeypatch.setattr("evalkit.decisions.evaluate", stop)
    outcome = cli("decisions", "evaluate", "RUN")
    assert outcome.code == 130
    assert "stays counted" in outcome.err


# --- export and pin -------------------------------------------------------------------------------


def test_export_without_a_name_is_ones_own_key(mine: str, tmp_path: Path) -> None:
    assert json.loads(done("keys", "export").out)["key_id"] == mine
    run = planned(tmp_path, "r")
    run_id = json.loads((run / "plan.json").read_bytes())["run_id"]
    assert json.loads(done("keys", "export", run_id).out)["key_id"] == mine
    done("keys", "rotate", "--no-passphrase")
    new = value("keys", "show", "--json")["signing"]["key_id"]
    assert json.loads(done("keys", "export").out)["rotations"][-1]["payload"]
    assert done("keys", "export").out == done("keys", "export", new).out
    # the key that planned the run, not the one of today
    assert done("keys", "export", run_id).out == done("keys", "export", mine).out


def test_export_without_a_key_says_what_to_name(tmp_path: Path, mine: str) -> None:
    places = Places.from_environment()
    places.trust.rename(tmp_path / "trust")
    outcome = cli("keys", "export")
    assert outcome.code == 11
    assert "evalkit keys init" in outcome.err
    (tmp_path / "trust").rename(places.trust)
    places.signing_key.unlink()
    outcome = cli("keys", "export")
    assert outcome.code == 2
    assert "RUN_ID" in outcome.err


def test_export_of_an_own_key_that_is_not_pinned(mine: str, make_signer: Callable[..., Any]) -> None:
    from evalkit.sealing import TrustedKey, pin

    path = Places.from_environment().trust
    path.unlink()
    pin(path, TrustedKey.of(make_signer().public_key))
    outcome = cli("keys", "export")
    assert outcome.code == 2
    assert "evalkit keys init pins it" in outcome.err


def test_pinning_again_says_that_nothing_changed(mine: str, tmp_path: Path, her: Verifier) -> None:
    entry = handed_over(tmp_path, mine)
    assert f"pinned {mine}" in her("keys", "pin", entry).out
    again = her("keys", "pin", entry)
    assert (again.code, again.out.splitlines()[0]) == (0, f"pinned already, nothing changed: {mine}")
    assert json.loads(her("keys", "pin", entry, "--json").out)["added"] == []
    done("keys", "rotate", "--no-passphrase")
    chain = handed_over(tmp_path, mine, "chain.json")
    assert "nothing changed" not in her("keys", "pin", chain).out
    assert "nothing changed" in her("keys", "pin", chain).out


def test_what_is_no_entry_is_not_the_trust_files_fault(mine: str, tmp_path: Path) -> None:
    run = planned(tmp_path, "r")
    outcome = cli("keys", "pin", run / "plan.json")
    assert outcome.code == 2
    assert "this is no key entry" in outcome.err
    record = json.loads(handed_over(tmp_path, mine).read_text())
    done("keys", "rotate", "--no-passphrase")
    chain = json.loads(handed_over(tmp_path, mine, "chain.json").read_text())
    chain["rotations"][0]["signatures"][0]["sig"] = chain["rotations"][0]["signatures"][0]["sig"][::-1]
    before = Places.from_environment().trust.read_bytes()
    for bad in (record | {"public_key": "00" * 32}, record | {"custody": "mine"}, chain,
                chain | {"entry": record | {"roles": [1]}}):  # fmt: skip
        (tmp_path / "bad.json").write_text(json.dumps(bad))
        outcome = cli("keys", "pin", tmp_path / "bad.json")
        assert outcome.code == 11
        assert "nothing was pinned" in outcome.err
        assert "trust file" not in outcome.err
    assert Places.from_environment().trust.read_bytes() == before


@pytest.mark.parametrize(
    "command", [["keys", "list"], ["keys", "export"], ["timestamps", "list"]], ids=" ".join
)
def test_a_newcomer_without_a_trust_file_hears_of_init(command: list[str], tmp_path: Path) -> None:
    done("keys", "init", "--no-passphrase")
    Places.from_environment().trust.unlink()
    outcome = cli(*command)
    assert outcome.code == 11
    assert "evalkit keys init" in outcome.err


# --- revoke ---------------------------------------------------------------------------------------


def test_revoke_by_the_first_digits(mine: str, tmp_path: Path) -> None:
    run = planned(tmp_path, "r")
    assert cli("verify", run).code == 0
    short = mine.removeprefix("sha256:")[:8]
    said = done("keys", "revoke", short, "--reason", "compromised").out
    assert mine in said
    assert "revoked since" in said
    assert value("keys", "list", "--json")["keys"][0]["status"] == "revoked"
    outcome = cli("verify", run)
    assert outcome.code == 11
    assert "revoked since" in outcome.err
    assert cli("decisions", "evaluate", run, "--write-run").code == 11
    assert cli("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path / "s").code == 11
    assert not (tmp_path / "s").exists()


def test_revoke_again_and_narrower(mine: str) -> None:
    path = Places.from_environment().trust
    done("keys", "revoke", mine, "--reason", "lost", "--since", "2026-11-02T00:00:00Z", "--comment", "train")
    before = path.read_bytes()
    done("keys", "revoke", mine, "--reason", "lost")
    assert path.read_bytes() == before
    later = cli("keys", "revoke", mine, "--reason", "lost", "--since", "2026-11-03T00:00:00Z")
    assert later.code == 2
    assert "never shrinks" in later.err
    assert path.read_bytes() == before
    made = value(
        "keys", "revoke", mine, "--reason", "compromised", "--since", "2026-11-01T01:00:00+01:00", "--json"
    )
    assert made["revocation"] == {
        "key_id": mine, "since": "2026-11-01T00:00:00Z", "reason": "compromised", "comment": "train"
    }  # fmt: skip


@pytest.mark.parametrize(
    "arguments",
    [
        ["KEY"],
        ["KEY", "--reason", "tired"],
        ["KEY", "--reason", "lost", "--since", "yesterday"],
        ["KEY", "--reason", "lost", "--since", "2026-11-02T00:00:00"],
        ["KEY", "--reason", "lost", "--since", "2999-01-01T00:00:00Z"],
        ["1234567", "--reason", "lost"],
        ["sha256:", "--reason", "lost"],
        ["ffffffffffffffff0", "--reason", "lost"],
        ["*", "--reason", "lost"],
    ],
    ids=" ".join,
)
def test_mistakes_of_revoke_change_nothing(mine: str, arguments: list[str]) -> None:
    path = Places.from_environment().trust
    before = path.read_bytes()
    outcome = cli("keys", "revoke", *[mine if a == "KEY" else a for a in arguments])
    assert outcome.code == 2
    assert outcome.err.strip()
    assert "Traceback" not in outcome.err
    assert path.read_bytes() == before


def test_a_prefix_must_fit_one_key_only(make_signer: Callable[..., Any]) -> None:
    from evalkit.errors import EvalkitError
    from evalkit.sealing import TrustedKey

    keys = [TrustedKey.of(make_signer().public_key) for _ in range(2)]
    twins = [k.key_id for k in keys]
    trust = Trust(Path("t"), "sha256:" + "0" * 64, tuple(keys))
    assert trust.find(twins[0]) == keys[0]
    assert trust.find(twins[1][7:15]) == keys[1]
    for key, prefix in zip(keys, ("a" * 9 + "1", "a" * 9 + "2"), strict=True):
        object.__setattr__(key, "key_id", "sha256:" + prefix + key.key_id[17:])
    with pytest.raises(EvalkitError, match="names 2 pinned keys"):
        trust.find("aaaaaaaa")
    assert trust.find("aaaaaaaaa1") == keys[0]


def test_a_stolen_key_is_revoked_and_its_successor_pinned_again(
    mine: str, tmp_path: Path, her: Verifier
) -> None:
    """The way back: the old key is revoked, what hangs from it is suspended, then decided anew."""
    assert her("keys", "pin", handed_over(tmp_path, mine)).code == 0
    done("keys", "rotate", "--no-passphrase")
    new = value("keys", "show", "--json")["signing"]["key_id"]
    assert her("keys", "pin", handed_over(tmp_path, new)).code == 0
    run = seen(tmp_path, planned(tmp_path, "r"))
    assert her("verify", run).code == 0

    said = her("keys", "revoke", mine, "--reason", "compromised").out
    assert f"suspended {new}" in said
    assert "--again" in said
    outcome = her("verify", run)
    assert outcome.code == 11
    assert "suspended" in outcome.err
    # the chain proves nothing any more
    assert her("keys", "pin", handed_over(tmp_path, new)).code == 11
    # The owner revokes it as well, and now hands over the entry alone.
    done("keys", "revoke", mine, "--reason", "compromised")
    entry = handed_over(tmp_path, new, "again.json")
    assert json.loads(entry.read_text())["key_id"] == new
    refused = her("keys", "pin", entry)
    assert refused.code == 11
    assert "--again" in refused.err
    assert her("keys", "pin", entry, "--again").code == 0
    assert her("verify", run).code == 0


def test_a_key_that_ended_names_no_successor_any_more(mine: str, tmp_path: Path, her: Verifier) -> None:
    """Its thief can date a rotation to before the end, so her decision is needed once more."""
    entry = json.loads(handed_over(tmp_path, mine).read_text())
    turned = value("keys", "rotate", "--no-passphrase", "--json")
    new = turned["next"]
    end = datetime.fromisoformat(turned["ends_previous"]) + timedelta(microseconds=1)
    ended = tmp_path / "ended.json"
    ended.write_text(json.dumps(entry | {"valid_until": end.isoformat().replace("+00:00", "Z")}))
    assert her("keys", "pin", ended).code == 0
    chain = handed_over(tmp_path, new, "chain.json")
    refused = her("keys", "pin", chain)
    assert refused.code == 11
    assert "--again" in refused.err
    assert new not in her("keys", "list").out
    again = her("keys", "pin", chain, "--again")
    assert again.code == 0
    assert "proven by" not in again.out
    assert "compare this id with the key's owner" in again.out
    assert new in her("keys", "list").out


def test_rotate_asks_for_both_passphrases_at_the_terminal(home_of_its_own: Path) -> None:
    """The old key's, and then the new key's twice; neither is shown."""
    command = [sys.executable, "-m", "evalkit", "keys"]
    code, output = in_a_terminal([*command, "init"], [b"old horse", b"old horse"])
    assert code == 0, output
    code, output = in_a_terminal([*command, "rotate"], [b"old horse", b"new horse", b"new horse"])
    assert code == 0, output
    assert b"horse" not in output
    assert [line.split(b": ")[0].split(b" /")[0] for line in output.splitlines()[:3]] == [
        b"Current passphrase for", b"New passphrase", b"Once more"
    ]  # fmt: skip
    shown = value("keys", "show", "--json")
    assert shown["signing"]["encrypted"]
    assert shown["retired"][0]["encrypted"]
    # Twice different, or empty: nothing is made.
    places = Places.from_environment()
    before = {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()}
    for typed in ([b"new horse", b"a", b"b"], [b"new horse", b""]):
        code, output = in_a_terminal([*command, "rotate"], typed)
        assert code == 2
        assert b"not repeated" in output
    assert {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()} == before


def in_a_terminal(arguments: list[str], answers: list[bytes], *, timeout: float = 60) -> tuple[int, bytes]:
    """Run a program with a controlling terminal; give the next answer at each prompt."""
    pid, master = pty.fork()
    if pid == 0:
        try:
            os.execv(arguments[0], arguments)
        finally:
            os._exit(127)
    output, end, left = b"", time.monotonic() + timeout, list(answers)
    try:
        while time.monotonic() < end:
            if select.select([master], [], [], 0.1)[0]:
                try:
                    part = os.read(master, 4096)
                except OSError:
                    break
                if not part:
                    break
                output += part
                if left and output.endswith(b": "):
                    os.write(master, left.pop(0) + b"\n")
        _, status = os.waitpid(pid, 0)
    finally:
        os.close(master)
    return os.waitstatus_to_exitcode(status), output
