"""A bundle serves one run: a second plan of it is refused where it is made, whichever key made the first."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from decisions.support import World
from evalkit.decisions import precommitment
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.errors import Binding, BindingError, Blocked
from evalkit.sealing import pin

from .people import Two, entry
from .test_rotated_keys import OVERLAP, rotatable, turn


def refused(two: Two, was: str, **options: object) -> None:
    out = two.root / "r2"
    with pytest.raises(Blocked, match=f"was {was} already, in another folder") as error:
        two.plan(out=out, **options)
    assert error.value.exit_code == 5
    assert "ask the custodian for another bundle" in error.value.do
    assert not out.exists()


def test_a_second_plan_is_refused(planned: Two) -> None:
    entries = len(planned.evaluator.ledger.entries())
    refused(planned, "planned")
    refused(planned, "planned", supersedes=planned.run, reason="another model")
    assert len(planned.evaluator.ledger.entries()) == entries


def test_and_says_that_the_first_one_has_its_result(evaluated: Two) -> None:
    refused(evaluated, "evaluated")


def test_a_new_key_makes_no_second_plan(planned: Two) -> None:
    two = rotatable(planned)
    turn(two.evaluator, OVERLAP)
    refused(two, "planned")


def test_keys_made_for_the_run_make_no_second_plan(strangers: Two) -> None:
    world = World(strangers.root / "evaluator")
    shutil.rmtree(world.config)
    world.config.mkdir(mode=0o700)
    pin(world.places.trust, entry(strangers.custodian, CUSTODY_PHASES))
    strangers.seal()
    assert strangers.plan().ephemeral_keys
    refused(strangers, "planned")


@pytest.fixture
def twice(planned: Two, monkeypatch: pytest.MonkeyPatch) -> tuple[Two, Path]:
    """Two plans of one bundle, as a run folder of an older version may be; the first one is evaluated."""
    monkeypatch.setattr(precommitment, "refuse_second_plan", lambda run_id, places: None)
    planned.plan(out=planned.root / "r2", attempt_cap=9)
    planned.evaluate()
    return planned, planned.root / "r2"


def test_a_second_plan_that_is_there_is_no_tampering(twice: tuple[Two, Path]) -> None:
    two, second = twice
    before = sorted(second.rglob("*"))
    for act in (lambda: two.evaluate(second), lambda: two.reveal(two.opening, second)):
        with pytest.raises(Blocked, match="was evaluated already, in another folder"):
            act()
    assert sorted(second.rglob("*")) == before


def test_a_result_that_was_taken_away_still_is(evaluated: Two) -> None:
    shutil.rmtree(evaluated.run / "ex-ante")
    with pytest.raises(BindingError, match="gone") as error:
        evaluated.evaluate()
    assert error.value.binding is Binding.RUN
