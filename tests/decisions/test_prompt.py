"""W3, W8: the prompt is template, schema, rubric and Part A, byte for byte, and nothing else."""

from __future__ import annotations

import json
import re

import pytest

from evalkit.decisions.checks import CHECKS
from evalkit.decisions.findings import Blocker
from evalkit.decisions.prompt import Instructions, build_prompt, part_a_of, rubric_of
from evalkit.decisions.record import response_schema
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json

from .support import CASE_IDS, CASES, ROOT, World, part_a, prompt_of, rubric


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_w8_exactly_the_four_parts(case_id: str) -> None:
    part, i = part_a(case_id), Instructions.shipped()
    template = (ROOT / "templates" / "decisions" / "prompt.md").read_bytes()
    expected = template
    for slot, value in (
        (b"{{response_schema}}", i.response_schema),
        (b"{{rubric}}", i.rubric),
        (b"{{part_a}}", part.packet_bytes),
    ):
        assert expected.count(slot) == 1
        before, after = expected.split(slot)
        expected = before + value + after
    assert prompt_of(part) == expected


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_w3_nothing_of_the_instructor_or_the_machine(case_id: str) -> None:
    text = prompt_of(part_a(case_id)).decode()
    episode = json.loads((CASES / case_id / "episode.json").read_bytes())
    hidden = [episode["pair_id"], episode["partner_case_id"], episode["title"], "catalog", "mapping.json"]
    hidden += [episode["imported_from"]["file_name"], str(ROOT), "part-a/", "part-b", "episode"]
    hidden += ["qc.json", "freeze"]
    assert not [h for h in hidden if h in text]
    assert not re.search(r"\b(?:unfavorable|favorable)\b", text, re.IGNORECASE)


def test_w8_slots_inside_part_a_are_text() -> None:
    packet = canonical_json({"text": "{{rubric}} {{part_a}} {{response_schema}}"})
    i = Instructions(b"[{{response_schema}}|{{rubric}}|{{part_a}}]", b"S", b"R")
    assert build_prompt(i, packet) == b"[S|R|" + packet + b"]"


def test_w8_slots_inside_schema_and_rubric_are_text() -> None:
    i = Instructions(b"[{{response_schema}}|{{rubric}}|{{part_a}}]", b"S{{part_a}}", b"R{{part_a}}")
    assert build_prompt(i, b"P") == b"[S{{part_a}}|R{{part_a}}|P]"


@pytest.mark.parametrize(
    "template",
    [
        b"{{rubric}} {{part_a}}",
        b"{{response_schema}} {{rubric}} {{part_a}} {{part_a}}",
        b"{{part_a}} {{rubric}} {{response_schema}}",
        b"",
    ],
)
def test_w8_a_template_without_each_slot_once_is_refused(template: bytes) -> None:
    with pytest.raises(EvalkitError, match="exactly once"):
        build_prompt(Instructions(template, b"S", b"R"), b"P")


def test_part_a_comes_out_of_the_prompt_as_it_went_in() -> None:
    part = part_a(CASE_IDS[0])
    assert part_a_of(prompt_of(part)).to_json() == part.packet_bytes
    assert canonical_json(rubric_of(prompt_of(part))) == Instructions.shipped().rubric


def test_a_prompt_without_part_a_is_refused() -> None:
    with pytest.raises(EvalkitError, match="no <part_a> block"):
        part_a_of(b"hello")


def test_the_shipped_response_schema_is_the_record() -> None:
    shipped = (ROOT / "templates" / "decisions" / "response.schema.json").read_text()
    assert shipped == json.dumps(response_schema(), indent=2, ensure_ascii=False) + "\n"
    assert Instructions.shipped().response_schema == canonical_json(json.loads(shipped))


def test_w12_the_schema_is_strict_everywhere() -> None:
    """Every object requires all its properties and admits no others: strict mode of model services."""
    seen = 0

    def walk(node: object) -> None:
        nonlocal seen
        if isinstance(node, dict):
            if node.get("type") == "object":
                seen += 1
                assert node["required"] == list(node["properties"])
                assert node["additionalProperties"] is False
            for value in node.values():
                walk(value)
        elif isinstance(node, list):
            for value in node:
                walk(value)

    walk(response_schema())
    assert seen > 15


def test_w27_weights_and_order_of_the_rubric() -> None:
    assert [d["weight"] for d in rubric()["dimensions"]] == [15, 15, 10, 10, 10, 10, 10, 10, 5, 5]
    assert sum(d["weight"] for d in rubric()["dimensions"]) == 100


def test_w27_rubric_and_code_have_the_same_checks() -> None:
    ids = [c["id"] for d in rubric()["dimensions"] for c in d["checks"]]
    assert len(set(ids)) == len(ids)
    assert set(ids) == set(CHECKS)


def test_w28_rubric_and_code_have_the_same_twelve_blockers() -> None:
    assert set(rubric()["blockers"]) == {b.value for b in Blocker}
    assert len(Blocker) == 12


def test_w3_the_prompts_of_a_run_are_these(planned_once: World) -> None:
    """The ledger names the digest of each prompt before it is sent; see test_flow for the sending."""
    from evalkit.decisions.chain import load_trust, open_evidence, open_plan

    opened = open_plan(planned_once.run, load_trust(planned_once.run, None, planned_once.places))
    assert open_evidence(opened).prompts == {c: prompt_of(part_a(c)) for c in opened.plan.pair.order}
