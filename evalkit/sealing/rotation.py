"""Rotations: key N names key N+1 as its successor, and signs that.

The statement is a DSSE envelope of type ``trust/rotation``.  Its subject is the entry record of the
new key (``key.json``, canonical); its predicate says ``previous`` (key id), ``next`` (that record),
``serial`` (1 for the first rotation of a chain), ``ends_previous`` and ``signed_at``.

A trust file with a rotation that breaks one of these rules is refused:
1. The signature is that of the predecessor, which is pinned for ``trust/rotation``, not ephemeral,
   and was valid at ``signed_at`` by its own entry.
2. ``ends_previous`` is not before ``signed_at``: a rotation does not unmake what was signed before.
   ``next`` has a ``valid_from`` that is not before it either: no key speaks for a time before the
   rotation that made it.
3. The new key is pinned.  Its entry has the key, custody and at most the rights and the time that
   were signed, and at most the rights of the predecessor: a person may narrow an entry by hand and
   never widen it, and no key gets more by changing hands.
4. A key has one successor and one predecessor; serials of a chain count up by one.  So an old
   rotation that is shown again changes nothing, and a second one of the same key is a fork.

A rotation that is well made still pins nobody when its predecessor is revoked (`suspended`):
whoever stole a key can write a rotation with any date.  If the predecessor is compromised, none of its
rotations counts, whatever date it bears; if it is superseded or lost, those signed from ``since`` on
do not.  What hangs from such a rotation is suspended too, until a person pins it again by
decision.  A rotation of a key that has ended since then stands, if it is in the file; one that is new
to the file is not followed from such a key (`evalkit.sealing.pinning.pin_chain`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from evalkit.errors import BindingError
from evalkit.sealing.canonical import CanonicalError, canonical_json, digest, load_canonical
from evalkit.sealing.envelope import read_signed, sign
from evalkit.sealing.predicates import PREDICATES
from evalkit.sealing.revocation import Revocation
from evalkit.sealing.signer import Signer
from evalkit.sealing.times import parse_signed, signed_text
from evalkit.sealing.trusted_key import TrustedKey, refuse

ROTATION = PREDICATES["trust/rotation"]
SUBJECT = "key.json"
_FIELDS = {"previous", "next", "serial", "ends_previous", "signed_at"}


@dataclass(frozen=True)
class Rotation:
    """One rotation whose signature holds.  ``envelope`` is canonical JSON; only `read` makes one."""

    envelope: bytes
    previous: str
    next: TrustedKey
    serial: int
    ends_previous: datetime
    signed_at: datetime

    @property
    def digest(self) -> str:
        """The digest of the envelope, as the ledger of the old key records it."""
        return digest(self.envelope)

    def record(self) -> dict[str, Any]:
        """The envelope as a JSON value, as the trust file lists it."""
        value: dict[str, Any] = load_canonical(self.envelope)
        return value


def sign_rotation(
    successor: TrustedKey, *, serial: int, ends_previous: datetime, signer: Signer, at: datetime
) -> bytes:
    """The envelope in which the signer's key names ``successor``; see the module for the rules."""
    record = successor.record()
    return sign(
        SUBJECT,
        canonical_json(record),
        predicate_type=ROTATION,
        predicate={
            "previous": signer.key_id,
            "next": record,
            "serial": serial,
            "ends_previous": signed_text(ends_previous),
        },
        signer=signer,
        at=at,
    )


def read(value: Any, keys: Mapping[str, TrustedKey], *, pinned_in: str, where: str) -> Rotation:
    """The rotation in a JSON value (an envelope), by rules 1 and 2.

    ``keys`` are the pinned ones by id.  Raises `BindingError` ``authority``.
    """
    try:
        envelope = canonical_json(value)
        signed = read_signed(
            envelope,
            keys=[key for key in keys.values() if not key.ephemeral],
            pinned_in=pinned_in,
            subject_name=SUBJECT,
            predicate_type=ROTATION,
        )
    except (BindingError, CanonicalError) as error:
        what = error.what.removeprefix("attestation: ").removeprefix("authority: ")
        refuse(f"a rotation does not verify: {what}", f"{where} {error.where}", error.expected)
    said = signed.statement["predicate"]
    if set(said) != _FIELDS or signed.signed_at is None:
        refuse("a rotation has missing or unknown fields", where, ", ".join(sorted(_FIELDS)))
    # The signature does not cover the hint, so that it must say what the signature shows.
    if not said["previous"] == signed.hint == signed.key.key_id:
        refuse("a rotation was not signed by the predecessor that it names", where, signed.key.key_id)
    ends = parse_signed(said["ends_previous"])
    if ends is None or ends < signed.signed_at:
        refuse(
            "a rotation ends its predecessor before it was signed",
            where,
            f"ends_previous not before {signed_text(signed.signed_at)}",
        )
    if type(said["serial"]) is not int or said["serial"] < 1:
        refuse("a rotation has no serial", where, "1 for the first of a chain, then 2, 3, ...")
    successor = TrustedKey.from_record(said["next"], where=f"{where}: next")
    if successor.valid_from is None or successor.valid_from < signed.signed_at:
        refuse(
            "a rotation's new key is valid before the rotation was signed",
            where,
            f"valid_from not before {signed_text(signed.signed_at)}",
        )
    subject = signed.statement["subject"][0]["digest"]["sha256"]
    if digest(canonical_json(said["next"])) != f"sha256:{subject}":
        refuse("a rotation's subject is not its next entry", where, "the digest of next, canonical")
    # A key for some runs only speaks in no other matter, so it names no successor either.
    objection = signed.key.objection(ROTATION, None, signed.signed_at)
    if objection:
        refuse(
            f"the predecessor may not sign this rotation: {objection}",
            where,
            f"a key for every run, pinned for {ROTATION} and valid then",
        )
    return Rotation(envelope, said["previous"], successor, said["serial"], ends, signed.signed_at)


def check_chains(rotations: Iterable[Rotation], keys: Mapping[str, TrustedKey], *, where: str) -> None:
    """Rules 3 and 4 for all rotations of a trust file."""
    to: dict[str, Rotation] = {}
    previous: set[str] = set()
    rotations = tuple(rotations)
    for rotation in rotations:
        if rotation.previous in previous:
            refuse("a key has two successors", f"{where}: {rotation.previous}", "one rotation a key: a fork")
        if rotation.next.key_id in to:
            refuse("a key has two predecessors", f"{where}: {rotation.next.key_id}", "one rotation to a key")
        previous.add(rotation.previous)
        to[rotation.next.key_id] = rotation
    for rotation in rotations:
        before = to.get(rotation.previous)
        # A chain may begin in the middle: with a key that a person pinned by decision.
        if before is not None and rotation.serial != before.serial + 1:
            refuse(
                f"rotation {rotation.serial} follows rotation {before.serial}",
                f"{where}: {rotation.previous}",
                f"serial {before.serial + 1}",
            )
        _check_entry(rotation, keys, where)


def _check_entry(rotation: Rotation, keys: Mapping[str, TrustedKey], where: str) -> None:
    signed, entry = rotation.next, keys.get(rotation.next.key_id)
    if entry is None:
        refuse("a rotation's new key is not pinned", f"{where}: {signed.key_id}", "its entry among the keys")
    for limit, whose in ((signed, "the rotation signs"), (keys[rotation.previous], "its predecessor has")):
        excess = entry.excess(limit)
        if excess:
            refuse(
                f"a rotated key has other {excess} than {whose}",
                f"{where}: {entry.key_id}",
                f"{excess} within {getattr(limit, excess)!a}",
            )
    if (
        signed.valid_from is not None and (entry.valid_from is None or entry.valid_from < signed.valid_from)
    ) or (
        signed.valid_until is not None
        and (entry.valid_until is None or entry.valid_until > signed.valid_until)
    ):
        refuse(
            "a rotated key is valid for a longer time than the rotation signs",
            f"{where}: {entry.key_id}",
            "a time within it",
        )


def suspended(rotations: Iterable[Rotation], revocations: Mapping[str, Revocation]) -> dict[str, str]:
    """Key id -> why the rotation that pinned that key does not count."""
    found: dict[str, str] = {}
    for rotation in sorted(rotations, key=lambda rotation: rotation.serial):
        revoked = revocations.get(rotation.previous)
        if rotation.previous in found:
            why = f"its predecessor {rotation.previous} is suspended"
        elif revoked is not None and revoked.reason == "compromised":
            why = f"only a rotation signed by {rotation.previous} vouches for it, and that key is compromised"
        elif revoked is not None and rotation.signed_at >= revoked.since:
            why = f"its rotation was signed by {rotation.previous} after that key was revoked"
        else:
            continue
        found[rotation.next.key_id] = why
    return found
