"""A set of forecasts: what it refuses and how it says so, what it counts, and that the order of rows is nothing to it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.errors import EvalkitError
from evalkit.forecasts import ForecastSet
from evalkit.scoring import brier_score, log_score, ranked_probability_score


def long(**changes: Any) -> pd.DataFrame:
    """Two forecasters, three questions, one of them forecast twice by A; B answers two."""
    columns = {
        "forecaster": ["A", "A", "A", "A", "B", "B"],
        "question": ["q1", "q1", "q2", "q3", "q1", "q2"],
        "time": ["1", "2", "1", "1", "1", "1"],
        "forecast": [0.2, 0.4, 0.9, 0.5, 0.3, 0.8],
        "outcome": [0, 0, 1, 1, 0, 1],
        "horizon": [7, 6, 7, 7, 7, 7],
    }
    return pd.DataFrame(columns | changes)


def test_scores_are_those_of_the_rules() -> None:
    made = ForecastSet.from_frame(long())
    scores = made.score("brier")
    assert float(scores["A"]) == float(brier_score([0, 0, 1, 1], [0.2, 0.4, 0.9, 0.5]))
    assert float(made.score("log")["B"]) == float(log_score([0, 1], [0.3, 0.8]))
    assert scores["A"].cluster is not None  # q1 twice: dependent
    assert scores["B"].cluster is None  # each its own cluster, which is none
    assert made.forecasters == ("A", "B")
    assert made.questions == ("q1", "q2", "q3")
    assert "horizon" in made.to_frame()


def test_accounts_count_what_is_missing_and_fill_nothing_in() -> None:
    frame = long(forecast=[0.2, None, 0.9, 0.5, 0.3, 0.8], outcome=[0, 0, 1, None, 0, 1])
    made = ForecastSet.from_frame(frame)
    a, b = made.accounts
    assert (a.n, a.n_missing, a.n_unresolved, a.n_absent) == (2, 1, 1, 0)
    assert (b.n, b.n_missing, b.n_unresolved, b.n_absent) == (2, 0, 0, 0)
    assert made.n == 4
    assert len(made.to_frame()) == 6
    with pytest.raises(EvalkitError, match="1 forecasts are missing"):
        ForecastSet.from_frame(frame, missing="raise")
    gone = ForecastSet.from_frame(long().drop(index=[4]))
    assert gone.accounts[1].n_absent == 2  # q1 and q3 have no row of B


def test_overlap_counts_common_questions() -> None:
    shared = ForecastSet.from_frame(long()).overlap()
    assert shared.loc["A", "A"] == 3
    assert shared.loc["A", "B"] == shared.loc["B", "A"] == 2


def test_the_set_does_not_change() -> None:
    made = ForecastSet.from_frame(long())
    before = float(made.score("brier")["A"])
    copy = made.to_frame()
    copy["forecast"] = 0.0
    assert float(made.score("brier")["A"]) == before
    with pytest.raises(AttributeError):
        made.kind = "ordinal"


@given(st.permutations(range(6)))
@settings(max_examples=30, deadline=None)
def test_the_order_of_rows_changes_nothing(order: list[int]) -> None:
    whole = ForecastSet.from_frame(long())
    mixed = ForecastSet.from_frame(long().iloc[order])
    pd.testing.assert_frame_equal(mixed.to_frame(), whole.to_frame())
    assert mixed.score_table().to_json() == whole.score_table().to_json()


def test_wide_and_long_are_the_same_set() -> None:
    wide = pd.DataFrame({"question": ["q1", "q2"], "A": [0.1, 0.9], "B": [0.2, np.nan], "outcome": [0, 1]})
    melted = wide.melt(["question", "outcome"], var_name="forecaster", value_name="forecast")
    one, other = ForecastSet.from_frame(wide), ForecastSet.from_frame(melted)
    assert one.provenance.layout == "wide"
    assert other.provenance.layout == "long"
    columns = ["forecaster", "question", "forecast", "outcome"]
    pd.testing.assert_frame_equal(one.to_frame()[columns], other.to_frame()[columns])
    assert one.accounts == other.accounts


def test_columns_that_mean_nothing_to_the_set_are_kept() -> None:
    wide = pd.DataFrame(
        {"A": [0.1, 0.9], "B": [0.2, 0.4], "obs": [0, 1], "region": ["n", "s"], "horizon": [7, 9]}
    )
    frame = ForecastSet.from_frame(wide, {"forecast": ["A", "B"]}).to_frame()
    assert frame["region"].tolist() == ["n", "s", "n", "s"]
    assert frame["horizon"].tolist() == [7, 9, 7, 9]
    assert "row_" in ForecastSet.from_frame(long(row=range(6))).to_frame()


def ordinal(**changes: Any) -> pd.DataFrame:
    columns = {
        "low": [0.5, 0.1, 0.2],
        "middle": [0.3, 0.6, 0.2],
        "high": [0.2, 0.3, 0.6],
        "observed": ["low", "high", "high"],
    }
    return pd.DataFrame(columns | changes)


CLASSES = {"columns": {"forecast": ["low", "middle", "high"]}, "kind": "ordinal"}


def test_ordinal_forecasts_with_class_names() -> None:
    made = ForecastSet.from_frame(ordinal(), **CLASSES)
    p = ordinal()[["low", "middle", "high"]].to_numpy()
    assert made.classes == ("low", "middle", "high")
    assert float(made.score("rps")["forecast"]) == float(ranked_probability_score([0, 2, 2], p))
    assert float(made.score("brier")["forecast"]) == float(brier_score([0, 2, 2], p))
    numbered = ForecastSet.from_frame(ordinal(observed=[0, 2, 2]), **CLASSES)
    pd.testing.assert_frame_equal(numbered.to_frame(), made.to_frame())
    high = made.of_class(2)
    assert high.items("forecast").y.tolist() == [0, 1, 1]
    assert high.items("forecast").p.tolist() == [0.2, 0.3, 0.6]
    with pytest.raises(EvalkitError, match="needs ordered classes"):
        ForecastSet.from_frame(ordinal(), CLASSES["columns"], "categorical").score("rps")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"high": [0.2, 0.3, 0.7]}, "row 2, low … high: the probabilities sum to 1.1"),
        ({"high": [0.2, None, 0.6]}, "row 1, high: one class has no probability"),
        ({"observed": ["low", "HIGH", "high"]}, "row 1, observed: 'HIGH' is no class"),
        ({"observed": [0, 3, 1]}, "row 1, observed: '3' is no class"),
    ],
)
def test_ordinal_problems(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(EvalkitError) as caught:
        ForecastSet.from_frame(ordinal(**changes), **CLASSES)
    said = caught.value
    place, what = re.fullmatch(r"(.*?): (.*)", message).groups()
    assert what in said.what
    assert place in said.where


def problem(text: str, folder: Path, **options: Any) -> EvalkitError:
    path = folder / "f.csv"
    path.write_text(text)
    with pytest.raises(EvalkitError) as caught:
        ForecastSet.read(path, **options)
    assert caught.value.exit_code == 2
    return caught.value


@pytest.mark.parametrize(
    ("text", "where", "what", "do"),
    [
        ("p,y\n.3,1\n1.2,0\n", "line 3, p", "1.2 is no probability", "--na VALUE"),
        ("p,y\n30,1\n80,0\n", "line 2, p", "look like percentages", "divide them by 100"),
        ("p,y\n30%,1\n", "line 2, p", "'30%' is no probability", "45% is 0.45"),
        ('p,y\n"0,3",1\n', "line 2, p", "'0,3' is no probability", "decimal point"),
        ("p,y\n.3,maybe\n", "line 2, y", "'maybe' is no outcome", ""),
        ("p,y\n.3,2\n", "line 2, y", "2 is no outcome", ""),
        ("p,y\n.3,.5\n", "line 2, y", "0.5 is no outcome", "--fractional"),
        ("p,y,weight\n.3,1,-1\n", "line 2, weight", "-1 is no weight", ""),
        ("p,y,weight\n.3,1,0\n", "line 2, weight", "0 is no weight", ""),
        ("p,y,weight\n.3,1,\n", "line 2, weight", "nan is no weight", ""),
        ("p,y,model\n.3,1,\n", "line 2, model", "no forecaster", "fill it in"),
        ("p,y,id\n.3,1,a\n.4,1,a\n", "line 3", "the first is in line 2", "--time"),
        ("p,y,id,model\n.3,1,a,M\n.4,0,a,N\n", "line 3", "has two outcomes", "--question"),
        ("p,y,id,model,cluster\n.3,1,a,M,c\n.4,1,a,N,d\n", "line 3", "has two clusters", ""),
        ("p,y,model\n.3,1,M\n.4,1,N\n", "f.csv", "no column names the question", "--question COLUMN"),
    ],
)  # fmt: skip
def test_one_problem_says_what_where_and_what_to_do(
    text: str, where: str, what: str, do: str, tmp_path: Path
) -> None:
    said = problem(text, tmp_path)
    assert what in said.what
    assert said.where.endswith(where)
    assert do in said.do
    assert said.expected


def test_problems_are_collected() -> None:
    frame = pd.DataFrame({"p": ["x", "1.5", "0.2", "y"], "y": ["1", "0", "7", "0"]}, index=[10, 20, 30, 40])
    with pytest.raises(EvalkitError, match="4 problems") as caught:
        ForecastSet.from_frame(frame)
    assert [line.split(":")[0] for line in caught.value.details] == [
        "row 10, p", "row 20, p", "row 30, y", "row 40, p",
    ]  # fmt: skip


def test_the_same_problem_is_said_once(tmp_path: Path) -> None:
    rows = "".join(f"-0.01,{i % 2},0.5\n" for i in range(50)) + "".join("0.2,1,0.5\n" for _ in range(60))
    said = problem("A,y,B\n" + rows, tmp_path)
    assert said.what == "-0.01 is no probability"
    assert "line 2 and 49 more, A" in said.where
    made = ForecastSet.read(tmp_path / "f.csv", na=["-0.01"])
    assert made.accounts[0].n_missing == 50


def test_a_thousand_problems_are_not_all_told(tmp_path: Path) -> None:
    said = problem("p,y\n" + "".join(f"{i}x,1\n" for i in range(1000)), tmp_path)
    assert said.what == "the table has 1000 problems"
    assert said.details[-1] == "… and 988 more"
    assert len(said.message()) < 4000


def test_weights_and_clusters_reach_the_score() -> None:
    frame = pd.DataFrame({"p": [0.2, 0.8], "y": [0, 0], "weight": [3, 1], "cluster": ["c", "c"]})
    score = ForecastSet.from_frame(frame).score()["forecast"]
    assert float(score) == pytest.approx((3 * 0.04 + 0.64) / 4)
    assert score.cluster.tolist() == ["c", "c"]


def test_fractional_outcomes_only_where_allowed() -> None:
    frame = pd.DataFrame({"p": [0.2, 0.8], "y": [0.5, 1]})
    made = ForecastSet.from_frame(frame, fractional=True)
    assert float(made.score()["forecast"]) == pytest.approx((0.09 + 0.04) / 2)
    row = made.score_table().rows[0]
    assert row.log is None
    assert row.mcb is not None


def test_classes_have_no_fractional_outcomes() -> None:
    with pytest.raises(EvalkitError, match="cannot be admitted for ordinal forecasts"):
        ForecastSet.from_frame(ordinal(), fractional=True, **CLASSES)


def test_nothing_to_score_is_an_error() -> None:
    made = ForecastSet.from_frame(pd.DataFrame({"p": [0.2], "y": [None]}))
    assert made.accounts[0].n_unresolved == 1
    with pytest.raises(EvalkitError, match="no forecast can be scored"):
        made.score_table()
    with pytest.raises(EvalkitError, match="no rows"):
        ForecastSet.from_frame(pd.DataFrame({"p": [], "y": []}))


def test_names_are_shown_safely_and_kept_as_they_are() -> None:
    evil = "<script>alert(1)</script>=cmd|'\x1b[2J\u202e"
    frame = pd.DataFrame({"model": [evil], "id": ["=1+1"], "p": [0.5], "y": [1]})
    made = ForecastSet.from_frame(frame)
    assert made.forecasters == (evil,)
    board = made.score_table()
    for shown in (made._repr_html_(), board._repr_html_()):
        assert "<script" not in shown
        assert "\x1b" not in shown
        assert "\u202e" not in shown
    assert board.summary().replace("\n", "").isprintable()


def test_scores_rank_by_the_adjusted_score_where_coverage_differs() -> None:
    rng = np.random.default_rng(4)
    truth = np.where(rng.random(200) < 0.5, 0.5, 0.02)
    y = (rng.random(200) < truth).astype(int)
    questions = [f"q{i:03}" for i in range(200)]
    easy = truth < 0.1
    frame = pd.concat(
        [
            pd.DataFrame({"forecaster": "all", "question": questions, "p": truth, "y": y}),
            pd.DataFrame({"forecaster": "worse, easy ones only", "question": questions, "p": 0.2, "y": y})[
                easy
            ],
        ]
    )
    board = ForecastSet.from_frame(frame).score_table()
    assert board.unequal_coverage
    assert [row.forecaster for row in board.rows] == ["all", "worse, easy ones only"]
    first, second = board.rows
    assert second.brier is not None
    assert first.brier is not None
    assert second.brier < first.brier  # the raw score would rank them the other way round
    assert first.adjusted == pytest.approx(first.brier)
    assert second.n_absent == int((~easy).sum())


def test_gaps_in_different_places_are_unequal_coverage() -> None:
    """As many forecasts each, of different questions; and as many questions each, at different times."""
    wide = pd.DataFrame({"A": [None, 0.2, 0.7], "B": [0.4, None, 0.6], "obs": [0, 0, 1]})
    board = ForecastSet.from_frame(wide).score_table()
    assert [row.n for row in board.rows] == [2, 2]
    assert board.unequal_coverage
    assert board.adjusted
    often = pd.DataFrame(
        {"model": ["A", "A", "B"], "id": ["q"] * 3, "time": [1, 2, 1], "p": [0.2] * 3, "y": [0] * 3}
    )
    assert ForecastSet.from_frame(often).score_table().unequal_coverage
    assert not ForecastSet.from_frame(wide.fillna(0.5)).score_table().unequal_coverage


def test_ranks_say_which_others_the_data_leave_open() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 2, 400)
    near = np.clip(0.5 + 0.3 * (y - 0.5) + 0.2 * rng.normal(size=(2, 400)), 0.01, 0.99)
    frame = pd.DataFrame({"close 1": near[0], "close 2": near[1], "far off": 1 - near[0], "obs": y})
    board = ForecastSet.from_frame(frame).score_table()
    ranks = {row.forecaster: (row.rank, row.rank_low, row.rank_high) for row in board.rows}
    assert ranks["far off"] == (3, 3, 3)
    assert {ranks["close 1"][1:], ranks["close 2"][1:]} == {(1, 2)}
    assert not board.adjusted  # everybody answered everything
    assert all(row.adjusted is None for row in board.rows)
    alone = ForecastSet.from_frame(frame[["close 1", "obs"]]).score_table()
    assert alone.rows[0].rank is None


def test_no_interval_is_null_and_has_its_reason() -> None:
    """One cluster, different questions: neither score nor adjusted score has an interval."""
    board = ForecastSet.from_frame(long(cluster="c")).score_table()
    assert board.adjusted
    for row in board.rows:
        assert (row.brier_low, row.adjusted_low, row.adjusted_high) == (None, None, None)
        assert (row.rank_low, row.rank_high) == (1, 2)
    json.dumps(board.to_json(), allow_nan=False)
    assert any("one cluster" in note for note in board.notes)


def test_a_score_table_plots_itself() -> None:
    board = ForecastSet.from_frame(long()).score_table()
    axes = board.plot()
    assert [tick.get_text() for tick in axes.get_yticklabels()] == [row.forecaster for row in board.rows]
    assert board.plot(axes) is axes


def test_board_as_frame_and_as_json() -> None:
    board = ForecastSet.from_frame(long(forecast=[0.0, 0.4, 0.0, 0.5, 0.3, 0.8])).score_table()
    assert board.to_frame()["forecaster"].tolist() == [row.forecaster for row in board.rows]
    record = next(r for r in board.to_json()["rows"] if r["forecaster"] == "A")
    assert record["log"] is None
    assert record["infinite"] == ["log"]
    assert "infinite log score (A)" in board.summary()


@pytest.mark.parametrize(
    ("file", "options", "expected"),
    [
        ("niamey_precip_2016.csv", {}, {"ENS": (0.066, 0.044, 0.244), "EMOS": (0.018, 0.030, 0.244),
                                        "EPC": (0.022, 0.032, 0.244), "Logistic": (0.017, 0.056, 0.244)}),
        ("solar_flares_C1.csv.gz", {"na": ["-0.01"]}, {"NOAA": (0.005, 0.071, 0.191), "DAFFS": (0.012, 0.056, 0.191)}),
    ],
)  # fmt: skip
def test_published_decompositions(
    file: str, options: dict[str, Any], expected: dict[str, tuple[float, ...]], shared_data: Path
) -> None:
    """Dimitriadis, Gneiting & Jordan 2021, Figs 1 and 5 and S1, to the digits printed there."""
    board = ForecastSet.read(shared_data / "scoring" / file, **options).score_table()
    rows = {row.forecaster: row for row in board.rows}
    for name, terms in expected.items():
        found = (rows[name].mcb, rows[name].dsc, rows[name].unc)
        assert found == pytest.approx(terms, abs=0.0005), name


def test_unbalanced_panel_of_solar_flares(shared_data: Path) -> None:
    made = ForecastSet.read(shared_data / "scoring" / "solar_flares_C1.csv.gz", na=["-0.01"])
    counted = {a.forecaster: (a.n, a.n_missing) for a in made.accounts}
    assert counted["AMOS"] == (660, 71)
    assert counted["NJIT"] == (471, 260)
    assert len(counted) == 11
    assert made.overlap().loc["AMOS", "NOAA"] == 660


def test_the_leaderboard_of_scoring_from_a_set() -> None:
    """Peers, ranks and pairs; the adjusted scores are those of the table."""
    from evalkit.forecasts.simulation import simulated_panel

    panel = ForecastSet.from_frame(simulated_panel(400, seed=3), {"cluster": "topic"})
    board, table = panel.leaderboard(), panel.score_table()
    frame = board.to_frame().set_index("forecaster")
    assert list(frame.index) == [row.forecaster for row in table.rows]
    for row in table.rows:
        assert frame.loc[row.forecaster, "raw"] == pytest.approx(row.brier, abs=1e-15)
        if row.adjusted is not None:
            assert frame.loc[row.forecaster, "adjusted"] == pytest.approx(row.adjusted, abs=1e-15)
    with pytest.raises(EvalkitError, match="not among the forecasters"):
        panel.leaderboard(reference="nobody")
    weighted = ForecastSet.from_frame(long(weight=[1, 2, 1, 1, 2, 1]))
    with pytest.raises(EvalkitError, match="takes no weights"):
        weighted.leaderboard()
