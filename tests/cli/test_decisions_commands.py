"""The commands as a user and a third party use them: output, trust, read-only by default."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from decisions.support import CASES, PAIR, World, cli, make_world, replay_world

from evalkit.sealing import canonical_json, digest

FORBIDDEN_TOGETHER = ("brier", "log", "realized_probability", "realized_scenario_id")


def keys_in(value: Any) -> set[str]:
    if isinstance(value, dict):
        return set(value) | {k for v in value.values() for k in keys_in(v)}
    if isinstance(value, list):
        return {k for v in value for k in keys_in(v)}
    return set()


def test_the_whole_flow(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert cli("decisions", "precommit", CASES, "--pair", PAIR, "--out", run).code == 0
    done = cli("decisions", "evaluate", run)
    assert done.code == 0
    assert f"next: evalkit decisions evaluate {run} --write-run" in done.out
    done = cli("decisions", "evaluate", run, "--write-run")
    assert done.code == 0
    assert "a person must review" in done.out
    assert f"next: evalkit decisions reveal {run} --write-calibration" in done.out
    done = cli("decisions", "reveal", run)
    assert done.code == 0
    assert f"next: evalkit decisions reveal {run} --write-calibration" in done.out
    done = cli("decisions", "reveal", run, "--write-calibration")
    assert done.code == 0
    assert "range 0-2" in done.out, "the convention stands beside the figure"
    assert f"next: evalkit verify {run}; evalkit report {run}" in done.out
    done = cli("verify", run)
    assert done.code == 0
    assert "phase post_reveal_calibration" in done.out


def test_w40_json_of_evaluate(planned: World) -> None:
    value = json.loads(cli("decisions", "evaluate", planned.run, "--json").out)
    assert value["phase"] == "ex_ante_scored"
    assert value["part_b_released"] is False
    assert value["attempt"] == value["attempts"] == 1
    assert value["written"] is None
    for case in value["cases"]:
        assert case["blockers"] == []
        assert case["substantive_human_review_required"] is True
        assert {"prompt_digest", "response_digest", "score_digest"} <= set(case)
    assert not keys_in(value) & {*FORBIDDEN_TOGETHER, "role", "outcome_ids", "process_quality"}


def test_w38_json_of_reveal_has_no_process_score(evaluated: World) -> None:
    value = json.loads(cli("decisions", "reveal", evaluated.run, "--json").out)
    assert value["phase"] == "post_reveal_calibration"
    assert set(FORBIDDEN_TOGETHER) <= set(value["cases"][0])
    assert not keys_in(value) & {
        "process_score",
        "total",
        "points",
        "score",
        "eligible",
        "blockers",
        "combined",
    }


def test_blocked_evaluation_exits_5_and_keeps_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = replay_world(tmp_path / "w", {"case-bbi-2007-07": "no"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(world.state))
    done = cli("decisions", "evaluate", world.run, "--write-run")
    assert done.code == 5
    assert "REQUIRED_DECISION_RECORD_INCOMPLETE" in done.err
    assert "next:" not in done.out
    assert (world.run / "ex-ante" / "run.json").exists()
    assert cli("verify", world.run).code == 0
    assert cli("decisions", "reveal", world.run, "--write-calibration").code == 5
    assert not (world.run / "reveal").exists()


def test_verify_prints_path_and_digest_of_the_trust_it_used(evaluated: World) -> None:
    trust = evaluated.places.trust
    done = cli("verify", evaluated.run)
    assert f"trust {trust} {digest(trust.read_bytes())}" in done.out
    value = json.loads(cli("verify", evaluated.run, "--json").out)
    assert value["trust"] == {"path": str(trust), "digest": digest(trust.read_bytes())}


def by_hand(world: World, path: Path) -> Path:
    """A trust file as a third party writes it, from the public key that it was told."""
    public = json.loads(world.places.trust.read_bytes())["keys"][0]
    path.parent.mkdir(parents=True, mode=0o700, exist_ok=True)
    entry = {
        "key_id": public["key_id"],
        "public_key": public["public_key"],
        "roles": ["evaluator"],
        "predicate_types": public["predicate_types"],
        "valid_from": None,
        "valid_until": None,
        "custody": "self",
        "ephemeral": False,
        "runs": None,
        "comment": "told by telephone",
    }
    path.write_text(json.dumps({"format": "https://evalkit.dev/trust/v1", "keys": [entry]}, indent=2))
    path.chmod(0o600)
    return path


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A third party: no state, no configuration of the evaluator."""
    folder = tmp_path / "third"
    folder.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return folder


@pytest.mark.parametrize("phase", ["planned", "evaluated", "revealed"])
def test_a_third_party_verifies_a_copy(request: pytest.FixtureRequest, tmp_path: Path, phase: str) -> None:
    original: World = request.getfixturevalue(f"{phase}_once")
    folder = request.getfixturevalue("elsewhere")
    trust = by_hand(original, folder / "mine" / "trust.json")
    shutil.copytree(original.run, folder / "copy")
    done = cli("verify", folder / "copy", "--trust", trust)
    assert done.code == 0, done.err
    assert str(trust) in done.out
    assert not (folder / "state").exists()
    assert not (folder / "config").exists()


def test_a_third_party_without_trust_is_told_so(evaluated_once: World, elsewhere: Path) -> None:
    shutil.copytree(evaluated_once.run, elsewhere / "copy")
    assert cli("verify", elsewhere / "copy").code == 11
    assert cli("verify", elsewhere / "copy", "--trust", elsewhere / "no.json").code == 11


def test_another_trust_file_is_exit_11(evaluated_once: World, elsewhere: Path, make_signer: Any) -> None:
    from evalkit.sealing import PREDICATES, TrustedKey, pin

    shutil.copytree(evaluated_once.run, elsewhere / "copy")
    other = elsewhere / "mine" / "trust.json"
    pin(other, TrustedKey.of(make_signer().public_key, predicate_types=tuple(PREDICATES.values())))
    assert cli("verify", elsewhere / "copy", "--trust", other).code == 11


def test_trust_option_wins_over_the_environment(evaluated: World, tmp_path: Path, make_signer: Any) -> None:
    from evalkit.sealing import PREDICATES, TrustedKey, pin

    other = tmp_path / "mine" / "trust.json"
    pin(other, TrustedKey.of(make_signer().public_key, predicate_types=tuple(PREDICATES.values())))
    assert cli("verify", evaluated.run).code == 0
    assert cli("verify", evaluated.run, "--trust", other).code == 11
    assert cli("decisions", "reveal", evaluated.run, "--trust", other).code == 11
    mine = by_hand(evaluated, tmp_path / "hand" / "trust.json")
    evaluated.places.trust.unlink()
    assert cli("verify", evaluated.run).code == 11
    assert cli("verify", evaluated.run, "--trust", mine).code == 0


def test_a_key_pinned_for_another_phase_does_not_count(evaluated: World, tmp_path: Path) -> None:
    mine = by_hand(evaluated, tmp_path / "hand" / "trust.json")
    value = json.loads(mine.read_bytes())
    value["keys"][0]["predicate_types"] = value["keys"][0]["predicate_types"][:1]
    mine.write_text(json.dumps(value))
    assert cli("verify", evaluated.run, "--trust", mine).code == 11


@pytest.mark.parametrize("mode", [0o666, 0o620])
def test_a_trust_file_that_others_may_write_is_refused(evaluated: World, mode: int) -> None:
    evaluated.places.trust.chmod(mode)
    assert cli("verify", evaluated.run).code == 11


def test_verify_changes_nothing(revealed: World) -> None:
    def everything() -> dict[str, Any]:
        return {
            str(p): (p.stat().st_mtime_ns, p.read_bytes() if p.is_file() else None)
            for p in revealed.root.rglob("*")
        }

    before = everything()
    assert cli("verify", revealed.run).code == 0
    assert everything() == before


def test_w10_export_holds_part_a_only(planned: World, tmp_path: Path) -> None:
    out = tmp_path / "rehearsal"
    done = cli("decisions", "export", planned.run, "--case", "case-nflx-2007-07", "--out", out)
    assert done.code == 0
    files = {p.relative_to(out).as_posix(): p for p in out.rglob("*") if p.is_file()}
    assert set(files) == {"part-a/packet.json", "part-a/report.md", "part-a/prompt.txt"}
    source = CASES / "case-nflx-2007-07"
    assert files["part-a/packet.json"].read_bytes() == (source / "part-a" / "packet.json").read_bytes()
    assert (source / "part-a" / "packet.json").read_bytes() in files["part-a/prompt.txt"].read_bytes()
    episode = json.loads((source / "episode.json").read_bytes())
    outcome = json.loads((source / "part-b" / "outcome.json").read_bytes())
    hidden = [episode["pair_id"], episode["title"], episode["partner_case_id"], planned.run_id,
              str(planned.run), "unfavorable", "catalog.json", "episode.json", "qc.json", outcome["process_quality"],
              *(o["statement"] for o in outcome["outcomes"])]  # fmt: skip
    for name, path in files.items():
        text = path.read_text()
        assert not [h for h in hidden if h in text], name
        assert path.stat().st_mode & 0o777 == 0o600


def test_w10_export_of_a_changed_run_is_refused(planned: World, tmp_path: Path) -> None:
    path = planned.run / "part-a" / "case-nflx-2007-07" / "packet.json"
    path.write_bytes(path.read_bytes().replace(b"303.7", b"303.8", 1))
    out = tmp_path / "rehearsal"
    assert cli("decisions", "export", planned.run, "--case", "case-nflx-2007-07", "--out", out).code == 13
    assert not out.exists()


def test_precommit_json_names_no_role(tmp_path: Path) -> None:
    done = cli("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path / "r", "--json")
    value = json.loads(done.out)
    assert value["phase"] == "precommitted"
    assert value["custody"] == "self"
    assert value["ephemeral_keys"] is True
    assert "favorable" not in done.out


def test_custody_self_is_never_called_blind(tmp_path: Path) -> None:
    done = cli("decisions", "precommit", CASES, "--pair", PAIR, "--out", tmp_path / "r")
    assert "not blind" in done.out
    assert "that nobody peeked" in cli("verify", tmp_path / "r").out


def test_keys_of_ones_own(tmp_path: Path) -> None:
    assert "no signing key" in cli("keys", "show").out
    assert cli("keys", "init", "--no-passphrase").code == 0
    shown = cli("keys", "show").out
    assert "without passphrase" in shown
    run = tmp_path / "r"
    said = cli("decisions", "precommit", CASES, "--pair", PAIR, "--out", run).out
    assert "custody self: keys made for this run" not in said
    assert "custody self: your own key opens the outcomes; not blind" in said
    assert json.loads((run / "plan.json").read_bytes())["ephemeral_keys"] is False
    assert cli("decisions", "evaluate", run, "--write-run").code == 0
    assert cli("decisions", "reveal", run, "--write-calibration").code == 0
    assert cli("verify", run).code == 0


def test_one_is_not_called_many(tmp_path: Path) -> None:
    run = tmp_path / "r"
    assert cli("decisions", "precommit", CASES, "--pair", PAIR, "--attempt-cap", "1", "--out", run).code == 0
    assert "at most 1 attempt\n" in cli("verify", run).out
    said = cli("decisions", "evaluate", run)
    assert said.code == 0
    assert "next:" not in said.out, "there is no attempt left"
    refused = cli("decisions", "evaluate", run, "--write-run")
    assert refused.code == 5
    assert "the only attempt of this plan is used" in refused.err


def test_a_result_that_is_there_is_one_per_plan(evaluated: World) -> None:
    refused = cli("decisions", "evaluate", evaluated.run, "--write-run")
    assert refused.code == 5
    assert "one attested run per plan" in refused.err


def test_accept_warning_names_exactly_what_is_accepted(tmp_path: Path) -> None:
    run = tmp_path / "r"
    base = ("decisions", "precommit", CASES, "--pair", PAIR, "--out", run)
    done = cli(*base, "--accept-warning", "case-nflx-2007-07:NAMED_CASE")
    assert done.code == 5
    assert "not accepted" in done.err
    assert not run.exists()
    world = make_world(tmp_path / "w")
    accepted = [f"{c['case_id']}:{w}" for c in world.plan["cases"] for w in c["accepted_warnings"]]
    options = [x for item in accepted for x in ("--accept-warning", item)]
    assert cli(*base, *options).code == 0


def test_the_summary_of_a_run_is_canonical_json(evaluated: World) -> None:
    assert canonical_json(json.loads(cli("verify", evaluated.run, "--json").out))
