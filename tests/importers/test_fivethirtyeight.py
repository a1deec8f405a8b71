"""FiveThirtyEight's files: small made-up ones in the same layout, and the published ones against known numbers."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.errors import EvalkitError
from evalkit.importers import read_fivethirtyeight

GAMES = """season,date,team1,team2,prob1,prob1_outcome,prob2,prob2_outcome
2020,2020-09-13,A,B,0.75,1.0,0.25,0.0
2020,2020-09-20,B,A,0.5,0.5,0.5,0.5
"""
MATCHES = """season,date,team1,team2,prob1,prob1_outcome,probtie,probtie_outcome,prob2,prob2_outcome
2018,2018-06-14,A,B,0.5,1.0,0.25,0.0,0.25,0.0
2018,2018-06-15,C,D,0.2,0.0,0.3,1.0,0.5,0.0
2018,2018-06-30,A,D,0.6,1.0,0.0,0.0,0.4,0.0
2022,2022-11-20,A,C,0.2,,0.3,,0.5,
"""
ELECTIONS = """year,state,special,forecast_date,forecast_type,party,candidate,probwin,probwin_outcome
2022,WY,False,2022-11-08,lite,D,Ann,0.1,0
2022,WY,False,2022-11-08,lite,R,Bob,0.9,1
2022,WY,False,2022-11-07,lite,R,Bob,0.8,1
2022,WY,True,2022-11-08,lite,R,Cyd,0.7,0
2010,WY,,2010-11-02,,D,,0.2,0
"""
ROUNDS = """season,forecast_date,player,round_1,round_1_outcome,round_2,round_2_outcome
2016,2016-08-28,X,0.75,1.0,0.5,0.0
2016,2016-08-28,Y,0.25,0.0,0.125,0.0
2016,2016-08-30,X,1.0,1.0,0.5,0.0
2016,2016-08-30,Y,0.0,0.0,0.0,0.0
"""


def file(folder: Path, text: str) -> Path:
    path = folder / "x.csv"
    path.write_text(text)
    return path


def test_games_with_a_tie(tmp_path: Path) -> None:
    made = read_fivethirtyeight(file(tmp_path, GAMES))
    items = made.items("FiveThirtyEight")
    assert made.fractional
    assert items.y.tolist() == [1.0, 0.5]
    assert items.p.tolist() == [0.75, 0.5]
    assert items.cluster is None
    assert "1 ties, which count as outcome 0.5" in made.provenance.notes
    assert any("CC BY 4.0" in note for note in made.provenance.notes)
    without = read_fivethirtyeight(file(tmp_path, GAMES.replace("0.5,0.5,0.5,0.5", "0.5,0,0.5,1")))
    assert not without.fractional


def test_matches_are_ordinal_and_knock_outs_left_out(tmp_path: Path) -> None:
    made = read_fivethirtyeight(file(tmp_path, MATCHES))
    assert made.kind == "ordinal"
    assert made.classes == ("first team wins", "tie", "second team wins")
    assert made.items("FiveThirtyEight").y.tolist() == [0, 1]
    assert made.items("FiveThirtyEight").p.tolist() == [[0.5, 0.25, 0.25], [0.2, 0.3, 0.5]]
    assert made.accounts[0].n_unresolved == 1
    assert "1 matches that cannot be tied are left out" in made.provenance.notes
    assert made.provenance.rows == 4


def test_candidates_are_questions_and_races_clusters(tmp_path: Path) -> None:
    made = read_fivethirtyeight(file(tmp_path, ELECTIONS))
    assert made.forecasters == ("FiveThirtyEight", "FiveThirtyEight lite")
    frame = made.to_frame()
    lite = frame[frame["forecaster"] == "FiveThirtyEight lite"]
    assert sorted(set(lite["cluster"])) == ["2022 WY", "2022 WY special"]
    assert lite["question"].nunique() == 3
    assert made.accounts[1].n == 4
    assert made.accounts[1].n_clusters == 2


def test_rounds_become_exact_numbers_of_wins(tmp_path: Path) -> None:
    made = read_fivethirtyeight(file(tmp_path, ROUNDS))
    items = made.items("FiveThirtyEight")
    assert made.kind == "ordinal"
    assert made.classes == ("0 rounds won", "1 round won", "2 rounds won")
    assert items.p.tolist() == [[0.25, 0.25, 0.5], [0.0, 0.5, 0.5], [0.75, 0.125, 0.125]]
    assert items.y.tolist() == [1, 1, 0]
    assert items.cluster is not None
    assert "1 forecasts in which nothing was open any more are left out" in made.provenance.notes


def test_rising_probabilities_are_refused_with_their_line(tmp_path: Path) -> None:
    path = file(tmp_path, ROUNDS.replace("0.25,0.0,0.125,0.0", "0.25,0.0,0.3,0.0"))
    with pytest.raises(EvalkitError, match="more rounds is larger") as caught:
        read_fivethirtyeight(path)
    assert "line 3" in caught.value.where


def test_a_bad_number_is_an_error_with_its_line(tmp_path: Path) -> None:
    for text, column in ((GAMES, "prob1"), (ELECTIONS, "probwin")):
        with pytest.raises(EvalkitError, match="is no probability") as caught:
            read_fivethirtyeight(file(tmp_path, text.replace("0.75", "zap").replace("0.1,0", "zap,0")))
        assert "row 0" in caught.value.where or "line 2" in caught.value.where, column


def test_another_table_is_refused(tmp_path: Path) -> None:
    with pytest.raises(EvalkitError, match="no file of FiveThirtyEight"):
        read_fivethirtyeight(file(tmp_path, "p,y\n.3,1\n"))


def test_published_games(shared_data: Path) -> None:
    made = read_fivethirtyeight(shared_data / "scoring" / "fte_nfl_games.csv.gz")
    assert made.n == 1889
    assert int((made.to_frame()["outcome"] == 0.5).sum()) == 7


def test_published_matches(shared_data: Path) -> None:
    made = read_fivethirtyeight(shared_data / "scoring" / "fte_world_cup_matches.csv.gz")
    assert made.n == 216
    assert float(made.score("brier")["FiveThirtyEight"]) == pytest.approx(0.5130111, abs=1e-7)
    assert float(made.score("rps")["FiveThirtyEight"]) == pytest.approx(0.3598708, abs=1e-7)
    assert float(made.score("log")["FiveThirtyEight"]) == pytest.approx(0.8860461, abs=1e-7)


def test_published_governors(shared_data: Path) -> None:
    made = read_fivethirtyeight(shared_data / "scoring" / "fte_governors.csv.gz")
    assert made.n == 16_862
    assert made.to_frame()["cluster"].nunique() == 109
    frame = made.to_frame()
    democrats = frame[frame["question"].str.endswith(" D")]
    assert len(democrats) == 8_353
    assert float(((democrats["forecast"] - democrats["outcome"]) ** 2).mean()) == pytest.approx(
        0.0466662, abs=5e-8
    )


def test_published_tennis(shared_data: Path) -> None:
    made = read_fivethirtyeight(shared_data / "scoring" / "fte_tennis_men.csv.gz")
    assert made.n == 1024 - 770
    assert len(made.classes) == 8
    assert made.to_frame()["cluster"].nunique() == 128
