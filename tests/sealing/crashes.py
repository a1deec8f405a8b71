"""What may be found after a crash of a commit, and nothing else: the verified pair, or a counted loss."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from evalkit.sealing import Recovered, canonical_json, digest, read_phase, verify, verify_chain

from .conftest import EX_ANTE, RUN_ID, World, make_world, names


def worlds(root: Path, signer: Any) -> Iterator[World]:
    """Worlds without end, each with an attempt that was begun, as the product does before it asks."""
    for n in itertools.count():
        world = make_world(root / f"w{n}", signer)
        world.ledger.append("note", of="another run")
        assert world.ledger.begin_attempt(RUN_ID, EX_ANTE.name) == 1
        yield world


def whole(world: World) -> None:
    """The phase is there, verified, counted as committed once, and nothing else lies in the run."""
    document, envelope = read_phase(world.run_dir, EX_ANTE.name, EX_ANTE.file_name)
    verify(
        envelope,
        subject_name=EX_ANTE.file_name,
        predicate_type=EX_ANTE.predicate_type,
        trust=world.trust,
        run_id=RUN_ID,
        at=world.clock.now,
    ).check_subject(document)
    assert document == world.document
    assert names(world.run_dir) == ["ex-ante", "journal.jsonl"]
    committed = [e.record for e in world.ledger.entries() if e.record["event"] == "committed"]
    assert [(r.get("document"), r.get("envelope")) for r in committed] == [
        (digest(document), digest(envelope))
    ]
    journal = (world.run_dir / "journal.jsonl").read_bytes()
    assert verify_chain(journal, covers=world.ledger.head)[-1]["event"] == "committed"


def settle(world: World, recover: Callable[[], list[Recovered]] | None = None) -> str:
    """Recover after a crash in the first attempt; what became of it.

    ``committed``, ``completed`` or ``rolled-forward``: the pair is whole.  ``begun`` or ``lost``:
    nothing is there, the attempt stays counted, and the next one can be committed.
    """
    # The crashed process moved its own copy of the clock.
    world.clock.now += timedelta(minutes=1)
    done = (recover or world.recover)()
    assert world.recover() == [], "recovered once, there is nothing left to do"
    assert not list(world.run_dir.glob(".stage*"))
    states = world.states()
    if (world.run_dir / "ex-ante").exists():
        assert states == [(1, "committed")]
        whole(world)
        return done[0].action if done else "committed"
    assert names(world.run_dir) == ["journal.jsonl"]
    assert states in ([(1, "begun")], [(1, "lost")])
    outcome = states[0][1]
    world.document = canonical_json({"score": 9})
    assert world.ledger.begin_attempt(RUN_ID, EX_ANTE.name) == 2
    world.commit(attempt=2)
    whole(world)
    assert world.states() == [(1, outcome), (2, "committed")], "a discarded score stays counted"
    return outcome
