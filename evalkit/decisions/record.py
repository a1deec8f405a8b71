"""The decision record: what an analyst must return, section by section (W12-W25).

`DecisionRecord` is the run-time schema (``evalkit/decision-record/1``).  Its JSON Schema is shipped as
``templates/decisions/response.schema.json``, sealed by each precommit and put into the prompt.  The
schema says what a record looks like; whether it is *right* is decided by `evalkit.decisions.blockers`
against the packet, which is why ids and numbers are plain strings here.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, Field

from evalkit.decisions.packet import Frozen, is_plain_decimal, parse
from evalkit.sealing import canonical_json, load_strict

#: probabilities of a record must sum to one within this, in exact decimal arithmetic (W18)
PROBABILITY_TOLERANCE = Decimal("0.000001")

_CITES = Field(description="ids of Part A records that this statement rests on")


class Coordinates(Frozen):
    case_id: str
    decision_owner: str
    decision_time: str
    knowledge_cutoff: str
    question: str = Field(description="the question of the packet, word for word")


class Statement(Frozen):
    statement: str
    cites: list[str] = _CITES


class Assertion(Frozen):
    statement: str
    material: bool = Field(description="for the reader only: every assertion must cite, whatever this says")
    cites: list[str] = _CITES


class SelectedAlternative(Frozen):
    alternative_id: str
    rationale: str
    cites: list[str] = _CITES


class RejectedAlternative(Frozen):
    alternative_id: str
    case_for: str = Field(description="the best case for the alternative that was rejected")
    reason_rejected: str
    cites: list[str] = _CITES


class LinePeriod(Frozen):
    start: str
    end: str
    label: str


class FinancialLine(Frozen):
    fact_id: str = Field(description="the fact, claim, estimate; or the unknown or missing evidence")
    status: Literal["reported", "forward_looking", "computed", "unknown"]
    definition: str
    value: str | None = Field(description="decimal string exactly as in Part A; null when unknown")
    value_low: str | None
    value_high: str | None
    period: LinePeriod | None
    unit: str | None
    currency: str | None
    entity: str | None
    scope: str | None
    vintage: str | None
    known_at: str | None
    source_ids: list[str] = Field(description="all source ids of the fact")
    authoritative: bool = Field(description="has no effect: authority cannot be claimed in writing")


class Mechanism(Frozen):
    mechanism: Statement
    decision_unit: Statement = Field(description="the smallest unit at which the economics can be tested")


class Liquidity(Frozen):
    """'unknown' is a complete answer where it cites an unknown or missing-evidence record (W29)."""

    accessible: Statement
    restrictions: Statement
    entity_location: Statement
    covenants: Statement
    collateral: Statement
    settlement_time: Statement
    stressed_uses: Statement


class RecordScenario(Frozen):
    scenario_id: str
    probability: str = Field(
        description="decimal string from 0 to 1; all scenarios together sum to 1 within 0.000001"
    )
    assumptions: list[Statement]
    falsifiers: list[Statement] = Field(description="practical observations that would refute it")


class RankedGap(Frozen):
    missing_evidence_id: str
    rank: int
    decision_value: str = Field(description="what knowing it would change")


class GatedCommitment(Frozen):
    statement: str
    gate: str = Field(description="what must be observed before it is made")
    cites: list[str] = _CITES


class Commitments(Frozen):
    reversible: list[Statement]
    irreversible: list[GatedCommitment]


class Indicator(Frozen):
    definition: str
    source: str
    threshold: str
    cadence: str
    owner: str
    cites: list[str] = _CITES


class KillCondition(Frozen):
    condition: str
    evidence: str
    time_allowed: str
    action: str
    cites: list[str] = _CITES


class Confidence(Frozen):
    level: Literal["low", "moderate", "high"]
    basis: str
    unquantifiable: list[Statement]


class Valuation(Frozen):
    abstain: bool = Field(description="always true")
    reason: str


class DecisionRecord(Frozen):
    """One analyst's complete answer to one packet."""

    record_format: Literal["evalkit/decision-record/1"] = Field(alias="schema")
    coordinates: Coordinates
    selected_alternative: SelectedAlternative
    strongest_rejected_alternative: RejectedAlternative
    facts: list[Assertion]
    company_claims: list[Assertion]
    third_party_estimates: list[Assertion]
    assumptions: list[Assertion]
    judgments: list[Assertion]
    conflicts: list[Assertion]
    unknowns: list[Assertion]
    financial_reconstruction: list[FinancialLine]
    mechanism: Mechanism
    liquidity: Liquidity
    scenarios: list[RecordScenario]
    disconfirming_evidence: list[Statement]
    missing_evidence: list[RankedGap]
    commitments: Commitments
    indicators: list[Indicator]
    reversal_conditions: list[KillCondition]
    confidence: Confidence
    valuation: Valuation

    @classmethod
    def from_response(cls, raw: bytes) -> DecisionRecord:
        """Parse a raw response: one JSON object, nothing around it.  Raises `EvalkitError`."""
        return parse(cls, load_strict(raw), where="response")

    def to_json(self) -> bytes:
        return canonical_json(self.model_dump(mode="json", by_alias=True))

    def probabilities(self) -> dict[str, Decimal]:
        """Scenario id -> probability.  Raises `ValueError` where one is not a plain decimal."""
        out: dict[str, Decimal] = {}
        for scenario in self.scenarios:
            if not is_plain_decimal(scenario.probability):
                raise ValueError(f"{scenario.scenario_id}: {scenario.probability!r} is no decimal")
            out[scenario.scenario_id] = Decimal(scenario.probability)
        return out


SECTIONS = tuple(
    info.alias or name for name, info in DecisionRecord.model_fields.items() if name != "record_format"
)


def response_schema() -> dict[str, Any]:
    """JSON Schema (2020-12) of a decision record, in the strict form that model services accept.

    Every object lists all its properties as required and allows no others.
    """
    schema = DecisionRecord.model_json_schema(by_alias=True)
    schema["title"] = "DecisionRecord"
    _strip(schema)
    return schema


def _strip(node: Any) -> None:
    if isinstance(node, dict):
        if node.get("type") == "object" and "properties" in node:
            node["required"] = list(node["properties"])
            node["additionalProperties"] = False
        if not isinstance(node.get("properties"), dict):
            node.pop("title", None)
        for value in node.values():
            _strip(value)
    elif isinstance(node, list):
        for value in node:
            _strip(value)


def prose(record: BaseModel) -> list[tuple[str, str]]:
    """Every free text of a record with its path, ids and exact values left out."""
    found: list[tuple[str, str]] = []
    _walk(record, "", found)
    return found


_NOT_PROSE = frozenset(
    {
        "record_format",
        "coordinates",
        "alternative_id",
        "cites",
        "fact_id",
        "status",
        "value",
        "value_low",
        "value_high",
        "period",
        "unit",
        "currency",
        "entity",
        "scope",
        "vintage",
        "known_at",
        "source_ids",
        "scenario_id",
        "probability",
        "missing_evidence_id",
        "level",
    }
)


_LINE_TEXTS = ("definition", "unit", "currency", "entity", "scope", "vintage", "known_at")


def _walk(node: Any, path: str, found: list[tuple[str, str]]) -> None:
    if isinstance(node, FinancialLine):
        # Other lines are bound to a fact, field by field, or blocked: only here are texts free.
        if node.status == "unknown":
            texts = {name: getattr(node, name) for name in _LINE_TEXTS}
            texts["period.label"] = node.period.label if node.period else None
            found += [(f"{path}.{name}", text) for name, text in texts.items() if text is not None]
        return
    if isinstance(node, BaseModel):
        for name in type(node).model_fields:
            if name not in _NOT_PROSE:
                _walk(getattr(node, name), f"{path}.{name}" if path else name, found)
    elif isinstance(node, list):
        for index, item in enumerate(node):
            _walk(item, f"{path}[{index}]", found)
    elif isinstance(node, str):
        found.append((path, node))


def citations(record: DecisionRecord) -> list[tuple[str, list[str]]]:
    """Every statement that must cite, with its path and the ids it cites."""
    found: list[tuple[str, list[str]]] = []

    def walk(node: Any, path: str) -> None:
        if isinstance(node, BaseModel):
            if "cites" in type(node).model_fields:
                found.append((path, list(node.cites)))  # type: ignore[attr-defined]
            for name in type(node).model_fields:
                walk(getattr(node, name), f"{path}.{name}" if path else name)
        elif isinstance(node, list):
            for index, item in enumerate(node):
                walk(item, f"{path}[{index}]")

    walk(record, "")
    return found


def cited_at(where: str, cites: dict[str, list[str]]) -> list[str]:
    """Ids that the statement holding a text cites: those of the nearest path above it that cites."""
    holder = where
    while holder and holder not in cites:
        holder = holder.rpartition(".")[0]
    return cites.get(holder, [])
