"""Revocations: keys that no longer count, and from when on.

A signature of a revoked key counts only if a timestamp authority saw it before ``since``: whoever
holds such a key can sign today and write any earlier time.  A revocation can grow and never shrinks:
``since`` may move to an earlier time, and any reason may become ``compromised``, not the other way.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.sealing.times import parse_by_hand, short_text
from evalkit.sealing.trusted_key import refuse

REASONS = ("compromised", "superseded", "lost")
_FIELDS = frozenset(("key_id", "since", "reason", "comment"))
_KEY_ID = re.compile(r"sha256:[0-9a-f]{64}")


@dataclass(frozen=True)
class Revocation:
    """One revoked key.  ``since`` carries a time zone; ``reason`` is one of `REASONS`."""

    key_id: str
    since: datetime
    reason: str
    comment: str = ""

    def __post_init__(self) -> None:
        if type(self.key_id) is not str or not _KEY_ID.fullmatch(self.key_id):
            refuse(f"{self.key_id!a} is not a key id", "revocation", "sha256: and 64 hex digits")
        if self.since.tzinfo is None:
            refuse("a time without a time zone", self.key_id, "UTC")
        # Its text must be readable again, whatever zone it was given in.
        object.__setattr__(self, "since", self.since.astimezone(UTC))
        if self.reason not in REASONS:
            refuse(f"{self.reason!a} is not a reason", self.key_id, " | ".join(REASONS))
        if type(self.comment) is not str:
            refuse("comment is not text", self.key_id, "a string")

    def record(self) -> dict[str, Any]:
        """The entry in the trust file."""
        return {
            "key_id": self.key_id,
            "since": short_text(self.since),
            "reason": self.reason,
            "comment": self.comment,
        }

    @classmethod
    def from_record(cls, record: Any, *, where: str = "") -> Revocation:
        """The revocation of one entry; every field is required and no other is allowed."""
        if type(record) is not dict or set(record) != _FIELDS:
            refuse("a revocation with missing or unknown fields", where, ", ".join(sorted(_FIELDS)))
        since = parse_by_hand(record["since"])
        if since is None:
            refuse("since is not a time", where, "UTC such as 2026-11-30T12:00:00Z")
        return cls(record["key_id"], since, record["reason"], record["comment"])

    def widened(self, other: Revocation) -> Revocation:
        """This revocation with what ``other`` adds to it.  Raises where it would take something away."""
        if self.reason == "compromised" and other.reason != "compromised":
            raise _narrower(f"this key was revoked as compromised, not as {other.reason}", self)
        if other.since > self.since:
            raise _narrower(f"this key was revoked since {short_text(self.since)} already", self)
        return Revocation(self.key_id, other.since, other.reason, other.comment or self.comment)


def _narrower(what: str, known: Revocation) -> EvalkitError:
    return EvalkitError(
        what,
        where=known.key_id,
        expected="an earlier time, or compromised instead of another reason: a revocation never shrinks",
        do="leave it as it is; if it was a mistake, edit the trust file by hand and know what you do",
    )
