"""Take fact sheets apart into frozen cases: Part A for the analyst, the rest for the instructor.

Two leaks are closed here.  People write scenarios and alternatives in the order of their sympathies
(in the sheets that evalkit ships, a favorable case always realizes the first scenario and an
unfavorable one the last), so both lists are renamed and ordered by a hash of their own text: neither
id nor position depends on the sheet's order, its ids, a role or an outcome.  And Part A is built field
by field from what an analyst may see; pair, title, role, file name and outcome have no field to go to.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit.decisions.case import Freeze
from evalkit.decisions.catalog import (
    CATALOG,
    MAPPING,
    Catalog,
    CatalogEntry,
    Episode,
    ImportedFrom,
    Mapping,
    Pair,
    PartB,
    Realized,
)
from evalkit.decisions.factsheet import FORM, FactSheet, SheetFact, SheetPairs
from evalkit.decisions.layout import check_parent
from evalkit.decisions.moments import earliest, instant, not_after, stamp
from evalkit.decisions.packet import CONTAMINATION, SCHEMA, Packet, dump, load_user_json, parse
from evalkit.decisions.quality import quality_control
from evalkit.decisions.rendering import render
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json, commit_directory, digest

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


def import_cases(
    sheets: Sequence[Path | str],
    pairs: Path | str,
    out: Path | str,
    *,
    frozen_at: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Catalog:
    """Convert fact sheets and their pairs into a new folder of cases.

    Nothing is written unless every sheet converts; ``out`` must not exist.  Returns the catalog.
    """
    paths, pairs, out = [Path(s) for s in sheets], Path(pairs), Path(out)
    if out.exists() or out.is_symlink():
        raise EvalkitError(
            "the folder for the cases exists already",
            where=str(out),
            expected="a new path: cases are never overwritten",
            do="choose another --out",
        )
    check_parent(out)
    pair_list = parse(SheetPairs, load_user_json(_read(pairs), str(pairs)), where=str(pairs))
    loaded = [(path, data, _sheet(path, data)) for path in paths for data in (_read(path),)]
    by_id = {sheet.case_id: sheet for _, _, sheet in loaded}
    _check_folder_names(list(by_id), str(out))
    _check_freeze(frozen_at, [sheet for _, _, sheet in loaded], clock())
    if len(by_id) != len(loaded):
        raise EvalkitError(
            "two fact sheets have the same case_id",
            where=", ".join(str(p) for p in paths),
            expected="one sheet a case",
            do="leave one of them out",
        )
    partners, roles = _roles(pair_list, by_id, str(pairs))
    cases = [
        convert(
            sheet,
            partner=partners[sheet.case_id],
            frozen_at=frozen_at,
            file_name=path.name,
        )
        for path, data, sheet in loaded
    ]
    catalog = Catalog(
        schema="evalkit/catalog/1",
        selection_rule=pair_list.selection_rule or "every pair of the pairs file, in its order",
        cases=[
            CatalogEntry(case_id=c.case_id, role=roles[c.case_id], pair_id=c.pair_id, **c.digests)  # type: ignore[arg-type]
            for c in cases
        ],
        pairs=[
            Pair(**p.model_dump(exclude={"files"})) for p in pair_list.pairs if p.favorable_case_id in by_id
        ],
    )
    mapping = Mapping(
        schema="evalkit/calibration-mapping/1",
        cases={
            c.case_id: Realized(
                packet_digest=c.digests["packet_digest"],
                part_b_digest=c.part_b_digest,
                realized_scenario_id=c.realized_scenario_id,
            )
            for c in cases
        },
    )

    def build(root: Path) -> None:
        for case in cases:
            for name, data in case.files.items():
                target = root / case.case_id / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)
        (root / CATALOG).write_bytes(catalog.to_json())
        (root / MAPPING).write_bytes(mapping.to_json())

    commit_directory(out, build)
    return catalog


def _check_freeze(frozen_at: str, sheets: list[FactSheet], now: datetime) -> None:
    """Evidence is frozen after its cutoff, and not in the future."""
    early = [s.case_id for s in sheets if instant(frozen_at) < earliest(s.decision.knowledge_cutoff)]
    if early or instant(frozen_at) > now:
        raise EvalkitError(
            f"{', '.join(early)} cannot be frozen before its knowledge cutoff"
            if early
            else "the freeze time lies in the future",
            where=f"--frozen-at {frozen_at}",
            expected=f"a time from the last cutoff to now ({stamp(now)})",
            do="correct it, or leave it out",
        )


def _check_folder_names(case_ids: list[str], where: str) -> None:
    """Case ids name folders: not those of the catalog's files, and apart on any file system."""
    taken = {CATALOG, MAPPING}
    for case_id in case_ids:
        if case_id.lower() in taken:
            raise EvalkitError(
                f"case_id {case_id} cannot name a folder beside the others",
                where=where,
                expected=f"ids that differ in more than case, and not {CATALOG} or {MAPPING}",
                do="rename the case in its fact sheet",
            )
        taken.add(case_id.lower())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise EvalkitError(
            f"cannot read {path.name} ({error.strerror})",
            where=str(path),
            expected="a JSON file",
            do="check the path",
        ) from None


def _sheet(path: Path, data: bytes) -> FactSheet:
    return parse(FactSheet, load_user_json(data, str(path)), where=str(path))


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


def _roles(
    pairs: SheetPairs, sheets: dict[str, FactSheet], where: str
) -> tuple[dict[str, str], dict[str, str]]:
    """Partner and role of each case; the pair file and the sheets must name each other (W1)."""
    partners: dict[str, str] = {}
    roles: dict[str, str] = {}
    problems = []
    for pair in pairs.pairs:
        members = (pair.favorable_case_id, pair.unfavorable_case_id)
        present = [m for m in members if m in sheets]
        if not present:
            continue
        if len(present) == 1 or members[0] == members[1]:
            problems.append(f"{pair.pair_id} needs two cases and has {present[0]}")
            continue
        for case_id, partner, role in (
            (members[0], members[1], "favorable"),
            (members[1], members[0], "unfavorable"),
        ):
            if case_id in roles:
                problems.append(f"{case_id} is in two pairs")
            if sheets[case_id].pair_id != pair.pair_id:
                problems.append(f"{case_id} says pair {sheets[case_id].pair_id}, not {pair.pair_id}")
            partners[case_id], roles[case_id] = partner, role
    problems += [f"{case_id} is in no pair" for case_id in sheets if case_id not in roles]
    if problems:
        raise EvalkitError(
            f"cases and pairs do not match: {'; '.join(problems)}",
            where=where,
            expected="each case in exactly one pair: one favorable, one unfavorable, naming each other",
            do="correct the pairs file or name the missing fact sheets",
        )
    return partners, roles
