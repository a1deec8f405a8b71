"""The instructor's side of a folder of cases: catalog, episodes, Part B and calibration mapping.

Only `evalkit.decisions.preparation` (sealing) and `evalkit.decisions.importing` (making) read these from
disk, and only `evalkit.decisions.calibration` reads them again, out of sealed packets.  Roles (favorable,
unfavorable) live in the catalog and nowhere else; which scenario was realized lives in the mapping and
nowhere else.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field

from evalkit.decisions.factsheet import ObservableSignal, Outcome, OutcomeSource, RealizedReturn
from evalkit.decisions.packet import Frozen, Identifier, M, Text, dump, parse
from evalkit.errors import EvalkitError
from evalkit.sealing import canonical_json, digest, load_canonical
from evalkit.sealing.exchange import read_named

CATALOG = "catalog.json"
MAPPING = "mapping.json"


class ImportedFrom(Frozen):
    form: Text
    file_name: Text
    evidence_digest: str


class Episode(Frozen):
    """``episode.json`` (``evalkit/episode/1``): a case's instructor-side metadata."""

    episode_format: Literal["evalkit/episode/1"] = Field(alias="schema")
    case_id: Identifier
    pair_id: Identifier
    partner_case_id: Identifier
    title: Text
    decision_time: Text
    knowledge_cutoff: Text
    frozen_at: Text
    imported_from: ImportedFrom

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


class PartB(Frozen):
    """``outcome.json`` (``evalkit/part-b/1``); the teaching note lies beside it and is bound in."""

    part_b_format: Literal["evalkit/part-b/1"] = Field(alias="schema")
    case_id: Identifier
    packet_digest: str
    sources: list[OutcomeSource]
    outcomes: list[Outcome]
    observable_signals: list[ObservableSignal]
    realized_return: RealizedReturn | None = None
    process_quality: Text
    teaching_note_digest: str

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


class CatalogEntry(Frozen):
    case_id: Identifier
    role: Literal["favorable", "unfavorable"]
    pair_id: Identifier
    episode_digest: str
    freeze_digest: str
    packet_digest: str
    qc_digest: str
    report_digest: str
    part_b_digest: str


class Pair(Frozen):
    pair_id: Identifier
    favorable_case_id: Identifier
    unfavorable_case_id: Identifier
    pairing_basis: Text
    archetype: Text


class Catalog(Frozen):
    """``catalog.json`` (``evalkit/catalog/1``): the ordered cases with digests and roles."""

    catalog_format: Literal["evalkit/catalog/1"] = Field(alias="schema")
    selection_rule: Text
    cases: list[CatalogEntry]
    pairs: list[Pair]

    def to_json(self) -> bytes:
        return canonical_json(dump(self))

    def entry(self, case_id: str) -> CatalogEntry:
        for case in self.cases:
            if case.case_id == case_id:
                return case
        raise EvalkitError(
            f"the catalog has no case {case_id}",
            where=CATALOG,
            expected=", ".join(c.case_id for c in self.cases),
            do="import the case",
        )

    def extract(self, pair_id: str, catalog_bytes: bytes) -> CatalogExtract:
        """The entries of one pair, with the digest of the whole."""
        pair = self.pair(pair_id)
        return CatalogExtract(
            schema="evalkit/catalog-extract/1",
            catalog_digest=digest(catalog_bytes),
            selection_rule=self.selection_rule,
            pair=pair,
            cases=[c for c in self.cases if c.case_id in (pair.favorable_case_id, pair.unfavorable_case_id)],
        )

    def pair(self, pair_id: str) -> Pair:
        for pair in self.pairs:
            if pair.pair_id == pair_id:
                return pair
        raise EvalkitError(
            f"the catalog has no pair {pair_id!r}",
            where=CATALOG,
            expected=", ".join(p.pair_id for p in self.pairs),
            do="name one of these with --pair",
        )


class CatalogExtract(Frozen):
    """What a precommit seals of a catalog (``evalkit/catalog-extract/1``).

    It binds the bytes of the whole catalog by digest and holds the entries of one pair: revealing that
    pair must not tell the roles of the others.
    """

    extract_format: Literal["evalkit/catalog-extract/1"] = Field(alias="schema")
    catalog_digest: str
    selection_rule: Text
    pair: Pair
    cases: list[CatalogEntry]

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


class Realized(Frozen):
    packet_digest: str
    part_b_digest: str
    realized_scenario_id: Identifier


class Mapping(Frozen):
    """``mapping.json`` (``evalkit/calibration-mapping/1``): case -> the one realized scenario."""

    mapping_format: Literal["evalkit/calibration-mapping/1"] = Field(alias="schema")
    cases: dict[str, Realized]

    def to_json(self) -> bytes:
        return canonical_json(dump(self))

    def only(self, case_ids: list[str]) -> Mapping:
        """The mapping of these cases; raises `EvalkitError` where one has none."""
        absent = [c for c in case_ids if c not in self.cases]
        if absent:
            raise EvalkitError(
                f"the calibration mapping has no entry for {', '.join(absent)}",
                where=MAPPING,
                expected="one realized scenario per case, fixed before the precommit",
                do="import the cases again",
            )
        return Mapping(schema="evalkit/calibration-mapping/1", cases={c: self.cases[c] for c in case_ids})


def read(model: type[M], path: Path) -> tuple[M, bytes]:
    """Read one canonical instructor file: the value and its bytes."""
    try:
        data = read_named(path)
    except OSError as error:
        raise EvalkitError(
            f"cannot read {path.name} ({error.strerror})",
            where=str(path),
            expected="a folder of cases made by `evalkit decisions import`",
            do="name that folder",
        ) from None
    return parse(model, load_canonical(data), where=str(path)), data


def check_part_b(part_b: PartB, teaching_note: bytes, *, packet_digest: str, where: str) -> None:
    """Part B must speak of this packet and carry this teaching note."""
    if part_b.packet_digest != packet_digest:
        raise EvalkitError(
            "Part B was written for another packet",
            where=where,
            expected=packet_digest,
            do="import the case again",
        )
    if digest(teaching_note) != part_b.teaching_note_digest:
        raise EvalkitError(
            "the teaching note is not the one that Part B binds",
            where=where,
            expected=part_b.teaching_note_digest,
            do="import the case again",
        )
