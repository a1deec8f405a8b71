"""What somebody is told who uses the wrong account, the wrong key, or asks too early."""

from __future__ import annotations

import json
from typing import Any

import pytest

from decisions.support import CASE_IDS, World, baseline_record, cli, part_a, replay_model
from evalkit.decisions import reveal
from evalkit.decisions.custody import sealing
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import pin

from .people import Two, entry
from .test_commands import here


def pinned_as(two: Two, world: World, role: str, phases: tuple[str, ...]) -> None:
    """The trust file of ``world`` pins its own key for one role, and the other's key as it should."""
    other = two.evaluator if world == two.custodian else two.custodian
    world.places.trust.unlink()
    pin(world.places.trust, entry(world, phases, roles=(role, "instructor")))
    pin(world.places.trust, entry(other, SIGNED_PHASES if other == two.evaluator else CUSTODY_PHASES))


@pytest.fixture
def no_signer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks for a passphrase, or signs, fails."""

    def asked(*args: Any, **kw: Any) -> Any:
        raise AssertionError("a signer was asked for")

    monkeypatch.setattr(sealing, "resolve_signer", asked)
    monkeypatch.setattr("evalkit.sealing.resolve_signer", asked)


@pytest.mark.usefixtures("no_signer")
def test_an_evaluators_key_cannot_seal(strangers: Two) -> None:
    pinned_as(strangers, strangers.custodian, "evaluator", SIGNED_PHASES)
    with pytest.raises(BindingError, match="your key is made for the role evaluator") as error:
        strangers.seal()
    assert error.value.binding is Binding.AUTHORITY
    assert "evalkit keys init --role custodian" in error.value.do
    assert "account" in error.value.do
    assert "signed this" not in str(error.value), "nothing was signed yet"
    assert not strangers.bundle.exists()
    assert strangers.events("sealed") == []


@pytest.mark.usefixtures("no_signer")
def test_a_custodians_key_cannot_plan(sealed: Two) -> None:
    pinned_as(sealed, sealed.evaluator, "custodian", CUSTODY_PHASES)
    with pytest.raises(BindingError, match="your key is made for the role custodian") as error:
        sealed.plan()
    assert error.value.binding is Binding.AUTHORITY
    assert "evalkit keys init --role evaluator" in error.value.do
    assert not sealed.run.exists()


@pytest.mark.usefixtures("no_signer")
def test_a_key_that_nobody_pinned_cannot_seal(strangers: Two) -> None:
    strangers.custodian.places.trust.unlink()
    pin(strangers.custodian.places.trust, entry(strangers.evaluator, SIGNED_PHASES))
    with pytest.raises(BindingError, match="cannot sign as custodian: it is not pinned"):
        strangers.seal()


@pytest.mark.usefixtures("no_signer")
def test_the_custodian_cannot_plan_her_own_bundle(sealed: Two) -> None:
    from evalkit.decisions import precommit

    with pytest.raises(BindingError, match="custodian and evaluator are one key") as error:
        precommit(sealed.bundle, out=sealed.run, places=sealed.custodian.places)
    assert error.value.binding is Binding.AUTHORITY
    assert "in the evaluator's account" in error.value.do
    assert "copy" not in error.value.do


def test_verify_names_the_key_that_is_missing(planned: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, planned.evaluator)
    planned.evaluator.places.trust.unlink()
    pin(planned.evaluator.places.trust, entry(planned.evaluator, SIGNED_PHASES))
    done = cli("verify", planned.run)
    assert done.code == 11
    assert "the custodian's key is not pinned" in done.err
    assert planned.custodian_id in done.err
    assert "ask the custodian for its entry" in done.err


# --- reveal without an opening


def test_an_unevaluated_run_is_told_so_before_an_opening_is_asked_for(planned: Two) -> None:
    with pytest.raises(Blocked, match="not evaluated yet") as error:
        reveal(planned.run, places=planned.evaluator.places)
    assert "evaluate" in error.value.do


def test_a_blocked_run_is_told_so_before_an_opening_is_asked_for(
    sealed: Two, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = {c: json.dumps(baseline_record(part_a(c))) for c in CASE_IDS[:2]} | {CASE_IDS[1]: "no record"}
    sealed.plan(model=replay_model(texts))
    here(monkeypatch, sealed.evaluator)
    done = cli("decisions", "evaluate", sealed.run, "--write-run")
    assert done.code == 5
    assert "needs another bundle" in done.err
    with pytest.raises(Blocked, match="decision record is blocked") as error:
        reveal(sealed.run, places=sealed.evaluator.places)
    assert "another bundle" in error.value.do
    assert "make another precommit" not in error.value.do


def test_another_model_needs_another_bundle(planned: Two) -> None:
    from evalkit.decisions import evaluate

    with pytest.raises(EvalkitError, match="this plan seals the model") as error:
        evaluate(planned.run, model=replay_model({}), places=planned.evaluator.places)
    assert "another bundle" in error.value.do


# --- what comes next


def test_the_commands_say_what_comes_next(planned: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    two = planned
    here(monkeypatch, two.evaluator)
    out = cli("decisions", "evaluate", two.run, "--write-run").out
    assert f"next: evalkit custodian request {two.run} --out REQUEST" in out
    two.ask()
    here(monkeypatch, two.custodian)
    first = cli("custodian", "open", two.request, "--out", two.opening).out
    assert "released before" not in first
    again = cli("custodian", "open", two.request, "--out", two.root / "again").out
    assert "released before" in again
    assert "the same bytes" in again
    here(monkeypatch, two.evaluator)
    out = cli("decisions", "reveal", two.run, "--opening", two.opening).out
    assert f"next: evalkit decisions reveal {two.run} --opening {two.opening} --write-calibration" in out
    out = cli("decisions", "reveal", two.run, "--opening", two.opening, "--write-calibration").out
    assert f"next: evalkit verify {two.run}; evalkit report {two.run}" in out


def test_a_bundle_is_no_run(sealed: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    here(monkeypatch, sealed.evaluator)
    done = cli("verify", sealed.bundle)
    assert done.code == 2
    assert "this is a custodian's bundle, not a run" in done.err
    assert "evalkit decisions precommit BUNDLE" in done.err
