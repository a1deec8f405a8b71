"""W33-W38, W40: precommit, evaluate, reveal and verify as they should go, and what they refuse."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import evaluate, precommit, reveal, verify_run
from evalkit.decisions.catalog import Mapping
from evalkit.errors import BindingError, Blocked, EvalkitError
from evalkit.sealing import Places, canonical_json, digest

from .support import (
    CASE_IDS,
    CASES,
    PAIR,
    PAIRS,
    World,
    baseline_record,
    evaluate_world,
    make_world,
    part_a,
    replay_world,
)


def test_w33_the_ex_ante_run_holds_what_it_must(evaluated: World) -> None:
    d = json.loads((evaluated.run / "ex-ante" / "run.json").read_bytes())
    assert d["phase"] == "ex_ante_scored"
    assert d["part_b_released"] is False
    assert d["label"] == "named_case_source_bounded"
    assert d["precommit"] == evaluated.plan
    assert d["precommit_digest"] == digest((evaluated.run / "plan.json").read_bytes())
    assert d["configuration_digest"] == digest(canonical_json(d["configuration"]))
    for case in d["cases"]:
        r = case["response"]
        assert r["raw_digest"] == digest(r["raw"].encode())
        assert r["canonical_digest"] == digest(canonical_json(json.loads(r["raw"])))
        assert case["score_digest"] == digest(canonical_json(case["score"]))
        assert case["prompt_digest"] == case["transmitted_prompt_digest"]
        assert case["prompt_digest"] == case["trace"]["transmitted_prompt_digest"]
        assert case["verification"]["mode"] == "frozen_bundle"


def test_w34_the_pair_lies_in_private_files(evaluated: World) -> None:
    folder = evaluated.run / "ex-ante"
    assert {p.name: p.stat().st_mode & 0o777 for p in folder.iterdir()} == {
        "run.json": 0o600,
        "run.dsse.json": 0o600,
    }
    assert folder.stat().st_mode & 0o777 == 0o700


def test_w2_the_plan_seals_every_digest(planned: World) -> None:
    plan = planned.plan
    for case in plan["cases"]:
        folder = CASES / case["case_id"]
        assert case["packet_digest"] == digest((folder / "part-a" / "packet.json").read_bytes())
        assert case["freeze_digest"] == digest((folder / "part-a" / "freeze.json").read_bytes())
        assert case["report_digest"] == digest((folder / "part-a" / "report.md").read_bytes())
        assert case["episode_digest"] == digest((folder / "episode.json").read_bytes())
        assert case["accepted_warnings"]
    assert set(plan["instructions"]) == {"prompt_template", "response_schema", "rubric"}
    assert plan["verification_mode"] == "frozen_bundle"
    for record in (plan["catalog"], plan["mapping"], *(c["part_b"] for c in plan["cases"])):
        assert set(record) == {"kind", "bucket", "commitment", "ciphertext_digest"}


@pytest.mark.parametrize("pair", PAIRS)
def test_w1_w3_the_run_folder_tells_no_role_and_no_outcome(tmp_path: Path, pair: str) -> None:
    world = make_world(tmp_path / "w", pair=pair)
    mapping = json.loads((CASES / "mapping.json").read_bytes())["cases"]
    plan = (world.run / "plan.json").read_text()
    for word in ("favorable", "unfavorable", "role", "realized"):
        assert word not in plan
    for case in world.plan["cases"]:
        assert mapping[case["case_id"]]["realized_scenario_id"] not in plan
        outcome = json.loads((CASES / case["case_id"] / "part-b" / "outcome.json").read_bytes())
        for path in world.run.rglob("*"):
            if path.is_file():
                data = path.read_bytes()
                assert outcome["process_quality"].encode() not in data
    sizes = {world.run / "sealed" / f"part-b-{n}.sealed" for n in (0, 1)}
    assert len({p.stat().st_size for p in sizes}) == 1


def test_w1_the_order_is_that_of_content(tmp_path: Path) -> None:
    for n, pair in enumerate(PAIRS):
        plan = make_world(tmp_path / str(n), pair=pair).plan
        digests = [digest(c["packet_digest"].encode()) for c in plan["cases"]]
        assert digests == sorted(digests)


def test_w37_the_reveal_computes_brier_and_probability(revealed: World) -> None:
    d = json.loads((revealed.run / "reveal" / "calibration.json").read_bytes())
    run = json.loads((revealed.run / "ex-ante" / "run.json").read_bytes())
    mapping = json.loads((CASES / "mapping.json").read_bytes())["cases"]
    assert d["phase"] == "post_reveal_calibration"
    assert d["calibration_included_in_ex_ante_total"] is False
    assert d["combined_score_prohibited"] is True
    assert "0-2" in d["conventions"]["brier"]
    for case, ex_ante in zip(d["cases"], run["cases"], strict=True):
        realized = mapping[case["case_id"]]["realized_scenario_id"]
        given = {s["scenario_id"]: float(s["probability"])
                 for s in ex_ante["response"]["canonical"]["scenarios"]}  # fmt: skip
        assert case["realized_scenario_id"] == realized
        assert float(case["realized_probability"]) == given[realized]
        brier = sum((p - (s == realized)) ** 2 for s, p in given.items())
        assert case["brier"] == pytest.approx(brier, abs=1e-8)
        assert case["brier_uniform"] == pytest.approx(0.75)
        outcome = json.loads((CASES / case["case_id"] / "part-b" / "outcome.json").read_bytes())
        assert case["outcome_ids"] == [o["id"] for o in outcome["outcomes"]]
        assert case["observable_signal_ids"] == [s["id"] for s in outcome["observable_signals"]]
        assert case["process_quality"] == outcome["process_quality"]
        assert case["realized_return"] is None
    assert d["bindings"]["ex_ante_run_digest"] == digest((revealed.run / "ex-ante" / "run.json").read_bytes())
    assert d["bindings"]["ex_ante_score_digests"] == {c["case_id"]: c["score_digest"] for c in run["cases"]}


def test_verify_says_what_is_proven_at_each_phase(
    planned_once: World, evaluated_once: World, revealed_once: World
) -> None:
    for world, phase in (
        (planned_once, "precommitted"),
        (evaluated_once, "ex_ante_scored"),
        (revealed_once, "post_reveal_calibration"),
    ):
        report = verify_run(world.run, places=world.places)
        assert report.phase == phase
        assert report.run_id == world.run_id
        assert report.trust_path == str(world.places.trust)
        text = str(report)
        assert "not proven" in text
        assert "contamination-free" not in text


def test_w11_no_output_calls_a_run_contamination_free(revealed: World) -> None:
    for path in revealed.run.rglob("*.json"):
        text = path.read_text().lower().replace("_", "-")
        assert "contamination-free" not in text
        assert "uncontaminated" not in text
    run = json.loads((revealed.run / "ex-ante" / "run.json").read_bytes())
    calibration = json.loads((revealed.run / "reveal" / "calibration.json").read_bytes())
    assert run["label"] == calibration["label"] == "named_case_source_bounded"


# --- W40: reading only, attempts, no second time


def test_w40_without_write_run_nothing_is_created_but_the_attempt_counts(planned: World) -> None:
    before = planned.listing()
    result = evaluate(planned.run, places=planned.places)
    assert result.written is None
    assert planned.listing() == before
    assert planned.states() == ["abandoned"]
    assert evaluate_world(planned).summary()["attempts"] == 2
    assert planned.states() == ["abandoned", "committed"]


def test_w40_the_attempt_is_in_the_ledger_before_the_first_byte_is_sent(
    planned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    from evalkit.decisions import baseline, evaluation
    from evalkit.decisions.baseline import VERSION, analyse
    from evalkit.models.local import CallableProvider

    seen = []

    def watching(prompt: bytes) -> bytes:
        seen.append((planned.states(), digest(prompt)))
        return analyse(prompt)

    provider = CallableProvider(
        watching, name="evalkit-baseline", version=VERSION, source=Path(baseline.__file__)
    )
    monkeypatch.setattr(evaluation, "provider_for", lambda model: provider)
    evaluate_world(planned)
    assert [states for states, _ in seen] == [["begun"], ["begun"]]
    entry = next(e.record for e in planned.ledger.entries() if e.record["event"] == "attempt")
    assert sorted(entry["prompts"].values()) == sorted(d for _, d in seen)


def test_w40_the_attempt_cap_holds_for_unwritten_attempts(tmp_path: Path) -> None:
    world = make_world(tmp_path / "w", attempt_cap=2)
    for _ in range(2):
        evaluate(world.run, places=world.places)
    with pytest.raises(Blocked, match="all 2 attempts"):
        evaluate_world(world)
    assert world.states() == ["abandoned"] * 2
    assert not (world.run / "ex-ante").exists()


def test_w40_a_failing_provider_uses_up_an_attempt(tmp_path: Path) -> None:
    from evalkit.models import ProviderError

    world = make_world(tmp_path / "w", model=_replay_of_one_case())
    with pytest.raises(ProviderError, match="no answer to prompt"):
        evaluate_world(world)
    assert world.states() == ["abandoned"]
    assert not (world.run / "ex-ante").exists()


def test_w40_a_crashing_provider_uses_up_an_attempt(planned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    from evalkit.decisions import baseline, evaluation
    from evalkit.decisions.baseline import VERSION
    from evalkit.models.local import CallableProvider

    def crash(prompt: bytes) -> bytes:
        raise ZeroDivisionError

    with monkeypatch.context() as patch:
        provider = CallableProvider(
            crash, name="evalkit-baseline", version=VERSION, source=Path(baseline.__file__)
        )
        patch.setattr(evaluation, "provider_for", lambda model: provider)
        with pytest.raises(ZeroDivisionError):
            evaluate_world(planned)
    assert len(planned.states()) == 1
    assert evaluate_world(planned).summary()["attempts"] == 2


def _replay_of_one_case() -> Any:
    from .support import replay_model

    return replay_model({CASE_IDS[0]: json.dumps(baseline_record(part_a(CASE_IDS[0])))})


def test_w34_a_second_evaluate_is_refused_and_changes_nothing(evaluated: World) -> None:
    before = evaluated.listing()
    for write_run in (True, False):
        with pytest.raises(Blocked, match="has its ex-ante run already"):
            evaluate(evaluated.run, write_run=write_run, places=evaluated.places)
    assert evaluated.listing() == before
    assert evaluated.states() == ["committed"]


def test_w38_a_second_reveal_is_refused_and_changes_nothing(revealed: World) -> None:
    before = revealed.listing()
    for write in (True, False):
        with pytest.raises(Blocked, match="revealed already"):
            reveal(revealed.run, write_calibration=write, places=revealed.places)
    assert revealed.listing() == before


def test_w40_a_reveal_without_writing_creates_nothing(evaluated: World) -> None:
    before = evaluated.listing()
    result = reveal(evaluated.run, places=evaluated.places)
    assert result.written is None
    assert evaluated.listing() == before
    assert evaluated.states("reveal") == ["abandoned"]
    reveal(evaluated.run, write_calibration=True, places=evaluated.places)


def test_w36_reveal_needs_the_persisted_form(planned: World) -> None:
    evaluate(planned.run, places=planned.places)
    with pytest.raises(BindingError, match="not committed") as caught:
        reveal(planned.run, write_calibration=True, places=planned.places)
    assert caught.value.exit_code == 19


def test_no_run_folder_is_overwritten(planned: World) -> None:
    before = planned.listing()
    with pytest.raises(EvalkitError, match="exists already"):
        precommit(CASES, pair=PAIR, out=planned.run, places=planned.places)
    assert planned.listing() == before


def test_w40_revealed_at_must_be_possible(evaluated: World) -> None:
    run = json.loads((evaluated.run / "ex-ante" / "run.json").read_bytes())
    finalized = datetime.fromisoformat(run["finalized_at"])
    later = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    for bad in (
        "2026-11-30T12:00:00",
        "2026-11-30",
        "yesterday",
        "",
        (finalized - timedelta(microseconds=1)).isoformat(),
        later,
    ):
        with pytest.raises(EvalkitError) as caught:
            reveal(evaluated.run, write_calibration=True, revealed_at=bad, places=evaluated.places)
        assert caught.value.exit_code == 2, bad
        assert caught.value.where == "--revealed-at"
    assert not (evaluated.run / "reveal").exists()
    assert evaluated.states("reveal") == []
    result = reveal(
        evaluated.run, write_calibration=True, revealed_at=finalized.isoformat(), places=evaluated.places
    )
    assert result.document["revealed_at"] == run["finalized_at"]
    assert verify_run(evaluated.run, places=evaluated.places).phase == "post_reveal_calibration"


def test_w40_a_clock_that_fell_behind_cannot_reveal(evaluated: World) -> None:
    """The default time obeys the same rule as a stated one: never before the run was final."""
    run = json.loads((evaluated.run / "ex-ante" / "run.json").read_bytes())
    before = datetime.fromisoformat(run["finalized_at"]) - timedelta(seconds=2)
    with pytest.raises(EvalkitError):
        reveal(evaluated.run, write_calibration=True, places=evaluated.places, clock=lambda: before)
    assert not (evaluated.run / "reveal").exists()


def test_rival_precommits_stay_visible_in_one_ledger(tmp_path: Path) -> None:
    """With a key of one's own, every plan of that signer stands in its ledger."""
    from evalkit.sealing import PREDICATES, TrustedKey, create_signing_key, create_unsealing_key, pin

    world = World(tmp_path / "w")
    for folder in (world.config, world.state, world.run.parent):
        folder.mkdir(parents=True, mode=0o700)
    places: Places = world.places
    public = create_signing_key(places.signing_key)
    create_unsealing_key(places.unsealing_key)
    pin(places.trust, TrustedKey.of(public, predicate_types=tuple(PREDICATES.values())))
    first = precommit(CASES, pair=PAIR, out=world.run.parent / "one", places=places)
    second = precommit(CASES, pair=PAIR, out=world.run, places=places)
    assert not second.ephemeral_keys
    assert second.ledger_head.size == 1
    planned = [e.record["run_id"] for e in world.ledger.entries() if e.record["event"] == "precommit"]
    assert planned == [first.run_id, second.run_id]
    evaluate_world(world)
    reveal(world.run, write_calibration=True, places=places)
    evaluate(world.run.parent / "one", write_run=True, places=places)
    assert verify_run(world.run, places=places).phase == "post_reveal_calibration"
    said = str(verify_run(world.run, places=places))
    assert "not proven  what this signer did before this plan" in said
    assert "(1 entry)" in said  # the plan of the first run
    assert "not proven  that no other plan or attempt was made" in said


# --- precommit refuses what does not hold (W1, W4)


def _cases(tmp_path: Path, name: str, change: Any) -> Path:
    import shutil

    cases = tmp_path / "cases"
    shutil.copytree(CASES, cases)
    path = cases / name
    value = json.loads(path.read_bytes())
    change(value)
    path.write_bytes(canonical_json(value))
    return cases


CATALOG_CHANGES: dict[str, tuple[str, Any]] = {
    "two favorable cases": ("catalog.json", lambda v: v["cases"][1].update(role="favorable")),
    "roles swapped in the pair only": (
        "catalog.json",
        lambda v: v["pairs"][0].update(
            favorable_case_id="case-bbi-2007-07", unfavorable_case_id="case-nflx-2007-07"
        ),
    ),
    "a third case in the pair": ("catalog.json", lambda v: v["cases"][2].update(pair_id=PAIR)),
    "another packet digest": ("catalog.json", lambda v: v["cases"][0].update(packet_digest="sha256:0")),
    "mapping without the case": ("mapping.json", lambda v: v["cases"].pop("case-bbi-2007-07")),
    "mapping to an unknown scenario": (
        "mapping.json",
        lambda v: v["cases"]["case-bbi-2007-07"].update(realized_scenario_id="scenario-0000000000"),
    ),
    "mapping of another packet": (
        "mapping.json", lambda v: v["cases"]["case-bbi-2007-07"].update(packet_digest="sha256:0")
    ),
    "mapping of another Part B": (
        "mapping.json", lambda v: v["cases"]["case-bbi-2007-07"].update(part_b_digest="sha256:0")
    ),
    "Part B was edited": ("case-bbi-2007-07/part-b/outcome.json", lambda v: v["outcomes"].pop()),
    "episode was edited": ("case-bbi-2007-07/episode.json", lambda v: v.update(title="Another")),
    "packet was edited": (
        "case-bbi-2007-07/part-a/packet.json", lambda v: v["facts"][0].update(value="1")
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CATALOG_CHANGES)
def test_w1_w4_precommit_refuses_and_makes_nothing(tmp_path: Path, name: str) -> None:
    file, change = CATALOG_CHANGES[name]
    cases = _cases(tmp_path, file, change)
    with pytest.raises(EvalkitError) as caught:
        make_world(tmp_path / "w", cases=cases)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "w" / "runs" / "r").exists()
    assert not list((tmp_path / "w" / "state").rglob("*")), "no key is made for a run that cannot be"


@pytest.mark.parametrize("value", ["ten per cent", "1.5", "-0.1", "NaN", "1e-1", ""])
def test_a_threshold_that_is_no_probability_is_refused(tmp_path: Path, value: str) -> None:
    with pytest.raises(EvalkitError, match="no probability"):
        make_world(tmp_path / "w", nontrivial_probability=value)
    assert not list((tmp_path / "w" / "state").rglob("*"))


@pytest.mark.parametrize("run_id", ["../r", "a b", "ä"])
def test_a_run_id_is_a_plain_name(tmp_path: Path, run_id: str) -> None:
    with pytest.raises(EvalkitError, match="not a run id"):
        make_world(tmp_path / "w", run_id=run_id)


def test_w6_precommit_takes_exactly_the_accepted_warnings(tmp_path: Path) -> None:
    with pytest.raises(Blocked, match="not accepted"):
        make_world(tmp_path / "w", accepted_warnings={CASE_IDS[0]: ["NAMED_CASE"], CASE_IDS[1]: []})


def test_w4_only_this_pairs_outcomes_are_in_the_mapping(revealed: World) -> None:
    d = json.loads((revealed.run / "reveal" / "calibration.json").read_bytes())
    payload = d["openings"]["mapping"]["payload"]
    assert set(Mapping.model_validate(payload).cases) == set(CASE_IDS[:2])


def test_blocked_case_end_to_end_with_a_replay(tmp_path: Path) -> None:
    world = replay_world(tmp_path / "w", {CASE_IDS[0]: "no"})
    result = evaluate_world(world)
    assert result.summary()["replayed"] is True
    with pytest.raises(Blocked):
        reveal(world.run, write_calibration=True, places=world.places)
