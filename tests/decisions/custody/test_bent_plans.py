"""Plans that say another custody than was sealed, signed by their own maker."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decisions.fixtures import QuickSigner
from decisions.forging import replan
from evalkit.decisions import reveal, verify_run
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Binding, BindingError
from evalkit.sealing import PREDICATES, canonical_json, pin, sign

from .people import Two, entry

Json = dict[str, Any]


def other_custodian(two: Two) -> Json:
    """The custodian section of another bundle by the same custodian."""
    two.seal(two.root / "b2")
    two.plan(two.root / "b2", out=two.root / "r2")
    value: Json = json.loads((two.root / "r2" / "plan.json").read_bytes())["custodian"]
    return value


def own_seal(two: Two, plan: Json) -> None:
    """The evaluator signs the custodian's statement herself."""
    data = canonical_json(plan["custodian"]["bundle"])
    envelope = sign(
        "bundle.json",
        data,
        predicate_type=PREDICATES["custody/seal"],
        predicate={"run_id": plan["run_id"]},
        signer=QuickSigner(two.evaluator.places.signing_key),
    )
    plan["custodian"]["attestation"] = json.loads(envelope)


def swap_packets(plan: Json) -> None:
    one, two = plan["cases"]
    one["part_b"], two["part_b"] = two["part_b"], one["part_b"]


FORGED: dict[str, tuple[Binding, Callable[[Two, Json], Any]]] = {
    "no custodian": (Binding.PRECOMMIT, lambda t, p: p.update(custodian=None)),
    "custody self": (Binding.PRECOMMIT, lambda t, p: p.update(custody="self")),
    "custody timelock": (Binding.PRECOMMIT, lambda t, p: p.update(custody="timelock")),
    "custody process": (Binding.PRECOMMIT, lambda t, p: p.update(custody="process")),
    "another bundle of hers": (Binding.ATTESTATION, lambda t, p: p.update(custodian=other_custodian(t))),
    "another selection rule": (Binding.PRECOMMIT, lambda t, p: p["pair"].update(selection_rule="the best")),
    "another pairing basis": (Binding.PRECOMMIT, lambda t, p: p["pair"].update(pairing_basis="none")),
    "another unsealing key": (Binding.PRECOMMIT, lambda t, p: p.update(unsealing_public_key="00" * 32)),
    "another episode": (Binding.PRECOMMIT, lambda t, p: p["cases"][0].update(episode_digest="sha256:0")),
    "Part Bs exchanged": (Binding.PRECOMMIT, lambda t, p: swap_packets(p)),
    "another mapping": (Binding.PRECOMMIT, lambda t, p: p["mapping"].update(commitment="sha256:" + "0" * 64)),
    "another catalog": (Binding.PRECOMMIT, lambda t, p: p["catalog"].update(bucket=16384)),
    "the cases turned round": (
        Binding.PRECOMMIT, lambda t, p: (p["cases"].reverse(), p["pair"]["order"].reverse())
    ),
    "another key id": (Binding.AUTHORITY, lambda t, p: p["custodian"].update(key_id="sha256:" + "0" * 64)),
    "another bundle digest": (
        Binding.PRECOMMIT, lambda t, p: p["custodian"].update(bundle_digest="sha256:" + "0" * 64)
    ),
    "an edited statement": (
        Binding.ATTESTATION, lambda t, p: p["custodian"]["bundle"].update(evalkit_version="9")
    ),
    "an edited signature": (
        Binding.ATTESTATION,
        lambda t, p: p["custodian"]["attestation"]["signatures"][0].update(
            sig=base64.b64encode(bytes(64)).decode()
        ),
    ),
    "another hint": (
        Binding.ATTESTATION,
        lambda t, p: p["custodian"]["attestation"]["signatures"][0].update(keyid="sha256:" + "0" * 64),
    ),
    "her own signature": (Binding.AUTHORITY, own_seal),
}  # fmt: skip


@pytest.mark.parametrize("name", FORGED)
def test_a_plan_that_bends_its_custody_is_refused_by_everybody(planned: Two, name: str) -> None:
    binding, edit = FORGED[name]
    replan(planned.evaluator, lambda plan: edit(planned, plan))
    for act in (planned.verify, planned.evaluate, planned.ask):
        with pytest.raises(BindingError) as error:
            act()
        assert error.value.binding is binding, error.value
    assert planned.evaluator.states() == []


def test_timelock_is_named_as_what_this_version_cannot_check(planned: Two) -> None:
    replan(planned.evaluator, lambda plan: plan.update(custody="timelock"))
    with pytest.raises(BindingError, match="this version cannot check custody timelock"):
        planned.verify()


def test_a_bundle_run_that_calls_itself_self_is_never_revealed(planned: Two) -> None:
    """It verifies as what it says, not blind; and nobody here can open its sealed files."""
    replan(planned.evaluator, lambda plan: plan.update(custody="self", custodian=None))
    assert [x for x in planned.verify().lines if "own user could open" in x.text]
    planned.evaluate()
    with pytest.raises(BindingError, match="does not open") as error:
        reveal(planned.run, places=planned.evaluator.places)
    assert error.value.binding is Binding.SEALED_PACKET


def test_verify_refuses_a_second_party_with_one_key(planned: Two, tmp_path: Path) -> None:
    """The custodian plans from her own bundle, with the key that sealed it."""
    key = QuickSigner(planned.custodian.places.signing_key)
    replan(planned.evaluator, lambda plan: plan.update(signing_key_id=planned.custodian_id), signer=key)
    trust = tmp_path / "third" / "trust.json"
    pin(trust, entry(planned.custodian, (*SIGNED_PHASES, *CUSTODY_PHASES)))
    with pytest.raises(BindingError, match="one key") as error:
        verify_run(planned.run, trust=trust)
    assert error.value.binding is Binding.AUTHORITY
