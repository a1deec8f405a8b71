"""What estimators accept, and what they refuse by name and place."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from evalkit.uncertainty import mean_interval
from evalkit.uncertainty.sample import checked_sample, cluster_codes


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, 3, -7, 10, -7]),
        np.array([3, 3, -7, 10**12, -7]),
        np.array([250, 250, 0, 7, 0], dtype=np.uint8),
        np.array([2**64 - 1, 2**64 - 1, 0, 7, 0], dtype=np.uint64),
        np.array([-128, -128, 127, 0, 127], dtype=np.int8),
        np.array(["b", "b", "a", "c", "a"]),
        np.array(["b", "b", 1, ("x", 2), 1], dtype=object),
        np.array([0.5, 0.5, -1.0, 2.0, -1.0]),
        np.array(["2024-01-01", "2024-01-01", "2023-01-01", "2025-01-01", "2023-01-01"], dtype="M8[D]"),
        pd.Categorical(["b", "b", "a", "c", "a"]),
    ],
    ids=["int", "wide", "uint8", "uint64", "int8", "text", "objects", "float", "dates", "categorical"],
)
def test_equal_labels_share_a_code(labels: object) -> None:
    if isinstance(labels, np.ndarray) and labels.dtype.kind == "O":
        labels[3] = ("x", 2)
    codes, n_clusters = cluster_codes(np.asarray(labels))
    assert n_clusters == 3
    assert sorted(set(codes.tolist())) == [0, 1, 2]
    assert codes[0] == codes[1]
    assert codes[2] == codes[4]
    assert len({int(codes[0]), int(codes[2]), int(codes[3])}) == 3


def test_booleans_and_nothing() -> None:
    assert cluster_codes(np.array([True, False, True]))[1] == 2
    assert cluster_codes(np.array([], dtype=int))[1] == 0
    assert cluster_codes(np.array([], dtype=object))[1] == 0


@pytest.mark.parametrize(
    "labels",
    [
        np.array(["a", None], dtype=object),
        np.array(["a", np.nan], dtype=object),
        np.array([1.0, np.nan]),
        np.array(["2024-01-01", "NaT"], dtype="M8[D]"),
    ],
)
def test_a_missing_label_is_refused(labels: np.ndarray) -> None:
    with pytest.raises(ValueError, match=r"cluster\[1\] is missing"):
        cluster_codes(labels)


def test_items_without_weight_do_not_count() -> None:
    sample = checked_sample([np.inf, 1.0, 2.0], weights=[0, 1, 3], cluster=["a", "b", "b"])
    assert sample.x.tolist() == [1.0, 2.0]
    assert sample.n_clusters == 1


def test_equal_weights_are_no_weights() -> None:
    assert checked_sample([1.0, 2.0], weights=[0.3, 0.3]).weights is None


@pytest.mark.parametrize(
    ("x", "weights", "cluster", "said"),
    [
        ([[1.0]], None, None, r"x has shape \(1, 1\)"),
        ([1.0, np.nan], None, None, r"x\[1\] is NaN"),
        ([1.0, -1e200], None, None, r"x\[1\] = -1e\+200"),
        ([1.0, 2.0], [1.0], None, r"weights have shape \(1,\)"),
        ([1.0, 2.0], [1.0, -1.0], None, r"weights\[1\] = -1"),
        ([1.0, 2.0], [np.inf, 1.0], None, r"weights\[0\] = inf"),
        ([1.0, 2.0], [0.0, 0.0], None, "no weight is positive"),
        ([1.0, 2.0], None, ["a"], r"cluster has shape \(1,\)"),
    ],
)
def test_what_is_refused(x: object, weights: object, cluster: object, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        checked_sample(x, weights, cluster)


@pytest.mark.parametrize("factor", [1e-300, 1e-160, 1e160, 1e300])
def test_extreme_weights_keep_their_ratios(factor: float) -> None:
    x, weights = [0.0, 1.0, 0.5], np.array([1.0, 2.0, 4.0])
    plain, scaled = mean_interval(x, weights=weights), mean_interval(x, weights=weights * factor)
    assert list(scaled) == pytest.approx(list(plain))
    assert scaled.mean == pytest.approx(plain.mean)


def test_a_missing_label_of_pandas_is_named() -> None:
    with pytest.raises(ValueError, match=r"cluster\[1\] is missing"):
        mean_interval([0.0, 1.0, 2.0], cluster=pd.Series(["a", pd.NA, "b"], dtype="string"))


def test_a_tiny_alpha_has_a_finite_interval() -> None:
    low, high = mean_interval([0.0, 1.0, 0.0, 1.0], alpha=1e-20)
    assert -np.inf < low < high < np.inf


def test_masked_values_are_missing() -> None:
    masked = np.ma.MaskedArray([1.0, 2.0, 300.0], mask=[False, False, True])
    with pytest.raises(ValueError, match=r"x\[2\] is NaN"):
        mean_interval(masked)
    with pytest.raises(ValueError, match=r"weights\[2\]"):
        mean_interval([1.0, 2.0, 3.0], weights=masked)


def test_pandas_objects_are_not_paired_by_position() -> None:
    x, weights = pd.Series([1.0, 2.0, 3.0]), pd.Series([1.0, 2.0, 3.0], index=[2, 1, 0])
    with pytest.raises(ValueError, match="different indexes"):
        mean_interval(x, weights=weights)


@pytest.mark.parametrize("x", [["a", "b"], [1j, 2.0]], ids=["text", "complex"])
def test_what_is_no_number_is_named(x: list[object]) -> None:
    with pytest.raises(ValueError, match="x does not hold numbers"):
        mean_interval(x)
