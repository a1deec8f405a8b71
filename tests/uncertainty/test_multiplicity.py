"""Holm and Benjamini-Hochberg: by hand, by their step procedures, with comparisons that were not made."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from evalkit.uncertainty import benjamini_hochberg, holm

p_values = st.lists(st.floats(0, 1), min_size=1, max_size=12)


def rejected_by_holm(p: list[float], alpha: float) -> set[int]:
    rejected: set[int] = set()
    for rank, at in enumerate(sorted(range(len(p)), key=lambda i: p[i])):
        if (len(p) - rank) * p[at] > alpha:
            break
        rejected.add(at)
    return rejected


def rejected_by_benjamini_hochberg(p: list[float], alpha: float) -> set[int]:
    order = sorted(range(len(p)), key=lambda i: p[i])
    passing = [rank for rank, at in enumerate(order) if len(p) / (rank + 1) * p[at] <= alpha]
    return set(order[: passing[-1] + 1]) if passing else set()


def test_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.06, 0.06])
    assert benjamini_hochberg([0.01, 0.04, 0.03]).tolist() == pytest.approx([0.03, 0.04, 0.04])
    assert holm([0.5, 0.6]).tolist() == [1.0, 1.0]
    assert holm([]).shape == (0,)


@given(p_values, st.floats(0.001, 0.5))
def test_adjusted_values_decide_as_the_step_procedures_do(p: list[float], alpha: float) -> None:
    assert set(np.flatnonzero(holm(p) <= alpha)) == rejected_by_holm(p, alpha)
    assert set(np.flatnonzero(benjamini_hochberg(p) <= alpha)) == rejected_by_benjamini_hochberg(p, alpha)


@given(p_values)
def test_holm_is_never_below_benjamini_hochberg_nor_this_below_p(p: list[float]) -> None:
    loose, strict = benjamini_hochberg(p), holm(p)
    assert (loose <= strict + 1e-15).all()
    assert (loose >= np.array(p) * (1 - 1e-15)).all()
    assert (strict <= 1).all()


def test_what_was_not_compared_is_carried_and_not_counted() -> None:
    with_gap = holm([[0.01, math.nan], [0.04, 0.03]])
    assert with_gap.shape == (2, 2)
    assert math.isnan(with_gap[0, 1])
    assert with_gap[~np.isnan(with_gap)].tolist() == holm([0.01, 0.04, 0.03]).tolist()
    assert np.isnan(benjamini_hochberg([math.nan, math.nan])).all()


@pytest.mark.parametrize("p", [[1.1], [-0.1, 0.5], [math.inf]])
def test_what_is_no_probability_is_refused(p: list[float]) -> None:
    with pytest.raises(ValueError, match="p holds"):
        holm(p)
    with pytest.raises(ValueError, match="p holds"):
        benjamini_hochberg(p)
