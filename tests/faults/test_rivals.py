"""Two evaluations at once: one pair is committed, both attempts count, and the run can be revealed."""

from __future__ import annotations

import contextlib
import os
from typing import Any

import pytest
from decisions.support import World, evaluate_world

from evalkit.decisions import evaluate, reveal, verify_run
from evalkit.errors import EvalkitError

pytestmark = pytest.mark.usefixtures("quick_signer")


def test_an_attempt_that_begins_before_the_commit_spoils_nothing(planned: World) -> None:
    def rival(step: str) -> None:
        if step == "lock":
            planned.ledger.begin_attempt(planned.run_id, "ex-ante", write_run=False)

    evaluate(planned.run, write_run=True, places=planned.places, observe=rival)
    assert len(planned.states()) == 2
    reveal(planned.run, write_calibration=True, places=planned.places)
    verify_run(planned.run, places=planned.places)


def test_processes_that_race_commit_one_pair(planned: World) -> None:
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(EvalkitError):
                evaluate_world(planned)
                code = 0
            os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes.count(0) == 1, codes
    states = planned.states()
    assert states.count("committed") == 1
    result: Any = reveal(planned.run, write_calibration=True, places=planned.places)
    assert result.document["phase"] == "post_reveal_calibration"
    verify_run(planned.run, places=planned.places)


def test_two_reveals_that_race_commit_one(evaluated: World) -> None:
    children = []
    for _ in range(3):
        pid = os.fork()
        if pid == 0:
            code = 1
            with contextlib.suppress(EvalkitError):
                reveal(evaluated.run, write_calibration=True, places=evaluated.places)
                code = 0
            os._exit(code)
        children.append(pid)
    codes = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children]
    assert codes.count(0) == 1, codes
    assert evaluated.states("reveal").count("committed") == 1
    verify_run(evaluated.run, places=evaluated.places)
