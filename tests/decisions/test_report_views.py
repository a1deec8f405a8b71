"""What a report shows of blocked, replayed and unrevealed runs, and that its two results stay apart (W38)."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.reports.decisions import DecisionReport

from .support import ROOT, World, evaluate_world, replay_world

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
