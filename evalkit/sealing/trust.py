"""Which keys count: the trust file, and what each key in it may sign.

The file (docs/formats/trust.md) is the root of every verification, so it is read with suspicion:

1. Refused inside the workspace that it judges, through a symbolic link (the file or its folder),
   when another user owns it, when group or others may write it or its folder, or when it has a
   second name.
2. Unknown fields, a key id that is not that of its key, and keys of small order are refused.
3. A key speaks only for the predicate types, the runs and the time that its entry lists.
4. Every rotation must verify (evalkit.sealing.rotation); a rotated key ends when its rotation says.
5. A revoked key counts only for what a timestamp authority saw before; a key whose rotation does
   not count is suspended.
6. Timestamp authorities stand in a section of their own (evalkit.sealing.timestamp_authority).

A refusal is a `BindingError` of kind ``authority``.  What changes the file is in
`evalkit.sealing.pinning`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path
from typing import Any

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import CanonicalError, digest, load_strict
from evalkit.sealing.files import OTHERS_MAY_WRITE, directory, read_at, refuse_inside
from evalkit.sealing.places import Places
from evalkit.sealing.revocation import Revocation
from evalkit.sealing.rotation import Rotation, check_chains, suspended
from evalkit.sealing.rotation import read as read_rotation
from evalkit.sealing.times import short_text
from evalkit.sealing.timestamp_authority import TimestampAuthority, parse_authorities
from evalkit.sealing.trusted_key import CUSTODIES, TrustedKey, refuse

__all__ = [
    "CUSTODIES",
    "FORMAT",
    "MAX_TRUST_FILE",
    "Contents",
    "KeyStatus",
    "Trust",
    "TrustedKey",
    "trust_path",
]

FORMAT = "https://evalkit.dev/trust/v1"
#: about 40,000 entries: ephemeral keys pile up, one a run
MAX_TRUST_FILE = 16 * 1024 * 1024
_FILE_FIELDS = frozenset(("format", "keys", "revocations", "rotations", "timestamp_authorities"))
_PREFIX = re.compile(r"(sha256:)?[0-9a-f]{8,64}")


@dataclass(frozen=True)
class Contents:
    """What a trust file says, each part checked by itself and against the others."""

    keys: tuple[TrustedKey, ...] = ()
    revocations: tuple[Revocation, ...] = ()
    rotations: tuple[Rotation, ...] = ()
    timestamp_authorities: tuple[TimestampAuthority, ...] = ()

    @classmethod
    def parse(cls, data: bytes, where: str) -> Contents:
        """The contents of a file's bytes, by rules 2 to 4."""
        try:
            record = load_strict(data)
        except CanonicalError as error:
            refuse(f"the trust file does not parse: {error.what}", f"{where} {error.where}", error.expected)
        if type(record) is not dict or record.get("format") != FORMAT:
            refuse("this is not a trust file of a known version", where, f'"format": "{FORMAT}"')
        if not set(record) <= _FILE_FIELDS or type(record.get("keys")) is not list:
            refuse("missing or unknown fields in the trust file", where, ", ".join(sorted(_FILE_FIELDS)))
        keys = tuple(
            TrustedKey.from_record(k, where=f"{where}: key {i}") for i, k in enumerate(record["keys"])
        )
        by_id = {key.key_id: key for key in keys}
        if len(by_id) != len(keys):
            refuse("a key is pinned twice", where, "one entry for each key")
        return cls(
            keys=keys,
            revocations=_revocations(record.get("revocations", []), by_id, where),
            rotations=_rotations(record.get("rotations", []), by_id, where),
            timestamp_authorities=parse_authorities(record.get("timestamp_authorities", []), where=where),
        )

    def record(self) -> dict[str, Any]:
        """The trust file as a JSON value."""
        return {
            "format": FORMAT,
            "keys": [key.record() for key in self.keys],
            "revocations": [revocation.record() for revocation in self.revocations],
            "rotations": [rotation.record() for rotation in self.rotations],
            "timestamp_authorities": [authority.record() for authority in self.timestamp_authorities],
        }


def _revocations(value: Any, keys: Mapping[str, TrustedKey], where: str) -> tuple[Revocation, ...]:
    if type(value) is not list:
        refuse("revocations is not a list", where, "a list")
    found = tuple(Revocation.from_record(r, where=f"{where}: revocation {i}") for i, r in enumerate(value))
    if len({revocation.key_id for revocation in found}) != len(found):
        refuse("a key is revoked twice", where, "one revocation for each key")
    for revocation in found:
        # A slip in the id would revoke nobody, and leave the key that was meant.
        if revocation.key_id not in keys:
            refuse("a revocation names no key of this file", f"{where}: {revocation.key_id}", "a pinned key")
    return found


def _rotations(value: Any, keys: Mapping[str, TrustedKey], where: str) -> tuple[Rotation, ...]:
    if type(value) is not list:
        refuse("rotations is not a list", where, "a list")
    found = tuple(
        read_rotation(r, keys, pinned_in=where, where=f"{where}: rotation {i}") for i, r in enumerate(value)
    )
    check_chains(found, keys, where=where)
    return found


@dataclass(frozen=True)
class Trust:
    """What a trust file says, with the digest of its bytes (plans bind that digest).

    ``keys`` are as they were pinned; `objection` and `end` add what rotations and revocations say.
    """

    path: Path
    digest: str
    keys: tuple[TrustedKey, ...]
    revocations: tuple[Revocation, ...] = ()
    rotations: tuple[Rotation, ...] = ()
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
                do="for somebody else's key ask its owner for the entry (evalkit keys export), check it with"
                " them, and evalkit keys pin it; for a key of your own, evalkit keys init",
            )
        with directory(path.parent, binding=Binding.AUTHORITY, forbidden_mode=OTHERS_MAY_WRITE) as parent:
            data = read_trust_file(parent, path)
        contents = Contents.parse(data, str(path))
        return cls(
            path,
            digest(data),
            contents.keys,
            contents.revocations,
            contents.rotations,
            contents.timestamp_authorities,
        )

    @cached_property
    def _by_id(self) -> dict[str, TrustedKey]:
        return {key.key_id: key for key in self.keys}

    @cached_property
    def _revoked(self) -> dict[str, Revocation]:
        return {revocation.key_id: revocation for revocation in self.revocations}

    @cached_property
    def _rotated(self) -> dict[str, Rotation]:
        return {rotation.previous: rotation for rotation in self.rotations}

    @cached_property
    def _made(self) -> dict[str, Rotation]:
        return {rotation.next.key_id: rotation for rotation in self.rotations}

    @cached_property
    def _suspended(self) -> dict[str, str]:
        return suspended(self.rotations, self._revoked)

    def key(self, key_id: str) -> TrustedKey | None:
        return self._by_id.get(key_id)

    def find(self, text: str) -> TrustedKey:
        """The pinned key with that id, or the only one whose hex begins so (at least 8 digits)."""
        wanted = text.removeprefix("sha256:")
        found = [key for key in self.keys if key.key_id.removeprefix("sha256:").startswith(wanted)]
        if not _PREFIX.fullmatch(text) or len(found) != 1:
            problem = "names no pinned key" if not found else f"names {len(found)} pinned keys"
            if not _PREFIX.fullmatch(text):
                problem = "is not a key id"
            raise EvalkitError(
                f"{text!a} {problem}",
                where=str(self.path),
                expected="a key id, or at least its first 8 hex digits, so many that they fit one key only",
                do="evalkit keys list",
            )
        return found[0]

    def revocation(self, key_id: str) -> Revocation | None:
        return self._revoked.get(key_id)

    def rotation_from(self, key_id: str) -> Rotation | None:
        """The rotation in which that key names its successor."""
        return self._rotated.get(key_id)

    def rotation_to(self, key_id: str) -> Rotation | None:
        """The rotation in which that key is the successor."""
        return self._made.get(key_id)

    def origin(self, key_id: str) -> str:
        """The first key of the chain of rotations that leads to that key; itself where none does."""
        seen = set()
        while (rotation := self.rotation_to(key_id)) is not None and key_id not in seen:
            seen.add(key_id)
            key_id = rotation.previous
        return key_id

    def suspension(self, key_id: str) -> str:
        """Why the rotation that pinned that key does not count, or the empty string."""
        return self._suspended.get(key_id, "")

    def end(self, key: TrustedKey) -> datetime | None:
        """When the key's validity ends: by its entry or by its rotation, whichever is earlier."""
        rotation = self.rotation_from(key.key_id)
        ends = [key.valid_until, None if rotation is None else rotation.ends_previous]
        return min((end for end in ends if end is not None), default=None)

    def objection(
        self,
        key: TrustedKey,
        predicate_type: str,
        run_id: str | None,
        at: datetime,
        *,
        attested_at: datetime | None = None,
    ) -> str:
        """Why a signature of that key, dated ``at``, does not count here, or the empty string.

        ``attested_at``: a time at which a pinned timestamp authority saw the signature.
        """
        suspension = self.suspension(key.key_id)
        if suspension:
            return f"it is suspended: {suspension}"
        revoked = self.revocation(key.key_id)
        if revoked is not None and (attested_at is None or attested_at >= revoked.since):
            return (
                f"it is revoked since {short_text(revoked.since)} ({revoked.reason}), and no pinned timestamp"
                " authority saw this signature before that; the signer's own word for the time counts nothing"
            )
        return replace(key, valid_until=self.end(key)).objection(predicate_type, run_id, at)

    def refuse_unable(self, key_id: str, predicate_type: str, run_id: str, at: datetime) -> None:
        """Raise where that key could not sign now, before work is done that it is to sign."""
        key = self.key(key_id)
        objection = "it is not pinned" if key is None else self.objection(key, predicate_type, run_id, at)
        if objection:
            raise BindingError(
                Binding.AUTHORITY,
                f"the signing key may not sign this: {objection}",
                where=key_id,
                expected="a key that is pinned for this phase, run and time",
                do="see evalkit keys list; make another precommit with the key that you use now",
            )

    def keys_for(self, predicate_type: str, run_id: str | None, at: datetime) -> tuple[TrustedKey, ...]:
        """The keys that may sign that predicate type for that run at that time."""
        return tuple(key for key in self.keys if not self.objection(key, predicate_type, run_id, at))

    def status(self, key: TrustedKey, at: datetime) -> KeyStatus:
        """What that key is worth at that time."""
        revoked, rotation, end = self.revocation(key.key_id), self.rotation_from(key.key_id), self.end(key)
        suspension = self.suspension(key.key_id)
        ended = end is not None and at >= end
        if revoked is not None:
            return KeyStatus("revoked", f"revoked since {short_text(revoked.since)} ({revoked.reason})")
        if suspension:
            return KeyStatus("suspended", f"suspended: {suspension}")
        if key.valid_from is not None and at < key.valid_from:
            return KeyStatus("not_yet", f"not yet valid, from {short_text(key.valid_from)}")
        when = "" if end is None else f"{'ended' if ended else 'valid until'} {short_text(end)}"
        if rotation is not None:
            return KeyStatus("rotated", f"rotated to {rotation.next.key_id}, {when}")
        if ended:
            return KeyStatus("expired", f"expired, {when}")
        return KeyStatus("valid", when or "valid")


@dataclass(frozen=True)
class KeyStatus:
    """``word``: valid, not_yet, expired, rotated, revoked or suspended; ``text`` says more."""

    word: str
    text: str


def trust_path(explicit: Path | None, places: Places) -> Path:
    """The trust file to use: the one named explicitly, else the user's own."""
    return explicit if explicit is not None else places.trust


def read_trust_file(parent: int, path: Path) -> bytes:
    return read_at(parent, path.name, where=str(path), binding=Binding.AUTHORITY, max_bytes=MAX_TRUST_FILE)
