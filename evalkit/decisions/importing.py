"""Import fact sheets into a new folder of frozen cases: all of them, or nothing.

What becomes of one sheet is `evalkit.decisions.conversion`; here sheets are read, matched with their pairs and
written as a whole.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from evalkit.decisions.catalog import (
    CATALOG,
    MAPPING,
    Catalog,
    CatalogEntry,
    Mapping,
    Pair,
    Realized,
)
from evalkit.decisions.conversion import convert
from evalkit.decisions.factsheet import FactSheet, SheetPairs
from evalkit.decisions.layout import check_parent
from evalkit.decisions.moments import earliest, instant, stamp
from evalkit.decisions.packet import load_user_json, parse
from evalkit.errors import EvalkitError
from evalkit.sealing import commit_directory
from evalkit.sealing.exchange import read_named


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
        return read_named(path)
    except OSError as error:
        raise EvalkitError(
            f"cannot read {path.name} ({error.strerror})",
            where=str(path),
            expected="a JSON file",
            do="check the path",
        ) from None


def _sheet(path: Path, data: bytes) -> FactSheet:
    return parse(FactSheet, load_user_json(data, str(path)), where=str(path))


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
