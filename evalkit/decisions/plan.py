"""The precommit: everything that is fixed before a prompt is sent (W1-W5).

``RUN/plan.json`` (``evalkit/decisions-precommit/1``, docs/formats/decisions-run.md) with its detached
attestation ``RUN/plan.dsse.json``.  Pair roles and the realized scenarios are in it only as salted
commitments to sealed packets.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from evalkit.decisions.custody.bundle import Custodian
from evalkit.decisions.packet import DecimalText, Frozen, Moment, Text, dump, parse
from evalkit.decisions.sealed_pair import LedgerHead, PlannedPair, SealedCase
from evalkit.decisions.supersession import Supersedes
from evalkit.sealing import canonical_json, load_canonical

PLAN = "plan.json"
PLAN_ATTESTATION = "plan.dsse.json"


class PlannedCase(SealedCase):
    """A sealed case, and the warnings that are accepted: exactly these."""

    accepted_warnings: list[str]


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
    custodian: Custodian | None
    signing_key_id: str
    ephemeral_keys: bool
    unsealing_public_key: str
    trust_digest: str
    ledger_head: LedgerHead
    supersedes: Supersedes | None

    @classmethod
    def from_json(cls, data: bytes, *, where: str = PLAN) -> Precommit:
        return parse(cls, load_canonical(data), where=where)

    def to_json(self) -> bytes:
        return canonical_json(dump(self))

    def case(self, case_id: str) -> PlannedCase:
        return next(c for c in self.cases if c.case_id == case_id)


def predicate_of_plan(plan: Precommit, plan_digest: str) -> dict[str, Any]:
    """The predicate that attests a plan, but for the ledger's head and the time."""
    return {
        "run_id": plan.run_id,
        "phase": "precommitted",
        "plan_digest": plan_digest,
        "custody": plan.custody,
    }
