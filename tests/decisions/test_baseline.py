"""The baseline analyst: a complete record by rule, from the prompt bytes alone."""

from __future__ import annotations

import copy
import json
import random
import subprocess
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions.baseline import adversity, analyse, scenario_probabilities, strain
from evalkit.decisions.case import PartA, read_part_a
from evalkit.decisions.importing import import_cases
from evalkit.decisions.packet import Packet, parse
from evalkit.decisions.prompt import Instructions, build_prompt
from evalkit.decisions.rubric import score_response
from evalkit.sealing import canonical_json

from .support import (
    CASE_IDS,
    FROZEN_AT,
    baseline_record,
    codes,
    other_sheet,
    part_a,
    prompt_of,
    rubric,
    sheet,
    write_sheets,
)


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_its_record_has_no_blocker(case_id: str) -> None:
    part = part_a(case_id)
    assert codes(baseline_record(part), part) == set()


@pytest.mark.parametrize("case_id", ["case-ferry-a", "case-ferry-b"])
def test_its_record_on_another_industry_has_no_blocker(ferries: Path, case_id: str) -> None:
    part = part_a(case_id, ferries)
    assert codes(baseline_record(part), part) == set()


@pytest.mark.parametrize(
    "absent", ["conflicts", "assumptions", "judgments", "liquidity", "missing_evidence", "unknowns", "all"]
)
def test_its_record_on_a_thin_case_has_no_blocker(tmp_path: Path, absent: str) -> None:
    thin = sheet()
    gone = ["conflicts", "assumptions", "judgments", "liquidity", "missing_evidence"]
    for name in gone if absent == "all" else [absent]:
        thin[name] = []
    if absent == "all":
        thin["facts"] = thin["facts"][:3]
    sheets, pairs = write_sheets(tmp_path / "s", [thin, other_sheet()])
    import_cases(sheets, pairs, tmp_path / "c", frozen_at=FROZEN_AT)
    part = read_part_a(tmp_path / "c" / "case-ferry-a" / "part-a")
    assert codes(baseline_record(part), part) == set()


def test_it_is_deterministic_across_processes() -> None:
    prompt = prompt_of(part_a(CASE_IDS[0]))
    code = (
        "import sys; from evalkit.decisions.baseline import analyse;"
        "sys.stdout.buffer.write(analyse(sys.stdin.buffer.read()))"
    )
    made = {
        subprocess.run(
            [sys.executable, "-c", code], input=prompt, capture_output=True, check=True,
            env={"PYTHONHASHSEED": seed, "PATH": "/usr/bin"},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert made == {analyse(prompt)}


def test_it_opens_no_file_and_no_connection() -> None:
    """It gets the prompt bytes and nothing else: an audit hook sees what it touches."""
    code = """
import sys
from evalkit.decisions.baseline import analyse
prompt = sys.stdin.buffer.read()
analyse(prompt)  # imports are done
seen = []
sys.addaudithook(lambda event, args: seen.append((event, str(args)[:200]))
                 if event.split(".")[0] in ("open", "os", "socket", "subprocess", "import") else None)
analyse(prompt)
sys.stdout.write(repr(seen))
"""
    prompt = prompt_of(part_a(CASE_IDS[0]))
    done = subprocess.run([sys.executable, "-c", code], input=prompt, capture_output=True, check=True)
    assert done.stdout == b"[]"


def test_it_imports_nothing_of_the_instructor() -> None:
    code = """
import sys
import evalkit.decisions.baseline
print([m for m in sys.modules if m.startswith("evalkit.decisions.")])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    loaded = {name.rpartition(".")[2] for name in json.loads(done.stdout.replace("'", '"'))}
    assert loaded <= {"baseline", "packet", "prompt", "moments"}


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_probabilities_are_the_stated_rule_and_not_uniform(case_id: str) -> None:
    packet = part_a(case_id).packet
    s = strain(packet)
    weights = {x.id: 1 - abs(adversity(x.description) - s) for x in packet.scenarios}
    total = sum(weights.values())
    given = scenario_probabilities(packet)
    assert {i: round(float(p), 8) for i, p in given.items()} == {
        i: round(float(w / total), 8) for i, w in weights.items()
    }
    assert len(set(given.values())) > 1
    assert abs(sum(given.values()) - 1) <= Decimal("0.000001")


def test_strain_counts_signs_of_reported_results(ferries: Path) -> None:
    # operating income -1.2, net income -2.0, operating income before repairs 0.3
    assert strain(part_a("case-ferry-a", ferries).packet) == Fraction(2 + 1, 3 + 2)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("nothing to say", Fraction(1, 2)),
        ("bankruptcy and loss", Fraction(3, 4)),
        ("profit, growth", Fraction(1, 4)),
        ("no bankruptcy", Fraction(1, 3)),
        ("not profitable", Fraction(2, 3)),
        ("not in default, then losing", Fraction(1, 2)),
        ("no later than December: growth", Fraction(1, 3)),
    ],
)
def test_adversity_counts_words_and_negations(text: str, expected: Fraction) -> None:
    assert adversity(text) == expected


def _renamed(part: PartA, seed: int) -> tuple[Packet, dict[str, str]]:
    value: dict[str, Any] = copy.deepcopy(json.loads(part.packet_bytes))
    random.Random(seed).shuffle(value["scenarios"])
    names = {}
    for n, scenario in enumerate(value["scenarios"]):
        names[scenario["id"]] = f"zz-{n}"
        scenario["id"] = f"zz-{n}"
    return parse(Packet, value, where="test"), names


@pytest.mark.parametrize("case_id", CASE_IDS)
@pytest.mark.parametrize("seed", range(3))
def test_order_and_names_of_scenarios_change_no_probability(case_id: str, seed: int) -> None:
    part = part_a(case_id)
    packet, names = _renamed(part, seed)
    before, after = scenario_probabilities(part.packet), scenario_probabilities(packet)
    assert {names[i]: p for i, p in before.items()} == after


def test_what_it_selects_does_not_hang_on_the_sheets_order() -> None:
    part = part_a(CASE_IDS[0])
    value = json.loads(part.packet_bytes)
    value["alternatives"].reverse()
    record = json.loads(analyse(build_prompt(Instructions.shipped(), canonical_json(value))))
    same = baseline_record(part)
    for name in ("selected_alternative", "strongest_rejected_alternative"):
        assert record[name]["alternative_id"] == same[name]["alternative_id"]


def test_its_prose_invents_no_number() -> None:
    for case_id in CASE_IDS:
        part = part_a(case_id)
        score = score_response(analyse(prompt_of(part)), part.packet, rubric())
        checks = {c.id: c for d in score.dimensions for c in d.checks}
        assert checks["prose-numbers-cited"].passed, checks["prose-numbers-cited"].found
