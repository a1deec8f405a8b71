"""Sign-flip test: is the mean difference larger than chance would make it, if each sign were a coin's?

Under the null hypothesis a difference is as likely as its negative.  Where items come in clusters, a cluster's
sum flips as a whole.  The p-value is the share of all 2^m sign patterns, the observed one included, whose mean
is at least as extreme.  Three ways to count them, the first that is affordable is taken

``exact-lattice``             the sums are multiples of one unit: their distribution by convolution
``exact-meet-in-the-middle``  up to `MIDDLE` sums that are not zero: two sorted halves (Horowitz & Sahni 1974)
``monte-carlo``               (b + 1) / (B + 1) with B random patterns (Davison & Hinkley 1997)

Ties count as extreme, with a relative tolerance, because equal sums differ in their last bits.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from evalkit.exact_sums import grouped_sums, order_free_sum
from evalkit.uncertainty.sample import checked_sample

if TYPE_CHECKING:
    import pandas as pd

Alternative = Literal["two-sided", "greater", "less"]

#: most sums for which both halves are enumerated (2^20 patterns each)
MIDDLE = 40
#: most multiply-adds that the convolution may take
LATTICE_COST = 2e8
#: finest unit that is tried, as a share of the smallest sum
FINEST = 60
#: two sums closer than this share of all absolute values together are tied
TIE = 1e-11


@dataclass(frozen=True)
class SignFlipTest:
    """``p_value`` of the ``statistic``, the mean difference over ``n`` items in ``n_clusters`` clusters.

    Without clusters each item is one.  ``n_flipped`` is the number of sums that are not zero; the others change
    nothing.  ``replicates`` is None where the count is exact.
    """

    p_value: float
    statistic: float
    n: int
    n_clusters: int
    n_flipped: int
    method: str
    alternative: Alternative
    replicates: int | None = None

    def summary(self) -> str:
        drawn = "" if self.replicates is None else f", {self.replicates} replicates"
        return (
            f"mean difference {self.statistic:.6g}, p = {self.p_value:.4g} ({self.alternative} sign-flip, "
            f"{self.method}{drawn}; n = {self.n}, {self.n_clusters} cluster{'s' * (self.n_clusters != 1)}, {self.n_flipped} not zero)"
        )

    def to_frame(self) -> pd.DataFrame:
        import pandas as pd

        return pd.DataFrame([self.__dict__])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<p>{escape(self.summary())}</p>"


def sign_flip_test(
    d: ArrayLike,
    cluster: ArrayLike | None = None,
    *,
    alternative: Alternative = "two-sided",
    replicates: int = 9999,
    seed: int = 0,
) -> SignFlipTest:
    """Test that the differences ``d`` (n,) are symmetric about 0, flipping whole clusters (n,).

    ``replicates`` and ``seed`` matter only where no exact count is affordable.  Raises `ValueError` where a
    difference is not finite.
    """
    if alternative not in get_args(Alternative):
        raise ValueError(f"alternative = {alternative!r}: expected one of {', '.join(get_args(Alternative))}")
    if replicates < 1:
        raise ValueError(f"replicates = {replicates}: expected at least 1")
    sample = checked_sample(d, cluster=cluster)
    if not sample.finite:
        raise ValueError("d holds an infinite difference: signs of infinite sums cannot be compared")
    n = len(sample.x)
    if n == 0:
        raise ValueError("d is empty: expected at least one difference")
    if sample.codes is None:
        sums, n_clusters = sample.x, n
    else:
        assert sample.n_clusters is not None
        n_clusters = sample.n_clusters
        sums = grouped_sums(sample.codes, sample.x, n_clusters)
    total = order_free_sum(sums)
    sizes = np.sort(np.abs(sums[np.abs(sums) > TIE * np.abs(sample.x).max(initial=0.0)]))
    observed = {"two-sided": abs(total), "greater": total, "less": -total}[alternative]
    at_least = observed - TIE * order_free_sum(sizes)
    method, upper = _exact_upper_share(sizes, at_least)
    if alternative == "two-sided" and at_least <= 0:
        method, p_value = method or "exact", 1.0
    elif upper is not None:
        p_value = min(1.0, 2 * upper) if alternative == "two-sided" else upper
    else:
        method = "monte-carlo"
        totals = _drawn_totals(sizes, replicates, seed)
        extreme = (np.abs(totals) if alternative == "two-sided" else totals) >= at_least
        p_value = (int(extreme.sum()) + 1) / (replicates + 1)
    return SignFlipTest(
        p_value=max(p_value, float(np.finfo(np.float64).tiny)),
        statistic=total / n,
        n=n,
        n_clusters=n_clusters,
        n_flipped=len(sizes),
        method=method,
        alternative=alternative,
        replicates=replicates if method == "monte-carlo" else None,
    )


def _exact_upper_share(sizes: NDArray[np.float64], at_least: float) -> tuple[str, float | None]:
    """Share of the sign patterns whose total is at least that, and how it was counted; None where it costs too much."""
    if len(sizes) == 0:
        return "exact", float(at_least <= 0)
    lattice = _multiples(sizes)
    if lattice is not None:
        return "exact-lattice", _lattice_share(*lattice, at_least)
    if len(sizes) <= MIDDLE:
        return "exact-meet-in-the-middle", _middle_share(sizes, at_least)
    return "", None


def _multiples(sizes: NDArray[np.float64]) -> tuple[NDArray[np.int64], float] | None:
    """Whole numbers and a unit that give the sorted sizes, if the convolution of their signs is affordable."""
    smallest, largest = float(sizes[0]), float(sizes[-1])
    if largest / smallest > LATTICE_COST:
        return None
    for parts in range(1, FINEST + 1):
        unit = smallest / parts
        whole = np.rint(sizes / unit)
        if np.abs(whole * unit - sizes).max() <= TIE * largest:
            levels, counts = np.unique(whole, return_counts=True)
            reach = np.concatenate([[1.0], 1 + np.cumsum(levels * counts)[:-1]])
            affordable = float(np.sum(reach * (counts + 1))) <= LATTICE_COST
            return (whole.astype(np.int64), unit) if affordable else None
    return None


def _lattice_share(whole: NDArray[np.int64], unit: float, at_least: float) -> float:
    """P(T >= at_least) by the law of P, the sum of the positive ones: T = 2 P - all of them."""
    law = np.ones(1)
    for level, count in zip(*np.unique(whole, return_counts=True), strict=True):
        binomial = _fair_binomial(int(count))
        wider = np.zeros(len(law) + int(level) * int(count))
        if len(law) < len(binomial):
            for at, probability in enumerate(law):
                wider[at : at + int(level) * int(count) + 1 : int(level)] += probability * binomial
        else:
            for heads, probability in enumerate(binomial):
                start = heads * int(level)
                wider[start : start + len(law)] += probability * law
        law = wider
    first = math.ceil((at_least / unit + int(whole.sum())) / 2)
    return float(np.sum(law[max(first, 0) :]))


def _fair_binomial(n: int) -> NDArray[np.float64]:
    """Probabilities of 0 … n heads of n fair coins."""
    log_factorial = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    logs: NDArray[np.float64] = log_factorial[-1] - log_factorial - log_factorial[::-1] - n * math.log(2)
    probabilities = np.exp(logs)
    if n <= 45:  # whole numbers of patterns, of which the logarithms have lost the last bits
        probabilities = np.rint(probabilities * 2.0**n) / 2.0**n
    return probabilities


def _middle_share(sizes: NDArray[np.float64], at_least: float) -> float:
    """P(T >= at_least): each half's totals are listed in order, and pairs counted."""
    left, right = (_ordered_totals(half) for half in (sizes[::2], sizes[1::2]))
    too_small = np.searchsorted(right, (at_least - left)[::-1])
    pairs = len(left) * len(right)
    return float((pairs - int(too_small.sum())) / pairs)


def _ordered_totals(sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    totals = np.zeros(1)
    for size in sizes:
        totals = np.sort(np.concatenate([totals - size, totals + size]), kind="stable")  # merges two runs
    return totals


def _drawn_totals(sizes: NDArray[np.float64], replicates: int, seed: int) -> NDArray[np.float64]:
    """Totals under random signs: eight sizes share a table of their 256 totals, looked up by a random byte."""
    digest = hashlib.sha256(sizes.tobytes() + str(seed).encode()).digest()
    generator = np.random.default_rng(int.from_bytes(digest[:16], "big"))
    octets = np.append(sizes, np.zeros(-len(sizes) % 8)).reshape(-1, 8)
    signs = 2.0 * np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1) - 1
    totals = np.zeros(replicates)
    for first in range(0, len(octets), 512):
        tables = octets[first : first + 512] @ signs.T
        offsets = 256 * np.arange(len(tables), dtype=np.int32)
        rows = max(1, (1 << 20) // len(tables))
        for start in range(0, replicates, rows):
            part = totals[start : start + rows]
            patterns = generator.integers(0, 256, size=(len(part), len(tables)), dtype=np.uint8)
            part += tables.ravel()[patterns + offsets].sum(axis=1)
    return totals
