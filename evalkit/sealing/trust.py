"""Which keys count: the trust file, and what each key in it may sign.

The file (docs/formats/trust.md) is the root of every verification, so it is read with suspicion:

1. Refused inside the workspace that it judges, through a symbolic link (the file or its folder),
   when another user owns it, when group or others may write it or its folder, or when it has a
   second name.
2. Unknown fields, a key id that is not that of its key, and keys of small order are refused.
3. A key speaks only for the predicate types, the runs and the time that its entry lists.
4. The section for rotations exists in this version and must be empty: an entry that this evalkit
   cannot check must not look as if it had been checked.
5. Timestamp authorities stand in a section of their own (evalkit.sealing.timestamp).

A refusal is a `BindingError` of kind ``authority``.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import CanonicalError, canonical_json, digest, load_strict
from evalkit.sealing.files import (
    OTHERS_MAY_WRITE,
    directory,
    exists,
    locked,
    make_private_directory,
    read_at,
    refuse_inside,
    replace_at,
)
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.keys import refuse_small_order
from evalkit.sealing.places import Places, check_run_id
from evalkit.sealing.timestamp import TimestampAuthority, parse_authorities

FORMAT = "https://evalkit.dev/trust/v1"
CUSTODIES = ("self", "process", "second_party", "timelock")
_MAX_TRUST_FILE = 1024 * 1024
_HEX32 = re.compile(r"[0-9a-f]{64}")
_TIME = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z")
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
_FILE_FIELDS = frozenset(("format", "keys", "rotations", "timestamp_authorities"))


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
                _refuse(f"{name} is one text", self.key_id, "a sequence of texts")
            if given is not None:
                object.__setattr__(self, name, tuple(given))
        refuse_small_order(self.public_key)
        if self.key_id != id_of(self.public_key):
            _refuse("the key id is not that of the public key", self.key_id, id_of(self.public_key))
        for role in self.roles:
            if not _WORD.fullmatch(role):
                _refuse(f"{role!a} is not a role", self.key_id, "a lowercase ASCII word")
        for kind in self.predicate_types:
            if not kind.startswith("https://") or not kind.isascii():
                _refuse(f"{kind!a} is not a predicate type", self.key_id, "a full https URI")
        if self.custody not in CUSTODIES:
            _refuse(f"{self.custody!a} is not a custody", self.key_id, " | ".join(CUSTODIES))
        for moment in (self.valid_from, self.valid_until):
            if moment is not None and moment.tzinfo is None:
                _refuse("a time without a time zone", self.key_id, "UTC")
        for run in self.runs or ():
            check_run_id(run)
        if self.ephemeral and not self.runs:
            _refuse("an ephemeral key that names no run", self.key_id, "the runs that it was made for")

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
            return f"it is valid only from {_time_text(self.valid_from)}"
        if self.valid_until is not None and at >= self.valid_until:
            return f"it was valid only until {_time_text(self.valid_until)}"
        return ""

    def record(self) -> dict[str, Any]:
        """The entry in the trust file."""
        return {
            "key_id": self.key_id,
            "public_key": self.public_key.hex(),
            "roles": list(self.roles),
            "predicate_types": list(self.predicate_types),
            "valid_from": None if self.valid_from is None else _time_text(self.valid_from),
            "valid_until": None if self.valid_until is None else _time_text(self.valid_until),
            "custody": self.custody,
            "ephemeral": self.ephemeral,
            "runs": None if self.runs is None else list(self.runs),
            "comment": self.comment,
        }

    @classmethod
    def from_record(cls, record: Any, *, where: str = "") -> TrustedKey:
        """The key of one entry; every field is required and no other is allowed."""
        if type(record) is not dict or set(record) != _KEY_FIELDS:
            _refuse("a key entry with missing or unknown fields", where, ", ".join(sorted(_KEY_FIELDS)))
        for name in ("key_id", "public_key", "custody", "comment"):
            if type(record[name]) is not str:
                _refuse(f"{name} is not text", where, "a string")
        if not _HEX32.fullmatch(record["public_key"]):
            _refuse("public_key is not a key", where, "64 lowercase hex digits")
        if type(record["ephemeral"]) is not bool:
            _refuse("ephemeral is not a truth value", where, "true or false")
        return cls(
            key_id=record["key_id"],
            public_key=bytes.fromhex(record["public_key"]),
            roles=_texts(record["roles"], "roles", where),
            predicate_types=_texts(record["predicate_types"], "predicate_types", where),
            valid_from=_time(record["valid_from"], "valid_from", where),
            valid_until=_time(record["valid_until"], "valid_until", where),
            custody=record["custody"],
            ephemeral=record["ephemeral"],
            runs=None if record["runs"] is None else _texts(record["runs"], "runs", where),
            comment=record["comment"],
        )


@dataclass(frozen=True)
class Trust:
    """The pinned keys, with the digest of the file they came from (plans bind that digest)."""

    path: Path
    digest: str
    keys: tuple[TrustedKey, ...]
    timestamp_authorities: tuple[TimestampAuthority, ...] = ()

    @classmethod
    def load(cls, path: Path, workspace: Iterable[Path]) -> Trust:
        """Read a trust file by the rules above.

        ``workspace`` lists the run and case folders in question; a trust file inside one of them,
        or inside a git tree that holds one, is refused.
        """
        refuse_inside(path, workspace, what="trust file")
        if not os.path.lexists(path):
            raise BindingError(
                Binding.AUTHORITY,
                "there is no trust file",
                where=str(path),
                expected="your own file with the keys that you trust; a run's own word for its key counts nothing",
                do="ask the signer for the entry of the key (evalkit keys export), check it with them, and"
                " evalkit keys pin it",
            )
        with directory(path.parent, binding=Binding.AUTHORITY, forbidden_mode=OTHERS_MAY_WRITE) as parent:
            data = _read(parent, path)
        return cls(
            path=path,
            digest=digest(data),
            keys=_parse(data, str(path)),
            timestamp_authorities=_authorities(data, str(path)),
        )

    def key(self, key_id: str) -> TrustedKey | None:
        return next((key for key in self.keys if key.key_id == key_id), None)

    def keys_for(self, predicate_type: str, run_id: str | None, at: datetime) -> tuple[TrustedKey, ...]:
        """The keys that may sign that predicate type for that run at that time."""
        return tuple(key for key in self.keys if not key.objection(predicate_type, run_id, at))


def trust_path(explicit: Path | None, places: Places) -> Path:
    """The trust file to use: the one named explicitly, else the user's own."""
    return explicit if explicit is not None else places.trust


def pin(path: Path, key: TrustedKey, *, workspace: Iterable[Path] = ()) -> None:
    """Add ``key`` to the trust file, which is made (0600) if there is none.

    Pinning the same entry again changes nothing; another entry for a key that is pinned is refused.
    """
    refuse_inside(path, workspace, what="trust file")
    make_private_directory(path.parent)
    with (
        directory(path.parent, binding=Binding.AUTHORITY, forbidden_mode=OTHERS_MAY_WRITE) as parent,
        locked(parent),
    ):
        record = _record(parent, path)
        keys = tuple(TrustedKey.from_record(known) for known in record["keys"])
        for known in keys:
            if known == key:
                return
            if known.key_id == key.key_id:
                raise EvalkitError(
                    "this key is pinned already, with other rights",
                    where=f"{path}: {key.key_id}",
                    expected="one entry for each key",
                    do="edit the entry by hand if you mean to change it",
                )
        record["keys"] = [known.record() for known in (*keys, key)]
        replace_at(parent, path.name, canonical_json(record) + b"\n", where=str(path))


def pin_authority(path: Path, authority: TimestampAuthority, *, workspace: Iterable[Path] = ()) -> None:
    """Add a timestamp authority to the trust file, under the rules of `pin`."""
    refuse_inside(path, workspace, what="trust file")
    make_private_directory(path.parent)
    with (
        directory(path.parent, binding=Binding.AUTHORITY, forbidden_mode=OTHERS_MAY_WRITE) as parent,
        locked(parent),
    ):
        record = _record(parent, path)
        known = parse_authorities(record["timestamp_authorities"], where=str(path))
        if authority in known:
            return
        if any(authority.name == other.name or authority.leaf == other.leaf for other in known):
            raise EvalkitError(
                "a timestamp authority of this name or with this leaf is pinned already",
                where=f"{path}: {authority.name}",
                expected="one entry for each name and each leaf",
                do="choose another name (for a new leaf, say the year); edit the entry by hand if you mean to change it",
            )
        record["timestamp_authorities"] = [other.record() for other in (*known, authority)]
        replace_at(parent, path.name, canonical_json(record) + b"\n", where=str(path))


def _read(parent: int, path: Path) -> bytes:
    return read_at(parent, path.name, where=str(path), binding=Binding.AUTHORITY, max_bytes=_MAX_TRUST_FILE)


def _record(parent: int, path: Path) -> dict[str, Any]:
    """What the trust file holds, checked, every section of it; an empty one where there is no file."""
    empty: dict[str, Any] = {"format": FORMAT, "keys": [], "rotations": [], "timestamp_authorities": []}
    if not exists(parent, path.name):
        return empty
    data = _read(parent, path)
    _parse(data, str(path))
    _authorities(data, str(path))
    found: dict[str, Any] = load_strict(data)
    return empty | found


def _authorities(data: bytes, where: str) -> tuple[TimestampAuthority, ...]:
    """The timestamp authorities of a trust file that `_parse` has accepted."""
    return parse_authorities(load_strict(data).get("timestamp_authorities", []), where=where)


def _parse(data: bytes, where: str) -> tuple[TrustedKey, ...]:
    try:
        record = load_strict(data)
    except CanonicalError as error:
        _refuse(f"the trust file does not parse: {error.what}", f"{where} {error.where}", error.expected)
    if type(record) is not dict or record.get("format") != FORMAT:
        _refuse("this is not a trust file of a known version", where, f'"format": "{FORMAT}"')
    if not set(record) <= _FILE_FIELDS or type(record.get("keys")) is not list:
        _refuse("missing or unknown fields in the trust file", where, ", ".join(sorted(_FILE_FIELDS)))
    if record.get("rotations", []) != []:
        _refuse("this evalkit cannot check rotations", where, "an empty list, or a newer evalkit")
    keys = tuple(TrustedKey.from_record(k, where=f"{where}: key {i}") for i, k in enumerate(record["keys"]))
    if len({key.key_id for key in keys}) != len(keys):
        _refuse("a key is pinned twice", where, "one entry for each key")
    return keys


def _texts(value: Any, name: str, where: str) -> tuple[str, ...]:
    if type(value) is not list or any(type(v) is not str for v in value) or len(set(value)) != len(value):
        _refuse(f"{name} is not a list of distinct texts", where, "a list of strings")
    return tuple(value)


def _time(value: Any, name: str, where: str) -> datetime | None:
    if value is None:
        return None
    moment = None
    if type(value) is str and _TIME.fullmatch(value):
        try:
            moment = datetime.fromisoformat(value)
        except ValueError:
            moment = None  # well formed, but no such date
    if moment is None:
        _refuse(f"{name} is not a time", where, "null, or UTC such as 2026-11-30T12:00:00Z")
    return moment


def _time_text(moment: datetime) -> str:
    return moment.astimezone(UTC).replace(tzinfo=None).isoformat() + "Z"


def _refuse(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.AUTHORITY,
        what,
        where=where,
        expected=expected,
        do="correct the trust file by hand, or pin the key again",
    )
