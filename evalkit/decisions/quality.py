"""Quality control of a frozen case: what a machine can check about Part A, and what it warns of.

Two results, both recomputed at every verification and compared with the sealed ``qc.json`` (W6):

* checks on the packet and on the rendered report, each passed or failed with what was found;
* warnings, a sorted list of codes.  A precommit accepts an exact list: one warning more or one less
  blocks the run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

from pydantic import Field

from evalkit.decisions.moments import earliest, latest, not_after
from evalkit.decisions.packet import EVIDENCE, KINDS, Frozen, Packet, dump, is_plain_decimal
from evalkit.decisions.rendering import references, render
from evalkit.sealing import canonical_json, digest

#: code -> what it means (printed wherever a warning is accepted)
WARNINGS = {
    "EXCERPT_READ": "a source was read in part, not whole",
    "FACT_DOUBTED": "a fact carries a note of doubt",
    "KNOWN_AT_UPPER_BOUND": "the day a source became known is an upper bound",
    "NAMED_CASE": "the case is named: a model may remember what happened",
    "NO_LIQUIDITY_ITEM": "no liquidity item is on record",
    "OPEN_CONFLICT": "a conflict between records is open",
    "SINGLE_SOURCED": "a fact rests on one source",
}


class Check(Frozen):
    id: str
    passed: bool
    found: list[str]


class Warned(Frozen):
    code: str
    ids: list[str]


class Qc(Frozen):
    """Result of quality control; ``qc.json`` is its canonical JSON (``evalkit/qc/1``)."""

    qc_format: Literal["evalkit/qc/1"] = Field(alias="schema")
    case_id: str
    packet_digest: str
    report_digest: str
    checks: list[Check]
    warnings: list[Warned]

    @property
    def passed(self) -> bool:
        return all(check.passed for check in self.checks)

    def failures(self) -> list[str]:
        return [f"{c.id}: {', '.join(c.found[:5])}" for c in self.checks if not c.passed]

    def codes(self) -> list[str]:
        return [w.code for w in self.warnings]

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


def quality_control(packet: Packet, report: bytes) -> Qc:
    """Check a packet and its rendered report."""
    checks = [_run(name, found(packet)) for name, found in _PACKET_CHECKS.items()]
    checks += [_run(name, found(packet, report)) for name, found in _REPORT_CHECKS.items()]
    return Qc(
        schema="evalkit/qc/1",
        case_id=packet.case_id,
        packet_digest=digest(packet.to_json()),
        report_digest=digest(report),
        checks=checks,
        warnings=_warnings(packet),
    )


def _run(name: str, found: Iterator[str]) -> Check:
    problems = sorted(set(found))
    return Check(id=name, passed=not problems, found=problems)


def _unique_ids(packet: Packet) -> Iterator[str]:
    seen: set[str] = set()
    for name in KINDS:
        for record in getattr(packet, name):
            if record.id in seen:
                yield record.id
            seen.add(record.id)


def _references_resolve(packet: Packet) -> Iterator[str]:
    kinds = packet.kinds
    for name in KINDS:
        for record in getattr(packet, name):
            for field, allowed in (
                ("source_ids", {"source"}),
                ("fact_ids", EVIDENCE),
                ("basis_fact_ids", EVIDENCE),
            ):
                for target in getattr(record, field, []):
                    if kinds.get(target) not in allowed:
                        yield f"{record.id} -> {target}"


def _facts_are_sourced(packet: Packet) -> Iterator[str]:
    return (f.id for f in packet.numbers.values() if not f.source_ids)


def _numbers_are_exact(packet: Packet) -> Iterator[str]:
    for fact in packet.numbers.values():
        if fact.value_type == "number" and not is_plain_decimal(fact.value):
            yield f"{fact.id}: {fact.value!r} is not a plain decimal"
            continue
        values = fact.numbers()
        if not all(value.is_finite() for value in values):
            yield f"{fact.id}: a range needs value_low and value_high"
        elif fact.value_type == "range" and values[0] > values[1]:
            yield f"{fact.id}: low above high"
        if fact.value_type != "range" and (fact.value_low or fact.value_high):
            yield f"{fact.id}: only a range has value_low and value_high"
        if fact.is_numeric and not fact.unit:
            yield f"{fact.id}: a number needs a unit"


def _periods_are_ordered(packet: Packet) -> Iterator[str]:
    return (f.id for f in packet.numbers.values() if earliest(f.period.start) > latest(f.period.end))


def _known_by_cutoff(packet: Packet) -> Iterator[str]:
    cutoff = packet.decision.knowledge_cutoff
    known = [(s.id, s.known_at) for s in packet.sources]
    known += [(f.id, f.known_at) for f in packet.numbers.values()]
    for record_id, known_at in known:
        if not not_after(known_at, cutoff):
            yield f"{record_id} known {known_at}"
    for judgment in packet.judgments:
        if not not_after(judgment.date, cutoff):
            yield f"{judgment.id} dated {judgment.date}"
    for item in packet.liquidity:
        if not not_after(item.as_of, cutoff):
            yield f"{item.id} as of {item.as_of}"


def _known_no_earlier_than_source(packet: Packet) -> Iterator[str]:
    known = {s.id: earliest(s.known_at) for s in packet.sources}
    for fact in packet.numbers.values():
        times = [known[s] for s in fact.source_ids if s in known]
        if times and latest(fact.known_at) < min(times):
            yield f"{fact.id} known {fact.known_at}, before its first source"


def _facts_are_past(packet: Packet) -> Iterator[str]:
    cutoff = packet.decision.knowledge_cutoff
    for fact in packet.facts:
        if fact.forward_looking or not not_after(fact.period.end, cutoff):
            yield f"{fact.id} ends {fact.period.end}"
    for claim in (*packet.company_claims, *packet.third_party_estimates):
        if not claim.forward_looking and not not_after(claim.period.end, cutoff):
            yield f"{claim.id} ends {claim.period.end} and is not marked forward-looking"


def _decision_after_cutoff(packet: Packet) -> Iterator[str]:
    d = packet.decision
    if earliest(d.decision_time) < earliest(d.knowledge_cutoff):
        yield f"decision {d.decision_time} before cutoff {d.knowledge_cutoff}"
    for scenario in packet.scenarios:
        if latest(scenario.horizon) <= latest(d.knowledge_cutoff):
            yield f"{scenario.id} ends {scenario.horizon}, before it could be uncertain"


def _enough_to_decide(packet: Packet) -> Iterator[str]:
    if sum(a.feasible for a in packet.alternatives) < 2:
        yield "fewer than two feasible alternatives"
    if len(packet.scenarios) < 3:
        yield "fewer than three scenarios"
    if not packet.numbers:
        yield "no fact, claim or estimate"
    if not packet.unknowns and not packet.missing_evidence:
        yield "neither an unknown nor missing evidence is on record"


def _every_record_rendered(packet: Packet, report: bytes) -> Iterator[str]:
    return iter(set(packet.kinds) - set(references(report.decode("utf-8", "replace"))))


def _no_foreign_reference(packet: Packet, report: bytes) -> Iterator[str]:
    return iter(set(references(report.decode("utf-8", "replace"))) - set(packet.kinds))


def _report_is_the_rendering(packet: Packet, report: bytes) -> Iterator[str]:
    if render(packet).encode() != report:
        yield "the report is not what the packet renders to"


_PACKET_CHECKS: dict[str, Callable[[Packet], Iterator[str]]] = {
    "ids-unique": _unique_ids,
    "references-resolve": _references_resolve,
    "facts-sourced": _facts_are_sourced,
    "numbers-exact": _numbers_are_exact,
    "periods-ordered": _periods_are_ordered,
    "known-by-cutoff": _known_by_cutoff,
    "known-after-source": _known_no_earlier_than_source,
    "facts-past": _facts_are_past,
    "decision-after-cutoff": _decision_after_cutoff,
    "enough-to-decide": _enough_to_decide,
}
_REPORT_CHECKS: dict[str, Callable[[Packet, bytes], Iterator[str]]] = {
    "records-rendered": _every_record_rendered,
    "rendered-references-known": _no_foreign_reference,
    "report-is-rendering": _report_is_the_rendering,
}


def _warnings(packet: Packet) -> list[Warned]:
    found = {
        "EXCERPT_READ": [s.id for s in packet.sources if s.read_extent != "full"],
        "FACT_DOUBTED": [f.id for f in packet.numbers.values() if f.doubt],
        "KNOWN_AT_UPPER_BOUND": [s.id for s in packet.sources if "upper bound" in s.date_basis],
        "NAMED_CASE": [packet.case_id],
        "NO_LIQUIDITY_ITEM": [] if packet.liquidity else [packet.case_id],
        "OPEN_CONFLICT": [c.id for c in packet.conflicts if c.status.startswith("open")],
        "SINGLE_SOURCED": [f.id for f in packet.numbers.values() if f.single_sourced],
    }
    return [Warned(code=code, ids=ids) for code, ids in found.items() if ids]
