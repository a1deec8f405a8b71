"""The precommit: everything that is fixed before a prompt is sent (W1-W5).

``RUN/plan.json`` (``evalkit/decisions-precommit/1``, docs/formats/decisions-run.md) with its detached
attestation ``RUN/plan.dsse.json``.  Pair roles and the realized scenarios are in it only as salted
commitments to sealed packets.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from evalkit.decisions.packet import DecimalText, Frozen, Identifier, Moment, Text, dump, parse
from evalkit.sealing import canonical_json, load_canonical

PLAN = "plan.json"
PLAN_ATTESTATION = "plan.dsse.json"


class PlannedCase(Frozen):
    """Digests of one case, and the warnings that are accepted: exactly these."""

    case_id: Identifier
    episode_digest: str
    freeze_digest: str
    packet_digest: str
    qc_digest: str
    report_digest: str
    accepted_warnings: list[str]
    part_b: dict[str, Any]


class PlannedPair(Frozen):
    """The ordered pair.  The order is derived from content, so that it tells no role."""

    pair_id: Identifier
    order: list[Identifier]
    selection_rule: Text
    pairing_basis: Text


class LedgerHead(Frozen):
    size: int
    digest: str


class Precommit(Frozen):
    """The sealed plan of one run."""

    plan_format: Literal["evalkit/decisions-precommit/1"] = Field(alias="schema")
    run_id: Text
    created_at: Moment
    evalkit_version: Text
    contamination: Literal["named_case_source_bounded"]
    pair: PlannedPair
    cases: list[PlannedCase]
    catalog: dict[str, Any]
    mapping: dict[str, Any]
    instructions: dict[str, str]
    scorer_digest: str
    model: dict[str, Any]
    model_digest: str
    verification_mode: Literal["frozen_bundle"]
    nontrivial_probability: DecimalText
    attempt_cap: int = Field(ge=1)
    custody: Literal["self", "process", "second_party", "timelock"]
    signing_key_id: str
    ephemeral_keys: bool
    unsealing_public_key: str
    trust_digest: str
    ledger_head: LedgerHead

    @classmethod
    def from_json(cls, data: bytes, *, where: str = PLAN) -> Precommit:
        return parse(cls, load_canonical(data), where=where)

    def to_json(self) -> bytes:
        return canonical_json(dump(self))

    def case(self, case_id: str) -> PlannedCase:
        return next(c for c in self.cases if c.case_id == case_id)
