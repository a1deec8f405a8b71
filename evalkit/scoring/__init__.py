"""Proper scoring rules: observation first, forecast second, arrays in, a result out.

Every rule has the signature ``rule(y, p, *, weights=None, cluster=None, reduce="mean",
missing="raise")``.  ``reduce="mean"`` returns a frozen `Score` (``float(score)`` is the mean),
``reduce=None`` the array of item scores.  Scores are negatively oriented: small is good.
"""

from evalkit.scoring.advantage import Advantage, score_advantage
from evalkit.scoring.brier import brier_score
from evalkit.scoring.comparison import Comparison, PairComparison, compare
from evalkit.scoring.diebold_mariano import DieboldMariano, diebold_mariano
from evalkit.scoring.difficulty import DifficultyAdjusted, brier_index, difficulty_adjusted
from evalkit.scoring.ensemble import crps_ensemble
from evalkit.scoring.leaderboard import Leaderboard, leaderboard
from evalkit.scoring.logarithmic import log_score
from evalkit.scoring.peer import PeerScores, peer_scores
from evalkit.scoring.quantile import interval_score, quantile_score
from evalkit.scoring.ranked import ranked_probability_score
from evalkit.scoring.score import Score
from evalkit.scoring.skill import Skill, skill_score
from evalkit.scoring.spherical import spherical_score

__all__ = [
    "Advantage",
    "Comparison",
    "DieboldMariano",
    "DifficultyAdjusted",
    "Leaderboard",
    "PairComparison",
    "PeerScores",
    "Score",
    "Skill",
    "brier_index",
    "brier_score",
    "compare",
    "crps_ensemble",
    "diebold_mariano",
    "difficulty_adjusted",
    "interval_score",
    "leaderboard",
    "log_score",
    "peer_scores",
    "quantile_score",
    "ranked_probability_score",
    "score_advantage",
    "skill_score",
    "spherical_score",
]
