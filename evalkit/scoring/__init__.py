"""Proper scoring rules: observation first, forecast second, arrays in, a result out.

Every rule has the signature ``rule(y, p, *, weights=None, cluster=None, reduce="mean",
missing="raise")``.  ``reduce="mean"`` returns a frozen `Score` (``float(score)`` is the mean),
``reduce=None`` the array of item scores.  Scores are negatively oriented: small is good.
"""

from evalkit.scoring.brier import brier_score
from evalkit.scoring.ensemble import crps_ensemble
from evalkit.scoring.logarithmic import log_score
from evalkit.scoring.quantile import interval_score, quantile_score
from evalkit.scoring.ranked import ranked_probability_score
from evalkit.scoring.score import Score
from evalkit.scoring.skill import Skill, skill_score
from evalkit.scoring.spherical import spherical_score

__all__ = [
    "Score",
    "Skill",
    "brier_score",
    "crps_ensemble",
    "interval_score",
    "log_score",
    "quantile_score",
    "ranked_probability_score",
    "skill_score",
    "spherical_score",
]
