"""A run whose answers come over HTTP, and its replay."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from decisions.support import CASES, PAIR, Outcome, World, cli

from evalkit.decisions.baseline import analyse

from .server import Seen, completion, serving

SECRET = "sk-not-to-be-seen-anywhere"


def baseline(seen: Seen) -> Any:
    """The baseline's record, read out of the prompt that came over the wire."""
    prompt = seen.json["messages"][0]["content"].encode()
    return 200, {}, completion(analyse(prompt).decode(), model="stub-1")


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World(tmp_path / "w")
    for folder in (made.config, made.state, made.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(made.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(made.state))
    monkeypatch.setenv("OPENAI_API_KEY", SECRET)
    return made


def ok(*arguments: str | Path) -> Outcome:
    done = cli(*arguments)
    assert done.code == 0, done.err
    return done


def test_end_to_end_over_http_and_its_replay(world: World) -> None:
    with serving(baseline) as service:
        ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", world.run,
           "--model", "openai:stub", "--base-url", service.base_url)  # fmt: skip
        assert service.seen == [], "a precommit calls nobody"
        summary = json.loads(ok("decisions", "evaluate", world.run, "--write-run", "--json").out)
        assert len(service.seen) == 2, "one fresh call a case"
    assert summary["eligible"] is True
    assert summary["replayed"] is False
    assert len({s.json["messages"][0]["content"] for s in service.seen}) == 2
    run = json.loads((world.run / "ex-ante" / "run.json").read_bytes())
    assert {c["trace"]["served_model"] for c in run["cases"]} == {"stub-1"}
    ok("decisions", "reveal", world.run, "--write-calibration")
    ok("verify", world.run)
    for path in [*world.root.rglob("*")]:
        if path.is_file():
            assert SECRET.encode() not in path.read_bytes(), path

    again = world.run.parent / "replayed"
    ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", again,
       "--replay", world.run / "ex-ante" / "run.json")  # fmt: skip
    done = ok("decisions", "evaluate", again, "--write-run")
    assert "replayed" in done.out
    replayed = json.loads((again / "ex-ante" / "run.json").read_bytes())
    assert replayed["replayed"] is True
    assert all(c["trace"]["replayed"] for c in replayed["cases"])
    assert "replayed from a file" in ok("verify", again).out
    first, second = ({c["case_id"]: c["score"] for c in r["cases"]} for r in (run, replayed))
    assert first == second
    assert json.loads(ok("decisions", "reveal", again, "--json").out)["replayed"] is True


def test_another_model_at_evaluate_is_refused(world: World, tmp_path: Path) -> None:
    with serving(baseline) as service:
        ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", world.run,
           "--model", "openai:stub", "--base-url", service.base_url)  # fmt: skip
        evaluate = ("decisions", "evaluate", world.run, "--write-run")
        assert cli(*evaluate, "--model", "openai:other", "--base-url", service.base_url).code == 15
        assert cli(*evaluate, "--model", "openai:stub", "--base-url", service.base_url + "/x").code == 15
        assert cli(*evaluate, "--model", "baseline").code == 15
        assert cli(*evaluate, "--base-url", service.base_url).code == 2
        assert service.seen == []
        assert world.states() == []
        ok(*evaluate, "--model", "openai:stub", "--base-url", service.base_url)


def test_the_sealed_model_can_be_named_whatever_its_key_variable(world: World) -> None:
    with serving(baseline) as service:
        named = ("--model", "openai:stub", "--base-url", service.base_url)
        ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", world.run, *named,
           "--api-key-variable", "OTHER_KEY")  # fmt: skip
        ok("decisions", "evaluate", world.run, *named)
    assert "authorization" not in service.seen[0].headers


def test_another_replay_at_evaluate_is_refused(evaluated: World, tmp_path: Path) -> None:
    again = evaluated.run.parent / "again"
    recorded = evaluated.run / "ex-ante" / "run.json"
    ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", again, "--replay", recorded)
    other = tmp_path / "other.json"
    value = json.loads((again / "model" / "replay.json").read_bytes())
    value["records"][0]["text"] += " "
    other.write_text(json.dumps(value))
    assert cli("decisions", "evaluate", again, "--replay", other).code == 15
    ok("decisions", "evaluate", again, "--replay", recorded)


def test_a_changed_replay_file_is_refused(evaluated: World) -> None:
    again = evaluated.run.parent / "again"
    ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", again,
       "--replay", evaluated.run / "ex-ante" / "run.json")  # fmt: skip
    path = again / "model" / "replay.json"
    path.write_bytes(path.read_bytes().replace(b"0.2", b"0.3", 1))
    assert cli("decisions", "evaluate", again, "--write-run").code == 15
    path.unlink()
    assert cli("verify", again).code == 15


@pytest.mark.parametrize(
    ("status", "body"), [(500, b"no"), (401, b"no"), (200, b"<html>"), (302, b"")], ids=str
)
def test_a_failing_service_is_one_counted_attempt(world: World, status: int, body: bytes) -> None:
    with serving(lambda seen: (status, {}, body)) as service:
        ok("decisions", "precommit", CASES, "--pair", PAIR, "--out", world.run,
           "--model", "openai:stub", "--base-url", service.base_url)  # fmt: skip
        done = cli("decisions", "evaluate", world.run, "--write-run")
    assert done.code == 6
    assert "Traceback" not in done.err
    assert SECRET not in done.err + done.out
    assert len(service.seen) == 1
    assert world.states() == ["abandoned"]
    assert not (world.run / "ex-ante").exists()
