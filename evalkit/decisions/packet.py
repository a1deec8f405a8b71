"""Part A: the frozen evidence of one case, as the analyst sees it.

Format ``evalkit/packet/1`` (docs/formats/packet.md).  Every record has an ASCII id, unique in the
packet, and its kind is the list it stands in.  Numbers are decimal strings: a packet never holds a
float, so that what is cited can be compared to the last digit.  Nothing that only the instructor
needs (pair, role, title, file name, outcome) has a field here, and unknown fields are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal
from functools import cached_property
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from evalkit.decisions.moments import moment, partial_day
from evalkit.errors import EvalkitError
from evalkit.sealing import CanonicalError, canonical_json, load_canonical, load_strict

SCHEMA = "evalkit/packet/1"
CONTAMINATION: Literal["named_case_source_bounded"] = "named_case_source_bounded"

#: characters of a number: more than any quantity needs, few enough for exact arithmetic
MAX_DIGITS = 60

_DECIMAL = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?\Z")
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,79}\Z")


def is_plain_decimal(text: str) -> bool:
    """Digits, optional sign and point: no exponent, underscore, space or other script's digits."""
    return len(text) <= MAX_DIGITS and _DECIMAL.match(text) is not None


def _decimal(text: str) -> str:
    if not is_plain_decimal(text):
        raise ValueError(f"{text!r} is not a plain decimal (digits, optional sign and point)")
    return text


def _identifier(text: str) -> str:
    if not _ID.match(text):
        raise ValueError(f"{text!r} is not an id (ASCII letters, digits, '.', '_', '-'; up to 80)")
    return text


DecimalText = Annotated[str, AfterValidator(_decimal)]
Identifier = Annotated[str, AfterValidator(_identifier)]
Moment = Annotated[str, AfterValidator(moment)]
PartialDay = Annotated[str, AfterValidator(partial_day)]
Text = Annotated[str, Field(min_length=1)]
M = TypeVar("M", bound=BaseModel)


class Frozen(BaseModel):
    """A value: no unknown fields, no coercion, no change after it was built."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Decision(Frozen):
    owner: Text
    decision_time: Moment
    knowledge_cutoff: Moment
    question: Text


class Alternative(Frozen):
    id: Identifier
    description: Text
    feasible: bool
    reversible: Text
    note: str | None = None


class Source(Frozen):
    id: Identifier
    title: Text
    publisher: Text
    kind: Text
    published_at: PartialDay
    known_at: Moment
    address: Text
    date_basis: Text
    read_extent: Text
    note: str | None = None


class Period(Frozen):
    start: Moment
    end: Moment
    label: Text


class Fact(Frozen):
    """A reported fact, a company claim or a third party's estimate: the list says which."""

    id: Identifier
    definition: Text
    value: Text
    value_type: Literal["number", "range", "text"]
    value_low: DecimalText | None = None
    value_high: DecimalText | None = None
    unit: str | None
    currency: str | None
    period: Period
    entity: Text
    scope: Text
    vintage: Text
    known_at: Moment
    forward_looking: bool
    source_ids: list[Identifier]
    single_sourced: bool
    note: str | None = None
    doubt: str | None = None

    @property
    def is_numeric(self) -> bool:
        return self.value_type != "text"

    def numbers(self) -> list[Decimal]:
        """The exact values: one for a number, low and high for a range, none for text."""
        if self.value_type == "number":
            return [Decimal(self.value)]
        if self.value_type == "range":
            return [Decimal(self.value_low or "NaN"), Decimal(self.value_high or "NaN")]
        return []


class Assumption(Frozen):
    id: Identifier
    statement: Text
    basis_fact_ids: list[Identifier]
    tested_by: Text


class Judgment(Frozen):
    id: Identifier
    holder: Text
    view: Text
    date: Moment
    source_ids: list[Identifier]


class Conflict(Frozen):
    id: Identifier
    description: Text
    fact_ids: list[Identifier]
    status: Text
    source_ids: list[Identifier]


class Unknown(Frozen):
    id: Identifier
    statement: Text


class MissingEvidence(Frozen):
    id: Identifier
    description: Text
    value: Literal["high", "medium", "low"]


class LiquidityItem(Frozen):
    id: Identifier
    item: Text
    fact_ids: list[Identifier]
    as_of: Moment
    restriction: Text
    accessibility: Text


class Table(Frozen):
    id: Identifier
    title: Text
    fact_ids: list[Identifier]


class Scenario(Frozen):
    id: Identifier
    description: Text
    horizon: Moment


#: list in the packet -> kind of the records in it, in the order in which they are printed
KINDS: dict[str, str] = {
    "alternatives": "alternative",
    "sources": "source",
    "facts": "fact",
    "company_claims": "company_claim",
    "third_party_estimates": "third_party_estimate",
    "assumptions": "assumption",
    "judgments": "judgment",
    "conflicts": "conflict",
    "unknowns": "unknown",
    "missing_evidence": "missing_evidence",
    "liquidity": "liquidity",
    "tables": "table",
    "scenarios": "scenario",
}

#: kinds whose records are evidence about the world
EVIDENCE = frozenset({"fact", "company_claim", "third_party_estimate"})


class Packet(Frozen):
    """Canonical Part A of one case."""

    packet_format: Literal["evalkit/packet/1"] = Field(alias="schema")
    case_id: Identifier
    company: Text
    contamination: Literal["named_case_source_bounded"]
    decision: Decision
    alternatives: list[Alternative]
    sources: list[Source]
    facts: list[Fact]
    company_claims: list[Fact]
    third_party_estimates: list[Fact]
    assumptions: list[Assumption]
    judgments: list[Judgment]
    conflicts: list[Conflict]
    unknowns: list[Unknown]
    missing_evidence: list[MissingEvidence]
    liquidity: list[LiquidityItem]
    tables: list[Table]
    scenarios: list[Scenario]

    @classmethod
    def from_json(cls, data: bytes, *, where: str = "packet.json") -> Packet:
        """Load canonical bytes.  Raises `EvalkitError` naming the first fields that are wrong."""
        return parse(cls, load_canonical(data), where=where)

    def to_json(self) -> bytes:
        return canonical_json(dump(self))

    @cached_property
    def kinds(self) -> dict[str, str]:
        """Id -> kind of every record."""
        return {record.id: kind for name, kind in KINDS.items() for record in getattr(self, name)}

    @cached_property
    def numbers(self) -> dict[str, Fact]:
        """Id -> fact, claim or estimate (numeric or not)."""
        return {f.id: f for f in (*self.facts, *self.company_claims, *self.third_party_estimates)}

    @cached_property
    def texts(self) -> dict[str, str]:
        """Id -> everything that the record says, as one text."""
        return {
            record.id: " ".join(_strings(dump(record))) for name in KINDS for record in getattr(self, name)
        }

    def ids(self, kind: str) -> list[str]:
        return [i for i, k in self.kinds.items() if k == kind]


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        value = list(value.values())
    if isinstance(value, list):
        for item in value:
            yield from _strings(item)
    elif isinstance(value, str):
        yield value


def dump(value: BaseModel) -> Any:
    """JSON value of a format object: optional fields that are unset are left out."""
    out = value.model_dump(mode="json", by_alias=True)
    return _without_unset(value, out)


def _without_unset(value: Any, out: Any) -> Any:
    if isinstance(value, BaseModel):
        fields = type(value).model_fields
        return {
            key: _without_unset(getattr(value, name), out[key])
            for name, info in fields.items()
            if (key := info.alias or name) in out and not (out[key] is None and not info.is_required())
        }
    if isinstance(value, list | tuple):
        return [_without_unset(v, o) for v, o in zip(value, out, strict=True)]
    return out


def parse(model: type[M], value: Any, *, where: str) -> M:
    """Validate a JSON value, turning pydantic's report into one `EvalkitError`."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        raise EvalkitError(
            f"{where} is not a valid {model.__name__}",
            where="; ".join(problems(error)),
            expected=f"the fields of {model.__name__} (docs/formats)",
            do="correct the fields named",
        ) from None


def load_user_json(data: bytes, where: str) -> Any:
    """Strict JSON of a file that a person wrote; the error names the file and the place in it."""
    try:
        return load_strict(data)
    except CanonicalError as error:
        raise EvalkitError(
            error.what,
            where=f"{where}, {error.where}" if error.where else where,
            expected=error.expected or "one JSON value in UTF-8",
            do=error.do or "correct the file",
        ) from None


def problems(error: ValidationError, limit: int = 5) -> list[str]:
    """The first problems of a validation, each with its path."""
    found = error.errors(include_url=False, include_context=False, include_input=False)
    lines = [f"{'.'.join(str(p) for p in e['loc']) or 'document'}: {e['msg']}" for e in found[:limit]]
    if len(found) > limit:
        lines.append(f"and {len(found) - limit} more")
    return lines
