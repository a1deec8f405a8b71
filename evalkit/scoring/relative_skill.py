"""Relative skill: where a forecaster stands in a tournament of pairwise ratios (scoringutils; Cramer et al. 2022).

Each pair is compared by the ratio of its mean scores on the questions that both answered.  A forecaster's
relative skill is the geometric mean of her ratios against all, herself (1) included; pairs without a common
question are left out.  Below 1 is better than the field.  Scaled, it is divided by that of a reference.

A ratio needs positive scores.  Where a mean score is zero, negative or infinite there is none, and the
relative skill of both is NaN with the reason.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence
from typing import NamedTuple

import numpy as np

from evalkit.exact_sums import order_free_sum


class RelativeSkill(NamedTuple):
    """``value`` and ``scaled`` (NaN without a reference), from ``n_pairs`` ratios against others."""

    value: float
    scaled: float
    n_pairs: int
    reason: str


class MeanScores(NamedTuple):
    """Mean scores of two forecasters, numbered in the field, on ``n`` common questions."""

    first: int
    second: int
    n: int
    first_score: float
    second_score: float


def relative_skill(
    field: Sequence[Hashable], pairs: Sequence[MeanScores], reference: int | None = None
) -> tuple[RelativeSkill, ...]:
    """Relative skill of each forecaster of ``field``, ``reference`` a number in it."""
    logs: list[list[float]] = [[] for _ in field]
    reasons = ["" for _ in field]
    for pair in pairs:
        if pair.n == 0:
            continue
        for at, score in ((pair.first, pair.first_score), (pair.second, pair.second_score)):
            if not (math.isfinite(score) and score > 0):
                reason = f"{field[at]!r} has a mean score of {score:g}: ratios need positive, finite ones"
                for one in (pair.first, pair.second):
                    reasons[one] = min(filter(None, (reasons[one], reason)))
                break
        else:
            ratio = math.log(pair.first_score) - math.log(pair.second_score)
            logs[pair.first].append(ratio)
            logs[pair.second].append(-ratio)
    value = [
        math.nan if reason or not own else math.exp(order_free_sum(np.array(own)) / (len(own) + 1))
        for own, reason in zip(logs, reasons, strict=True)
    ]
    base = math.nan if reference is None else value[reference]
    return tuple(
        RelativeSkill(v, v / base, len(own), reason or ("" if own else "no question in common with anybody"))
        for v, own, reason in zip(value, logs, reasons, strict=True)
    )
