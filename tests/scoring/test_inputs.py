"""What may come in: kinds of arrays, what is missing, what is refused."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pandas as pd
import pytest

from evalkit.scoring import brier_score, crps_ensemble, log_score, ranked_probability_score


@pytest.mark.parametrize(
    "y",
    [
        [1, 0, 1],
        (True, False, True),
        np.array([1, 0, 1], dtype=np.int8),
        np.array([1, 0, 1], dtype=np.uint64),
        np.array([True, False, True]),
        np.array([1.0, 0.0, 1.0], dtype=np.float32),
        np.array([1, 0, 1], dtype=object),
        pd.Series([1, 0, 1]),
        pd.Series([1, 0, 1], dtype="Int64"),
        pd.Series([True, False, True], dtype="boolean"),
        np.array([1, 9, 0, 9, 1, 9])[::2],
    ],
    ids=lambda y: type(y).__name__ + "-" + str(getattr(y, "dtype", "")),
)
def test_outcomes_of_any_numeric_kind(y: Any) -> None:
    assert float(brier_score(y, [0.8, 0.3, 0.5])) == float(brier_score([1.0, 0.0, 1.0], [0.8, 0.3, 0.5]))


def test_float32_is_accumulated_in_float64() -> None:
    p = np.full(1_000_000, 0.1, dtype=np.float32)
    assert float(brier_score(np.zeros(1_000_000), p)) == pytest.approx(float(np.float32(0.1)) ** 2, rel=1e-15)


@pytest.mark.parametrize(
    "p",
    [
        [0.5, math.nan],
        [0.5, None],
        pd.Series([0.5, None], dtype="Float64"),
        np.ma.masked_array([0.5, 0.9], mask=[False, True]),
    ],
    ids=["nan", "None", "pandas.NA", "masked"],
)
def test_whatever_is_missing_is_missing(p: Any) -> None:
    """A masked value is not the number under the mask."""
    with pytest.raises(ValueError, match=r"item 1 is NaN \(1 of 2"):
        brier_score([1, 1], p)
    score = brier_score([1, 1], p, missing="drop")
    assert (score.n, score.n_dropped, float(score)) == (1, 1, 0.25)


def test_dropping_takes_weights_and_clusters_along() -> None:
    score = brier_score(
        [1, 0, 1], [0.5, math.nan, 0.9], weights=[1, 7, 3], cluster=list("abc"), missing="drop"
    )
    assert float(score) == pytest.approx((0.25 + 3 * 0.01) / 4)
    assert score.cluster is not None
    assert score.cluster.tolist() == ["a", "c"]


def test_series_are_not_paired_by_position_against_their_labels() -> None:
    y = pd.Series([1, 0], index=["a", "b"])
    p = pd.Series([0.2, 0.9], index=["b", "a"])
    with pytest.raises(ValueError, match="different indexes"):
        brier_score(y, p)
    assert float(brier_score(y, p.reindex(y.index))) == pytest.approx((0.01 + 0.04) / 2)
    assert float(brier_score(y, p.to_numpy())) == pytest.approx((0.64 + 0.81) / 2)
    with pytest.raises(ValueError, match="y and weights"):
        brier_score(y, [0.9, 0.2], weights=pd.Series([1, 2], index=["b", "a"]))


def test_a_frame_of_probabilities() -> None:
    p = pd.DataFrame({"win": [0.5, 0.2], "tie": [0.3, 0.2], "loss": [0.2, 0.6]})
    assert float(ranked_probability_score([0, 2], p)) == pytest.approx(
        float(ranked_probability_score([0, 2], p.to_numpy()))
    )


@pytest.mark.parametrize(
    ("y", "p", "options", "message"),
    [
        ([1, 0], ["high", "low"], {}, "p does not hold numbers"),
        (["yes"], [0.5], {}, "y does not hold numbers"),
        ([1], [0.5 + 1j], {}, "p does not hold numbers"),
        ([1, 0], [75, 20], {}, "divide percentages by 100"),
        ([math.inf], [0.5], {}, "item 0 .*inf"),
        ([1], [0.5], {"missing": "impute"}, "missing='impute'"),
        ([1, 0], [0.5, 0.5], {"cluster": ["a", None]}, "cluster has no label for item 1"),
        ([1, 0], [0.5, 0.5], {"cluster": [math.nan, 1.0]}, "cluster has no label for item 0"),
        ([1, 0], [0.5, 0.5], {"cluster": pd.Series(["a", pd.NA])}, "cluster has no label for item 1"),
        ([1, 0], [0.5, 0.5], {"cluster": ["a"]}, r"cluster has shape \(1,\)"),
        ([1, 0], [0.5, 0.5], {"weights": [1, -2]}, "item 1 has a weight"),
        ([1, 0], [0.5, 0.5], {"weights": [0, 0]}, "weights are zero for every item"),
        ([2, 3], [0.5, 1.5], {}, r"1\.5"),
        ([0.2, 0.4, 1], [0, 1, 1], {}, "y comes first, p second"),
    ],
)
def test_errors_say_what_where_and_what_to_do(y: Any, p: Any, options: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        brier_score(y, p, **options)


def test_the_place_of_an_error_counts_from_the_start_of_the_data() -> None:
    """Data is checked in chunks: the index is not the one within a chunk."""
    y = np.zeros(100_000)
    y[77_777] = 2
    with pytest.raises(ValueError, match="item 77777 "):
        brier_score(y, np.full(100_000, 0.5))
    p = np.full((50_000, 2), 0.5)
    p[40_001] = [0.5, 0.4]
    with pytest.raises(ValueError, match="item 40001 "):
        brier_score(np.zeros(50_000), p)


def test_rounding_is_forgiven_and_moved_to_the_end() -> None:
    assert float(brier_score([1, 0], [1 + 1e-13, -1e-13])) == 0.0
    with pytest.raises(ValueError, match="outside"):
        brier_score([1], [1 + 1e-11])


def test_a_class_without_a_forecast() -> None:
    """An error, unless the caller says that it had probability 0."""
    p = [[0.5, 0.5]]
    with pytest.raises(ValueError, match="missing_branch"):
        brier_score([2], p)
    assert float(brier_score([2], p, missing_branch="zero")) == pytest.approx(0.25 + 0.25 + 1)
    assert float(log_score([2], p, missing_branch="zero")) == math.inf
    with pytest.raises(ValueError, match="no class"):
        brier_score([-1], p, missing_branch="zero")


def test_the_inputs_are_not_changed() -> None:
    y, p = np.array([1.0, 0.0]), np.array([1 + 1e-13, 0.3])
    brier_score(y, p), log_score(y, p), crps_ensemble(y, p)
    assert y.tolist() == [1.0, 0.0]
    assert p.tolist() == [1 + 1e-13, 0.3]


def test_item_scores_of_changed_arrays_are_refused() -> None:
    """Item scores are computed when asked for; by then the arrays must be what they were."""
    p = np.array([0.5, 0.5])
    score = brier_score(np.array([1.0, 0.0]), p)
    p[0] = 0.9
    with pytest.raises(ValueError, match="were changed"):
        score.items  # noqa: B018
