"""Evaluate and reveal killed (SIGKILL) at random moments: an allowed state, and then the same result."""

from __future__ import annotations

import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from decisions.support import World, evaluate_world
from sealing.killing import killed_after, usual

from evalkit.decisions import evaluate, reveal, verify_run
from evalkit.errors import Binding, BindingError, Blocked
from evalkit.sealing import canonical_json, digest, load_canonical

pytestmark = pytest.mark.usefixtures("quick_signer")

KILLS = 100


def evaluating(world: World) -> Callable[[], Any]:
    return lambda: evaluate(world.run, write_run=True, places=world.places)


def revealing(world: World) -> Callable[[], Any]:
    return lambda: reveal(world.run, write_calibration=True, places=world.places)


def killed_worlds(
    original: World, root: Path, act: Callable[[World], Callable[[], Any]], kills: int, seed: str
) -> Iterator[tuple[World, random.Random]]:
    """Copies of a world in which ``act`` was killed at work, ``kills`` of them."""
    rng = random.Random(digest(canonical_json(["kills", seed])))

    @contextmanager
    def copied() -> Iterator[World]:
        yield original.copy(root / "w")
        shutil.rmtree(root / "w")

    def once() -> float:
        with copied() as world:
            return usual(lambda: act(world), times=1)

    with copied() as world:
        act(world)()  # imports what is imported late, in this process
    takes = 1.05 * sorted(once() for _ in range(5))[2]
    killed = 0
    for trial in range(3 * kills):
        with copied() as world:
            # Every second one in the last quarter, where the commit is.
            if killed_after(act(world), rng.uniform(takes * 0.75 * (trial % 2), takes)) is None:
                killed += 1
                takes *= 1.01
                print(f"trial {trial} of the seed {seed}")
                yield world, rng
            else:
                takes *= 0.97  # the machine is quicker now than when it was measured
        if killed == kills:
            return
    raise AssertionError("too few kills met it at work")


def document(world: World, name: str) -> dict[str, Any]:
    value: dict[str, Any] = load_canonical((world.run / name).read_bytes())
    return value


def scores(world: World) -> list[tuple[str, str]]:
    cases = document(world, "ex-ante/run.json")["cases"]
    return [(c["response"]["raw_digest"], c["score_digest"]) for c in cases]


def nothing_is_left_open(world: World) -> None:
    assert not list(world.run.glob(".stage*"))
    assert set(world.states()) <= {"begun", "lost", "committed"}
    assert world.states().count("committed") == 1


def kill_evaluate(planned: World, evaluated: World, revealed: World, root: Path, kills: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for world, rng in killed_worlds(planned, root, evaluating, kills, "evaluate"):
        before = world.states()
        assert before in ([], ["begun"], ["intent"], ["committed"])
        if rng.random() < 0.5:
            # Whoever goes straight on to the reveal finds a whole pair, or is refused.
            try:
                reveal(world.run, places=world.places)
            except BindingError as error:
                refused = error.binding
            else:
                refused = None
            assert refused is (None if (world.run / "ex-ante").exists() else Binding.RUN)
            assert not (world.run / "reveal").exists()
        try:
            result = evaluate_world(world)
        except Blocked:
            assert world.states() == ["committed"], "the pair was whole: there is no second one"
            outcomes["whole"] += 1
        else:
            assert result.document["attempts"] == len(before) + 1, "the killed attempt stays counted"
            outcomes[f"again after {''.join(before) or 'nothing'}"] += 1
        nothing_is_left_open(world)
        assert scores(world) == scores(evaluated)
        reveal(world.run, write_calibration=True, places=world.places)
        assert verify_run(world.run, places=world.places).phase == "post_reveal_calibration"
        name = "reveal/calibration.json"
        assert document(world, name)["cases"] == document(revealed, name)["cases"]
    print(dict(outcomes))
    return outcomes


def kill_reveal(evaluated: World, revealed: World, root: Path, kills: int) -> Counter[str]:
    outcomes: Counter[str] = Counter()
    for world, _ in killed_worlds(evaluated, root, revealing, kills, "reveal"):
        before = world.states("reveal")
        assert before in ([], ["begun"], ["intent"], ["committed"])
        try:
            reveal(world.run, write_calibration=True, places=world.places)
        except Blocked:
            assert world.states("reveal") == ["committed"]
            outcomes["whole"] += 1
        else:
            assert len(world.states("reveal")) == len(before) + 1
            outcomes[f"again after {''.join(before) or 'nothing'}"] += 1
        nothing_is_left_open(world)
        assert world.states("reveal").count("committed") == 1
        assert verify_run(world.run, places=world.places).phase == "post_reveal_calibration"
        name = "reveal/calibration.json"
        assert document(world, name)["cases"] == document(revealed, name)["cases"]
    print(dict(outcomes))
    return outcomes


def test_some_random_kills(
    planned_once: World, evaluated_once: World, revealed_once: World, tmp_path: Path
) -> None:
    assert kill_evaluate(planned_once, evaluated_once, revealed_once, tmp_path, 3).total() == 3
    assert kill_reveal(evaluated_once, revealed_once, tmp_path, 3).total() == 3


@pytest.mark.slow
def test_evaluate_killed_at_random_moments(
    planned_once: World, evaluated_once: World, revealed_once: World, tmp_path: Path
) -> None:
    outcomes = kill_evaluate(planned_once, evaluated_once, revealed_once, tmp_path, KILLS)
    assert outcomes.total() == KILLS
    assert outcomes["again after nothing"], "before the attempt"
    assert outcomes["again after begun"], "while the model answers"


@pytest.mark.slow
def test_reveal_killed_at_random_moments(evaluated_once: World, revealed_once: World, tmp_path: Path) -> None:
    outcomes = kill_reveal(evaluated_once, revealed_once, tmp_path, KILLS)
    assert outcomes.total() == KILLS
    assert outcomes["again after nothing"]
