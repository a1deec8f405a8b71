"""Peer scores and the advantage over a reference."""

from __future__ import annotations

import math
import statistics

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import peer_scores, score_advantage
from tests.scoring.panels import Rows, drawn_rows, rows, shuffles


@pytest.mark.parametrize(("against", "average"), [("mean", statistics.fmean), ("median", statistics.median)])
@given(rows())
@settings(deadline=None, max_examples=40)
def test_each_answer_against_the_others(against: str, average: object, panel: Rows) -> None:
    found = peer_scores(panel.forecaster, panel.question, panel.score, against=against)
    items = found.item_frame().set_index(["forecaster", "question"]).peer_score
    for name, question, own in zip(panel.forecaster, panel.question, panel.score, strict=True):
        others = panel.score[(panel.question == question) & (panel.forecaster != name)].tolist()
        expected = average(others) - own if others else math.nan
        assert items[name, question] == pytest.approx(expected, abs=1e-12, nan_ok=True)


@given(rows(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_mean_peer_scores_of_a_question_cancel_in_any_order(panel: Rows, seed: int) -> None:
    found = peer_scores(panel.forecaster, panel.question, panel.score, cluster=panel.cluster)
    assert found.item_frame().groupby("question").peer_score.sum().to_numpy() == pytest.approx(0, abs=1e-12)
    for other in shuffles(panel, seed):
        again = peer_scores(other.forecaster, other.question, other.score, cluster=other.cluster)
        assert again.to_frame().to_csv() == found.to_frame().to_csv()


def test_questions_without_a_peer_are_left_out_and_counted() -> None:
    found = peer_scores(["a", "b", "a", "c"], [1, 1, 2, 3], [0.1, 0.3, 0.9, 0.2])
    assert found.score("a") == pytest.approx(0.2)
    assert found.score("b") == pytest.approx(-0.2)
    assert math.isnan(found.score("c"))
    table = found.to_frame().set_index("forecaster")
    assert table.n.to_dict() == {"a": 1, "b": 1, "c": 0}
    assert table.n_alone.to_dict() == {"a": 1, "b": 0, "c": 1}
    assert "2 answers without a peer left out" in found.summary()
    assert "Positive is better" in found.summary()


def test_weights_belong_to_questions() -> None:
    found = peer_scores(["a", "b"] * 2, [1, 1, 2, 2], [0.1, 0.3, 0.2, 0.1], weights=[3, 3, 1, 1])
    assert found.score("a") == pytest.approx((3 * 0.2 - 0.1) / 4)


@pytest.mark.parametrize(
    ("score", "options", "message"),
    [
        ([0.1, math.inf], {}, "is infinite: peer scores need finite"),
        ([0.1, 0.2], {"against": "best"}, "against='best'"),
        ([0.1, math.nan], {}, "has no score"),
    ],
)
def test_what_peer_scores_refuse(score: list[float], options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        peer_scores(["a", "b"], [1, 1], score, **options)


def test_advantage_is_a_difference() -> None:
    panel = drawn_rows(1, forecasters=1, questions=60)
    found = score_advantage(panel.score, np.full(60, 0.25), cluster=panel.cluster)
    assert float(found) == pytest.approx(0.25 - panel.score.mean())
    assert found.low < found.value < found.high
    assert "positive is better" in found.summary()
    assert float(score_advantage([0.1, 0.5], [0.2, 0.2], weights=[3, 1])) == pytest.approx((0.3 - 0.3) / 4)


def test_bounds_give_an_interval_at_any_n() -> None:
    found = score_advantage([0.1], [0.2], bounds=(0, 1))
    assert -1 <= found.low < 0.1 < found.high <= 1


@pytest.mark.parametrize(
    ("score", "reference", "message"),
    [
        ([0.1], [0.1, 0.2], "expected"),
        ([], [], "n ≥ 1"),
        ([0.1, math.nan], [0.1, 0.2], "item 1 is NaN"),
        ([0.1, math.inf], [0.1, math.inf], "item 1 is infinite in both"),
    ],
)
def test_what_advantage_refuses(score: list[float], reference: list[float], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        score_advantage(score, reference)


def test_a_difference_that_only_rounds_has_no_interval() -> None:
    ours, theirs = [0.2, 1.1, 0.8], [0.3, 1.2, 0.9]
    found = score_advantage(ours, theirs)
    assert float(found) == pytest.approx(0.1)
    assert math.isnan(found.low)
    assert "(no interval)" in found.summary()
    peers = peer_scores(["a"] * 3 + ["b"] * 3, [1, 2, 3] * 2, ours + theirs)
    assert peers.score("a") == pytest.approx(0.1)
    assert np.isnan(peers.low).all()


def test_an_advantage_counts_clusters_and_says_what_to_doubt() -> None:
    found = score_advantage([0.1, 0.2, 0.3, 0.1], [0.2, 0.2, 0.5, 0.3], cluster=["a", "a", "b", "c"])
    assert found.n_clusters == 3
    assert "3 clusters" in found.summary()
    assert any("Only 3 clusters" in caveat for caveat in found.caveats)
    assert "All values are equal" in score_advantage([0.1, 0.2], [0.2, 0.3]).summary()
