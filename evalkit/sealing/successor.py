"""Making the successor of the user's signing key, so that a crash leaves a key to go on with.

The steps of `rotate`, under the lock of the keys folder
1. The signing key must be pinned, valid, neither revoked nor suspended, and pinned for rotations.
2. Open the old key, in its process or through the agent, so that a wrong passphrase leaves nothing; then
   make the new key as ``signing.next``.
3. Sign the rotation with the old key; pin new key and rotation, as one change of the trust file.  From
   here on the rotation stands.
4. Record ``rotated`` in the old key's ledger and ``rotation`` as the first entry of the new key's:
   whoever sees a plan of either key can follow to the other, so changing keys hides none.
5. Copy the old key to ``signing-<hex of its id>``, where unfinished runs find it.
6. Rename ``signing.next`` to ``signing``.

``signing`` is a whole key at every moment.  Before 3 a crash leaves everything as it was, but for
a key file that nobody knows, which the next `rotate` names unused; after 3 it finishes the steps that are
missing.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.files import (
    OTHERS_MAY_WRITE,
    directory,
    exists,
    locked,
    names_in,
    replace_at,
    silent,
    sync,
)
from evalkit.sealing.keys import create_signing_key, public_part, read_private_file
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.ledger import CLOCK_TOLERANCE, Ledger, utc_now
from evalkit.sealing.pinning import pin_rotation
from evalkit.sealing.places import Places
from evalkit.sealing.rotation import ROTATION, Rotation, sign_rotation
from evalkit.sealing.signer import resolve_signer
from evalkit.sealing.times import short_text
from evalkit.sealing.trust import Trust
from evalkit.sealing.trusted_key import TrustedKey


@dataclass(frozen=True)
class Rotated:
    """A finished rotation.  ``resumed``: an earlier one, that was interrupted, was finished."""

    rotation: Rotation
    retired: Path
    resumed: bool


def rotate(
    places: Places,
    trust_file: Path,
    *,
    passphrase: Callable[[], bytes | None],
    overlap: timedelta = timedelta(0),
    clock: Callable[[], datetime] = utc_now,
    observe: Callable[[str], None] = silent,
) -> Rotated:
    """Put a new signing key in the place of the old one, by the steps of the module.

    ``passphrase`` is asked when a new key is made (None: no protection).  ``overlap`` is how long
    the old key stays valid, for runs that were planned with it.  Raises `EvalkitError`, or
    `BindingError` ``authority`` where the old key may not name a successor.
    """
    if not os.path.lexists(places.signing_key):
        raise EvalkitError(
            "there is no signing key to rotate",
            where=str(places.signing_key),
            expected="a key made by evalkit keys init",
            do="make one with evalkit keys init",
        )
    folder = places.signing_key.parent
    with directory(folder, binding=None, forbidden_mode=OTHERS_MAY_WRITE) as fd, locked(fd):
        for name in names_in(fd):
            if name.startswith(".stage.signing"):  # a copy that was killed
                os.unlink(name, dir_fd=fd)
        old = id_of(public_part(places.signing_key)[0])
        rotation = Trust.load(trust_file, []).rotation_from(old)
        resumed = rotation is not None
        if rotation is None:
            rotation = _begin(places, trust_file, old, fd, passphrase, overlap, clock, observe)
        new = rotation.next.key_id
        source = _file_of(places, new)
        observe("ledgers")
        _record(places, rotation, clock, observe)
        retired = places.retired_signing_key(old)
        observe("retire")
        replace_at(fd, retired.name, read_private_file(places.signing_key), where=str(retired))
        observe("swap")
        os.rename(source.name, places.signing_key.name, src_dir_fd=fd, dst_dir_fd=fd)
        observe("swap-fsync")
        sync(fd, str(folder))
    return Rotated(rotation, retired, resumed)


def _begin(
    places: Places,
    trust_file: Path,
    old: str,
    fd: int,
    passphrase: Callable[[], bytes | None],
    overlap: timedelta,
    clock: Callable[[], datetime],
    observe: Callable[[str], None],
) -> Rotation:
    """Steps 1 to 3."""
    trust = Trust.load(trust_file, [])
    ledger = Ledger(places.ledger(old), clock=clock)
    at = _not_behind(ledger, clock().astimezone(UTC))
    key = trust.key(old)
    objection = "it is not pinned" if key is None else trust.objection(key, ROTATION, None, at)
    if key is None or objection:
        raise BindingError(
            Binding.AUTHORITY,
            f"this key may not name a successor: {objection}",
            where=old,
            expected=f"a key that {trust_file} pins for {ROTATION}, valid and not revoked",
            do="evalkit keys init pins it"
            if key is None
            else "see evalkit keys list; without a rotation, move the key away, make a new one with evalkit keys"
            " init and have your verifiers pin it",
        )
    _set_aside(places, fd)
    before = trust.rotation_to(old)
    with resolve_signer(places, prompt="Current passphrase") as signer:
        protection = passphrase()
        try:
            observe("create")
            successor = TrustedKey.of(
                create_signing_key(places.next_signing_key, protection),
                roles=key.roles,
                predicate_types=key.predicate_types,
                valid_from=at,
                custody=key.custody,
                runs=key.runs,
                comment=f"rotated from {old}",
            )
            observe("sign")
            envelope = sign_rotation(
                successor,
                serial=1 if before is None else before.serial + 1,
                ends_previous=at + overlap,
                signer=signer,
                at=at,
            )
        except BaseException:
            # Nothing names it.  Once it is to be pinned it stays: then it may be, whatever is raised.
            places.next_signing_key.unlink(missing_ok=True)
            raise
    observe("pin")
    return pin_rotation(trust_file, envelope)


def _set_aside(places: Places, fd: int) -> None:
    """Clear the name of the next key: what a crash left there belongs to no rotation that is known here."""
    name = places.next_signing_key.name
    if not exists(fd, name):
        return
    try:
        left = places.unused_signing_key(id_of(public_part(places.next_signing_key)[0])).name
    except EvalkitError:
        os.unlink(name, dir_fd=fd)  # torn while it was written: no key
    else:
        os.rename(name, left, src_dir_fd=fd, dst_dir_fd=fd)


def _file_of(places: Places, key_id: str) -> Path:
    """The file of the new key, of a rotation that stands."""
    for path in (
        places.next_signing_key,
        places.unused_signing_key(key_id),  # set aside by a rotation under another trust file
        places.retired_signing_key(key_id),
    ):
        with contextlib.suppress(EvalkitError):
            if os.path.lexists(path) and id_of(public_part(path)[0]) == key_id:
                return path
    raise EvalkitError(
        "your signing key was rotated, and the file of its successor is not here",
        where=str(places.next_signing_key),
        expected=f"the key {key_id}",
        do="restore the file, or rotate where it is",
    )


def _not_behind(ledger: Ledger, now: datetime) -> datetime:
    """Now, or the ledger's last time where the clock was corrected a little; a rotation is not backdated."""
    entries = ledger.entries()
    last = datetime.fromisoformat(entries[-1].record["time"]) if entries else now
    if now + CLOCK_TOLERANCE < last:
        raise EvalkitError(
            f"the clock ({short_text(now)}) is behind the last entry of the key's ledger",
            where=str(ledger.path),
            expected=f"a time from {short_text(last)} on",
            do="set the clock; a rotation is never backdated",
        )
    return max(now, last)


def _record(
    places: Places, rotation: Rotation, clock: Callable[[], datetime], observe: Callable[[str], None]
) -> None:
    """Step 4, as far as it is missing."""
    old = Ledger(places.ledger(rotation.previous), clock=clock)
    known = [e.record for e in old.entries() if e.record["event"] == "rotated"]
    if not any(r.get("envelope") == rotation.digest for r in known):
        old.append("rotated", next=rotation.next.key_id, envelope=rotation.digest)
    observe("ledger-next")
    new = Ledger(places.ledger(rotation.next.key_id), clock=clock)
    if not new.entries():
        new.append("rotation", previous=rotation.previous, ledger=old.head.record())
