"""W34: a process killed (SIGKILL) at any step of a commit leaves the whole pair, or nothing that counts."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from decisions.support import CASES, PAIR, World, evaluate_world

from evalkit.decisions import evaluate, precommit, reveal, verify_run
from evalkit.errors import BindingError, Blocked

pytestmark = pytest.mark.usefixtures("quick_signer")


def steps_of(act: Callable[..., Any]) -> list[str]:
    """The names of the steps that ``act`` goes through."""
    seen: list[str] = []
    act(observe=seen.append)
    return seen


def killed_at(act: Callable[..., Any], n: int) -> None:
    """Run ``act`` in a process of its own and kill it at its n-th step."""
    pid = os.fork()
    if pid == 0:
        count = -1

        def observe(step: str) -> None:
            nonlocal count
            count += 1
            if count == n:
                os.kill(os.getpid(), signal.SIGKILL)

        try:
            act(observe=observe)
        finally:
            os._exit(3)
    _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status), f"it was not killed at step {n}"
    assert os.WTERMSIG(status) == signal.SIGKILL


def evaluating(world: World) -> Callable[..., Any]:
    return lambda observe: evaluate(world.run, write_run=True, places=world.places, observe=observe)


def revealing(world: World) -> Callable[..., Any]:
    return lambda observe: reveal(world.run, write_calibration=True, places=world.places, observe=observe)


@pytest.fixture(scope="module")
def evaluate_steps(planned_once: World, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return steps_of(evaluating(planned_once.copy(tmp_path_factory.mktemp("steps") / "w")))


@pytest.fixture(scope="module")
def reveal_steps(evaluated_once: World, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return steps_of(revealing(evaluated_once.copy(tmp_path_factory.mktemp("steps") / "w")))


EXPECTED = 22


def test_the_steps_are_those_that_this_file_counts(
    evaluate_steps: list[str], reveal_steps: list[str]
) -> None:
    assert evaluate_steps == reveal_steps
    assert len(evaluate_steps) == EXPECTED, evaluate_steps
    assert {"intent", "sign", "stage-mkdir", "rename", "parent-fsync", "committed"} <= set(evaluate_steps)


@pytest.mark.parametrize("n", range(EXPECTED))
def test_killed_in_evaluate_then_revealed(planned: World, evaluate_steps: list[str], n: int) -> None:
    killed_at(evaluating(planned), n)
    renamed = n > evaluate_steps.index("rename")
    staged = n > evaluate_steps.index("stage-fsync")
    try:
        reveal(planned.run, write_calibration=True, places=planned.places)
    except BindingError:
        assert not staged, "a complete stage is rolled forward"
        assert not (planned.run / "ex-ante").exists()
        assert not (planned.run / "reveal").exists()
        assert planned.states() in (["begun"], ["lost"])
    else:
        assert planned.states() == ["committed"]
        assert verify_run(planned.run, places=planned.places).phase == "post_reveal_calibration"
    if renamed:
        assert (planned.run / "reveal").exists()
    assert not list(planned.run.glob(".stage*"))


def every_fourth_is_fast(steps: int) -> list[Any]:
    return [n if n % 4 == 1 else pytest.param(n, marks=pytest.mark.slow) for n in range(steps)]


@pytest.mark.parametrize("n", every_fourth_is_fast(EXPECTED))
def test_killed_in_evaluate_then_evaluated_again(planned: World, n: int) -> None:
    killed_at(evaluating(planned), n)
    try:
        result = evaluate_world(planned)
    except Blocked:
        assert planned.states() == ["committed"], "the pair was whole: there is no second one"
    else:
        assert result.document["attempts"] == 2, "the lost attempt stays counted"
        assert planned.states() in (["begun", "committed"], ["lost", "committed"])
    verify_run(planned.run, places=planned.places)
    reveal(planned.run, write_calibration=True, places=planned.places)


@pytest.mark.parametrize("n", every_fourth_is_fast(EXPECTED))
def test_killed_in_reveal_then_revealed_again(evaluated: World, n: int) -> None:
    killed_at(revealing(evaluated), n)
    try:
        reveal(evaluated.run, write_calibration=True, places=evaluated.places)
    except Blocked:
        assert evaluated.states("reveal") == ["committed"]
    else:
        assert evaluated.states("reveal") in (["begun", "committed"], ["lost", "committed"])
    assert verify_run(evaluated.run, places=evaluated.places).phase == "post_reveal_calibration"


def test_killed_twice_and_the_cap_still_holds(planned: World, evaluate_steps: list[str]) -> None:
    """Killing before the commit discards a score, and never the count of it."""
    for _ in range(3):
        killed_at(evaluating(planned), evaluate_steps.index("sign"))
    with pytest.raises(Blocked, match="all 3 attempts"):
        evaluate_world(planned)
    assert planned.states() == ["lost", "lost", "lost"]


def test_killed_while_the_model_answers(planned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.decisions import baseline, evaluation
    from evalkit.decisions.baseline import VERSION
    from evalkit.models.local import CallableProvider

    def die(prompt: bytes) -> bytes:
        os.kill(os.getpid(), signal.SIGKILL)
        return b""

    with monkeypatch.context() as patch:
        provider = CallableProvider(
            die, name="evalkit-baseline", version=VERSION, source=Path(baseline.__file__)
        )
        patch.setattr(evaluation, "provider_for", lambda model: provider)
        pid = os.fork()
        if pid == 0:
            evaluate(planned.run, write_run=True, places=planned.places)
            os._exit(3)
        _, status = os.waitpid(pid, 0)
    assert os.WIFSIGNALED(status)
    assert planned.states() == ["begun"]
    assert evaluate_world(planned).document["attempts"] == 2


def test_killed_in_precommit_leaves_no_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.decisions import precommitment
    from evalkit.sealing import commit_directory

    world = World(tmp_path / "w")
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)

    def act(observe: Callable[[str], None]) -> None:
        monkeypatch.setattr(
            precommitment,
            "commit_directory",
            lambda out, build: commit_directory(out, build, observe=observe),
        )
        precommit(CASES, pair=PAIR, out=world.run, places=world.places)

    for n in (0, 2, 5, 20):
        killed_at(act, n)
        assert not world.run.exists()
    monkeypatch.undo()
    plan = precommit(CASES, pair=PAIR, out=world.run, places=world.places)
    assert plan.run_id
    assert [p.name for p in world.run.parent.iterdir()] == ["r"], "what the killed ones left is gone"
