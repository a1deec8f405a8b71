"""Revocations: what a revoked key has signed counts only if somebody else saw it in time."""

from __future__ import annotations

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Trust, TrustedKey
from evalkit.sealing.pinning import pin, pin_chain, revoke
from evalkit.sealing.revocation import REASONS

from .conftest import REVEAL, World
from .trustfiles import (
    DAY,
    EX_ANTE,
    NOW,
    Chain,
    check,
    load,
    refused,
    revocation,
    signed,
    unauthorised,
)

SINCE = NOW + 5 * DAY
LATER = NOW + 9 * DAY


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "trust.json"


@pytest.fixture
def chain(make_signer: Callable[..., Any]) -> Chain:
    return Chain(make_signer, (1, 2))


@pytest.fixture
def lone(make_signer: Callable[..., Any]) -> Chain:
    return Chain(make_signer, ())


# --- what still counts ----------------------------------------------------------------------------


@pytest.mark.parametrize("reason", REASONS)
def test_the_signers_own_word_counts_nothing(lone: Chain, path: Path, reason: str) -> None:
    """A stolen key can sign today and write any date."""
    trust = load(path, lone.file(revocations=[revocation(lone.entries[0], SINCE, reason)]))
    old = signed(lone.signers[0], NOW)
    for at in (NOW, SINCE - DAY, LATER):
        unauthorised(old, trust, at, "revoked since 2026-12-05T12:00:00Z")
    unauthorised(signed(lone.signers[0], SINCE + DAY), trust, LATER, "revoked since")
    # Somebody else saw it in time.
    assert check(old, trust, LATER, attested_at=SINCE - timedelta(microseconds=1)).caveats == ()
    unauthorised(old, trust, LATER, "revoked since", attested_at=SINCE)
    unauthorised(old, trust, LATER, "revoked since", attested_at=SINCE + DAY)


def test_attested_in_time_gives_no_other_right(lone: Chain, path: Path) -> None:
    lone.entries[0] = replace(lone.entries[0], valid_until=NOW + DAY, runs=("r2",))
    trust = load(path, lone.file(revocations=[revocation(lone.entries[0], SINCE)]))
    unauthorised(signed(lone.signers[0], NOW), trust, LATER, "other runs", attested_at=NOW)


def test_a_revoked_key_signs_nothing_new(world: World, path: Path) -> None:
    """At signing time: nothing is written, and the attempt stays counted."""
    key = world.trust.keys[0]
    pin(path, key)
    revoke(path, key.key_id, reason="lost", since=world.clock.now, now=world.clock.now)
    with pytest.raises(BindingError, match="revoked since") as caught:
        world.commit(trust=Trust.load(path, []))
    assert caught.value.binding is Binding.AUTHORITY
    assert [p.name for p in world.run_dir.iterdir()] == []
    assert world.states() == [(1, "intent")]


def test_an_expired_key_signs_nothing_new(world: World) -> None:
    """Clock rollback: the time of the intent is the ledger's, which runs forward only."""
    key = replace(world.trust.keys[0], valid_until=world.clock.now)
    with pytest.raises(BindingError, match="valid only until"):
        world.commit(trust=replace(world.trust, keys=(key,)))
    assert [p.name for p in world.run_dir.iterdir()] == []
    # Setting the clock back to the key's time does not help: the ledger has moved on.
    world.clock.now -= timedelta(days=1)
    with pytest.raises(EvalkitError, match="behind the last entry"):
        world.commit(phase=REVEAL, trust=replace(world.trust, keys=(key,)))


def test_what_a_key_may_sign_leaves_out_the_revoked(chain: Chain, path: Path) -> None:
    trust = load(path, chain.file(revocations=[revocation(chain.entries[2], SINCE)]))
    assert trust.keys_for(EX_ANTE, "r1", NOW) == (chain.entries[0],)
    assert trust.keys_for(EX_ANTE, "r1", NOW + 30 * DAY) == ()


# --- what it means for rotations ------------------------------------------------------------------


def test_rotation_by_a_stolen_old_key_after_revocation(chain: Chain, path: Path) -> None:
    """The thief's rotation was followed before the theft was known; then the key is revoked."""
    entry, stolen = chain.thief(0, NOW + 6 * DAY)
    pin(path, chain.entries[0])
    pin_chain(path, chain.export() | {"rotations": [stolen]}, where="f", now=LATER)
    trust = Trust.load(path, [])
    assert trust.suspension(entry.key_id) == ""
    for reason in ("superseded", "lost", "compromised"):
        revoke(path, chain.entries[0].key_id, reason=reason, since=SINCE, now=LATER)
        trust = Trust.load(path, [])
        assert trust.suspension(entry.key_id), reason
        assert trust.keys_for(EX_ANTE, "r1", LATER) == ()


@pytest.mark.parametrize(
    ("reason", "since", "counts"),
    [
        ("superseded", NOW + 2 * DAY, True),
        ("lost", NOW + 2 * DAY, True),
        ("compromised", NOW + 2 * DAY, False),
        # the rotation is dated NOW + 1 day: at or after the revocation it never counts
        ("superseded", NOW + DAY, False),
        ("lost", NOW, False),
        ("compromised", NOW, False),
    ],
)
def test_which_rotations_of_a_revoked_key_stand(
    chain: Chain, path: Path, reason: str, since: datetime, counts: bool
) -> None:
    trust = load(path, chain.file(revocations=[revocation(chain.entries[0], since, reason)]))
    for signer in chain.signers[1:]:
        envelope = signed(
            signer, NOW + 2 * DAY - timedelta(seconds=1) if signer is chain.signers[1] else LATER
        )
        if counts:
            check(envelope, trust, LATER)
        else:
            unauthorised(envelope, trust, LATER, "suspended")
            # not even if an authority saw it: whose key it is, is what is in doubt
            unauthorised(envelope, trust, LATER, "suspended", attested_at=NOW - DAY)


def test_a_compromised_key_takes_only_what_hangs_from_it(chain: Chain, path: Path) -> None:
    trust = load(path, chain.file(revocations=[revocation(chain.entries[1], SINCE)]))
    assert [bool(trust.suspension(e.key_id)) for e in chain.entries] == [False, False, True]
    assert check(signed(chain.signers[0], NOW), trust, LATER).key == chain.entries[0]


def test_a_suspended_key_counts_again_by_decision(chain: Chain, path: Path) -> None:
    load(path, chain.file(revocations=[revocation(chain.entries[0], SINCE)]))
    second, third = chain.entries[1:]
    envelope = signed(chain.signers[2], LATER)
    before = path.read_bytes()
    with pytest.raises(BindingError, match="suspended") as caught:
        pin(path, second)
    assert "--again" in caught.value.do
    assert path.read_bytes() == before
    pin(path, second, again=True)
    trust = Trust.load(path, [])
    assert [bool(trust.suspension(e.key_id)) for e in chain.entries] == [False, False, False]
    assert trust.rotation_to(second.key_id) is None
    assert trust.rotation_to(third.key_id) is not None
    check(envelope, trust, LATER)
    # The old chain, shown again, does not hang it from the compromised key once more.
    before = path.read_bytes()
    assert pin_chain(path, chain.export(), where="f", now=LATER).proven_by == second.key_id
    assert path.read_bytes() == before


def test_pinning_again_needs_no_decision_where_nothing_is_suspended(chain: Chain, path: Path) -> None:
    load(path, chain.file())
    before = path.read_bytes()
    pin(path, chain.entries[1], again=True)
    assert path.read_bytes() == before


# --- revoking -------------------------------------------------------------------------------------


def test_revoke_writes_and_is_idempotent(lone: Chain, path: Path) -> None:
    pin(path, lone.entries[0])
    key = lone.entries[0].key_id
    made = revoke(path, key, reason="lost", since=SINCE, comment="left on a train", now=LATER)
    record = json.loads(path.read_bytes())["revocations"]
    assert record == [made.record()]
    assert record == [
        {"key_id": key, "since": "2026-12-05T12:00:00Z", "reason": "lost", "comment": "left on a train"}
    ]
    before, inode = path.read_bytes(), path.stat().st_ino
    for since in (SINCE, None):
        revoke(path, key, reason="lost", since=since, now=LATER + DAY)
    assert (path.read_bytes(), path.stat().st_ino) == (before, inode)


def test_without_a_time_it_is_now(lone: Chain, path: Path) -> None:
    pin(path, lone.entries[0])
    before = datetime.now(UTC)
    made = revoke(path, lone.entries[0].key_id, reason="lost")
    assert before <= made.since <= datetime.now(UTC)
    assert Trust.load(path, []).revocations == (made,)


def test_a_revocation_only_grows(lone: Chain, path: Path) -> None:
    pin(path, lone.entries[0])
    key = lone.entries[0].key_id
    revoke(path, key, reason="superseded", since=SINCE, now=LATER)

    def shrinks(**fields: Any) -> None:
        before = path.read_bytes()
        with pytest.raises(EvalkitError, match="revoked") as caught:
            revoke(path, key, now=LATER, **fields)
        assert "never shrinks" in caught.value.expected
        assert path.read_bytes() == before

    shrinks(reason="superseded", since=SINCE + timedelta(microseconds=1))
    earlier = SINCE - DAY
    assert revoke(path, key, reason="superseded", since=earlier, now=LATER).since == earlier
    shrinks(reason="superseded", since=SINCE)
    assert revoke(path, key, reason="compromised", now=LATER).since == earlier
    shrinks(reason="lost")
    shrinks(reason="lost", since=earlier - DAY)
    shrinks(reason="compromised", since=SINCE)


def test_what_cannot_be_revoked(lone: Chain, path: Path) -> None:
    pin(path, lone.entries[0])
    before = path.read_bytes()
    key = lone.entries[0].key_id
    for arguments, match in (
        ({"key_id": lone.make_signer().key_id, "reason": "lost"}, "not pinned"),
        ({"key_id": key, "reason": "tired"}, "not a reason"),
        ({"key_id": key, "reason": "lost", "since": LATER + DAY}, "still to come"),
        ({"key_id": key, "reason": "lost", "since": datetime(2026, 1, 1)}, "time zone"),
    ):
        with pytest.raises(EvalkitError, match=match):
            revoke(path, now=LATER, **arguments)
    assert path.read_bytes() == before


def test_revocations_at_the_same_time_all_stay(make_signer: Callable[..., Any], path: Path) -> None:
    entries = [TrustedKey.of(make_signer().public_key) for _ in range(8)]
    for entry in entries:
        pin(path, entry)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda e: revoke(path, e.key_id, reason="lost"), entries))
    assert {r.key_id for r in Trust.load(path, []).revocations} == {e.key_id for e in entries}


def test_a_killed_revocation_leaves_the_file_whole(
    lone: Chain, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import os

    pin(path, lone.entries[0])
    before = path.read_bytes()

    def killed(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "rename", killed)
    with pytest.raises(KeyboardInterrupt):
        revoke(path, lone.entries[0].key_id, reason="lost")
    assert path.read_bytes() == before
    assert [p.name for p in path.parent.iterdir()] == ["trust.json"]


# --- the section ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"reason": "tired"}, "not a reason"),
        ({"reason": None}, "not a reason"),
        ({"since": None}, "not a time"),
        ({"since": "2026-12-05"}, "not a time"),
        ({"since": "2026-12-05T12:00:00+00:00"}, "not a time"),
        ({"since": "2026-02-30T12:00:00Z"}, "not a time"),
        ({"comment": None}, "not text"),
        ({"key_id": "sha256:" + "0" * 64}, "names no key"),
        ({"key_id": "sha256:0"}, "not a key id"),
        ({"key_id": 1}, "not a key id"),
        ({"extra": 1}, "missing or unknown"),
    ],
)
def test_malformed_revocations_are_refused(
    lone: Chain, path: Path, change: dict[str, Any], match: str
) -> None:
    """A slip in the key id must not leave the key that was meant."""
    refused(path, lone.file(revocations=[revocation(lone.entries[0], SINCE) | change]), match)


def test_revocations_have_all_their_fields_once(lone: Chain, path: Path) -> None:
    good = revocation(lone.entries[0], SINCE)
    for field in good:
        refused(path, lone.file(revocations=[{k: v for k, v in good.items() if k != field}]), "missing")
    refused(path, lone.file(revocations=[good, good]), "revoked twice")
    refused(path, lone.file(revocations={}), "not a list")
    refused(path, lone.file(revocations=[1]), "missing or unknown")


def test_what_a_key_is_worth_in_one_word(make_signer: Callable[..., Any], path: Path) -> None:
    """Each word at the moment from which it holds, and the one before."""
    chain, tick = Chain(make_signer, (1, 2)), timedelta(microseconds=1)
    value = chain.file()
    value["keys"][2]["valid_until"] = "2026-12-05T12:00:00Z"  # NOW + 5 * DAY
    trust = load(path, value)
    first, second, third = trust.keys
    assert [
        trust.status(key, at).word
        for key, at in (
            (first, NOW - tick), (first, NOW), (first, NOW + DAY),
            (second, NOW + DAY - tick), (second, NOW + DAY),
            (third, NOW + 5 * DAY - tick), (third, NOW + 5 * DAY),
        )
    ] == ["not_yet", "rotated", "rotated", "not_yet", "rotated", "valid", "expired"]  # fmt: skip
    assert trust.status(first, NOW + DAY - tick).text.endswith("valid until 2026-12-01T12:00:00Z")
    assert trust.status(first, NOW + DAY).text.endswith("ended 2026-12-01T12:00:00Z")
    assert trust.status(third, NOW + 4 * DAY).text == "valid until 2026-12-05T12:00:00Z"
    assert trust.status(third, NOW + 5 * DAY).text == "expired, ended 2026-12-05T12:00:00Z"
    endless = load(path, chain.file(keys=[third.record() | {"valid_until": None}], rotations=[]))
    assert endless.status(endless.keys[0], NOW + 900 * DAY).text == "valid"
    revoked = load(path, value | {"revocations": [revocation(chain.entries[1], NOW + DAY)]})
    assert [revoked.status(key, NOW + 3 * DAY).word for key in revoked.keys] == [
        "rotated",
        "revoked",
        "suspended",
    ]
