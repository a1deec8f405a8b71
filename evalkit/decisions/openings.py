"""What the sealed packets of a run hold: each the one that the plan names, and each fitting the others.

Nothing here needs a key: `evalkit.decisions.calibration` decrypts, a verifier has published openings, and both
come here to have them read against the plan (W1, W4, W37).
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.decisions.catalog import CatalogExtract, Mapping, PartB
from evalkit.decisions.layout import MALFORMED, read_bound, sealed_file
from evalkit.decisions.packet import parse
from evalkit.decisions.plan import Precommit
from evalkit.errors import Binding, BindingError, EvalkitError, located
from evalkit.sealing import Opening, SealedPacket, canonical_json, digest, load_canonical


@dataclass(frozen=True)
class Opened:
    """What the sealed packets hold, each checked against its commitment."""

    catalog: CatalogExtract
    mapping: Mapping
    part_b: dict[str, PartB]
    openings: dict[str, Opening]


def sealed_packets(run_dir: Path, plan: Precommit) -> dict[str, SealedPacket]:
    """The four ciphertexts of a run, each the one that the plan names."""
    records = {"mapping": plan.mapping, "catalog": plan.catalog} | {
        f"part-b-{n}": case.part_b for n, case in enumerate(plan.cases)
    }
    packets = {}
    for kind, record in records.items():
        with located(sealed_file(kind)):
            packet = SealedPacket.from_record(
                record, read_bound(run_dir, sealed_file(kind), Binding.SEALED_PACKET), plan.run_id
            )
        require_sealed(packet.kind == kind, f"the plan has a packet {packet.kind} where {kind} belongs", kind)
        packets[kind] = packet
    return packets


def published(run_dir: Path, plan: Precommit, openings: Any) -> Opened:
    """Published openings (kind -> ``payload``, ``salt``), each checked against its commitment in the plan.

    Raises `BindingError` ``sealed-packet``.
    """
    found = {}
    try:
        for kind, packet in sealed_packets(run_dir, plan).items():
            opening = Opening(
                canonical_json(openings[kind]["payload"]), bytes.fromhex(openings[kind]["salt"])
            )
            packet.check_opening(opening)
            found[kind] = opening
        # one spelling: whoever signed or published something beside it signed something else
        malformed = to_publish(found) != openings
    except (*MALFORMED, EvalkitError) as error:
        if isinstance(error, BindingError):
            raise
        malformed = True
    require_sealed(not malformed, "an opening is missing or malformed", "the published openings")
    return interpret(plan, found)


def to_publish(openings: dict[str, Opening]) -> dict[str, Any]:
    """Openings as a JSON value: what `published` reads."""
    return {
        kind: {"salt": o.salt.hex(), "payload": load_canonical(o.payload)} for kind, o in openings.items()
    }


def interpret(plan: Precommit, openings: dict[str, Opening]) -> Opened:
    """Check what was opened against the plan and against each other (W1, W4, W37)."""
    mapping = parse(Mapping, load_canonical(openings["mapping"].payload), where="the sealed mapping")
    catalog = parse(CatalogExtract, load_canonical(openings["catalog"].payload), where="the sealed catalog")
    require_sealed(set(mapping.cases) == set(plan.pair.order), "the mapping is of other cases", "mapping")
    pair = catalog.pair
    entries = {c.case_id: c for c in catalog.cases}
    roles = {c.role: c.case_id for c in catalog.cases}
    require_sealed(
        (pair.pair_id, pair.pairing_basis) == (plan.pair.pair_id, plan.pair.pairing_basis)
        and len(catalog.cases) == 2
        and all(c.pair_id == pair.pair_id for c in catalog.cases)
        and set(entries) == set(plan.pair.order)
        and roles == {"favorable": pair.favorable_case_id, "unfavorable": pair.unfavorable_case_id},
        "the catalog's pair is not the plan's",
        "catalog",
    )
    part_b: dict[str, PartB] = {}
    for n, case in enumerate(plan.cases):
        kind = f"part-b-{n}"
        payload = load_canonical(openings[kind].payload)
        value = parse(PartB, payload["outcome"], where="a sealed Part B")
        realized, entry = mapping.cases[case.case_id], entries[case.case_id]
        require_sealed(value.case_id == case.case_id, "Part B is of another case", kind)
        require_sealed(
            value.packet_digest == realized.packet_digest == entry.packet_digest == case.packet_digest,
            "mapping, catalog and Part B do not bind the plan's packet",
            kind,
        )
        require_sealed(
            digest(canonical_json(payload["outcome"])) == realized.part_b_digest == entry.part_b_digest,
            "Part B is not the one that mapping and catalog bind",
            kind,
        )
        require_sealed(
            digest(payload["teaching_note"].encode()) == value.teaching_note_digest,
            "the teaching note is not the one that Part B binds",
            kind,
        )
        for name in ("episode", "freeze", "qc", "report"):
            require_sealed(
                getattr(entry, f"{name}_digest") == getattr(case, f"{name}_digest"),
                f"the catalog lists another {name} than the plan",
                "catalog",
            )
        part_b[case.case_id] = value
    return Opened(catalog, mapping, part_b, openings)


def require_sealed(holds: bool, what: str, where: str) -> None:
    if not holds:
        raise BindingError(
            Binding.SEALED_PACKET,
            what,
            where=f"sealed/{where}",
            expected="what was sealed by the precommit",
            do="do not use this run",
        )
