"""Which cases of a run come with evalkit: everybody who has evalkit has their outcomes, whoever keeps a key.

A case is recognised by the digest of its packet, so a copy of it in another folder is as public.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache

from evalkit.decisions.claims import Line
from evalkit.decisions.sealed_pair import SealedCase
from evalkit.resources import resource
from evalkit.sealing import digest


@cache
def _shipped_packets() -> frozenset[str]:
    return frozenset(digest(p.read_bytes()) for p in resource("data", "cases").glob("*/part-a/packet.json"))


def shipped_among(cases: Iterable[SealedCase]) -> list[str]:
    """The ids of those cases that this version of evalkit ships."""
    return [case.case_id for case in cases if case.packet_digest in _shipped_packets()]


def shipped_claims(cases: Iterable[SealedCase]) -> list[Line]:
    found = shipped_among(cases)
    if not found:
        return []
    return [
        Line(
            "not proven",
            "that anybody was kept from the outcomes: these cases come with evalkit, and everybody has them",
            ", ".join(found),
            topic="custody",
        )
    ]
