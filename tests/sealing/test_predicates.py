"""The predicate types, spelt out: every signature and every trust file has these texts in it."""

from __future__ import annotations

from evalkit.sealing import PREDICATES


def test_every_predicate_type() -> None:
    """A spelling that changes makes all earlier signatures and pins worthless; a new one is added here."""
    names = (
        *("decisions/precommit", "decisions/ex-ante", "decisions/reveal", "decisions/calibration"),
        *("custody/seal", "custody/opening"),
        *("campaigns/plan", "campaigns/run", "campaigns/decision", "campaigns/promotion"),
        *("grading/plan", "grading/verdicts", "grading/calibration"),
        *("agentday/plan", "agentday/day", "agentday/grade", "agentday/armory"),
        "trust/rotation",
    )
    assert dict(PREDICATES) == {name: f"https://evalkit.dev/attestation/{name}/v1" for name in names}
    assert len(set(PREDICATES.values())) == len(names)
