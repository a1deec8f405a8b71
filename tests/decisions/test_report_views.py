"""What a report shows of blocked, replayed and unrevealed runs, and that its two results stay apart (W38)."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.reports.decisions import DecisionReport
from evalkit.sealing import Trust, pin

from .support import PAIRS, ROOT, World, cli, evaluate_world, make_world, replay_model, replay_world

VIEWS = ROOT / "evalkit" / "reports" / "decisions"


def words_of(path: Path) -> set[str]:
    """Every name, attribute and string of a module, its documentation left out."""
    tree = ast.parse(path.read_text())
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef) and ast.get_docstring(node):
            node.body = node.body[1:]
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= set(node.value.split())
    return found


def test_w38_the_process_view_reads_nothing_of_the_outcome() -> None:
    words = words_of(VIEWS / "process.py")
    assert "score" in words
    assert not words & {"calibration", "brier", "log", "realized", "part_b", "floor_calibration", "outcomes"}


def test_w38_the_calibration_view_reads_nothing_of_the_process_score() -> None:
    words = words_of(VIEWS / "calibration.py")
    assert "brier" in words
    assert not words & {"ex_ante", "total", "dimensions", "points", "floor", "weight", "blockers"}


def load(world: World) -> DecisionReport:
    return DecisionReport.load([world.run], trust=world.places.trust)


def test_before_the_reveal_there_is_no_calibration(evaluated: World) -> None:
    report = load(evaluated)
    assert report.results()["calibration"] is None
    assert all(c.realized is None for c in report.calibration.probabilities())
    with pytest.raises(EvalkitError, match="nothing is revealed"):
        report.calibration.scores("brier")


def test_a_plan_that_was_not_evaluated_is_no_report(planned: World) -> None:
    with pytest.raises(EvalkitError, match="not evaluated"):
        load(planned)


def test_labels_say_what_kind_of_run_it_is(evaluated: World) -> None:
    labels = str(load(evaluated).labels())
    for words in ("Named cases", "Not blind", "Baseline"):
        assert words in labels
    assert "Replayed" not in labels


def test_a_replayed_and_blocked_run_says_both(tmp_path: Path) -> None:
    """W28: the blocked record is shown as blocked, with where and what, beside the total."""
    world = replay_world(tmp_path / "w", {"case-bbi-2007-07": "I would rather talk."})
    evaluate_world(world)
    report = load(world)
    assert "Replayed" in str(report.labels())
    assert "Baseline" not in str(report.labels())
    blockers = report.process.blockers()._repr_html_()
    assert "REQUIRED_DECISION_RECORD_INCOMPLETE" in blockers
    assert "BLOCKED" in report.process.cards().markup
    by_case = {p["case_id"]: p for p in report.results()["process"]}
    assert by_case["case-bbi-2007-07"]["eligible"] is False
    assert by_case["case-nflx-2007-07"]["eligible"] is True
    # the baseline stands beside a model that is not the baseline
    assert "the baseline has" in report.process.cards().markup
    # a blocked case has no probabilities to show
    assert [c.case for c in report.calibration.probabilities()] == ["Netflix"]


def test_a_blocked_run_has_a_report(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first thing that somebody with a model of her own meets must be readable."""
    world = replay_world(tmp_path / "w", {"case-bbi-2007-07": "```json\n{}\n```"})
    monkeypatch.setenv("XDG_CONFIG_HOME", str(world.config))
    monkeypatch.setenv("XDG_STATE_HOME", str(world.state))
    done = cli("decisions", "evaluate", world.run, "--write-run")
    assert done.code == 5
    assert "REQUIRED_DECISION_RECORD_INCOMPLETE at response" in done.err
    assert "code fence" in done.err
    report = load(world)
    assert "cannot be revealed" in report.calibration.cards().markup
    assert "cannot be revealed" in report.calibration.table()._repr_html_()
    assert "code fence" in report.process.blockers()._repr_html_()


def test_a_case_counts_once(revealed: World, tmp_path: Path) -> None:
    """n counts cases: the same run twice, or a second run of the same pair, is refused."""
    again = revealed.copy(tmp_path / "again")
    for runs in ([revealed.run, revealed.run], [revealed.run, again.run]):
        with pytest.raises(EvalkitError, match="is in two of these runs"):
            DecisionReport.load(runs, trust=revealed.places.trust)


def test_one_model_a_mean(revealed: World, tmp_path: Path) -> None:
    """Runs of two models are two reports: their scores are not averaged."""
    other = make_world(tmp_path / "other", pair=PAIRS[1], model=replay_model({}))
    trust = tmp_path / "both.json"
    trust.parent.chmod(0o700)
    for world in (revealed, other):
        for key in Trust.load(world.places.trust, []).keys:
            pin(trust, key)
    with pytest.raises(EvalkitError, match="different models"):
        DecisionReport.load([revealed.run, other.run], trust=trust)


def test_more_than_one_attempt_is_said(planned: World) -> None:
    """W40: an attempt without --write-run shows its scores, so the report must say that there was one."""
    from evalkit.decisions import evaluate

    evaluate(planned.run, places=planned.places)
    evaluate(planned.run, write_run=True, places=planned.places)
    labels = str(load(planned).labels())
    assert "More than one attempt" in labels
    assert "attempt 2 of 2" in labels


def test_hostile_text_is_shown_as_text(tmp_path: Path, evaluated: World) -> None:
    """Strings of a model never become markup."""
    from evalkit.decisions.baseline import analyse
    from evalkit.decisions.case import read_part_a
    from evalkit.decisions.prompt import Instructions, build_prompt

    part = read_part_a(evaluated.run / "part-a" / "case-bbi-2007-07")
    record = json.loads(analyse(build_prompt(Instructions.shipped(), part.packet_bytes)))
    record["coordinates"]["question"] = "<script>alert(1)</script>"
    world = replay_world(tmp_path / "w", {"case-bbi-2007-07": json.dumps(record)})
    evaluate_world(world)
    shown = load(world).process.blockers()._repr_html_()
    assert "DECISION_COORDINATES_MISMATCH" in shown
    assert "<script>" not in shown
    assert "&lt;script&gt;" in shown


# --- what is proven


def claims(table: Any) -> dict[str, str]:
    """Claim with its particulars -> status."""
    return {str(claim): str(status) for status, claim in table.rows}


def test_the_proof_of_one_run_says_how_many_when_and_by_which_key(revealed: World) -> None:
    view = load(revealed).proof
    said = claims(view.table()) | claims(view.custody())
    report = view.runs[0]
    assert len(said) == len(report.lines)
    for line in report.lines:
        assert said[f"{line.text}; {line.detail}" if line.detail else line.text] == line.status
    assert any(claim.endswith("this many attempts are in it; attempt 1 of 1") for claim in said)
    assert any("; revealed 20" in claim for claim in said)
    page = view.table()._repr_html_()
    assert '<span class="particulars">attempt 1 of 1</span>' in page
    assert "Holds for" not in page
    assert "1 of\u00a01" not in page
    assert view.table().note == ""


def test_the_proof_of_several_runs_names_the_run_of_each_particular(revealed: World, tmp_path: Path) -> None:
    other = make_world(tmp_path / "other", pair=PAIRS[1])
    evaluate_world(other)
    trust = tmp_path / "both.json"
    for world in (revealed, other):
        for key in Trust.load(world.places.trust, []).keys:
            pin(trust, key)
    view = DecisionReport.load([revealed.run, other.run], trust=trust).proof
    said = claims(view.table())
    assert "all 2 runs" in view.table().note
    # the same in both: said once
    assert any(claim.endswith("are in it; attempt 1 of 1") for claim in said)
    # different: each by the name of its pair
    keys = next(claim for claim in said if claim.startswith("the plan was signed by a key"))
    for world, pair in ((revealed, PAIRS[0]), (other, PAIRS[1])):
        assert f"{pair}: {world.plan['signing_key_id']}" in keys
    # of one run only: so it says
    bound = next(claim for claim in said if claim.startswith("the reveal binds this very run"))
    assert f"; {PAIRS[0]}: revealed 20" in bound
    assert PAIRS[1] not in bound
    opened = next(claim for claim in said if claim.startswith("catalog, mapping and both Part Bs open"))
    assert opened.endswith(f"; {PAIRS[0]}")


def test_particulars_are_text(revealed: World) -> None:
    """A superseding plan's reason is written by somebody: it stays text, and shows what it hides."""
    from dataclasses import replace

    from evalkit.decisions.claims import Line
    from evalkit.reports.decisions.proof import ProofView, _with_codes

    run = replace(load(revealed).runs[0], lines=(Line("policy", "said", "a\u202eb <script>"),))
    page = ProofView((run,), (revealed.run,)).table()._repr_html_()
    assert "a\\u202eb &lt;script&gt;" in page
    digest = "sha256:" + "a" * 64
    markup = _with_codes(f"<b>x</b> {digest}.")
    assert markup.startswith("&lt;b&gt;x&lt;/b&gt; <code")
    assert markup.replace("<wbr>", "").endswith(f">{digest}</code>.")
