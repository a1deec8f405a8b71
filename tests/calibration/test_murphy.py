"""Murphy's decomposition: worked cases, identities, reference values."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.calibration import MurphyDecomposition, murphy_decomposition
from evalkit.scoring import brier_score

FORECASTS = st.one_of(st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.7, 1.0]), st.floats(0, 1))
ITEMS = st.lists(st.tuples(st.integers(0, 1), FORECASTS, st.integers(0, 4)), min_size=1, max_size=60)
FIGURES = ("score", "rel", "res", "unc", "wbv", "wbc", "gres")


def figures(found: MurphyDecomposition) -> tuple[float, ...]:
    return tuple(getattr(found, name) for name in FIGURES)


def test_worked_by_hand() -> None:
    """p = .2 thrice with one event, p = .8 once with an event; frequency 1/2."""
    found = murphy_decomposition([1, 0, 0, 1], [0.2, 0.2, 0.2, 0.8])
    assert found.score == pytest.approx((0.64 + 0.04 + 0.04 + 0.04) / 4)
    assert found.rel == pytest.approx((3 * (0.2 - 1 / 3) ** 2 + 0.2**2) / 4)
    assert found.res == pytest.approx((3 * (1 / 3 - 0.5) ** 2 + 0.5**2) / 4)
    assert found.unc == pytest.approx(0.25)
    assert (found.wbv, found.wbc, found.n_bins, found.n_singletons) == (0.0, 0.0, 2, 1)


def test_bias_correction_worked_by_hand() -> None:
    """b = (1/4) · 3 · (1/3)(2/3)/2; the bin of one item gives nothing and is counted."""
    plain = murphy_decomposition([1, 0, 0, 1], [0.2, 0.2, 0.2, 0.8])
    found = murphy_decomposition([1, 0, 0, 1], [0.2, 0.2, 0.2, 0.8], bias_corrected=True)
    b = 3 * (2 / 9) / 2 / 4
    assert found.rel == pytest.approx(plain.rel - b)
    assert found.res == pytest.approx(plain.res - b + 0.25 / 3)
    assert found.unc == pytest.approx(0.25 * 4 / 3)
    assert any("1 of 2 bins" in caveat for caveat in found.caveats)


def test_corrected_reliability_may_be_negative() -> None:
    assert murphy_decomposition([1, 0], [0.5, 0.5], bias_corrected=True).rel == pytest.approx(-0.25)


def test_two_bins_have_terms_within() -> None:
    """Bins [0, .5) and [.5, 1]: forecasts .1 and .3 in the first, .5 and 1 in the second."""
    found = murphy_decomposition([0, 1, 1, 1], [0.1, 0.3, 0.5, 1.0], 2)
    assert found.wbv == pytest.approx((2 * 0.1**2 + 2 * 0.25**2) / 4)
    assert found.wbc == pytest.approx(2 * (2 * 0.5 * 0.1) / 4)
    assert found.n_bins == 2


def test_all_distinct_forecasts_carry_a_caveat() -> None:
    found = murphy_decomposition([1, 0, 1], [0.9, 0.2, 0.6])
    assert found.rel == pytest.approx(found.score)
    assert "says nothing about calibration" in found.summary()
    assert not murphy_decomposition([1, 0, 1], [0.9, 0.2, 0.9]).caveats


@settings(max_examples=150, deadline=None)
@given(ITEMS, st.one_of(st.none(), st.integers(1, 12)), st.booleans(), st.sampled_from(["width", "mass"]))
def test_terms_add_up_to_the_score(
    items: list[tuple[int, float, int]], bins: int | None, corrected: bool, binning: str
) -> None:
    y, p, cluster = (list(column) for column in zip(*items, strict=True))
    found = murphy_decomposition(y, p, bins, corrected, binning=binning, cluster=cluster)
    assert found.score == float(brier_score(y, p))
    assert found.rel - found.gres + found.unc == pytest.approx(found.score, abs=1e-14)
    if not corrected:
        assert min(found.rel, found.res, found.unc, found.wbv) >= 0


@settings(max_examples=100, deadline=None)
@given(ITEMS, st.one_of(st.none(), st.integers(1, 12)), st.randoms(use_true_random=False))
def test_order_of_rows_and_names_of_clusters_change_no_bit(
    items: list[tuple[int, float, int]],
    bins: int | None,
    random: object,
) -> None:
    def of(rows: list[tuple[int, float, int]], sign: int) -> tuple[float, ...]:
        y, p, cluster = (np.array(column) for column in zip(*rows, strict=True))
        return figures(murphy_decomposition(y, p, bins, True, cluster=sign * cluster))

    shuffled = items.copy()
    random.shuffle(shuffled)
    assert of(items, 1) == of(shuffled, -1)


@settings(max_examples=60, deadline=None)
@given(ITEMS)
def test_clusters_of_one_item_change_nothing(items: list[tuple[int, float, int]]) -> None:
    y, p, _ = (list(column) for column in zip(*items, strict=True))
    alone = murphy_decomposition(y, p, 4, True)
    clustered = murphy_decomposition(y, p, 4, True, cluster=range(len(y)))
    assert figures(clustered) == pytest.approx(figures(alone), abs=1e-12)
    assert clustered.n_singletons == alone.n_singletons


def test_fractional_outcomes_are_a_choice() -> None:
    y, p = [0.5, 1, 0.25, 0], [0.4, 0.9, 0.4, 0.1]
    with pytest.raises(ValueError, match="item 0"):
        murphy_decomposition(y, p)
    for corrected in (False, True):
        found = murphy_decomposition(y, p, 3, corrected, allow_fractional=True)
        assert found.rel - found.gres + found.unc == pytest.approx(found.score, abs=1e-15)


def test_clusters_widen_the_correction() -> None:
    """Every item twice: as clusters, the correction is that of the items taken once, n/(n - 1) apart."""
    rng = np.random.default_rng(4)
    p = rng.choice([0.2, 0.6], 100)
    y = (rng.random(100) < p).astype(float)
    once = murphy_decomposition(y, p, bias_corrected=True)
    twice = murphy_decomposition(
        np.tile(y, 2), np.tile(p, 2), bias_corrected=True, cluster=np.tile(np.arange(100), 2)
    )
    assert twice.rel == pytest.approx(once.rel, rel=1e-12)
    assert twice.res == pytest.approx(once.res, rel=1e-12)


@pytest.mark.parametrize(
    ("y", "p", "bins", "message"),
    [
        ([1, 0], [0.5, 1.5], None, "item 1"),
        ([1, 0], [0.5, math.nan], None, "item 1 is NaN"),
        ([1, 0], [0.5, 0.5], 0, "bins=0"),
        ([1, 0], [0.5, 0.5], 2.5, "bins=2.5"),
        ([1, 0], [0.5, 0.5], [0.0, 0.6, 0.6, 1.0], "ascending"),
        ([1, 0], [0.5, 0.1], [0.2, 0.6], "outside"),
    ],
)
def test_bad_input_is_named(y: list[float], p: list[float], bins: object, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        murphy_decomposition(y, p, bins)


def test_missing_items_are_dropped_and_counted() -> None:
    found = murphy_decomposition([1, 0, 1], [0.5, math.nan, 0.5], missing="drop")
    assert (found.n, found.n_dropped) == (2, 1)
    assert "1 dropped" in found.summary()
    assert "1 dropped" in found._repr_html_()
    assert found.to_frame().loc[0, "n_dropped"] == 1


@pytest.mark.parametrize("forecaster", ["ENS", "EMOS", "EPC", "Logistic"])
def test_niamey_reference_values(shared_data: Path, forecaster: str) -> None:
    pd = pytest.importorskip("pandas")
    folder = shared_data / "scoring"
    rows = pd.read_csv(folder / "niamey_precip_2016.csv")
    reference = json.loads((folder / "reference_values.json").read_text())[f"niamey/{forecaster}"]
    unique = murphy_decomposition(rows.obs, rows[forecaster])
    plain = murphy_decomposition(rows.obs, rows[forecaster], 10)
    corrected = murphy_decomposition(rows.obs, rows[forecaster], 10, bias_corrected=True)
    for name in ("rel", "res", "unc", "n_bins"):
        assert getattr(unique, name) == pytest.approx(reference["murphy_unique"][name], abs=1e-15)
    for name in ("rel", "res", "unc", "wbv", "wbc", "gres", "n_bins"):
        assert getattr(plain, name) == pytest.approx(reference["murphy_10bins"][name], abs=1e-15)
    for name in ("rel", "res", "unc"):
        assert getattr(corrected, name) == pytest.approx(reference["murphy_10bins"][f"{name}_c"], abs=1e-15)


def test_halves_are_no_counts() -> None:
    """Eight outcomes of one half add up to four events, but do not vary."""
    y, p = [0.5] * 8 + [0.2, 0.8], [0.1] * 8 + [0.6, 0.7]
    raw, corrected = (
        murphy_decomposition(y, p, bins=2, bias_corrected=b, allow_fractional=True) for b in (False, True)
    )
    b = 2 / 10 * ((0.3**2 + 0.3**2) / 2) / 1
    assert raw.rel - corrected.rel == pytest.approx(b)
