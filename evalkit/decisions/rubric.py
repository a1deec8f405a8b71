"""Process score of a decision record: ten dimensions, looked at before any outcome is known (W27-W32).

A dimension's points are its weight times the share of its checks that pass, exact fractions rounded to
two decimals at the end.  The checks are structural: they show that a record cites, binds, separates and
commits, not that a sentence follows from its citation.  Every score therefore carries a review queue for
a person.  Weights come from the sealed rubric; what each check does is here, and `scorer_digest` seals
this code with the modules that it stands on.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from evalkit.decisions.blockers import find_blockers, unreadable
from evalkit.decisions.checks import CHECKS, DECISIVE, Subject, uncited_numbers
from evalkit.decisions.findings import Finding
from evalkit.decisions.packet import Frozen, Packet, dump
from evalkit.decisions.record import DecisionRecord, citations
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json, digest

#: modules whose source decides a score, below the package
SCORER_MODULES = (
    "decisions/blockers.py",
    "decisions/checks.py",
    "decisions/financial.py",
    "decisions/findings.py",
    "decisions/moments.py",
    "decisions/packet.py",
    "decisions/record.py",
    "decisions/rubric.py",
    "sealing/canonical.py",
)


class CheckResult(Frozen):
    id: str
    passed: bool
    found: str


class DimensionScore(Frozen):
    id: str
    title: str
    weight: int
    points: str
    checks: list[CheckResult]


class ReviewItem(Frozen):
    """One thing that a person must look at, since code cannot."""

    where: str
    asks: str
    cites: list[str]


class ProcessScore(Frozen):
    """Score of one record (``evalkit/process-score/1``).  No outcome enters it."""

    score_format: Literal["evalkit/process-score/1"] = Field(alias="schema")
    case_id: str
    dimensions: list[DimensionScore]
    total: str
    maximum: str
    blockers: list[Finding]
    eligible: bool
    substantive_human_review_required: Literal[True]
    review_queue: list[ReviewItem]

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


def scorer_digest() -> str:
    """Digest over the source of the scoring modules: a precommit seals it, reveal compares it."""
    root = files("evalkit")
    sources = {name: digest((root / name).read_bytes()) for name in SCORER_MODULES}
    return digest(canonical_json(sources))


def score_response(raw: bytes, packet: Packet, rubric: dict[str, Any]) -> ProcessScore:
    """Score a raw response against its packet (pure; the same bytes give the same score)."""
    try:
        record = DecisionRecord.from_response(raw)
    except EvalkitError as error:
        problem = f"{error.what}; {error.where}" if error.where else error.what
        return _assemble(packet, rubric, None, unreadable(problem, raw), {}, [])
    findings = find_blockers(record, packet)
    subject = Subject(record, packet, {f.code for f in findings})
    results = {name: check(subject) for name, check in CHECKS.items()}
    return _assemble(packet, rubric, record, findings, results, _review_queue(subject))


def _assemble(
    packet: Packet,
    rubric: dict[str, Any],
    record: DecisionRecord | None,
    findings: list[Finding],
    results: dict[str, str],
    queue: list[ReviewItem],
) -> ProcessScore:
    dimensions = []
    total = Fraction(0)
    for dimension in rubric["dimensions"]:
        checks = []
        for check in dimension["checks"]:
            absent = (
                "the response is no decision record" if record is None else "this scorer has no such check"
            )
            found = results.get(check["id"], absent)
            checks.append(CheckResult(id=check["id"], passed=not found, found=found))
        points = Fraction(dimension["weight"] * sum(c.passed for c in checks), len(checks))
        total += points
        dimensions.append(
            DimensionScore(
                id=dimension["id"],
                title=dimension["title"],
                weight=dimension["weight"],
                points=_decimal(points),
                checks=checks,
            )
        )
    return ProcessScore(
        schema="evalkit/process-score/1",
        case_id=packet.case_id,
        dimensions=dimensions,
        total=_decimal(total),
        maximum=str(sum(d.weight for d in dimensions)),
        blockers=findings,
        eligible=record is not None and not findings,
        substantive_human_review_required=True,
        review_queue=queue,
    )


def _decimal(value: Fraction) -> str:
    return str((Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal("0.01")))


def _review_queue(s: Subject) -> list[ReviewItem]:
    """What a person must check: entailment of every decisive statement, fairness, loose numbers."""
    queue = [
        ReviewItem(where=where, asks="does the cited evidence support this statement?", cites=ids)
        for where, ids in citations(s.record)
        if where.startswith(DECISIVE)
    ]
    queue += [
        ReviewItem(where=f"scenarios[{n}]", asks="is this probability argued from the evidence?", cites=[])
        for n, _ in enumerate(s.record.scenarios)
    ]
    queue.append(
        ReviewItem(
            where="strongest_rejected_alternative",
            cites=[],
            asks="is this the strongest feasible alternative, and is its case made fairly?",
        )
    )
    queue += [
        ReviewItem(where=where, asks=f"where does the number {number} come from?", cites=[])
        for where, number in uncited_numbers(s.record, s.packet)
    ]
    return queue
