"""Evaluate a sealed plan: verify the evidence, ask once per case, score, and sign before any reveal.

One prompt and one fresh call a case.  The attempt is in the ledger, synced, before the first byte is
sent, whether or not a file is written afterwards: no retry is free.  Nothing here can open Part B, the
mapping or the catalog; the unsealing key is not loaded in this module.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import evalkit
from evalkit.decisions.chain import (
    OpenEvidence,
    OpenPlan,
    load_trust,
    open_evidence,
    open_plan,
    run_directory,
)
from evalkit.decisions.configuration import Model, provider_for
from evalkit.decisions.journal import tells_of_plan
from evalkit.decisions.layout import EX_ANTE, EX_ANTE_FILE
from evalkit.decisions.moments import stamp
from evalkit.decisions.packet import dump
from evalkit.decisions.plan import Precommit
from evalkit.decisions.releasable import another_run
from evalkit.decisions.rubric import score_response
from evalkit.decisions.run_document import check_scorer, predicate_of, response_section
from evalkit.decisions.settling import settle
from evalkit.decisions.supersession import record_superseded
from evalkit.errors import Binding, BindingError, Blocked
from evalkit.models import LiveTrace, ProviderError, Request, call
from evalkit.models.trace import is_live
from evalkit.sealing import (
    PREDICATES,
    Ledger,
    Places,
    Signer,
    canonical_json,
    commit_phase,
    digest,
    load_strict,
    resolve_signer,
)
from evalkit.sealing.signer import signing_key_file

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Evaluation:
    """The result of one attempt: the ex-ante document, and where it was written, if it was."""

    document: dict[str, Any]
    written: Path | None

    def summary(self) -> dict[str, Any]:
        """Phase, identity, per-case eligibility, blocker codes and digests; no outcome, no mix."""
        d = self.document
        return {
            "phase": d["phase"],
            "run_id": d["run_id"],
            "label": d["label"],
            "replayed": d["replayed"],
            "model": d["configuration"]["model"],
            "custody": d["precommit"]["custody"],
            "attempt": d["attempt"],
            "attempts": d["attempts"],
            "part_b_released": d["part_b_released"],
            "eligible": all(c["score"]["eligible"] for c in d["cases"]),
            "cases": [
                {
                    "case_id": c["case_id"],
                    "eligible": c["score"]["eligible"],
                    "blockers": sorted({b["code"] for b in c["score"]["blockers"]}),
                    "findings": c["score"]["blockers"],
                    "process_score": c["score"]["total"],
                    "process_maximum": c["score"]["maximum"],
                    "substantive_human_review_required": True,
                    "prompt_digest": c["prompt_digest"],
                    "response_digest": c["response"]["raw_digest"],
                    "score_digest": c["score_digest"],
                }
                for c in d["cases"]
            ],
            "precommit_digest": d["precommit_digest"],
            "run_digest": digest(canonical_json(d)),
            "written": str(self.written) if self.written else None,
        }

    def to_frame(self) -> pd.DataFrame:
        """One row per case and dimension: case_id, dimension, points, weight."""
        import pandas as pd

        return pd.DataFrame(
            [
                {
                    "case_id": c["case_id"],
                    "dimension": x["title"],
                    "points": float(x["points"]),
                    "weight": x["weight"],
                }
                for c in self.document["cases"]
                for x in c["score"]["dimensions"]
            ]
        )

    def _repr_html_(self) -> str:
        html: str = self.to_frame().pivot(index="dimension", columns="case_id", values="points").to_html()
        return html


def evaluate(
    run_dir: Path | str,
    *,
    write_run: bool = False,
    model: Model | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    observe: Callable[[str], None] = lambda step: None,
) -> Evaluation:
    """Make one attempt at a plan's ex-ante phase.

    Without ``write_run`` nothing is written but the ledger.  ``model``, where given, must be the sealed
    one.  Raises `BindingError`, `Blocked` (evidence, attempts used up) or `ProviderError`.
    """
    places = places or Places.from_environment()
    run_dir = run_directory(Path(run_dir))
    opened = open_plan(run_dir, load_trust(run_dir, trust, places))
    plan = opened.plan
    if model is not None and not opened.model.is_named_by(model):
        raise BindingError(
            Binding.CONFIGURATION,
            f"this plan seals the model {opened.model.label}, not {model.label}",
            where="--model or --replay",
            expected="the sealed model, or no option at all",
            do=f"for another model, {another_run(plan)}",
        )
    evidence = open_evidence(opened)
    check_scorer(plan)
    provider = provider_for(opened.model)
    with signer_of(plan, places, run_dir) as signer:
        ledger = Ledger(places.ledger(signer.key_id), clock=clock)
        settle(run_dir, opened, ledger)
        if not tells_of_plan([entry.record for entry in ledger.entries()], opened):
            raise BindingError(
                Binding.RUN,
                "the signer's ledger does not hold this plan",
                where=str(ledger.path),
                expected="the ledger in which the precommit was recorded",
                do="restore the ledger, or make another precommit",
            )
        record_superseded(plan.supersedes, plan.run_id, ledger, places)
        _check_attempts_left(plan, ledger)
        opened.trust.refuse_unable(signer.key_id, PREDICATES["decisions/ex-ante"], plan.run_id, clock())
        attempt = ledger.begin_attempt(
            plan.run_id,
            EX_ANTE,
            write_run=write_run,
            prompts={c: digest(p) for c, p in evidence.prompts.items()},
        )
        if attempt > plan.attempt_cap:  # another process took the last one meanwhile
            ledger.append(
                "abandoned", run_id=plan.run_id, phase=EX_ANTE, attempt=attempt, reason="beyond the cap"
            )
            raise _no_attempts_left(plan)
        started = clock()
        schema = load_strict(opened.instructions.response_schema)
        try:
            traces = [
                call(provider, Request(prompt, schema), subject=case_id, clock=clock)
                for case_id, prompt in evidence.prompts.items()
            ]
        except ProviderError as error:
            ledger.append(
                "abandoned",
                run_id=plan.run_id,
                phase=EX_ANTE,
                attempt=attempt,
                reason=f"the call failed: {error.kind}",
            )
            raise
        # up to this one: another process may begin the next before this one commits
        attempts = sum(a.number <= attempt for a in ledger.attempts(plan.run_id, EX_ANTE))
        document = _document(evidence, traces, attempt, attempts, started, clock())
        if not write_run:
            ledger.append(
                "abandoned",
                run_id=plan.run_id,
                phase=EX_ANTE,
                attempt=attempt,
                document=digest(canonical_json(document)),
                reason="nothing was to be written",
            )
            return Evaluation(document, None)
        attest(opened, document, traces, attempt, signer, ledger, observe)
    return Evaluation(document, run_dir / EX_ANTE)


def attest(
    opened: OpenPlan,
    document: dict[str, Any],
    traces: list[LiveTrace],
    attempt: int,
    signer: Signer,
    ledger: Ledger,
    observe: Callable[[str], None] = lambda step: None,
) -> None:
    """Commit the run with its attestation, from live traces only (W35).

    Each case of the document must be the very call that a trace of this process made.
    """
    cases = document["cases"]
    holds = len(traces) == len(cases) == 2 and all(
        is_live(trace)
        and trace.coordinates() == case["trace"]
        and trace.subject == case["case_id"]
        and response_section(trace.response.text) == case["response"]
        for trace, case in zip(traces, cases, strict=True)
    )
    if not holds:
        raise BindingError(
            Binding.ATTESTATION,
            "only the live pair of traces of this process can be attested",
            where=EX_ANTE,
            expected="two traces made by evalkit.models.call here, for these responses",
            do="evaluate the plan in this process",
        )
    commit_phase(
        opened.run_dir,
        EX_ANTE,
        EX_ANTE_FILE,
        canonical_json(document),
        predicate_type=PREDICATES["decisions/ex-ante"],
        predicate=lambda head, number: predicate_of(document),
        signer=signer,
        trust=opened.trust,
        ledger=ledger,
        run_id=opened.plan.run_id,
        attempt=attempt,
        segment_from=opened.plan.ledger_head.size,
        observe=observe,
    )


def has_signer(plan: Precommit, places: Places) -> bool:
    """Is there a key here with which this run could be signed?"""
    return os.path.lexists(_key_file(plan, places))


def _key_file(plan: Precommit, places: Places) -> Path:
    """The run's ephemeral key, or the user's own that the plan names, rotated since or not."""
    if plan.ephemeral_keys:
        return places.ephemeral(plan.run_id) / "signing"
    return signing_key_file(places, plan.signing_key_id)


def signer_of(plan: Precommit, places: Places, run_dir: Path) -> Any:
    """The signer that the plan names."""
    signer = resolve_signer(places, key_path=_key_file(plan, places), workspace=[run_dir])
    if signer.key_id != plan.signing_key_id:
        raise BindingError(
            Binding.AUTHORITY,
            "the signing key at hand is not the one that the plan names",
            where=signer.key_id,
            expected=plan.signing_key_id,
            do="evaluate where the plan was made",
        )
    return signer


def _check_attempts_left(plan: Precommit, ledger: Ledger) -> None:
    attempts = ledger.attempts(plan.run_id, EX_ANTE)
    if any(a.state == "committed" for a in attempts):
        raise Blocked(
            "this plan has its ex-ante run already",
            where=f"RUN/{EX_ANTE}",
            expected="one attested run per plan",
            do=f"reveal it, or {another_run(plan)}",
        )
    if len(attempts) >= plan.attempt_cap:
        raise _no_attempts_left(plan)


def _no_attempts_left(plan: Precommit) -> Blocked:
    return Blocked(
        "the only attempt of this plan is used"
        if plan.attempt_cap == 1
        else f"all {plan.attempt_cap} attempts of this plan are used",
        where="ledger",
        expected="fewer attempts than the plan's cap",
        do=f"{another_run(plan)}; this plan stays in the ledger",
    )


def _document(
    evidence: OpenEvidence,
    traces: list[LiveTrace],
    attempt: int,
    attempts: int,
    started: datetime,
    finalized: datetime,
) -> dict[str, Any]:
    """The ex-ante run (``evalkit/decisions-ex-ante/1``) as a JSON value."""
    opened = evidence.opened
    plan = opened.plan
    cases = []
    for trace in traces:
        case_id, response = trace.subject, trace.response
        score = dump(score_response(response.text, evidence.parts[case_id].packet, opened.rubric))
        cases.append(
            {
                "case_id": case_id,
                "verification": dump(evidence.verifications[case_id]),
                "prompt_digest": digest(evidence.prompts[case_id]),
                "transmitted_prompt_digest": response.transmitted_prompt_digest,
                "response_schema_digest": digest(opened.instructions.response_schema),
                "response": response_section(response.text),
                "trace": trace.coordinates(),
                "score": score,
                "score_digest": digest(canonical_json(score)),
            }
        )
    return {
        "schema": "evalkit/decisions-ex-ante/1",
        "phase": "ex_ante_scored",
        "part_b_released": False,
        "run_id": plan.run_id,
        "label": plan.contamination,
        "replayed": all(t.response.replayed for t in traces),
        "attempt": attempt,
        "attempts": attempts,
        "started_at": stamp(started),
        "finalized_at": stamp(finalized),
        "evalkit_version": evalkit.__version__,
        "precommit": dump(plan),
        "precommit_digest": opened.digest,
        "configuration": opened.model.configuration,
        "configuration_digest": plan.model_digest,
        "scorer_digest": plan.scorer_digest,
        "cases": cases,
    }
