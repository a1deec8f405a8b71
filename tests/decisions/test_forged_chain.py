"""W35, W36: plans, attestations and answers that their own key signed, and that do not hold together."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import evaluate, verify_run
from evalkit.decisions.packet import dump
from evalkit.decisions.rubric import score_response
from evalkit.decisions.run_document import predicate_of, response_section
from evalkit.errors import Binding, BindingError
from evalkit.sealing import canonical_json, digest

from . import support
from .forging import edit_last_line, pinned, quick_everywhere, replan, resign
from .support import World, baseline_record, forge, part_a, replay_world, rubric

pytestmark = pytest.mark.usefixtures("quick_signer")


def refused(world: World, match: str) -> Binding:
    with pytest.raises(BindingError, match=match) as caught:
        verify_run(world.run, places=world.places)
    return caught.value.binding


def refused_by_evaluate(world: World, match: str) -> Binding:
    with pytest.raises(BindingError, match=match) as caught:
        evaluate(world.run, write_run=True, places=world.places)
    assert world.states() == []
    assert not (world.run / "ex-ante").exists()
    return caught.value.binding


# --- the plan


def test_a_plan_signed_anew_and_unchanged_is_good(planned: World) -> None:
    """The forgeries below show something only because this passes."""
    replan(planned, lambda plan: None)
    verify_run(planned.run, places=planned.places)
    evaluate(planned.run, write_run=True, places=planned.places)
    verify_run(planned.run, places=planned.places)


def test_w2_an_edited_plan_is_refused_before_any_run_refers_to_it(planned: World) -> None:
    path = planned.run / "plan.json"
    path.write_bytes(canonical_json(planned.plan | {"attempt_cap": 9}))
    match = "not the plan that was signed"
    assert refused(planned, match) is Binding.PRECOMMIT
    with pytest.raises(BindingError, match=match):
        evaluate(planned.run, places=planned.places)


def test_w35_a_plan_signed_by_another_pinned_key(planned: World, make_signer: Callable[..., Any]) -> None:
    replan(planned, lambda plan: None, signer=pinned(planned, make_signer()))
    match = "another key signed this"
    assert refused(planned, match) is Binding.AUTHORITY
    assert refused_by_evaluate(planned, match) is Binding.AUTHORITY


def test_w2_a_plan_whose_model_has_another_digest(planned: World) -> None:
    replan(planned, lambda plan: plan.update(model_digest=digest(b"another")))
    match = "does not have the plan's digest"
    assert refused(planned, match) is Binding.CONFIGURATION
    assert refused_by_evaluate(planned, match) is Binding.CONFIGURATION


def _one_case_twice(plan: dict[str, Any]) -> None:
    plan["cases"][1] = plan["cases"][0] | {"part_b": plan["cases"][1]["part_b"]}
    plan["pair"]["order"][1] = plan["pair"]["order"][0]


PAIRS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "its cases turned round": lambda plan: plan["cases"].reverse(),
    "one case": lambda plan: (plan["cases"].pop(), plan["pair"]["order"].pop()),
    "one case twice": _one_case_twice,
    "a case of no pair": lambda plan: plan["cases"][0].update(case_id="case-amzn-2001-04"),
    "three cases": lambda plan: (
        plan["cases"].append(plan["cases"][0]),
        plan["pair"]["order"].append(plan["pair"]["order"][0]),
    ),
}


@pytest.mark.parametrize("name", PAIRS)
def test_w1_a_plan_whose_cases_are_no_ordered_pair(planned: World, name: str) -> None:
    replan(planned, lambda plan: (PAIRS[name](plan), None)[1])
    match = "not its ordered pair"
    assert refused(planned, match) is Binding.PRECOMMIT
    assert refused_by_evaluate(planned, match) is Binding.PRECOMMIT


# --- who signed the phases


def test_w35_a_run_signed_by_another_pinned_key(evaluated: World, make_signer: Callable[..., Any]) -> None:
    signer = pinned(evaluated, make_signer())
    resign(evaluated, "ex-ante", "run.json", "decisions/ex-ante", signer)
    assert refused(evaluated, "another key signed this") is Binding.AUTHORITY


def test_w35_a_reveal_signed_by_another_pinned_key(revealed: World, make_signer: Callable[..., Any]) -> None:
    signer = pinned(revealed, make_signer())
    resign(revealed, "reveal", "calibration.json", "decisions/reveal", signer)
    assert refused(revealed, "another key signed this") is Binding.AUTHORITY


# --- what they signed about the run file


PREDICATE_EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "another phase": lambda p: p.update(phase="post_reveal_calibration"),
    "Part B released": lambda p: p.update(part_b_released=True),
    "the label replayed": lambda p: p.update(replayed=True),
    "another plan": lambda p: p.update(precommit_digest=digest(b"x")),
    "another configuration": lambda p: p.update(configuration_digest=digest(b"x")),
    "another scorer": lambda p: p.update(scorer_digest=digest(b"x")),
    "another score": lambda p: p["cases"][0].update(score_digest=digest(b"x")),
    "a trace of the second case": lambda p: p["cases"][1].update(trace_digest=digest(b"x")),
    "the pair turned round": lambda p: p["cases"].reverse(),
    "a field less": lambda p: p.pop("scorer_digest"),
    "a field more": lambda p: p.update(combined_score="97"),
}


@pytest.mark.parametrize("name", PREDICATE_EDITS)
def test_w35_an_attestation_that_speaks_of_another_run_file(
    planned: World, document: dict[str, Any], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:

    def lying(value: dict[str, Any]) -> dict[str, Any]:
        predicate = copy.deepcopy(predicate_of(value))
        PREDICATE_EDITS[name](predicate)
        return predicate

    monkeypatch.setattr(support, "predicate_of", lying)
    forge(planned, document, lambda d: None)
    assert refused(planned, "digests are not those of the run file") is Binding.ATTESTATION


def test_w36_a_journal_that_tells_of_another_attestation(evaluated: World) -> None:
    edit_last_line(evaluated, lambda r: r.update(envelope=digest(b"another")))
    assert refused(evaluated, "another ex-ante was committed") is Binding.RUN


def test_w36_a_journal_that_tells_of_another_run_file(evaluated: World) -> None:
    edit_last_line(evaluated, lambda r: r.update(document=digest(b"another")))
    assert refused(evaluated, "another ex-ante was committed") is Binding.RUN


@pytest.mark.parametrize("field", ["document", "envelope"])
def test_w38_a_journal_that_tells_of_another_reveal(revealed: World, field: str) -> None:
    edit_last_line(revealed, lambda r: r.update({field: digest(b"another")}))
    assert refused(revealed, "another reveal was committed") is Binding.RUN


# --- the run file


def _case(edit: Callable[[dict[str, Any]], Any], n: int = 0) -> Callable[[dict[str, Any]], Any]:
    return lambda d: edit(d["cases"][n])


RUNS: dict[str, tuple[Binding, str, Callable[[dict[str, Any]], Any]]] = {
    "another plan's digest": (
        Binding.PRECOMMIT, "another plan than plan.json", lambda d: d.update(precommit_digest=digest(b"x"))
    ),
    "a trace that says more": (
        Binding.CONFIGURATION, "what a trace says", _case(lambda c: c["trace"].update(note="asked twice"))
    ),
    "a trace that says less": (
        Binding.CONFIGURATION, "what a trace says", _case(lambda c: c["trace"].pop("usage"), 1)
    ),
    "a trace that was replayed": (
        Binding.CONFIGURATION, "what a trace says", _case(lambda c: c["trace"].update(replayed=True))
    ),
    "a trace with 0 for false": (
        Binding.CONFIGURATION, "what a trace says", _case(lambda c: c["trace"].update(replayed=0), 1)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_w33_a_run_file_that_says_something_else(planned: World, document: dict[str, Any], name: str) -> None:
    binding, match, edit = RUNS[name]
    forge(planned, document, lambda d: (edit(d), None)[1])
    assert refused(planned, match) is binding


def answered(case: dict[str, Any], raw: bytes) -> None:
    """Another answer, with all that follows from it."""
    score = dump(score_response(raw, part_a(case["case_id"]).packet, rubric()))
    case.update(response=response_section(raw), score=score, score_digest=digest(canonical_json(score)))


def _shifted(raw: str) -> bytes:
    """The same record with two probabilities exchanged: as good to every deterministic check."""
    record = json.loads(raw)
    one, two = record["scenarios"][0], record["scenarios"][1]
    assert one["probability"] != two["probability"]
    one["probability"], two["probability"] = two["probability"], one["probability"]
    return canonical_json(record)


@pytest.mark.parametrize("n", [0, 1])
@pytest.mark.parametrize("other", ["a space more", "other probabilities", "no record at all"])
def test_w33_an_answer_that_the_baseline_does_not_give(
    planned: World, document: dict[str, Any], other: str, n: int
) -> None:
    def edit(d: dict[str, Any]) -> None:
        raw = d["cases"][n]["response"]["raw"]
        given = {"a space more": raw.encode() + b" ", "other probabilities": _shifted(raw)}
        answered(d["cases"][n], given.get(other, b"no"))

    forge(planned, document, edit)
    assert refused(planned, "not the one that its model gives") is Binding.RESPONSE


def test_w33_an_answer_that_the_replay_does_not_give(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    quick_everywhere(monkeypatch)
    world = replay_world(tmp_path / "w", {})
    document = evaluate(world.run, places=world.places).document
    honest = world.copy(tmp_path / "honest")
    forge(honest, document, lambda d: None)
    verify_run(honest.run, places=honest.places)

    def edit(d: dict[str, Any]) -> None:
        answered(d["cases"][1], _shifted(json.dumps(baseline_record(part_a(d["cases"][1]["case_id"])))))

    forge(world, document, edit)
    assert refused(world, "not the one that its model gives") is Binding.RESPONSE
