"""Pairwise comparison: published values, overlaps, conventions, adjustment, and what is refused."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.scoring import compare, diebold_mariano
from evalkit.uncertainty import benjamini_hochberg, cluster_se, holm, sign_flip_test
from tests.scoring.panels import Rows, drawn_rows, rows, shuffles, solar


def of(panel: Rows, **options: object) -> object:
    return compare(panel.forecaster, panel.question, panel.score, **options)


def niamey(shared_data: Path) -> pd.DataFrame:
    wide = pd.read_csv(shared_data / "scoring" / "niamey_precip_2016.csv")
    long = wide.melt(id_vars=["date", "obs"], value_vars=["Logistic", "EMOS", "ENS", "EPC"], value_name="p")
    return long.assign(score=(long.p - long.obs) ** 2)


@pytest.mark.parametrize("horizon", [1, 2, 3])
def test_niamey_as_with_scores(horizon: int, shared_data: Path) -> None:
    expected = json.loads((shared_data / "scoring" / "reference_values.json").read_text())
    data = niamey(shared_data).sample(frac=1, random_state=1)
    found = compare(data["variable"], data.date, data.score, time=data.date, horizon=horizon)
    for first, second in (("Logistic", "EMOS"), ("Logistic", "EPC"), ("Logistic", "ENS"), ("EMOS", "EPC")):
        pair = found.pair(first, second)
        value = expected[f"niamey/dm/{first}-{second}"][f"h{horizon}"]
        assert pair.dm == pytest.approx(value["stat_hln"], abs=1e-9)
        assert pair.dm_p == pytest.approx(value["p_t"], abs=1e-9)
        assert pair.n == 92
    # as printed
    published = {1: -1.710992, 2: -1.804679, 3: -2.223389}[horizon]
    assert found.pair("Logistic", "EMOS").dm == pytest.approx(published, abs=5e-7)


def test_diebold_mariano_by_its_formula() -> None:
    generator = np.random.default_rng(2)
    a, b = generator.random(30), generator.random(30)
    d = a - b
    off = d - d.mean()
    v = (off @ off + 2 * off[1:] @ off[:-1]) / 30**2
    expected = d.mean() / math.sqrt(v) * math.sqrt((30 + 1 - 4 + 2 / 30) / 30)
    found = diebold_mariano(a, b, 2)
    assert found.statistic == pytest.approx(expected, rel=1e-12)
    assert diebold_mariano(b, a, 2).statistic == -found.statistic
    assert diebold_mariano(1e-9 * a, 1e-9 * b, 2).statistic == pytest.approx(expected, rel=1e-9)
    from scipy.stats import t

    assert found.p == pytest.approx(2 * t.sf(abs(expected), 29), rel=1e-9)
    assert "first - second" in found.summary()


@pytest.mark.parametrize(
    ("a", "b", "horizon", "reason"),
    [
        ([0.1, 0.2, 0.3], [0.1, 0.2, 0.3], 1, "all differences are equal"),
        ([0.3, 0.4, 0.5], [0.1, 0.2, 0.3], 1, "all differences are equal"),
        ([0.1], [0.2], 1, "too few"),
        ([0.1, 0.5, 0.1], [0.2, 0.2, 0.2], 3, "too few"),
        ([0.0, 1.0, 0.0, 1.0], [0.5] * 4, 2, "not positive"),
        ([0.1, math.inf], [0.2, 0.3], 1, "infinite"),
        ([], [], 1, "no common item"),
    ],
)
def test_where_there_is_no_statistic(a: list[float], b: list[float], horizon: int, reason: str) -> None:
    found = diebold_mariano(a, b, horizon)
    assert math.isnan(found.statistic)
    assert math.isnan(found.p)
    assert reason in found.reason
    assert reason in found.summary()


@pytest.mark.parametrize(
    ("a", "b", "horizon", "message"),
    [
        ([0.1, math.nan], [0.2, 0.3], 1, r"a\[1\] is NaN"),
        ([0.1], [0.2, 0.3], 1, "expected"),
        ([0.1, 0.2], [0.2, 0.3], 0, "horizon=0"),
        ([0.1, 0.2], [0.2, 0.3], 1.5, "horizon=1.5"),
    ],
)
def test_series_that_cannot_be_compared(a: list[float], b: list[float], horizon: float, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        diebold_mariano(a, b, horizon)


def test_a_pair_on_its_overlap() -> None:
    panel = drawn_rows(4, forecasters=3, questions=60, share=0.6)
    found = of(panel, cluster=panel.cluster, adjust=None)
    frame = pd.DataFrame(panel.__dict__).pivot(index="question", columns="forecaster", values="score")
    both = frame[["forecaster 1", "forecaster 2"]].dropna()
    d = (both["forecaster 1"] - both["forecaster 2"]).to_numpy()
    cluster = both.index.to_numpy() // 3
    pair = found.pair("forecaster 1", "forecaster 2")
    assert pair.n == len(both) < 60
    assert pair.n_clusters == len(set(cluster.tolist()))
    assert pair.difference == pytest.approx(d.mean(), abs=1e-14)
    assert (pair.first_score, pair.second_score) == pytest.approx(tuple(both.mean()), abs=1e-14)
    assert (pair.low, pair.high) == pytest.approx(cluster_se(d, cluster).interval(), rel=1e-9)
    assert pair.p == pair.p_adjusted == sign_flip_test(d, cluster).p_value


def test_adjusted_over_all_pairs() -> None:
    panel = drawn_rows(5, forecasters=4, questions=30)
    raw = of(panel, adjust=None).to_frame()
    for name, method in (("holm", holm), ("bh", benjamini_hochberg)):
        table = of(panel, adjust=name).to_frame()
        assert table.p.tolist() == raw.p.tolist()
        assert table.p_adjusted.tolist() == method(raw.p.to_numpy()).tolist()
        assert table.dm_p_adjusted.tolist() == method(raw.dm_p.to_numpy()).tolist()


@given(rows(most=4), st.integers(0, 2**32 - 1))
@settings(deadline=None, max_examples=40)
def test_the_order_of_rows_and_the_names_of_questions_change_no_bit(panel: Rows, seed: int) -> None:
    first = of(panel, cluster=panel.cluster)
    for other in shuffles(panel, seed):
        again = of(other, cluster=other.cluster)
        assert again.to_frame().to_csv() == first.to_frame().to_csv()
        assert again.skill_frame().to_csv() == first.skill_frame().to_csv()


@given(rows(most=3))
@settings(deadline=None, max_examples=40)
def test_swapped_names_turn_the_sign(panel: Rows) -> None:
    """Negative: the first is better; either way round it says the same."""
    two = np.isin(panel.forecaster, ["forecaster 0", "forecaster 1"])
    panel = panel.permuted(np.flatnonzero(two))
    swapped = np.where(panel.forecaster == "forecaster 0", "forecaster 1", "forecaster 0")
    here = of(panel).pairs[0]
    there = compare(swapped, panel.question, panel.score).pairs[0]
    assert there.difference == -here.difference
    assert (there.low, there.high) == pytest.approx((-here.high, -here.low), nan_ok=True)
    assert there.p == here.p
    assert there.dm == pytest.approx(-here.dm, nan_ok=True)
    turned = of(panel).pair("forecaster 1", "forecaster 0")
    assert (turned.difference, turned.low, turned.high) == pytest.approx(
        (-here.difference, -here.high, -here.low), nan_ok=True
    )
    assert (turned.first_score, turned.first) == (here.second_score, "forecaster 1")


def test_relative_skill_is_the_geometric_mean_of_ratios() -> None:
    f = ["a", "b", "a", "c", "b", "c"]
    q = [1, 1, 2, 2, 3, 3]
    found = compare(f, q, [0.1, 0.2, 0.3, 0.1, 0.4, 0.2], reference="c")
    # a/b = 1/2, a/c = 3, b/c = 2, and each against herself 1
    expected = {"a": (0.5 * 3) ** (1 / 3), "b": (2 * 2) ** (1 / 3), "c": (1 / 3 * 1 / 2) ** (1 / 3)}
    for name, value in expected.items():
        skill = found.relative_skill[name]
        assert skill.value == pytest.approx(value, rel=1e-12)
        assert skill.scaled == pytest.approx(value / expected["c"], rel=1e-12)
        assert skill.n_pairs == 2
    assert found.skill_frame().forecaster.tolist() == ["c", "a", "b"]


def test_relative_skill_without_a_ratio() -> None:
    f, q = ["a", "b", "c", "d", "e", "d"], [1, 1, 1, 2, 3, 3]
    found = compare(f, q, [0.0, 0.2, 0.3, 0.1, 0.1, 0.1])
    assert math.isnan(found.relative_skill["b"].value)
    assert "'a' has a mean score of 0" in found.relative_skill["b"].reason
    assert found.relative_skill["d"].value == 1.0
    alone = compare(["a", "b", "c"], [1, 1, 2], [0.1, 0.2, 0.3])
    assert math.isnan(alone.relative_skill["c"].value)
    assert "no question in common" in alone.relative_skill["c"].reason


def test_covid_hub_overlaps(shared_data: Path) -> None:
    data = pd.read_csv(shared_data / "scoring" / "covid_hub_binary.csv.gz").dropna()
    question = data.location + data.target_end_date + data.target_type + data.horizon.astype(str)
    score = (data.predicted - data.observed) ** 2
    found = compare(
        data.model, question, score, cluster=data.target_end_date, reference="EuroCOVIDhub-baseline"
    )
    sizes = {(pair.first, pair.second): pair.n for pair in found.pairs}
    assert sizes["EuroCOVIDhub-baseline", "EuroCOVIDhub-ensemble"] == 256
    assert sizes["EuroCOVIDhub-ensemble", "UMass-MechBayes"] == 128
    assert sizes["UMass-MechBayes", "epiforecasts-EpiNow2"] == 119
    assert found.pair("EuroCOVIDhub-ensemble", "EuroCOVIDhub-baseline").first_score == pytest.approx(
        0.242998046875, abs=1e-12
    )
    assert found.relative_skill["EuroCOVIDhub-baseline"].scaled == 1.0
    assert {pair.n_clusters for pair in found.pairs} == {12}
    # one model wins ten of twelve and more weeks: 2 of 2^12 sign patterns are as extreme
    assert found.pair("EuroCOVIDhub-baseline", "UMass-MechBayes").p == pytest.approx(2 / 2**12)


def test_no_common_question_is_said() -> None:
    found = compare(["a", "b"], [1, 2], [0.1, 0.2])
    assert found.pairs[0].n == 0
    assert found.pairs[0].reason == "no common question"
    assert "no common question" in found.summary()
    assert found.to_frame().difference.isna().all()


def test_infinite_scores_have_a_mean_and_no_test() -> None:
    found = compare(["a", "b"] * 3, [1, 1, 2, 2, 3, 3], [0.1, math.inf, 0.2, 0.3, 0.1, 0.1])
    assert found.pairs[0].difference == -math.inf
    assert math.isnan(found.pairs[0].p)
    assert "infinite" in found.pairs[0].reason


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"horizon": 2}, "pass their time"),
        ({"horizon": 2, "time": [1, 1, 1, 1]}, "have the same time"),
        ({"time": [1, 2, 2, 2]}, "different time"),
        ({"time": [1, 1, None, None]}, "row 2 has no time"),
        ({"horizon": 0}, "horizon=0"),
        ({"reference": "c"}, "reference 'c' is not among the forecasters 'a', 'b'"),
        ({"adjust": "bonferroni"}, "adjust='bonferroni'"),
        ({"alpha": 0.0}, "alpha"),
        ({"bounds": (0.0, 0.25)}, "score 0.3 of forecaster 'a' on question 'r' lies outside"),
        ({"bounds": (1.0, 0.0)}, "finite range"),
        ({"cluster": [1, 1, 2]}, "cluster has shape"),
        ({"missing": "ignore"}, "missing='ignore'"),
    ],
)
def test_what_is_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        compare(["a", "b", "a", "b"], ["q", "q", "r", "r"], [0.1, 0.2, 0.3, 0.2], **options)


def test_one_forecaster_has_nobody_to_be_compared_with() -> None:
    with pytest.raises(ValueError, match="a comparison needs two"):
        compare(["a", "a"], [1, 2], [0.1, 0.2])


def test_the_summary_prints_conventions(shared_data: Path) -> None:
    data = solar(shared_data)
    found = compare(data.forecaster, data.date, data.score)
    assert "negative: the first is better" in found.summary()
    assert "55 pairs on n = 450-731" in found.summary()
    assert "Holm over 55" in found.summary()
    assert "<table" in found._repr_html_()


def test_the_matrix_takes_the_order_of_another_table() -> None:
    found = of(drawn_rows(1, forecasters=4))
    order = list(reversed(found.forecasters))
    shown = [label.get_text() for label in found.plot(order=order).get_yticklabels()]
    assert [next(i for i, text in enumerate(shown) if str(name) in text) for name in order] == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="order must name each"):
        found.plot(order=order[:2])


@pytest.mark.parametrize(("count", "reference"), [(2, None), (5, None), (5, "forecaster 0")])
def test_the_plot_shows_everybody(count: int, reference: str | None) -> None:
    ax = of(drawn_rows(1, forecasters=count), reference=reference).plot()
    shown = " ".join(label.get_text() for label in ax.get_yticklabels()) + ax.get_xlabel()
    assert all(f"forecaster {i}" in shown for i in range(count))


def test_a_difference_that_only_rounds_is_constant() -> None:
    """0.3 - 0.2 and 1.2 - 1.1 differ in the last bit: that is no evidence of certainty."""
    scores = [0.3, 0.2, 1.2, 1.1, 0.9, 0.8]
    assert 0.3 - 0.2 != 1.2 - 1.1
    pair = compare(["a", "b"] * 3, [1, 1, 2, 2, 3, 3], scores).pairs[0]
    assert pair.difference == pytest.approx(0.1)
    assert math.isnan(pair.low)
    assert "no evidence of certainty" in pair.reason
    bounded = compare(["a", "b"] * 3, [1, 1, 2, 2, 3, 3], scores, bounds=(0, 2)).pairs[0]
    assert bounded.low < 0 < 0.1 < bounded.high


def test_a_claim_that_rests_on_symmetry_alone_says_so() -> None:
    """Twelve small equal gains: the signs are significant, but one item in ten may be a large loss."""
    questions = np.repeat(np.arange(12), 2)
    found = compare(["a", "b"] * 12, questions, [0.1, 0.2] * 12, bounds=(0, 1)).pairs[0]
    assert found.low < 0 < found.high
    assert found.p < 0.001
    assert any("as likely as its negative" in caveat for caveat in found.caveats)
    assert "as likely as its negative" in found.summary()
    scores = np.array([0.1, 0.9] * 12) + np.random.default_rng(0).uniform(-0.05, 0.05, 24)
    clear = compare(["a", "b"] * 12, questions, scores, bounds=(0, 1)).pairs[0]
    assert clear.high < 0
    assert not clear.caveats
