"""A case on disk, and what it takes to trust its Part A (W6).

::

    <case>/part-a/   packet.json  freeze.json  report.md  qc.json
    <case>/part-b/   outcome.json  teaching-note.md        instructor only
    <case>/episode.json                                    instructor only

`read_part_a` opens the four files of Part A and nothing else: an evaluating process has no code path
from here to Part B.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from pydantic import Field

from evalkit.decisions.moments import earliest, latest, not_after
from evalkit.decisions.packet import Frozen, Identifier, Moment, Packet, dump, parse
from evalkit.decisions.quality import quality_control
from evalkit.errors import Blocked, EvalkitError
from evalkit.sealing import canonical_json, digest, load_canonical
from evalkit.sealing.exchange import read_named

PART_A_FILES = ("freeze.json", "packet.json", "qc.json", "report.md")


class Freeze(Frozen):
    """``freeze.json`` (``evalkit/freeze/1``): when the evidence was closed, and its digests."""

    freeze_format: Literal["evalkit/freeze/1"] = Field(alias="schema")
    case_id: Identifier
    authored_at: Moment
    frozen_at: Moment
    decision_time: Moment
    knowledge_cutoff: Moment
    packet_digest: str
    report_digest: str

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


@dataclass(frozen=True)
class PartA:
    """The four files of Part A as bytes, parsed once."""

    packet: Packet
    freeze: Freeze
    packet_bytes: bytes
    freeze_bytes: bytes
    report_bytes: bytes
    qc_bytes: bytes

    def files(self) -> dict[str, bytes]:
        return {
            "freeze.json": self.freeze_bytes,
            "packet.json": self.packet_bytes,
            "qc.json": self.qc_bytes,
            "report.md": self.report_bytes,
        }

    def digests(self) -> dict[str, str]:
        """File stem -> digest, as a precommit seals them."""
        return {name.partition(".")[0]: digest(data) for name, data in self.files().items()}


def read_part_a(folder: Path) -> PartA:
    """Read ``part-a/``.  Raises `EvalkitError` naming the file that is absent or not canonical."""
    data: dict[str, bytes] = {}
    for name in PART_A_FILES:
        try:
            data[name] = read_named(folder / name)
        except OSError as error:
            raise EvalkitError(
                f"Part A has no readable {name} ({error.strerror})",
                where=str(folder),
                expected=", ".join(PART_A_FILES),
                do="name a folder made by `evalkit decisions import`",
            ) from None
    return part_a(data, where=str(folder))


def part_a(data: dict[str, bytes], *, where: str) -> PartA:
    return PartA(
        packet=Packet.from_json(data["packet.json"], where=f"{where}/packet.json"),
        freeze=parse(Freeze, load_canonical(data["freeze.json"]), where=f"{where}/freeze.json"),
        packet_bytes=data["packet.json"],
        freeze_bytes=data["freeze.json"],
        report_bytes=data["report.md"],
        qc_bytes=data["qc.json"],
    )


def accept_warnings(part: PartA, case_id: str, accepted: dict[str, list[str]] | None) -> list[str]:
    """The warning codes of a case that are accepted, sorted: those named for it, or all that it has now.

    Verifies the case with them.  Raises `Blocked`.
    """
    found = quality_control(part.packet, part.report_bytes).codes()
    warnings = found if accepted is None else accepted.get(case_id, [])
    verify_part_a(part, accepted_warnings=warnings)
    return sorted(warnings)


def refuse_foreign_warnings(
    accepted: dict[str, list[str]] | None, members: Sequence[str], pair_id: str
) -> None:
    """Refuse warnings that are accepted for a case that is not in the pair."""
    if foreign := sorted(set(accepted or {}) - set(members)):
        raise EvalkitError(
            f"warnings are accepted for {', '.join(foreign)}, which is not in pair {pair_id}",
            where="--accept-warning",
            expected=" or ".join(members),
            do="correct the case id",
        )


class Verification(Frozen):
    """What was verified about one case before its prompt was made (part of the ex-ante run)."""

    case_id: str
    mode: Literal["frozen_bundle"]
    artifact_bytes_replayed: Literal[False] = False
    digests: dict[str, str]
    authored_at: str
    frozen_at: str
    knowledge_cutoff: str
    checks_passed: list[str]
    warnings_accepted: list[str]


def verify_part_a(part: PartA, *, accepted_warnings: list[str]) -> Verification:
    """Check times, digests, QC and the exact warning list of a frozen case.

    Raises `Blocked` with every reason at once.
    """
    packet, freeze = part.packet, part.freeze
    reasons: list[str] = []
    if packet.case_id != freeze.case_id:
        reasons.append(f"freeze.json speaks of {freeze.case_id}, packet.json of {packet.case_id}")
    for name in ("decision_time", "knowledge_cutoff"):
        if getattr(packet.decision, name) != getattr(freeze, name):
            reasons.append(f"freeze.json and packet.json differ in {name}")
    if digest(part.packet_bytes) != freeze.packet_digest:
        reasons.append("packet.json is not the packet that was frozen")
    if digest(part.report_bytes) != freeze.report_digest:
        reasons.append("report.md is not the report that was frozen")
    if not not_after(freeze.authored_at, freeze.frozen_at):
        reasons.append(f"authored {freeze.authored_at}, after the freeze {freeze.frozen_at}")
    if latest(freeze.frozen_at) < earliest(freeze.knowledge_cutoff):
        reasons.append(f"frozen {freeze.frozen_at}, before the knowledge cutoff {freeze.knowledge_cutoff}")
    qc = quality_control(packet, part.report_bytes)
    reasons += [f"quality control: {failure}" for failure in qc.failures()]
    if qc.to_json() != part.qc_bytes:
        reasons.append("qc.json is not what quality control finds now")
    extra = sorted(set(qc.codes()) - set(accepted_warnings))
    missing = sorted(set(accepted_warnings) - set(qc.codes()))
    if extra:
        reasons.append(f"warnings that were not accepted: {', '.join(extra)}")
    if missing:
        reasons.append(f"accepted warnings that are not there: {', '.join(missing)}")
    if reasons:
        raise Blocked(
            f"case {packet.case_id} does not verify: " + "; ".join(reasons),
            where="part-a",
            expected="the evidence as it was frozen, passing its quality control",
            do="import the case again, or accept exactly the warnings it has",
        )
    return Verification(
        case_id=packet.case_id,
        mode="frozen_bundle",
        digests=part.digests(),
        authored_at=freeze.authored_at,
        frozen_at=freeze.frozen_at,
        knowledge_cutoff=freeze.knowledge_cutoff,
        checks_passed=[c.id for c in qc.checks],
        warnings_accepted=sorted(accepted_warnings),
    )
