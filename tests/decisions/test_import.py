"""Import: fact sheets become frozen cases, and nothing of the instructor's side reaches Part A."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import import_cases
from evalkit.errors import EvalkitError

from .support import (
    CASE_IDS,
    CASES,
    FROZEN_AT,
    SHEETS,
    other_sheet,
    pairs_file,
    sheet,
    strings,
    write_sheets,
)


def _import(folder: Path, sheets: list[Any] | None = None, pairs: Any = None) -> Path:
    paths, pair_path = write_sheets(folder / "sheets", sheets, pairs)
    import_cases(paths, pair_path, folder / "cases", frozen_at=FROZEN_AT)
    return folder / "cases"


def _part_a(cases: Path) -> dict[str, bytes]:
    return {str(p.relative_to(cases)): p.read_bytes() for p in sorted(cases.glob("*/part-a/*"))}


def test_conversion_reproduces_the_committed_cases(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "cases"
    import_cases([folder / n for n in SHEETS], folder / "pairs.json", tmp_path / "cases", frozen_at=FROZEN_AT)
    made = {str(p.relative_to(tmp_path / "cases")): p.read_bytes()
            for p in (tmp_path / "cases").rglob("*") if p.is_file()}  # fmt: skip
    committed = {str(p.relative_to(CASES)): p.read_bytes() for p in CASES.rglob("*")
                 if p.is_file() and not p.name.startswith(".")}  # fmt: skip
    assert made == committed


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_w3_part_a_of_the_committed_cases_holds_nothing_of_the_instructor(case_id: str) -> None:
    files = {p.name: p.read_text() for p in (CASES / case_id / "part-a").iterdir()}
    episode = json.loads((CASES / case_id / "episode.json").read_bytes())
    outcome = json.loads((CASES / case_id / "part-b" / "outcome.json").read_bytes())
    note = (CASES / case_id / "part-b" / "teaching-note.md").read_text()
    secrets = {episode["pair_id"], episode["title"], episode["partner_case_id"], note.strip()}
    secrets |= {episode["imported_from"]["file_name"], episode["imported_from"]["evidence_digest"]}
    secrets |= {s["statement"] for s in outcome["observable_signals"]} | {outcome["process_quality"]}
    secrets |= {x["id"] for key in ("observable_signals", "outcomes", "sources") for x in outcome[key]}
    secrets |= {x["statement"] for x in outcome["outcomes"]}
    secrets |= {x["address"] for x in outcome["sources"]}
    for name, text in files.items():
        found = [s for s in secrets if s in text]
        assert not found, f"{name} holds {found}"
        roles = re.findall(r"\b(?:unfavorable|favorable|realized|part[-_]b)\b", text, re.IGNORECASE)
        assert not roles, f"{name} has role words {roles}"


def test_w3_every_part_b_string_stays_out_of_part_a(shared_data: Path) -> None:
    for name in SHEETS:
        value = json.loads((shared_data / "cases" / name).read_bytes())
        shown = {k: v for k, v in value.items() if k not in ("part_b", "title", "pair_id")}
        # the two halves may share a publisher or a date phrase, never a sentence or an id
        secret = {s for s in strings(value["part_b"]) if s not in set(strings(shown)) and len(s) > 4}
        files = (CASES / value["case_id"] / "part-a").iterdir()
        text = "".join(json.dumps(p.read_text(), ensure_ascii=False) for p in files)
        found = [s for s in secret if json.dumps(s, ensure_ascii=False)[1:-1] in text and not s[0].isdigit()]
        assert not [s for s in found if len(s) > 25 or "." in s], found
        assert value["title"] not in text
        assert value["pair_id"] not in text


def _shuffled(value: dict[str, Any], seed: int) -> dict[str, Any]:
    """The same sheet with its scenarios and alternatives in another order under other ids."""
    value = copy.deepcopy(value)
    order = random.Random(seed)
    old = {}
    for records, prefix in ((value["scenarios"], "zz"), (value["decision"]["alternatives"], "qq")):
        order.shuffle(records)
        for n, record in enumerate(records):
            old[record["id"]] = f"{prefix}{seed}-{n}"
            record["id"] = old[record["id"]]
    value["part_b"]["realized_scenario_id"] = old[value["part_b"]["realized_scenario_id"]]
    return value


@pytest.mark.parametrize("seed", range(5))
def test_order_and_ids_in_the_sheet_leave_no_trace_in_part_a(tmp_path: Path, seed: int) -> None:
    first = _import(tmp_path / "a")
    second = _import(tmp_path / "b", [_shuffled(sheet(), seed), _shuffled(other_sheet(), seed)])
    assert _part_a(first) == _part_a(second)
    assert (first / "mapping.json").read_bytes() == (second / "mapping.json").read_bytes()


def test_order_and_ids_of_the_real_sheets_leave_no_trace(shared_data: Path, tmp_path: Path) -> None:
    folder = shared_data / "cases"
    sheets = [_shuffled(json.loads((folder / n).read_bytes()), 7) for n in SHEETS]
    made = _import(tmp_path, sheets, json.loads((folder / "pairs.json").read_bytes()))
    assert _part_a(made) == _part_a(CASES)


@pytest.mark.parametrize("realized", ["y1", "y2", "y3"])
def test_which_scenario_is_realized_leaves_no_trace_in_part_a(tmp_path: Path, realized: str) -> None:
    value = sheet()
    value["part_b"]["realized_scenario_id"] = realized
    assert _part_a(_import(tmp_path / "b", [value, other_sheet()])) == _part_a(_import(tmp_path / "a"))


def test_roles_leave_no_trace_in_part_a(tmp_path: Path) -> None:
    swapped = pairs_file()
    pair = swapped["pairs"][0]
    pair["favorable_case_id"], pair["unfavorable_case_id"] = (
        pair["unfavorable_case_id"],
        pair["favorable_case_id"],
    )
    assert _part_a(_import(tmp_path / "b", None, swapped)) == _part_a(_import(tmp_path / "a"))


def test_position_of_the_realized_scenario_tells_no_role() -> None:
    """In the sheets, favorable means first and unfavorable means last; in the cases neither holds."""
    catalog = json.loads((CASES / "catalog.json").read_bytes())
    mapping = json.loads((CASES / "mapping.json").read_bytes())["cases"]
    first, last = set(), set()
    for entry in catalog["cases"]:
        packet = json.loads((CASES / entry["case_id"] / "part-a" / "packet.json").read_bytes())
        ids = [s["id"] for s in packet["scenarios"]]
        assert ids == sorted(ids), "the order is that of the hashes"
        assert all(re.fullmatch(r"scenario-[0-9a-f]{10}", i) for i in ids)
        position = ids.index(mapping[entry["case_id"]]["realized_scenario_id"])
        if position == 0:
            first.add(entry["role"])
        if position == len(ids) - 1:
            last.add(entry["role"])
    assert (first, last) != ({"favorable"}, {"unfavorable"}), "the sheets' order came through"


def test_another_industry_needs_no_code(ferries: Path) -> None:
    packet = json.loads((ferries / "case-ferry-a" / "part-a" / "packet.json").read_bytes())
    assert packet["company"] == "Skerry Ferries"
    assert [len(packet[n]) for n in ("facts", "company_claims", "third_party_estimates")] == [4, 1, 1]


Breaker = Callable[[dict[str, Any]], None]


def _set(path: str, value: Any) -> Breaker:
    def change(target: Any) -> None:
        *parents, last = path.split(".")
        for p in parents:
            target = target[int(p)] if p.isdigit() else target[p]
        target[int(last) if last.isdigit() else last] = value

    return change


def _append(path: str, value: Any) -> Breaker:
    def change(target: Any) -> None:
        for p in path.split("."):
            target = target[p]
        target.append(copy.deepcopy(value))

    return change


BAD: dict[str, Breaker] = {
    "unknown field": _set("surprise", 1),
    "unknown field deep down": _set("facts.0.surprise", 1),
    "role in the sheet": _set("role", "favorable"),
    "unknown source": _set("facts.0.source_ids", ["s77"]),
    "no source": _set("facts.0.source_ids", []),
    "conflict with no such fact": _set("conflicts.0.fact_ids", ["f99"]),
    "assumption on a source": _set("assumptions.0.basis_fact_ids", ["s1"]),
    "signal points nowhere": _set("part_b.observable_signals.0.part_a_fact_ids", ["f99"]),
    "outcome without such a source": _set("part_b.outcomes.0.source_ids", ["s77"]),
    "realized scenario unknown": _set("part_b.realized_scenario_id", "y9"),
    "fact known after the cutoff": _set("facts.0.known_at", "2019-04-02"),
    "source known after the cutoff": _set("sources.1.known_at", "2019-04-02"),
    "judgment after the cutoff": _set("judgments.0.date", "2019-05-01"),
    "cutoff before noon, known that day": _set("decision.knowledge_cutoff", "2019-03-01T12:00:00+00:00"),
    "fact about the future": _set("facts.0.period.end", "2019-12-31"),
    "claim about the future, not marked": _set("facts.4.forward_looking", False),
    "number with words": _set("facts.0.value", "about 12"),
    "number with a comma": _set("facts.0.value", "1,200"),
    "number with underscores": _set("facts.0.value", "1_200"),
    "number with an exponent": _set("facts.0.value", "1.2e3"),
    "number with spaces": _set("facts.0.value", " 12.5"),
    "number with other digits": _set("facts.0.value", "1\u0662"),
    "range with other digits": _set("facts.4.value_low", "4\u0660"),
    "month thirteen": _set("sources.0.published_at", "2019-13"),
    "no such publication day": _set("sources.0.published_at", "2019-02-30"),
    "number not finite": _set("facts.0.value", "NaN"),
    "infinite number": _set("facts.0.value", "Infinity"),
    "number as a number": _set("facts.0.value", 12.5),
    "number without unit": _set("facts.0.unit", None),
    "range upside down": _set("facts.4.value_low", "60"),
    "range without ends": _set("facts.4.value_low", None),
    "naive time": _set("facts.0.known_at", "2019-03-01T12:00:00"),
    "no such day": _set("facts.0.known_at", "2019-02-30"),
    "decision before the cutoff": _set("decision.decision_time", "2019-03-31"),
    "scenario that is over": _set("scenarios.0.horizon", "2019-04-01"),
    "two same scenarios": _append("scenarios", sheet()["scenarios"][0]),
    "two same scenarios, other ids": _append("scenarios", sheet()["scenarios"][0] | {"id": "y8"}),
    "two same alternatives": _append(
        "decision.alternatives", sheet()["decision"]["alternatives"][0] | {"id": "x8"}
    ),
    "one id for a scenario and an alternative": _set("scenarios.0.id", "x1"),
    "one id for two facts": _set("facts.1.id", "f1"),
    "two scenarios": lambda s: s["scenarios"].pop(1),
    "one feasible alternative": lambda s: s["decision"].update(
        alternatives=s["decision"]["alternatives"][2:]
    ),
    "text that names a scenario by id": _set("unknowns.0.statement", "Whether y1 comes about."),
    "id with a slash": _set("case_id", "../case"),
    "another pair": _set("pair_id", "pair-other"),
    "an order to call it contamination-free": _set("contamination_mode", "contamination_free"),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_bad_sheet_gives_one_error_and_writes_nothing(tmp_path: Path, name: str) -> None:
    value = sheet()
    BAD[name](value)
    with pytest.raises(EvalkitError) as caught:
        _import(tmp_path, [value, other_sheet()])
    assert caught.value.exit_code == 2
    assert caught.value.what
    assert caught.value.do
    assert not (tmp_path / "cases").exists()
    assert not [p for p in tmp_path.iterdir() if p.name.startswith(".stage")]


def test_a_duplicate_key_in_a_sheet_is_refused(tmp_path: Path) -> None:
    text = json.dumps(sheet()).replace('"company":', '"company": "Other", "company":')
    with pytest.raises(EvalkitError, match="occurs twice"):
        _import(tmp_path, [text.encode(), other_sheet()])
    assert not (tmp_path / "cases").exists()


def test_w1_a_pair_with_one_case_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalkitError, match="needs two cases"):
        _import(tmp_path, [sheet()])
    assert not (tmp_path / "cases").exists()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (_set("pairs.0.unfavorable_case_id", "case-ferry-a"), "needs two cases|in no pair"),
        (_set("pairs.0.unfavorable_case_id", "case-else"), "needs two cases"),
        (_append("pairs", pairs_file()["pairs"][0]), "in two pairs"),
        (_set("pairs", []), "in no pair"),
    ],
)
def test_w1_pairs_that_do_not_fit_are_refused(tmp_path: Path, change: Breaker, message: str) -> None:
    pairs = pairs_file()
    change(pairs)
    with pytest.raises(EvalkitError, match=message):
        _import(tmp_path, None, pairs)
    assert not (tmp_path / "cases").exists()


def test_two_sheets_of_one_case_are_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalkitError, match="same case_id"):
        _import(tmp_path, [sheet(), sheet()])


def test_import_never_overwrites(tmp_path: Path) -> None:
    cases = _import(tmp_path)
    before = _part_a(cases)
    with pytest.raises(EvalkitError):
        _import(tmp_path)
    assert _part_a(cases) == before


def test_w6_authored_after_the_freeze_is_refused_at_import(tmp_path: Path) -> None:
    for authored in ("2026-12-01T00:00:00+00:00", "2026-12-01"):
        with pytest.raises(EvalkitError):
            _import(tmp_path / authored, [sheet() | {"authored_at": authored}, other_sheet()])


def test_an_authoring_day_is_a_time(tmp_path: Path) -> None:
    cases = _import(tmp_path, [sheet() | {"authored_at": "2026-11-29"}, other_sheet()])
    freeze = json.loads((cases / "case-ferry-a" / "part-a" / "freeze.json").read_bytes())
    assert freeze["authored_at"] == "2026-11-29"


def test_import_into_a_missing_folder_is_a_users_mistake(tmp_path: Path) -> None:
    paths, pairs = write_sheets(tmp_path / "sheets")
    with pytest.raises(EvalkitError) as caught:
        import_cases(paths, pairs, tmp_path / "no" / "such" / "cases", frozen_at=FROZEN_AT)
    assert caught.value.exit_code == 2
