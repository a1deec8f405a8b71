"""Changing the trust file: pin, unpin, revoke, follow a rotation, pin an authority.

Every change happens under the lock of the file's folder, reads the file by all the rules for
reading, and replaces it as a whole.  What is to be written is parsed before it is written: no change
leaves a file that the next reader refuses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NoReturn

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing.canonical import canonical_json, load_canonical
from evalkit.sealing.files import (
    OTHERS_MAY_WRITE,
    directory,
    exists,
    locked,
    make_private_directory,
    refuse_inside,
    replace_at,
)
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.revocation import Revocation
from evalkit.sealing.rotation import Rotation, suspended
from evalkit.sealing.rotation import read as read_rotation
from evalkit.sealing.times import short_text
from evalkit.sealing.timestamp_authority import TimestampAuthority
from evalkit.sealing.trust import MAX_TRUST_FILE, Contents, Trust, read_trust_file
from evalkit.sealing.trusted_key import TrustedKey

CHAIN = "https://evalkit.dev/trust/chain/v1"


def pin(path: Path, key: TrustedKey, *, workspace: Iterable[Path] = (), again: bool = False) -> bool:
    """Add ``key`` to the trust file, which is made (0600) if there is none; whether that changed it.

    Pinning the same entry again changes nothing; another entry for a key that is pinned is refused.
    ``again`` decides anew about a key that is suspended: it then rests on this decision and no
    longer on the rotation that came to it.
    """

    before: list[Contents] = []

    def change(now: Contents) -> Contents:
        before.append(now)
        known = next((k for k in now.keys if k.key_id == key.key_id), None)
        if known is None:
            return replace(now, keys=(*now.keys, key))
        why = _suspended(now).get(key.key_id)
        if why is not None and not again:
            raise BindingError(
                Binding.AUTHORITY,
                f"this key is suspended: {why}",
                where=f"{path}: {key.key_id}",
                expected="your own decision to trust it all the same",
                do="compare its id with its owner by another way, then evalkit keys pin --again",
            )
        if why is not None:
            return replace(
                now,
                keys=tuple(key if k is known else k for k in now.keys),
                rotations=tuple(r for r in now.rotations if r.next.key_id != key.key_id),
            )
        if known != key:
            raise EvalkitError(
                "this key is pinned already, with other rights",
                where=f"{path}: {key.key_id}",
                expected="one entry for each key",
                do="edit the entry by hand if you mean to change it",
            )
        return now

    return _change(path, workspace, change, make=True) != before[0]


def unpin(path: Path, key: TrustedKey, *, workspace: Iterable[Path] = ()) -> None:
    """Take ``key`` out again, where it stands as it was pinned; else nothing changes."""
    _change(path, workspace, lambda now: replace(now, keys=tuple(k for k in now.keys if k != key)))


def pin_authority(path: Path, authority: TimestampAuthority, *, workspace: Iterable[Path] = ()) -> bool:
    """Add a timestamp authority to the trust file, under the rules of `pin`; whether that changed it."""
    before: list[Contents] = []

    def change(now: Contents) -> Contents:
        before.append(now)
        known = now.timestamp_authorities
        if authority in known:
            return now
        if any(authority.name == other.name or authority.leaf == other.leaf for other in known):
            raise EvalkitError(
                "a timestamp authority of this name or with this leaf is pinned already",
                where=f"{path}: {authority.name}",
                expected="one entry for each name and each leaf",
                do="choose another name (for a new leaf, say the year); edit the entry by hand if you mean to change it",
            )
        return replace(now, timestamp_authorities=(*known, authority))

    return _change(path, workspace, change, make=True) != before[0]


def revoke(
    path: Path,
    key_id: str,
    *,
    reason: str,
    since: datetime | None = None,
    comment: str = "",
    now: datetime | None = None,
    workspace: Iterable[Path] = (),
) -> Revocation:
    """Revoke a pinned key from ``since`` on (now by default); the revocation as it then stands.

    Doing it again changes nothing.  A revocation only grows: see `Revocation.widened`.  Raises
    `EvalkitError` where it would shrink, for a time to come and for a key that is not pinned.
    """
    now = now if now is not None else datetime.now(UTC)
    if since is not None and since.tzinfo is None:
        raise EvalkitError("a time without a time zone", where=key_id, expected="an aware datetime")
    if since is not None and since > now + CLOCK_TOLERANCE:
        raise EvalkitError(
            f"a key cannot be revoked from {short_text(since)} on, which is still to come",
            where=key_id,
            expected="a time up to now",
            do="leave --since out; for a planned end, set valid_until or rotate the key",
        )

    def change(contents: Contents) -> Contents:
        if key_id not in {key.key_id for key in contents.keys}:
            raise EvalkitError(
                "this key is not pinned, so it does not count anyway",
                where=f"{path}: {key_id}",
                expected="a key that evalkit keys list shows",
                do="check the id",
            )
        known = next((r for r in contents.revocations if r.key_id == key_id), None)
        if known is None:
            new = Revocation(key_id, since if since is not None else now, reason, comment)
            return replace(contents, revocations=(*contents.revocations, new))
        wider = known.widened(
            Revocation(key_id, since if since is not None else known.since, reason, comment)
        )
        return replace(contents, revocations=tuple(wider if r is known else r for r in contents.revocations))

    changed = _change(path, workspace, change)
    return next(r for r in changed.revocations if r.key_id == key_id)


def pin_rotation(path: Path, envelope: bytes, *, workspace: Iterable[Path] = ()) -> Rotation:
    """Pin the successor of a pinned key together with the rotation that names it, as one change."""
    found: list[Rotation] = []

    def change(now: Contents) -> Contents:
        keys = {key.key_id: key for key in now.keys}
        found.append(read_rotation(load_canonical(envelope), keys, pinned_in=str(path), where="rotation"))
        return _with_rotations(now, found)

    _change(path, workspace, change)
    return found[0]


@dataclass(frozen=True)
class Followed:
    """What `pin_chain` found: the newest key of the chain, and on whose word it counts now.

    ``proven_by`` is the key, pinned before, whose rotation leads to it; None where no key of the
    chain was pinned and could prove it, so that nothing but this decision pins it.
    """

    newest: TrustedKey
    proven_by: str | None
    added: tuple[str, ...]


def chain_record(trust: Trust, key: TrustedKey) -> dict[str, Any]:
    """What a verifier needs to follow the rotations of ``key``: its first entry and the rotations.

    The chain runs from the first key before ``key`` to the last one after it.
    """
    first = key
    while (before := trust.rotation_to(first.key_id)) is not None:
        known = trust.key(before.previous)
        assert known is not None  # a rotation is read with its predecessor's key
        first = known
    rotations, last = [], first.key_id
    while (rotation := trust.rotation_from(last)) is not None:
        rotations.append(rotation.record())
        last = rotation.next.key_id
    return {"format": CHAIN, "entry": first.record(), "rotations": rotations}


def pin_chain(
    path: Path,
    record: Any,
    *,
    where: str,
    now: datetime | None = None,
    workspace: Iterable[Path] = (),
    again: bool = False,
) -> Followed:
    """Follow a chain of rotations (`chain_record`) from the newest of its keys that is pinned here.

    Where one is, the keys after it are pinned by its signature, with no decision left.  Where none
    is, the chain is pinned like any new key: by decision.  A chain to a key that is pinned already
    changes nothing.  ``again`` pins the newest key by decision, whatever its rotations are worth.
    Raises `BindingError` ``authority`` where a rotation does not verify or forks, or is new here and
    signed by a key that is revoked, suspended or at its end.
    """
    now = now if now is not None else datetime.now(UTC)
    first, values = _parse_chain(record, where)
    chain = _read_chain(first, values, now, where)
    newest = chain[-1].next
    if again:
        pin(path, newest, workspace=workspace, again=True)
        return Followed(newest, None, (newest.key_id,))
    entries = {key.key_id: key for key in (first, *(rotation.next for rotation in chain))}
    result: list[Followed] = []

    def change(contents: Contents) -> Contents:
        pinned = {key.key_id: key for key in contents.keys}
        bad = {r.key_id for r in contents.revocations} | set(_suspended(contents))
        names = [first.key_id, *(rotation.next.key_id for rotation in chain)]
        anchor = max((n for n, x in enumerate(names[:-1]) if x in pinned and x not in bad), default=None)
        new = [r for r in chain[anchor or 0 :] if r not in contents.rotations]
        if names[-1] in bad or any(r.previous in bad for r in new):
            _refuse_chain(
                "this chain hangs from a key that is revoked or suspended here, so it proves nothing",
                where,
                "rotations signed by keys that count; a revoked key can write any date",
            )
        if names[-1] in pinned:
            # Never hang from another key what a person pinned by decision.
            led = next((r for r in contents.rotations if r.next.key_id == names[-1]), None)
            by = led.previous if led is not None and led.previous not in bad else None
            result.append(Followed(newest, by, ()))
            return contents
        added = tuple(name for name in names[anchor or 0 :] if name not in pinned)
        if anchor is not None:
            _refuse_ended(new, entries | pinned, now, where)
            result.append(Followed(newest, names[anchor], added))
            return _with_rotations(contents, new)
        result.append(Followed(newest, None, added))
        return _with_rotations(replace(contents, keys=(*contents.keys, first)), new)

    _change(path, workspace, change, make=True)
    return result[-1]


def _read_chain(first: TrustedKey, values: list[Any], now: datetime, where: str) -> list[Rotation]:
    """The rotations of a chain, each signed by the key before it, whoever is pinned."""
    chain: list[Rotation] = []
    keys = {first.key_id: first}
    last = first
    for n, value in enumerate(values):
        with _not_the_trust_file():
            rotation = read_rotation(value, keys, pinned_in=where, where=f"{where}: rotation {n}")
        if rotation.previous != last.key_id:
            _refuse_chain("the rotations are not one chain", where, "each signed by the key before it")
        if rotation.signed_at > now + CLOCK_TOLERANCE:
            _refuse_chain("a rotation is dated in the future", where, f"a time up to {short_text(now)}")
        last = rotation.next
        chain.append(rotation)
        keys[last.key_id] = last
    return chain


def _refuse_ended(
    new: Iterable[Rotation], entries: Mapping[str, TrustedKey], now: datetime, where: str
) -> None:
    """Refuse rotations, new to the file, of keys that have ended: they can be dated to before the end."""
    for rotation in new:
        end = entries[rotation.previous].valid_until
        if end is not None and end <= now:
            _refuse_chain(
                f"a rotation that is new here is signed by a key that ended on {short_text(end)}, so it proves"
                " nothing",
                f"{where}: {rotation.previous}",
                "rotations signed by keys that are valid now; whoever has an ended key can write an earlier date",
            )


def _with_rotations(contents: Contents, rotations: Iterable[Rotation]) -> Contents:
    """The contents with these rotations and the keys that they lead to, as far as they lack them."""
    keys, known = list(contents.keys), {key.key_id for key in contents.keys}
    new = [r for r in rotations if r not in contents.rotations]
    keys += [r.next for r in new if r.next.key_id not in known]
    return replace(contents, keys=tuple(keys), rotations=(*contents.rotations, *new))


def _suspended(contents: Contents) -> dict[str, str]:
    return suspended(contents.rotations, {r.key_id: r for r in contents.revocations})


def _change(
    path: Path,
    workspace: Iterable[Path],
    change: Callable[[Contents], Contents],
    *,
    make: bool = False,
) -> Contents:
    """Replace what the trust file says by what ``change`` makes of it; the new contents."""
    refuse_inside(path, workspace, what="trust file")
    if make:
        make_private_directory(path.parent)
    with (
        directory(path.parent, binding=Binding.AUTHORITY, forbidden_mode=OTHERS_MAY_WRITE) as parent,
        locked(parent),
    ):
        before = Contents()
        if exists(parent, path.name):
            before = Contents.parse(read_trust_file(parent, path), str(path))
        after = change(before)
        if after != before:
            data = canonical_json(after.record()) + b"\n"
            if len(data) > MAX_TRUST_FILE:
                raise EvalkitError(
                    f"the trust file would have {len(data)} bytes",
                    where=str(path),
                    expected=f"at most {MAX_TRUST_FILE}",
                    do="remove the entries of ephemeral keys whose runs you no longer verify",
                )
            Contents.parse(data, str(path))
            replace_at(parent, path.name, data, where=str(path))
    return after


def _parse_chain(record: Any, where: str) -> tuple[TrustedKey, list[Any]]:
    if (
        type(record) is not dict
        or set(record) != {"format", "entry", "rotations"}
        or record["format"] != CHAIN
        or type(record["rotations"]) is not list
        or not record["rotations"]
    ):
        _refuse_chain("this is not a chain of rotations", where, f"format {CHAIN}, entry and rotations")
    return entry_from_another(record["entry"], where=f"{where}: entry"), record["rotations"]


def entry_from_another(record: Any, *, where: str) -> TrustedKey:
    """The entry that somebody handed over: what is wrong with it is not the trust file's fault."""
    with _not_the_trust_file():
        return TrustedKey.from_record(record, where=where)


@contextmanager
def _not_the_trust_file() -> Iterator[None]:
    """What is wrong with a file that was handed over is not mended in the trust file."""
    try:
        yield
    except BindingError as error:
        _refuse_chain(error.what.removeprefix(f"{error.binding.value}: "), error.where, error.expected)


def _refuse_chain(what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(
        Binding.AUTHORITY,
        what,
        where=where,
        expected=expected,
        do="nothing was pinned; compare the newest key's id with its owner by another way, then pin that key by"
        " your own decision: evalkit keys pin --again",
    )
