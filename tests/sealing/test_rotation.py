"""Rotations: who may name a successor, what the successor may do, and every way to cheat with it."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import PREDICATES, Trust, TrustedKey, load_canonical, sign, verify
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.pinning import chain_record, pin, pin_chain, pin_rotation
from evalkit.sealing.rotation import ROTATION, SUBJECT, sign_rotation
from evalkit.sealing.trust import Contents

from .trustfiles import (
    DAY,
    EX_ANTE,
    NOW,
    Chain,
    canonical_json,
    check,
    load,
    refused,
    revocation,
    signed,
    unauthorised,
    write,
)

PLAN = PREDICATES["decisions/precommit"]


@pytest.fixture
def chain(make_signer: Callable[..., Any]) -> Chain:
    return Chain(make_signer, (1, 2))


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "trust.json"


def test_each_key_speaks_for_its_own_time(chain: Chain, path: Path) -> None:
    trust = load(path, chain.file())
    first, second, third = chain.signers
    later = NOW + 9 * DAY
    assert check(signed(first, NOW), trust, NOW).caveats == ()
    # The rotation ended the first key, though its entry has no end.
    assert trust.key(first.key_id).valid_until is None
    assert trust.end(chain.entries[0]) == NOW + DAY
    (caveat,) = check(signed(first, NOW), trust, later).caveats
    assert "own clock" in caveat
    unauthorised(signed(first, NOW + DAY), trust, later, "valid only until")
    check(signed(second, NOW + DAY), trust, later)
    unauthorised(signed(second, NOW), trust, later, "valid only from")
    assert check(signed(third, NOW + 3 * DAY), trust, later).caveats == ()


def test_the_earlier_end_counts(chain: Chain, path: Path) -> None:
    value = chain.file()
    value["keys"][0]["valid_until"] = "2027-01-01T00:00:00Z"
    assert load(path, value).end(load(path, value).keys[0]) == NOW + DAY
    # An end before the rotation was signed means that the key could not sign it.
    overlap = chain.rotation(0, ends_previous=NOW + 40 * DAY)
    value["rotations"][0] = overlap
    trust = load(path, value)
    assert trust.end(trust.keys[0]).isoformat() == "2027-01-01T00:00:00+00:00"


def test_a_rotation_is_an_envelope_like_any_other(chain: Chain, path: Path) -> None:
    # by who has pinned the old key only; the rotation itself then ends it at that very moment
    pin(path, chain.entries[0])
    trust = Trust.load(path, [])
    verified = verify(
        canonical_json(chain.rotations[0]),
        subject_name=SUBJECT,
        predicate_type=ROTATION,
        trust=trust,
        at=NOW + DAY,
    )
    verified.check_subject(canonical_json(chain.entries[1].record()))
    assert verified.subject_name == "key.json"  # as docs/formats/trust.md says
    assert verified.predicate == {
        "previous": chain.entries[0].key_id,
        "next": chain.entries[1].record(),
        "serial": 1,
        "ends_previous": "2026-12-01T12:00:00.000000Z",
        "signed_at": "2026-12-01T12:00:00.000000Z",
    }


def test_phase_confusion_a_rotation_is_nothing_else(chain: Chain, path: Path) -> None:
    value = chain.file()
    record = chain.entries[1].record()
    said = {"previous": chain.entries[0].key_id, "next": record, "serial": 1,
            "ends_previous": "2026-12-01T12:00:00.000000Z"}  # fmt: skip
    made = {"predicate": said, "signer": chain.signers[0], "at": NOW + DAY}
    right = sign(SUBJECT, canonical_json(record), predicate_type=ROTATION, **made)
    load(path, value | {"rotations": [load_canonical(right), value["rotations"][1]]})
    for name, kind in ((SUBJECT, EX_ANTE), ("run.json", ROTATION)):
        wrong = sign(name, canonical_json(record), predicate_type=kind, **made)
        refused(path, value | {"rotations": [load_canonical(wrong)]}, "another (phase|file)")


# --- rule 1: who signs ----------------------------------------------------------------------------


def test_a_foreign_key_cannot_name_a_successor(chain: Chain, path: Path) -> None:
    """Key substitution: the claimed keyid is the pinned one, the signature is not."""
    thief = chain.make_signer()
    thief.key_id = chain.entries[0].key_id
    forged = chain.rotation(0, signer=thief)
    refused(path, chain.file(rotations=[forged]), "signature does not hold")
    stranger = chain.make_signer()
    refused(path, chain.file(rotations=[chain.rotation(0, signer=stranger)]), "no pinned key")


def test_a_pinned_key_cannot_sign_for_another_predecessor(chain: Chain, path: Path) -> None:
    """Key 2 signs 'key 0 names key 1': pinned, but not the predecessor."""

    class Posing:
        public_key, key_id = chain.signers[2].public_key, chain.signers[0].key_id
        sign = staticmethod(chain.signers[2].sign)

    posed = chain.rotation(0, signer=Posing())
    refused(path, chain.file(rotations=[posed]), "not signed by the predecessor")


def test_the_hint_of_a_rotation_must_be_true(chain: Chain, path: Path) -> None:
    """The signature does not cover it, so nothing else would hold it."""
    value = chain.file()
    value["rotations"][0]["signatures"][0]["keyid"] = chain.entries[2].key_id
    refused(path, value, "not signed by the predecessor")


def test_a_key_needs_the_right_to_name_a_successor(make_signer: Callable[..., Any], path: Path) -> None:
    refused(path, Chain(make_signer, predicate_types=(EX_ANTE,)).file(), "may not sign this rotation")
    refused(path, Chain(make_signer, runs=("r1",)).file(), "other runs")
    ephemeral = Chain(make_signer, runs=("r1",), ephemeral=True)
    refused(path, ephemeral.file(), "no pinned key made this signature")


def test_the_predecessor_must_be_valid_when_it_signs(chain: Chain, path: Path) -> None:
    value = chain.file()
    value["keys"][0]["valid_until"] = "2026-12-01T12:00:00Z"  # exclusive: just ended
    refused(path, value, "valid only until")
    value["keys"][0]["valid_until"] = "2026-12-01T12:00:00.000001Z"
    load(path, value)
    value["keys"][0]["valid_from"] = "2026-12-01T12:00:00.000001Z"
    value["keys"][0]["valid_until"] = None
    refused(path, value, "valid only from")


# --- rule 2: what it says -------------------------------------------------------------------------


def resigned(chain: Chain, change: Callable[[dict[str, Any]], None]) -> Any:
    """A rotation from key 0 whose predicate was changed before it was signed."""
    record = chain.entries[1].record()
    said = {
        "previous": chain.entries[0].key_id,
        "next": record,
        "serial": 1,
        "ends_previous": "2026-12-01T12:00:00.000000Z",
    }
    subject = canonical_json(record)
    change(said)
    return load_canonical(
        sign(SUBJECT, subject, predicate_type=ROTATION, predicate=said, signer=chain.signers[0], at=NOW + DAY)
    )


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"serial": 0}, "no serial"),
        ({"serial": True}, "no serial"),
        ({"serial": "1"}, "no serial"),
        ({"serial": None}, "no serial"),
        ({"ends_previous": "2026-12-01T11:59:59.999999Z"}, "ends its predecessor before"),
        ({"ends_previous": "2026-12-01T12:00:00Z"}, "ends its predecessor before"),
        ({"ends_previous": None}, "ends its predecessor before"),
        ({"previous": "sha256:" + "0" * 64}, "not signed by the predecessor"),
        ({"surprise": 1}, "missing or unknown"),
        ({"next": {}}, "missing or unknown"),
        ({"next": None}, "missing or unknown"),
    ],
)
def test_statements_that_say_something_else_are_refused_though_signed(
    chain: Chain, path: Path, change: dict[str, Any], match: str
) -> None:
    load(path, chain.file(rotations=[resigned(chain, lambda said: None)]))
    refused(path, chain.file(rotations=[resigned(chain, lambda said: said.update(change))]), match)


def test_the_subject_is_the_new_entry(chain: Chain, path: Path) -> None:
    other = chain.entries[2].record()
    refused(
        path, chain.file(rotations=[resigned(chain, lambda s: s.update(next=other))]), "subject is not its"
    )
    for field in ("previous", "next", "serial", "ends_previous"):
        cut = resigned(chain, lambda said, field=field: said.pop(field))
        refused(path, chain.file(rotations=[cut]), "missing or unknown")


@pytest.mark.parametrize("value", [None, 1, "x", [], {}, {"payload": 1}])
def test_what_is_no_envelope_is_refused(chain: Chain, path: Path, value: Any) -> None:
    refused(path, chain.file(rotations=[value]), "does not verify")
    refused(path, chain.file(rotations=value), "rotations is not a list") if value != [] else None


# --- rule 3: what the new key may do --------------------------------------------------------------


def with_successor(chain: Chain, **fields: Any) -> dict[str, Any]:
    """A file in which key 0 gives key 1 these fields, both signed and pinned."""
    entry = replace(chain.entries[1], **fields)
    value = chain.file(rotations=[chain.rotation(0, entry)])
    value["keys"][1] = entry.record()
    return value


@pytest.mark.parametrize(
    ("fields", "match"),
    [
        ({"roles": ("evaluator", "judge")}, "other roles"),
        ({"predicate_types": (EX_ANTE, ROTATION, PLAN)}, "other predicate_types"),
        ({"custody": "second_party"}, "other custody"),
        ({"ephemeral": True, "runs": ("r1",)}, "other custody"),
    ],
)
def test_no_key_gets_more_by_changing_hands(
    chain: Chain, path: Path, fields: dict[str, Any], match: str
) -> None:
    refused(path, with_successor(chain, **fields), match)


def test_a_successor_may_have_less(chain: Chain, path: Path) -> None:
    for fields in ({"roles": ()}, {"predicate_types": (EX_ANTE,)}, {"runs": ("r1",)}, {"runs": ()}):
        load(path, with_successor(chain, **fields))


def test_runs_stay_within_those_of_the_old_key(chain: Chain, path: Path) -> None:
    for old, new, fits in (
        (None, None, True), (None, ("r1",), True), (("r1", "r2"), ("r1",), True),
        (("r1",), ("r1", "r2"), False), (("r1",), None, False), ((), ("r1",), False),
    ):  # fmt: skip
        limit, entry = replace(chain.entries[0], runs=old), replace(chain.entries[1], runs=new)
        assert (entry.excess(limit) == "") is fits, (old, new)


def test_an_entry_may_be_narrowed_by_hand_and_not_widened(chain: Chain, path: Path) -> None:
    entry = replace(
        chain.entries[1], valid_until=NOW + 9 * DAY, predicate_types=(EX_ANTE,), runs=("r1", "r2")
    )
    base = chain.file(rotations=[chain.rotation(0, entry)])
    for fields, match in (
        ({}, None),
        ({"comment": "mine"}, None),
        ({"roles": ()}, None),
        ({"runs": ("r1",)}, None),
        ({"valid_from": NOW + 2 * DAY, "valid_until": NOW + 8 * DAY}, None),
        ({"valid_from": None}, "longer time"),
        ({"valid_from": NOW}, "longer time"),
        ({"valid_until": None}, "longer time"),
        ({"valid_until": NOW + 10 * DAY}, "longer time"),
        ({"runs": None}, "other runs"),
        ({"predicate_types": (EX_ANTE, ROTATION)}, "other predicate_types"),  # the old key has that right
        ({"roles": ("judge",)}, "other roles"),
        ({"custody": "timelock"}, "other custody"),
    ):
        value = copy.deepcopy(base)
        value["keys"][1] = replace(entry, **fields).record()
        if match is None:
            load(path, value)
        else:
            refused(path, value, match)


def test_the_new_key_must_be_pinned(chain: Chain, path: Path) -> None:
    value = chain.file()
    value["keys"] = value["keys"][:2]
    refused(path, value, "new key is not pinned")


def test_a_small_order_key_cannot_come_by_rotation(chain: Chain, path: Path) -> None:
    from evalkit.sealing.keys import SMALL_ORDER, key_id

    public = min(SMALL_ORDER)

    def change(said: dict[str, Any]) -> None:
        said["next"] = said["next"] | {"public_key": public.hex(), "key_id": key_id(public)}

    refused(path, chain.file(rotations=[resigned(chain, change)]), "small order")


# --- rule 4: one chain ----------------------------------------------------------------------------


def test_a_fork_is_refused(chain: Chain, path: Path) -> None:
    entry, fork = chain.thief(0, NOW + DAY)
    value = chain.file()
    value["keys"].append(entry.record())
    value["rotations"].append(fork)
    refused(path, value, "two successors")
    value["rotations"][-1] = value["rotations"][0]
    refused(path, value, "two successors")


def test_two_keys_cannot_name_the_same_successor(chain: Chain, path: Path) -> None:
    joined = chain.rotation(
        1, chain.entries[2], signer=chain.signers[0], at=NOW + DAY, ends_previous=NOW + DAY
    )
    value = chain.file(rotations=[joined, chain.rotations[1]])
    refused(path, value, "two predecessors")


@pytest.mark.parametrize("serial", [1, 3, 100])
def test_serials_have_no_gap(chain: Chain, path: Path, serial: int) -> None:
    refused(
        path,
        chain.file(rotations=[chain.rotations[0], chain.rotation(1, serial=serial)]),
        "follows rotation 1",
    )
    # The order of the list does not matter.
    load(path, chain.file(rotations=chain.rotations[::-1]))


def test_a_circle_is_refused(make_signer: Callable[..., Any], path: Path) -> None:
    # at one moment: no key is valid before the rotation that made it
    chain = Chain(make_signer, (1,), valid_from=NOW + DAY)
    for serial in (1, 2, 3):
        back = sign_rotation(
            chain.entries[0], serial=serial, ends_previous=NOW + DAY, signer=chain.signers[1], at=NOW + DAY
        )
        refused(path, chain.file(rotations=[chain.rotations[0], load_canonical(back)]), "follows rotation")


def test_a_chain_may_begin_in_the_middle(chain: Chain, path: Path) -> None:
    """A key that a person pinned by decision goes on counting where its predecessors left off."""
    value = chain.file(rotations=chain.rotations[1:])
    value["keys"] = value["keys"][1:]
    load(path, value)


# --- following a chain ----------------------------------------------------------------------------


def test_a_chain_from_a_pinned_key_needs_no_decision(chain: Chain, path: Path) -> None:
    pin(path, chain.entries[0])
    followed = pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    assert (followed.newest, followed.proven_by) == (chain.entries[1], chain.entries[0].key_id)
    assert followed.added == (chain.entries[1].key_id,)
    followed = pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)
    assert followed.proven_by == chain.entries[1].key_id
    trust = Trust.load(path, [])
    assert trust.keys == tuple(chain.entries)
    assert [r.record() for r in trust.rotations] == chain.rotations
    for key in trust.keys:
        assert chain_record(trust, key) == chain.export()


def test_replay_of_an_old_rotation_changes_nothing(chain: Chain, path: Path) -> None:
    pin(path, chain.entries[0])
    pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)
    before = path.read_bytes()
    for upto in (1, 2):
        followed = pin_chain(path, chain.export(upto), where="f", now=NOW + 9 * DAY)
        assert followed.added == ()
    assert path.read_bytes() == before
    assert Trust.load(path, []).end(chain.entries[0]) == NOW + DAY


def test_a_second_rotation_of_the_same_key_is_a_fork(chain: Chain, path: Path) -> None:
    """Rotation by a stolen old key, after its owner has rotated."""
    pin(path, chain.entries[0])
    pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    before = path.read_bytes()
    _entry, stolen = chain.thief(0, NOW + timedelta(hours=1))
    with pytest.raises(BindingError, match="two successors") as caught:
        pin_chain(path, chain.export() | {"rotations": [stolen]}, where="f", now=NOW + 9 * DAY)
    assert caught.value.binding is Binding.AUTHORITY
    assert path.read_bytes() == before


def test_a_key_pinned_by_decision_never_hangs_from_another(chain: Chain, path: Path) -> None:
    """Else whoever is pinned for something could name another's key, and take it down with his own."""
    pin(path, chain.entries[0])
    pin(path, chain.entries[1])
    before = path.read_bytes()
    followed = pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    assert (followed.proven_by, followed.added) == (None, ())
    assert path.read_bytes() == before
    followed = pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)
    assert followed.proven_by == chain.entries[1].key_id
    assert [r.serial for r in Trust.load(path, []).rotations] == [2]


def test_a_chain_from_a_stranger_is_a_new_key(chain: Chain, path: Path) -> None:
    followed = pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)
    assert followed.proven_by is None
    assert followed.newest == chain.entries[2]
    assert followed.added == tuple(entry.key_id for entry in chain.entries)
    assert Trust.load(path, []).keys == tuple(chain.entries)


def test_a_chain_gives_no_more_than_the_pinned_entry(chain: Chain, path: Path) -> None:
    """The verifier's own entry of the old key is the limit, not the one in the chain."""
    pin(path, replace(chain.entries[0], predicate_types=(ROTATION,)))
    before = path.read_bytes()
    with pytest.raises(BindingError, match="other predicate_types"):
        pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)
    assert path.read_bytes() == before


@pytest.mark.parametrize("reason", ["compromised", "superseded", "lost"])
def test_a_revoked_key_proves_no_successor(chain: Chain, path: Path, reason: str) -> None:
    """Whatever date the rotation bears: whoever holds the key can write any."""
    from evalkit.sealing.pinning import revoke

    pin(path, chain.entries[0])
    revoke(path, chain.entries[0].key_id, reason=reason, since=NOW + 5 * DAY, now=NOW + 9 * DAY)
    before = path.read_bytes()
    for at in (NOW + DAY, NOW + 6 * DAY):
        _entry, stolen = chain.thief(0, at)
        with pytest.raises(BindingError, match="proves nothing") as caught:
            pin_chain(path, chain.export() | {"rotations": [stolen]}, where="f", now=NOW + 9 * DAY)
        assert caught.value.binding is Binding.AUTHORITY
    assert path.read_bytes() == before


def test_a_revoked_key_in_the_middle_proves_no_successor(chain: Chain, path: Path) -> None:
    from evalkit.sealing.pinning import revoke

    pin(path, chain.entries[0])
    pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    revoke(path, chain.entries[1].key_id, reason="lost", since=NOW + 5 * DAY, now=NOW + 9 * DAY)
    with pytest.raises(BindingError, match="proves nothing"):
        pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)


def test_an_ended_key_proves_no_successor(chain: Chain, path: Path) -> None:
    """A thief can rotate it today with a date from before its end, to a key without one."""
    end = NOW + 3 * DAY
    pin(path, replace(chain.entries[0], valid_until=end))
    before = path.read_bytes()
    _entry, stolen = chain.thief(0, NOW + DAY)
    for rotation in (stolen, chain.rotations[0]):  # nobody can tell them apart
        with pytest.raises(BindingError, match="proves nothing") as caught:
            pin_chain(path, chain.export() | {"rotations": [rotation]}, where="f", now=end)
        assert caught.value.binding is Binding.AUTHORITY
        assert chain.entries[0].key_id in caught.value.where
        assert "--again" in caught.value.do
        assert path.read_bytes() == before
    assert pin_chain(path, chain.export(1), where="f", now=end - timedelta(microseconds=1)).added == (
        chain.entries[1].key_id,
    )


def test_an_ended_key_in_the_middle_proves_no_successor(chain: Chain, path: Path) -> None:
    """Neither by its own entry here nor by what the rotation to it signed."""
    pin(path, chain.entries[0])
    middle = replace(chain.entries[1], valid_until=NOW + 3 * DAY)
    both = [chain.rotation(0, middle), chain.rotations[1]]
    with pytest.raises(BindingError, match="proves nothing"):
        pin_chain(path, chain.export() | {"rotations": both}, where="f", now=NOW + 9 * DAY)
    pin_chain(path, chain.export() | {"rotations": both[:1]}, where="f", now=NOW + 9 * DAY)
    with pytest.raises(BindingError, match="proves nothing"):
        pin_chain(path, chain.export() | {"rotations": both}, where="f", now=NOW + 9 * DAY)
    assert len(Trust.load(path, []).keys) == 2


def test_a_rotation_in_the_file_stands_when_its_predecessor_has_ended(chain: Chain, path: Path) -> None:
    pin(path, replace(chain.entries[0], valid_until=NOW + 3 * DAY))
    pin_chain(path, chain.export(1), where="f", now=NOW + 2 * DAY)
    before = path.read_bytes()
    followed = pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    assert (followed.proven_by, followed.added) == (chain.entries[0].key_id, ())
    assert path.read_bytes() == before
    assert pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY).added == (chain.entries[2].key_id,)
    trust = Trust.load(path, [])
    assert check(signed(chain.signers[2], NOW + 3 * DAY), trust, NOW + 9 * DAY).caveats == ()


def test_the_newest_key_of_a_chain_is_pinned_again_by_decision(chain: Chain, path: Path) -> None:
    pin(path, replace(chain.entries[0], valid_until=NOW + 3 * DAY))
    followed = pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY, again=True)
    assert (followed.proven_by, followed.added) == (None, (chain.entries[2].key_id,))
    trust = Trust.load(path, [])
    assert [key.key_id for key in trust.keys] == [chain.entries[0].key_id, chain.entries[2].key_id]
    assert trust.rotations == ()


@pytest.mark.parametrize("valid_from", [None, NOW, NOW + DAY - timedelta(microseconds=1)])
def test_no_key_is_valid_before_the_rotation_that_made_it(chain: Chain, path: Path, valid_from: Any) -> None:
    entry = replace(chain.entries[1], valid_from=valid_from)
    value = chain.file(rotations=[chain.rotation(0, entry)])
    value["keys"][1] = entry.record()
    refused(path, value, "valid before the rotation was signed")
    pin(path.with_name("hers.json"), chain.entries[0])
    with pytest.raises(BindingError, match="valid before the rotation was signed"):
        pin_chain(path.with_name("hers.json"), chain.export() | {"rotations": value["rotations"]},
                  where="f", now=NOW + 2 * DAY)  # fmt: skip


def test_a_rotation_from_the_future_is_refused(chain: Chain, path: Path) -> None:
    pin(path, chain.entries[0])
    with pytest.raises(BindingError, match="in the future"):
        pin_chain(path, chain.export(), where="f", now=NOW + DAY)


def test_clocks_may_differ_by_the_tolerance(chain: Chain, path: Path) -> None:
    pin(path, chain.entries[0])
    signed_at = NOW + DAY
    with pytest.raises(BindingError, match="in the future"):
        pin_chain(
            path, chain.export(1), where="f", now=signed_at - CLOCK_TOLERANCE - timedelta(microseconds=1)
        )
    pin_chain(path, chain.export(1), where="f", now=signed_at - CLOCK_TOLERANCE)


@pytest.mark.parametrize(
    "change",
    [{"rotations": []}, {"rotations": 1}, {"rotations": [1]}, {"format": "x"}, {"entry": {}}, {"extra": 1}],
)
def test_a_malformed_chain_pins_nothing(chain: Chain, path: Path, change: dict[str, Any]) -> None:
    with pytest.raises(BindingError):
        pin_chain(path, chain.export() | change, where="f", now=NOW + 9 * DAY)
    assert not path.exists()


def test_rotations_that_are_no_chain_pin_nothing(chain: Chain, path: Path) -> None:
    for rotations in (chain.rotations[1:], chain.rotations[::-1], chain.rotations[:1] * 2):
        with pytest.raises(BindingError):
            pin_chain(path, chain.export() | {"rotations": rotations}, where="f", now=NOW + 9 * DAY)
    assert not path.exists()
    _entry, fork = chain.thief(0, NOW + DAY, serial=2)
    with pytest.raises(BindingError, match="not one chain"):
        pin_chain(
            path, chain.export() | {"rotations": [chain.rotations[0], fork]}, where="f", now=NOW + 9 * DAY
        )
    assert not path.exists()


def test_a_revoked_key_is_not_named_as_a_proof(chain: Chain, path: Path) -> None:
    """Its rotation stands, for it was here before; shown again it proves nothing new."""
    from evalkit.sealing.pinning import revoke

    pin(path, chain.entries[0])
    pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    revoke(path, chain.entries[0].key_id, reason="superseded", since=NOW + 5 * DAY, now=NOW + 9 * DAY)
    before = path.read_bytes()
    followed = pin_chain(path, chain.export(1), where="f", now=NOW + 9 * DAY)
    assert (followed.proven_by, followed.added) == (None, ())
    assert path.read_bytes() == before
    # The next key of the chain is signed by one that counts.
    followed = pin_chain(path, chain.export(), where="f", now=NOW + 9 * DAY)
    assert followed.proven_by == chain.entries[1].key_id


def test_pinning_keeps_rotations_and_revocations(chain: Chain, path: Path) -> None:
    value = chain.file(revocations=[revocation(chain.entries[2], NOW + 3 * DAY)])
    before = load(path, value)
    pin(path, TrustedKey.of(chain.make_signer().public_key))
    after = Trust.load(path, [])
    assert (after.rotations, after.revocations) == (before.rotations, before.revocations)
    with pytest.raises(BindingError, match="two successors"):
        pin_rotation(path, canonical_json(chain.thief(0, NOW + DAY)[1]))


# --- every byte -----------------------------------------------------------------------------------


def fixed(contents: Contents) -> Any:
    """What no edit of single bytes may change: keys, rotations, and who is revoked.

    Free are: layout; of an entry comment, roles, predicate_types, valid_from, valid_until, runs,
    custody and ephemeral, which for a rotated key stay within what was signed; of a revocation
    since, reason and comment.
    """
    return (
        [(key.key_id, key.public_key) for key in contents.keys],
        [revocation.key_id for revocation in contents.revocations],
        sorted(rotation.envelope for rotation in contents.rotations),
    )


@pytest.fixture(scope="module")
def whole() -> tuple[bytes, Contents]:
    from conftest import MemorySigner

    seeds = iter(range(1, 100))
    chain = Chain(lambda: MemorySigner(bytes([next(seeds)]) * 32), (1, 2))
    data = canonical_json(chain.file(revocations=[revocation(chain.entries[0], NOW + 5 * DAY, "superseded")]))
    return data, Contents.parse(data, "trust.json")


def holds(data: bytes, original: Contents) -> bool:
    """Whether it was refused; where not, nothing may have changed but what is free."""
    try:
        contents = Contents.parse(data, "trust.json")
    except BindingError as error:
        return error.binding is Binding.AUTHORITY
    assert fixed(contents) == fixed(original)
    entries = {key.key_id: key for key in contents.keys}
    for rotation in contents.rotations:
        entry, signed_entry = entries[rotation.next.key_id], rotation.next
        assert not entry.excess(signed_entry)
        assert entry.valid_from >= signed_entry.valid_from
    return False


def test_every_flipped_byte_is_refused_or_free(whole: tuple[bytes, Contents]) -> None:
    data, original = whole
    refusals = 0
    for position in range(len(data)):
        changed = bytearray(data)
        changed[position] ^= 1
        refusals += holds(bytes(changed), original)
    # the fields that are free make up little of the file
    assert refusals > 0.9 * len(data)


@given(st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_edit_of_a_few_bytes_is_refused_or_free(
    whole: tuple[bytes, Contents], data: st.DataObject
) -> None:
    text, original = whole
    start = data.draw(st.integers(0, len(text)))
    gone = data.draw(st.integers(0, 4))
    printable = st.binary(max_size=4) | st.text('0123456789abcdef"{}[]:,\\ntrue ', max_size=4).map(str.encode)
    holds(text[:start] + data.draw(printable) + text[start + gone :], original)


@given(st.data())
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_signed_bytes_that_are_changed_are_refused(
    whole: tuple[bytes, Contents], data: st.DataObject
) -> None:
    """Inside the envelopes nothing is free: not the payload, not the signature, not the hint."""
    text, original = whole
    record = json.loads(text)
    rotation = data.draw(st.sampled_from(record["rotations"]))
    holder, name = data.draw(
        st.sampled_from(
            [(rotation, "payload"), (rotation, "payloadType"), (rotation["signatures"][0], "sig"),
             (rotation["signatures"][0], "keyid")]
        )
    )  # fmt: skip
    at = data.draw(st.integers(0, len(holder[name]) - 1))
    letter = data.draw(st.sampled_from("AQgw0189abcdefxyz+/=:.-"))
    changed = holder[name][:at] + letter + holder[name][at + 1 :]
    if changed != holder[name]:
        holder[name] = changed
        assert holds(canonical_json(record), original)


def test_sections_cannot_be_dropped_by_a_typo(whole: tuple[bytes, Contents]) -> None:
    data, original = whole
    for section in ("keys", "revocations", "rotations", "timestamp_authorities"):
        assert holds(data.replace(f'"{section}"'.encode(), f'"{section[:-1]}"'.encode(), 1), original)


def test_errors_are_user_errors(chain: Chain, path: Path) -> None:
    pin(path, chain.entries[0])
    with pytest.raises(EvalkitError):
        pin_rotation(path, canonical_json(chain.rotations[1]))
    assert write(path, chain.file()).exists()
