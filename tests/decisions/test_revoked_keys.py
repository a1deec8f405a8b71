"""A run whose key has ended or was revoked: what only the signer's clock says, and what a timestamp saves."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from evalkit.decisions import verify_run
from evalkit.decisions.timestamps import ENVELOPES
from evalkit.errors import Binding, BindingError
from evalkit.sealing.pinning import revoke
from tests.sealing.timestamping import Authority

from .support import World
from .test_timestamps import authority as authority
from .test_timestamps import pin, put, stated


def refused(world: World) -> BindingError:
    with pytest.raises(BindingError, match="revoked since") as caught:
        verify_run(world.run, places=world.places)
    assert caught.value.binding is Binding.AUTHORITY
    return caught.value


def revoked_from(world: World, since: datetime) -> None:
    key_id = str(world.plan["signing_key_id"])
    revoke(world.places.trust, key_id, reason="compromised", since=since)


def test_a_revoked_keys_run_counts_for_nothing(revealed: World) -> None:
    """The signer's word that it is older than the revocation is what a thief would write as well."""
    revoked_from(revealed, datetime.now(UTC))
    refused(revealed)


def test_timestamps_before_the_revocation_save_the_run(revealed: World, authority: Authority) -> None:
    pin(revealed, authority)
    for phase in ENVELOPES:
        put(revealed, authority, phase, stated(revealed, phase) + timedelta(seconds=1))
    revoked_from(revealed, datetime.now(UTC) + timedelta(seconds=4))
    report = verify_run(revealed.run, places=revealed.places)
    assert report.phase == "post_reveal_calibration"


@pytest.mark.parametrize("phase", list(ENVELOPES))
def test_each_phase_needs_its_own(revealed: World, authority: Authority, phase: str) -> None:
    pin(revealed, authority)
    for other in ENVELOPES:
        if other != phase:
            put(revealed, authority, other, stated(revealed, other) + timedelta(seconds=1))
    revoked_from(revealed, datetime.now(UTC) + timedelta(seconds=4))
    refused(revealed)


def test_timestamps_after_the_revocation_save_nothing(revealed: World, authority: Authority) -> None:
    since = min(stated(revealed, phase) for phase in ENVELOPES)
    pin(revealed, authority)
    for phase in ENVELOPES:
        put(revealed, authority, phase, since + timedelta(minutes=1))
    revoked_from(revealed, since)
    refused(revealed)
