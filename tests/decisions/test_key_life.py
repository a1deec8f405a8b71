"""Keys of decision runs: made and taken back by precommit, and the times at which they sign."""

from __future__ import annotations

import base64
import json
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import evaluate, precommit, precommitment, reveal, verify_run
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import PREDICATES, Ledger, Trust, commit_directory, sign

from .forging import own_signer
from .support import CASES, PAIR, World, make_world


class Failed(Exception):
    """Whatever goes wrong in the middle of a precommit."""


def fail(*_: Any, **__: Any) -> None:
    raise Failed


def empty_world(root: Path) -> World:
    world = World(root)
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    return world


def ephemeral_keys(world: World) -> list[str]:
    return sorted(p.name for p in (world.places.state / "ephemeral").glob("*/*"))


def pins(world: World) -> tuple[str, ...]:
    return tuple(k.key_id for k in Trust.load(world.places.trust, []).keys)


@pytest.mark.parametrize("step", ["check_custodian", "sign", "verify", "commit_directory"])
def test_a_failed_precommit_leaves_neither_key_nor_pin(
    tmp_path: Path, step: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = empty_world(tmp_path / "w")
    with monkeypatch.context() as patch:
        patch.setattr(precommitment, step, fail)
        with pytest.raises(Failed):
            precommit(CASES, pair=PAIR, out=world.run, places=world.places)
    assert ephemeral_keys(world) == []
    assert list((world.places.state / "ephemeral").iterdir()) == []
    assert pins(world) == ()
    assert not world.run.exists()
    precommit(CASES, pair=PAIR, out=world.run, places=world.places)
    assert ephemeral_keys(world) == ["signing", "unsealing.pem"]
    assert len(pins(world)) == 1


def test_a_refused_pin_leaves_no_key(tmp_path: Path) -> None:
    world = empty_world(tmp_path / "w")
    world.places.trust.parent.mkdir(mode=0o700)
    world.places.trust.write_text("no trust file")
    with pytest.raises(BindingError):
        precommit(CASES, pair=PAIR, out=world.run, places=world.places)
    assert ephemeral_keys(world) == []
    assert world.places.trust.read_text() == "no trust file"


def test_a_failed_precommit_takes_nothing_from_an_older_run(planned: World, tmp_path: Path) -> None:
    """The same run id again: the keys that are there are another run's."""
    before, pinned = ephemeral_keys(planned), pins(planned)
    with pytest.raises(EvalkitError, match="there is a file already"):
        precommit(CASES, pair=PAIR, out=tmp_path / "again", places=planned.places, run_id=planned.run_id)
    assert (ephemeral_keys(planned), pins(planned)) == (before, pinned)
    evaluate(planned.run, write_run=True, places=planned.places)


def test_a_failure_after_the_run_is_there_keeps_its_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = empty_world(tmp_path / "w")

    def late(*arguments: Any) -> None:
        commit_directory(*arguments)
        raise Failed

    monkeypatch.setattr(precommitment, "commit_directory", late)
    with pytest.raises(Failed):
        precommit(CASES, pair=PAIR, out=world.run, places=world.places)
    evaluate(world.run, write_run=True, places=world.places)


# --- the end of a run's keys ----------------------------------------------------------------------


def test_keys_that_were_made_for_a_run_end_with_its_reveal(evaluated: World) -> None:
    """What is gone can be stolen no more; the pin stays, for the run is verified with it."""
    folder = evaluated.places.ephemeral(evaluated.run_id)
    reveal(evaluated.run, places=evaluated.places)
    assert sorted(path.name for path in folder.iterdir()) == ["signing", "unsealing.pem"]
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)
    assert not folder.exists()
    assert verify_run(evaluated.run, places=evaluated.places).phase == "post_reveal_calibration"
    with pytest.raises(Blocked, match="revealed already"):
        reveal(evaluated.run, write_calibration=True, places=evaluated.places)


def test_keys_that_a_crash_left_go_at_the_next_reveal(
    evaluated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("evalkit.decisions.calibration.discard_ephemeral", lambda *_: None)
        reveal(evaluated.run, write_calibration=True, places=evaluated.places)
    assert evaluated.places.ephemeral(evaluated.run_id).exists()
    with pytest.raises(Blocked, match="revealed already"):
        reveal(evaluated.run, write_calibration=True, places=evaluated.places)
    assert not evaluated.places.ephemeral(evaluated.run_id).exists()


# --- times ----------------------------------------------------------------------------------------


def signed_at(world: World, name: str) -> str:
    envelope = json.loads((world.run / name).read_bytes())
    return str(json.loads(base64.b64decode(envelope["payload"]))["predicate"]["signed_at"])


def test_phases_are_signed_at_the_time_of_their_intent(revealed: World) -> None:
    intents = {
        e.record["phase"]: e.record["time"]
        for e in revealed.ledger.entries()
        if e.record["event"] == "intent"
    }
    assert signed_at(revealed, "ex-ante/run.dsse.json") == intents["ex-ante"]
    assert signed_at(revealed, "reveal/calibration.dsse.json") == intents["reveal"]
    assert signed_at(revealed, "plan.dsse.json") >= revealed.plan["created_at"]


def test_the_plan_is_signed_at_the_time_of_the_clock(tmp_path: Path) -> None:
    at = datetime(2026, 11, 1, 12, tzinfo=UTC)
    world = make_world(tmp_path / "w", clock=lambda: at)
    assert signed_at(world, "plan.dsse.json") == "2026-11-01T12:00:00.000000Z" == world.plan["created_at"]


@pytest.mark.parametrize(
    ("phase", "name", "kind"),
    [("ex-ante", "run.json", "decisions/ex-ante"), ("reveal", "calibration.json", "decisions/reveal")],
)
@pytest.mark.parametrize("by", [timedelta(microseconds=-1), timedelta(days=-40)])
def test_a_phase_cannot_be_dated_otherwise_than_its_intent(
    revealed: World, evaluated_once: World, phase: str, name: str, kind: str, by: timedelta
) -> None:
    """Clock rollback: a later signature, dated to when the key was still valid."""
    # a dishonest owner keeps a copy of the run's keys, which reveal deletes
    kept = revealed.places.ephemeral(revealed.run_id)
    shutil.copytree(evaluated_once.places.ephemeral(revealed.run_id), kept)
    path = revealed.run / phase / f"{name.removesuffix('.json')}.dsse.json"
    predicate = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))["predicate"]
    at = datetime.fromisoformat(predicate.pop("signed_at"))

    def resign(when: datetime) -> None:
        document = (revealed.run / phase / name).read_bytes()
        kind_uri = PREDICATES[kind]
        path.write_bytes(
            sign(
                name,
                document,
                predicate_type=kind_uri,
                predicate=predicate,
                signer=own_signer(revealed),
                at=when,
            )
        )

    resign(at)
    verify_run(revealed.run, places=revealed.places)
    resign(at + by)
    with pytest.raises(BindingError, match="it was signed at") as caught:
        verify_run(revealed.run, places=revealed.places)
    assert caught.value.binding is Binding.RUN


def test_a_run_dated_in_the_future_is_refused(tmp_path: Path) -> None:
    """By whoever checks it with a clock of her own."""
    world = make_world(tmp_path / "w", clock=lambda: datetime.now(UTC) + timedelta(days=1))
    with pytest.raises(BindingError, match="still to come") as caught:
        verify_run(world.run, places=world.places)
    assert caught.value.binding is Binding.ATTESTATION


def edited(world: World, **fields: Any) -> None:
    """The entry of the run's key with other fields, as a person edits it."""
    value = json.loads(world.places.trust.read_bytes())
    value["keys"][0] |= fields
    world.places.trust.write_text(json.dumps(value))


@pytest.mark.parametrize(
    ("step", "phase"),
    [
        (lambda w: evaluate(w.run, write_run=True, places=w.places), "ex-ante"),
        (lambda w: reveal(w.run, write_calibration=True, places=w.places), "reveal"),
    ],
)
def test_an_expired_key_spends_no_attempt(planned: World, step: Callable[[World], Any], phase: str) -> None:
    if phase == "reveal":
        evaluate(planned.run, write_run=True, places=planned.places)
    edited(planned, valid_until=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ"))
    ledger = Ledger(planned.places.ledger(planned.plan["signing_key_id"]))
    before = ledger.head
    with pytest.raises(BindingError, match="valid only until") as caught:
        step(planned)
    assert caught.value.binding is Binding.AUTHORITY
    assert ledger.head == before
