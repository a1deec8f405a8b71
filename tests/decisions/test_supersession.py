"""A plan is never edited: another one takes its place, and both stay visible."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import evaluate, precommit, reveal, verify_run
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import PREDICATES, create_signing_key, create_unsealing_key, pin
from evalkit.sealing.trusted_key import TrustedKey

from .support import CASES, PAIR, World, cli, make_world

WHY = "the first plan accepted a warning by mistake"


@pytest.fixture
def own_key(tmp_path: Path) -> World:
    """A planned run of a user with a key of their own."""
    world = World(tmp_path / "w")
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    public = create_signing_key(world.places.signing_key)
    create_unsealing_key(world.places.unsealing_key)
    pin(world.places.trust, TrustedKey.of(public, predicate_types=tuple(PREDICATES.values())))
    precommit(CASES, pair=PAIR, out=world.run, places=world.places)
    return world


def second(world: World, name: str = "second", **options: Any) -> Path:
    out = world.run.parent / name
    options = {"supersedes": world.run, "reason": WHY} | options
    precommit(CASES, pair=PAIR, out=out, places=world.places, **options)
    return out


def said(run: Path, world: World, words: str) -> list[tuple[str, str]]:
    report = verify_run(run, places=world.places)
    return [(line.status, line.detail) for line in report.lines if words in line.text]


def test_both_plans_stay_and_the_second_says_why(own_key: World) -> None:
    before = own_key.listing()
    run = second(own_key)
    assert own_key.listing() == before
    events = [entry.record for entry in own_key.ledger.entries()]
    assert [e["event"] for e in events] == ["precommit", "precommit", "superseded"]
    assert events[2]["run_id"] == own_key.run_id
    assert events[2]["reason"] == WHY
    ((status, detail),) = said(run, own_key, "takes the place of an earlier one")
    assert status == "policy"
    assert own_key.run_id in detail
    assert WHY in detail
    evaluate(run, write_run=True, places=own_key.places)
    reveal(run, write_calibration=True, places=own_key.places)
    assert said(run, own_key, "takes the place of an earlier one")[0][0] == "policy"


def test_the_first_plan_begins_no_attempt_any_more(own_key: World) -> None:
    run = second(own_key)
    with pytest.raises(Blocked, match="superseded by that of run"):
        evaluate(own_key.run, write_run=True, places=own_key.places)
    assert own_key.states() == []
    with pytest.raises(Blocked, match="superseded by that of run"):
        second(own_key, "third")
    assert not (run.parent / "third").exists()
    second(own_key, "third", supersedes=run)


def test_attempts_that_were_begun_are_counted_in_the_plan(own_key: World) -> None:
    """Looking at an unwritten result and planning anew is visible."""
    evaluate(own_key.run, places=own_key.places)
    evaluate(own_key.run, places=own_key.places)
    run = second(own_key)
    assert said(run, own_key, "what came of the earlier plan") == [("not proven", "2")]


def test_a_plan_with_a_result_gives_way_to_nothing(own_key: World) -> None:
    evaluate(own_key.run, write_run=True, places=own_key.places)
    size = own_key.ledger.head.size
    with pytest.raises(Blocked, match="has its ex-ante run"):
        second(own_key)
    assert own_key.ledger.head.size == size
    assert not (own_key.run.parent / "second").exists()


def test_keys_made_for_a_run_as_well(tmp_path: Path) -> None:
    """Each run has a ledger then: both tell of it."""
    world = make_world(tmp_path / "w")
    run = second(world)
    assert said(run, world, "takes the place of an earlier one")
    assert [e.record["event"] for e in world.ledger.entries()] == ["precommit", "superseded"]
    with pytest.raises(Blocked, match="superseded"):
        evaluate(world.run, places=world.places)
    evaluate(run, write_run=True, places=world.places)


def test_an_attempt_in_between_is_not_missed(own_key: World) -> None:
    with pytest.raises(Blocked, match="begun meanwhile"):
        own_key.ledger.supersede(own_key.run_id, by="r2", attempts=1)
    own_key.ledger.begin_attempt(own_key.run_id, "ex-ante")
    with pytest.raises(Blocked, match="begun meanwhile"):
        own_key.ledger.supersede(own_key.run_id, by="r2", attempts=0)


@pytest.mark.parametrize(
    ("options", "match"),
    [
        ({"reason": " "}, "no reason"),
        ({"supersedes": None}, "no plan that is superseded"),
        ({"supersedes": Path("nowhere")}, "no such run folder"),
    ],
)
def test_what_is_refused(own_key: World, options: dict[str, Any], match: str) -> None:
    with pytest.raises(EvalkitError, match=match):
        second(own_key, **options)
    assert own_key.ledger.head.size == 1


def test_a_ledger_that_knows_nothing_of_it(own_key: World) -> None:
    own_key.ledger.path.unlink()
    with pytest.raises(BindingError, match="does not tell of the plan") as caught:
        second(own_key)
    assert caught.value.binding is Binding.RUN


def test_verify_wants_the_journal_to_say_so_too(own_key: World, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("precommitment", "evaluation"):
        monkeypatch.setattr(f"evalkit.decisions.{module}.record_superseded", lambda *_: None)
    run = second(own_key)
    evaluate(run, write_run=True, places=own_key.places)
    with pytest.raises(BindingError, match="does not tell of the plan that this one supersedes"):
        verify_run(run, places=own_key.places)


def test_verify_refuses_what_came_of_a_superseded_plan(
    own_key: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A signer whose own copy of evalkit lets the first plan go on all the same."""
    own_key.ledger.append("superseded", run_id=own_key.run_id, by="other", attempts=0, plan="x", reason=WHY)
    monkeypatch.setattr("evalkit.sealing.ledger.refuse_superseded", lambda *_: None)
    evaluate(own_key.run, write_run=True, places=own_key.places)
    with pytest.raises(BindingError, match="superseded, and still something came of it"):
        verify_run(own_key.run, places=own_key.places)


def test_a_reason_adds_no_lines_to_what_verify_says(own_key: World) -> None:
    why = "a typo)\n    proven  nobody peeked (timelock.example\x1b[2J\u202e"
    plain = verify_run(second(own_key), places=own_key.places)
    run = second(own_key, "third", supersedes=own_key.run.parent / "second", reason=why)
    report = verify_run(run, places=own_key.places)
    assert len(str(report).splitlines()) == len(str(plain).splitlines())
    assert not any(line.strip().startswith("proven  nobody") for line in str(report).splitlines())
    assert not set(str(report)) & {"\x1b", "\u202e"}


def test_a_plan_does_not_supersede_itself(own_key: World) -> None:
    with pytest.raises(EvalkitError, match="has the run id of the plan that it is to supersede"):
        second(own_key, run_id=own_key.run_id)
    assert own_key.ledger.head.size == 1


def test_a_precommit_that_was_interrupted_destroys_no_plan(
    own_key: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before its folder is there, nothing has given way; after that, its first attempt records it."""

    def stop(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr("evalkit.decisions.precommitment.commit_directory", stop)
        with pytest.raises(KeyboardInterrupt):
            second(own_key)
    evaluate(own_key.run, places=own_key.places)
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.decisions.precommitment.record_superseded", stop)
        with pytest.raises(KeyboardInterrupt):
            second(own_key)
    run = own_key.run.parent / "second"
    verify_run(run, places=own_key.places)
    evaluate(run, write_run=True, places=own_key.places)
    verify_run(run, places=own_key.places)
    with pytest.raises(Blocked, match="superseded"):
        evaluate(own_key.run, places=own_key.places)


def test_an_attempt_at_the_old_plan_in_between_stops_the_new_one(
    own_key: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.decisions.precommitment.record_superseded", lambda *_: None)
        run = second(own_key)
    evaluate(own_key.run, places=own_key.places)
    with pytest.raises(Blocked, match="begun meanwhile"):
        evaluate(run, places=own_key.places)


def test_by_the_command_line(own_key: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(own_key.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(own_key.state))
    out = own_key.run.parent / "second"
    common = ("decisions", "precommit", CASES, "--pair", PAIR, "--out", out)
    done = cli(*common, "--supersedes", own_key.run)
    assert done.code == 2
    assert "no reason is given" in done.err
    assert cli(*common, "--supersedes", own_key.run, "--reason", WHY).code == 0
    assert WHY in cli("verify", out).out
    assert cli("decisions", "evaluate", own_key.run).code == 5
