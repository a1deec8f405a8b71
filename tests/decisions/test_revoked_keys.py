"""A run whose key has ended or was revoked: what only the signer's clock says, and what a timestamp saves."""

from __future__ import annotations

import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

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


def test_what_was_stamped_is_what_is_judged(
    revealed: World, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who can write the run while it is verified: each file is read once, so there is nothing to swap between."""
    pin(revealed, authority)
    for phase in ENVELOPES:
        put(revealed, authority, phase, stated(revealed, phase) + timedelta(seconds=1))
    opened: Counter[str] = Counter()
    real = os.open

    def counted(path: Any, *args: Any, **other: Any) -> int:
        fd = real(path, *args, **other)
        name = str(Path(f"/proc/self/fd/{fd}").readlink())
        if name.startswith(str(revealed.run)) and not Path(name).is_dir():
            opened[name.removeprefix(f"{revealed.run}/")] += 1
        return fd

    monkeypatch.setattr(os, "open", counted)
    verify_run(revealed.run, places=revealed.places)
    evidence = {name: times for name, times in opened.items() if not name.startswith("sealed/")}
    assert evidence
    assert {name for name, times in evidence.items() if times > 1} == set()
    assert set(ENVELOPES.values()) <= set(evidence)
