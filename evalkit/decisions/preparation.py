"""Prepare a pair of cases for a run: check everything about it, then seal what must stay unseen.

The instructor's step, and the only one that reads catalog, mapping, episodes and Part B in the clear.  Who
holds the cases runs it: the maker of the plan (`evalkit.decisions.precommitment`), or a custodian
(`evalkit.decisions.custody.sealing`), whose evaluator then never has them.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from evalkit.decisions.case import PartA, accept_warnings, read_part_a, refuse_foreign_warnings
from evalkit.decisions.catalog import (
    CATALOG,
    MAPPING,
    Catalog,
    CatalogEntry,
    Episode,
    Mapping,
    Pair,
    PartB,
    check_part_b,
    read,
)
from evalkit.decisions.packet import dump
from evalkit.decisions.sealed_pair import PlannedPair, SealedCase, SealedPair, default_rule, place_of
from evalkit.errors import EvalkitError
from evalkit.sealing import SealedPacket, canonical_json, digest
from evalkit.sealing.exchange import read_named
from evalkit.sealing.packet import bucket_for


@dataclass(frozen=True)
class _Case:
    """One case as the instructor sees it."""

    entry: CatalogEntry
    part_a: PartA
    episode: Episode
    warnings: list[str]
    part_b_payload: bytes


@dataclass(frozen=True)
class Preparation:
    """A checked pair in the clear, ordered by content."""

    pair: Pair
    cases: list[_Case]
    catalog: bytes
    mapping: bytes

    @property
    def warnings(self) -> dict[str, list[str]]:
        """Case id -> the warning codes that were accepted."""
        return {c.entry.case_id: c.warnings for c in self.cases}

    def seal(self, *, run_id: str, recipient: bytes, selection_rule: str | None) -> SealedPair:
        """Seal the pair for one run to the X25519 public key ``recipient`` (32 raw bytes)."""
        packets = _seal(self.cases, self.catalog, self.mapping, recipient, run_id)
        return SealedPair(
            run_id=run_id,
            pair=PlannedPair(
                pair_id=self.pair.pair_id,
                order=[c.entry.case_id for c in self.cases],
                selection_rule=selection_rule or default_rule(self.pair.pair_id),
                pairing_basis=self.pair.pairing_basis,
            ),
            cases=[
                SealedCase(
                    case_id=c.entry.case_id,
                    episode_digest=c.entry.episode_digest,
                    freeze_digest=c.entry.freeze_digest,
                    packet_digest=c.entry.packet_digest,
                    qc_digest=c.entry.qc_digest,
                    report_digest=c.entry.report_digest,
                    part_b=packets[f"part-b-{n}"].record(),
                )
                for n, c in enumerate(self.cases)
            ],
            part_a={c.entry.case_id: c.part_a for c in self.cases},
            packets=packets,
            unsealing_public_key=recipient.hex(),
        )


def prepare(cases: Path, pair: str, accepted_warnings: dict[str, list[str]] | None) -> Preparation:
    """Check one pair of a folder of cases (W1, W4, W6).

    ``accepted_warnings``: see `accept_warnings`.  Raises `EvalkitError` (a pair or case that does not hold) or
    `Blocked` (evidence that does not verify).
    """
    catalog, catalog_bytes = read(Catalog, cases / CATALOG)
    mapping, _ = read(Mapping, cases / MAPPING)
    members = _pair(catalog, pair)
    refuse_foreign_warnings(accepted_warnings, members, pair)
    loaded = [_case(cases, catalog.entry(case_id), accepted_warnings) for case_id in members]
    _check_reciprocal(loaded, catalog.pair(pair))
    ordered = sorted(loaded, key=lambda c: place_of(c.entry.packet_digest))
    return Preparation(
        pair=catalog.pair(pair),
        cases=ordered,
        catalog=catalog.extract(pair, catalog_bytes).to_json(),
        mapping=_checked_mapping(mapping, ordered),
    )


def _pair(catalog: Catalog, pair_id: str) -> tuple[str, str]:
    """The two cases of a pair; the catalog must give it exactly one of each role (W1)."""
    pair = catalog.pair(pair_id)
    roles = sorted((c.role, c.case_id) for c in catalog.cases if c.pair_id == pair_id)
    expected = sorted([("favorable", pair.favorable_case_id), ("unfavorable", pair.unfavorable_case_id)])
    if roles != expected:
        raise EvalkitError(
            f"pair {pair_id} is not one favorable and one unfavorable case",
            where=CATALOG,
            expected=f"{pair.favorable_case_id} favorable, {pair.unfavorable_case_id} unfavorable",
            do="import the cases again",
        )
    return pair.favorable_case_id, pair.unfavorable_case_id


def _case(root: Path, entry: CatalogEntry, accepted: dict[str, list[str]] | None) -> _Case:
    folder = root / entry.case_id
    part = read_part_a(folder / "part-a")
    episode, episode_bytes = read(Episode, folder / "episode.json")
    part_b, part_b_bytes = read(PartB, folder / "part-b" / "outcome.json")
    try:
        note = read_named(folder / "part-b" / "teaching-note.md")
    except OSError as error:
        raise EvalkitError(
            f"cannot read the teaching note ({error.strerror})",
            where=str(folder / "part-b"),
            expected="teaching-note.md beside outcome.json",
            do="import the case again",
        ) from None
    found = {f"{k}_digest": v for k, v in part.digests().items()} | {
        "episode_digest": digest(episode_bytes),
        "part_b_digest": digest(part_b_bytes),
    }
    wrong = sorted(k for k, v in found.items() if getattr(entry, k) != v)
    if wrong:
        raise EvalkitError(
            f"case {entry.case_id} is not what the catalog lists: {', '.join(wrong)}",
            where=str(folder),
            expected="the files as they were imported",
            do="import the case again",
        )
    check_part_b(part_b, note, packet_digest=entry.packet_digest, where=str(folder / "part-b"))
    warnings = accept_warnings(part, entry.case_id, accepted)
    payload = canonical_json({"outcome": dump(part_b), "teaching_note": note.decode()})
    return _Case(entry, part, episode, warnings, payload)


def _check_reciprocal(cases: list[_Case], pair: Pair) -> None:
    """Each case names the other, and both name this pair (W1)."""
    first, second = cases
    for one, other in ((first, second), (second, first)):
        episode = one.episode
        if (episode.partner_case_id, episode.pair_id) != (other.entry.case_id, pair.pair_id):
            raise EvalkitError(
                f"{one.entry.case_id} names {episode.partner_case_id} in {episode.pair_id} as its partner",
                where=f"{one.entry.case_id}/episode.json",
                expected=f"{other.entry.case_id} in {pair.pair_id}",
                do="import the pair again",
            )


def _checked_mapping(mapping: Mapping, cases: list[_Case]) -> bytes:
    """The mapping of this pair: bound to both digests, one existing scenario a case (W4)."""
    only = mapping.only([c.entry.case_id for c in cases])
    for case in cases:
        realized = only.cases[case.entry.case_id]
        problems = []
        if realized.packet_digest != case.entry.packet_digest:
            problems.append("another packet")
        if realized.part_b_digest != case.entry.part_b_digest:
            problems.append("another Part B")
        if realized.realized_scenario_id not in case.part_a.packet.ids("scenario"):
            problems.append("a scenario that the packet does not have")
        if problems:
            raise EvalkitError(
                f"the mapping of {case.entry.case_id} names {' and '.join(problems)}",
                where=MAPPING,
                expected="the digests in the catalog and one scenario of the packet",
                do="import the cases again",
            )
    return only.to_json()


def _seal(
    cases: list[_Case], catalog: bytes, mapping: bytes, recipient: bytes, run_id: str
) -> dict[str, SealedPacket]:
    """Seal catalog extract, mapping and both Part Bs; the Part Bs share a bucket, so that size tells nothing."""
    bucket = max(bucket_for(len(c.part_b_payload)) for c in cases)
    packets = {
        "catalog": SealedPacket.seal(catalog, kind="catalog", run_id=run_id, recipient=recipient),
        "mapping": SealedPacket.seal(mapping, kind="mapping", run_id=run_id, recipient=recipient),
    }
    for n, case in enumerate(cases):
        kind = f"part-b-{n}"
        packets[kind] = SealedPacket.seal(
            case.part_b_payload, kind=kind, run_id=run_id, recipient=recipient, minimum_bucket=bucket
        )
    return packets
