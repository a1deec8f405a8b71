"""The notebooks keep their form, run as they are, and show nothing of Part B before the reveal."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import nbformat
import pytest

from evalkit.decisions.session import DEMO_PAIR, demo_run
from evalkit.reports import execute, read_parameters
from evalkit.resources import resource

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


def part_b_texts(cases: Path) -> list[str]:
    """Every sentence of every Part B: a sentinel, should it turn up where it must not."""
    texts = []
    for case in sorted(cases.glob("case-*")):
        outcome = json.loads((case / "part-b" / "outcome.json").read_bytes())
        texts += [o["statement"] for o in outcome["outcomes"]]
        texts += [s["statement"] for s in outcome["observable_signals"]]
        texts += [s["title"] for s in outcome["sources"]]
        texts.append(outcome["process_quality"])
    return texts


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda p: p.stem)
def test_form(path: Path) -> None:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    cells = notebook.cells
    assert cells[0].cell_type == "markdown"
    assert cells[0].source.startswith("# ")
    tagged = [i for i, c in enumerate(cells) if "parameters" in c.metadata.get("tags", [])]
    assert tagged == [1]
    assert all(p.help for p in read_parameters(path))
    for cell in cells:
        if cell.cell_type == "code":
            assert len(cell.source.splitlines()) < 15, "logic belongs in the library"
            ast.parse(cell.source)
            assert cell.outputs == []
            assert cell.execution_count is None
    assert "emit(" in cells[-1].source


def test_all_three_are_there() -> None:
    assert {p.stem for p in NOTEBOOKS} >= {"run-decisions", "reveal-decisions", "report-decisions"}


@pytest.mark.slow
def test_run_notebook_shows_nothing_of_part_b(tmp_path: Path) -> None:
    """Sentinel scan (sealing, threats): notebook, results, report and run folder before the reveal."""
    run_dir = tmp_path / "run"
    done = execute(
        "run-decisions", {"pair": DEMO_PAIR, "out": str(run_dir)}, out=tmp_path, key="k", progress=False
    )
    sentinels = part_b_texts(resource("data", "cases"))
    assert len(sentinels) > 40
    looked = [p for folder in (done.directory, run_dir) for p in folder.rglob("*") if p.is_file()]
    assert {"run.ipynb", "results.json", "report.html", "plan.json"} <= {p.name for p in looked}
    for path in looked:
        data = path.read_text(errors="replace")
        plain = data + json.dumps(data, ensure_ascii=True)
        assert [s for s in sentinels if s in plain or json.dumps(s)[1:-1] in plain] == [], path


@pytest.mark.slow
def test_report_notebook_holds_both_results_apart(tmp_path: Path) -> None:
    run_dir = demo_run(revealed=True)
    done = execute("report-decisions", {"runs": [str(run_dir)]}, out=tmp_path, key="k", progress=False)
    assert set(done.results) >= {"process", "calibration"}
    assert "brier" not in json.dumps(done.results["process"])
    assert "total" not in json.dumps(done.results["calibration"])
    brier = done.results["calibration"]["brier"]
    assert 0 <= brier["low"] < brier["mean"] < brier["high"] <= 2
    assert done.results["calibration"]["n"] == 2
    page = done.report.read_text()
    for words in ("What is proven", "How to reproduce", "Not blind", "Named cases", "n</i> = 2"):
        assert words in page


@pytest.mark.slow
def test_a_sealed_run_is_never_skipped_as_done(tmp_path: Path) -> None:
    """A run keyed by its run id is refused the second time, not silently reused."""
    from evalkit.errors import EvalkitError

    execute("run-decisions", {"out": str(tmp_path / "a")}, out=tmp_path, key="same", progress=False)
    with pytest.raises(EvalkitError):
        execute("run-decisions", {"out": str(tmp_path / "b")}, out=tmp_path, key="same", progress=False)
    assert not (tmp_path / "b").exists()


def test_golden_notebooks_have_outputs_to_compare() -> None:
    """A stripped golden notebook would pass without comparing anything."""
    golden = sorted((ROOT / "tests" / "golden").glob("*.ipynb"))
    assert golden
    for path in golden:
        for cell in nbformat.read(path, as_version=4).cells:
            assert cell.cell_type != "code" or cell.outputs, path


@pytest.mark.slow
def test_the_report_on_forecasts_of_the_example(tmp_path: Path) -> None:
    done = execute("report-forecasts", {}, out=tmp_path, key="k", progress=False)
    assert set(done.results) == {"source", "scores", "calibration", "comparison"}
    rows = {row["forecaster"]: row for row in done.results["scores"]["rows"]}
    assert set(rows) == {"Ada", "Bo", "Cleo", "Dan"}
    for row in rows.values():
        assert row["brier_low"] < row["brier"] < row["brier_high"]
        assert row["n_clusters"] <= 60 < row["n"]
    assert len(done.results["comparison"]) == 6


@pytest.mark.slow
def test_the_tutorial_shows_what_it_says(tmp_path: Path) -> None:
    """Its sentences are about these numbers."""
    found = execute("tutorial-calibration", {}, out=tmp_path, key="k", progress=False).results
    by_bins = found["ece_of_a_calibrated_forecaster"]
    ece = [by_bins[bins] for bins in sorted(by_bins, key=int)]
    assert sorted(ece) == ece
    assert ece[-1] > 4 * ece[0]
    gain = found["recalibration"]
    assert gain["Bo, platt"] < -0.01 < gain["Cleo, platt"] < 0 < gain["Ada, platt"] < gain["Ada, isotonic"]
    assert 0 < found["comparison"]["Cleo - Ada"] < found["comparison"]["Bo - Ada"]
    rows = {row["forecaster"]: row for row in found["scores"]["rows"]}
    assert max(rows, key=lambda who: rows[who]["dsc"]) == "Cleo"
    assert min(rows, key=lambda who: rows[who]["mcb"]) == "Dan"
    assert rows["Ada"]["brier_high"] > rows["Bo"]["brier_low"]
