"""When outcomes may be opened at all: after an attested ex-ante run without a blocker, and once.

Reveal asks this, and so do both sides of a custody: the evaluator before asking for a release, and the custodian
before granting one.
"""

from __future__ import annotations

from evalkit.decisions.chain import OpenExAnte
from evalkit.decisions.plan import Precommit
from evalkit.errors import Blocked, EvalkitError


def refuse_blocked(run: OpenExAnte) -> None:
    """Any blocker in either case stops the reveal of both."""
    blocked = {case: codes for case, codes in run.blockers.items() if codes}
    if blocked:
        named = "; ".join(f"{case}: {', '.join(sorted(set(codes)))}" for case, codes in blocked.items())
        raise Blocked(
            f"the decision record is blocked ({named})",
            where="ex-ante/run.json",
            expected="no blocker in either case",
            do=f"{another_run(run.evidence.opened.plan)}; no total outweighs a blocker, and nothing sealed was"
            " opened",
        )


def another_run(plan: Precommit) -> str:
    """How to go on after a plan of which nothing more can come."""
    if plan.custodian is None:
        return "make another precommit"
    return "ask the custodian for another bundle and make another run of it: a bundle serves one run"


def not_evaluated(where: str) -> Blocked:
    return Blocked(
        "the run is not evaluated yet",
        where=where,
        expected="a signed ex-ante run",
        do="evalkit decisions evaluate RUN --write-run",
    )


def require_releasable(run: OpenExAnte | None, phase: str, where: str) -> OpenExAnte:
    """The verified ex-ante run, if outcomes may be released for it at all."""
    if run is None:
        raise not_evaluated(where)
    if run.evidence.opened.plan.custodian is None:
        raise EvalkitError(
            "this run has no custodian: its custody is self",
            where=where,
            expected="a run made from a custodian's bundle",
            do="evalkit decisions reveal RUN --write-calibration",
        )
    if phase != "ex_ante_scored":
        raise Blocked(
            "this run is revealed already", where=where, expected="one reveal a run", do="evalkit verify RUN"
        )
    refuse_blocked(run)
    return run
