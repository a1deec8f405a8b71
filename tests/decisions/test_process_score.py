"""W22-W32: the process score, its blindness to outcomes, and what it cannot replace."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from evalkit.decisions import rubric as rubric_module
from evalkit.decisions.baseline import analyse
from evalkit.decisions.case import PartA
from evalkit.decisions.rubric import SCORER_MODULES, ProcessScore, score_response, scorer_digest

from .support import CASE_IDS, ROOT, baseline_record, part_a, prompt_of, rubric

Record = dict[str, Any]


def score(record: Record, part: PartA) -> ProcessScore:
    return score_response(json.dumps(record).encode(), part.packet, rubric())


@pytest.fixture(scope="module")
def part() -> PartA:
    return part_a(CASE_IDS[0])


@pytest.fixture(scope="module")
def record(part: PartA) -> Record:
    return baseline_record(part)


def failed(score: ProcessScore) -> set[str]:
    return {c.id for d in score.dimensions for c in d.checks if not c.passed}


def test_w27_outcomes_are_no_input() -> None:
    assert list(inspect.signature(score_response).parameters) == ["raw", "packet", "rubric"]


def test_w27_no_scoring_module_knows_the_instructors_side() -> None:
    for name in SCORER_MODULES:
        text = (ROOT / "evalkit" / name).read_text()
        for word in ("catalog", "calibration", "PartB", "import Mapping", "realized", "sealed"):
            lines = [x for x in text.splitlines() if "import" in x and word in x]
            assert not lines, f"{name}: {lines}"


def test_w27_a_fair_coin_could_not_change_it(part: PartA, record: Record) -> None:
    """Turning the probabilities around changes calibration, and no point of the process."""
    turned = copy.deepcopy(record)
    values = [s["probability"] for s in turned["scenarios"]]
    for one, value in zip(turned["scenarios"], reversed(values), strict=True):
        one["probability"] = value
    assert turned != record
    assert score(turned, part).to_json() == score(record, part).to_json()


def test_the_same_bytes_give_the_same_score(part: PartA) -> None:
    raw = analyse(prompt_of(part))
    first = score_response(raw, part.packet, rubric())
    assert score_response(raw, part.packet, rubric()).to_json() == first.to_json()


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_w27_points_are_weights_times_the_share_of_checks(case_id: str) -> None:
    part = part_a(case_id)
    found = score(baseline_record(part), part)
    for d in found.dimensions:
        share = Decimal(sum(c.passed for c in d.checks)) / len(d.checks)
        assert abs(Decimal(d.points) - d.weight * share) < Decimal("0.01")
    assert abs(Decimal(found.total) - sum(Decimal(d.points) for d in found.dimensions)) < Decimal("0.05")
    assert Decimal(found.total) <= Decimal(found.maximum) == 100


def test_w28_no_total_lifts_a_blocker(part: PartA, record: Record) -> None:
    broken = copy.deepcopy(record)
    broken["valuation"]["abstain"] = False
    found = score(broken, part)
    assert Decimal(found.total) > 90
    assert found.eligible is False
    assert [b.code.value for b in found.blockers] == ["VALUATION_ABSTENTION_REQUIRED"]


def test_w28_a_rubric_of_other_weights_lifts_no_blocker(part: PartA, record: Record) -> None:
    generous = rubric()
    for d in generous["dimensions"]:
        d["weight"] = 1000
    broken = copy.deepcopy(record)
    broken["selected_alternative"]["cites"] = []
    assert score_response(json.dumps(broken).encode(), part.packet, generous).eligible is False


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_w32_a_person_must_always_review(case_id: str) -> None:
    part = part_a(case_id)
    found = score(baseline_record(part), part)
    assert found.substantive_human_review_required is True
    where = [item.where for item in found.review_queue]
    for needed in ("selected_alternative", "strongest_rejected_alternative", "mechanism.mechanism",
                   "liquidity.accessible", "disconfirming_evidence[0]", "scenarios[0]"):  # fmt: skip
        assert needed in where
    assert all(item.asks for item in found.review_queue)


def test_w32_a_loose_number_goes_to_the_queue(part: PartA, record: Record) -> None:
    loose = copy.deepcopy(record)
    loose["confidence"]["basis"] = "Because 98765 customers told us that they would stay."
    found = score(loose, part)
    assert "prose-numbers-cited" in failed(found)
    assert any("98765" in item.asks for item in found.review_queue)


def test_w31_a_score_cannot_be_built_without_the_review_flag(part: PartA, record: Record) -> None:
    from pydantic import ValidationError

    value = score(record, part).model_dump(by_alias=True) | {"substantive_human_review_required": False}
    with pytest.raises(ValidationError):
        ProcessScore.model_validate(value)


def _edit(path: str, value: Any) -> Callable[[Record], None]:
    def change(target: Any) -> None:
        *parents, last = path.split(".")
        for p in parents:
            target = target[int(p)] if p.isdigit() else target[p]
        target[int(last) if last.isdigit() else last] = value

    return change


#: check -> an edit of the baseline's record that fails it, and no blocker
FAILS: dict[str, Callable[[Record], None]] = {
    "mechanism-stated": _edit("mechanism.mechanism.statement", "Cash goes out faster"),
    "unit-stated": _edit("mechanism.decision_unit.statement", "One reporting period"),
    "unit-differs": lambda r: r["mechanism"]["decision_unit"].update(r["mechanism"]["mechanism"]),
    "conflicts-faced": lambda r: r["conflicts"].pop(),
    "unknowns-faced": lambda r: [r["unknowns"].pop(0) for _ in range(2)],
    "disconfirming-cited": lambda r: r.update(disconfirming_evidence=r["disconfirming_evidence"][:1]),
    "liquidity-items-used": lambda r: [
        part.update(
            cites=[i for i in part["cites"] if ".l3" not in i] or r["mechanism"]["mechanism"]["cites"]
        )
        for part in r["liquidity"].values()
    ],
    "no-certainty": lambda r: [
        s.update(probability=p) for s, p in zip(r["scenarios"], ("1", "0", "0", "0"), strict=True)
    ],
    "both-kinds": lambda r: r["commitments"].update(reversible=[]),
    "apart": lambda r: r["commitments"]["irreversible"][0].update(
        statement=r["commitments"]["reversible"][0]["statement"]
    ),
    "indicators-operational": lambda r: r.update(indicators=r["indicators"][:1]),
    "thresholds-measurable": _edit("indicators.0.threshold", "worse than before"),
}


@pytest.mark.parametrize("check", FAILS)
def test_each_check_can_fail_alone(check: str, part: PartA, record: Record) -> None:
    changed = copy.deepcopy(record)
    FAILS[check](changed)
    found = score(changed, part)
    assert failed(found) - failed(score(record, part)) == {check}
    assert found.eligible


def test_scorer_digest_covers_the_code_that_scores(monkeypatch: pytest.MonkeyPatch) -> None:
    before = scorer_digest()
    for left_out in SCORER_MODULES:
        fewer = tuple(m for m in SCORER_MODULES if m != left_out)
        monkeypatch.setattr(rubric_module, "SCORER_MODULES", fewer)
        assert scorer_digest() != before


def test_scorer_digest_covers_every_module_that_the_scorer_imports() -> None:
    """Follow the imports from rubric.py within evalkit.decisions: the list must be closed."""
    import ast

    folder = ROOT / "evalkit" / "decisions"
    # the digest over canonical JSON is not imported from there, but decides what parses at all
    todo, seen = ["rubric.py"], {"sealing/canonical.py"}
    while todo:
        name = todo.pop()
        if f"decisions/{name}" in seen:
            continue
        seen.add(f"decisions/{name}")
        for node in ast.walk(ast.parse((folder / name).read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("evalkit.decisions."):
                todo.append(f"{(node.module or '').rpartition('.')[2]}.py")
    assert seen == set(SCORER_MODULES)
