"""Scored forecasts as arrays: of one forecaster for a rule, of all for a comparison."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Items:
    """The scored forecasts of one forecaster: outcome (n,), forecast (n,) or (n, K), and the rest (n,).

    ``weights`` and ``cluster`` are None where they change nothing: equal weights, every item its own cluster.
    """

    y: Floats
    p: Floats
    weights: Floats | None
    cluster: NDArray[Any] | None
    question: NDArray[Any]


@dataclass(frozen=True, eq=False)
class Answers:
    """All scored forecasts, one after the other, each array (n,): what comparisons of forecasters take.

    ``item``: question and time together, so that a forecaster has one row an item; ``cluster`` is None where
    every item is its own, ``weights`` where all are equal.
    """

    forecaster: NDArray[Any]
    item: NDArray[Any]
    score: Floats
    cluster: NDArray[Any] | None
    time: NDArray[Any] | None
    weights: Floats | None
