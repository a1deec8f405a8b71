"""The checks behind the ten dimensions: each looks at a record and says what is wrong, or nothing.

They are structural.  What a check asks is written in the sealed rubric under the same id; a test holds the
two lists against each other.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from evalkit.decisions.blockers import OWN_KINDS, is_placeholder
from evalkit.decisions.findings import GAPS, Blocker
from evalkit.decisions.packet import EVIDENCE, Packet, dump
from evalkit.decisions.record import DecisionRecord, Liquidity, citations, cited_at, prose


@dataclass(frozen=True)
class Subject:
    """A parsed record with its packet and the codes of the blockers found in it."""

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


DECISIVE = (
    "selected_alternative",
    "strongest_rejected_alternative",
    "mechanism",
    "liquidity",
    "disconfirming_evidence",
)


def _evidence_used(s: Subject) -> str:
    used = len(s.of_kind(s.cited(*DECISIVE), EVIDENCE))
    needed = min(5, len(s.packet.numbers))
    return "" if used >= needed else f"{used} used, {needed} needed"


def _prose_numbers(s: Subject) -> str:
    loose = uncited_numbers(s.record, s.packet)
    return f"{len(loose)} number(s) stand in no cited record, first at {loose[0][0]}" if loose else ""


def _lists_filled(s: Subject) -> str:
    present = set(s.packet.kinds.values())
    empty = [n for n, own in OWN_KINDS.items() if present & own and not getattr(s.record, n)]
    return f"empty: {', '.join(empty)}" if empty else ""


def _all_taken_up(kind: str, section: str) -> Callable[[Subject], str]:
    def check(s: Subject) -> str:
        left = set(s.packet.ids(kind)) - s.cited(section)
        return f"not taken up: {', '.join(sorted(left))}" if left else ""

    return check


def _words(text: str) -> int:
    return len(text.split())


def _states(part: str, words: int) -> Callable[[Subject], str]:
    def check(s: Subject) -> str:
        statement = getattr(s.record.mechanism, part)
        if _words(statement.statement) < words or is_placeholder(statement.statement):
            return f"fewer than {words} words"
        return "" if s.of_kind(set(statement.cites), EVIDENCE) else "it cites no evidence"

    return check


def _unit_differs(s: Subject) -> str:
    m = s.record.mechanism
    same = m.mechanism.statement.strip().lower() == m.decision_unit.statement.strip().lower()
    return "the two statements are the same" if same else ""


def _case_for_rejected(s: Subject) -> str:
    rejected = s.record.strongest_rejected_alternative
    if is_placeholder(rejected.case_for):
        return "no case is made"
    return "" if s.of_kind(set(rejected.cites), EVIDENCE) else "it cites no evidence"


_AGAINST = EVIDENCE | {"conflict", "judgment"}


def _disconfirming_cited(s: Subject) -> str:
    count = len(s.of_kind(s.cited("disconfirming_evidence"), _AGAINST))
    return "" if count >= 2 else f"{count} cited"


def _disconfirming_fresh(s: Subject) -> str:
    fresh = s.cited("disconfirming_evidence") - s.cited("selected_alternative")
    return "" if s.of_kind(fresh, _AGAINST) else "nothing that the selection does not already cite"


def _liquidity_parts(s: Subject) -> str:
    parts = {name: getattr(s.record.liquidity, name) for name in Liquidity.model_fields}
    bad = [
        name
        for name, part in parts.items()
        if is_placeholder(part.statement) and not s.of_kind(set(part.cites), GAPS)
    ]
    return f"not answered: {', '.join(bad)}" if bad else ""


def _liquidity_items(s: Subject) -> str:
    left = set(s.packet.ids("liquidity")) - s.cited("liquidity")
    return f"not cited: {', '.join(sorted(left))}" if left else ""


def _stress(s: Subject) -> str:
    cites = set(s.record.liquidity.stressed_uses.cites)
    return "" if s.of_kind(cites, EVIDENCE | {"liquidity"}) else "no evidence cited"


def _no_certainty(s: Subject) -> str:
    try:
        values = s.record.probabilities().values()
    except ValueError as error:
        return str(error)
    return "" if all(0 < p < 1 for p in values) else "a scenario is ruled out or certain"


def _each_scenario(part: str) -> Callable[[Subject], str]:
    def check(s: Subject) -> str:
        bad = [x.scenario_id for x in s.record.scenarios if not getattr(x, part)]
        return f"none for {', '.join(bad)}" if bad or not s.record.scenarios else ""

    return check


def _scenarios_distinct(s: Subject) -> str:
    for part in ("assumptions", "falsifiers"):
        texts = [tuple(x.statement for x in getattr(scenario, part)) for scenario in s.record.scenarios]
        if len(set(texts)) < len(texts):
            return f"two scenarios have the same {part}"
    return ""


def _sides_differ(s: Subject) -> str:
    fresh = set(s.record.strongest_rejected_alternative.cites) - set(s.record.selected_alternative.cites)
    return "" if s.of_kind(fresh, EVIDENCE) else "its case cites nothing that the selection does not"


def _thresholds(s: Subject) -> str:
    vague = [i for i in s.record.indicators if not re.search(r"\d", i.threshold)]
    if not s.record.indicators:
        return "no indicator"
    return f"{len(vague)} threshold(s) without a number or date" if vague else ""


def _both_kinds(s: Subject) -> str:
    c = s.record.commitments
    return "" if c.reversible and c.irreversible else "one of the two lists is empty"


def _gates(s: Subject) -> str:
    bad = [c for c in s.record.commitments.irreversible if _words(c.gate) < 3 or is_placeholder(c.gate)]
    if not s.record.commitments.irreversible:
        return "no irreversible commitment is named"
    return f"{len(bad)} without a gate" if bad else ""


def _apart(s: Subject) -> str:
    c = s.record.commitments
    both = {x.statement.strip().lower() for x in c.reversible} & {
        x.statement.strip().lower() for x in c.irreversible
    }
    return f"in both lists: {sorted(both)[0]!r}" if both else ""


def _indicators(s: Subject) -> str:
    bad = [
        i
        for i in s.record.indicators
        if any(is_placeholder(x, short=True) for x in (i.source, i.threshold, i.cadence, i.owner))
    ]
    if len(s.record.indicators) < 2:
        return f"{len(s.record.indicators)} indicator(s)"
    return f"{len(bad)} not operational" if bad else ""


def _kill_rules(s: Subject) -> str:
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


def _reversible_by_evidence(s: Subject) -> str:
    known = {i for i in s.cited("reversal_conditions") if i in s.packet.kinds}
    return "" if known else "no reversal condition cites Part A"


def _gaps_ranked(s: Subject) -> str:
    if not s.packet.missing_evidence:
        return ""
    ranks = sorted(g.rank for g in s.record.missing_evidence)
    return "" if ranks and ranks == list(range(1, len(ranks) + 1)) else "not ranked 1, 2, 3 …"


def _clear(code: Blocker) -> Callable[[Subject], str]:
    return lambda s: s.clear_of(code)


#: check id -> what is wrong, or "" where it passes
CHECKS: dict[str, Callable[[Subject], str]] = {
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
    frame_ids = [*(a.id for a in packet.alternatives), *(x.id for x in packet.scenarios)]
    frame = _numbers(" ".join([str(dump(packet.decision)), *(packet.texts[i] for i in frame_ids)]))
    cites = dict(citations(record))
    # a ranked gap and a financial line cite by their ids
    cites |= {
        f"missing_evidence[{n}]": [g.missing_evidence_id] for n, g in enumerate(record.missing_evidence)
    }
    cites |= {
        f"financial_reconstruction[{n}]": [line.fact_id]
        for n, line in enumerate(record.financial_reconstruction)
    }
    loose = []
    for where, text in prose(record):
        known = frame | _numbers(" ".join(packet.texts.get(i, "") for i in cited_at(where, cites)))
        if where.rpartition(".")[2] not in _CHOSEN:
            loose += [(where, n) for n in sorted(_numbers(text)) if n not in known]
    return loose


def _numbers(text: str) -> set[str]:
    return {n.replace(",", "").lstrip("-") for n in _NUMBER.findall(text)}
