"""W28-W31: from an eligible record, one change, exactly one blocker."""

from __future__ import annotations

import copy
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest

from evalkit.decisions.case import PartA
from evalkit.decisions.findings import Blocker

from .support import CASE_IDS, baseline_record, codes, part_a

Record = dict[str, Any]
Change = Callable[[Record, PartA], None]


@pytest.fixture(scope="module")
def part() -> PartA:
    return part_a(CASE_IDS[0])


@pytest.fixture(scope="module")
def eligible(part: PartA) -> Record:
    record = baseline_record(part)
    assert codes(record, part) == set()
    return record


def put(path: str, value: Any) -> Change:
    """Set one field, named by a dotted path."""

    def change(record: Record, part: PartA) -> None:
        target: Any = record
        *parents, last = path.split(".")
        for p in parents:
            target = target[int(p)] if p.isdigit() else target[p]
        target[int(last) if last.isdigit() else last] = value

    return change


def ids(part: PartA, kind: str) -> list[str]:
    return part.packet.ids(kind)


def line(record: Record, part: PartA, *, kind: str = "fact", forward: bool = False, **other: Any) -> Record:
    """A reconstruction line of a number that no decisive section cites, and that meets ``other``."""
    decisive = str([record[k] for k in ("selected_alternative", "strongest_rejected_alternative",
                                        "mechanism", "liquidity", "disconfirming_evidence")])  # fmt: skip
    for candidate in record["financial_reconstruction"]:
        fact = part.packet.numbers[candidate["fact_id"]]
        if (
            part.packet.kinds[fact.id] == kind
            and fact.forward_looking == forward
            and repr(fact.id) not in decisive
            and all(getattr(fact, name) == value for name, value in other.items())
        ):
            found: Record = candidate
            return found
    raise AssertionError("the case has no such line")


def on_line(**changes: Any) -> Change:
    def change(record: Record, part: PartA) -> None:
        line(record, part, value_type="number").update(changes)

    return change


def unknown_line(value: str | None, target: str = "unknown", **other: Any) -> Change:
    """A line that reports a gap of Part A."""

    def change(record: Record, part: PartA) -> None:
        blank = dict.fromkeys(record["financial_reconstruction"][0])
        record["financial_reconstruction"].append(
            blank
            | {
                "fact_id": ids(part, target)[0],
                "status": "unknown",
                "definition": "Free cash flow after purchases",
                "value": value,
                "source_ids": [],
                "authoritative": False,
            }
            | other
        )

    return change


def scenario(n: int, **changes: Any) -> Change:
    def change(record: Record, part: PartA) -> None:
        record["scenarios"][n].update(changes)

    return change


def probabilities(*values: str) -> Change:
    def change(record: Record, part: PartA) -> None:
        for one, value in zip(record["scenarios"], values, strict=True):
            one["probability"] = value

    return change


def cites(path: str, kind: str) -> Change:
    def change(record: Record, part: PartA) -> None:
        put(f"{path}.cites", ids(part, kind)[:1])(record, part)

    return change


def period(where: str, value: str, *, kind: str = "fact") -> Change:
    def change(record: Record, part: PartA) -> None:
        line(record, part, kind=kind)["period"][where] = value

    return change


def infeasible(section: str) -> Change:
    def change(record: Record, part: PartA) -> None:
        bad = next(a.id for a in part.packet.alternatives if not a.feasible)
        record[section]["alternative_id"] = bad

    return change


def guidance_as_reported(record: Record, part: PartA) -> None:
    line(record, part, kind="company_claim", forward=True)["status"] = "reported"


def guidance_with_another_end(record: Record, part: PartA) -> None:
    line(record, part, kind="company_claim", forward=True)["period"]["end"] = "2009-12-31"


def fact_as_guidance(record: Record, part: PartA) -> None:
    line(record, part, value_type="number")["status"] = "forward_looking"


def computed(record: Record, part: PartA) -> None:
    line(record, part, value_type="number").update(status="computed", authoritative=True)


def own_computation(record: Record, part: PartA) -> None:
    model = line(record, part, value_type="number")
    record["financial_reconstruction"].append(
        model | {"status": "computed", "authoritative": True, "value": "303.71"}
    )


def drop_decisive_line(record: Record, part: PartA) -> None:
    cited = record["selected_alternative"]["cites"][0]
    lines = record["financial_reconstruction"]
    record["financial_reconstruction"] = [x for x in lines if x["fact_id"] != cited]


def known_as_unknown(record: Record, part: PartA) -> None:
    line(record, part, value_type="number").update(
        status="unknown", value=None, value_low=None, value_high=None
    )


def some_sources(record: Record, part: PartA) -> None:
    many = next(x for x in record["financial_reconstruction"] if len(x["source_ids"]) > 1)
    many["source_ids"] = many["source_ids"][:1]


def more_sources(record: Record, part: PartA) -> None:
    target = line(record, part)
    extra = next(s for s in ids(part, "source") if s not in target["source_ids"])
    target["source_ids"] = [*target["source_ids"], extra]


def drop(path: str, n: int | None = None) -> Change:
    def change(record: Record, part: PartA) -> None:
        target: Any = record
        for p in path.split("."):
            target = target[int(p)] if p.isdigit() else target[p]
        if n is None:
            target.clear()
        else:
            target.pop(n)

    return change


def same_alternative(record: Record, part: PartA) -> None:
    record["strongest_rejected_alternative"]["alternative_id"] = record["selected_alternative"][
        "alternative_id"
    ]


def twice_the_same_scenario(record: Record, part: PartA) -> None:
    record["scenarios"].append(copy.deepcopy(record["scenarios"][0]) | {"probability": "0"})


def claim_listed_as_fact(record: Record, part: PartA) -> None:
    record["facts"][0]["cites"].append(ids(part, "company_claim")[0])


def gap_is_an_unknown(record: Record, part: PartA) -> None:
    record["missing_evidence"][0]["missing_evidence_id"] = ids(part, "unknown")[0]


def reconstruct_a_source(record: Record, part: PartA) -> None:
    line(record, part, value_type="number")["fact_id"] = ids(part, "source")[0]


def question_off_by_one_character(record: Record, part: PartA) -> None:
    record["coordinates"]["question"] = record["coordinates"]["question"][:-1]


TABLE: dict[Blocker, dict[str, Change]] = {
    Blocker.DECISION_COORDINATES_MISMATCH: {
        "question off by one character": question_off_by_one_character,
        "case": put("coordinates.case_id", "case-bbi-2007-07"),
        "owner": put("coordinates.decision_owner", "the board"),
        "time": put("coordinates.decision_time", "2007-07-26"),
        "cutoff": put("coordinates.knowledge_cutoff", "2007-07-25"),
        "cutoff in other words": put("coordinates.knowledge_cutoff", "2007-07-24T00:00:00+00:00"),
    },
    Blocker.UNKNOWN_PART_A_REFERENCE: {
        "cited": lambda r, p: r["selected_alternative"]["cites"].append("nflx07.f999"),
        "cited deep down": lambda r, p: r["scenarios"][1]["falsifiers"][0]["cites"].append("f999"),
        "case of a letter": lambda r, p: r["facts"][0]["cites"].append(r["facts"][0]["cites"][0].upper()),
        "an id of Part B": lambda r, p: r["indicators"][0]["cites"].append("nflx07.o1"),
        "gap": put("missing_evidence.0.missing_evidence_id", "m999"),
        "fact of a line": lambda r, p: line(r, p, value_type="number").update(fact_id="f999"),
        "unknown line": unknown_line(None, fact_id="u999"),
    },
    Blocker.MATERIAL_ASSERTION_UNCITED: {
        "flagged immaterial": lambda r, p: r["facts"][0].update(material=False, cites=[]),
        "flagged material": lambda r, p: r["facts"][0].update(material=True, cites=[]),
        "selection": put("selected_alternative.cites", []),
        "rejection": put("strongest_rejected_alternative.cites", []),
        "mechanism": put("mechanism.mechanism.cites", []),
        "liquidity": put("liquidity.stressed_uses.cites", []),
        "assumption of a scenario": put("scenarios.0.assumptions.0.cites", []),
        "falsifier": put("scenarios.2.falsifiers.0.cites", []),
        "commitment": put("commitments.irreversible.0.cites", []),
        "indicator": put("indicators.0.cites", []),
        "kill condition": put("reversal_conditions.0.cites", []),
        "unquantifiable": put("confidence.unquantifiable.0.cites", []),
    },
    Blocker.ALTERNATIVE_REFERENCE_INVALID: {
        "selected unknown": put("selected_alternative.alternative_id", "alternative-0000000000"),
        "rejected unknown": put("strongest_rejected_alternative.alternative_id", "a1"),
        "selected is a scenario": lambda r, p: r["selected_alternative"].update(
            alternative_id=p.packet.scenarios[0].id
        ),
        "selected infeasible": infeasible("selected_alternative"),
        "rejected infeasible": infeasible("strongest_rejected_alternative"),
        "selected and rejected": same_alternative,
    },
    Blocker.SCENARIO_MAPPING_INVALID: {
        "one missing": drop("scenarios", 0),
        "one unknown": scenario(0, scenario_id="scenario-0000000000"),
        "one twice": twice_the_same_scenario,
        "sum above one": probabilities("0.25", "0.25", "0.25", "0.250002"),
        "sum above one in the thirty-first digit": probabilities("0.25", "0.25", "0.25", "0.2500010000000000000000000000001"),
        "sum below one": probabilities("0.25", "0.25", "0.25", "0.249998"),
        "negative": probabilities("-0.1", "0.6", "0.25", "0.25"),
        "above one": probabilities("1.5", "-0.5", "0", "0"),
        "per cent": probabilities("25", "25", "25", "25"),
        "words": probabilities("a quarter", "0.5", "0.25", "0.25"),
        "empty": probabilities("", "0.5", "0.25", "0.25"),
        "not a number": probabilities("NaN", "0.5", "0.25", "0.25"),
        "signalling": probabilities("sNaN", "0.5", "0.25", "0.25"),
        "infinite": probabilities("Infinity", "0.5", "0.25", "0.25"),
        "with underscores": probabilities("0.2_5", "0.25", "0.25", "0.25"),
        "with other digits": probabilities("0.\u0662\u0665", "0.25", "0.25", "0.25"),
        "with spaces": probabilities(" 0.25", "0.25", "0.25", "0.25"),
    },
    Blocker.FINANCIAL_VALUE_BINDING_INVALID: {
        "value": on_line(value="303.71"),
        "value as a range": on_line(value_low="1", value_high="2"),
        "no value": on_line(value=None),
        "value in words": on_line(value="three hundred"),
        "value not a number": on_line(value="NaN"),
        "value signalling": on_line(value="sNaN"),
        "definition": on_line(definition="Revenue of another kind"),
        "unit": on_line(unit="USD billion"),
        "no unit": on_line(unit=None),
        "currency": on_line(currency="EUR"),
        "entity": on_line(entity="another company"),
        "scope": on_line(scope="parent only"),
        "vintage": on_line(vintage="restated"),
        "known earlier": on_line(known_at="2007-01-01"),
        "no knowledge date": on_line(known_at=None),
        "knowledge date in words": on_line(known_at="soon"),
        "no period": on_line(period=None),
        "period label": period("label", "Q9 2007"),
        "period start": period("start", "2001-01-01"),
        "period end": period("end", "2001-12-31"),
        "period end in words": period("end", "later"),
        "computed, says it is authoritative": computed,
        "computed beside a bound line": own_computation,
        "unknown as zero": unknown_line("0"),
        "unknown as zero, range": unknown_line(None, value_low="0", value_high="0"),
        "missing evidence as zero": unknown_line("0", "missing_evidence"),
        "a known number as unknown": known_as_unknown,
        "a decisive number without a line": drop_decisive_line,
        "a fact as guidance": fact_as_guidance,
    },
    Blocker.FINANCIAL_VINTAGE_AFTER_CUTOFF: {
        "the day after": on_line(known_at="2007-07-25"),
        "years after": on_line(known_at="2009-01-01"),
        "an hour after midnight": on_line(known_at="2007-07-25T00:00:01+00:00"),
    },
    Blocker.FINANCIAL_PERIOD_AFTER_CUTOFF: {
        "a fact to year end": period("end", "2007-12-31"),
        "guidance as reported": guidance_as_reported,
        "guidance with another end": guidance_with_another_end,
        "a past claim to year end": period("end", "2007-12-31", kind="company_claim"),
    },
    Blocker.EPISTEMIC_REFERENCE_INVALID: {
        "selection on a source": cites("selected_alternative", "source"),
        "selection on a judgment": cites("selected_alternative", "judgment"),
        "selection on an alternative": cites("selected_alternative", "alternative"),
        "mechanism on an assumption": cites("mechanism.mechanism", "assumption"),
        "decision unit on an unknown": cites("mechanism.decision_unit", "unknown"),
        "disconfirming on an unknown": cites("disconfirming_evidence.0", "unknown"),
        "indicator on a scenario": cites("indicators.0", "scenario"),
        "falsifier on a source": cites("scenarios.0.falsifiers.0", "source"),
        "unquantifiable on a fact": cites("confidence.unquantifiable.0", "fact"),
        "a fact on a claim": cites("facts.0", "company_claim"),
        "a claim on a fact": cites("company_claims.0", "fact"),
        "an estimate on a claim": cites("third_party_estimates.0", "company_claim"),
        "a judgment on a fact": cites("judgments.0", "fact"),
        "an unknown on a fact": cites("unknowns.0", "fact"),
        "a claim among the facts": claim_listed_as_fact,
        "liquidity on a source": lambda r, p: r["liquidity"].update(
            covenants={"statement": "There is no answer on record", "cites": ids(p, "source")[:1]}
        ),
        "a gap that is an unknown": gap_is_an_unknown,
        "a line of a source": reconstruct_a_source,
    },
    Blocker.SOURCE_LINEAGE_INCOMPLETE: {
        "some sources": some_sources,
        "no source": on_line(source_ids=[]),
        "one source too many": more_sources,
    },
    Blocker.REQUIRED_DECISION_RECORD_INCOMPLETE: {
        "no facts": drop("facts"),
        "no unknowns": drop("unknowns"),
        "no conflicts": drop("conflicts"),
        "no judgments": drop("judgments"),
        "no disconfirming evidence": drop("disconfirming_evidence"),
        "no missing evidence": drop("missing_evidence"),
        "no indicators": drop("indicators"),
        "no kill conditions": drop("reversal_conditions"),
        "no falsifiers": drop("scenarios.0.falsifiers"),
        "no assumptions": drop("scenarios.3.assumptions"),
        "nothing unquantifiable": drop("confidence.unquantifiable"),
        "no commitments": lambda r, p: r["commitments"].update(reversible=[], irreversible=[]),
        "tied ranks": put("missing_evidence.1.rank", 1),
        "ranks from zero": lambda r, p: [g.update(rank=g["rank"] - 1) for g in r["missing_evidence"]],
        "placeholder": put("selected_alternative.rationale", "TBD"),
        "placeholder in words": put("selected_alternative.rationale", "to be determined"),
        "placeholder with dots": put("mechanism.mechanism.statement", "..."),
        "blank": put("mechanism.mechanism.statement", "   "),
        "empty": put("commitments.irreversible.0.gate", ""),
        "one word": put("reversal_conditions.0.action", "stop"),
        "one word again and again": put("confidence.basis", "data data data data"),
        "lorem ipsum": put("strongest_rejected_alternative.case_for", "Lorem ipsum lorem ipsum"),
        "n/a": put("indicators.0.owner", "N/A"),
        "none": put("indicators.0.threshold", "none"),
        "prose on an unknown line": unknown_line(None, definition="TBD"),
    },
    Blocker.VALUATION_ABSTENTION_REQUIRED: {
        "does not abstain": put("valuation.abstain", False),
        "price target": put("selected_alternative.rationale", "It supports a price target of 30 on results"),
        "intrinsic value": put("confidence.basis", "The intrinsic value exceeds what is paid for it now"),
        "undervalued": put("mechanism.mechanism.statement", "The market has undervalued the growth it has"),
        "worth": put("selected_alternative.rationale", "At rest the company is worth more than its debts"),
        "a sum": put("selected_alternative.rationale", "We think it is worth about $40 in the end"),
        "a target of one's own among the judgments": put(
            "judgments.0.statement", "Our own price target of 20 on the shares stands"
        ),
        "a target in odd spaces": put("confidence.basis", "The rule has a price\u00a0 \u200btarget in mind for it"),
        "multiple": put("confidence.basis", "A multiple of 12 on earnings is fair for such a firm"),
        "undervalues": put("confidence.basis", "We hold that the market undervalues the shares by far"),
        "discounted cash flows": put("selected_alternative.rationale", "Discounted cash flows argue for it at length"),
        "in the reason for abstaining": put("valuation.reason", "We abstain, though the shares are worth 40 dollars"),
        "a target in the reason": put("valuation.reason", "No authority; our target is 40 a share at year end"),
        "in a falsifier": put("scenarios.0.falsifiers.0.statement", "The equity value is above one billion"),
        "on an unknown line": unknown_line(None, definition="The shares are worth 40 dollars each"),
        "on an unknown line's scope": unknown_line(None, scope="intrinsic value of 40 dollars a share"),
    },
}  # fmt: skip
VARIANTS = [(code, name) for code, rows in TABLE.items() for name in rows]


def test_the_table_has_all_twelve_codes() -> None:
    assert set(TABLE) == set(Blocker)


@pytest.mark.parametrize(("code", "name"), VARIANTS, ids=lambda v: str(v))
def test_one_change_one_blocker(code: Blocker, name: str, part: PartA, eligible: Record) -> None:
    record = copy.deepcopy(eligible)
    TABLE[code][name](record, part)
    assert codes(record, part) == {code.value}


@pytest.mark.parametrize("case_id", CASE_IDS[1:])
@pytest.mark.parametrize("code", list(Blocker), ids=str)
def test_each_code_on_every_case(code: Blocker, case_id: str) -> None:
    part = part_a(case_id)
    record = baseline_record(part)
    cutoff = part.packet.decision.knowledge_cutoff
    portable: dict[Blocker, Change] = {
        **{c: next(iter(rows.values())) for c, rows in TABLE.items()},
        Blocker.FINANCIAL_VINTAGE_AFTER_CUTOFF: on_line(known_at="2030-01-01"),
        Blocker.FINANCIAL_PERIOD_AFTER_CUTOFF: period("end", "2030-01-01"),
    }
    assert cutoff < "2030"
    portable[code](record, part)
    assert codes(record, part) == {code.value}


# --- what is no defect


def zeros(text: str) -> str:
    return text + "0" if "." in text else text + ".0"


FINE: dict[str, Change] = {
    "303.70 is 303.7": lambda r, p: [
        x.update(value=zeros(x["value"])) for x in r["financial_reconstruction"]
        if p.packet.numbers[x["fact_id"]].value_type == "number"
    ],
    "sums to one in decimal": probabilities("0.1", "0.2", "0.3", "0.4"),
    "within the tolerance": probabilities("0.333333", "0.333333", "0.333333", "0.000001"),
    "at the tolerance": probabilities("0.25", "0.25", "0.25", "0.250001"),
    "certain": probabilities("1", "0", "0", "0"),
    "unknown citing an unknown": lambda r, p: r["liquidity"].update(
        covenants={"statement": "unknown", "cites": ids(p, "unknown")[:1]}
    ),
    "Unknown. citing missing evidence": lambda r, p: r["liquidity"].update(
        covenants={"statement": "Unknown.", "cites": ids(p, "missing_evidence")[:1]}
    ),
    "an unknown line without a value": unknown_line(None),
    "a missing-evidence line without a value": unknown_line(None, "missing_evidence"),
    "materiality flags are not read": lambda r, p: [x.update(material=False) for x in r["facts"]],
    "authority flags are not read": lambda r, p: [
        x.update(authoritative=True) for x in r["financial_reconstruction"]
    ],
    "sources in another order": lambda r, p: [
        x["source_ids"].reverse() for x in r["financial_reconstruction"]
    ],
    "a range without its printed form": lambda r, p: line(
        r, p, kind="company_claim", forward=True, value_type="range"
    ).update(value=None),
    "a fact that also cites its source": lambda r, p: r["facts"][0]["cites"].append(ids(p, "source")[0]),
    "a reason that speaks of value": put(
        "valuation.reason", "No authority to state a fair value of the company from 2 quarters of results"
    ),
    "short answers in short fields": put("indicators.0.cadence", "monthly"),
    "scenarios in another order": lambda r, p: r["scenarios"].reverse(),
}  # fmt: skip


@pytest.mark.parametrize("name", FINE)
def test_this_is_no_defect(name: str, part: PartA, eligible: Record) -> None:
    record = copy.deepcopy(eligible)
    FINE[name](record, part)
    assert codes(record, part) == set()


def test_w29_unknown_that_cites_no_gap_is_no_answer(part: PartA, eligible: Record) -> None:
    record = copy.deepcopy(eligible)
    record["liquidity"]["accessible"]["statement"] = "unknown"
    assert codes(record, part) == {"EPISTEMIC_REFERENCE_INVALID", "REQUIRED_DECISION_RECORD_INCOMPLETE"}


def test_w18_decimal_arithmetic_decides_not_floats(part: PartA, eligible: Record) -> None:
    """Four numbers that floats sum to 1.0 exactly, and that do not sum to one: blocked; and vice versa."""
    wrong = ["0.5", "0.25", "0.125", "0.12500100000000000001"]
    right = ["0.1", "0.2", "0.7", "0"]
    for values, expected in ((wrong, {Blocker.SCENARIO_MAPPING_INVALID.value}), (right, set())):
        record = copy.deepcopy(eligible)
        probabilities(*values)(record, part)
        assert codes(record, part) == expected
    assert sum(Decimal(v) for v in wrong) - 1 > Decimal("0.000001")


def test_w30_unknown_is_never_zero_but_a_zero_is_a_zero(part: PartA, eligible: Record) -> None:
    record = copy.deepcopy(eligible)
    unknown_line("0.00")(record, part)
    assert codes(record, part) == {Blocker.FINANCIAL_VALUE_BINDING_INVALID.value}
