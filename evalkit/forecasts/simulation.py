"""A panel of forecasters made from nothing, whose truth is known: for the tutorial, examples and tests.

Questions come in topics of five.  What a topic turns out to be shifts all its questions together: they are
dependent, as the questions of one election night are.  Four forecasters:

- Ada knows what can be known of each question, and says so: calibrated.
- Bo knows the same and exaggerates: overconfident.
- Cleo knows more than both, also something of the topic, and says a fifth too much throughout: the
  sharpest of them, and miscalibrated.  She leaves one topic in eight out.
- Dan says the long-run share of events every time: calibrated, and of no use.

The draws are those of Python's Mersenne Twister, which does not change from version to version.
"""

from __future__ import annotations

import math
import random
from statistics import NormalDist
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

#: how much a question's own signal, what of its topic can be known, and the luck of its topic move the log-odds
_SIGNAL, _TOPIC, _LUCK = 1.1, 0.7, 0.8
_EACH = 5


def simulated_panel(topics: int = 60, seed: int = 1) -> pd.DataFrame:
    """Forecasts of the four on ``5 * topics`` questions, as a long table; the same for the same arguments.

    Columns: forecaster, question, topic, forecast (two decimals, empty where Cleo says nothing), outcome.
    """
    import pandas as pd

    draw = random.Random(seed)
    normal = NormalDist()
    rows = []
    for t in range(topics):
        known, luck = (normal.inv_cdf(_open(draw.random())) for _ in range(2))
        silent = t % 8 == 5
        for k in range(_EACH):
            signal = normal.inv_cdf(_open(draw.random()))
            odds = _SIGNAL * signal
            happens = draw.random() < _logistic(odds + _TOPIC * known + _LUCK * luck - 0.4)
            # a log-odds that is not known costs a sum of normals about sqrt(1 + 0.346 variance) of its slope
            ada = _logistic((odds - 0.4) / math.sqrt(1 + 0.346 * (_TOPIC**2 + _LUCK**2)))
            cleo = _logistic((odds + _TOPIC * known - 0.4) / math.sqrt(1 + 0.346 * _LUCK**2))
            said = {
                "Ada": ada,
                "Bo": _logistic(2.2 * math.log(ada / (1 - ada))),
                "Cleo": None if silent else 0.2 + 0.8 * cleo,
                "Dan": 0.42,
            }
            rows += [
                {
                    "forecaster": who,
                    "question": f"t{t + 1:02}-q{k + 1}",
                    "topic": f"t{t + 1:02}",
                    "forecast": None if p is None else round(min(max(p, 0.01), 0.99), 2),
                    "outcome": int(happens),
                }
                for who, p in said.items()
            ]
    return pd.DataFrame(rows)


def _logistic(x: float) -> float:
    return 1 / (1 + math.exp(-x))


def _open(u: float) -> float:
    """Inside (0, 1), where the normal quantile is finite."""
    return min(max(u, 1e-12), 1 - 1e-12)
