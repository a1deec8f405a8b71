"""A deterministic analyst that needs no network: the floor under every model.

It gets the prompt bytes and nothing else, reads Part A out of them and fills in a complete, cited
decision record by rule.  It understands nothing; a model that does not beat it has shown no judgment.

The rules, fixed before any outcome was scored:

* **Decision.** The feasible alternative that is easiest to undo by its own wording (yes, mostly,
  partly, no) is selected; the next one is the strongest rejected.
* **Probabilities.** *Strain* s is the share of negative numbers among the reported results of Part A
  (income, profit, loss, earnings, margin, cash flow), as (negative + 1) / (all + 2).  *Adversity* a of a
  scenario is the share of adverse among the adverse and benign words of its description, as
  (adverse + 1) / (both + 2); a negated word counts for the other side.  Each scenario gets
  1 - |a - s|, normalised.  Position, id and name of a scenario play no part.

The word lists were written with the scenario titles of the shipped cases in view (not with their outcomes
scored); on other wording the rule separates scenarios less, and tends to uniform.
"""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

from evalkit.decisions.packet import Alternative, Fact, Packet, Scenario, dump
from evalkit.decisions.prompt import part_a_of
from evalkit.sealing import canonical_json

VERSION = "1"

_RESULT = re.compile(r"\b(income|profit|loss|earnings|margin|cash flow|result)s?\b", re.IGNORECASE)
_ADVERSE = re.compile(
    r"(bankrupt\w*|default\w*|distress\w*|loss\w*|losing|lost|erosion|erod\w*|declin\w*|fewer|below|ended|ends"
    r"|liquidat\w*|insolv\w*|restructur\w*|profitless|unfunded|shrunk|shrink\w*|late|fail\w*|fall\w*|worse\w*)\Z"
)
_BENIGN = re.compile(
    r"(profit|profitable|positive|grow\w*|growth|rebound\w*|recover\w*|met|independent|operating|funded"
    r"|running|solvent|above|exceed\w*|gain\w*|improv\w*|more)\Z"
)
_CLAUSE = re.compile(r"[,;:.()]|\b(?:and|but|or)\b")
_NEGATION = frozenset({"no", "not", "without", "never", "nor"})
_EASE = {"yes": 0, "mostly": 1, "partly": 2, "no": 3}


def analyse(prompt: bytes) -> bytes:
    """Answer a prompt with a canonical decision record.  Pure: the same bytes give the same bytes."""
    return canonical_json(_record(part_a_of(prompt)))


def scenario_probabilities(packet: Packet) -> dict[str, Decimal]:
    """Scenario id -> probability by the rule above, to nine decimals."""
    s = strain(packet)
    weights = {x.id: 1 - abs(adversity(x.description) - s) for x in packet.scenarios}
    total = sum(weights.values(), Fraction(0))
    return {i: _decimal(w / total) for i, w in weights.items()}


def strain(packet: Packet) -> Fraction:
    """Smoothed share of negative numbers among the reported results, between 0 and 1."""
    values = [v for fact in _results(packet) for v in fact.numbers()]
    return Fraction(sum(v < 0 for v in values) + 1, len(values) + 2)


def adversity(description: str) -> Fraction:
    """Smoothed share of adverse words in a scenario's description, between 0 and 1."""
    adverse = benign = 0
    for clause in _CLAUSE.split(description.lower()):
        negated = False
        for word in re.findall(r"[a-z]+", re.sub(r"\bno (more|less|later|fewer)\b", "", clause)):
            if word in _NEGATION:
                negated = True
            elif _ADVERSE.match(word):
                adverse, benign = (adverse, benign + 1) if negated else (adverse + 1, benign)
            elif _BENIGN.match(word):
                adverse, benign = (adverse + 1, benign) if negated else (adverse, benign + 1)
    return Fraction(adverse + 1, adverse + benign + 2)


def _decimal(value: Fraction) -> Decimal:
    return (Decimal(value.numerator) / Decimal(value.denominator)).quantize(Decimal("0.000000001"))


def _results(packet: Packet) -> list[Fact]:
    found = [f for f in packet.facts if f.is_numeric and _RESULT.search(f.definition)]
    return sorted(found, key=lambda f: (f.period.end, f.id), reverse=True)


def _ease(alternative: Alternative) -> tuple[int, str]:
    first = re.match(r"[a-z]+", alternative.reversible.lower())
    return _EASE.get(first.group(0) if first else "", 2), alternative.id


def _said(text: str, cites: list[str]) -> dict[str, Any]:
    return {"statement": text, "cites": list(dict.fromkeys(cites))}


def _asserted(text: str, cites: list[str]) -> dict[str, Any]:
    return {**_said(text, cites), "material": True}


def _record(packet: Packet) -> dict[str, Any]:
    d = packet.decision
    alternatives = sorted((a for a in packet.alternatives if a.feasible), key=_ease)
    selected, rejected = alternatives[0], alternatives[1]
    numeric = [f for f in packet.numbers.values() if f.is_numeric]
    results = _results(packet) or numeric or list(packet.numbers.values())
    key = [f.id for f in results[:3]]
    gaps = packet.ids("missing_evidence") + packet.ids("unknown")
    against = (
        [(f"A conflict in the record: {c.description}", c.id) for c in packet.conflicts]
        + [(f"{j.holder} holds another view: {j.view}", j.id) for j in packet.judgments]
        + [(f"A figure in doubt: {f.definition}. {f.doubt}", f.id) for f in numeric if f.doubt]
    )
    against += [
        (f"It could count against the choice: {f.definition}", f.id)
        for f in results[3:6] or (results[:1] if not against else [])
    ]
    return {
        "schema": "evalkit/decision-record/1",
        "coordinates": {
            "case_id": packet.case_id,
            "decision_owner": d.owner,
            "decision_time": d.decision_time,
            "knowledge_cutoff": d.knowledge_cutoff,
            "question": d.question,
        },
        "selected_alternative": {
            "alternative_id": selected.id,
            "rationale": "Baseline rule: of the feasible alternatives it is the easiest to undo by its own"
            f" description ({selected.reversible}), so it keeps the choice open while evidence comes in.",
            "cites": key,
        },
        "strongest_rejected_alternative": {
            "alternative_id": rejected.id,
            "case_for": f"It acts sooner on the results in the record: {rejected.description}",
            "reason_rejected": f"It is harder to undo by its own description ({rejected.reversible}).",
            "cites": key,
        },
        **_lists(packet),
        "financial_reconstruction": [_line(f, packet) for f in packet.numbers.values()],
        "mechanism": {
            "mechanism": _said(
                "What the business earns or loses in each period adds to or draws on the liquidity that"
                f" it has; the latest results on record are {_names(results[:3])}.",
                key,
            ),
            "decision_unit": _said(
                f"One reporting period of {results[0].entity}, read as {results[0].definition}.",
                [results[0].id],
            ),
        },
        "liquidity": _liquidity(packet, gaps, key),
        "scenarios": _scenarios(packet, key, gaps),
        "disconfirming_evidence": [_said(text, [i]) for text, i in against],
        "missing_evidence": _ranked(packet),
        "commitments": {
            "reversible": [_said(f"Start with: {selected.description}", key)],
            "irreversible": [
                {
                    "statement": f"Move to: {rejected.description}",
                    "gate": "only after an indicator below has crossed its threshold",
                    "cites": key,
                }
            ],
        },
        "indicators": [
            {
                "definition": f"{f.definition}, {f.entity}",
                "source": "the next periodic report of the company",
                "threshold": f"worse than the value on record for {f.period.label}",
                "cadence": "each reporting period",
                "owner": d.owner,
                "cites": [f.id],
            }
            for f in (results + numeric)[:3]
        ],
        "reversal_conditions": [
            {
                "condition": f"{f.definition} is worse than on record in the next report",
                "evidence": "the next periodic report of the company",
                "time_allowed": "one reporting period",
                "action": f"stop and move to: {rejected.description}",
                "cites": [f.id],
            }
            for f in results[:2]
        ],
        "confidence": {
            "level": "low",
            "basis": "A fixed rule wrote this record; it weighs signs and words, not meaning.",
            "unquantifiable": [_said(f"Not quantified: {_text_of(packet, gap)}", [gap]) for gap in gaps[:3]],
        },
        "valuation": {
            "abstain": True,
            "reason": "The analyst has no authority to calculate, and the inputs are incomplete.",
        },
    }


def _names(facts: list[Fact]) -> str:
    return "; ".join(f"{f.definition} for {f.period.label}" for f in facts)


def _text_of(packet: Packet, gap: str) -> str:
    for unknown in packet.unknowns:
        if unknown.id == gap:
            return unknown.statement
    return next(m.description for m in packet.missing_evidence if m.id == gap)


def _lists(packet: Packet) -> dict[str, Any]:
    def told(f: Fact) -> str:
        unit = f" {f.unit}" if f.unit and f.is_numeric else ""
        return f"{f.definition}, {f.entity}, {f.period.label}: {f.value}{unit}"

    return {
        "facts": [_asserted(told(f), [f.id]) for f in packet.facts],
        "company_claims": [_asserted(told(f), [f.id]) for f in packet.company_claims],
        "third_party_estimates": [_asserted(told(f), [f.id]) for f in packet.third_party_estimates],
        "assumptions": [
            _asserted(f"Assumed in the record: {a.statement}", [a.id, *a.basis_fact_ids])
            for a in packet.assumptions
        ],
        "judgments": [
            _asserted(f"In the judgment of {j.holder}: {j.view}", [j.id, *j.source_ids])
            for j in packet.judgments
        ],
        "conflicts": [
            _asserted(f"In conflict: {c.description}", [c.id, *c.fact_ids]) for c in packet.conflicts
        ],
        "unknowns": [_asserted(f"Not known: {u.statement}", [u.id]) for u in packet.unknowns]
        + [_asserted(f"Not in evidence: {m.description}", [m.id]) for m in packet.missing_evidence],
    }


def _line(fact: Fact, packet: Packet) -> dict[str, Any]:
    return {
        "fact_id": fact.id,
        "status": "forward_looking" if fact.forward_looking else "reported",
        "definition": fact.definition,
        "value": fact.value,
        "value_low": fact.value_low,
        "value_high": fact.value_high,
        "period": dump(fact.period),
        "unit": fact.unit,
        "currency": fact.currency,
        "entity": fact.entity,
        "scope": fact.scope,
        "vintage": fact.vintage,
        "known_at": fact.known_at,
        "source_ids": fact.source_ids,
        "authoritative": False,
    }


def _liquidity(packet: Packet, gaps: list[str], key: list[str]) -> dict[str, Any]:
    items = packet.liquidity
    ids = [i.id for i in items]
    facts = [f for i in items for f in i.fact_ids]

    def matching(pattern: str) -> dict[str, Any]:
        """Items whose own text speaks of it; otherwise an honest, cited unknown."""
        hits = [
            i
            for i in items
            if re.search(pattern, f"{i.item} {i.restriction} {i.accessibility}", re.IGNORECASE)
        ]
        if not hits:
            return _said("unknown", gaps[:1])
        return _said(" ".join(f"{i.item}: {i.restriction}" for i in hits), [i.id for i in hits])

    if not items:
        unknown = {
            name: _said("unknown", gaps[:1])
            for name in (
                "accessible",
                "restrictions",
                "entity_location",
                "covenants",
                "collateral",
                "settlement_time",
            )
        }
        return unknown | {
            "stressed_uses": _said("Results like those on record would have to be paid for.", key)
        }
    return {
        "accessible": _said(" ".join(f"{i.item}: {i.accessibility}" for i in items), ids + facts),
        "restrictions": _said(" ".join(f"{i.item}: {i.restriction}" for i in items), ids),
        "entity_location": matching(r"outside the|subsidiar|abroad|foreign"),
        "covenants": matching(r"covenant"),
        "collateral": matching(r"secured|collateral|pledged"),
        "settlement_time": matching(r"matur|due within|short-term|days"),
        "stressed_uses": _said(
            "Under stress, results like those on record would have to be paid out of these items.", ids + key
        ),
    }


def _scenarios(packet: Packet, key: list[str], gaps: list[str]) -> list[dict[str, Any]]:
    probabilities = scenario_probabilities(packet)

    def one(scenario: Scenario) -> dict[str, Any]:
        return {
            "scenario_id": scenario.id,
            "probability": format(probabilities[scenario.id], "f"),
            "assumptions": [
                _said(
                    "Baseline rule: a scenario is the likelier, the closer the adversity of its wording is to"
                    " the share of negative results in the record.",
                    key,
                )
            ],
            "falsifiers": [
                _said(
                    "A report before the horizon that contradicts it:"
                    f" {scenario.description.partition(':')[2].strip() or scenario.description}",
                    key[:1] or gaps[:1],
                )
            ],
        }

    return [one(s) for s in packet.scenarios]


def _ranked(packet: Packet) -> list[dict[str, Any]]:
    order = {"high": 0, "medium": 1, "low": 2}
    ranked = sorted(packet.missing_evidence, key=lambda m: (order[m.value], m.id))
    return [
        {
            "missing_evidence_id": m.id,
            "rank": rank,
            "decision_value": f"{m.value} by the packet's own marking: {m.description}",
        }
        for rank, m in enumerate(ranked, 1)
    ]
