"""Proper scoring rules: observation first, forecast second, arrays in, a result out.

Every rule has the signature ``rule(y, p, *, weights=None, cluster=None, reduce="mean",
missing="raise")``.  ``reduce="mean"`` returns a frozen `Score` (``float(score)`` is the mean),
``reduce=None`` the array of item scores.  Scores are negatively oriented: small is good.
"""

from evalkit.scoring.brier import brier_score
from evalkit.scoring.logarithmic import log_score
from evalkit.scoring.score import Score

__all__ = ["Score", "brier_score", "log_score"]
