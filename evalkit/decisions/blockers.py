"""The twelve defects of a decision record that no total can compensate (W28-W31).

Each finder looks at one thing and says where and what.  Ids resolve in the packet or they do not;
nothing that the model asserts about its own record (``material``, ``authoritative``) is read.  A record
with a finding is blocked: it is scored and kept, and reveal refuses it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from decimal import Decimal
from fractions import Fraction

from evalkit.decisions.financial import financial_findings
from evalkit.decisions.findings import GAPS, Blocker, Finding
from evalkit.decisions.packet import EVIDENCE, Packet, is_plain_decimal
from evalkit.decisions.record import (
    PROBABILITY_TOLERANCE,
    DecisionRecord,
    Liquidity,
    citations,
    cited_at,
    prose,
)

#: list of the record -> kinds of which each of its items must cite at least one
OWN_KINDS: dict[str, frozenset[str]] = {
    "facts": frozenset({"fact"}),
    "company_claims": frozenset({"company_claim"}),
    "third_party_estimates": frozenset({"third_party_estimate"}),
    "assumptions": frozenset({"assumption"}),
    "judgments": frozenset({"judgment"}),
    "conflicts": frozenset({"conflict"}),
    "unknowns": GAPS,
}
#: in these lists an item may cite only its own kind (and sources): a claim is never listed as a fact
_PURE = ("facts", "company_claims", "third_party_estimates")

_SUPPORT = EVIDENCE | GAPS | {"assumption", "judgment", "conflict", "liquidity", "table"}
#: elsewhere: path pattern -> kinds of which a statement must cite at least one
_NEEDS: list[tuple[re.Pattern[str], frozenset[str]]] = [
    (re.compile(r"(selected|strongest_rejected)_alternative$"), EVIDENCE),
    (re.compile(r"mechanism\."), EVIDENCE),
    (re.compile(r"liquidity\."), EVIDENCE | GAPS | {"liquidity"}),
    (re.compile(r"disconfirming_evidence"), EVIDENCE | {"conflict", "judgment"}),
    (re.compile(r"confidence\.unquantifiable"), GAPS | {"assumption", "conflict"}),
    (re.compile(r""), _SUPPORT),
]

_PLACEHOLDERS = frozenset(
    [
        "tbd",
        "tba",
        "todo",
        "na",
        "none",
        "null",
        "nil",
        "placeholder",
        "unknown",
        "lorem",
        "ipsum",
        "xxx",
        "string",
        "text",
        "example",
        "same",
        "ditto",
        "various",
        "etc",
        "pending",
        "statement",
        "to_be_determined",
        "not_applicable",
        "see_above",
        "see_below",
        "as_above",
        "not_available",
        "fill_in",
        "lorem_ipsum",
    ]
)
#: fields in which a word or two can be a complete answer
_SHORT = frozenset({"source", "threshold", "cadence", "owner", "time_allowed", "evidence", "definition"})
#: prose that puts a value on the company or its securities
_VALUES = re.compile(
    r"\b(price targets?|target prices?|intrinsic value|(under|over)-?valu(e|es|ed|ing|ation)"
    r"|discounted cash flows?|dcf|fair price"
    r"|(shares?|stock|equity|company|business) (is|are) worth|fair value (is|of the (company|equity|shares?))"
    r"|(enterprise|equity) value (is|of)|worth (about |around |some )?(usd|us\$|\$|€|£)\s?\d"
    r"|(multiple of \d+(\.\d+)?( on| of| times)?|\d+(\.\d+)?\s?(x|times)) (earnings|sales|revenue|ebitda|book)\b)",
    re.IGNORECASE,
)

#: a value with a number to it, in the reason for abstaining
_AMOUNT = re.compile(r"\b(worth|valued? at|(value|price|target) (of|is))\D{0,12}\d", re.IGNORECASE)


def find_blockers(record: DecisionRecord, packet: Packet) -> list[Finding]:
    """All findings on a parsed record, in the order of the blocker codes."""
    finders = (
        _coordinates,
        _references,
        _citations,
        _alternatives,
        _scenarios,
        financial_findings,
        _kinds,
        _complete,
        _valuation,
    )
    found = [finding for finder in finders for finding in finder(record, packet)]
    order = list(Blocker)
    return sorted(found, key=lambda f: order.index(f.code))


def unreadable(problem: str, raw: bytes = b"") -> list[Finding]:
    """The finding on a response that is no decision record at all."""
    if raw.lstrip().startswith(b"```"):
        problem = f"the answer begins with a code fence, and must be the JSON object alone ({problem})"
    return [Finding(code=Blocker.REQUIRED_DECISION_RECORD_INCOMPLETE, where="response", what=problem)]


def _coordinates(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    given, d = record.coordinates, packet.decision
    for field, value, expected in (
        ("case_id", given.case_id, packet.case_id),
        ("decision_owner", given.decision_owner, d.owner),
        ("decision_time", given.decision_time, d.decision_time),
        ("knowledge_cutoff", given.knowledge_cutoff, d.knowledge_cutoff),
        ("question", given.question, d.question),
    ):
        if value != expected:
            yield Finding(
                code=Blocker.DECISION_COORDINATES_MISMATCH,
                where=f"coordinates.{field}",
                what=f"{value!r} is not the packet's {expected!r}",
            )


def _references(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    cited = [(where, i) for where, ids in citations(record) for i in ids]
    for index, line in enumerate(record.financial_reconstruction):
        where = f"financial_reconstruction[{index}]"
        cited += [(f"{where}.fact_id", line.fact_id)]
        cited += [(f"{where}.source_ids", s) for s in line.source_ids]
    cited += [
        (f"missing_evidence[{n}]", g.missing_evidence_id) for n, g in enumerate(record.missing_evidence)
    ]
    for where, target in cited:
        if target not in packet.kinds:
            yield Finding(
                code=Blocker.UNKNOWN_PART_A_REFERENCE,
                where=where,
                what=f"{target!r} is no record of Part A",
            )


def _citations(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    for where, ids in citations(record):
        if not ids:
            yield Finding(
                code=Blocker.MATERIAL_ASSERTION_UNCITED,
                where=where,
                what="it cites no Part A record (the record's own materiality flag is not read)",
            )


def _alternatives(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    known = {a.id: a for a in packet.alternatives}
    selected = record.selected_alternative.alternative_id
    rejected = record.strongest_rejected_alternative.alternative_id

    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.ALTERNATIVE_REFERENCE_INVALID, where=where, what=what)

    for where, target in (
        ("selected_alternative", selected),
        ("strongest_rejected_alternative", rejected),
    ):
        if target not in known:
            yield finding(where, f"{target!r} is no alternative of the packet")
        elif not known[target].feasible:
            yield finding(where, f"{target} is not feasible on the record")
    if selected == rejected:
        yield finding("strongest_rejected_alternative", "it is the selected one")


def _scenarios(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.SCENARIO_MAPPING_INVALID, where=where, what=what)

    given = [s.scenario_id for s in record.scenarios]
    expected = [s.id for s in packet.scenarios]
    for extra in sorted(set(given) - set(expected)):
        yield finding("scenarios", f"{extra!r} is no scenario of the packet")
    for absent in sorted(set(expected) - set(given)):
        yield finding("scenarios", f"{absent} has no probability")
    if len(set(given)) != len(given):
        yield finding("scenarios", "a scenario stands twice")
    if len(given) < 3:
        yield finding("scenarios", f"{len(given)} scenarios, at least three are required")
    total = Fraction(0)  # exact, however many digits are given
    for index, scenario in enumerate(record.scenarios):
        if not is_plain_decimal(scenario.probability):
            yield finding(f"scenarios[{index}]", f"probability {scenario.probability!r} is no plain decimal")
            continue
        p = Decimal(scenario.probability)
        if not 0 <= p <= 1:
            yield finding(f"scenarios[{index}]", f"probability {scenario.probability} is not in [0, 1]")
            continue
        total += Fraction(p)
    if abs(total - 1) > Fraction(PROBABILITY_TOLERANCE):
        shown = Decimal(total.numerator) / Decimal(total.denominator)
        yield finding("scenarios", f"probabilities sum to {shown}, not to 1")


def _kinds(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    for where, ids in citations(record):
        kinds = {packet.kinds[i] for i in ids if i in packet.kinds}
        if not kinds:
            continue  # uncited or unknown: said elsewhere
        section = where.partition("[")[0]
        if section in OWN_KINDS:
            own = OWN_KINDS[section]
            wrong = kinds - own - {"source", "table"} if section in _PURE else set()
        else:
            own = next(needs for pattern, needs in _NEEDS if pattern.match(where))
            wrong = set()
        if not kinds & own:
            yield _wrong_kind(where, f"it cites {_names(kinds)} where {_names(own)} is needed")
        elif wrong:
            yield _wrong_kind(where, f"it mixes in {_names(wrong)}")
    for name in Liquidity.model_fields:
        part = getattr(record.liquidity, name)
        cited = {packet.kinds.get(i) for i in part.cites}
        if _normal(part.statement) == "unknown" and part.cites and not cited & GAPS:
            yield _wrong_kind(f"liquidity.{name}", "'unknown' cites neither an unknown nor missing evidence")
    for index, gap in enumerate(record.missing_evidence):
        kind = packet.kinds.get(gap.missing_evidence_id)
        if kind not in (None, "missing_evidence"):
            yield _wrong_kind(f"missing_evidence[{index}]", f"{gap.missing_evidence_id} is a {kind}")


def _wrong_kind(where: str, what: str) -> Finding:
    return Finding(code=Blocker.EPISTEMIC_REFERENCE_INVALID, where=where, what=what)


def _names(kinds: set[str] | frozenset[str]) -> str:
    return " or ".join(sorted(kinds)).replace("_", " ")


def _complete(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.REQUIRED_DECISION_RECORD_INCOMPLETE, where=where, what=what)

    present = set(packet.kinds.values())
    for section, own in OWN_KINDS.items():
        if present & own and not getattr(record, section):
            yield finding(section, f"Part A has {_names(own)} records and the list is empty")
    needed = {
        "financial_reconstruction": any(f.is_numeric for f in packet.numbers.values()),
        "missing_evidence": bool(packet.missing_evidence),
        "disconfirming_evidence": True,
        "indicators": True,
        "reversal_conditions": True,
    }
    for section, required in needed.items():
        if required and not getattr(record, section):
            yield finding(section, "the section is empty")
    if not record.commitments.reversible and not record.commitments.irreversible:
        yield finding("commitments", "neither a reversible nor an irreversible commitment is named")
    if not record.confidence.unquantifiable:
        yield finding("confidence.unquantifiable", "nothing is said to be unquantifiable")
    for index, scenario in enumerate(record.scenarios):
        for part in ("assumptions", "falsifiers"):
            if not getattr(scenario, part):
                yield finding(f"scenarios[{index}].{part}", "the list is empty")
    if sorted(g.rank for g in record.missing_evidence) != list(range(1, len(record.missing_evidence) + 1)):
        yield finding("missing_evidence", "ranks are not 1, 2, 3 … without ties")
    gaps = {f"liquidity.{n}.statement" for n in Liquidity.model_fields if _is_gap(record, packet, n)}
    for where, text in prose(record):
        if where.startswith("financial_reconstruction") and not where.endswith("].definition"):
            continue  # of an unknown, scope and the rest may be unknown too
        if where not in gaps and is_placeholder(text, short=where.rpartition(".")[2] in _SHORT):
            yield finding(where, f"{text[:40]!r} is a placeholder, not an answer")


def _is_gap(record: DecisionRecord, packet: Packet, part: str) -> bool:
    """Is this part of the liquidity section an honest, cited 'unknown'?"""
    statement = getattr(record.liquidity, part)
    cited = {packet.kinds.get(i) for i in statement.cites}
    return _normal(statement.statement).startswith("unknown") and bool(cited & GAPS)


def _normal(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")


def is_placeholder(text: str, *, short: bool = False) -> bool:
    """Is this prose a stand-in for an answer?  ``short``: one real word is enough."""
    normal = _normal(re.sub(r"\bn/a\b", "na", text.lower()))
    words = [w for w in normal.split("_") if w]
    if not words or normal in _PLACEHOLDERS:
        return True
    if all(w in _PLACEHOLDERS for w in words):
        return True
    if short:
        return False
    return len(words) < 3 or len(set(words)) < 3


def _plain(text: str) -> str:
    """Compatibility forms folded, invisible characters dropped, white space single."""
    folded = unicodedata.normalize("NFKC", text)
    visible = "".join(c for c in folded if unicodedata.category(c) != "Cf")
    return " ".join(visible.split())


def _valuation(record: DecisionRecord, packet: Packet) -> Iterator[Finding]:
    def finding(where: str, what: str) -> Finding:
        return Finding(code=Blocker.VALUATION_ABSTENTION_REQUIRED, where=where, what=what)

    if not record.valuation.abstain:
        yield finding("valuation.abstain", "it is false")
    cites = dict(citations(record))
    for where, text in prose(record):
        if where == "valuation.reason":
            # saying why one abstains may speak of values, but not put a number to one
            if match := _AMOUNT.search(_plain(text)):
                yield finding(where, f"it values: {match.group(0)!r}")
            continue
        quoted = _plain(" ".join(packet.texts.get(i, "") for i in cited_at(where, cites))).lower()
        for match in _VALUES.finditer(_plain(text)):
            if match.group(0).lower() not in quoted:  # words of a record that is cited are not the analyst's
                yield finding(where, f"it values: {match.group(0)!r}")
                break
