"""One entry of the trust file: a pinned Ed25519 key and what it may speak for.

An entry that makes no sense cannot exist: the key id must be that of the key, keys of small order
are refused, and an ephemeral key names its runs.  A refusal is a `BindingError` of kind ``authority``.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.keys import refuse_small_order
from evalkit.sealing.places import check_run_id
from evalkit.sealing.times import parse_by_hand, short_text

CUSTODIES = ("self", "process", "second_party", "timelock")
_HEX32 = re.compile(r"[0-9a-f]{64}")
_URI = re.compile(r"https://[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=%-]+")
_WORD = re.compile(r"[a-z][a-z0-9_-]{0,63}")
_KEY_FIELDS = frozenset(
    (
        "key_id",
        "public_key",
        "roles",
        "predicate_types",
        "valid_from",
        "valid_until",
        "custody",
        "ephemeral",
        "runs",
        "comment",
    )
)


@dataclass(frozen=True)
class TrustedKey:
    """One pinned Ed25519 key and what it may speak for.

    ``predicate_types`` are full URIs.  ``runs`` of None means every run; a key that is
    ``ephemeral`` (made for a run and thrown away after it) must name its runs.  ``valid_from`` is
    inclusive, ``valid_until`` exclusive; both carry a time zone.
    """

    key_id: str
    public_key: bytes
    roles: tuple[str, ...] = ()
    predicate_types: tuple[str, ...] = ()
    valid_from: datetime | None = None
    valid_until: datetime | None = None
    custody: str = "self"
    ephemeral: bool = False
    runs: tuple[str, ...] | None = None
    comment: str = ""

    def __post_init__(self) -> None:
        # Lists are taken as well: the value must not change after it was checked.
        for name in ("roles", "predicate_types", "runs"):
            given = getattr(self, name)
            if isinstance(given, str):
                refuse(f"{name} is one text", self.key_id, "a sequence of texts")
            if given is not None:
                object.__setattr__(self, name, tuple(given))
        refuse_small_order(self.public_key)
        if self.key_id != id_of(self.public_key):
            refuse("the key id is not that of the public key", self.key_id, id_of(self.public_key))
        for role in self.roles:
            if not _WORD.fullmatch(role):
                refuse(f"{role!a} is not a role", self.key_id, "a lowercase ASCII word")
        for kind in self.predicate_types:
            if not _URI.fullmatch(kind):
                refuse(f"{kind!a} is not a predicate type", self.key_id, "a full https URI (RFC 3986)")
        if self.custody not in CUSTODIES:
            refuse(f"{self.custody!a} is not a custody", self.key_id, " | ".join(CUSTODIES))
        for moment in (self.valid_from, self.valid_until):
            if moment is not None and moment.tzinfo is None:
                refuse("a time without a time zone", self.key_id, "UTC")
        for run in self.runs or ():
            try:
                check_run_id(run)
            except EvalkitError as error:
                refuse(error.what, f"{self.key_id}: runs", error.expected)
        if self.ephemeral and not self.runs:
            refuse("an ephemeral key that names no run", self.key_id, "the runs that it was made for")

    @classmethod
    def of(cls, public_key: bytes, **fields: Any) -> TrustedKey:
        """A key whose id is computed; the other fields as in the class."""
        return cls(key_id=id_of(public_key), public_key=public_key, **fields)

    def objection(self, predicate_type: str, run_id: str | None, at: datetime) -> str:
        """Why this key may not sign that, or the empty string."""
        if at.tzinfo is None:
            raise EvalkitError("a time without a time zone", expected="an aware datetime")
        if predicate_type not in self.predicate_types:
            return f"it is not pinned for {predicate_type}"
        if self.runs is not None and run_id not in self.runs:
            return f"it is pinned for other runs than {run_id or 'one without an id'}"
        if self.valid_from is not None and at < self.valid_from:
            return f"it is valid only from {short_text(self.valid_from)}"
        if self.valid_until is not None and at >= self.valid_until:
            return f"it was valid only until {short_text(self.valid_until)}"
        return ""

    def excess(self, limit: TrustedKey) -> str:
        """Which right goes beyond those of ``limit``, or the empty string.

        Custody is a claim about the holder: a key cannot claim a better one for its successor.
        """
        if not set(self.roles) <= set(limit.roles):
            return "roles"
        if not set(self.predicate_types) <= set(limit.predicate_types):
            return "predicate_types"
        if limit.runs is not None and not (self.runs is not None and set(self.runs) <= set(limit.runs)):
            return "runs"
        if (self.custody, self.ephemeral) != (limit.custody, limit.ephemeral):
            return "custody"
        return ""

    def record(self) -> dict[str, Any]:
        """The entry in the trust file."""
        return {
            "key_id": self.key_id,
            "public_key": self.public_key.hex(),
            "roles": list(self.roles),
            "predicate_types": list(self.predicate_types),
            "valid_from": None if self.valid_from is None else short_text(self.valid_from),
            "valid_until": None if self.valid_until is None else short_text(self.valid_until),
            "custody": self.custody,
            "ephemeral": self.ephemeral,
            "runs": None if self.runs is None else list(self.runs),
            "comment": self.comment,
        }

    @classmethod
    def from_record(cls, record: Any, *, where: str = "") -> TrustedKey:
        """The key of one entry; every field is required and no other is allowed."""
        if type(record) is not dict or set(record) != _KEY_FIELDS:
            refuse("a key entry with missing or unknown fields", where, ", ".join(sorted(_KEY_FIELDS)))
        for name in ("key_id", "public_key", "custody", "comment"):
            if type(record[name]) is not str:
                refuse(f"{name} is not text", where, "a string")
        if not _HEX32.fullmatch(record["public_key"]):
            refuse("public_key is not a key", where, "64 lowercase hex digits")
        if type(record["ephemeral"]) is not bool:
            refuse("ephemeral is not a truth value", where, "true or false")
        return cls(
            key_id=record["key_id"],
            public_key=bytes.fromhex(record["public_key"]),
            roles=_texts(record["roles"], "roles", where),
            predicate_types=_texts(record["predicate_types"], "predicate_types", where),
            valid_from=read_time(record["valid_from"], "valid_from", where),
            valid_until=read_time(record["valid_until"], "valid_until", where),
            custody=record["custody"],
            ephemeral=record["ephemeral"],
            runs=None if record["runs"] is None else _texts(record["runs"], "runs", where),
            comment=record["comment"],
        )


def _texts(value: Any, name: str, where: str) -> tuple[str, ...]:
    if type(value) is not list or any(type(v) is not str for v in value) or len(set(value)) != len(value):
        refuse(f"{name} is not a list of distinct texts", where, "a list of strings")
    return tuple(value)


def read_time(value: Any, name: str, where: str) -> datetime | None:
    """The moment of a field that may be null."""
    moment = parse_by_hand(value)
    if moment is None and value is not None:
        refuse(f"{name} is not a time", where, "null, or UTC such as 2026-11-30T12:00:00Z")
    return moment


def refuse(what: str, where: str, expected: str) -> NoReturn:
    """Raise for something in a trust file that does not hold."""
    raise BindingError(
        Binding.AUTHORITY,
        what,
        where=where,
        expected=expected,
        do="correct the trust file by hand, or pin the key again",
    )
