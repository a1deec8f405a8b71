"""What a custodian may not seal, and bundles that an evaluator may not use: refused with nothing written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from decisions.support import CASES, PAIR, PAIRS
from decisions.test_flow import CATALOG_CHANGES, _cases
from evalkit.decisions.custody import sealing
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import Ledger, canonical_json, digest, pin, resolve_signer

from .forging import reseal
from .people import Two, entry, make_keys


def nothing_sealed(two: Two) -> bool:
    return not two.bundle.exists() and two.events("sealed") == []


@pytest.mark.parametrize(
    ("custody", "says"),
    [
        ("timelock", "does not write custody timelock"),
        ("self", "needs no custodian"),
        ("blind", "is no custody"),
    ],
)
def test_other_custodies_are_refused(strangers: Two, custody: str, says: str) -> None:
    with pytest.raises(EvalkitError, match=says) as error:
        strangers.seal(custody=custody)
    assert error.value.exit_code == 2
    assert nothing_sealed(strangers)


@pytest.mark.parametrize("name", CATALOG_CHANGES)
def test_w1_w4_cases_that_precommit_refuses_are_refused(strangers: Two, tmp_path: Path, name: str) -> None:
    file, change = CATALOG_CHANGES[name]
    with pytest.raises(EvalkitError) as error:
        strangers.seal(cases=_cases(tmp_path, file, change))
    assert error.value.exit_code == 2
    assert nothing_sealed(strangers)


def test_w6_evidence_that_does_not_verify_is_refused(strangers: Two, tmp_path: Path) -> None:
    """A packet, freeze and catalog that agree, and a quality control that is not what is found now."""
    cases = tmp_path / "cases"
    shutil.copytree(CASES, cases)
    path = cases / "case-bbi-2007-07" / "part-a" / "qc.json"
    qc = json.loads(path.read_bytes())
    qc["warnings"] = []
    path.write_bytes(canonical_json(qc))
    catalog = json.loads((cases / "catalog.json").read_bytes())
    for case in catalog["cases"]:
        if case["case_id"] == "case-bbi-2007-07":
            case["qc_digest"] = digest(path.read_bytes())
    (cases / "catalog.json").write_bytes(canonical_json(catalog))
    with pytest.raises(Blocked, match=r"qc\.json is not what quality control finds"):
        strangers.seal(cases=cases)
    assert nothing_sealed(strangers)


def test_a_custodian_has_keys_of_her_own(strangers: Two, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sealing, "resolve_signer", resolve_signer)
    strangers.custodian.places.signing_key.unlink()
    with pytest.raises(EvalkitError, match="no signing key") as error:
        strangers.seal()
    assert "evalkit keys init --role custodian" in error.value.do
    assert not strangers.bundle.exists()


def test_a_key_for_runs_seals_nothing(strangers: Two) -> None:
    """Keys are pinned for runs or for custody: the custodian's own trust file decides, too."""
    strangers.custodian.places.trust.unlink()
    pin(strangers.custodian.places.trust, entry(strangers.custodian, SIGNED_PHASES))
    with pytest.raises(BindingError, match="needs the key of a custodian") as error:
        strangers.seal()
    assert error.value.binding is Binding.AUTHORITY
    assert nothing_sealed(strangers)


def test_a_bundle_is_never_overwritten(sealed: Two) -> None:
    before = (sealed.bundle / "bundle.json").read_bytes()
    with pytest.raises(EvalkitError, match="bundle exists already"):
        sealed.seal()
    assert (sealed.bundle / "bundle.json").read_bytes() == before
    assert len(sealed.events("sealed")) == 1


# --- bundles


def flip(name: str, at: int = -2) -> Callable[[Two], None]:
    def change(two: Two) -> None:
        path = two.bundle / name
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(bytes(data))

    return change


def other_hint(two: Two) -> None:
    path = two.bundle / "bundle.dsse.json"
    value = json.loads(path.read_bytes())
    value["signatures"][0]["keyid"] = "sha256:" + "0" * 64
    path.write_bytes(canonical_json(value))


def link(name: str) -> Callable[[Two], None]:
    def change(two: Two) -> None:
        shutil.move(two.bundle / name, two.root / "moved")
        (two.bundle / name).symlink_to(two.root / "moved")

    return change


def linked_bundle(two: Two) -> None:
    two.bundle.rename(two.root / "moved")
    two.bundle.symlink_to(two.root / "moved")


def reversed_pair(value: dict[str, Any]) -> None:
    value["pair"]["order"].reverse()
    value["cases"].reverse()


def swapped(value: dict[str, Any]) -> None:
    value["catalog"], value["mapping"] = value["mapping"], value["catalog"]


CASE = "part-a/case-bbi-2007-07"
BUNDLES: dict[str, tuple[Binding, Callable[[Two], Any]]] = {
    "statement: a byte": (Binding.ATTESTATION, flip("bundle.json")),
    "statement: a digit of a digest": (Binding.ATTESTATION, flip("bundle.json", 300)),
    "attestation: a byte": (Binding.ATTESTATION, flip("bundle.dsse.json")),
    "attestation: gone": (Binding.ATTESTATION, lambda t: (t.bundle / "bundle.dsse.json").unlink()),
    "attestation: another hint": (Binding.ATTESTATION, other_hint),
    "attestation: of another phase": (
        Binding.ATTESTATION, lambda t: reseal(t, lambda v: None, "custody/opening")
    ),
    "packet": (Binding.PART_A, flip(f"{CASE}/packet.json")),
    "report": (Binding.PART_A, flip(f"{CASE}/report.md")),
    "freeze": (Binding.PART_A, flip(f"{CASE}/freeze.json")),
    "quality control": (Binding.PART_A, flip(f"{CASE}/qc.json")),
    "report: gone": (Binding.PART_A, lambda t: (t.bundle / CASE / "report.md").unlink()),
    "report: a link": (Binding.PART_A, link(f"{CASE}/report.md")),
    "sealed catalog": (Binding.SEALED_PACKET, flip("sealed/catalog.sealed")),
    "sealed mapping": (Binding.SEALED_PACKET, flip("sealed/mapping.sealed", 9)),
    "sealed Part B": (Binding.SEALED_PACKET, flip("sealed/part-b-1.sealed", 99)),
    "sealed Part B: gone": (Binding.SEALED_PACKET, lambda t: (t.bundle / "sealed/part-b-0.sealed").unlink()),
    "an extra file": (Binding.RUN, lambda t: (t.bundle / "notes.txt").write_text("x")),
    "an extra file in a folder": (Binding.RUN, lambda t: (t.bundle / CASE / "notes.txt").write_text("x")),
    "Part B beside Part A": (Binding.RUN, lambda t: shutil.copytree(
        CASES / "case-bbi-2007-07" / "part-b", t.bundle / "part-b")),
    "an extra folder": (Binding.RUN, lambda t: (t.bundle / "more").mkdir()),
    "a link as the bundle": (Binding.RUN, linked_bundle),
    "signed: the pair turned round": (Binding.ATTESTATION, lambda t: reseal(t, reversed_pair)),
    "signed: one case": (
        Binding.ATTESTATION, lambda t: reseal(t, lambda v: (v["cases"].pop(), v["pair"]["order"].pop()))
    ),
    "signed: packets exchanged": (Binding.SEALED_PACKET, lambda t: reseal(t, swapped)),
    "signed: custody self": (Binding.ATTESTATION, lambda t: reseal(t, lambda v: v.update(custody="self"))),
    "signed: custody timelock": (
        Binding.ATTESTATION, lambda t: reseal(t, lambda v: v.update(custody="timelock"))
    ),
    "signed: an unknown field": (Binding.ATTESTATION, lambda t: reseal(t, lambda v: v.update(note=1))),
    "signed: another custodian's name": (
        Binding.AUTHORITY, lambda t: reseal(t, lambda v: v.update(custodian_key_id="sha256:" + "0" * 64))
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BUNDLES)
def test_a_bundle_that_is_not_as_sealed_is_refused(sealed: Two, name: str) -> None:
    binding, change = BUNDLES[name]
    change(sealed)
    with pytest.raises(BindingError) as error:
        sealed.plan()
    assert error.value.binding is binding, error.value
    assert not sealed.run.exists()
    assert not list(sealed.evaluator.places.state.rglob("*.jsonl")), "no plan in the ledger"


def test_packets_in_each_others_place(sealed: Two) -> None:
    """Records and files exchanged together, and signed so: each file fits its record, and not its name."""
    reseal(sealed, swapped)
    one, two = (sealed.bundle / "sealed" / f"{kind}.sealed" for kind in ("catalog", "mapping"))
    data = one.read_bytes()
    one.write_bytes(two.read_bytes())
    two.write_bytes(data)
    with pytest.raises(BindingError, match="a packet mapping") as error:
        sealed.plan()
    assert error.value.binding is Binding.SEALED_PACKET


def test_a_bundle_without_its_statement_is_no_folder_of_cases_either(sealed: Two) -> None:
    (sealed.bundle / "bundle.json").unlink()
    with pytest.raises(EvalkitError, match=r"cannot read catalog\.json"):
        sealed.plan(pair=PAIR)


def test_packets_of_one_run_do_not_serve_another(sealed: Two) -> None:
    """The custodian herself signs her packets for another run: they do not open there."""
    reseal(sealed, lambda v: v.update(run_id="another"))
    sealed.plan()
    sealed.evaluate()
    sealed.ask()
    Ledger(sealed.custodian.places.ledger(sealed.custodian_id)).append(
        "sealed",
        run_id="another",
        pair=PAIR,
        document=digest((sealed.bundle / "bundle.json").read_bytes()),
        envelope=digest((sealed.bundle / "bundle.dsse.json").read_bytes()),
    )
    with pytest.raises(BindingError, match="does not open") as error:
        sealed.answer()
    assert error.value.binding is Binding.SEALED_PACKET
    assert not sealed.opening.exists()
    assert sealed.events("released") == []


def test_a_custodian_who_is_not_pinned_is_refused(sealed: Two) -> None:
    sealed.evaluator.places.trust.unlink()
    pin(sealed.evaluator.places.trust, entry(sealed.evaluator, SIGNED_PHASES))
    with pytest.raises(BindingError, match="the custodian's key is not pinned") as error:
        sealed.plan()
    assert error.value.binding is Binding.AUTHORITY
    assert not sealed.run.exists()


def test_a_custodian_pinned_for_something_else_is_refused(sealed: Two) -> None:
    sealed.evaluator.places.trust.unlink()
    pin(sealed.evaluator.places.trust, entry(sealed.evaluator, SIGNED_PHASES))
    pin(sealed.evaluator.places.trust, entry(sealed.custodian, SIGNED_PHASES))
    with pytest.raises(BindingError, match="not pinned for") as error:
        sealed.plan()
    assert error.value.binding is Binding.AUTHORITY


@pytest.mark.parametrize("custody", ["second_party", "process"])
def test_one_key_is_no_second_party(strangers: Two, custody: str) -> None:
    """The evaluator as her own custodian, with a trust file that lets her key do everything."""
    trust = strangers.evaluator.places.trust
    trust.unlink()
    pin(trust, entry(strangers.evaluator, (*SIGNED_PHASES, *CUSTODY_PHASES)))
    from evalkit.decisions import seal_bundle

    seal_bundle(CASES, pair=PAIR, out=strangers.bundle, custody=custody, places=strangers.evaluator.places)
    with pytest.raises(BindingError, match=f"custody self, not {custody}") as error:
        strangers.plan()
    assert error.value.binding is Binding.AUTHORITY
    assert not strangers.run.exists()


@pytest.mark.parametrize(
    "options", [{"pair": PAIRS[1]}, {"run_id": "mine"}, {"selection_rule": "the best one"}]
)
def test_what_is_stated_beside_a_bundle_must_be_what_was_sealed(sealed: Two, options: dict[str, str]) -> None:
    with pytest.raises(EvalkitError, match="is not what the custodian sealed"):
        sealed.plan(**options)
    assert not sealed.run.exists()
    bundle = json.loads((sealed.bundle / "bundle.json").read_bytes())
    pair = bundle["pair"]
    plan = sealed.plan(pair=PAIR, run_id=bundle["run_id"], selection_rule=pair["selection_rule"])
    assert plan.pair.selection_rule == pair["selection_rule"]


def test_warnings_of_a_foreign_case_are_refused(sealed: Two) -> None:
    with pytest.raises(EvalkitError, match="not in pair"):
        sealed.plan(accepted_warnings={"case-amzn-2001-04": ["NAMED_CASE"]})


def test_another_custodians_bundle_is_not_ours(strangers: Two, tmp_path: Path) -> None:
    """A bundle by a stranger with the same cases: its key is nobody's here."""
    third = Two(tmp_path / "third")
    make_keys(third.custodian)
    pin(third.custodian.places.trust, entry(third.custodian, CUSTODY_PHASES))
    third.seal()
    with pytest.raises(BindingError) as error:
        strangers.plan(third.bundle)
    assert error.value.binding is Binding.AUTHORITY
    assert not list(strangers.run.parent.iterdir())
