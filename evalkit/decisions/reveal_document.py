"""The post-reveal record (``evalkit/decisions-reveal/1``): scores, bindings and openings of a revealed run.

Made once by `evalkit.decisions.calibration` and again, from the published openings, by every verifier.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any

import evalkit
from evalkit.decisions.chain import OpenExAnte
from evalkit.decisions.openings import Opened, require_sealed, to_publish
from evalkit.decisions.record import DecisionRecord
from evalkit.sealing import canonical_json, digest

CONVENTIONS = {
    "brier": "multiclass Brier score: sum over the scenarios of squared error, range 0-2, 0 is best",
    "log": "negative natural log of the probability of the realized scenario, nats, 0 is best",
    "uniform": "the same scores of a forecast that gives every scenario the same probability",
}


def calibrate(probabilities: dict[str, Decimal], realized: str) -> dict[str, Any]:
    """Scores of one forecast over named scenarios against the realized one.

    The sum may differ from one by the tolerance of the record; it is divided out before scoring.
    """
    from evalkit.scoring import brier_score, log_score

    scenarios = sorted(probabilities)
    require_sealed(
        realized in probabilities, f"the mapping names {realized}, which has no probability", "mapping"
    )
    y = [scenarios.index(realized)]
    total = sum(map(Fraction, probabilities.values()))
    p = [[float(Fraction(probabilities[s]) / total) for s in scenarios]]
    uniform = [[1 / len(scenarios)] * len(scenarios)]
    log = float(log_score(y, p))
    return {
        "n_scenarios": len(scenarios),
        "realized_probability": format(probabilities[realized], "f"),
        "brier": float(brier_score(y, p)),
        "brier_uniform": float(brier_score(y, uniform)),
        # JSON has no infinity: a realized scenario with probability zero has no finite log score
        "log": log if log != float("inf") else None,
        "log_uniform": float(log_score(y, uniform)),
    }


def document_of(
    run: OpenExAnte, sealed: Opened, revealed_at: str, release: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The post-reveal record (``evalkit/decisions-reveal/1``) as a JSON value.

    ``release``: the custodian's envelope, where the run has a custodian.
    """
    plan = run.evidence.opened.plan
    threshold = Decimal(plan.nontrivial_probability)
    pair = sealed.catalog.pair
    cases = []
    for case in run.document["cases"]:
        case_id = case["case_id"]
        record = DecisionRecord.from_response(canonical_json(case["response"]["canonical"]))
        realized = sealed.mapping.cases[case_id].realized_scenario_id
        scores = calibrate(record.probabilities(), realized)
        part_b = sealed.part_b[case_id]
        cases.append(
            {
                "case_id": case_id,
                "role": "favorable" if case_id == pair.favorable_case_id else "unfavorable",
                "realized_scenario_id": realized,
                **scores,
                "nontrivial": Decimal(scores["realized_probability"]) >= threshold,
                "outcome_ids": [o.id for o in part_b.outcomes],
                "observable_signal_ids": [s.id for s in part_b.observable_signals],
                "process_quality": part_b.process_quality,
                "realized_return": part_b.realized_return.model_dump(mode="json")
                if part_b.realized_return
                else None,
            }
        )
    return {
        "schema": "evalkit/decisions-reveal/1",
        "phase": "post_reveal_calibration",
        "run_id": plan.run_id,
        "label": plan.contamination,
        "replayed": run.document["replayed"],
        "revealed_at": revealed_at,
        "evalkit_version": evalkit.__version__,
        "conventions": CONVENTIONS,
        "nontrivial_probability": plan.nontrivial_probability,
        "calibration_included_in_ex_ante_total": False,
        "combined_score_prohibited": True,
        "attempts": run.attempts,
        "cases": cases,
        "bindings": _bindings(run, sealed),
        "openings": to_publish(sealed.openings),
        "release": release,
    }


def predicate_of(document: dict[str, Any]) -> dict[str, Any]:
    """The predicate that attests a post-reveal record."""
    return {
        "phase": document["phase"],
        "run_id": document["run_id"],
        "revealed_at": document["revealed_at"],
        **document["bindings"],
    }


def _bindings(run: OpenExAnte, sealed: Opened) -> dict[str, Any]:
    plan = run.evidence.opened.plan
    return {
        "precommit_digest": run.document["precommit_digest"],
        "ex_ante_run_digest": digest(run.document_bytes),
        "ex_ante_attestation_digest": digest(run.attestation_bytes),
        "ex_ante_score_digests": {c["case_id"]: c["score_digest"] for c in run.document["cases"]},
        "mapping_digest": digest(sealed.openings["mapping"].payload),
        "catalog_extract_digest": digest(sealed.openings["catalog"].payload),
        "part_b_digests": {c.case_id: sealed.mapping.cases[c.case_id].part_b_digest for c in plan.cases},
    }
