"""W38: process score and calibration are two results; nothing in the toolkit puts them together."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from evalkit.decisions import evaluate, reveal

from .support import ROOT, World

PROCESS = {"process_score", "points", "total", "process_maximum"}
CALIBRATION = {"brier", "brier_uniform", "log", "log_uniform", "realized_probability"}


def test_the_two_frames_share_no_figure(evaluated: World) -> None:
    frame = reveal(evaluated.run, places=evaluated.places).to_frame()
    assert not PROCESS & set(frame.columns)
    assert set(frame.columns) >= CALIBRATION


def test_the_evaluations_frame_has_no_outcome(planned: World) -> None:
    result = evaluate(planned.run, places=planned.places)
    assert set(result.to_frame().columns) == {"case_id", "dimension", "points", "weight"}
    assert not CALIBRATION & set(result.summary())
    assert not CALIBRATION & set(result.summary()["cases"][0])
    html = result._repr_html_()
    assert "brier" not in html.lower()


MODULES = sorted((ROOT / "evalkit").rglob("*.py"))


def _names(function: ast.AST) -> set[str]:
    found = {n.value for n in ast.walk(function) if isinstance(n, ast.Constant) and isinstance(n.value, str)}
    found |= {n.attr for n in ast.walk(function) if isinstance(n, ast.Attribute)}
    return found | {n.id for n in ast.walk(function) if isinstance(n, ast.Name)}


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_arithmetic_joins_the_two(path: Path) -> None:
    """No expression that adds, multiplies or averages names a figure of both kinds."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.BinOp | ast.AugAssign):
            names = _names(node)
            assert not (names & {"process_score", "points"} and names & CALIBRATION), (path, node.lineno)


@pytest.mark.parametrize("path", MODULES, ids=lambda p: p.relative_to(ROOT).as_posix())
def test_no_record_or_table_row_has_both(path: Path) -> None:
    """No dictionary and no list literal (a row, a header, a column list) names figures of both kinds."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Dict):
            words = {k.value for k in node.keys if isinstance(k, ast.Constant)}
        elif isinstance(node, ast.List | ast.Tuple | ast.Set):
            words = {e.value for e in node.elts if isinstance(e, ast.Constant)}
        else:
            continue
        assert not (words & {"process_score", "points", "process_total"} and words & CALIBRATION), node.lineno
