"""CORP decompositions beside those of model-diagnostics."""

from __future__ import annotations

import numpy as np
import pytest

from evalkit.calibration import CorpDecomposition, corp_decomposition

from .asking import Call, PeerError, Peers
from .inputs import BINARY, EXTREME, Array, named

pytestmark = pytest.mark.peers

_SCORES = {"brier": "SquaredError", "log": "LogLoss"}


@pytest.mark.parametrize("score", list(_SCORES))
@pytest.mark.parametrize(("y", "p"), **named(BINARY | EXTREME))
def test_beside_model_diagnostics(peers: Peers, y: Array, p: Array, score: str) -> None:
    function = Call(f"model_diagnostics.scoring.{_SCORES[score]}")
    ours = corp_decomposition(y, p, score=score)
    if len(y) == 1:
        # nothing can be told apart; model-diagnostics refuses
        assert (ours.dsc, ours.unc, ours.mcb) == (0.0, 0.0, ours.score)
        with pytest.raises(PeerError):
            peers("model_diagnostics.scoring.decompose", y, p, scoring_function=function)
        return
    theirs = peers("model_diagnostics.scoring.decompose", y, p, scoring_function=function)
    if np.diff(np.unique(p)).min(initial=1) > 1e-15:  # nearer ones are pooled there (test_peer_bugs.py)
        same(ours, theirs)


@pytest.mark.parametrize("score", list(_SCORES))
@pytest.mark.parametrize("case", ["uniform, n = 5000", "rounded to 1 digits", "overconfident", "logistic"])
def test_with_weights(peers: Peers, case: str, score: str) -> None:
    y, p = BINARY[case]
    weights = np.random.default_rng(11).exponential(size=len(y))
    function = Call(f"model_diagnostics.scoring.{_SCORES[score]}")
    theirs = peers("model_diagnostics.scoring.decompose", y, p, weights=weights, scoring_function=function)
    same(corp_decomposition(y, p, score=score, weights=weights), theirs)


def same(ours: CorpDecomposition, theirs: dict[str, list[float]]) -> None:
    for value, name in (
        (ours.score, "score"),
        (ours.mcb, "miscalibration"),
        (ours.dsc, "discrimination"),
        (ours.unc, "uncertainty"),
    ):
        assert value == pytest.approx(theirs[name][0], rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("score", list(_SCORES))
def test_small_samples_at_random(peers: Peers, score: str) -> None:
    """Ties, certainties, one class, weights: 150 draws of up to 13 items."""
    rng = np.random.default_rng(20240725)
    function = Call(f"model_diagnostics.scoring.{_SCORES[score]}")
    for draw in range(150):
        n, steps = int(rng.integers(2, 14)), int(rng.choice([2, 4, 10, 100]))
        p = rng.integers(0, steps + 1, n) / steps
        y = (rng.random(n) < rng.choice([0.1, 0.5, 0.9])).astype(float)
        weights = rng.choice([0.5, 1.0, 2.0, 3.7], n) if draw % 2 else None
        theirs = peers(
            "model_diagnostics.scoring.decompose", y, p, weights=weights, scoring_function=function
        )
        same(corp_decomposition(y, p, score=score, weights=weights), theirs)
