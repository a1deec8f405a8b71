"""A custodian who changes her key goes on with what it sealed, and her count goes over all her ledgers."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from decisions.support import World
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import Ledger, canonical_json, pin
from evalkit.sealing.pinning import pin_rotation
from evalkit.sealing.rotation import Rotation
from evalkit.sealing.successor import rotate

from .people import Two, entry

OVERLAP = timedelta(days=30)


def rotatable(two: Two) -> Two:
    """Both trust files pin both keys, and each key for its own successor as well."""
    for world in (two.custodian, two.evaluator):
        world.places.trust.unlink()
        pin(world.places.trust, entry(two.custodian, (*CUSTODY_PHASES, "trust/rotation")))
        pin(world.places.trust, entry(two.evaluator, (*SIGNED_PHASES, "trust/rotation")))
    return two


def turn(world: World, overlap: timedelta) -> Rotation:
    return rotate(world.places, world.places.trust, passphrase=lambda: None, overlap=overlap).rotation


def released(two: Two, key_id: str) -> list[dict[str, object]]:
    entries = Ledger(two.custodian.places.ledger(key_id)).entries()
    return [e.record for e in entries if e.record["event"] == "released"]


def test_what_the_old_key_sealed_it_releases_during_the_overlap(asked: Two) -> None:
    two = rotatable(asked)
    old = two.custodian_id
    turn(two.custodian, OVERLAP)
    assert two.custodian_id != old
    assert two.answer().key_id == old
    assert len(released(two, old)) == 1, "in the ledger that tells of the bundle"
    assert released(two, two.custodian_id) == []
    two.reveal()
    assert two.verify().phase == "post_reveal_calibration"


@pytest.mark.parametrize("overlap", [OVERLAP, timedelta(0)])
def test_what_was_released_before_the_rotation_is_given_again(
    answered: Two, tmp_path: Path, overlap: timedelta
) -> None:
    """After the overlap as well: the statement follows from the ledger, and nothing new is signed."""
    two = rotatable(answered)
    old = two.custodian_id
    turn(two.custodian, overlap)
    again = two.answer(out=tmp_path / "again")
    assert again.again
    assert (tmp_path / "again").read_bytes() == two.opening.read_bytes()
    assert len(released(two, old)) == 1


def test_after_the_overlap_nothing_new_is_released_and_nothing_is_recorded(asked: Two) -> None:
    two = rotatable(asked)
    old = two.custodian_id
    turn(two.custodian, timedelta(0))
    with pytest.raises(BindingError, match="can release it no more: it was valid only until") as error:
        two.answer()
    assert error.value.binding is Binding.AUTHORITY
    assert "seal another bundle" in error.value.do
    assert not two.opening.exists()
    assert released(two, old) == []


def test_a_rotated_key_that_is_gone_is_named(asked: Two) -> None:
    two = rotatable(asked)
    old = two.custodian_id
    turn(two.custodian, OVERLAP)
    path = two.custodian.places.retired_signing_key(old)
    path.unlink()
    with pytest.raises(EvalkitError, match="was rotated, and its file is not here") as error:
        two.answer()
    assert error.value.where == str(path)
    assert not two.opening.exists()


def test_the_count_of_other_bundles_goes_over_all_keys(asked: Two, tmp_path: Path) -> None:
    """Else a new key would be a new count: many bundles, the best one shown."""
    two = rotatable(asked)
    rotation = turn(two.custodian, OVERLAP)
    pin_rotation(two.evaluator.places.trust, canonical_json(rotation.record()))
    two.seal(tmp_path / "b2")
    assert two.answer().others == {"sealed": 1, "released": 0}
    two.plan(tmp_path / "b2", out=tmp_path / "r2")
    two.evaluate(tmp_path / "r2")
    two.ask(tmp_path / "q2", tmp_path / "r2")
    assert two.answer(tmp_path / "q2", tmp_path / "o2").others == {"sealed": 1, "released": 1}


def test_verify_says_what_only_the_custodians_clock_says(answered: Two) -> None:
    """Her key ended since: that bundle and release are older, nobody else states."""
    two = rotatable(answered)
    two.reveal()
    caveats = [line for line in two.verify().lines if "before its validity ended" in line.text]
    assert caveats == []
    pin_rotation(two.evaluator.places.trust, canonical_json(turn(two.custodian, timedelta(0)).record()))
    caveats = [line for line in two.verify().lines if "before its validity ended" in line.text]
    assert [(c.status, c.detail, c.topic) for c in caveats] == [
        ("not proven", "bundle.json", "custody"),
        ("not proven", "openings.json", "custody"),
    ]
