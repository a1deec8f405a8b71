"""Custody as it is meant: bundle, request and opening go over, and the reveal binds the release."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from decisions.support import CASES, PAIRS, strings
from evalkit.decisions import precommit, reveal
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.custody.opening import bindings_of
from evalkit.decisions.custody.request import names_in_request
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Blocked
from evalkit.sealing import PREDICATES, canonical_json, digest, pin

from .people import Two, entry


def statement(envelope: dict[str, Any]) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(base64.b64decode(envelope["payload"]))
    return value


def lines(two: Two) -> dict[str, str]:
    return {line.text: line.status for line in two.verify().lines}


def test_the_plan_of_a_bundle_is_what_the_custodian_sealed(planned: Two) -> None:
    plan = planned.evaluator.plan
    bundle = json.loads((planned.bundle / "bundle.json").read_bytes())
    assert plan["custody"] == "second_party"
    assert plan["run_id"] == bundle["run_id"]
    assert plan["custodian"]["key_id"] == planned.custodian_id != plan["signing_key_id"]
    assert plan["custodian"]["bundle"] == bundle
    assert plan["custodian"]["bundle_digest"] == digest((planned.bundle / "bundle.json").read_bytes())
    assert (
        canonical_json(plan["custodian"]["attestation"]) == (planned.bundle / "bundle.dsse.json").read_bytes()
    )
    for kind in ("catalog", "mapping", "part-b-0", "part-b-1"):
        name = f"sealed/{kind}.sealed"
        assert (planned.run / name).read_bytes() == (planned.bundle / name).read_bytes()


def test_precommit_of_a_bundle_makes_no_unsealing_key(sealed: Two) -> None:
    sealed.evaluator.places.unsealing_key.unlink()
    sealed.plan()
    assert not sealed.evaluator.places.unsealing_key.exists()


def test_the_evaluators_own_unsealing_key_opens_nothing(planned: Two) -> None:
    from evalkit.decisions.openings import sealed_packets
    from evalkit.decisions.plan import Precommit
    from evalkit.errors import BindingError
    from evalkit.sealing import load_unsealing_key

    private = load_unsealing_key(planned.evaluator.places.unsealing_key)
    plan = Precommit.from_json((planned.run / "plan.json").read_bytes())
    for packet in sealed_packets(planned.run, plan).values():
        with pytest.raises(BindingError, match="does not open"):
            packet.reveal(private)


def test_the_request_is_exactly_the_attested_files(asked: Two) -> None:
    value = json.loads(asked.request.read_bytes())
    assert set(value) == {"schema", "run_id", "files"}
    assert set(value["files"]) == names_in_request(asked.evaluator.plan["pair"]["order"], replay=False)
    for name, text in value["files"].items():
        whole = (asked.run / name).read_bytes()
        assert base64.b64decode(text) == whole or name == "journal.jsonl"
    journal = base64.b64decode(value["files"]["journal.jsonl"])
    assert json.loads(journal.splitlines()[-1])["event"] == "intent", "up to what is signed, and no further"


def test_the_release_is_in_the_ledger_and_in_the_reveal(revealed: Two) -> None:
    document = json.loads((revealed.run / "reveal" / "calibration.json").read_bytes())
    opening = json.loads(revealed.opening.read_bytes())
    assert document["release"] == opening["release"]
    assert document["openings"] == opening["openings"]
    told = statement(document["release"])
    assert told["predicateType"] == PREDICATES["custody/opening"]
    run = revealed.verify().run
    (event,) = revealed.events("released")
    expected = bindings_of(run) | {
        "released_at": event["time"],
        "others": {"sealed": 0, "released": 0},
        "ledger": {"size": event["seq"] + 1, "digest": digest(canonical_json(event))},
    }
    assert {name: told["predicate"][name] for name in expected} == expected
    assert event["attestation"] == digest((revealed.run / "ex-ante" / "run.dsse.json").read_bytes())
    assert event["plan"] == digest((revealed.run / "plan.json").read_bytes())
    assert event["openings"] == digest(canonical_json(opening["openings"]))


def test_a_third_party_verifies_with_both_keys_pinned(revealed: Two, tmp_path: Path) -> None:
    from evalkit.decisions import verify_run
    from evalkit.errors import Binding, BindingError

    trust = tmp_path / "third" / "trust.json"
    pin(trust, entry(revealed.evaluator, SIGNED_PHASES))
    with pytest.raises(BindingError, match="the custodian's key is not pinned") as error:
        verify_run(revealed.run, trust=trust)
    assert error.value.binding is Binding.AUTHORITY
    assert "beside the evaluator's" in error.value.expected
    pin(trust, entry(revealed.custodian, CUSTODY_PHASES))
    assert verify_run(revealed.run, trust=trust).phase == "post_reveal_calibration"


@pytest.mark.parametrize("phase", CUSTODY_PHASES)
def test_each_word_of_the_custodian_needs_a_key_pinned_for_it(
    revealed: Two, tmp_path: Path, phase: str
) -> None:
    from evalkit.decisions import verify_run
    from evalkit.errors import Binding, BindingError

    trust = tmp_path / "third" / "trust.json"
    pin(trust, entry(revealed.evaluator, SIGNED_PHASES))
    pin(trust, entry(revealed.custodian, (phase,)))
    with pytest.raises(BindingError, match="not pinned for") as error:
        verify_run(revealed.run, trust=trust)
    assert error.value.binding is Binding.AUTHORITY


def test_what_verify_says_of_a_second_party(planned: Two, revealed: Two) -> None:
    before, after = lines(planned), lines(revealed)
    signed = "Part A and the sealed files are those that the custodian's key signed; it is another key than the plan's, and no rotation that your trust file knows leads from one to the other"
    released = "the custodian's key signed that it releases these openings for this very ex-ante attestation, and signed that after the attestation was made"
    assert before[signed] == after[signed] == "proven"
    assert released not in before
    assert after[released] == "proven"
    assert after["custody second_party"] == "policy"
    people = next(t for t in after if "two people who did not collude" in t)
    assert after[people] == "policy"
    assert "the evaluator could then not open the sealed files without the custodian" in people
    assert after["that the custodian's clock is right"] == "policy"
    assert [s for t, s in after.items() if "nobody peeked" in t] == ["not proven"]
    assert not [t for t in after if "blind" in t.lower()]
    assert not [t for t in after if "own user could open" in t]


def test_process_says_that_it_is_one_person(strangers: Two) -> None:
    strangers.seal(custody="process")
    plan = strangers.plan()
    assert plan.custody == "process"
    strangers.evaluate()
    strangers.ask()
    strangers.answer()
    strangers.reveal()
    said = lines(strangers)
    assert said["custody process"] == "policy"
    assert [t for t in said if "of the same person" in t]
    assert [s for t, s in said.items() if "the person who evaluated also has the account" in t] == [
        "not proven"
    ]
    assert not [t for t in said if "blind" in t.lower() or "two people" in t]


def test_one_custodian_counts_the_other_bundles_of_a_pair(answered: Two, tmp_path: Path) -> None:
    """Many bundles of one pair, the best run shown: her signed count tells."""
    answered.seal(tmp_path / "unused")
    answered.seal(tmp_path / "other-pair", pair=PAIRS[1])
    answered.seal(tmp_path / "b2")
    run, request, opening = tmp_path / "r2", tmp_path / "q2", tmp_path / "o2"
    answered.plan(tmp_path / "b2", out=run)
    answered.evaluate(run)
    answered.ask(request, run)
    answered.answer(request, opening)
    answered.reveal(opening, run)
    told = [line for line in answered.verify(run).lines if "other bundles" in line.text]
    assert [(line.status, line.detail) for line in told] == [("proven", "2 sealed, 1 released")]


def test_warnings_are_accepted_by_the_evaluator(sealed: Two) -> None:
    codes = {c["case_id"]: c["accepted_warnings"] for c in json.loads(sealed.plan().to_json())["cases"]}
    assert all(codes.values())
    with pytest.raises(Blocked, match="warnings that were not accepted"):
        sealed.plan(out=sealed.root / "r2", accepted_warnings={c: w[1:] for c, w in codes.items()})
    assert not (sealed.root / "r2").exists()


def test_ephemeral_evaluator_keys_work_once_they_are_pinned(strangers: Two) -> None:
    """An evaluator without a key of her own: the key that precommit makes is pinned by the custodian."""
    from evalkit.errors import BindingError
    from evalkit.sealing import Trust

    strangers.seal()
    strangers.evaluator.places.signing_key.unlink()
    plan = strangers.plan()
    assert plan.ephemeral_keys
    assert not (strangers.evaluator.places.ephemeral(plan.run_id) / "unsealing.pem").exists()
    strangers.evaluate()
    strangers.ask()
    with pytest.raises(BindingError, match="no pinned key made this signature"):
        strangers.answer()
    key = Trust.load(strangers.evaluator.places.trust, []).key(plan.signing_key_id)
    assert key is not None
    pin(strangers.custodian.places.trust, key)
    strangers.answer()
    strangers.reveal()
    assert strangers.verify().phase == "post_reveal_calibration"


def test_self_runs_name_no_custodian_and_no_release(tmp_path: Path) -> None:
    from decisions.support import World, evaluate_world, make_world

    world: World = make_world(tmp_path / "w")
    assert world.plan["custodian"] is None
    evaluate_world(world)
    assert reveal(world.run, write_calibration=True, places=world.places).document["release"] is None


# --- where nothing of Part B may be


def sentinels(cases: Path = CASES) -> list[str]:
    """Every longer text of Part B, mapping and roles."""
    found: set[str] = set()
    for case in sorted(cases.glob("case-*")):
        outcome = json.loads((case / "part-b" / "outcome.json").read_bytes())
        found |= {t for t in strings(outcome) if len(t) > 24 and not t.startswith("sha256:")}
        found |= {t for t in (case / "part-b" / "teaching-note.md").read_text().splitlines() if len(t) > 24}
    part_a = "".join(p.read_text() for p in sorted(cases.glob("*/part-a/*")))
    return sorted(t for t in found if t not in part_a)


def shows(data: bytes) -> list[str]:
    plain = data.decode(errors="replace")
    return [
        t
        for t in sentinels()
        if t in plain or json.dumps(t)[1:-1] in plain or base64.b64encode(t.encode())[3:-4].decode() in plain
    ]


def test_no_part_b_in_bundle_run_or_request(asked: Two) -> None:
    assert len(sentinels()) > 60
    looked = [
        p for root in (asked.bundle, asked.run, asked.evaluator.root) for p in root.rglob("*") if p.is_file()
    ]
    assert len(looked) > 30
    for path in [*looked, asked.request]:
        assert shows(path.read_bytes()) == [], path
        if "part-a" not in path.parts:
            assert b"favorable" not in path.read_bytes(), path
    for name, text in json.loads(asked.request.read_bytes())["files"].items():
        assert shows(base64.b64decode(text)) == [], name


def test_the_sentinels_are_seen_where_they_are(answered: Two) -> None:
    assert len(shows(answered.opening.read_bytes())) > 20


def test_a_cases_folder_still_needs_its_pair(strangers: Two, tmp_path: Path) -> None:
    from evalkit.errors import EvalkitError

    with pytest.raises(EvalkitError, match="no pair is named"):
        precommit(CASES, out=tmp_path / "r", places=strangers.evaluator.places)
    assert not (tmp_path / "r").exists()
