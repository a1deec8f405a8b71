"""Financial lines against their facts: exact reproduction or nothing (W15, W30, W31).

A line binds when value (as exact decimal), definition, period, unit, currency, entity, scope and vintage
are those of the record it names.  A computed number has no authority, whatever it says about itself, and
an unknown has no value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal

from evalkit.decisions.findings import GAPS, Blocker, Finding
from evalkit.decisions.moments import not_after
from evalkit.decisions.packet import Fact, Packet, is_plain_decimal
from evalkit.decisions.record import DecisionRecord, FinancialLine, citations

#: sections whose cited numbers are material: each needs a line in the financial reconstruction
_DECISIVE = re.compile(
    r"(selected_alternative|strongest_rejected_alternative|mechanism|liquidity|disconfirming_evidence)"
)


def financial_findings(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
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
    if not all(g is not None and is_plain_decimal(g) for g in given):
        return False
    return [Decimal(g) for g in given if g is not None] == fact.numbers()
