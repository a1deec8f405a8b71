"""Take fact sheets apart into frozen cases: Part A for the analyst, the rest for the instructor.

Two leaks are closed here.  People write scenarios and alternatives in the order of their sympathies
(in the sheets that evalkit ships, a favorable case always realizes the first scenario and an
unfavorable one the last), so both lists are renamed and ordered by a hash of their own text: neither
id nor position depends on the sheet's order, its ids, a role or an outcome.  And Part A is built field
by field from what an analyst may see; pair, title, role, file name and outcome have no field to go to.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from evalkit.decisions.case import Freeze
from evalkit.decisions.catalog import (
    Episode,
    ImportedFrom,
    PartB,
)
from evalkit.decisions.factsheet import FORM, FactSheet, SheetFact
from evalkit.decisions.moments import not_after
from evalkit.decisions.packet import CONTAMINATION, SCHEMA, Packet, dump, parse
from evalkit.decisions.quality import quality_control
from evalkit.decisions.rendering import render
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json, digest

_LISTS = {
    "reported_fact": "facts",
    "company_claim": "company_claims",
    "third_party_estimate": "third_party_estimates",
}


@dataclass(frozen=True)
class ImportedCase:
    """One converted case: file name -> bytes, below the case's folder."""

    case_id: str
    pair_id: str
    packet: Packet
    part_b_digest: str
    realized_scenario_id: str
    digests: dict[str, str]
    files: dict[str, bytes]


def content_id(prefix: str, *text: str) -> str:
    """Neutral id of a record: a hash of its own text, so it tells nothing but the text."""
    return f"{prefix}-{digest(canonical_json(list(text)))[7:17]}"


def convert(sheet: FactSheet, *, partner: str, frozen_at: str, file_name: str) -> ImportedCase:
    """Convert one fact sheet (pure).  Raises `EvalkitError` where the sheet contradicts itself."""
    renamed = {s.id: content_id("scenario", s.description, s.horizon) for s in sheet.scenarios} | {
        a.id: content_id("alternative", a.description) for a in sheet.decision.alternatives
    }
    _distinct(renamed, sheet.case_id)
    packet = _packet(sheet, renamed)
    report = render(packet).encode()
    qc = quality_control(packet, report)
    if not qc.passed:
        raise EvalkitError(
            f"case {sheet.case_id} does not pass quality control: {'; '.join(qc.failures())}",
            where=file_name,
            expected="evidence known by the cutoff whose references resolve",
            do="correct the records named",
        )
    authored_at = sheet.authored_at or frozen_at
    if not not_after(authored_at, frozen_at):
        raise EvalkitError(
            f"case {sheet.case_id} was authored {authored_at}, after the freeze {frozen_at}",
            where=file_name,
            expected="evidence that was complete when it was frozen",
            do="correct authored_at, or freeze later",
        )
    packet_bytes = packet.to_json()
    note = f"# Teaching note: {sheet.title}\n\n{sheet.part_b.process_note}\n".encode()
    part_b = PartB(
        schema="evalkit/part-b/1",
        case_id=sheet.case_id,
        packet_digest=digest(packet_bytes),
        sources=sheet.part_b.sources,
        outcomes=sheet.part_b.outcomes,
        observable_signals=sheet.part_b.observable_signals,
        realized_return=sheet.part_b.realized_return,
        process_quality=sheet.part_b.process_note,
        teaching_note_digest=digest(note),
    )
    _check_part_b(sheet, packet, renamed)
    freeze = Freeze(
        schema="evalkit/freeze/1",
        case_id=sheet.case_id,
        authored_at=authored_at,
        frozen_at=frozen_at,
        decision_time=sheet.decision.decision_time,
        knowledge_cutoff=sheet.decision.knowledge_cutoff,
        packet_digest=digest(packet_bytes),
        report_digest=digest(report),
    )
    episode = Episode(
        schema="evalkit/episode/1",
        case_id=sheet.case_id,
        pair_id=sheet.pair_id,
        partner_case_id=partner,
        title=sheet.title,
        decision_time=sheet.decision.decision_time,
        knowledge_cutoff=sheet.decision.knowledge_cutoff,
        frozen_at=frozen_at,
        imported_from=ImportedFrom(
            form=FORM,
            file_name=file_name,
            # not of the whole file: the plan shows a digest over this, from which an outcome of a few
            # possibilities could be found by trying them
            evidence_digest=digest(canonical_json(dump(sheet.model_copy(update={"part_b": None})))),
        ),
    )
    files = {
        "part-a/packet.json": packet_bytes,
        "part-a/freeze.json": freeze.to_json(),
        "part-a/report.md": report,
        "part-a/qc.json": qc.to_json(),
        "part-b/outcome.json": part_b.to_json(),
        "part-b/teaching-note.md": note,
        "episode.json": episode.to_json(),
    }
    return ImportedCase(
        case_id=sheet.case_id,
        pair_id=sheet.pair_id,
        packet=packet,
        part_b_digest=digest(files["part-b/outcome.json"]),
        realized_scenario_id=renamed[sheet.part_b.realized_scenario_id],
        digests={
            "episode_digest": digest(files["episode.json"]),
            "freeze_digest": digest(files["part-a/freeze.json"]),
            "packet_digest": digest(packet_bytes),
            "qc_digest": digest(files["part-a/qc.json"]),
            "report_digest": digest(report),
            "part_b_digest": digest(files["part-b/outcome.json"]),
        },
        files=files,
    )


def _distinct(renamed: dict[str, str], case_id: str) -> None:
    if len(set(renamed.values())) != len(renamed):
        raise EvalkitError(
            f"case {case_id} has two scenarios or two alternatives with the same text",
            where="scenarios, decision.alternatives",
            expected="each one different",
            do="merge them or say how they differ",
        )


def _packet(sheet: FactSheet, renamed: dict[str, str]) -> Packet:
    numbers: dict[str, list[dict[str, Any]]] = {name: [] for name in _LISTS.values()}
    for fact in sheet.facts:
        numbers[_LISTS[fact.kind]].append(_fact(fact))

    def by_content(records: list[Any]) -> list[dict[str, Any]]:
        return sorted(({**dump(r), "id": renamed[r.id]} for r in records), key=lambda r: str(r["id"]))

    d = sheet.decision
    value = {
        "schema": SCHEMA,
        "case_id": sheet.case_id,
        "company": sheet.company,
        "contamination": CONTAMINATION,
        "decision": {
            "owner": d.owner,
            "decision_time": d.decision_time,
            "knowledge_cutoff": d.knowledge_cutoff,
            "question": d.question,
        },
        "alternatives": by_content(d.alternatives),
        **numbers,
        "scenarios": by_content(sheet.scenarios),
    } | {
        name: [dump(r) for r in getattr(sheet, name)]
        for name in (
            "sources",
            "assumptions",
            "judgments",
            "conflicts",
            "unknowns",
            "missing_evidence",
            "liquidity",
            "tables",
        )
    }
    _no_old_ids(value, renamed, sheet.case_id)
    return parse(Packet, value, where=f"Part A of {sheet.case_id}")


def _fact(fact: SheetFact) -> dict[str, Any]:
    out: dict[str, Any] = dump(fact)
    del out["kind"]
    return out | {
        "unit": fact.unit,
        "currency": fact.currency,
        "forward_looking": fact.forward_looking,
        "single_sourced": fact.single_sourced,
    }


def _no_old_ids(value: dict[str, Any], renamed: dict[str, str], case_id: str) -> None:
    """A text that names a scenario by its old id would carry the sheet's order into Part A."""
    text = canonical_json(value).decode()
    named = [i for i in renamed if re.search(rf"(?<![\w.-]){re.escape(i)}(?![\w-])", text)]
    if named:
        raise EvalkitError(
            f"texts of case {case_id} name {', '.join(sorted(named))}",
            where="Part A free text",
            expected="scenarios and alternatives are described, not named by id",
            do="describe them in words: their ids are replaced on import",
        )


def _check_part_b(sheet: FactSheet, packet: Packet, renamed: dict[str, str]) -> None:
    b = sheet.part_b
    scenarios = {s.id for s in sheet.scenarios}
    problems = []
    if b.realized_scenario_id not in scenarios:
        problems.append(f"realized_scenario_id {b.realized_scenario_id} is no scenario of the sheet")
    for signal in b.observable_signals:
        problems += [
            f"{signal.id} points at {target}, which is not in Part A"
            for target in signal.part_a_fact_ids
            if target not in packet.numbers
        ]
    sources = {s.id for s in b.sources}
    if b.realized_return is not None:
        problems += [
            f"realized_return cites unknown source {s}"
            for s in b.realized_return.source_ids
            if s not in sources
        ]
    problems += [
        f"{o.id} cites unknown source {s}" for o in b.outcomes for s in o.source_ids if s not in sources
    ]
    if problems:
        raise EvalkitError(
            f"part_b of case {sheet.case_id} does not hold: {'; '.join(problems)}",
            where="part_b",
            expected="a scenario of the sheet, signals that point at Part A, outcomes with sources",
            do="correct the records named",
        )
