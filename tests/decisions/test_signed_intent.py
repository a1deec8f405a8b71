"""What an attestation signs of the ledger is the intent to sign this very document, and nothing earlier or else."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime
from typing import Any

import pytest

from evalkit.decisions import evaluate, verify_run
from evalkit.decisions.run_document import predicate_of
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import PREDICATES, Head, Ledger, canonical_json, digest, sign
from evalkit.sealing.ledger import require_intent

from .forging import own_signer, replan
from .support import World, forge

pytestmark = pytest.mark.usefixtures("quick_signer")


def refused(world: World, match: str) -> Binding:
    with pytest.raises(BindingError, match=match) as caught:
        verify_run(world.run, places=world.places)
    return caught.value.binding


def plant(world: World, document: dict[str, Any], head: Head, at: str) -> None:
    """Sign a run by hand against any head of the ledger, with the journal cut there."""
    document["started_at"] = document["finalized_at"] = at
    data = canonical_json(document)
    envelope = sign(
        "run.json",
        data,
        predicate_type=PREDICATES["decisions/ex-ante"],
        predicate=predicate_of(document) | {"ledger": head.record()},
        signer=own_signer(world),
        at=datetime.fromisoformat(at),
    )
    (world.run / "ex-ante").mkdir(mode=0o700)
    (world.run / "ex-ante" / "run.json").write_bytes(data)
    (world.run / "ex-ante" / "run.dsse.json").write_bytes(envelope)
    start = world.plan["ledger_head"]["size"]
    lines = world.ledger.segment(start).splitlines(keepends=True)
    (world.run / "journal.jsonl").write_bytes(b"".join(lines[: head.size - start]))


def test_the_best_of_three_signed_as_the_first(planned: World) -> None:
    """The ledger is the true one: three attempts, none written.  The third answer is signed against the line
    in which the first one began, so that the other two stand behind what is signed."""
    documents = [evaluate(planned.run, places=planned.places).document for _ in range(3)]
    first = next(e for e in planned.ledger.entries() if e.record["event"] == "attempt")
    best = documents[2] | {"attempt": 1, "attempts": 1}
    plant(planned, best, first.head, first.record["time"])
    assert refused(planned, "not the intent to sign this document") is Binding.RUN


@pytest.mark.parametrize("event", ["precommit", "abandoned"])
def test_no_other_entry_will_do(planned: World, event: str) -> None:
    document = evaluate(planned.run, places=planned.places).document
    entry = next(e for e in planned.ledger.entries() if e.record["event"] == event)
    plant(planned, document, entry.head, entry.record["time"])
    assert refused(planned, "not the intent to sign this document") is Binding.RUN


@pytest.mark.parametrize(
    "fields",
    [
        {"document": "sha256:" + "0" * 64},
        {"attempt": 2},
        {"attempt": True},
        {"phase": "reveal"},
        {"run_id": "another"},
    ],
)
def test_an_intent_of_something_else(planned: World, fields: dict[str, Any]) -> None:
    document = evaluate(planned.run, places=planned.places).document
    made = copy.deepcopy(document)
    at = planned.ledger.entries()[-1].record["time"]
    made["started_at"] = made["finalized_at"] = at
    right = {
        "run_id": planned.run_id,
        "phase": "ex-ante",
        "attempt": 1,
        "document": digest(canonical_json(made)),
    }
    fixed = Ledger(planned.ledger.path, clock=lambda: datetime.fromisoformat(at))
    entry = fixed.append("intent", **(right | fields))
    plant(planned, made, entry.head, at)
    assert refused(planned, "not the intent to sign|out of its order") is Binding.RUN


def test_an_intent_for_this_document_is_good(planned: World) -> None:
    """The refusals above show something only because this passes."""
    document = evaluate(planned.run, places=planned.places).document
    at = planned.ledger.entries()[-1].record["time"]
    document["started_at"] = document["finalized_at"] = at
    fixed = Ledger(planned.ledger.path, clock=lambda: datetime.fromisoformat(at))
    entry = fixed.append(
        "intent",
        run_id=planned.run_id,
        phase="ex-ante",
        attempt=1,
        document=digest(canonical_json(document)),
    )
    plant(planned, document, entry.head, at)
    verify_run(planned.run, places=planned.places)


def test_the_plan_must_be_recorded_before_its_attempts(planned: World, document: dict[str, Any]) -> None:
    """A plan signed anew after the answers were seen, recorded where no signature covers it, or too late."""
    evaluate(planned.run, places=planned.places)
    replan(planned, lambda plan: plan.update(attempt_cap=2))
    document = copy.deepcopy(document)
    document["precommit"] = planned.plan
    document["precommit_digest"] = digest((planned.run / "plan.json").read_bytes())
    forge(planned, document, lambda d: None)
    assert refused(planned, "begun before the plan was recorded") is Binding.RUN


def test_the_kernel_rule_by_itself() -> None:
    intent = {"event": "intent", "seq": 4, "run_id": "r", "phase": "p", "attempt": 1, "document": "d"}
    wanted: dict[str, Any] = {"run_id": "r", "phase": "p", "attempt": 1, "document": "d"}
    assert require_intent([intent], Head(5, "x"), **wanted) is intent
    for records in ([], [intent | {"attempt": True}], [intent | {"event": "attempt"}], [intent | {"seq": 3}]):
        with pytest.raises(BindingError, match="not the intent"):
            require_intent(records, Head(5, "x"), **wanted)


# --- what else is signed


def resign_plan(world: World, alter: Callable[[dict[str, Any]], None]) -> None:
    data = (world.run / "plan.json").read_bytes()
    plan = world.plan
    predicate = {
        "run_id": plan["run_id"],
        "phase": "precommitted",
        "plan_digest": digest(data),
        "custody": plan["custody"],
        "ledger": plan["ledger_head"],
    }
    alter(predicate)
    envelope = sign(
        "plan.json",
        data,
        predicate_type=PREDICATES["decisions/precommit"],
        predicate=predicate,
        signer=own_signer(world),
    )
    (world.run / "plan.dsse.json").write_bytes(envelope)
    world.ledger.append("precommit", run_id=world.run_id, document=digest(data), envelope=digest(envelope))
    (world.run / "journal.jsonl").write_bytes(world.ledger.segment(plan["ledger_head"]["size"]))


def test_the_plans_attestation_signed_anew_is_good(planned: World) -> None:
    resign_plan(planned, lambda predicate: None)
    verify_run(planned.run, places=planned.places)


@pytest.mark.parametrize(
    "says",
    [
        {"custody": "timelock"},
        {"phase": "post_reveal"},
        {"plan_digest": "sha256:" + "0" * 64},
        {"ledger": {"size": 0, "digest": "sha256:" + "1" * 64}},
        {"blind": True},
    ],
)
def test_the_plans_attestation_says_what_the_plan_says(planned: World, says: dict[str, Any]) -> None:
    resign_plan(planned, lambda predicate: predicate.update(says))
    assert refused(planned, "says other things than the plan") is Binding.ATTESTATION


def test_own_keys_cannot_pass_for_keys_of_one_run(
    planned: World, document: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plan that calls its signer's own key one that was made for this run: rivals are shown all the same."""
    trust = planned.places.trust
    trust.write_bytes(trust.read_bytes().replace(b'"ephemeral":true', b'"ephemeral":false'))
    forge(planned, document, lambda d: None)
    report = verify_run(planned.run, places=planned.places)
    assert planned.plan["ephemeral_keys"]
    assert [line.detail for line in report.lines if "plans that this signer made" in line.text]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("started_at", "9999-12-31T23:59:59.999999Z"),
        ("finalized_at", "0001-01-01T00:00:00+14:00"),
        ("attempts", "x"),
        ("attempts", None),
        ("attempt", True),
    ],
)
def test_odd_values_are_refused_and_no_traceback(
    planned: World, document: dict[str, Any], field: str, value: Any
) -> None:
    forge(planned, document, lambda d: d.update({field: value}))
    assert refused(planned, ".") in (Binding.RUN, Binding.ATTESTATION)


@pytest.mark.parametrize("value", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00"])
def test_odd_times_of_a_plan(planned: World, value: str) -> None:
    replan(planned, lambda plan: plan.update(created_at=value))
    with pytest.raises(EvalkitError):
        verify_run(planned.run, places=planned.places)


@pytest.mark.parametrize("content", [b"[]", b'{"checks":[]}', b'{"checks":{}}', b"{}", b"1"])
def test_a_sealed_rubric_of_another_form(planned: World, document: dict[str, Any], content: bytes) -> None:
    (planned.run / "instructions" / "rubric.json").write_bytes(content)
    replan(planned, lambda plan: plan["instructions"].update(rubric=digest(content)))
    document = copy.deepcopy(document)
    document["precommit"] = planned.plan
    document["precommit_digest"] = digest((planned.run / "plan.json").read_bytes())

    def forge_and_verify() -> None:
        forge(planned, document, lambda d: None)
        verify_run(planned.run, places=planned.places)

    with pytest.raises(BindingError):
        forge_and_verify()
