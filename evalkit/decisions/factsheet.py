"""The fact-sheet form in which people bring cases: one JSON file a case, outcome included.

Form ``warren-case-factsheet/0.1`` (docs/formats/factsheet.md).  A fact sheet is instructor material
from the first byte to the last; `evalkit.decisions.importing` takes it apart.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from evalkit.decisions.packet import (
    Assumption,
    Conflict,
    DecimalText,
    Frozen,
    Identifier,
    Judgment,
    LiquidityItem,
    MissingEvidence,
    Moment,
    PartialDay,
    Period,
    Source,
    Table,
    Text,
    Unknown,
)

FORM = "warren-case-factsheet/0.1"


class SheetAlternative(Frozen):
    id: Identifier
    description: Text
    feasible: bool
    reversible: Text
    note: str | None = None


class SheetDecision(Frozen):
    owner: Text
    decision_time: Moment
    knowledge_cutoff: Moment
    question: Text
    alternatives: list[SheetAlternative]


class SheetFact(Frozen):
    id: Identifier
    kind: Literal["reported_fact", "company_claim", "third_party_estimate"]
    definition: Text
    value: Text
    value_type: Literal["number", "range", "text"]
    value_low: DecimalText | None = None
    value_high: DecimalText | None = None
    unit: str | None = None
    currency: str | None = None
    period: Period
    entity: Text
    scope: Text
    vintage: Text
    known_at: Moment
    forward_looking: bool = False
    source_ids: list[Identifier]
    single_sourced: bool = False
    note: str | None = None
    doubt: str | None = None


class SheetScenario(Frozen):
    id: Identifier
    description: Text
    horizon: Moment


class OutcomeSource(Source):
    """A source of Part B: when it became known may be known to the month or year only."""

    known_at: PartialDay


class Outcome(Frozen):
    id: Identifier
    statement: Text
    date: PartialDay
    source_ids: list[Identifier]


class ObservableSignal(Frozen):
    id: Identifier
    statement: Text
    part_a_fact_ids: list[Identifier]


class RealizedReturn(Frozen):
    """A realized return that somebody reconstructed: kept apart from every score."""

    value: DecimalText
    unit: Text
    start: Moment
    end: Moment
    method: Text
    source_ids: list[Identifier]


class SheetPartB(Frozen):
    sources: list[OutcomeSource]
    outcomes: list[Outcome]
    realized_scenario_id: Identifier
    observable_signals: list[ObservableSignal]
    process_note: Text
    realized_return: RealizedReturn | None = None


class FactSheet(Frozen):
    sheet_form: Literal["warren-case-factsheet/0.1"] = Field(alias="schema")
    case_id: Identifier
    pair_id: Identifier
    title: Text
    company: Text
    contamination_mode: Literal["named_case_source_bounded"]
    authored_at: Moment | None = None
    decision: SheetDecision
    sources: list[Source]
    facts: list[SheetFact]
    conflicts: list[Conflict] = []
    assumptions: list[Assumption] = []
    judgments: list[Judgment] = []
    unknowns: list[Unknown] = []
    missing_evidence: list[MissingEvidence] = []
    scenarios: list[SheetScenario]
    liquidity: list[LiquidityItem] = []
    tables: list[Table] = []
    part_b: SheetPartB


class SheetPair(Frozen):
    pair_id: Identifier
    favorable_case_id: Identifier
    unfavorable_case_id: Identifier
    files: list[str] = []
    pairing_basis: Text
    archetype: Text


class SheetPairs(Frozen):
    """``pairs.json``: roles and pairing basis, instructor side."""

    note: str | None = None
    selection_rule: Text | None = None
    pairs: list[SheetPair]
