"""Changing one's signing key: at every moment there is a key, and no plan is hidden by the change."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    AgentSigner,
    Ledger,
    Places,
    Trust,
    TrustedKey,
    create_signing_key,
    key_id,
    pin,
    resolve_signer,
    revoke,
    sign,
    verify,
)
from evalkit.sealing.keys import public_part
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.rotation import ROTATION
from evalkit.sealing.successor import Rotated, rotate

EX_ANTE = PREDICATES["decisions/ex-ante"]
START = datetime(2026, 11, 1, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class Stopped(Exception):
    """The process ends here."""


def own(places: Places) -> str:
    return key_id(public_part(places.signing_key)[0])


def turn(places: Places, at: datetime = START, **other: object) -> Rotated:
    arguments = {"passphrase": lambda: None, "clock": lambda: at} | other
    return rotate(places, places.trust, **arguments)


@pytest.fixture
def places() -> Places:
    places = Places.from_environment()
    public = create_signing_key(places.signing_key)
    pin(places.trust, TrustedKey.of(public, roles=("evaluator",), predicate_types=(EX_ANTE, ROTATION)))
    return places


def events(places: Places, key: str) -> list[dict[str, object]]:
    return [entry.record for entry in Ledger(places.ledger(key)).entries()]


def test_the_new_key_takes_the_place_of_the_old(places: Places) -> None:
    old = own(places)
    before = places.signing_key.read_bytes()
    Ledger(places.ledger(old), clock=lambda: START).append("precommit", run_id="r1")
    done = turn(places)
    new = own(places)
    assert done.rotation.next.key_id == new != old
    assert not done.resumed
    assert done.retired == places.retired_signing_key(old)
    assert done.retired.read_bytes() == before
    assert sorted(p.name for p in places.signing_key.parent.iterdir()) == sorted(
        ["signing", f"signing-{old[7:]}"]
    )
    for path in (places.signing_key, done.retired):
        assert path.stat().st_mode & 0o777 == 0o600
        assert path.stat().st_nlink == 1
    trust = Trust.load(places.trust, [])
    entry = trust.key(new)
    assert entry is not None
    assert entry.valid_from == START
    assert (entry.roles, entry.predicate_types) == (("evaluator",), (EX_ANTE, ROTATION))
    assert trust.end(trust.keys[0]) == START


def test_the_change_hides_no_plan(places: Places) -> None:
    """Each ledger names the other, and the new one fixes the old one's head."""
    old = own(places)
    ledger = Ledger(places.ledger(old), clock=lambda: START)
    ledger.append("precommit", run_id="r1")
    done = turn(places)
    new = own(places)
    last, first = events(places, old)[-1], events(places, new)[0]
    assert (last["event"], last["next"], last["envelope"]) == ("rotated", new, done.rotation.digest)
    assert (first["event"], first["previous"], first["seq"]) == ("rotation", old, 0)
    assert first["ledger"] == ledger.head.record()


def test_serials_count_up(places: Places) -> None:
    keys = [own(places)]
    for n in range(3):
        done = turn(places, START + n * DAY)
        assert done.rotation.serial == n + 1
        keys.append(own(places))
    trust = Trust.load(places.trust, [])
    assert [key.key_id for key in trust.keys] == keys
    with resolve_signer(places, key_id=keys[1]) as signer:
        assert signer.key_id == keys[1]
    with resolve_signer(places, key_id=keys[3]) as signer:
        assert signer.key_id == keys[3]


def test_an_overlap_leaves_time_to_finish(places: Places) -> None:
    old = own(places)
    turn(places, overlap=3 * DAY)
    trust = Trust.load(places.trust, [])
    assert trust.end(trust.keys[0]) == START + 3 * DAY
    with resolve_signer(places, key_id=old) as signer:
        for at, fits in ((START + 2 * DAY, True), (START + 3 * DAY, False)):
            envelope = sign("f.json", b"{}", predicate_type=EX_ANTE, predicate={}, signer=signer, at=at)

            def check(envelope: bytes = envelope, at: datetime = at) -> None:
                verify(envelope, subject_name="f.json", predicate_type=EX_ANTE, trust=trust, at=at)

            if fits:
                check()
            else:
                with pytest.raises(BindingError, match="valid only until"):
                    check()


# --- crashes --------------------------------------------------------------------------------------

STEPS = ("create", "sign", "pin", "ledgers", "ledger-next", "retire", "swap", "swap-fsync")


def usable(places: Places) -> None:
    """The key at ``signing`` is whole, and some key of the folder may sign now."""
    with resolve_signer(places) as signer:
        assert len(signer.sign(b"DSSEv1 ")) == 64


def test_the_steps_are_these(places: Places) -> None:
    seen: list[str] = []
    turn(places, observe=seen.append)
    assert tuple(seen) == STEPS


@pytest.mark.parametrize("step", STEPS)
def test_stopped_at_any_step_and_run_again(places: Places, step: str) -> None:
    def stop(now: str) -> None:
        if now == step:
            raise Stopped

    old = own(places)
    with pytest.raises(Stopped):
        turn(places, observe=stop)
    usable(places)
    trust = Trust.load(places.trust, [])
    stands = trust.rotation_from(old)
    assert (stands is not None) == (STEPS.index(step) > STEPS.index("pin"))
    if step in ("create", "sign"):
        assert [p.name for p in places.signing_key.parent.iterdir()] == ["signing"], "nothing names another"
    if step == "swap-fsync":
        assert own(places) != old
        return  # finished, but for the sync of the folder
    assert own(places) == old
    done = turn(places, START + DAY)
    assert done.resumed == (stands is not None)
    if stands is not None:
        assert done.rotation == stands
    assert own(places) == done.rotation.next.key_id
    usable(places)
    trust = Trust.load(places.trust, [])
    assert len(trust.rotations) == 1
    assert [e["event"] for e in events(places, old)] == ["rotated"]
    assert [e["event"] for e in events(places, own(places))] == ["rotation"]
    assert public_part(places.retired_signing_key(old))[0] == trust.keys[0].public_key
    # What the first try made and nobody knows is set aside, not lost and not taken for the next key.
    assert not places.next_signing_key.exists()


@pytest.mark.parametrize("step", STEPS)
def test_killed_at_any_step_and_run_again(places: Places, step: str) -> None:
    """As before, with a process that ends without any clean-up."""
    program = (
        "import os, sys\n"
        "from evalkit.sealing import Places\n"
        "from evalkit.sealing.successor import rotate\n"
        "places = Places.from_environment()\n"
        "rotate(places, places.trust, passphrase=lambda: None,\n"
        "       observe=lambda step: os._exit(9) if step == sys.argv[1] else None)\n"
    )
    old = own(places)
    done = subprocess.run([sys.executable, "-c", program, step], check=False, capture_output=True)
    assert done.returncode == 9, done.stderr
    usable(places)
    if own(places) == old:
        turn(places, datetime.now(UTC) + timedelta(seconds=1))
    assert len(Trust.load(places.trust, []).rotations) == 1
    assert [e["event"] for e in events(places, own(places))] == ["rotation"]


def test_a_torn_next_key_is_made_anew(places: Places) -> None:
    old = own(places)
    places.next_signing_key.write_bytes(b"-----BEGIN OPENSSH")
    places.next_signing_key.chmod(0o600)
    turn(places)
    assert own(places) != old


def test_a_killed_copy_of_the_old_key_does_not_stay(places: Places) -> None:
    stray = places.signing_key.parent / ".stage.signing-0.1234"
    stray.write_bytes(b"part of a key")
    turn(places)
    assert not stray.exists()


def test_a_successor_whose_file_is_gone_is_said(places: Places) -> None:
    def stop(now: str) -> None:
        if now == "ledgers":
            raise Stopped

    with pytest.raises(Stopped):
        turn(places, observe=stop)
    places.next_signing_key.unlink()
    with pytest.raises(EvalkitError, match="successor is not here"):
        turn(places)
    usable(places)


def test_two_rotations_at_once_make_a_chain_and_no_fork(places: Places) -> None:
    program = (
        "from evalkit.sealing import Places\n"
        "from evalkit.sealing.successor import rotate\n"
        "places = Places.from_environment()\n"
        "rotate(places, places.trust, passphrase=lambda: None)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program]) for _ in range(3)]
    assert [process.wait() for process in running] == [0, 0, 0]
    trust = Trust.load(places.trust, [])
    assert sorted(r.serial for r in trust.rotations) == [1, 2, 3]
    assert own(places) == trust.keys[-1].key_id


# --- who may --------------------------------------------------------------------------------------


def test_a_key_that_may_not_name_a_successor(places: Places) -> None:
    key = Trust.load(places.trust, []).keys[0]

    def refused(match: str) -> None:
        before = {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()}
        with pytest.raises(BindingError, match=match) as caught:
            turn(places, START + DAY)
        assert caught.value.binding is Binding.AUTHORITY
        assert caught.value.do
        assert {p: p.read_bytes() for p in places.config.rglob("*") if p.is_file()} == before

    places.trust.unlink()
    pin(places.trust, TrustedKey.of(key.public_key, predicate_types=(EX_ANTE,)))
    refused("not pinned for")
    places.trust.unlink()
    pin(places.trust, TrustedKey.of(key.public_key, predicate_types=(ROTATION,), valid_until=START))
    refused("valid only until")
    places.trust.unlink()
    pin(places.trust, TrustedKey.of(bytes(31) + b"\x05", predicate_types=(ROTATION,)))
    refused("not pinned")
    places.trust.unlink()
    pin(places.trust, key)
    revoke(places.trust, key.key_id, reason="superseded", since=START, now=START)
    refused("revoked since")


def test_no_key_no_rotation() -> None:
    places = Places.from_environment()
    with pytest.raises(EvalkitError, match="no signing key"):
        turn(places)
    assert not places.config.exists()


def test_clock_rollback_makes_no_backdated_rotation(places: Places) -> None:
    old = own(places)
    Ledger(places.ledger(old), clock=lambda: START).append("note")
    with pytest.raises(EvalkitError, match="behind the last entry"):
        turn(places, START - timedelta(seconds=6))
    assert Trust.load(places.trust, []).rotations == ()
    # A small correction takes the ledger's time, as the ledger itself does.
    assert turn(places, START - timedelta(seconds=4)).rotation.signed_at == START


def test_the_agent_signs_the_rotation(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, agent: Path
) -> None:
    """With the key in the agent no passphrase of the old key is needed."""
    subprocess.run(["ssh-add", "-q", str(places.signing_key)], check=True, capture_output=True)
    assert AgentSigner(public_part(places.signing_key)[0]).holds_key()

    def no_process(*_: object, **__: object) -> None:
        raise AssertionError("the agent holds the key")

    monkeypatch.setattr("evalkit.sealing.signer.HelperSigner", no_process)
    turn(places)
    assert len(Trust.load(places.trust, []).rotations) == 1


@pytest.fixture
def agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    if shutil.which("ssh-agent") is None or shutil.which("ssh-add") is None:
        pytest.skip("ssh-agent or ssh-add is not installed")
    socket = tmp_path / "agent"
    process = subprocess.Popen(["ssh-agent", "-D", "-a", str(socket)], stdout=subprocess.DEVNULL)
    try:
        for _ in range(100):
            if socket.exists():
                break
            time.sleep(0.02)
        monkeypatch.setenv("SSH_AUTH_SOCK", str(socket))
        yield socket
    finally:
        process.terminate()
        process.wait()


def test_a_keys_folder_that_others_may_write_is_refused(
    as_another_user: Callable[[Callable[[Path], None]], None],
) -> None:
    def attempt(folder: Path) -> None:
        places = Places(folder / "config", folder / "state")
        public = create_signing_key(places.signing_key)
        pin(places.trust, TrustedKey.of(public, predicate_types=(EX_ANTE, ROTATION)))
        places.signing_key.parent.chmod(0o777)
        with pytest.raises(EvalkitError, match="others have access"):
            turn(places)
        assert Trust.load(places.trust, []).rotations == ()

    as_another_user(attempt)


def test_a_rotation_is_not_dated_before_the_last_entry_of_the_ledger(places: Places) -> None:
    old = own(places)
    for at in (START, START + DAY):
        Ledger(places.ledger(old), clock=lambda at=at: at).append("note")
    before = places.trust.read_bytes()
    for at in (START + DAY / 2, START + DAY - CLOCK_TOLERANCE - timedelta(microseconds=1)):
        with pytest.raises(EvalkitError, match="is behind the last entry"):
            turn(places, at)
        assert places.trust.read_bytes() == before
    # A small correction of the clock: the rotation bears the ledger's time.
    done = turn(places, START + DAY - CLOCK_TOLERANCE)
    assert done.rotation.next.valid_from == START + DAY
