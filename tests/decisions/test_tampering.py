"""W36: one changed thing in a good run stops the reveal, with the binding that failed named."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import reveal, verify_run
from evalkit.decisions.run_document import predicate_of
from evalkit.errors import Binding, BindingError
from evalkit.sealing import PREDICATES, Trust, canonical_json, sign

from .support import World, evaluate_world, make_world

pytestmark = pytest.mark.usefixtures("quick_signer")

Tamper = Callable[[World], None]


def flip(name: str, at: int = -2) -> Tamper:
    """Change one byte of a file, in place and with its mode kept."""

    def change(world: World) -> None:
        path = world.run / name
        data = bytearray(path.read_bytes())
        data[at] ^= 1
        path.write_bytes(bytes(data))

    return change


def text(name: str, old: str, new: str) -> Tamper:
    def change(world: World) -> None:
        path = world.run / name
        data = path.read_text()
        assert data.count(old) >= 1, old
        path.write_text(data.replace(old, new, 1))

    return change


def in_json(name: str, edit: Callable[[Any], Any]) -> Tamper:
    """Edit a canonical JSON file and write it canonically again."""

    def change(world: World) -> None:
        path = world.run / name
        value = json.loads(path.read_bytes())
        edit(value)
        path.write_bytes(canonical_json(value))

    return change


def part_a(world: World, n: int = 0) -> str:
    return f"part-a/{world.plan['pair']['order'][n]}"


def in_part_a(name: str, n: int = 0) -> Tamper:
    return lambda world: flip(f"{part_a(world, n)}/{name}")(world)


def remove(name: str) -> Tamper:
    return lambda world: (world.run / name).unlink()


def in_case(edit: Callable[[Any], Any], n: int = 0) -> Tamper:
    return in_json("ex-ante/run.json", lambda d: edit(d["cases"][n]))


def swapped_order(d: Any) -> None:
    d["cases"].reverse()


def scorer_changed(world: World) -> None:
    """Stands for an edited scorer: see the test that uses it."""


CASES: dict[str, tuple[Binding, Tamper]] = {
    "plan: one byte": (Binding.PRECOMMIT, flip("plan.json")),
    "plan: a digit": (Binding.PRECOMMIT, in_json("plan.json", lambda v: v.update(attempt_cap=9))),
    "plan: its pair turned round": (
        Binding.PRECOMMIT, in_json("plan.json", lambda v: v["pair"]["order"].reverse())
    ),
    "plan: another run id": (Binding.ATTESTATION, in_json("plan.json", lambda v: v.update(run_id="x"))),
    "plan: gone": (Binding.PRECOMMIT, remove("plan.json")),
    "plan attestation: one byte": (Binding.ATTESTATION, flip("plan.dsse.json")),
    "plan attestation: one byte of the payload": (Binding.ATTESTATION, flip("plan.dsse.json", 40)),
    "plan attestation: gone": (Binding.ATTESTATION, remove("plan.dsse.json")),
    "Part A: packet": (Binding.PART_A, in_part_a("packet.json")),
    "Part A: report": (Binding.PART_A, in_part_a("report.md")),
    "Part A: freeze": (Binding.PART_A, in_part_a("freeze.json")),
    "Part A: quality control": (Binding.PART_A, in_part_a("qc.json")),
    "Part A of the second case": (Binding.PART_A, in_part_a("packet.json", 1)),
    "Part A: gone": (Binding.PART_A, lambda w: (w.run / part_a(w) / "report.md").unlink()),
    "prompt template": (Binding.PROMPT, flip("instructions/prompt.md")),
    "response schema": (Binding.PROMPT, flip("instructions/response.schema.json")),
    "rubric": (Binding.SCORE, flip("instructions/rubric.json")),
    "rubric: a weight": (Binding.SCORE, text("instructions/rubric.json", '"weight":15', '"weight":16')),
    "run: a raw response": (Binding.RESPONSE, in_case(lambda c: c["response"].update(raw="{}"))),
    "run: a canonical response": (
        Binding.RESPONSE,
        in_case(lambda c: c["response"]["canonical"]["scenarios"][0].update(probability="0.9")),
    ),
    "run: a response of the second case": (
        Binding.RESPONSE, in_case(lambda c: c["response"].update(raw="{}"), 1)
    ),
    "run: a score": (Binding.SCORE, in_case(lambda c: c["score"].update(total="100.00"))),
    "run: blockers": (Binding.SCORE, in_case(lambda c: c["score"].update(eligible=False))),
    "run: the configuration": (
        Binding.CONFIGURATION, in_json("ex-ante/run.json", lambda d: d["configuration"].update(model="best"))
    ),
    "run: a trace": (Binding.CONFIGURATION, in_case(lambda c: c["trace"].update(served_model="best"))),
    "run: the prompt digest": (Binding.PROMPT, in_case(lambda c: c.update(prompt_digest="sha256:0"))),
    "run: the sent prompt's digest": (
        Binding.PROMPT, in_case(lambda c: c.update(transmitted_prompt_digest="sha256:0"))
    ),
    "run: the schema's digest": (Binding.PROMPT, in_case(lambda c: c.update(response_schema_digest="x"))),
    "run: the verification record": (
        Binding.PART_A, in_case(lambda c: c["verification"].update(frozen_at="2020-01-01"))
    ),
    "run: the plan in it": (
        Binding.PRECOMMIT, in_json("ex-ante/run.json", lambda d: d["precommit"].update(attempt_cap=9))
    ),
    "run: the scorer": (Binding.SCORE, in_json("ex-ante/run.json", lambda d: d.update(scorer_digest="x"))),
    "run: a time": (
        Binding.ATTESTATION, in_json("ex-ante/run.json", lambda d: d.update(finalized_at=d["started_at"]))
    ),
    "run: the label": (
        Binding.ATTESTATION, in_json("ex-ante/run.json", lambda d: d.update(label="contamination_free"))
    ),
    "run: an extra field": (Binding.ATTESTATION, in_json("ex-ante/run.json", lambda d: d.update(note=1))),
    "run: not canonical": (Binding.ATTESTATION, text("ex-ante/run.json", "{", "{ ")),
    "run attestation: one byte": (Binding.ATTESTATION, flip("ex-ante/run.dsse.json")),
    "run attestation: gone": (Binding.ATTESTATION, remove("ex-ante/run.dsse.json")),
    "run: gone": (Binding.RUN, remove("ex-ante/run.json")),
    "ex-ante: an extra file": (Binding.RUN, lambda w: _new(w.run / "ex-ante" / "notes.txt")),
    "an extra file": (Binding.RUN, lambda w: _new(w.run / "notes.txt")),
    "journal: its first line": (Binding.RUN, flip("journal.jsonl", 20)),
    "journal: its last line": (Binding.RUN, flip("journal.jsonl", -4)),
    "journal: what was committed": (Binding.RUN, lambda w: _change_last_entry(w, "document")),
    "journal: gone": (Binding.RUN, remove("journal.jsonl")),
    "sealed mapping": (Binding.SEALED_PACKET, flip("sealed/mapping.sealed")),
    "sealed catalog": (Binding.SEALED_PACKET, flip("sealed/catalog.sealed", 100)),
    "sealed Part B": (Binding.SEALED_PACKET, flip("sealed/part-b-0.sealed", 1000)),
    "sealed Part B of the second case": (Binding.SEALED_PACKET, flip("sealed/part-b-1.sealed", 0)),
    "sealed Part Bs exchanged": (Binding.SEALED_PACKET, lambda w: _exchange(w)),
    "sealed mapping: gone": (Binding.SEALED_PACKET, remove("sealed/mapping.sealed")),
    "sealed mapping: cut": (
        Binding.SEALED_PACKET, lambda w: os.truncate(w.run / "sealed" / "mapping.sealed", 100)
    ),
    "a symlinked plan": (Binding.PRECOMMIT, lambda w: _link(w.run / "plan.json")),
    "a symlinked ciphertext": (Binding.SEALED_PACKET, lambda w: _link(w.run / "sealed/mapping.sealed")),
    "a symlinked run file": (Binding.RUN, lambda w: _link(w.run / "ex-ante" / "run.json")),
    "a second name for the run file": (
        Binding.RUN, lambda w: os.link(w.run / "ex-ante" / "run.json", w.root / "twin")
    ),
    "others may write the run": (Binding.RUN, lambda w: w.run.chmod(0o777)),
    "others may write the run file": (Binding.RUN, lambda w: (w.run / "ex-ante/run.json").chmod(0o666)),
}  # fmt: skip


def _new(path: Path) -> None:
    path.write_text("hello")


def _link(path: Path) -> None:
    moved = path.parents[2] / "elsewhere" if path.parent.name != "r" else path.parent.parent / "elsewhere"
    shutil.move(path, moved)
    path.symlink_to(moved)


def _exchange(world: World) -> None:
    one, two = (world.run / "sealed" / f"part-b-{n}.sealed" for n in (0, 1))
    a, b = one.read_bytes(), two.read_bytes()
    one.write_bytes(b)
    two.write_bytes(a)


def _change_last_entry(world: World, field: str) -> None:
    """Change one digit in the journal's last line, which nothing after it can cover."""
    path = world.run / "journal.jsonl"
    *before, last = path.read_bytes().splitlines()
    entry = json.loads(last)
    old = entry[field]
    at = next(i for i in range(len(old) - 2, 0, -1) if old[i].isdigit())
    entry[field] = old[:at] + str((int(old[at]) + 1) % 10) + old[at + 1 :]
    path.write_bytes(b"\n".join([*before, canonical_json(entry)]) + b"\n")


def test_the_owner_sees_any_change_in_the_journals_last_line(evaluated: World) -> None:
    """Its time is under no signature; the ledger that it is a copy of decides."""
    _change_last_entry(evaluated, "time")
    assert refused(evaluated).binding is Binding.RUN


def test_a_journal_that_was_cut_is_refused_by_others_and_restored_by_its_owner(evaluated: World) -> None:
    """A cut copy looks like that of a process killed in its last step; the ledger is the original."""
    whole = (evaluated.run / "journal.jsonl").read_bytes()
    _cut_journal(evaluated, 3)
    with pytest.raises(BindingError) as caught:
        verify_run(evaluated.run, places=evaluated.places)
    assert caught.value.binding is Binding.RUN
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)
    assert (evaluated.run / "journal.jsonl").read_bytes().startswith(whole)


def _cut_journal(world: World, lines: int) -> None:
    path = world.run / "journal.jsonl"
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def refused(world: World) -> BindingError:
    with pytest.raises(BindingError) as caught:
        reveal(world.run, write_calibration=True, places=world.places)
    assert not (world.run / "reveal").exists()
    assert 10 <= caught.value.exit_code <= 19
    assert caught.value.exit_code == caught.value.binding.exit_code
    return caught.value


def test_the_untouched_copy_can_be_revealed(evaluated: World) -> None:
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)
    verify_run(evaluated.run, places=evaluated.places)


@pytest.mark.parametrize("name", CASES)
def test_w36_reveal_refuses_and_names_the_binding(evaluated: World, name: str) -> None:
    binding, tamper = CASES[name]
    tamper(evaluated)
    assert refused(evaluated).binding is binding


#: what only the owner's ledger can show, or what a copy need not keep
_OWNER_ONLY = {"others may write the run", "others may write the run file"}


@pytest.mark.parametrize("name", [n for n in CASES if n not in _OWNER_ONLY])
def test_a_third_party_sees_it_too(evaluated: World, name: str) -> None:
    binding, tamper = CASES[name]
    tamper(evaluated)
    with pytest.raises(BindingError) as caught:
        verify_run(evaluated.run, places=evaluated.places)
    assert caught.value.binding is binding


INSIDE = ("part-a", "part-a/case-bbi-2007-07", "instructions", "sealed", "model")


@pytest.mark.parametrize("folder", INSIDE)
def test_verify_finds_an_extra_file_in_any_folder(evaluated: World, folder: str) -> None:
    """Everything below a run is attested: what nobody attested must not lie there."""
    (evaluated.run / folder).mkdir(exist_ok=True)
    _new(evaluated.run / folder / "answer.json")
    with pytest.raises(BindingError) as caught:
        verify_run(evaluated.run, places=evaluated.places)
    assert caught.value.binding is Binding.RUN


def test_verify_finds_a_symlinked_folder(evaluated: World) -> None:
    shutil.move(evaluated.run / "sealed", evaluated.root / "sealed")
    (evaluated.run / "sealed").symlink_to(evaluated.root / "sealed")
    with pytest.raises(BindingError):
        verify_run(evaluated.run, places=evaluated.places)


def test_a_report_may_lie_in_the_run(evaluated: World) -> None:
    _new(evaluated.run / "report.html")
    verify_run(evaluated.run, places=evaluated.places)
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)


def test_w36_an_edited_scorer_is_refused(evaluated: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.decisions import run_document

    monkeypatch.setattr(run_document, "scorer_digest", lambda: "sha256:" + "0" * 64)
    assert refused(evaluated).binding is Binding.SCORE


def test_w36_an_edited_scorer_stops_evaluate_before_an_attempt(
    planned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.decisions import run_document

    monkeypatch.setattr(run_document, "scorer_digest", lambda: "sha256:" + "0" * 64)
    with pytest.raises(BindingError) as caught:
        evaluate_world(planned)
    assert caught.value.binding is Binding.SCORE
    assert planned.states() == []


def _signed_by(signer: Any, world: World) -> bytes:
    document = (world.run / "ex-ante" / "run.json").read_bytes()
    value = json.loads(document)
    envelope = json.loads((world.run / "ex-ante" / "run.dsse.json").read_bytes())
    statement = json.loads(base64.b64decode(envelope["payload"]))
    return sign(
        "run.json",
        document,
        predicate_type=PREDICATES["decisions/ex-ante"],
        predicate=predicate_of(value) | {"ledger": statement["predicate"]["ledger"]},
        signer=signer,
    )


def test_w35_a_run_signed_by_a_foreign_key(evaluated: World, make_signer: Callable[..., Any]) -> None:
    path = evaluated.run / "ex-ante" / "run.dsse.json"
    path.write_bytes(_signed_by(make_signer(), evaluated))
    assert refused(evaluated).binding is Binding.AUTHORITY


def test_w35_a_foreign_key_that_claims_to_be_the_pinned_one(
    evaluated: World, make_signer: Callable[..., Any]
) -> None:
    path = evaluated.run / "ex-ante" / "run.dsse.json"
    envelope = json.loads(_signed_by(make_signer(), evaluated))
    envelope["signatures"][0]["keyid"] = evaluated.plan["signing_key_id"]
    path.write_bytes(canonical_json(envelope))
    assert refused(evaluated).binding is Binding.ATTESTATION


def test_w35_a_foreign_key_that_the_trust_file_pins_for_another_run(
    evaluated: World, make_signer: Callable[..., Any]
) -> None:
    from evalkit.sealing import TrustedKey, pin

    signer = make_signer()
    pin(
        evaluated.places.trust,
        TrustedKey.of(signer.public_key, predicate_types=tuple(PREDICATES.values()), runs=("other",)),
    )
    (evaluated.run / "ex-ante" / "run.dsse.json").write_bytes(_signed_by(signer, evaluated))
    assert refused(evaluated).binding is Binding.AUTHORITY


def test_an_attestation_of_another_run(evaluated: World, tmp_path: Path) -> None:
    """The same user's run of the same pair: its attestation beside this run."""
    other = make_world(tmp_path / "other")
    evaluate_world(other)
    shutil.copy(other.run / "ex-ante" / "run.dsse.json", evaluated.run / "ex-ante" / "run.dsse.json")
    error = refused(evaluated)
    assert error.binding in (Binding.AUTHORITY, Binding.ATTESTATION)


def test_a_whole_ex_ante_phase_of_another_run(tmp_path: Path) -> None:
    """With one permanent key for both runs: the phase of A in the place of B's."""
    from evalkit.decisions import precommit
    from evalkit.sealing import TrustedKey, create_signing_key, create_unsealing_key, pin

    from .support import CASES as FOLDER
    from .support import PAIR

    world = World(tmp_path / "w")
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    public = create_signing_key(world.places.signing_key)
    create_unsealing_key(world.places.unsealing_key)
    pin(world.places.trust, TrustedKey.of(public, predicate_types=tuple(PREDICATES.values())))
    other = world.run.parent / "other"
    for run in (world.run, other):
        precommit(FOLDER, pair=PAIR, out=run, places=world.places)
    from evalkit.decisions import evaluate

    evaluate(world.run, write_run=True, places=world.places)
    evaluate(other, write_run=True, places=world.places)
    shutil.rmtree(world.run / "ex-ante")
    shutil.copytree(other / "ex-ante", world.run / "ex-ante")
    assert refused(world).binding is Binding.ATTESTATION


def test_the_precommit_attestation_cannot_stand_in_for_the_run(evaluated: World) -> None:
    shutil.copy(evaluated.run / "plan.dsse.json", evaluated.run / "ex-ante" / "run.dsse.json")
    assert refused(evaluated).binding is Binding.ATTESTATION


def test_another_trust_file_is_no_authority(evaluated: World, tmp_path: Path, make_signer: Any) -> None:
    from evalkit.sealing import TrustedKey, pin

    trust = tmp_path / "mine" / "trust.json"
    pin(trust, TrustedKey.of(make_signer().public_key, predicate_types=tuple(PREDICATES.values())))
    with pytest.raises(BindingError) as caught:
        verify_run(evaluated.run, trust=trust, places=evaluated.places)
    assert caught.value.binding is Binding.AUTHORITY
    assert Trust.load(trust, []).digest in str(caught.value) or str(trust) in str(caught.value)


def test_a_trust_file_inside_the_run_is_refused(evaluated: World) -> None:
    inside = evaluated.run / "trust.json"
    shutil.copy(evaluated.places.trust, inside)
    with pytest.raises(BindingError) as caught:
        reveal(evaluated.run, trust=inside, places=evaluated.places)
    assert caught.value.binding is Binding.AUTHORITY


def test_a_run_folder_behind_a_link_is_refused(evaluated: World) -> None:
    link = evaluated.run.parent / "link"
    link.symlink_to(evaluated.run)
    with pytest.raises(BindingError) as caught:
        verify_run(link, places=evaluated.places)
    assert caught.value.binding is Binding.RUN


REVEALED: dict[str, tuple[Binding, Tamper]] = {
    "calibration: a Brier score": (
        Binding.ATTESTATION, in_json("reveal/calibration.json", lambda d: d["cases"][0].update(brier=0.0))
    ),
    "calibration attestation": (Binding.ATTESTATION, flip("reveal/calibration.dsse.json")),
    "calibration attestation: gone": (Binding.ATTESTATION, remove("reveal/calibration.dsse.json")),
    "ex-ante: gone after the reveal": (Binding.RUN, lambda w: shutil.rmtree(w.run / "ex-ante")),
    "journal: its last line": (Binding.RUN, flip("journal.jsonl", -4)),
    "sealed Part B": (Binding.SEALED_PACKET, flip("sealed/part-b-0.sealed", 1000)),
    "run: a score": (Binding.SCORE, in_case(lambda c: c["score"].update(total="100.00"))),
}  # fmt: skip


@pytest.mark.parametrize("name", REVEALED)
def test_verify_refuses_a_changed_reveal(revealed: World, name: str) -> None:
    binding, tamper = REVEALED[name]
    tamper(revealed)
    with pytest.raises(BindingError) as caught:
        verify_run(revealed.run, places=revealed.places)
    assert caught.value.binding is binding
