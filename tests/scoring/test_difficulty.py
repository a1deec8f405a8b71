"""Difficulty-adjusted scores: published values, what holds exactly, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import brier_index, difficulty_adjusted, two_way
from evalkit.uncertainty import cluster_se
from tests.scoring.panels import Rows, drawn_rows, rows, shuffles, solar


def of(panel: Rows, **options: object) -> object:
    return difficulty_adjusted(panel.forecaster, panel.question, panel.score, **options)


def test_solar_flares_as_with_a_fixed_effects_package(shared_data: Path) -> None:
    expected = json.loads((shared_data / "scoring" / "reference_values.json").read_text())[
        "solar_C1/two_way_fe"
    ]
    data = solar(shared_data)
    found = difficulty_adjusted(data.forecaster, data.date, data.score).to_frame().set_index("forecaster")
    assert len(found) == 11
    for name in found.index:
        assert found.raw[name] == pytest.approx(expected["raw"][name], abs=1e-12)
        assert found.adjusted[name] == pytest.approx(expected["adjusted"][name], abs=1e-9)
        assert found.n[name] == expected["n"][name]
        assert found.brier_index[name] == pytest.approx(expected["brier_index"][name], abs=1e-7)
    assert found.adjusted["AMOS"] == pytest.approx(0.143613, abs=5e-7)
    assert found.adjusted["NJIT"] == pytest.approx(0.367051, abs=5e-7)


def test_against_dummy_variables() -> None:
    panel = drawn_rows(3, forecasters=5, questions=9, share=0.5)
    names, f = np.unique(panel.forecaster, return_inverse=True)
    weight = 1.0 + panel.question % 3
    design = np.zeros((len(f), 5 + 9))
    design[np.arange(len(f)), f] = 1
    design[np.arange(len(f)), 5 + panel.question] = 1
    root = np.sqrt(weight)
    effects = np.linalg.lstsq(design * root[:, None], panel.score * root, rcond=None)[0]
    of_question = 1.0 + np.arange(9) % 3
    expected = effects[:5] + np.average(effects[5:], weights=of_question)
    found = of(panel, weights=weight)
    assert [found.score(name) for name in names] == pytest.approx(list(expected), abs=1e-12)
    centred = effects[5:] - np.average(effects[5:], weights=of_question)
    assert [found.difficulty[q] for q in range(9)] == pytest.approx(list(centred), abs=1e-12)


@given(rows(), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=60)
def test_the_order_of_rows_and_the_names_of_questions_change_no_bit(panel: Rows, seed: int) -> None:
    shuffled, renamed = shuffles(panel, seed)
    first = of(panel, cluster=panel.cluster)
    for again in (of(shuffled, cluster=shuffled.cluster), of(renamed, cluster=renamed.cluster)):
        assert again.forecasters == first.forecasters
        assert again.adjusted.tobytes() == first.adjusted.tobytes()
        assert again.se.tobytes() == first.se.tobytes()
        assert [r.tolist() for r in again.ranks] == [r.tolist() for r in first.ranks]


@given(rows())
@settings(deadline=None, max_examples=60)
def test_renamed_forecasters_keep_their_scores(panel: Rows) -> None:
    names = {name: f"{9 - i} renamed" for i, name in enumerate(sorted(set(panel.forecaster.tolist())))}
    renamed = np.array([names[name] for name in panel.forecaster.tolist()])
    first, second = of(panel), difficulty_adjusted(renamed, panel.question, panel.score)
    for name in first.forecasters:
        assert second.score(names[name]) == pytest.approx(first.score(name), abs=1e-12)


@given(rows())
@settings(deadline=None, max_examples=60)
def test_who_answers_everything_keeps_the_raw_score(panel: Rows) -> None:
    weight = 1.0 + panel.question % 4
    for options in ({}, {"weights": weight}):
        found = of(panel, **options)
        complete = found.n == found.n_questions
        assert complete.any()
        assert (found.adjusted[complete] == found.raw[complete]).all()


@given(rows())
@settings(deadline=None, max_examples=30)
def test_a_constant_forecaster_of_all_questions_keeps_its_score(panel: Rows) -> None:
    questions = np.unique(panel.question)
    found = difficulty_adjusted(
        np.append(panel.forecaster, ["always 0.5"] * len(questions)),
        np.append(panel.question, questions),
        np.append(panel.score, np.full(len(questions), 0.25)),
    )
    assert found.score("always 0.5") == 0.25


def test_nobody_needs_to_answer_everything() -> None:
    """Additive scores are recovered exactly, on the scale of a hypothetical forecaster of all questions."""
    skill, difficulty = {"a": 0.1, "b": 0.2, "c": 0.3}, np.array([0.0, 0.1, 0.3, 0.4])
    answered = [("a", 0), ("a", 1), ("b", 1), ("b", 2), ("c", 2), ("c", 3)]
    found = difficulty_adjusted(
        [f for f, _ in answered], [q for _, q in answered], [skill[f] + difficulty[q] for f, q in answered]
    )
    for name in skill:
        assert found.score(name) == pytest.approx(skill[name] + difficulty.mean(), abs=1e-12)
    assert found.raw[found.forecasters.index("a")] == pytest.approx(0.15)


def test_one_forecaster_alone() -> None:
    found = difficulty_adjusted(["a"] * 3, [1, 2, 3], [0.1, 0.2, 0.6])
    assert found.score("a") == found.raw[0] == pytest.approx(0.3)
    assert [int(r[0]) for r in found.ranks] == [1, 1, 1]
    assert "1 forecaster on 3 questions" in found.summary()


def test_the_interval_of_a_complete_forecaster_is_that_of_a_clustered_mean() -> None:
    panel = drawn_rows(5, questions=40)
    found = of(panel, cluster=panel.cluster)
    rows_of = panel.forecaster == "forecaster 0"
    expected = cluster_se(panel.score[rows_of], panel.cluster[rows_of], kind="cr2")
    at = found.forecasters.index("forecaster 0")
    assert found.se[at] == pytest.approx(expected.se, rel=1e-9)
    assert found.df[at] == expected.df
    assert found.interval("forecaster 0") == pytest.approx(expected.interval(), rel=1e-9)


@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors_are_those_of_the_delete_one_jackknife(weighted: bool) -> None:
    """To first order: the linearisation against leaving out a cluster and fitting again."""
    panel = drawn_rows(11, forecasters=5, questions=240, share=0.5)
    weight = 1.0 + 8.0 * (panel.question % 2) if weighted else np.ones(len(panel.score))
    found = of(panel, cluster=panel.cluster, weights=weight)
    clusters = np.unique(panel.cluster)
    left = []
    for cluster in clusters:
        kept = np.flatnonzero(panel.cluster != cluster)
        again = of(panel.permuted(kept), weights=weight[kept])
        left.append([again.score(name) for name in found.forecasters])
    off = np.array(left) - np.mean(left, axis=0)
    g = len(clusters)
    jackknife = np.sqrt((g - 1) / g * (off**2).sum(axis=0))
    assert found.se == pytest.approx(jackknife, rel=0.03)


def test_blocks_of_questions_and_clusters_join(monkeypatch: pytest.MonkeyPatch) -> None:
    panel = drawn_rows(12, questions=50)
    whole = of(panel, cluster=panel.cluster)
    for size in (1, 7):
        monkeypatch.setattr(two_way, "_BLOCK", size)
        parts = of(panel, cluster=panel.cluster)
        assert parts.adjusted == pytest.approx(whole.adjusted, rel=1e-12)
        assert parts.covariance == pytest.approx(whole.covariance, rel=1e-9)


def test_zero_has_no_sign() -> None:
    panel = drawn_rows(13, levels=2)
    signed = np.where(panel.score == 0, -0.0, panel.score)
    other = difficulty_adjusted(panel.forecaster, panel.question, signed)
    assert [r.tolist() for r in other.ranks] == [r.tolist() for r in of(panel).ranks]
    assert other.seed == of(panel).seed


def test_a_panel_that_falls_apart_names_its_groups() -> None:
    with pytest.raises(ValueError, match=r"2 groups that share no question: \{'a', 'b'\}; \{'c'\}"):
        difficulty_adjusted(["a", "b", "c"], [1, 1, 2], [0.1, 0.2, 0.3])


def test_a_question_of_weight_zero_connects_nobody() -> None:
    with pytest.raises(ValueError, match="2 groups"):
        difficulty_adjusted(
            ["a", "b", "a", "b"], [1, 1, 2, 3], [0.1, 0.2, 0.3, 0.3], weights=[0.0, 0.0, 1.0, 1.0]
        )


def test_a_second_row_is_named() -> None:
    with pytest.raises(ValueError, match=r"'a' has two rows for question 'q' \(rows 0 and 2; 1 such"):
        difficulty_adjusted(["a", "b", "a"], ["q", "q", "q"], [0.1, 0.2, 0.3])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"cluster": [1, 2, 1, 1]}, r"question 'q' has rows of different cluster \(row 1"),
        ({"weights": [1.0, 2.0, 1.0, 1.0]}, "question 'q' has rows of different weight"),
        ({"weights": [0.0] * 4}, "no score to compare: all 4"),
        ({"alpha": 1.0}, "alpha = 1.0"),
    ],
)
def test_what_belongs_to_questions(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        difficulty_adjusted(["a", "b", "a", "b"], ["q", "q", "r", "r"], [0.1, 0.2, 0.3, 0.4], **options)


def test_missing_and_infinite_scores() -> None:
    f, q = ["a", "b", "a", "b", "c"], ["q", "q", "r", "r", "r"]
    with pytest.raises(ValueError, match=r"row 1 \(forecaster 'b', question 'q'\) has no score, and 1 of 5"):
        difficulty_adjusted(f, q, [0.1, np.nan, 0.3, 0.4, 0.5])
    found = difficulty_adjusted(f, q, [0.1, np.nan, 0.3, 0.4, np.nan], missing="drop")
    assert found.n_dropped == 2
    assert found.forecasters == ("a", "b")
    assert "2 missing scores dropped" in found.summary()
    with pytest.raises(ValueError, match="'b' on question 'q' is infinite"):
        difficulty_adjusted(f, q, [0.1, np.inf, 0.3, 0.4, 0.5])


def test_the_index() -> None:
    assert brier_index([0.0, 0.25, 1.0]).tolist() == [100.0, 50.0, 0.0]
    assert np.isnan(brier_index([-0.01])).all()


def test_ranks_leave_open_what_cannot_be_told() -> None:
    generator = np.random.default_rng(1)
    questions = np.arange(400)
    base = generator.random(400) * 0.2
    f, q, s = [], [], []
    for name, skill in (("good", 0.0), ("good too", 0.0005), ("bad", 0.3)):
        f += [name] * 400
        q += questions.tolist()
        s += (base + skill + generator.normal(size=400) * 0.05).tolist()
    table = difficulty_adjusted(f, q, s).to_frame().set_index("forecaster")
    assert table.loc["bad", ["rank", "rank_low", "rank_high"]].tolist() == [3, 3, 3]
    for name in ("good", "good too"):
        assert table.loc[name, ["rank_low", "rank_high"]].tolist() == [1, 2]


@pytest.mark.parametrize("seed", range(8))
def test_twins_share_a_rank(seed: int) -> None:
    """Also where the fit gives them values that differ in the last bit."""
    panel = drawn_rows(seed, forecasters=3, questions=30, share=0.5)
    twin = panel.forecaster == "forecaster 1"
    found = difficulty_adjusted(
        np.append(panel.forecaster, ["twin"] * twin.sum()),
        np.append(panel.question, panel.question[twin]),
        np.append(panel.score, panel.score[twin]),
    )
    table = found.to_frame().set_index("forecaster")
    assert table.loc["twin", ["rank", "rank_low", "rank_high"]].equals(
        table.loc["forecaster 1", ["rank", "rank_low", "rank_high"]]
    )


def test_nothing_that_varies_has_no_interval() -> None:
    """A perfect forecaster of five questions is not perfect for certain."""
    found = difficulty_adjusted(
        ["a", "b"] * 5, np.repeat(range(5), 2), [0.0, 0.1, 0.0, 0.3, 0.0, 0.2] + [0.0, 0.1] * 2
    )
    assert np.isnan(found.interval("a")).all()
    assert not np.isnan(found.interval("b")).any()
    assert "(no interval)" in found.summary()
    alone_in_a_cluster = difficulty_adjusted(
        ["a", "b"] * 2, [1, 1, 2, 2], [0.1, 0.2, 0.3, 0.1], cluster=[1] * 4
    )
    assert np.isnan(alone_in_a_cluster.se).all()
    assert [r.tolist() for r in alone_in_a_cluster.ranks] == [[1, 2], [1, 1], [2, 2]]


def test_weights_count_as_repetitions_do_in_the_fit() -> None:
    """Only ratios of weights matter, at any size."""
    panel = drawn_rows(8)
    weight = 1.0 + panel.question % 3
    one, other = of(panel, weights=weight), of(panel, weights=weight * 2.0**400)
    assert one.adjusted == pytest.approx(other.adjusted, rel=1e-12)
    assert one.se == pytest.approx(other.se, rel=1e-12)
