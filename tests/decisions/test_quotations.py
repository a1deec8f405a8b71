"""W25, W28: quoting a valuation that Part A holds is not valuing; saying it oneself is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions.baseline import analyse
from evalkit.decisions.findings import Blocker
from evalkit.decisions.packet import Packet
from evalkit.decisions.prompt import Instructions, build_prompt
from evalkit.decisions.rubric import score_response
from evalkit.sealing import canonical_json, load_strict

ROOT = Path(__file__).parents[2]


def packet_with(view: str) -> Packet:
    value = json.loads((ROOT / "data/cases/case-nflx-2007-07/part-a/packet.json").read_bytes())
    value["judgments"][0]["view"] = view
    return Packet.from_json(canonical_json(value))


def codes(record: dict[str, Any], packet: Packet) -> set[Blocker]:
    rubric = load_strict(Instructions.shipped().rubric)
    return {f.code for f in score_response(canonical_json(record), packet, rubric).blockers}


@pytest.fixture
def quoted() -> tuple[Packet, dict[str, Any]]:
    packet = packet_with("Called the shares undervalued, with a price target of 40.")
    record: dict[str, Any] = json.loads(analyse(build_prompt(Instructions.shipped(), packet.to_json())))
    return packet, record


def test_the_baseline_may_quote_a_judgment_that_values(quoted: tuple[Packet, dict[str, Any]]) -> None:
    packet, record = quoted
    assert "undervalued" in json.dumps(record["disconfirming_evidence"])
    assert codes(record, packet) == set()


def test_the_same_words_without_the_citation_are_the_analysts_own(
    quoted: tuple[Packet, dict[str, Any]],
) -> None:
    packet, record = quoted
    record["confidence"]["basis"] = "The shares are undervalued on every count that matters here."
    assert codes(record, packet) == {Blocker.VALUATION_ABSTENTION_REQUIRED}


@pytest.mark.parametrize("text", ["It trades at 12x earnings.", "Worth 3.5 times sales at least."])
def test_multiples_of_earnings_are_valuations(quoted: tuple[Packet, dict[str, Any]], text: str) -> None:
    packet, record = quoted
    record["confidence"]["basis"] = f"The rule says so and the numbers agree. {text}"
    assert codes(record, packet) == {Blocker.VALUATION_ABSTENTION_REQUIRED}


def test_a_multiple_of_something_else_is_not(quoted: tuple[Packet, dict[str, Any]]) -> None:
    packet, record = quoted
    record["confidence"]["basis"] = "Stores close in a multiple of 3 a quarter, which is all that is known."
    assert Blocker.VALUATION_ABSTENTION_REQUIRED not in codes(record, packet)


@pytest.mark.parametrize("spelling", ["303_7e-1", " 303.7", "3.037e2", "٣٠٣.٧", "+303.7"])
def test_a_number_is_spelled_plainly(quoted: tuple[Packet, dict[str, Any]], spelling: str) -> None:
    """W30: value as exact decimal; other spellings of it do not bind."""
    packet, record = quoted
    line = next(x for x in record["financial_reconstruction"] if x["value"] == "303.7")
    line["value"] = spelling
    assert codes(record, packet) == {Blocker.FINANCIAL_VALUE_BINDING_INVALID}
