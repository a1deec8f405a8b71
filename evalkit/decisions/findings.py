"""The twelve blocker codes, and a finding: which one, where, and what is wrong."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import AfterValidator

from evalkit.decisions.packet import Frozen


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


def _shown(text: str) -> str:
    """Text of a model as it may be shown anywhere: no control or direction characters, not endless."""
    visible = "".join(c if c.isprintable() else f"\\u{ord(c):04x}" for c in text[:400])
    return visible if len(text) <= 400 else f"{visible} … ({len(text)} characters)"


class Finding(Frozen):
    """One defect: which blocker, where in the record, and what is wrong."""

    code: Blocker
    where: str
    what: Annotated[str, AfterValidator(_shown)]


GAPS = frozenset({"unknown", "missing_evidence"})
