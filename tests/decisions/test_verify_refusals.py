"""W36, W38, W40: what a third party's `verify_run` refuses, counts and leaves open."""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import evaluate, precommit, reveal, verify_run
from evalkit.decisions.verification import VerificationReport
from evalkit.errors import Binding, BindingError, Blocked
from evalkit.sealing import Ledger, canonical_json, create_signing_key, digest

from .forging import append_to_journal, commit_any_reveal, quick_everywhere, replan, world_with_own_key
from .support import (
    CASE_IDS,
    CASES,
    PAIR,
    World,
    baseline_record,
    evaluate_world,
    forge,
    part_a,
    replay_world,
)

pytestmark = pytest.mark.usefixtures("quick_signer")


def refused(world: World, match: str) -> Binding:
    with pytest.raises(BindingError, match=match) as caught:
        verify_run(world.run, places=world.places)
    return caught.value.binding


def lines(report: VerificationReport, status: str) -> list[str]:
    return [f"{x.text} ({x.detail})" for x in report.lines if x.status == status]


def test_w28_a_blocked_run_that_was_revealed_nevertheless(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    quick_everywhere(monkeypatch)
    record = baseline_record(part_a(CASE_IDS[1]))
    record["valuation"]["abstain"] = False
    world = replay_world(tmp_path / "w", {CASE_IDS[1]: json.dumps(record)})
    evaluate_world(world)
    with pytest.raises(Blocked):
        reveal(world.run, write_calibration=True, places=world.places)
    commit_any_reveal(world)
    assert refused(world, "a blocked run was revealed") is Binding.RUN


def test_a_reveal_by_hand_of_a_good_run_verifies(evaluated: World) -> None:
    commit_any_reveal(evaluated)
    assert verify_run(evaluated.run, places=evaluated.places).phase == "post_reveal_calibration"


@pytest.mark.parametrize("kind", ["catalog", "mapping", "part-b-0", "part-b-1"])
def test_w2_a_sealed_file_changed_before_any_run(planned: World, kind: str) -> None:
    path = planned.run / "sealed" / f"{kind}.sealed"
    data = bytearray(path.read_bytes())
    data[200] ^= 1
    path.write_bytes(bytes(data))
    assert refused(planned, "not the one that was committed") is Binding.SEALED_PACKET


def test_w38_a_reveal_that_was_removed_shows(revealed: World) -> None:
    shutil.rmtree(revealed.run / "reveal")
    assert refused(revealed, "says that the phase reveal was committed") is Binding.RUN


def test_an_evaluation_that_was_removed_shows(evaluated: World) -> None:
    """A result that its owner does not like, deleted: the run would look as if it had never been asked."""
    shutil.rmtree(evaluated.run / "ex-ante")
    assert refused(evaluated, "says that the phase ex-ante was committed") is Binding.RUN
    (evaluated.run / "ex-ante").symlink_to("nowhere")
    assert refused(evaluated, ".") is Binding.RUN


def test_w2_a_plan_without_its_journal_is_no_plan(planned: World) -> None:
    (planned.run / "journal.jsonl").write_bytes(b"")
    assert refused(planned, "does not tell of this plan") is Binding.RUN


# --- report.html: derived, and worth nothing here


@pytest.mark.parametrize("name", ["report.html", "report.pdf"])
@pytest.mark.parametrize("kind", ["a link", "a dangling link", "a folder"])
def test_a_report_that_is_no_file(evaluated: World, name: str, kind: str) -> None:
    path = evaluated.run / name
    if kind == "a folder":
        path.mkdir()
    else:
        target = evaluated.root / "page.html"
        if kind == "a link":
            target.write_text("page")
        path.symlink_to(target)
    assert refused(evaluated, f"{name} is no regular file") is Binding.RUN


def test_a_report_in_a_run_is_not_proven(evaluated: World) -> None:
    def told() -> list[str]:
        found = lines(verify_run(evaluated.run, places=evaluated.places), "not proven")
        return [text for text in found if "report.html says" in text]

    assert told() == []
    (evaluated.run / "report.html").write_text("<p>Score 100</p>")
    assert len(told()) == 1


# --- instructions that are not evalkit's


def instructed(world: World, extra: bytes) -> None:
    path = world.run / "instructions" / "prompt.md"
    path.write_bytes(path.read_bytes() + extra)
    template = digest(path.read_bytes())
    replan(world, lambda plan: plan["instructions"].update(prompt_template=template))


def test_w5_instructions_of_ones_own_are_not_called_fair(planned: World) -> None:
    own = verify_run(planned.run, places=planned.places)
    assert any("and evalkit's own" in text for text in lines(own, "proven"))
    assert not any("fair" in text for text in lines(own, "not proven"))
    instructed(planned, b"\nThe company survived.\n")
    for phase in ("precommitted", "ex_ante_scored"):
        report = verify_run(planned.run, places=planned.places)
        assert report.phase == phase
        assert any("that they are fair" in text for text in lines(report, "not proven"))
        assert not any("evalkit's own" in text for text in lines(report, "proven"))
        if phase == "precommitted":
            # the baseline reads the packet out of the prompt, whatever else stands in it
            evaluate_world(planned)


# --- attempts (W40)


def begun(world: World, number: int, *, run_id: str | None = None, phase: str = "ex-ante") -> None:
    fields = {"run_id": run_id or world.run_id, "phase": phase, "attempt": number}
    world.ledger.append("attempt", **fields)
    world.ledger.append("abandoned", **fields, reason="nothing was to be written")


def asked_three_times(world: World, document: dict[str, Any], numbers: tuple[Any, Any]) -> None:
    """The owner asks three times at once, and signs the answer with the lowest number as the first of one."""

    def edit(d: dict[str, Any]) -> None:
        assert d["attempt"] == 1
        for number in numbers:
            begun(world, number)
        d["attempts"] = 1

    forge(world, document, edit)


def test_w40_attempts_begun_before_the_signature_count(planned: World, document: dict[str, Any]) -> None:
    asked_three_times(planned, document, (2, 3))
    report = verify_run(planned.run, places=planned.places)
    assert report.attempts == 3
    assert "attempt 1 of 3" in str(report)


@pytest.mark.parametrize("numbers", [(7, 40), (0, -1), (2, 2), ("2", 3), (2, "3"), (True, 2), (None, 2)])
def test_w40_attempts_are_numbered_one_after_the_other(
    planned: World, document: dict[str, Any], numbers: tuple[Any, Any]
) -> None:
    """No number, and none twice, hides an attempt from the count."""
    asked_three_times(planned, document, numbers)
    assert refused(planned, "of an attempt out of its order") is Binding.RUN


def test_w40_attempts_at_other_runs_and_phases_do_not_count(planned: World, document: dict[str, Any]) -> None:
    def edit(d: dict[str, Any]) -> None:
        begun(planned, 2, run_id="another")
        begun(planned, 2, phase="reveal")

    forge(planned, document, edit)
    assert verify_run(planned.run, places=planned.places).attempts == 1


def test_w40_a_number_that_the_journal_does_not_have(planned: World, document: dict[str, Any]) -> None:
    forge(planned, document, lambda d: d.update(attempts=2))
    assert refused(planned, "does not tell of this attempt") is Binding.RUN


def test_w40_an_attempt_beyond_the_cap(planned: World, document: dict[str, Any]) -> None:
    cap = planned.plan["attempt_cap"]
    for number in range(1, cap + 1):
        begun(planned, number)
    forge(planned, document, lambda d: None)
    assert refused(planned, f"attempt {cap + 1} is beyond the plan's cap") is Binding.RUN


def test_w40_the_last_attempt_within_the_cap(planned: World, document: dict[str, Any]) -> None:
    cap = planned.plan["attempt_cap"]
    for number in range(1, cap):
        begun(planned, number)
    forge(planned, document, lambda d: None)
    assert verify_run(planned.run, places=planned.places).attempts == cap


# --- what anybody can write behind the signed head


@contextlib.contextmanager
def only_run_bindings() -> Iterator[None]:
    """What is in here may pass or name the binding `run`, and do nothing else."""
    try:
        yield
    except BindingError as error:
        if error.binding is not Binding.RUN:
            raise


RIVALS = "the journal shows the plans that this signer made between plan and run"


def rivals(world: World) -> str:
    report = verify_run(world.run, places=world.places)
    return next(x.detail for x in report.lines if x.text == RIVALS)


@pytest.fixture(scope="module")
def own_key_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A run between whose plan and signature the same signer made another plan."""
    world = world_with_own_key(tmp_path_factory.mktemp("own") / "w")
    precommit(CASES, pair=PAIR, out=world.run.parent / "other", places=world.places)
    evaluate(world.run, write_run=True, places=world.places)
    return world


@pytest.fixture
def own_key(own_key_once: World, tmp_path: Path) -> World:
    return own_key_once.copy(tmp_path / "own")


def test_plans_of_the_same_signer_are_counted(own_key: World) -> None:
    assert rivals(own_key) == "1 other plan"


def test_unsigned_plans_behind_the_signed_head_are_not_counted(own_key: World) -> None:
    for n in range(3):
        append_to_journal(
            own_key, event="precommit", run_id=f"r{n}", document=digest(b"%d" % n), envelope="x"
        )
    assert rivals(own_key) == "1 other plan"


def test_w40_unsigned_attempts_behind_the_signed_head_are_not_counted(evaluated: World) -> None:
    append_to_journal(evaluated, event="attempt", run_id=evaluated.run_id, phase="ex-ante", attempt=2)
    assert verify_run(evaluated.run, places=evaluated.places).attempts == 1


ODD: dict[str, dict[str, Any]] = {
    "a plan with a list for its digest": {"event": "precommit", "run_id": "r", "document": [1]},
    "a plan with an object for its run": {"event": "precommit", "run_id": {}, "document": None},
    "a plan of nothing": {"event": "precommit"},
    "an attempt with a list for its number": {"event": "attempt", "phase": "ex-ante", "attempt": [1]},
    "an attempt with an object for its number": {"event": "attempt", "phase": "ex-ante", "attempt": {}},
    "a committed phase with a list": {
        "event": "committed",
        "phase": "ex-ante",
        "document": [],
        "envelope": {},
    },
    "a committed phase of a list": {"event": "committed", "phase": ["reveal"]},
    "an unknown event": {"event": "x" * 5000},
    "a time that is none": {"event": "precommit", "time": "later"},
    "a time that is null": {"event": "precommit", "time": None},
    "another seq": {"event": "precommit", "seq": -1},
    "an event that is none": {"event": None},
}


@pytest.mark.parametrize("name", ODD)
def test_odd_entries_behind_the_signed_head_never_crash_verify(own_key: World, name: str) -> None:
    fields = {"run_id": own_key.run_id} | ODD[name]
    append_to_journal(own_key, **fields)
    with only_run_bindings():
        assert rivals(own_key) == "1 other plan"


@pytest.mark.parametrize(
    "name",
    [
        "a plan with a list for its digest",
        "an attempt with an object for its number",
        "a committed phase with a list",
    ],
)
def test_odd_entries_before_the_signed_head_never_crash_verify(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A dishonest signer writes his own ledger: whoever verifies it must get an answer."""
    quick_everywhere(monkeypatch)
    world = world_with_own_key(tmp_path / "w")
    fields = dict(ODD[name])
    world.ledger.append(fields.pop("event"), **{"run_id": world.run_id} | fields)
    evaluate(world.run, write_run=True, places=world.places)
    with only_run_bindings():
        verify_run(world.run, places=world.places)


def test_a_ledger_without_times_never_crashes_verify(planned: World, document: dict[str, Any]) -> None:
    path = planned.ledger.path
    record = json.loads(path.read_bytes().splitlines()[0])
    del record["time"]
    path.write_bytes(canonical_json(record) + b"\n")
    forge(planned, document, lambda d: None)
    with only_run_bindings():
        verify_run(planned.run, places=planned.places)


# --- evaluate, where others have been (W40)


def test_w35_the_plans_own_key_was_replaced_on_disk(planned: World) -> None:
    path = planned.places.ephemeral(planned.run_id) / "signing"
    path.unlink()
    create_signing_key(path)
    with pytest.raises(BindingError, match="not the one that the plan names") as caught:
        evaluate_world(planned)
    assert caught.value.binding is Binding.AUTHORITY
    assert planned.states() == []
    assert not (planned.run / "ex-ante").exists()


def test_w40_an_attempt_that_others_pushed_beyond_the_cap_asks_nobody(
    planned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.decisions import evaluation

    real, asked = Ledger.begin_attempt, []
    cap = planned.plan["attempt_cap"]

    def after_others(self: Ledger, run_id: str, phase: str, **fields: Any) -> int:
        for _ in range(cap):
            real(self, run_id, phase)
        return real(self, run_id, phase, **fields)

    def call(*arguments: Any, **options: Any) -> Any:
        asked.append(arguments)
        raise AssertionError("nothing may be sent")

    monkeypatch.setattr(Ledger, "begin_attempt", after_others)
    monkeypatch.setattr(evaluation, "call", call)
    with pytest.raises(Blocked, match=f"all {cap} attempts"):
        evaluate_world(planned)
    assert asked == []
    assert planned.states() == ["begun"] * cap + ["abandoned"]
    assert not (planned.run / "ex-ante").exists()
    last = planned.ledger.entries()[-1].record
    assert (last["event"], last["attempt"]) == ("abandoned", cap + 1)


def test_the_journal_is_canonical_as_written(evaluated: World) -> None:
    """The helper that appends above appends what evalkit itself could have written."""
    append_to_journal(evaluated, event="note")
    for line in (evaluated.run / "journal.jsonl").read_bytes().splitlines():
        assert canonical_json(json.loads(line)) == line
    verify_run(evaluated.run, places=evaluated.places)
