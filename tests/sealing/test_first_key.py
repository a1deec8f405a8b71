"""The first keys of an account: what is missing is made, what is there is kept, nothing is made in vain."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing import PREDICATES, Places, Trust, TrustedKey
from evalkit.sealing.first_key import Begun, begin
from evalkit.sealing.keys import load_unsealing_key, public_part
from evalkit.sealing.pinning import revoke


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places(config=tmp_path / "config", state=tmp_path / "state")


def entry(public: bytes) -> TrustedKey:
    return TrustedKey.of(public, predicate_types=tuple(PREDICATES.values()))


def start(places: Places, asked: list[int] | None = None) -> Begun:
    def passphrase() -> None:
        if asked is not None:
            asked.append(1)

    return begin(places, places.trust, entry=entry, passphrase=passphrase)


def test_both_keys_are_made_and_the_signing_key_is_pinned(places: Places) -> None:
    asked: list[int] = []
    begun = start(places, asked)
    assert (begun.signing_kept, begun.unsealing_kept, len(asked)) == (False, False, 1)
    assert public_part(places.signing_key)[0] == begun.public
    assert load_unsealing_key(places.unsealing_key)
    assert Trust.load(places.trust, []).keys == (entry(begun.public),)


def test_a_pinned_key_is_refused_before_a_passphrase_is_asked(places: Places) -> None:
    start(places)
    before = places.signing_key.read_bytes()
    asked: list[int] = []
    with pytest.raises(EvalkitError, match="have a signing key already") as caught:
        start(places, asked)
    assert asked == []
    assert places.signing_key.read_bytes() == before
    assert "keys rotate" in caught.value.do


def test_a_key_that_counts_no_more_is_to_be_moved_away(places: Places) -> None:
    own = entry(start(places).public).key_id
    since = datetime.now(UTC) - timedelta(hours=1)
    revoke(places.trust, own, reason="compromised", since=since)
    with pytest.raises(EvalkitError, match="have a signing key already") as caught:
        start(places)
    assert f"mv {places.signing_key} " in caught.value.do


def test_a_key_that_is_not_pinned_is_kept_and_pinned(places: Places) -> None:
    """After an interruption, or where the trust file was lost."""
    first = start(places)
    places.trust.unlink()
    asked: list[int] = []
    again = start(places, asked)
    assert again == Begun(first.public, signing_kept=True, unsealing_kept=True)
    assert asked == []
    assert Trust.load(places.trust, []).key(entry(first.public).key_id)
    places.trust.write_bytes(
        places.trust.read_bytes().replace(entry(first.public).record()["public_key"].encode(), b"")
    )
    with pytest.raises(EvalkitError):
        start(places)


def test_an_unsealing_key_is_never_made_anew(places: Places) -> None:
    """A custodian's opens every bundle that she sealed."""
    first = start(places)
    kept = places.unsealing_key.read_bytes()
    places.signing_key.rename(places.retired_signing_key(entry(first.public).key_id))
    begun = start(places)
    assert (begun.signing_kept, begun.unsealing_kept) == (False, True)
    assert begun.public != first.public
    assert places.unsealing_key.read_bytes() == kept
    assert len(Trust.load(places.trust, []).keys) == 2


def test_an_unsealing_key_that_does_not_open_stops_before_anything_is_made(places: Places) -> None:
    places.create()
    places.unsealing_key.write_bytes(b"x")
    places.unsealing_key.chmod(0o600)
    with pytest.raises(EvalkitError, match="not an unsealing key"):
        start(places)
    assert not places.signing_key.exists()
    assert not places.trust.exists()
