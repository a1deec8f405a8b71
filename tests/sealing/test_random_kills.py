"""A thousand commits killed (SIGKILL) at random moments, a part of them again while they recover."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.sealing import canonical_json, digest

from .crashes import settle, worlds
from .killing import killed_after, usual

KILLS = 1000
KILLED_AGAIN = 0.25  # of the trials


def campaign(root: Path, signer: Any, kills: int) -> tuple[Counter[str], Counter[str]]:
    """(Outcomes of ``kills`` interrupted commits, those of them that were killed again in recovery)."""
    supply = worlds(root, signer)
    warm = next(supply)
    warm.commit()
    warm.recover()
    rng = random.Random(digest(canonical_json(["kills", kills])))
    commit_takes = 1.1 * usual(lambda: next(supply).commit)
    recover_takes = 1.1 * usual(lambda: next(supply).recover)
    outcomes: Counter[str] = Counter()
    again: Counter[str] = Counter()
    for trial, world in enumerate(supply):
        assert trial < 3 * kills, "too few kills met a commit that was under way"
        if killed_after(world.commit, rng.uniform(0, commit_takes)) is not None:
            assert settle(world) == "committed"
            continue
        second = rng.random() < KILLED_AGAIN
        if second:
            killed_after(world.recover, rng.uniform(0, recover_takes))
        try:
            outcome = settle(world)
        except AssertionError:
            print(f"trial {trial} of the seed {['kills', kills]}: {world.run_dir}")
            raise
        outcomes[outcome] += 1
        again[outcome] += second
        if outcomes.total() == kills:
            break
    print(
        f"{kills} kills within {commit_takes * 1000:.0f} ms: {dict(sorted(outcomes.items()))};"
        f" killed again in recovery: {again.total()}"
    )
    return outcomes, again


def test_some_random_kills(tmp_path: Path, make_signer: Callable[..., Any]) -> None:
    outcomes, _ = campaign(tmp_path, make_signer(), 25)
    assert outcomes.total() == 25


@pytest.mark.slow
def test_a_thousand_random_kills(tmp_path: Path, make_signer: Callable[..., Any]) -> None:
    outcomes, again = campaign(tmp_path, make_signer(), KILLS)
    assert outcomes.total() == KILLS
    assert set(outcomes) == {"begun", "lost", "rolled-forward", "completed", "committed"}
    # Every stage of a commit was hit, none of them by a lucky shot only.
    assert min(outcomes.values()) >= 10, outcomes
    assert again.total() > KILLS * KILLED_AGAIN / 2
