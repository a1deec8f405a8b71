"""A pair of cases with everything sealed that must stay unseen: what a plan needs of it, and no more.

`evalkit.decisions.preparation` makes one from a folder of cases, on the instructor's side; whoever is handed a
custodian's bundle (`evalkit.decisions.custody.bundle`) has one without ever having had the cases.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.decisions.case import PartA
from evalkit.decisions.layout import sealed_file
from evalkit.decisions.packet import Frozen, Identifier, Text
from evalkit.errors import EvalkitError
from evalkit.sealing import SealedPacket, digest

PACKETS = ("catalog", "mapping", "part-b-0", "part-b-1")


class SealedCase(Frozen):
    """Digests of one case, and the record of its sealed Part B."""

    case_id: Identifier
    episode_digest: str
    freeze_digest: str
    packet_digest: str
    qc_digest: str
    report_digest: str
    part_b: dict[str, Any]


class PlannedPair(Frozen):
    """The ordered pair.  The order is derived from content, so that it tells no role."""

    pair_id: Identifier
    order: list[Identifier]
    selection_rule: Text
    pairing_basis: Text


class LedgerHead(Frozen):
    size: int
    digest: str


@dataclass(frozen=True)
class SealedPair:
    """One pair, bound to one run: Part A in the clear, the rest as ciphertext."""

    run_id: str
    pair: PlannedPair
    cases: list[SealedCase]
    part_a: dict[str, PartA]
    packets: dict[str, SealedPacket]
    unsealing_public_key: str

    def files(self) -> dict[str, bytes]:
        """Path -> bytes, as they lie in a run folder and in a bundle."""
        files = {
            f"part-a/{case_id}/{name}": data
            for case_id, part in self.part_a.items()
            for name, data in part.files().items()
        }
        return files | {sealed_file(kind): packet.ciphertext for kind, packet in self.packets.items()}


def new_run_id() -> str:
    """A run id: random, minted before anything is fixed."""
    return secrets.token_hex(16)


def place_of(packet_digest: str) -> str:
    """The key by which a pair is ordered: it follows from the evidence, so that it tells no role."""
    return digest(packet_digest.encode())


def default_rule(pair_id: str) -> str:
    """The selection rule of somebody who states none."""
    return f"the pair named before the run: {pair_id}"


def refuse_existing(out: Path, what: str) -> None:
    """Refuse a target that is there already: nothing of evalkit's is overwritten."""
    if out.exists() or out.is_symlink():
        raise EvalkitError(
            f"the {what} exists already",
            where=str(out),
            expected=f"a new path: a {what} is never overwritten",
            do="choose another --out",
        )


def write_tree(files: dict[str, bytes]) -> Callable[[Path], None]:
    """What `commit_directory` needs to make a folder of these files."""

    def build(root: Path) -> None:
        for name, data in files.items():
            target = root / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(data)

    return build
