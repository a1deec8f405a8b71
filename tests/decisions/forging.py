"""What a dishonest owner of a run can sign: plans, reveals, journals and sealed packets of his own making."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import precommit
from evalkit.decisions.calibration import _open_sealed
from evalkit.decisions.chain import OpenExAnte, load_trust, open_evidence, open_ex_ante, open_plan
from evalkit.decisions.evaluation import signer_of
from evalkit.decisions.reveal_document import document_of
from evalkit.decisions.reveal_document import predicate_of as reveal_predicate
from evalkit.sealing import (
    PREDICATES,
    TrustedKey,
    canonical_json,
    commit_phase,
    create_signing_key,
    create_unsealing_key,
    digest,
    pin,
    sign,
)

from .fixtures import QuickSigner
from .support import CASES, PAIR, World

Json = dict[str, Any]


def quick_everywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Precommit, too, without starting a signing process."""
    import evalkit.sealing

    monkeypatch.setattr(
        evalkit.sealing,
        "resolve_signer",
        lambda places, *, key_path=None, workspace=(): QuickSigner(key_path or places.signing_key),
    )


def own_signer(world: World) -> QuickSigner:
    """The run's own key."""
    plan = world.plan
    path = world.places.ephemeral(plan["run_id"]) / "signing"
    return QuickSigner(path if plan["ephemeral_keys"] else world.places.signing_key)


def pinned(world: World, signer: Any) -> Any:
    """Another key that the verifier's trust file pins for everything."""
    pin(world.places.trust, TrustedKey.of(signer.public_key, predicate_types=tuple(PREDICATES.values())))
    return signer


def replan(world: World, alter: Callable[[Json], None], *, signer: Any = None) -> None:
    """Alter the plan, sign it anew, and have ledger and journal tell of it."""
    plan = world.plan
    ledger, head = world.ledger, plan["ledger_head"]
    alter(plan)
    data = canonical_json(plan)
    envelope = sign(
        "plan.json",
        data,
        predicate_type=PREDICATES["decisions/precommit"],
        predicate={
            "run_id": plan["run_id"],
            "phase": "precommitted",
            "plan_digest": digest(data),
            "custody": plan["custody"],
            "ledger": head,
        },
        signer=signer or own_signer(world),
    )
    ledger.append("precommit", run_id=plan["run_id"], document=digest(data), envelope=digest(envelope))
    (world.run / "plan.json").write_bytes(data)
    (world.run / "plan.dsse.json").write_bytes(envelope)
    (world.run / "journal.jsonl").write_bytes(ledger.segment(head["size"]))


def resign(world: World, phase: str, name: str, kind: str, signer: Any) -> None:
    """The same statement over the same phase, by another key."""
    import base64

    path = world.run / phase / f"{name.removesuffix('.json')}.dsse.json"
    statement = json.loads(base64.b64decode(json.loads(path.read_bytes())["payload"]))
    document = (world.run / phase / name).read_bytes()
    path.write_bytes(
        sign(
            name,
            document,
            predicate_type=PREDICATES[kind],
            predicate=statement["predicate"],
            signer=signer,
            at=datetime.fromisoformat(statement["predicate"]["signed_at"]),
        )
    )


def opened_run(world: World) -> OpenExAnte:
    return open_ex_ante(open_evidence(open_plan(world.run, load_trust(world.run, None, world.places))))


def sign_reveal(world: World, document: dict[str, Any]) -> None:
    """Commit ``document`` as the reveal of the run, signed with the run's own key."""
    opened = open_plan(world.run, load_trust(world.run, None, world.places))
    with signer_of(opened.plan, world.places, world.run) as signer:
        attempt = world.ledger.begin_attempt(world.run_id, "reveal")
        commit_phase(
            world.run,
            "reveal",
            "calibration.json",
            canonical_json(document),
            predicate_type=PREDICATES["decisions/reveal"],
            predicate=lambda head, number: reveal_predicate(document),
            signer=signer,
            trust=opened.trust,
            ledger=world.ledger,
            run_id=world.run_id,
            attempt=attempt,
            segment_from=opened.plan.ledger_head.size,
        )


def commit_any_reveal(world: World) -> None:
    """A correct, correctly signed reveal of whatever the run holds: nothing is asked of its blockers."""
    run = opened_run(world)
    document = document_of(run, _open_sealed(run, world.places), run.document["finalized_at"])
    sign_reveal(world, json.loads(canonical_json(document)))


def append_to_journal(world: World, **fields: Any) -> None:
    """One more line behind the journal's last, well chained and under no signature."""
    path = world.run / "journal.jsonl"
    last = path.read_bytes().splitlines()[-1]
    before = json.loads(last)
    record = {"event": "note", "prev": digest(last), "seq": before["seq"] + 1, "time": before["time"]}
    with path.open("ab") as stream:
        stream.write(canonical_json(record | fields) + b"\n")


def edit_last_line(world: World, edit: Callable[[Json], None]) -> None:
    """Edit the journal's last line, which nothing after it covers."""
    path = world.run / "journal.jsonl"
    *before, last = path.read_bytes().splitlines()
    record = copy.deepcopy(json.loads(last))
    edit(record)
    path.write_bytes(b"\n".join([*before, canonical_json(record)]) + b"\n")


def world_with_own_key(root: Path, *, cases: Path = CASES, pair: str = PAIR) -> World:
    """A run of a signer who has a key, and so a ledger, for all runs."""
    world = World(root)
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    public = create_signing_key(world.places.signing_key)
    create_unsealing_key(world.places.unsealing_key)
    pin(world.places.trust, TrustedKey.of(public, predicate_types=tuple(PREDICATES.values())))
    precommit(cases, pair=pair, out=world.run, places=world.places)
    return world
