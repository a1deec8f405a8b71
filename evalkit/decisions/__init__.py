"""Sealed decisions: freeze the evidence, capture the decision, score the process, sign, then reveal.

The flow is `precommit` (instructor), `evaluate` (agent's side), `reveal`, and `verify_run` for anybody.
With a custodian (`evalkit.decisions.custody`): `seal_bundle` and `release` are hers, `write_request` the evaluator's.
Process score and calibration are two results; nothing combines them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from evalkit.lazy import lazy_attributes

if TYPE_CHECKING:
    from evalkit.decisions.calibration import Calibration as Calibration
    from evalkit.decisions.calibration import reveal as reveal
    from evalkit.decisions.configuration import configure as configure
    from evalkit.decisions.custody.release import release as release
    from evalkit.decisions.custody.request import write_request as write_request
    from evalkit.decisions.custody.sealing import seal_bundle as seal_bundle
    from evalkit.decisions.evaluation import Evaluation as Evaluation
    from evalkit.decisions.evaluation import evaluate as evaluate
    from evalkit.decisions.findings import Blocker as Blocker
    from evalkit.decisions.importing import import_cases as import_cases
    from evalkit.decisions.packet import Packet as Packet
    from evalkit.decisions.plan import Precommit as Precommit
    from evalkit.decisions.precommitment import new_run_id as new_run_id
    from evalkit.decisions.precommitment import precommit as precommit
    from evalkit.decisions.record import DecisionRecord as DecisionRecord
    from evalkit.decisions.verification import verify_run as verify_run

_HOME = {
    "Blocker": "findings",
    "configure": "configuration",
    "release": "custody.release",
    "write_request": "custody.request",
    "seal_bundle": "custody.sealing",
    "Evaluation": "evaluation",
    "evaluate": "evaluation",
    "import_cases": "importing",
    "Packet": "packet",
    "Precommit": "plan",
    "new_run_id": "precommitment",
    "precommit": "precommitment",
    "DecisionRecord": "record",
    "Calibration": "calibration",
    "reveal": "calibration",
    "verify_run": "verification",
}
__all__ = sorted(_HOME)
__getattr__ = lazy_attributes(__name__, _HOME)
