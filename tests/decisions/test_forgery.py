"""W36: a run that its own key signed anew, altered in one binding: the replay catches it and names it.

The forger owns the run's signing key and its ledger, so signature, subject, predicate and ledger all
agree.  What stands against him is only that every binding is computed again from the plan and Part A.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest

from evalkit.decisions import reveal, verify_run
from evalkit.decisions.run_document import response_section
from evalkit.errors import Binding, BindingError
from evalkit.sealing import canonical_json, digest

from .forging import sign_reveal
from .support import World, forge

pytestmark = pytest.mark.usefixtures("quick_signer")

Edit = Callable[[dict[str, Any]], None]


def case(edit: Edit, n: int = 0) -> Edit:
    return lambda d: edit(d["cases"][n])


def better_score(c: dict[str, Any]) -> None:
    c["score"]["total"] = "100.00"
    c["score_digest"] = digest(canonical_json(c["score"]))


def lifted_blocker(c: dict[str, Any]) -> None:
    """A response that is blocked, with the score of the one that was not."""
    raw = json.loads(c["response"]["raw"])
    raw["valuation"]["abstain"] = False
    c["response"] = response_section(canonical_json(raw))


def better_response(c: dict[str, Any]) -> None:
    """Other probabilities, chosen with hindsight, in the canonical form only."""
    c["response"]["canonical"]["scenarios"][0]["probability"] = "0.9"
    c["response"]["canonical_digest"] = digest(canonical_json(c["response"]["canonical"]))


def other_raw(c: dict[str, Any]) -> None:
    c["response"]["raw"] = c["response"]["raw"] + " "


def other_encoding(c: dict[str, Any]) -> None:
    import base64

    c["response"]["raw"] = base64.b64encode(c["response"]["raw"].encode()).decode()
    c["response"]["raw_encoding"] = "base64"


def other_prompt(c: dict[str, Any]) -> None:
    for name in ("prompt_digest", "transmitted_prompt_digest"):
        c[name] = digest(b"another prompt")
    c["trace"]["transmitted_prompt_digest"] = digest(b"another prompt")


def other_model(d: dict[str, Any]) -> None:
    d["configuration"]["model"] = "a-better-one"
    d["configuration_digest"] = digest(canonical_json(d["configuration"]))


def other_plan(d: dict[str, Any]) -> None:
    d["precommit"]["attempt_cap"] = 1
    d["precommit_digest"] = digest(canonical_json(d["precommit"]))


def both_the_same_case(d: dict[str, Any]) -> None:
    d["cases"][1] = copy.deepcopy(d["cases"][0])


FORGERIES: dict[str, tuple[Binding, Edit]] = {
    "a better score": (Binding.SCORE, case(better_score)),
    "a better score of the second case": (Binding.SCORE, case(better_score, 1)),
    "a score digest": (Binding.SCORE, case(lambda c: c.update(score_digest="sha256:0"))),
    "a blocked response with a clean score": (Binding.RESPONSE, case(lifted_blocker)),
    "an empty blocker list": (Binding.SCORE, case(lambda c: c["score"].update(review_queue=[]))),
    "another canonical response": (Binding.RESPONSE, case(better_response)),
    "another raw response": (Binding.RESPONSE, case(other_raw)),
    "another encoding of the response": (Binding.RESPONSE, case(other_encoding)),
    "a raw digest": (Binding.RESPONSE, case(lambda c: c["response"].update(raw_digest="sha256:0"))),
    "a true as 1": (
        Binding.RESPONSE, case(lambda c: c["response"]["canonical"]["valuation"].update(abstain=1))
    ),
    "an eligible as 1": (Binding.SCORE, case(lambda c: c["score"].update(eligible=1))),
    "an extra field in the response": (Binding.RESPONSE, case(lambda c: c["response"].update(note=1))),
    "another prompt": (Binding.PROMPT, case(other_prompt)),
    "another sent prompt": (
        Binding.PROMPT, case(lambda c: c.update(transmitted_prompt_digest=digest(b"x")))
    ),
    "another schema": (Binding.PROMPT, case(lambda c: c.update(response_schema_digest=digest(b"x")))),
    "another model": (Binding.CONFIGURATION, other_model),
    "another configuration digest": (
        Binding.CONFIGURATION, lambda d: d.update(configuration_digest=digest(b"x"))
    ),
    "a trace of another configuration": (
        Binding.CONFIGURATION, case(lambda c: c["trace"].update(configuration_digest=digest(b"x")))
    ),
    "a trace of another prompt": (
        Binding.CONFIGURATION, case(lambda c: c["trace"].update(transmitted_prompt_digest=digest(b"x")))
    ),
    "a trace of the other case": (
        Binding.CONFIGURATION, case(lambda c: c["trace"].update(subject="case-nflx-2007-07"))
    ),
    "the label replayed": (Binding.CONFIGURATION, lambda d: d.update(replayed=True)),
    "another plan": (Binding.PRECOMMIT, other_plan),
    "another run": (Binding.PRECOMMIT, lambda d: d["precommit"].update(run_id="other")),
    "contamination-free": (Binding.PRECOMMIT, lambda d: d.update(label="contamination_free")),
    "swapped pair order": (Binding.PRECOMMIT, lambda d: d["cases"].reverse()),
    "one case only": (Binding.PRECOMMIT, lambda d: d["cases"].pop()),
    "one case twice": (Binding.PRECOMMIT, both_the_same_case),
    "no case": (Binding.PRECOMMIT, lambda d: d.update(cases=[])),
    "another scorer": (Binding.SCORE, lambda d: d.update(scorer_digest=digest(b"x"))),
    "another verification record": (
        Binding.PART_A, case(lambda c: c["verification"]["checks_passed"].append("more"))
    ),
    "artifact bytes replayed": (
        Binding.PART_A, case(lambda c: c["verification"].update(artifact_bytes_replayed=True))
    ),
    "another mode": (Binding.PART_A, case(lambda c: c["verification"].update(mode="artifact_backed"))),
    "Part B released": (Binding.RUN, lambda d: d.update(part_b_released=True)),
    "part_b_released as 0": (Binding.RUN, lambda d: d.update(part_b_released=0)),
    "another phase": (Binding.RUN, lambda d: d.update(phase="post_reveal_calibration")),
    "an extra field": (Binding.RUN, lambda d: d.update(combined_score="97")),
    "an extra field in a case": (Binding.RUN, case(lambda c: c.update(brier="0"))),
    "a schema of another version": (Binding.RUN, lambda d: d.update(schema="evalkit/decisions-ex-ante/2")),
    "fewer attempts": (Binding.RUN, lambda d: d.update(attempts=d["attempts"] - 1)),
    "more attempts": (Binding.RUN, lambda d: d.update(attempts=d["attempts"] + 1)),
    "a time that is none": (Binding.RUN, lambda d: d.update(finalized_at="later")),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGERIES)
def test_w36_a_consistent_forgery_is_named(planned: World, document: dict[str, Any], name: str) -> None:
    binding, edit = FORGERIES[name]
    forge(planned, document, edit)
    with pytest.raises(BindingError) as caught:
        verify_run(planned.run, places=planned.places)
    assert caught.value.binding is binding
    with pytest.raises(BindingError) as caught:
        reveal(planned.run, write_calibration=True, places=planned.places)
    assert caught.value.binding is binding
    assert not (planned.run / "reveal").exists()
    assert planned.states("reveal") == []


def test_the_forger_who_changes_nothing_is_not_caught(planned: World, document: dict[str, Any]) -> None:
    """The table shows something only because this passes: custody `self` is never called blind."""
    forge(planned, document, lambda d: None)
    verify_run(planned.run, places=planned.places)
    reveal(planned.run, write_calibration=True, places=planned.places)


@pytest.mark.parametrize("field", ["cases", "configuration", "precommit", "attempt", "label"])
def test_a_forgery_without_a_field_is_an_error_not_a_crash(
    planned: World, document: dict[str, Any], field: str
) -> None:
    import evalkit.decisions.run_document as module

    from . import support

    def edit(d: dict[str, Any]) -> None:
        del d[field]

    # the predicate cannot be made from such a file: the forger keeps that of the whole one
    whole = module.predicate_of(copy.deepcopy(document))
    support_predicate = support.predicate_of
    try:
        support.predicate_of = lambda d: whole
        forge(planned, document, edit)
    finally:
        support.predicate_of = support_predicate
    for act in (verify_run, reveal):
        with pytest.raises(BindingError):
            act(planned.run, places=planned.places)


# --- the same for the reveal: an owner signs a calibration with other numbers


def commit_reveal(world: World, edit: Edit) -> None:
    document = json.loads(canonical_json(reveal(world.run, places=world.places).document))
    edit(document)
    sign_reveal(world, document)


def swapped_openings(d: dict[str, Any]) -> None:
    o = d["openings"]
    o["part-b-0"], o["part-b-1"] = o["part-b-1"], o["part-b-0"]


def kinder_mapping(d: dict[str, Any]) -> None:
    """The realized scenario that the model gave most to."""
    for entry in d["openings"]["mapping"]["payload"]["cases"].values():
        entry["realized_scenario_id"] = "scenario-0000000000"


CALIBRATIONS: dict[str, Edit] = {
    "a Brier score": lambda d: d["cases"][0].update(brier=0.0),
    "a realized probability": lambda d: d["cases"][0].update(realized_probability="0.9"),
    "nontrivial": lambda d: d["cases"][0].update(nontrivial=False),
    "a realized scenario": lambda d: d["cases"][0].update(realized_scenario_id="scenario-0000000000"),
    "no case": lambda d: d.update(cases=[]),
    "one case": lambda d: d["cases"].pop(),
    "a role": lambda d: d["cases"][0].update(role="favorable", case_id=d["cases"][0]["case_id"]),
    "process quality": lambda d: d["cases"][0].update(process_quality="excellent"),
    "outcome ids": lambda d: d["cases"][0].update(outcome_ids=[]),
    "a combined score": lambda d: d.update(combined="95"),
    "combination allowed": lambda d: d.update(combined_score_prohibited=False),
    "calibration in the total": lambda d: d.update(calibration_included_in_ex_ante_total=True),
    "the label": lambda d: d.update(label="contamination_free"),
    "replayed": lambda d: d.update(replayed=True),
    "attempts": lambda d: d.update(attempts=1000),
    "the threshold": lambda d: d.update(nontrivial_probability="0.01"),
    "another run's digest": lambda d: d["bindings"].update(ex_ante_run_digest=digest(b"x")),
    "score digests": lambda d: d["bindings"].update(ex_ante_score_digests={}),
    "mapping digest": lambda d: d["bindings"].update(mapping_digest=digest(b"x")),
    "dated before the run": lambda d: d.update(revealed_at="2026-01-01T00:00:00.000000Z"),
    "openings exchanged": swapped_openings,
    "another mapping": kinder_mapping,
    "a false as 0": lambda d: d.update(calibration_included_in_ex_ante_total=0),
    "an opening less": lambda d: d["openings"].pop("catalog"),
    "a field less": lambda d: d.pop("conventions"),
    "no times": lambda d: d.update(revealed_at=None),
    "another phase": lambda d: d.update(phase="ex_ante_scored"),
}


@pytest.mark.parametrize("name", CALIBRATIONS)
def test_w38_verify_computes_the_reveal_again(evaluated: World, name: str) -> None:
    if name == "a role":

        def edit(d: dict[str, Any]) -> None:
            for c in d["cases"]:
                c["role"] = "unfavorable" if c["role"] == "favorable" else "favorable"
    else:
        edit = CALIBRATIONS[name]
    commit_reveal(evaluated, edit)
    with pytest.raises(BindingError) as caught:
        verify_run(evaluated.run, places=evaluated.places)
    assert caught.value.binding in (
        Binding.SCORE, Binding.RUN, Binding.ATTESTATION, Binding.SEALED_PACKET
    )  # fmt: skip


def test_an_honest_reveal_by_hand_verifies(evaluated: World) -> None:
    commit_reveal(evaluated, lambda d: None)
    verify_run(evaluated.run, places=evaluated.places)
