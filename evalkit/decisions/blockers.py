"""The twelve defects of a decision record that no total can compensate (W28-W31).

Each finder looks at one thing and says where and what.  Ids resolve in the packet or they do not;
nothing that the model asserts about its own record (``material``, ``authoritative``) is read.  A record
with a finding is blocked: it is scored and kept, and reveal refuses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from enum import StrEnum

from evalkit.decisions.moments import not_after
from evalkit.decisions.packet import EVIDENCE, Fact, Frozen, Packet
from evalkit.decisions.record import (
    PROBABILITY_TOLERANCE,
    DecisionRecord,
    FinancialLine,
    Liquidity,
    citations,
    prose,
)


class Blocker(StrEnum):
    """Code of a non-compensating defect."""

    DECISION_COORDINATES_MISMATCH = "DECISION_COORDINATES_MISMATCH"
    UNKNOWN_PART_A_REFERENCE = "UNKNOWN_PART_A_REFERENCE"
    MATERIAL_ASSERTION_UNCITED = "MATERIAL_ASSERTION_UNCITED"
    ALTERNATIVE_REFERENCE_INVALID = "ALTERNATIVE_REFERENCE_INVALID"
    SCENARIO_MAPPING_INVALID = "SCENARIO_MAPPING_INVALID"
    FINANCIAL_VALUE_BINDING_INVALID = "FINANCIAL_VALUE_BINDING_INVALID"
    FINANCIAL_VINTAGE_AFTER_CUTOFF = "FINANCIAL_VINTAGE_AFTER_CUTOFF"
    FINANCIAL_PERIOD_AFTER_CUTOFF = "FINANCIAL_PERIOD_AFTER_CUTOFF"
    EPISTEMIC_REFERENCE_INVALID = "EPISTEMIC_REFERENCE_INVALID"
    SOURCE_LINEAGE_INCOMPLETE = "SOURCE_LINEAGE_INCOMPLETE"
    REQUIRED_DECISION_RECORD_INCOMPLETE = "REQUIRED_DECISION_RECORD_INCOMPLETE"
    VALUATION_ABSTENTION_REQUIRED = "VALUATION_ABSTENTION_REQUIRED"


class Finding(Frozen):
    """One defect: which blocker, where in the record, and what is wrong."""

    code: Blocker
    where: str
    what: str


GAPS = frozenset({"unknown", "missing_evidence"})

#: list of the record -> kinds of which each of its items must cite at least one
OWN_KINDS: dict[str, frozenset[str]] = {
    "facts": frozenset({"fact"}),
    "company_claims": frozenset({"company_claim"}),
    "third_party_estimates": frozenset({"third_party_estimate"}),
    "assumptions": frozenset({"assumption"}),
    "judgments": frozenset({"judgment"}),
    "conflicts": frozenset({"conflict"}),
    "unknowns": GAPS,
}
#: in these lists an item may cite only its own kind (and sources): a claim is never listed as a fact
_PURE = ("facts", "company_claims", "third_party_estimates")

_SUPPORT = EVIDENCE | GAPS | {"assumption", "judgment", "conflict", "liquidity", "table"}
#: elsewhere: path pattern -> kinds of which a statement must cite at least one
_NEEDS: list[tuple[re.Pattern[str], frozenset[str]]] = [
    (re.compile(r"(selected|strongest_rejected)_alternative$"), EVIDENCE),
    (re.compile(r"mechanism\."), EVIDENCE),
    (re.compile(r"liquidity\."), EVIDENCE | GAPS | {"liquidity"}),
    (re.compile(r"disconfirming_evidence"), EVIDENCE | {"conflict", "judgment"}),
    (re.compile(r"confidence\.unquantifiable"), GAPS | {"assumption", "conflict"}),
    (re.compile(r""), _SUPPORT),
]
#: sections whose cited numbers are material: each needs a line in the financial reconstruction
_DECISIVE = re.compile(
    r"(selected_alternative|strongest_rejected_alternative|mechanism|liquidity|disconfirming_evidence)"
)

_PLACEHOLDERS = frozenset(
    [
        "tbd",
        "tba",
        "todo",
        "na",
        "none",
        "null",
        "nil",
        "placeholder",
        "unknown",
        "lorem",
        "ipsum",
        "xxx",
        "string",
        "text",
        "example",
        "same",
        "ditto",
        "various",
        "etc",
        "pending",
        "statement",
        "to_be_determined",
        "not_applicable",
        "see_above",
        "see_below",
        "as_above",
        "not_available",
        "fill_in",
        "lorem_ipsum",
    ]
)
#: fields in which a word or two can be a complete answer
_SHORT = frozenset({"source", "threshold", "cadence", "owner", "time_allowed", "evidence", "definition"})
#: prose that puts a value on the company or its securities (outside the lists that report others' views)
_VALUES = re.compile(
    r"\b(price targets?|target prices?|intrinsic value|under-?valued|over-?valued"
    r"|(shares?|stock|equity|company|business) (is|are) worth|fair value (is|of the (company|equity|shares?))"
    r"|(enterprise|equity) value (is|of)|worth (about |around |some )?(usd|us\$|\$|€|£)\s?\d"
    r"|multiple of \d)",
    re.IGNORECASE,
)


def find_blockers(record: DecisionRecord, packet: Packet) -> list[Finding]:
    """All findings on a parsed record, in the order of the blocker codes."""
    finders = (
        _coordinates,
        _references,
        _citations,
        _alternatives,
        _scenarios,
        _financial,
        _kinds,
        _complete,
        _valuation,
    )
    found = [finding for finder in finders for finding in finder(record, packet)]
    order = list(Blocker)
    return sorted(found, key=lambda f: order.index(f.code))


def unreadable(problem: str) -> list[Finding]:
    """The finding on a response that is no decision record at all."""
    return [Finding(code=Blocker.REQUIRED_DECISION_RECORD_INCOMPLETE, where="response", what=problem)]


def _coordinates(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    given, d = record.coordinates, packet.decision
    for field, value, expected in (
        ("case_id", given.case_id, packet.case_id),
        ("decision_owner", given.decision_owner, d.owner),
        ("decision_time", given.decision_time, d.decision_time),
        ("knowledge_cutoff", given.knowledge_cutoff, d.knowledge_cutoff),
        ("question", given.question, d.question),
    ):
        if value != expected:
            yield Finding(
                code=Blocker.DECISION_COORDINATES_MISMATCH,
                where=f"coordinates.{field}",
                what=f"{value!r} is not the packet's {expected!r}",
            )


def _references(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    cited = [(where, i) for where, ids in citations(record) for i in ids]
    for index, line in enumerate(record.financial_reconstruction):
        where = f"financial_reconstruction[{index}]"
        cited += [(f"{where}.fact_id", line.fact_id)]
        cited += [(f"{where}.source_ids", s) for s in line.source_ids]
    cited += [
        (f"missing_evidence[{n}]", g.missing_evidence_id) for n, g in enumerate(record.missing_evidence)
    ]
    for where, target in cited:
        if target not in packet.kinds:
            yield Finding(
                code=Blocker.UNKNOWN_PART_A_REFERENCE,
                where=where,
                what=f"{target!r} is no record of Part A",
            )


def _citations(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    for where, ids in citations(record):
        if not ids:
            yield Finding(
                code=Blocker.MATERIAL_ASSERTION_UNCITED,
                where=where,
                what="it cites no Part A record (the record's own materiality flag is not read)",
            )


def _alternatives(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    known = {a.id: a for a in packet.alternatives}
    selected = record.selected_alternative.alternative_id
    rejected = record.strongest_rejected_alternative.alternative_id

    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.ALTERNATIVE_REFERENCE_INVALID, where=where, what=what)

    for where, target in (
        ("selected_alternative", selected),
        ("strongest_rejected_alternative", rejected),
    ):
        if target not in known:
            yield finding(where, f"{target!r} is no alternative of the packet")
        elif not known[target].feasible:
            yield finding(where, f"{target} is not feasible on the record")
    if selected == rejected:
        yield finding("strongest_rejected_alternative", "it is the selected one")


def _scenarios(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.SCENARIO_MAPPING_INVALID, where=where, what=what)

    given = [s.scenario_id for s in record.scenarios]
    expected = [s.id for s in packet.scenarios]
    for extra in sorted(set(given) - set(expected)):
        yield finding("scenarios", f"{extra!r} is no scenario of the packet")
    for absent in sorted(set(expected) - set(given)):
        yield finding("scenarios", f"{absent} has no probability")
    if len(set(given)) != len(given):
        yield finding("scenarios", "a scenario stands twice")
    if len(given) < 3:
        yield finding("scenarios", f"{len(given)} scenarios, at least three are required")
    total = Decimal(0)
    for index, scenario in enumerate(record.scenarios):
        try:
            p = Decimal(scenario.probability)
        except InvalidOperation:
            yield finding(f"scenarios[{index}]", f"probability {scenario.probability!r} is no decimal")
            continue
        if not p.is_finite() or not 0 <= p <= 1:
            yield finding(f"scenarios[{index}]", f"probability {scenario.probability} is not in [0, 1]")
            continue
        total += p
    if abs(total - 1) > PROBABILITY_TOLERANCE:
        yield finding("scenarios", f"probabilities sum to {total}, not to 1")


def _financial(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    cutoff = packet.decision.knowledge_cutoff
    bound: set[str] = set()
    for index, line in enumerate(record.financial_reconstruction):
        where = f"financial_reconstruction[{index}]"
        fact = packet.numbers.get(line.fact_id)
        kind = packet.kinds.get(line.fact_id)
        if line.status == "computed":
            yield _unbound(where, "a number that a model computed has no authority, whatever it claims")
            continue
        if line.status == "unknown":
            yield from _unknown_line(line, kind, where)
            continue
        if fact is None:
            if kind is not None:
                yield Finding(
                    code=Blocker.EPISTEMIC_REFERENCE_INVALID,
                    where=where,
                    what=f"{line.fact_id} is a {kind}, not a fact, claim or estimate",
                )
            continue
        bound.add(fact.id)
        yield from _line(line, fact, kind or "", cutoff, where)
    for where, ids in citations(record):
        if _DECISIVE.match(where):
            for target in dict.fromkeys(ids):
                fact = packet.numbers.get(target)
                if fact is not None and fact.is_numeric and target not in bound:
                    yield _unbound(where, f"{target} is a material number without a line")


def _unbound(where: str, what: str) -> Finding:
    return Finding(code=Blocker.FINANCIAL_VALUE_BINDING_INVALID, where=where, what=what)


def _unknown_line(line: FinancialLine, kind: str | None, where: str) -> Iterator[Finding]:
    if line.value is not None or line.value_low is not None or line.value_high is not None:
        yield _unbound(where, f"an unknown has no value, not even {line.value or line.value_low!r}")
    if kind is not None and kind not in GAPS:
        yield _unbound(where, f"{line.fact_id} is known to Part A and is reported as unknown")


def _line(line: FinancialLine, fact: Fact, kind: str, cutoff: str, where: str) -> Iterator[Finding]:
    wrong = [
        name
        for name in ("definition", "unit", "currency", "entity", "scope", "vintage")
        if getattr(line, name) != getattr(fact, name)
    ]
    if not _same_value(line, fact):
        wrong.insert(0, "value")
    period = line.period
    late_period = period is not None and not _not_after(period.end, cutoff)
    if period is None or (
        (period.start, period.label) != (fact.period.start, fact.period.label)
        or (period.end != fact.period.end and not late_period)
    ):
        wrong.append("period")
    late_vintage = line.known_at is not None and not _not_after(line.known_at, cutoff)
    if line.known_at != fact.known_at and not late_vintage:
        wrong.append("known_at")
    if line.status == "forward_looking" and not fact.forward_looking:
        wrong.append("status")
    if wrong:
        yield _unbound(where, f"{', '.join(wrong)} differ from {fact.id}")
    if late_vintage or not not_after(fact.known_at, cutoff):
        yield Finding(
            code=Blocker.FINANCIAL_VINTAGE_AFTER_CUTOFF,
            where=where,
            what=f"known {line.known_at}, after the cutoff {cutoff}",
        )
    guidance = fact.forward_looking and kind != "fact" and line.status == "forward_looking"
    ends_late = late_period or not not_after(fact.period.end, cutoff)
    if ends_late and not (guidance and period is not None and period.end == fact.period.end):
        yield Finding(
            code=Blocker.FINANCIAL_PERIOD_AFTER_CUTOFF,
            where=where,
            what=f"the period ends {period.end if period else fact.period.end}, after the cutoff {cutoff},"
            " and it is not marked as a forward-looking claim or estimate",
        )
    if set(line.source_ids) != set(fact.source_ids) or not fact.source_ids:
        yield Finding(
            code=Blocker.SOURCE_LINEAGE_INCOMPLETE,
            where=where,
            what=f"{fact.id} rests on {', '.join(fact.source_ids) or 'no source'}; the line names"
            f" {', '.join(line.source_ids) or 'none'}",
        )


def _not_after(text: str, cutoff: str) -> bool:
    try:
        return not_after(text, cutoff)
    except ValueError:
        return True  # no date at all: the comparison with the fact fails anyway


def _same_value(line: FinancialLine, fact: Fact) -> bool:
    if fact.value_type == "text":
        return (line.value, line.value_low, line.value_high) == (fact.value, None, None)
    if fact.value_type == "range":
        # low and high are the value; the printed range may be left out, not changed
        if line.value not in (None, fact.value):
            return False
        given: list[str | None] = [line.value_low, line.value_high]
    else:
        given = [line.value]
        if line.value_low is not None or line.value_high is not None:
            return False
    try:
        return [Decimal(g if g is not None else "NaN") for g in given] == fact.numbers()
    except InvalidOperation:
        return False


def _kinds(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    for where, ids in citations(record):
        kinds = {packet.kinds[i] for i in ids if i in packet.kinds}
        if not kinds:
            continue  # uncited or unknown: said elsewhere
        section = where.partition("[")[0]
        if section in OWN_KINDS:
            own = OWN_KINDS[section]
            wrong = kinds - own - {"source", "table"} if section in _PURE else set()
        else:
            own = next(needs for pattern, needs in _NEEDS if pattern.match(where))
            wrong = set()
        if not kinds & own:
            yield _wrong_kind(where, f"it cites {_names(kinds)} where {_names(own)} is needed")
        elif wrong:
            yield _wrong_kind(where, f"it mixes in {_names(wrong)}")
    for name in Liquidity.model_fields:
        part = getattr(record.liquidity, name)
        cited = {packet.kinds.get(i) for i in part.cites}
        if _normal(part.statement) == "unknown" and part.cites and not cited & GAPS:
            yield _wrong_kind(f"liquidity.{name}", "'unknown' cites neither an unknown nor missing evidence")
    for index, gap in enumerate(record.missing_evidence):
        kind = packet.kinds.get(gap.missing_evidence_id)
        if kind not in (None, "missing_evidence"):
            yield _wrong_kind(f"missing_evidence[{index}]", f"{gap.missing_evidence_id} is a {kind}")


def _wrong_kind(where: str, what: str) -> Finding:
    return Finding(code=Blocker.EPISTEMIC_REFERENCE_INVALID, where=where, what=what)


def _names(kinds: set[str] | frozenset[str]) -> str:
    return " or ".join(sorted(kinds)).replace("_", " ")


def _complete(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.REQUIRED_DECISION_RECORD_INCOMPLETE, where=where, what=what)

    present = set(packet.kinds.values())
    for section, own in OWN_KINDS.items():
        if present & own and not getattr(record, section):
            yield finding(section, f"Part A has {_names(own)} records and the list is empty")
    needed = {
        "financial_reconstruction": any(f.is_numeric for f in packet.numbers.values()),
        "missing_evidence": bool(packet.missing_evidence),
        "disconfirming_evidence": True,
        "indicators": True,
        "reversal_conditions": True,
    }
    for section, required in needed.items():
        if required and not getattr(record, section):
            yield finding(section, "the section is empty")
    if not record.commitments.reversible and not record.commitments.irreversible:
        yield finding("commitments", "neither a reversible nor an irreversible commitment is named")
    if not record.confidence.unquantifiable:
        yield finding("confidence.unquantifiable", "nothing is said to be unquantifiable")
    for index, scenario in enumerate(record.scenarios):
        for part in ("assumptions", "falsifiers"):
            if not getattr(scenario, part):
                yield finding(f"scenarios[{index}].{part}", "the list is empty")
    if sorted(g.rank for g in record.missing_evidence) != list(range(1, len(record.missing_evidence) + 1)):
        yield finding("missing_evidence", "ranks are not 1, 2, 3 … without ties")
    gaps = {f"liquidity.{n}.statement" for n in Liquidity.model_fields if _is_gap(record, packet, n)}
    for where, text in prose(record):
        if where not in gaps and is_placeholder(text, short=where.rpartition(".")[2] in _SHORT):
            yield finding(where, f"{text[:40]!r} is a placeholder, not an answer")


def _is_gap(record: DecisionRecord, packet: Packet, part: str) -> bool:
    """Is this part of the liquidity section an honest, cited 'unknown'?"""
    statement = getattr(record.liquidity, part)
    cited = {packet.kinds.get(i) for i in statement.cites}
    return _normal(statement.statement).startswith("unknown") and bool(cited & GAPS)


def _normal(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def is_placeholder(text: str, *, short: bool = False) -> bool:
    """Is this prose a stand-in for an answer?  ``short``: one real word is enough."""
    normal = _normal(text)
    words = [w for w in normal.split("_") if w]
    if not words or normal in _PLACEHOLDERS or normal == "n_a":
        return True
    if all(w in _PLACEHOLDERS for w in words):
        return True
    if short:
        return False
    return len(words) < 3 or len(set(words)) < 3


def _valuation(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.VALUATION_ABSTENTION_REQUIRED, where=where, what=what)

    if not record.valuation.abstain:
        yield finding("valuation.abstain", "it is false")
    for where, text in prose(record):
        if where.partition("[")[0] in OWN_KINDS or where == "valuation.reason":
            continue  # reporting what others said, or saying why one abstains, values nothing
        match = _VALUES.search(text)
        if match:
            yield finding(where, f"it values: {match.group(0)!r}")
