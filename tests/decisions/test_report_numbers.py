"""W38: a report shows the sealed record's own numbers, whatever the probabilities and texts are."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import import_cases, reveal
from evalkit.reports import figures, sealed
from evalkit.reports.decisions import DecisionReport

from .forging import quick_everywhere
from .support import (
    CASE_IDS,
    FROZEN_AT,
    World,
    baseline_record,
    evaluate_world,
    make_world,
    other_sheet,
    part_a,
    replay_world,
    sheet,
    write_sheets,
)

pytestmark = pytest.mark.usefixtures("quick_signer")


@pytest.fixture(scope="module", autouse=True)
def font_cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Matplotlib's list of fonts, once and not below the home of each test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MPLCONFIGDIR", str(tmp_path_factory.mktemp("matplotlib")))
        yield


def load(world: World) -> DecisionReport:
    reveal(world.run, write_calibration=True, places=world.places)
    return DecisionReport.load([world.run], trust=world.places.trust)


def short_sum(case_id: str) -> str:
    """The baseline's record with probabilities that sum to 0.999999."""
    record = baseline_record(part_a(case_id))
    first, *others = record["scenarios"]
    rest = sum(Decimal(s["probability"]) for s in others)
    first["probability"] = format(Decimal("0.999999") - rest, "f")
    return json.dumps(record)


@pytest.fixture(scope="module")
def short_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    world = replay_world(tmp_path_factory.mktemp("short") / "w", {c: short_sum(c) for c in CASE_IDS[:2]})
    evaluate_world(world)
    reveal(world.run, write_calibration=True, places=world.places)
    return world


def short_report(world: World) -> tuple[DecisionReport, dict[str, Any]]:
    document = json.loads((world.run / "reveal" / "calibration.json").read_bytes())
    return DecisionReport.load([world.run], trust=world.places.trust), document


def test_w38_probabilities_that_miss_one_by_the_tolerance_have_a_report(short_once: World) -> None:
    report, document = short_report(short_once)
    view = report.calibration
    for case in report.cases:
        assert case.record is not None
        total = sum(Decimal(s["probability"]) for s in case.record["scenarios"])
        assert total == Decimal("0.999999")
    for rule in ("brier", "log"):
        of_record = sum(c[rule] for c in document["cases"]) / 2
        assert float(view.scores(rule)) == pytest.approx(of_record, rel=1e-12)
    results = report.results()["calibration"]
    assert results["n"] == 2
    assert [c["brier"] for c in results["cases"]] == [c["brier"] for c in document["cases"]]
    assert "Mean Brier score" in view.cards().markup


def test_w38_what_a_case_got_is_what_the_record_says(short_once: World) -> None:
    report, document = short_report(short_once)
    got = {row[0]: row[-1] for row in report.calibration.sensitivity().rows}
    for case, sealed_case in zip(report.cases, document["cases"], strict=True):
        assert got[case.name] == pytest.approx(sealed_case["brier"], rel=1e-12)


ALIKE = {
    "two alike": ("Rebound", "Rebound", "Bankruptcy"),
    "three alike": ("Rebound", "Rebound", "Rebound"),
    "two alike and a number": ("Rebound", "Rebound", "Rebound (2)"),
    "alike after they are cut": ("Rebound of the line " + "very " * 9 + "soon",) * 2 + ("Rebound",),
}
REST = (
    ": both routes run and the line earns a profit.",
    ": both routes run and the line makes a loss.",
    ": the line is insolvent and service ended.",
)


@pytest.mark.parametrize("realized", ["y1", "y3"])
@pytest.mark.parametrize("name", ALIKE)
def test_w38_scenarios_that_begin_alike_stay_apart(
    tmp_path: Path, realized: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [begin + rest for begin, rest in zip(ALIKE[name], REST, strict=True)]
    quick_everywhere(monkeypatch)
    values = [sheet(), other_sheet()]
    for value in values:
        for scenario, text in zip(value["scenarios"], texts, strict=True):
            scenario["description"] = text
        value["part_b"]["realized_scenario_id"] = realized
    sheets, pairs = write_sheets(tmp_path / "sheets", values)
    import_cases(sheets, pairs, tmp_path / "cases", frozen_at=FROZEN_AT)
    world = make_world(tmp_path / "w", cases=tmp_path / "cases", pair="pair-ferries")
    evaluate_world(world)
    report = load(world)
    view = report.calibration
    for case, bars, row in zip(report.cases, view.probabilities(), view.sensitivity().rows, strict=True):
        assert case.calibration is not None
        assert case.record is not None
        assert len(bars.probabilities) == len(case.packet.scenarios) == 3
        assert sum(bars.probabilities.values()) == pytest.approx(1)
        assert bars.realized is not None
        given = float(case.calibration["realized_probability"])
        assert bars.probabilities[bars.realized] == given
        assert row[-1] == pytest.approx(case.calibration["brier"], abs=1e-8)
        assert case.scenario_text(case.calibration["realized_scenario_id"]) == texts[int(realized[1]) - 1]
    if realized == "y1":
        drawn = figures.svg(figures.probability_bars(view.probabilities()))
        assert drawn.count(">Rebound") >= 4


# --- the page beside a run


@pytest.fixture
def quick_report(monkeypatch: pytest.MonkeyPatch) -> None:
    """A report that no kernel has to make."""

    def execute(notebook: str, parameters: dict[str, Any], *, out: Path, **options: Any) -> Any:
        page = out / "page.html"
        page.write_text("<p>the page</p>")

        class Done:
            report = page

        return Done

    monkeypatch.setattr("evalkit.reports.page.execute", execute)


@pytest.mark.usefixtures("quick_report")
@pytest.mark.parametrize("planted", [".r.report.html.partial", "r.report.html.partial", ".r.partial"])
def test_a_report_follows_no_link_that_was_planted_beside_the_run(evaluated: World, planted: str) -> None:
    victim = evaluated.root / "victim"
    victim.write_text("mine")
    link = evaluated.run.parent / planted
    link.symlink_to(victim)
    target = sealed.report_sealed_run(evaluated.run, trust=evaluated.places.trust)
    assert target == evaluated.run / "report.html"
    assert target.read_text() == "<p>the page</p>"
    assert not target.is_symlink()
    assert victim.read_text() == "mine"
    assert link.is_symlink()
    assert link.readlink() == victim
    assert sorted(p.name for p in evaluated.run.parent.iterdir()) == sorted([planted, "r"])


@pytest.mark.usefixtures("quick_report")
def test_a_report_that_cannot_be_put_there_leaves_nothing(
    evaluated: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*arguments: Any) -> None:
        raise OSError("no room")

    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(OSError, match="no room"):
        sealed.report_sealed_run(evaluated.run, trust=evaluated.places.trust)
    assert [p.name for p in evaluated.run.parent.iterdir()] == ["r"]
    assert not (evaluated.run / "report.html").exists()


@pytest.mark.usefixtures("quick_report")
def test_a_report_takes_the_place_of_a_planted_link(evaluated: World) -> None:
    """--out names a link: it is replaced, and nothing is written through it."""
    victim = evaluated.root / "victim"
    victim.write_text("mine")
    out = evaluated.root / "page.html"
    out.symlink_to(victim)
    sealed.report_sealed_run(evaluated.run, out=out, trust=evaluated.places.trust)
    assert victim.read_text() == "mine"
    assert out.read_text() == "<p>the page</p>"
    assert not out.is_symlink()
