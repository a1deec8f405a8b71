"""The leaderboard: what is counted, what is adjusted, and what it says when nothing can be ranked."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import compare, difficulty_adjusted, leaderboard, peer_scores
from tests.scoring.panels import Rows, drawn_rows, rows, shuffles, solar


def of(panel: Rows, **options: object) -> object:
    return leaderboard(panel.forecaster, panel.question, panel.score, **options)


def test_solar_flares(shared_data: Path) -> None:
    data = solar(shared_data)
    found = leaderboard(data.forecaster, data.date, data.score, reference="CLIM120")
    table = found.to_frame().set_index("forecaster")
    assert table.index[0] == "NOAA"
    assert table.coverage["NJIT"] == pytest.approx(471 / 731)
    adjusted = difficulty_adjusted(data.forecaster, data.date, data.score)
    assert table.adjusted.to_dict() == {name: adjusted.score(name) for name in table.index}
    peers = peer_scores(data.forecaster, data.date, data.score)
    assert table.peer_score.to_dict() == {name: peers.score(name) for name in table.index}
    pairs = compare(data.forecaster, data.date, data.score)
    against = pairs.pair("AMOS", "CLIM120")
    assert table.skill["AMOS"] == pytest.approx(1 - against.first_score / against.second_score)
    assert table.advantage["AMOS"] == pytest.approx(-against.difference)
    assert table.n_common["AMOS"] == 660
    # over all 55 pairs against the best, over 10 pairs against the reference
    assert table.p_best["AMOS"] == pairs.pair("AMOS", "NOAA").p_adjusted
    assert against.p < table.p_reference["AMOS"] < against.p_adjusted
    assert math.isnan(table.p_best["NOAA"])
    assert math.isnan(table.p_reference["CLIM120"])
    assert "96 % of all possible" in found.summary()


@given(rows(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=25)
def test_the_order_of_rows_and_the_names_of_questions_change_no_bit(panel: Rows, seed: int) -> None:
    options = {"reference": "forecaster 0", "bounds": (0.0, 1.0)}
    first = of(panel, cluster=panel.cluster, **options)
    for other in shuffles(panel, seed):
        again = of(other, cluster=other.cluster, **options)
        assert again.to_frame().to_csv() == first.to_frame().to_csv()
        assert again.summary() == first.summary()


def test_missing_forecasts_are_counted_and_never_filled_in() -> None:
    f, q = ["a", "a", "b", "b", "c"], [1, 2, 1, 2, 1]
    found = leaderboard(f, q, [0.1, 0.2, 0.3, math.nan, math.nan], missing="drop")
    table = found.to_frame().set_index("forecaster")
    assert table.n.to_dict() == {"a": 2, "b": 1}
    assert table.n_dropped.to_dict() == {"a": 0, "b": 1}
    assert table.raw["b"] == 0.3
    assert "2 missing scores dropped; without any score: 'c'" in found.summary()
    with pytest.raises(ValueError, match="row 3"):
        leaderboard(f, q, [0.1, 0.2, 0.3, math.nan, math.nan])


def test_one_forecaster_alone() -> None:
    found = leaderboard(["a"] * 4, range(4), [0.1, 0.2, 0.3, 0.4], bounds=(0, 1))
    table = found.to_frame()
    assert table.adjusted.tolist() == table.raw.tolist() == [0.25]
    assert table["rank"].tolist() == [1]
    assert table.raw_low[0] < 0.25 < table.raw_high[0]
    assert found.summary().startswith("1 forecaster, 4 questions")


def test_groups_without_a_common_question_are_not_ranked() -> None:
    found = leaderboard(["a", "b", "c"], [1, 1, 2], [0.3, 0.2, 0.1])
    assert found.difficulty is None
    assert "Not ranked: the forecasters fall into 2 groups" in found.summary()
    table = found.to_frame()
    assert table.forecaster.tolist() == ["c", "b", "a"]
    assert table[["rank", "adjusted", "brier_index"]].isna().all(axis=None)
    assert found.plot().get_yticklabels()[0].get_text() == "c"


def test_infinite_scores_are_not_ranked() -> None:
    found = leaderboard(["a", "b", "a", "b"], [1, 1, 2, 2], [0.1, 0.2, math.inf, 0.1])
    assert "Not ranked: a score is infinite" in found.summary()
    assert found.to_frame().forecaster.tolist() == ["b", "a"]


def test_many_forecasters_are_ranked_and_compared_with_the_reference_only() -> None:
    panel = drawn_rows(1, forecasters=40, questions=20)
    table = of(panel, reference="forecaster 3").to_frame()
    assert table.p_best.isna().all()
    assert table.p_reference.notna().sum() == 39
    assert table.rank_low.min() == 1


def test_what_is_refused() -> None:
    given_rows = (["a", "b"], [1, 1], [0.1, 0.2])
    for options, message in (
        ({"reference": "z"}, "reference 'z' is not among"),
        ({"adjust": "none"}, "adjust='none'"),
        ({"alpha": 2}, "alpha = 2"),
        ({"bounds": (0, 0.15)}, "outside of bounds"),
    ):
        with pytest.raises(ValueError, match=message):
            leaderboard(*given_rows, **options)


def test_pandas_rows_must_carry_one_index() -> None:
    score = pd.Series([0.1, 0.2], index=[1, 0])
    with pytest.raises(ValueError, match="different indexes"):
        leaderboard(pd.Series(["a", "b"]), pd.Series([1, 1]), score)


def test_the_plot_has_a_row_a_forecaster() -> None:
    ax = of(drawn_rows(1, forecasters=18)).plot()
    assert len(ax.get_yticklabels()) == 18
    assert "lower is better" in ax.get_xlabel()
    assert np.asarray(ax.get_figure().get_size_inches())[0] <= 4.5
