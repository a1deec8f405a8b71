"""The predicate types: one for each phase of the four protocols and of custody, and one for a rotation of keys.

A predicate type is a name for "what a signature says" (in-toto Statement v1).  Each phase has its
own, and verification always names the one it wants: a signature made for one phase can then never
stand in for another.  The URIs are identifiers; nothing is fetched from them.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

_PHASES = (
    "decisions/precommit",
    "decisions/ex-ante",
    "decisions/reveal",
    "decisions/calibration",
    "custody/seal",
    "custody/opening",
    "campaigns/plan",
    "campaigns/run",
    "campaigns/decision",
    "campaigns/promotion",
    "grading/plan",
    "grading/verdicts",
    "grading/calibration",
    "agentday/plan",
    "agentday/day",
    "agentday/grade",
    "agentday/armory",
    "trust/rotation",
)

PREDICATES: Mapping[str, str] = MappingProxyType(
    {name: f"https://evalkit.dev/attestation/{name}/v1" for name in _PHASES}
)
