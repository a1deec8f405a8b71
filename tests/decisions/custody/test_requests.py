"""What a custodian does not release: requests that are none, do not hold, or come a second time."""

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

from decisions.support import CASE_IDS, baseline_record, evaluate_world, make_world, part_a, replay_model
from evalkit.decisions import write_request
from evalkit.decisions.custody.bundle import CUSTODY_PHASES
from evalkit.decisions.run_keys import SIGNED_PHASES
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import canonical_json, pin

from .forging import pack, reseal
from .people import Two, entry, make_keys

Json = dict[str, Any]


def nothing_released(two: Two) -> bool:
    return not two.opening.exists() and two.events("released") == []


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


def test_a_name_that_is_taken_is_refused_before_anything_is_recorded(asked: Two) -> None:
    asked.opening.write_text("mine")
    with pytest.raises(EvalkitError, match="exists already"):
        asked.answer()
    assert asked.opening.read_text() == "mine"
    assert asked.events("released") == []


def test_a_blocked_run_is_neither_asked_for_nor_released(sealed: Two) -> None:
    texts = {c: json.dumps(baseline_record(part_a(c))) for c in CASE_IDS[:2]} | {CASE_IDS[1]: "no record"}
    sealed.plan(model=replay_model(texts))
    sealed.evaluate()
    with pytest.raises(Blocked, match="decision record is blocked") as error:
        sealed.ask()
    assert "another bundle" in error.value.do, "a second plan of this one would be refused"
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
    "plan attestation's hint": (Binding.ATTESTATION, "plan.dsse.json", hint),
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
