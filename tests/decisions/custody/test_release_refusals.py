"""What a custodian does not release, and releases that an evaluator or a verifier does not take."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from decisions.fixtures import QuickSigner
from decisions.forging import opened_run, replan, sign_reveal
from decisions.support import CASE_IDS, baseline_record, evaluate_world, make_world, part_a, replay_model
from evalkit.decisions import reveal, verify_run, write_request
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.custody.opening import bindings_of
from evalkit.decisions.custody.request import Request, names_in_request
from evalkit.decisions.precommitment import SIGNED_PHASES
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import PREDICATES, canonical_json, digest, pin, sign

from .people import Two, entry, make_keys

Json = dict[str, Any]


def nothing_released(two: Two) -> bool:
    return not two.opening.exists() and two.events("released") == []


def pack(two: Two, run: Path | None = None) -> None:
    """A request made by hand, of whatever the run holds: the evaluator's own evalkit is not asked."""
    run = run or two.run
    plan = json.loads((run / "plan.json").read_bytes())
    replay = (run / "model").exists()
    files = {n: (run / n).read_bytes() for n in names_in_request(plan["pair"]["order"], replay=replay)}
    lines = files["journal.jsonl"].splitlines(keepends=True)
    while json.loads(lines[-1])["event"] != "intent":
        lines.pop()
    files["journal.jsonl"] = b"".join(lines)
    two.request.write_bytes(Request(plan["run_id"], files).to_json())


# --- asking


def test_an_unevaluated_run_is_not_asked_for(planned: Two) -> None:
    with pytest.raises(Blocked, match="not evaluated yet"):
        planned.ask()
    assert not planned.request.exists()


def test_a_self_run_has_nobody_to_ask(tmp_path: Path) -> None:
    world = make_world(tmp_path / "w")
    evaluate_world(world)
    with pytest.raises(EvalkitError, match="custody is self"):
        write_request(world.run, out=tmp_path / "q", places=world.places)
    assert not (tmp_path / "q").exists()


def test_a_revealed_run_is_not_asked_for_again(revealed: Two, tmp_path: Path) -> None:
    with pytest.raises(Blocked, match="revealed already"):
        revealed.ask(tmp_path / "q")


def test_nothing_is_overwritten(answered: Two, tmp_path: Path) -> None:
    before = (answered.request.read_bytes(), answered.opening.read_bytes())
    for act in (answered.ask, answered.answer):
        with pytest.raises(EvalkitError, match="exists already") as error:
            act()
        assert error.value.exit_code == 2
    assert (answered.request.read_bytes(), answered.opening.read_bytes()) == before
    (answered.root / "dangling").symlink_to(tmp_path / "nowhere")
    with pytest.raises(EvalkitError, match="exists already"):
        answered.ask(answered.root / "dangling")


def test_a_blocked_run_is_neither_asked_for_nor_released(sealed: Two) -> None:
    texts = {c: json.dumps(baseline_record(part_a(c))) for c in CASE_IDS[:2]} | {CASE_IDS[1]: "no record"}
    sealed.plan(model=replay_model(texts))
    sealed.evaluate()
    with pytest.raises(Blocked, match="decision record is blocked"):
        sealed.ask()
    assert not sealed.request.exists()
    pack(sealed)
    with pytest.raises(Blocked, match="decision record is blocked"):
        sealed.answer()
    assert nothing_released(sealed)


# --- requests that are none


def edited(edit: Callable[[Json], Any]) -> Callable[[Two], None]:
    def change(two: Two) -> None:
        value = json.loads(two.request.read_bytes())
        edit(value)
        two.request.write_bytes(canonical_json(value))

    return change


def raw(change: Callable[[bytes], bytes]) -> Callable[[Two], Any]:
    return lambda two: two.request.write_bytes(change(two.request.read_bytes()))


def add(name: str) -> Callable[[Two], None]:
    return edited(lambda v: v["files"].update({name: base64.b64encode(b"x").decode()}))


def rename(old: str, new: str) -> Callable[[Two], None]:
    return edited(lambda v: v["files"].update({new: v["files"].pop(old)}))


def loose_base64(value: Json) -> None:
    """The unused bits of the last digit set: another spelling of the same bytes."""
    name, text = next((n, t) for n, t in value["files"].items() if t.endswith("=="))
    at = text[-3]
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    value["files"][name] = text[:-3] + alphabet[alphabet.index(at) + 1] + "=="


def linked(two: Two) -> None:
    two.request.rename(two.root / "moved")
    two.request.symlink_to(two.root / "moved")


def pipe(two: Two) -> None:
    two.request.unlink()
    os.mkfifo(two.request)


PACKET = "part-a/case-bbi-2007-07/packet.json"
MALFORMED: dict[str, Callable[[Two], Any]] = {
    "empty": raw(lambda d: b""),
    "no JSON": raw(lambda d: b"PK\x03\x04"),
    "not canonical": raw(lambda d: d + b"\n"),
    "cut": raw(lambda d: d[: len(d) // 2]),
    "a duplicate key": raw(lambda d: d[:-1] + b',"schema":"evalkit/custody-request/1"}'),
    "another schema": edited(lambda v: v.update(schema="evalkit/custody-request/2")),
    "an unknown field": edited(lambda v: v.update(note=1)),
    "no files": edited(lambda v: v.pop("files")),
    "files as a list": edited(lambda v: v.update(files=[])),
    "a run id with a slash": edited(lambda v: v.update(run_id="../x")),
    "a run id that is a number": edited(lambda v: v.update(run_id=7)),
    "another run id": edited(lambda v: v.update(run_id="another")),
    "a path upwards": add("../evil"),
    "a path upwards inside": add("part-a/../../evil"),
    "an absolute path": add("/tmp/evil"),
    "a path with a dot": add("./plan.json"),
    "a path with a backslash": add("sealed\\catalog.sealed"),
    "a hidden file": add("part-a/.evil"),
    "a reveal": add("reveal/calibration.json"),
    "Part B": add("part-b/outcome.json"),
    "a third case": add("part-a/case-x/packet.json"),
    "an empty path": add(""),
    "a case id upwards": rename(PACKET, "part-a/../packet.json"),
    "a case id with a slash": rename(PACKET, "part-a/a/b/packet.json"),
    "a case id with a newline": rename(PACKET, "part-a/case-bbi-2007-07\n/packet.json"),
    "no plan": edited(lambda v: v["files"].pop("plan.json")),
    "no packet": edited(lambda v: v["files"].pop(PACKET)),
    "a file as a number": edited(lambda v: v["files"].update({"plan.json": 1})),
    "a file that is no base64": edited(lambda v: v["files"].update({"plan.json": "***"})),
    "a file in another base64": edited(loose_base64),
    "a file beyond ASCII": edited(lambda v: v["files"].update({"plan.json": "é"})),
    "a link": linked,
    "a pipe": pipe,
    "a folder": lambda t: (t.request.unlink(), t.request.mkdir()),
    "gone": lambda t: t.request.unlink(),
}  # fmt: skip


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_no_request_is_refused(asked: Two, name: str, tmp_path: Path) -> None:
    MALFORMED[name](asked)
    with pytest.raises(EvalkitError) as error:
        asked.answer()
    assert error.value.exit_code == 2, error.value
    assert nothing_released(asked)
    assert not list(tmp_path.rglob("evil"))


# --- requests that do not hold


def file_in(two: Two, name: str, edit: Callable[[bytes], bytes]) -> None:
    value = json.loads(two.request.read_bytes())
    data = edit(base64.b64decode(value["files"][name]))
    value["files"][name] = base64.b64encode(data).decode()
    two.request.write_bytes(canonical_json(value))


def hint(data: bytes) -> bytes:
    value = json.loads(data)
    value["signatures"][0]["keyid"] = "sha256:" + "0" * 64
    return canonical_json(value)


def turned(data: bytes) -> bytes:
    return data[:-2] + bytes([data[-2] ^ 1]) + data[-1:]


WRONG: dict[str, tuple[Binding, str, Callable[[bytes], bytes]]] = {
    "plan": (Binding.PRECOMMIT, "plan.json", turned),
    "plan attestation's hint": (Binding.RUN, "plan.dsse.json", hint),
    "packet": (Binding.PART_A, PACKET, turned),
    "prompt": (Binding.PROMPT, "instructions/prompt.md", turned),
    "rubric": (Binding.SCORE, "instructions/rubric.json", turned),
    "sealed mapping": (Binding.SEALED_PACKET, "sealed/mapping.sealed", turned),
    "sealed Part B": (Binding.SEALED_PACKET, "sealed/part-b-0.sealed", turned),
    "run": (Binding.ATTESTATION, "ex-ante/run.json", turned),
    "run attestation": (Binding.ATTESTATION, "ex-ante/run.dsse.json", turned),
    "run attestation's hint": (Binding.ATTESTATION, "ex-ante/run.dsse.json", hint),
    "journal cut": (Binding.RUN, "journal.jsonl", lambda d: d[: d.rindex(b"\n", 0, -1) + 1]),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_run_that_does_not_verify_is_not_released(asked: Two, name: str) -> None:
    binding, file, edit = WRONG[name]
    file_in(asked, file, edit)
    with pytest.raises(BindingError) as error:
        asked.answer()
    assert error.value.binding is binding, error.value
    assert nothing_released(asked)


def test_a_journal_beyond_what_is_signed_is_not_taken(asked: Two) -> None:
    whole = (asked.run / "journal.jsonl").read_bytes()
    file_in(asked, "journal.jsonl", lambda data: whole)
    with pytest.raises(BindingError, match="goes on behind") as error:
        asked.answer()
    assert error.value.binding is Binding.RUN
    assert nothing_released(asked)


def test_an_evaluator_who_is_not_pinned_gets_nothing(asked: Two) -> None:
    asked.custodian.places.trust.unlink()
    pin(asked.custodian.places.trust, entry(asked.custodian, CUSTODY_PHASES))
    with pytest.raises(BindingError, match="no pinned key made this signature") as error:
        asked.answer()
    assert error.value.binding is Binding.AUTHORITY
    assert asked.evaluator_id in error.value.where
    assert nothing_released(asked)


def test_an_evaluator_pinned_for_plans_only_gets_nothing(asked: Two) -> None:
    asked.custodian.places.trust.unlink()
    pin(asked.custodian.places.trust, entry(asked.custodian, CUSTODY_PHASES))
    pin(asked.custodian.places.trust, entry(asked.evaluator, ("decisions/precommit",)))
    with pytest.raises(BindingError, match="not pinned for"):
        asked.answer()
    assert nothing_released(asked)


def test_another_custodian_releases_nothing(asked: Two, tmp_path: Path) -> None:
    """She trusts both, and even has the same unsealing key: the bundle is not hers."""
    third = Two(tmp_path / "third")
    make_keys(third.custodian)
    for key in (entry(asked.custodian, CUSTODY_PHASES), entry(asked.evaluator, SIGNED_PHASES)):
        pin(third.custodian.places.trust, key)
    pin(third.custodian.places.trust, entry(third.custodian, CUSTODY_PHASES))
    shutil.copy(asked.custodian.places.unsealing_key, third.custodian.places.unsealing_key)
    with pytest.raises(BindingError, match="another custodian sealed this run") as error:
        third.answer(asked.request, asked.opening)
    assert error.value.binding is Binding.AUTHORITY
    assert nothing_released(asked)
    assert third.events("released") == []


def test_a_custodian_without_her_ledger_releases_nothing(asked: Two) -> None:
    """Without it nothing shows what was released before."""
    shutil.rmtree(asked.custodian.places.ledgers)
    with pytest.raises(BindingError, match="does not tell of the bundle") as error:
        asked.answer()
    assert error.value.binding is Binding.RUN
    assert nothing_released(asked)


def test_a_bundle_that_the_ledger_does_not_know_is_not_released(sealed: Two) -> None:
    """A second statement about the same packets, signed by the custodian's key but not by her evalkit."""
    from .test_sealing_refusals import reseal

    reseal(sealed, lambda v: v["pair"].update(selection_rule="another"))
    sealed.plan()
    sealed.evaluate()
    sealed.ask()
    with pytest.raises(BindingError, match="does not tell of the bundle"):
        sealed.answer()
    assert nothing_released(sealed)


def test_a_custodian_without_her_unsealing_key_releases_nothing(asked: Two) -> None:
    asked.custodian.places.unsealing_key.unlink()
    with pytest.raises(EvalkitError, match="no such file"):
        asked.answer()
    assert nothing_released(asked)


def test_a_custodian_with_another_unsealing_key_releases_nothing(asked: Two) -> None:
    shutil.copy(asked.evaluator.places.unsealing_key, asked.custodian.places.unsealing_key)
    with pytest.raises(BindingError, match="does not open"):
        asked.answer()
    assert nothing_released(asked)


def test_a_clock_behind_the_run_releases_nothing(asked: Two) -> None:
    early = datetime.now(UTC) - timedelta(hours=1)
    with pytest.raises(EvalkitError, match="behind the time at which the run was final"):
        asked.answer(clock=lambda: early)
    assert nothing_released(asked)


# --- no second try


def test_the_same_request_gets_the_same_opening_again(answered: Two, tmp_path: Path) -> None:
    answered.answer(out=tmp_path / "again")
    answered.ask(tmp_path / "q")
    assert (tmp_path / "q").read_bytes() == answered.request.read_bytes()
    answered.answer(tmp_path / "q", tmp_path / "third")
    first = answered.opening.read_bytes()
    assert (tmp_path / "again").read_bytes() == first == (tmp_path / "third").read_bytes()
    assert len(answered.events("released")) == 1


def refused_second(two: Two, request: Path) -> None:
    released = two.events("released")
    with pytest.raises(Blocked, match="released for another attestation") as error:
        two.answer(request, two.root / "second")
    assert error.value.exit_code == 5
    assert not (two.root / "second").exists()
    assert two.events("released") == released


def test_another_attempt_at_the_same_plan_gets_nothing(
    planned: Two, stages: dict[str, Two], tmp_path: Path
) -> None:
    """The evaluator restores her home from before, evaluates anew, and picks the better one."""
    twin = stages["planned"].copy(tmp_path / "twin")
    for two in (planned, twin):
        two.evaluate()
        two.ask()
    planned.answer()
    refused_second(planned, twin.request)
    planned.answer(out=tmp_path / "again")


def test_another_plan_of_the_same_bundle_gets_nothing(
    sealed: Two, stages: dict[str, Two], tmp_path: Path
) -> None:
    twin = stages["sealed"].copy(tmp_path / "twin")
    sealed.plan()
    twin.plan(attempt_cap=9)
    for two in (sealed, twin):
        two.evaluate()
        two.ask()
    sealed.answer()
    refused_second(sealed, twin.request)


def test_another_evaluator_with_the_same_bundle_gets_nothing(answered: Two, tmp_path: Path) -> None:
    other = Two(tmp_path / "other")
    make_keys(other.evaluator)
    for world in (other.evaluator, answered.custodian):
        pin(world.places.trust, entry(other.evaluator, SIGNED_PHASES))
    pin(other.evaluator.places.trust, entry(answered.custodian, CUSTODY_PHASES))
    other.plan(answered.bundle)
    other.evaluate()
    other.ask()
    refused_second(answered, other.request)


def test_one_ledger_takes_one_run_of_a_bundle(evaluated: Two) -> None:
    """A second plan from the same bundle by the same signer: her ledger knows the run already."""
    evaluated.plan(out=evaluated.root / "r2")
    with pytest.raises(EvalkitError):
        evaluated.evaluate(evaluated.root / "r2")
    assert not (evaluated.root / "r2" / "ex-ante").exists()


# --- plans that say another custody than was sealed, signed by their own maker


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


# --- openings


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


def resigned(
    two: Two, edit: Callable[[Json, Json], Any], signer: Any = None, phase: str = "custody/opening"
) -> None:
    """The opening with openings and predicate edited, and signed anew, by the custodian or somebody else."""
    value = json.loads(two.opening.read_bytes())
    predicate = json.loads(base64.b64decode(value["release"]["payload"]))["predicate"]
    edit(value["openings"], predicate)
    envelope = sign(
        "openings.json",
        canonical_json(value["openings"]),
        predicate_type=PREDICATES[phase],
        predicate=predicate,
        signer=signer or QuickSigner(two.custodian.places.signing_key),
    )
    value["release"] = json.loads(envelope)
    two.opening.write_bytes(canonical_json(value))


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
    "after the reveal": (Binding.RUN, lambda o, p: p.update(released_at="2090-01-01T00:00:00Z")),
    "no ledger": (Binding.ATTESTATION, lambda o, p: p.pop("ledger")),
    "a ledger head that is none": (Binding.RUN, lambda o, p: p.update(ledger=[])),
    "a count that is none": (Binding.ATTESTATION, lambda o, p: p.update(others={"sealed": True})),
    "a field more in the statement": (Binding.ATTESTATION, lambda o, p: p.update(note="x")),
}  # fmt: skip


@pytest.mark.parametrize("name", RELEASES)
def test_a_release_that_does_not_hold_is_refused(answered: Two, name: str) -> None:
    """Even where the custodian's own key signed it."""
    binding, edit = RELEASES[name]
    resigned(answered, edit)
    not_revealed(answered, binding)


def test_a_release_signed_again_as_it_was_is_taken(answered: Two) -> None:
    """The table shows something only because this passes."""
    before = answered.opening.read_bytes()
    resigned(answered, lambda o, p: None)
    assert answered.opening.read_bytes() == before
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


def test_a_reveal_is_not_dated_before_the_release(answered: Two) -> None:
    final = json.loads((answered.run / "ex-ante" / "run.json").read_bytes())["finalized_at"]
    later = (datetime.fromisoformat(final) + timedelta(minutes=1)).isoformat()
    resigned(answered, lambda o, p: p.update(released_at=later))
    with pytest.raises(BindingError, match="before the custodian released") as error:
        answered.reveal(revealed_at=final)
    assert error.value.binding is Binding.RUN


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


def test_verify_checks_that_the_reveal_is_not_dated_before_the_release(answered: Two) -> None:
    document = json.loads(
        canonical_json(
            reveal(answered.run, opening=answered.opening, places=answered.evaluator.places).document
        )
    )
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    resigned(answered, lambda o, p: p.update(released_at=later))
    document["release"] = json.loads(answered.opening.read_bytes())["release"]
    sign_reveal(answered.evaluator, document)
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
