"""W28-W31: stand-ins for answers, numbers without a line, endless digits, and findings that are safe to show."""

from __future__ import annotations

import copy
import json
import time
import unicodedata
from typing import Any

import pytest

from evalkit.decisions.blockers import find_blockers, is_placeholder
from evalkit.decisions.case import PartA
from evalkit.decisions.findings import Blocker, Finding
from evalkit.decisions.record import DecisionRecord
from evalkit.decisions.rubric import score_response

from .support import CASE_IDS, baseline_record, codes, part_a, rubric

FINANCIAL = Blocker.FINANCIAL_VALUE_BINDING_INVALID
INCOMPLETE = Blocker.REQUIRED_DECISION_RECORD_INCOMPLETE
SCENARIOS = Blocker.SCENARIO_MAPPING_INVALID


@pytest.fixture(scope="module")
def part() -> PartA:
    return part_a(CASE_IDS[0])


@pytest.fixture
def record(part: PartA) -> dict[str, Any]:
    return copy.deepcopy(baseline_record(part))


def found(record: dict[str, Any], part: PartA, code: Blocker) -> dict[str, str]:
    """Where -> what, of one code."""
    findings = find_blockers(DecisionRecord.model_validate(record), part.packet)
    return {f.where: f.what for f in findings if f.code is code}


# --- prose that says nothing


STAND_INS = [
    "tbd todo none",
    "tbd todo n/a",
    "N/A tbd unknown",
    "TBD, todo; pending …",
    "placeholder text example string",
    "Various. Unknown. Pending. None.",
    "lorem ipsum tbd todo",
    "to be determined",
    "n/a",
]


@pytest.mark.parametrize("text", STAND_INS)
def test_w29_words_that_all_stand_in_for_an_answer(record: dict[str, Any], part: PartA, text: str) -> None:
    assert is_placeholder(text)
    assert is_placeholder(text, short=True)
    record["selected_alternative"]["rationale"] = text
    assert list(found(record, part, INCOMPLETE)) == ["selected_alternative.rationale"]


@pytest.mark.parametrize("text", ["tbd todo none", "pending unknown"])
def test_w29_short_answers_are_no_stand_ins_either(record: dict[str, Any], part: PartA, text: str) -> None:
    record["indicators"][0]["owner"] = text
    assert list(found(record, part, INCOMPLETE)) == ["indicators[0].owner"]


@pytest.mark.parametrize("text", ["none of the banks extends", "pending the survey of the vessel"])
def test_w29_a_sentence_with_such_a_word_is_an_answer(record: dict[str, Any], part: PartA, text: str) -> None:
    record["selected_alternative"]["rationale"] = text
    assert found(record, part, INCOMPLETE) == {}


# --- numbers that decide


@pytest.mark.parametrize(
    "section",
    ["disconfirming_evidence", "mechanism", "selected_alternative", "strongest_rejected_alternative"],
)
def test_w31_a_decisive_number_without_a_line(record: dict[str, Any], part: PartA, section: str) -> None:
    fact = next(
        f
        for f in part.packet.facts
        if f.is_numeric and f'"{f.id}"' not in json.dumps({k: v for k, v in record.items() if k != "facts"
                                                           and k != "financial_reconstruction"})
    )  # fmt: skip
    record["financial_reconstruction"] = [
        x for x in record["financial_reconstruction"] if x["fact_id"] != fact.id
    ]
    assert found(record, part, FINANCIAL) == {}
    cites = {
        "disconfirming_evidence": lambda: record["disconfirming_evidence"][0]["cites"],
        "mechanism": lambda: record["mechanism"]["mechanism"]["cites"],
    }.get(section, lambda: record[section]["cites"])()
    cites.append(fact.id)
    (said,) = found(record, part, FINANCIAL).items()
    assert said[0].startswith(section)
    assert said[1] == f"{fact.id} is a material number without a line"


# --- endless digits


@pytest.mark.parametrize(
    "text",
    [
        "0." + "3" * 59,
        "0." + "3" * 1_000_000,
        "0" * 61,
        "9" * 2_000_000,
        "-0." + "0" * 58,
    ],
    ids=["61", "a million", "61 zeros", "a large number", "61 with a sign"],
)
def test_w18_a_probability_of_more_than_sixty_characters(
    record: dict[str, Any], part: PartA, text: str
) -> None:
    assert len(text) >= 61
    record["scenarios"][0]["probability"] = text
    raw = json.dumps(record).encode()
    start = time.perf_counter()
    findings = score_response(raw, part.packet, rubric()).blockers
    assert time.perf_counter() - start < 2
    said = [f for f in findings if f.code is SCENARIOS and f.where == "scenarios[0]"]
    assert len(said) == 1
    assert said[0].what.startswith("probability '")
    assert len(said[0].what) < 450
    if len(text) == 61:
        assert said[0].what.endswith("is no plain decimal")


def test_w18_sixty_characters_are_a_probability(record: dict[str, Any], part: PartA) -> None:
    rest = len(record["scenarios"]) - 1
    for scenario in record["scenarios"]:
        scenario["probability"] = "0"
    record["scenarios"][0]["probability"] = "0." + "9" * 58
    record["scenarios"][rest]["probability"] = "0." + "0" * 57 + "1"
    assert codes(record, part) == set()


# --- what a finding shows


HOSTILE = "\x1b[31mred\x07 \u202egnp.exe\u202c \u2066x\u2069 \u200b\u2028\x00 \x9b2J \r\n"


def unsafe(text: str) -> list[str]:
    return [c for c in text if unicodedata.category(c) in ("Cc", "Cf", "Zl", "Zp", "Cs")]


def test_a_finding_shows_no_character_that_acts() -> None:
    what = Finding(code=INCOMPLETE, where="response", what=HOSTILE).what
    assert unsafe(HOSTILE)
    assert unsafe(what) == []
    assert "\\u001b[31mred" in what
    assert "\\u202egnp.exe" in what


def test_a_finding_is_cut() -> None:
    what = Finding(code=INCOMPLETE, where="response", what="a" * 1_000_000).what
    assert len(what) < 450
    assert what.endswith("(1000000 characters)")
    assert Finding(code=INCOMPLETE, where="response", what="a" * 400).what == "a" * 400


def test_findings_on_a_hostile_record_are_safe_to_show(record: dict[str, Any], part: PartA) -> None:
    """Every place at which a text of the model gets into a finding."""
    hostile = HOSTILE + "b" * 2000
    record["coordinates"]["question"] = hostile
    record["selected_alternative"]["alternative_id"] = hostile
    record["selected_alternative"]["cites"] = [hostile]
    record["scenarios"][0]["scenario_id"] = hostile
    record["scenarios"][1]["probability"] = hostile
    record["financial_reconstruction"][0]["known_at"] = hostile
    record["financial_reconstruction"][1]["source_ids"] = [hostile]
    record["missing_evidence"][0]["missing_evidence_id"] = hostile
    findings = find_blockers(DecisionRecord.model_validate(record), part.packet)
    assert len({f.code for f in findings}) >= 4
    for finding in findings:
        assert unsafe(finding.what) == [], finding
        assert unsafe(finding.where) == [], finding
        assert len(finding.what) < 600, finding  # 400 characters, some of them spelled out
