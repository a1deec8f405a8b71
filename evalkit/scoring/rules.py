"""From validated items to the result of a rule: the part that all rules share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, TypedDict

import numpy as np
from numpy.typing import ArrayLike

from evalkit.exact_sums import Floats, chunks, streamed_sum
from evalkit.scoring.inputs import Items, Missing
from evalkit.scoring.score import Score, mean

Reduce = Literal["mean"] | None


class Common(TypedDict, total=False):
    """The keywords that every rule takes besides ``reduce``, for the overloads by ``reduce``."""

    weights: ArrayLike | None
    cluster: ArrayLike | None
    missing: Missing


#: item scores of the outcomes and forecasts of a slice; ``out`` is scratch that may hold the answer
Rule = Callable[[Floats, Floats, Floats], Floats]


def scored(
    items: Items, rule: Rule, *, name: str, convention: str, low: float, high: float, reduce: Reduce
) -> Score | Floats:
    """Mean of ``rule`` over the items as a `Score`, or (``reduce=None``) the item scores.

    A rule in a bounded range is summed while it is computed, without an array of item scores.
    """
    if reduce not in ("mean", None):
        raise ValueError(f"reduce={reduce!r}: expected 'mean' or None")
    y, p = items.y, items.p

    def chunk(part: slice, out: Floats) -> Floats:
        # numpy adds the classes of an item in an order that depends on the layout in memory
        return rule(y[part], np.ascontiguousarray(p[part]), out)

    def each() -> Floats:
        scores = np.empty(len(y))
        for part in chunks(len(y)):
            scores[part] = chunk(part, scores[part])
        return scores

    if reduce is None:
        return each()
    if items.weights is None and np.isfinite(low) and np.isfinite(high):
        bound = max(abs(low), abs(high))
        value = streamed_sum(len(y), chunk, bound) / len(y)
    else:
        value = mean(each(), items.weights)
    return Score(
        name=name,
        convention=convention,
        value=value,
        n=items.n_counted,
        n_dropped=items.n_dropped,
        low=low,
        high=high,
        weights=items.weights,
        cluster=items.cluster,
        _item_scores=each,
    )
