"""Process score of a decision record: ten dimensions, looked at before any outcome is known (W27-W32).

A dimension's points are its weight times the share of its checks that pass, exact fractions rounded to
two decimals at the end.  The checks are structural: they show that a record cites, binds, separates and
commits, not that a sentence follows from its citation.  Every score therefore carries a review queue for
a person.  Weights come from the sealed rubric; what each check does is here, and `scorer_digest` seals
this code with the modules that it stands on.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from evalkit.decisions.blockers import (
    GAPS,
    OWN_KINDS,
    Blocker,
    Finding,
    find_blockers,
    is_placeholder,
    unreadable,
)
from evalkit.decisions.packet import EVIDENCE, Frozen, Packet, dump
from evalkit.decisions.record import DecisionRecord, Liquidity, citations, prose
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json, digest

#: modules whose source decides a score
SCORER_MODULES = ("blockers.py", "moments.py", "packet.py", "record.py", "rubric.py")


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
    root = files("evalkit") / "decisions"
    sources = {name: digest((root / name).read_bytes()) for name in SCORER_MODULES}
    return digest(canonical_json(sources))


def score_response(raw: bytes, packet: Packet, rubric: dict[str, Any]) -> ProcessScore:
    """Score a raw response against its packet (pure; the same bytes give the same score)."""
    try:
        record = DecisionRecord.from_response(raw)
    except EvalkitError as error:
        problem = f"{error.what}; {error.where}" if error.where else error.what
        return _assemble(packet, rubric, None, unreadable(problem), {}, [])
    findings = find_blockers(record, packet)
    subject = _Subject(record, packet, {f.code for f in findings})
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
            found = results.get(check["id"], "the response is no decision record")
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


@dataclass(frozen=True)
class _Subject:
    record: DecisionRecord
    packet: Packet
    codes: set[Blocker]

    def cited(self, *sections: str) -> set[str]:
        """Ids cited anywhere in these sections."""
        return {i for where, ids in citations(self.record) if where.startswith(sections) for i in ids}

    def of_kind(self, ids: set[str], kinds: frozenset[str]) -> set[str]:
        return {i for i in ids if self.packet.kinds.get(i) in kinds}

    def clear_of(self, code: Blocker) -> str:
        return f"see blocker {code.value}" if code in self.codes else ""


_DECISIVE = (
    "selected_alternative",
    "strongest_rejected_alternative",
    "mechanism",
    "liquidity",
    "disconfirming_evidence",
)


def _evidence_used(s: _Subject) -> str:
    used = len(s.of_kind(s.cited(*_DECISIVE), EVIDENCE))
    needed = min(5, len(s.packet.numbers))
    return "" if used >= needed else f"{used} used, {needed} needed"


def _prose_numbers(s: _Subject) -> str:
    loose = uncited_numbers(s.record, s.packet)
    return f"{len(loose)} number(s) stand in no cited record, first at {loose[0][0]}" if loose else ""


def _lists_filled(s: _Subject) -> str:
    present = set(s.packet.kinds.values())
    empty = [n for n, own in OWN_KINDS.items() if present & own and not getattr(s.record, n)]
    return f"empty: {', '.join(empty)}" if empty else ""


def _all_taken_up(kind: str, section: str) -> Callable[[_Subject], str]:
    def check(s: _Subject) -> str:
        left = set(s.packet.ids(kind)) - s.cited(section)
        return f"not taken up: {', '.join(sorted(left))}" if left else ""

    return check


def _words(text: str) -> int:
    return len(text.split())


def _states(part: str, words: int) -> Callable[[_Subject], str]:
    def check(s: _Subject) -> str:
        statement = getattr(s.record.mechanism, part)
        if _words(statement.statement) < words or is_placeholder(statement.statement):
            return f"fewer than {words} words"
        return "" if s.of_kind(set(statement.cites), EVIDENCE) else "it cites no evidence"

    return check


def _unit_differs(s: _Subject) -> str:
    m = s.record.mechanism
    same = m.mechanism.statement.strip().lower() == m.decision_unit.statement.strip().lower()
    return "the two statements are the same" if same else ""


def _case_for_rejected(s: _Subject) -> str:
    rejected = s.record.strongest_rejected_alternative
    if is_placeholder(rejected.case_for):
        return "no case is made"
    return "" if s.of_kind(set(rejected.cites), EVIDENCE) else "it cites no evidence"


_AGAINST = EVIDENCE | {"conflict", "judgment"}


def _disconfirming_cited(s: _Subject) -> str:
    count = len(s.of_kind(s.cited("disconfirming_evidence"), _AGAINST))
    return "" if count >= 2 else f"{count} cited"


def _disconfirming_fresh(s: _Subject) -> str:
    fresh = s.cited("disconfirming_evidence") - s.cited("selected_alternative")
    return "" if s.of_kind(fresh, _AGAINST) else "nothing that the selection does not already cite"


def _liquidity_parts(s: _Subject) -> str:
    parts = {name: getattr(s.record.liquidity, name) for name in Liquidity.model_fields}
    bad = [
        name
        for name, part in parts.items()
        if is_placeholder(part.statement) and not s.of_kind(set(part.cites), GAPS)
    ]
    return f"not answered: {', '.join(bad)}" if bad else ""


def _liquidity_items(s: _Subject) -> str:
    left = set(s.packet.ids("liquidity")) - s.cited("liquidity")
    return f"not cited: {', '.join(sorted(left))}" if left else ""


def _stress(s: _Subject) -> str:
    cites = set(s.record.liquidity.stressed_uses.cites)
    return "" if s.of_kind(cites, EVIDENCE | {"liquidity"}) else "no evidence cited"


def _no_certainty(s: _Subject) -> str:
    try:
        values = s.record.probabilities().values()
    except ValueError as error:
        return str(error)
    return "" if all(0 < p < 1 for p in values) else "a scenario is ruled out or certain"


def _each_scenario(part: str) -> Callable[[_Subject], str]:
    def check(s: _Subject) -> str:
        bad = [x.scenario_id for x in s.record.scenarios if not getattr(x, part)]
        return f"none for {', '.join(bad)}" if bad or not s.record.scenarios else ""

    return check


def _scenarios_distinct(s: _Subject) -> str:
    for part in ("assumptions", "falsifiers"):
        texts = [tuple(x.statement for x in getattr(scenario, part)) for scenario in s.record.scenarios]
        if len(set(texts)) < len(texts):
            return f"two scenarios have the same {part}"
    return ""


def _sides_differ(s: _Subject) -> str:
    fresh = set(s.record.strongest_rejected_alternative.cites) - set(s.record.selected_alternative.cites)
    return "" if s.of_kind(fresh, EVIDENCE) else "its case cites nothing that the selection does not"


def _thresholds(s: _Subject) -> str:
    vague = [i for i in s.record.indicators if not re.search(r"\d", i.threshold)]
    if not s.record.indicators:
        return "no indicator"
    return f"{len(vague)} threshold(s) without a number or date" if vague else ""


def _both_kinds(s: _Subject) -> str:
    c = s.record.commitments
    return "" if c.reversible and c.irreversible else "one of the two lists is empty"


def _gates(s: _Subject) -> str:
    bad = [c for c in s.record.commitments.irreversible if _words(c.gate) < 3 or is_placeholder(c.gate)]
    if not s.record.commitments.irreversible:
        return "no irreversible commitment is named"
    return f"{len(bad)} without a gate" if bad else ""


def _apart(s: _Subject) -> str:
    c = s.record.commitments
    both = {x.statement.strip().lower() for x in c.reversible} & {
        x.statement.strip().lower() for x in c.irreversible
    }
    return f"in both lists: {sorted(both)[0]!r}" if both else ""


def _indicators(s: _Subject) -> str:
    bad = [
        i
        for i in s.record.indicators
        if any(is_placeholder(x, short=True) for x in (i.source, i.threshold, i.cadence, i.owner))
    ]
    if len(s.record.indicators) < 2:
        return f"{len(s.record.indicators)} indicator(s)"
    return f"{len(bad)} not operational" if bad else ""


def _kill_rules(s: _Subject) -> str:
    bad = [
        k
        for k in s.record.reversal_conditions
        if is_placeholder(k.evidence, short=True)
        or is_placeholder(k.action)
        or not re.search(r"\d", k.time_allowed)
    ]
    if not s.record.reversal_conditions:
        return "no reversal condition"
    return f"{len(bad)} without evidence, action, or a dated or counted time" if bad else ""


def _reversible_by_evidence(s: _Subject) -> str:
    known = {i for i in s.cited("reversal_conditions") if i in s.packet.kinds}
    return "" if known else "no reversal condition cites Part A"


def _gaps_ranked(s: _Subject) -> str:
    if not s.packet.missing_evidence:
        return ""
    ranks = sorted(g.rank for g in s.record.missing_evidence)
    return "" if ranks and ranks == list(range(1, len(ranks) + 1)) else "not ranked 1, 2, 3 …"


def _clear(code: Blocker) -> Callable[[_Subject], str]:
    return lambda s: s.clear_of(code)


#: check id -> what is wrong, or "" where it passes
CHECKS: dict[str, Callable[[_Subject], str]] = {
    "references-known": _clear(Blocker.UNKNOWN_PART_A_REFERENCE),
    "statements-cited": _clear(Blocker.MATERIAL_ASSERTION_UNCITED),
    "coordinates-exact": _clear(Blocker.DECISION_COORDINATES_MISMATCH),
    "evidence-used": _evidence_used,
    "prose-numbers-cited": _prose_numbers,
    "values-bound": _clear(Blocker.FINANCIAL_VALUE_BINDING_INVALID),
    "lineage-complete": _clear(Blocker.SOURCE_LINEAGE_INCOMPLETE),
    "vintage-in-time": _clear(Blocker.FINANCIAL_VINTAGE_AFTER_CUTOFF),
    "period-in-time": _clear(Blocker.FINANCIAL_PERIOD_AFTER_CUTOFF),
    "kinds-apart": _clear(Blocker.EPISTEMIC_REFERENCE_INVALID),
    "lists-filled": _lists_filled,
    "conflicts-faced": _all_taken_up("conflict", "conflicts"),
    "unknowns-faced": _all_taken_up("unknown", "unknowns"),
    "mechanism-stated": _states("mechanism", 8),
    "unit-stated": _states("decision_unit", 5),
    "unit-differs": _unit_differs,
    "alternatives-valid": _clear(Blocker.ALTERNATIVE_REFERENCE_INVALID),
    "case-for-rejected": _case_for_rejected,
    "sides-differ": _sides_differ,
    "disconfirming-cited": _disconfirming_cited,
    "disconfirming-fresh": _disconfirming_fresh,
    "parts-complete": _liquidity_parts,
    "liquidity-items-used": _liquidity_items,
    "stress-evidenced": _stress,
    "mapping-exact": _clear(Blocker.SCENARIO_MAPPING_INVALID),
    "no-certainty": _no_certainty,
    "assumptions-visible": _each_scenario("assumptions"),
    "falsifiers-practical": _each_scenario("falsifiers"),
    "scenarios-distinct": _scenarios_distinct,
    "both-kinds": _both_kinds,
    "gates-stated": _gates,
    "apart": _apart,
    "indicators-operational": _indicators,
    "thresholds-measurable": _thresholds,
    "kill-rules-timed": _kill_rules,
    "reversible-by-evidence": _reversible_by_evidence,
    "abstains": _clear(Blocker.VALUATION_ABSTENTION_REQUIRED),
    "gaps-ranked": _gaps_ranked,
    "unquantifiable-named": lambda s: "" if s.record.confidence.unquantifiable else "nothing is named",
}

#: fields whose numbers the analyst sets, rather than finds
_CHOSEN = frozenset({"threshold", "cadence", "time_allowed", "gate"})
_NUMBER = re.compile(r"(?<![\w.-])-?\d+(?:[.,]\d+)*")


def uncited_numbers(record: DecisionRecord, packet: Packet) -> list[tuple[str, str]]:
    """Numbers in free text that stand neither in a record cited by that statement nor in the frame.

    The frame is what every reader of the packet has before it: question, dates, alternatives, scenarios.
    """
    by_id = {r.id: dump(r) for name in OWN_LISTS for r in getattr(packet, name)}
    frame = _numbers(
        " ".join(
            [str(dump(packet.decision))] + [str(dump(x)) for x in (*packet.alternatives, *packet.scenarios)]
        )
    )
    cites = dict(citations(record))
    # a ranked gap cites by its id
    cites |= {
        f"missing_evidence[{n}]": [g.missing_evidence_id] for n, g in enumerate(record.missing_evidence)
    }
    loose = []
    for where, text in prose(record):
        holder = where
        while holder and holder not in cites:
            holder = holder.rpartition(".")[0]
        known = frame | _numbers(" ".join(str(by_id[i]) for i in cites.get(holder, []) if i in by_id))
        if where.rpartition(".")[2] not in _CHOSEN:
            loose += [(where, n) for n in sorted(_numbers(text)) if n not in known]
    return loose


OWN_LISTS = (
    "facts",
    "company_claims",
    "third_party_estimates",
    "assumptions",
    "judgments",
    "conflicts",
    "unknowns",
    "missing_evidence",
    "liquidity",
    "tables",
    "sources",
)


def _numbers(text: str) -> set[str]:
    return {n.replace(",", "").lstrip("-") for n in _NUMBER.findall(text)}


def _review_queue(s: _Subject) -> list[ReviewItem]:
    """What a person must check: entailment of every decisive statement, fairness, loose numbers."""
    queue = [
        ReviewItem(where=where, asks="does the cited evidence support this statement?", cites=ids)
        for where, ids in citations(s.record)
        if where.startswith(_DECISIVE)
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
