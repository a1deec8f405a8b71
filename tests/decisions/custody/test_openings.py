"""Releases that an evaluator or a verifier does not take, though they are signed."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from decisions.fixtures import QuickSigner
from decisions.forging import opened_run, sign_reveal
from decisions.support import evaluate_world, make_world
from evalkit.decisions import reveal, verify_run
from evalkit.decisions.chain import load_trust, open_plan
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.custody.opening import bindings_of
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import PREDICATES, canonical_json, digest, pin, sign

from .forging import resigned
from .people import Two, entry

Json = dict[str, Any]


def test_reveal_without_an_opening_says_what_to_do(evaluated: Two) -> None:
    with pytest.raises(EvalkitError, match="custodian of this run keeps the key") as error:
        reveal(evaluated.run, places=evaluated.evaluator.places)
    for command in ("evalkit custodian request", "evalkit custodian open", "reveal RUN --opening"):
        assert command in error.value.do
    assert error.value.exit_code == 2
    assert evaluated.evaluator.states("reveal") == []


def test_an_opening_on_a_self_run_is_refused(answered: Two, tmp_path: Path) -> None:
    world = make_world(tmp_path / "w")
    evaluate_world(world)
    with pytest.raises(EvalkitError, match="custody is self"):
        reveal(world.run, opening=answered.opening, places=world.places)
    assert world.states("reveal") == []


def not_revealed(two: Two, binding: Binding | None, opening: Path | None = None) -> None:
    with pytest.raises(EvalkitError) as error:
        two.reveal(opening)
    assert getattr(error.value, "binding", None) is binding, error.value
    assert not (two.run / "reveal").exists()
    assert two.evaluator.states("reveal") == [], "what opens nothing is no attempt"


def test_the_opening_of_another_run(answered: Two, tmp_path: Path) -> None:
    """Another run of the same pair by the same two people: only the digests and the run id differ."""
    answered.seal(tmp_path / "b2")
    answered.plan(tmp_path / "b2", out=tmp_path / "r2")
    answered.evaluate(tmp_path / "r2")
    answered.ask(tmp_path / "q2", tmp_path / "r2")
    answered.answer(tmp_path / "q2", tmp_path / "o2")
    not_revealed(answered, Binding.ATTESTATION, tmp_path / "o2")
    value = json.loads((tmp_path / "o2").read_bytes())
    value["run_id"] = answered.evaluator.run_id
    (tmp_path / "o3").write_bytes(canonical_json(value))
    not_revealed(answered, Binding.ATTESTATION, tmp_path / "o3")


def test_an_old_opening_after_a_new_attempt(answered: Two, stages: dict[str, Two], tmp_path: Path) -> None:
    """The evaluator saw the opening, goes back to before the answer, and evaluates again."""
    again = stages["planned"].copy(tmp_path / "again")
    again.evaluate()
    assert again.evaluator.run_id == answered.evaluator.run_id
    not_revealed(again, Binding.ATTESTATION, answered.opening)


def kinder(openings: Json, predicate: Json) -> None:
    for case in openings["mapping"]["payload"]["cases"].values():
        case["realized_scenario_id"] = "scenario-0000000000"


RELEASES: dict[str, tuple[Binding, Callable[[Json, Json], Any]]] = {
    "another mapping": (Binding.SEALED_PACKET, kinder),
    "another salt": (Binding.SEALED_PACKET, lambda o, p: o["mapping"].update(salt="00" * 32)),
    "a salt that is none": (Binding.SEALED_PACKET, lambda o, p: o["mapping"].update(salt="x")),
    "an opening less": (Binding.SEALED_PACKET, lambda o, p: o.pop("catalog")),
    "an opening that is none": (Binding.SEALED_PACKET, lambda o, p: o.update(catalog=[])),
    "an opening more": (Binding.SEALED_PACKET, lambda o, p: o.update(more=o["catalog"])),
    "a field more": (Binding.SEALED_PACKET, lambda o, p: o["catalog"].update(note="x")),
    "another plan": (Binding.ATTESTATION, lambda o, p: p.update(plan_digest="sha256:" + "0" * 64)),
    "another ex-ante run": (Binding.ATTESTATION, lambda o, p: p.update(ex_ante_run_digest="sha256:0")),
    "another attestation": (
        Binding.ATTESTATION, lambda o, p: p.update(ex_ante_attestation_digest=digest(b"x"))
    ),
    "another run": (Binding.ATTESTATION, lambda o, p: p.update(run_id="another")),
    "another phase": (Binding.ATTESTATION, lambda o, p: p.update(phase="sealed")),
    "no time": (Binding.ATTESTATION, lambda o, p: p.update(released_at="soon")),
    "a time as a number": (Binding.ATTESTATION, lambda o, p: p.update(released_at=7)),
    "a time without offset": (Binding.ATTESTATION, lambda o, p: p.update(released_at="2030-01-01T00:00:00")),
    "before the run": (Binding.ATTESTATION, lambda o, p: p.update(released_at="2020-01-01T00:00:00Z")),
    "after the reveal": (Binding.ATTESTATION, lambda o, p: p.update(released_at="2090-01-01T00:00:00Z")),
    "no ledger": (Binding.RUN, lambda o, p: p.pop("ledger")),
    "a ledger head that is none": (Binding.RUN, lambda o, p: p.update(ledger=[])),
    "a count that is none": (Binding.ATTESTATION, lambda o, p: p.update(others={"sealed": True})),
    "no plan": (Binding.ATTESTATION, lambda o, p: p.pop("plan_digest")),
    "no count": (Binding.ATTESTATION, lambda o, p: p.pop("others")),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_that_does_not_hold_is_refused(answered: Two, name: str) -> None:
    """Even where the custodian's own key signed it."""
    binding, edit = RELEASES[name]
    resigned(answered, edit)
    not_revealed(answered, binding)


def test_a_release_signed_again_as_it_was_is_taken(answered: Two) -> None:
    """The table shows something only because this passes."""
    resigned(answered, lambda o, p: None)
    answered.reveal()


def test_the_evaluator_cannot_release_to_herself(answered: Two) -> None:
    key = QuickSigner(answered.evaluator.places.signing_key)
    resigned(answered, lambda o, p: None, key)
    not_revealed(answered, Binding.AUTHORITY)
    answered.evaluator.places.trust.unlink()
    for world, phases in (
        (answered.custodian, CUSTODY_PHASES),
        (answered.evaluator, (*SIGNED_PHASES, *CUSTODY_PHASES)),
    ):
        pin(answered.evaluator.places.trust, entry(world, phases))
    not_revealed(answered, Binding.AUTHORITY)


def test_a_statement_over_something_else_releases_nothing(answered: Two) -> None:
    """The openings are the right ones, and the custodian signed for others."""
    resigned(answered, lambda o, p: None, subject=b"{}")
    not_revealed(answered, Binding.ATTESTATION)


def test_the_seal_cannot_stand_in_for_the_release(answered: Two) -> None:
    resigned(answered, lambda o, p: None, phase="custody/seal")
    not_revealed(answered, Binding.ATTESTATION)


def test_an_unreadable_opening(answered: Two, tmp_path: Path) -> None:
    whole = answered.opening.read_bytes()
    value = json.loads(whole)
    for data in (
        b"", b"x", whole + b"\n", whole[:-9], canonical_json(value | {"schema": "x"}),
        canonical_json(value | {"note": 1}), canonical_json([value]),
    ):  # fmt: skip
        answered.opening.write_bytes(data)
        not_revealed(answered, None)
    not_revealed(answered, None, tmp_path / "nowhere")
    for name in ("openings", "release"):
        answered.opening.write_bytes(canonical_json(value | {name: [1]}))
        not_revealed(answered, Binding.ATTESTATION)


def test_a_reveal_is_not_dated_before_the_release(answered: Two, no_tolerance: None) -> None:
    final = json.loads((answered.run / "ex-ante" / "run.json").read_bytes())["finalized_at"]
    with pytest.raises(BindingError, match="before the custodian released") as error:
        answered.reveal(revealed_at=final)
    assert error.value.binding is Binding.RUN


@pytest.fixture
def no_tolerance(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between the clocks of two people: the tests are quicker than what is tolerated."""
    monkeypatch.setattr("evalkit.decisions.custody.opening.CLOCK_TOLERANCE", timedelta(0))


@pytest.mark.parametrize("released_at", ["9999-12-31T23:59:59.999999Z", "0001-01-01T00:00:00+14:00", 3, None])
def test_odd_times_of_a_release(answered: Two, released_at: Any) -> None:
    resigned(answered, lambda o, p: p.update(released_at=released_at))
    not_revealed(answered, Binding.ATTESTATION)


def test_a_release_is_signed_when_it_says(answered: Two) -> None:
    """A custodian's key that has ended since cannot be dated back by one of the two times alone."""
    resigned(answered, lambda o, p: None, later=timedelta(days=-400))
    with pytest.raises(BindingError, match="was signed at another time"):
        answered.reveal()


@pytest.mark.parametrize(
    "others", [{"sealed": -5, "released": 0}, {"sealed": 1, "released": 2}, {"sealed": 1, "released": -1}]
)
def test_a_count_that_cannot_be(answered: Two, others: dict[str, int]) -> None:
    resigned(answered, lambda o, p: p.update(others=others))
    with pytest.raises(BindingError, match="cannot be"):
        answered.reveal()


def test_two_keys_of_one_owner_are_no_second_party(answered: Two) -> None:
    """The verifier's own trust file knows a rotation from the evaluator's key to the custodian's."""
    trust = load_trust(answered.run, None, answered.evaluator.places)
    plan = open_plan(answered.run, trust).plan
    assert plan.custodian is not None
    real = trust.rotation_to
    chain = SimpleNamespace(previous=plan.signing_key_id)
    custodian = plan.custodian.key_id
    object.__setattr__(trust, "rotation_to", lambda key: chain if key == custodian else real(key))
    with pytest.raises(BindingError, match="keys of one owner") as caught:
        open_plan(answered.run, trust)
    assert caught.value.binding is Binding.AUTHORITY


# --- reveals that an evaluator signs by hand


def reveal_by_hand(two: Two, edit: Callable[[Json], Any]) -> None:
    document = json.loads(
        canonical_json(reveal(two.run, opening=two.opening, places=two.evaluator.places).document)
    )
    edit(document)
    sign_reveal(two.evaluator, document)


def foreign_release(two: Two, document: Json) -> None:
    predicate = bindings_of(opened_run(two.evaluator)) | {
        "released_at": document["revealed_at"],
        "others": {"sealed": 0, "released": 0},
        "ledger": {"size": 1, "digest": digest(b"x")},
    }
    envelope = sign(
        "openings.json",
        canonical_json(document["openings"]),
        predicate_type=PREDICATES["custody/opening"],
        predicate=predicate,
        signer=QuickSigner(two.evaluator.places.signing_key),
    )
    document["release"] = json.loads(envelope)


def hinted(document: Json) -> None:
    document["release"]["signatures"][0]["keyid"] = "sha256:" + "0" * 64


BY_HAND: dict[str, tuple[Binding, Callable[[Two, Json], Any]]] = {
    "no release": (Binding.ATTESTATION, lambda t, d: d.update(release=None)),
    "a release less": (Binding.RUN, lambda t, d: d.pop("release")),
    "her own release": (Binding.AUTHORITY, foreign_release),
    "another hint": (Binding.ATTESTATION, lambda t, d: hinted(d)),
    "another opening": (
        Binding.SEALED_PACKET, lambda t, d: d["openings"]["mapping"].update(salt="00" * 32)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_HAND)
def test_verify_checks_the_release_of_a_reveal(answered: Two, name: str) -> None:
    binding, edit = BY_HAND[name]
    reveal_by_hand(answered, lambda d: edit(answered, d))
    with pytest.raises(BindingError) as error:
        answered.verify()
    assert error.value.binding is binding, error.value


def test_verify_checks_that_the_reveal_is_not_dated_before_the_release(
    answered: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    document = json.loads(
        canonical_json(
            reveal(answered.run, opening=answered.opening, places=answered.evaluator.places).document
        )
    )
    run = json.loads((answered.run / "ex-ante" / "run.json").read_bytes())
    document["revealed_at"] = run["finalized_at"]
    sign_reveal(answered.evaluator, document)
    monkeypatch.setattr("evalkit.decisions.custody.opening.CLOCK_TOLERANCE", timedelta(0))
    with pytest.raises(BindingError, match="before the custodian released") as error:
        answered.verify()
    assert error.value.binding is Binding.RUN


def test_an_honest_reveal_by_hand_verifies(answered: Two) -> None:
    reveal_by_hand(answered, lambda d: None)
    answered.verify()


def test_a_release_in_a_self_run_is_refused(answered: Two, tmp_path: Path) -> None:
    world = make_world(tmp_path / "w")
    evaluate_world(world)
    document = json.loads(canonical_json(reveal(world.run, places=world.places).document))
    document["release"] = json.loads(answered.opening.read_bytes())["release"]
    sign_reveal(world, document)
    with pytest.raises(BindingError, match="the run has no custodian"):
        verify_run(world.run, places=world.places)
