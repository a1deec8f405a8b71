"""The ex-ante run file (``evalkit/decisions-ex-ante/1``): its sections, their digests, their replay.

`predicate_of` lists every digest that the attestation carries, so that a changed file can be traced to the
section that was changed (`differs`); `replay` recomputes each binding from the plan and Part A.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from evalkit.decisions.configuration import provider_for
from evalkit.decisions.layout import EX_ANTE, EX_ANTE_FILE, MALFORMED
from evalkit.decisions.moments import instant
from evalkit.decisions.packet import dump
from evalkit.decisions.rubric import score_response, scorer_digest
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.models import Request
from evalkit.sealing import Verified, canonical_json, digest, load_canonical, load_strict

if TYPE_CHECKING:
    from evalkit.decisions.chain import OpenEvidence
    from evalkit.decisions.plan import Precommit


def predicate_of(document: dict[str, Any]) -> dict[str, Any]:
    """The predicate that attests an ex-ante run: every digest, section by section."""
    return {
        "run_id": document["run_id"],
        "phase": document["phase"],
        "part_b_released": document["part_b_released"],
        "attempt": document["attempt"],
        "replayed": document["replayed"],
        "precommit_digest": digest(canonical_json(document["precommit"])),
        "configuration_digest": digest(canonical_json(document["configuration"])),
        "scorer_digest": document["scorer_digest"],
        "cases": [
            {
                "case_id": c["case_id"],
                "verification_digest": digest(canonical_json(c["verification"])),
                "prompt_digest": c["prompt_digest"],
                "transmitted_prompt_digest": c["transmitted_prompt_digest"],
                "response_schema_digest": c["response_schema_digest"],
                "raw_response_digest": digest(raw_of(c["response"])),
                "canonical_response_digest": digest(canonical_json(c["response"]["canonical"])),
                "trace_digest": digest(canonical_json(c["trace"])),
                "score_digest": digest(canonical_json(c["score"])),
            }
            for c in document["cases"]
        ],
    }


_SECTIONS: list[tuple[str, Binding]] = [
    ("precommit_digest", Binding.PRECOMMIT),
    ("configuration_digest", Binding.CONFIGURATION),
    ("scorer_digest", Binding.SCORE),
]
_CASE_SECTIONS: list[tuple[str, Binding]] = [
    ("verification_digest", Binding.PART_A),
    ("prompt_digest", Binding.PROMPT),
    ("transmitted_prompt_digest", Binding.PROMPT),
    ("response_schema_digest", Binding.PROMPT),
    ("raw_response_digest", Binding.RESPONSE),
    ("canonical_response_digest", Binding.RESPONSE),
    ("trace_digest", Binding.CONFIGURATION),
    ("score_digest", Binding.SCORE),
]


def differs(document_bytes: bytes, verified: Verified) -> BindingError:
    """The run file is not the attested one: say which section of it was changed, if that shows."""
    signed = verified.predicate
    try:
        found = predicate_of(load_canonical(document_bytes))
    except (EvalkitError, *MALFORMED):
        found = {}
    binding, what = Binding.ATTESTATION, "run.json is not the file that was attested"
    for name, section in _SECTIONS:
        if found and found[name] != signed.get(name):
            binding, what = section, f"{name} of run.json is not the attested one"
            break
    else:
        for mine, theirs in zip(found.get("cases", []), signed.get("cases", []), strict=False):
            wrong = [(n, b) for n, b in _CASE_SECTIONS if mine[n] != theirs.get(n)]
            if wrong:
                name, binding = wrong[0]
                what = f"{name} of {theirs.get('case_id')} is not the attested one"
                break
    return BindingError(
        binding,
        what,
        where=f"{EX_ANTE}/{EX_ANTE_FILE}",
        expected=verified.subject_digest,
        do="restore the file that was attested",
    )


_FIELDS = frozenset(
    (
        "schema",
        "phase",
        "part_b_released",
        "run_id",
        "label",
        "replayed",
        "attempt",
        "attempts",
        "started_at",
        "finalized_at",
        "evalkit_version",
        "precommit",
        "precommit_digest",
        "configuration",
        "configuration_digest",
        "scorer_digest",
        "cases",
    )
)
_CASE_FIELDS = frozenset(
    (
        "case_id",
        "verification",
        "prompt_digest",
        "transmitted_prompt_digest",
        "response_schema_digest",
        "response",
        "trace",
        "score",
        "score_digest",
    )
)


def replay(document: Any, evidence: OpenEvidence) -> None:
    """Recompute every binding of a run file from the plan and Part A."""
    try:
        _replay(document, evidence)
    except MALFORMED as error:
        raise BindingError(
            Binding.RUN,
            f"the file is no ex-ante run ({type(error).__name__})",
            where=f"{EX_ANTE}/{EX_ANTE_FILE}",
            expected="a file of the form evalkit/decisions-ex-ante/1",
            do="do not trust this run: make a new one",
        ) from None


#: what `LiveTrace.coordinates` records
TRACE_FIELDS = {
    "subject",
    "configuration_digest",
    "requested_model",
    "served_model",
    "transmitted_prompt_digest",
    "request_digest",
    "body_digest",
    "replayed",
    "usage",
    "started_at",
}


def without_ledger(predicate: dict[str, Any]) -> dict[str, Any]:
    """A predicate but for what signing adds to it: the ledger's head and the time."""
    return {k: v for k, v in predicate.items() if k not in ("ledger", "signed_at")}


def same(one: Any, other: Any) -> bool:
    """Are two JSON values the same bytes?  (In Python 1 == True == 1.0.)"""
    return canonical_json(one) == canonical_json(other)


def _replay(document: Any, evidence: OpenEvidence) -> None:
    opened = evidence.opened
    plan = opened.plan

    def require(holds: bool, binding: Binding, what: str, case: str = "") -> None:
        if not holds:
            raise BindingError(
                binding,
                what,
                where=f"{EX_ANTE}/{EX_ANTE_FILE}{f', case {case}' if case else ''}",
                expected="what the plan, Part A and the scorer give when they are replayed",
                do="do not trust this run: make a new one",
            )

    check_scorer(plan)
    require(
        set(document) == _FIELDS
        and all(set(case) == _CASE_FIELDS for case in document["cases"])
        and document["schema"] == "evalkit/decisions-ex-ante/1"
        and document["phase"] == "ex_ante_scored"
        and document["part_b_released"] is False
        and all(instant(document[name]) for name in ("started_at", "finalized_at")),
        Binding.RUN,
        "the file is no ex-ante run",
    )
    require(document["label"] == plan.contamination, Binding.PRECOMMIT, "its label is not the plan's")
    require(document["run_id"] == plan.run_id, Binding.PRECOMMIT, "it is the run of another plan")
    require(
        canonical_json(document["precommit"]) == opened.plan_bytes
        and document["precommit_digest"] == opened.digest,
        Binding.PRECOMMIT,
        "it holds another plan than plan.json",
    )
    require(
        same(document["configuration"], plan.model) and document["configuration_digest"] == plan.model_digest,
        Binding.CONFIGURATION,
        "its configuration is not the plan's",
    )
    require(document["scorer_digest"] == plan.scorer_digest, Binding.SCORE, "it names another scorer")
    require(
        document["replayed"] is (plan.model.get("adapter") == "replay"),
        Binding.CONFIGURATION,
        "its label 'replayed' is wrong",
    )
    require(
        [c["case_id"] for c in document["cases"]] == plan.pair.order,
        Binding.PRECOMMIT,
        "its cases are not the plan's pair in the plan's order",
    )
    # the baseline and a replay give the same answer to the same prompt, here as there
    answers = None if plan.model.get("adapter") == "openai" else provider_for(opened.model)
    for case in document["cases"]:
        case_id = case["case_id"]
        prompt = digest(evidence.prompts[case_id])
        require(
            same(case["verification"], dump(evidence.verifications[case_id])),
            Binding.PART_A,
            "its verification record is not what Part A gives",
            case_id,
        )
        require(
            case["prompt_digest"] == prompt and case["transmitted_prompt_digest"] == prompt,
            Binding.PROMPT,
            "its prompt is not the one that the plan and Part A give",
            case_id,
        )
        require(
            case["response_schema_digest"] == plan.instructions["response_schema"],
            Binding.PROMPT,
            "its response schema is not the plan's",
            case_id,
        )
        response, trace = case["response"], case["trace"]
        raw = raw_of(response)
        require(
            same(response, response_section(raw)),
            Binding.RESPONSE,
            "its raw and canonical response do not belong together",
            case_id,
        )
        require(
            trace["configuration_digest"] == plan.model_digest
            and trace["transmitted_prompt_digest"] == prompt
            and trace["subject"] == case_id,
            Binding.CONFIGURATION,
            "its trace is of another call",
            case_id,
        )
        require(
            trace["replayed"] is document["replayed"] and trace.keys() == TRACE_FIELDS,
            Binding.CONFIGURATION,
            "its trace does not say what a trace says",
            case_id,
        )
        if answers is not None:
            given = answers.complete(Request(evidence.prompts[case_id])).text
            require(raw == given, Binding.RESPONSE, "its answer is not the one that its model gives", case_id)
        score = dump(score_response(raw, evidence.parts[case_id].packet, opened.rubric))
        require(
            same(case["score"], score) and case["score_digest"] == digest(canonical_json(score)),
            Binding.SCORE,
            "its score does not replay",
            case_id,
        )


def response_section(raw: bytes) -> dict[str, Any]:
    """A raw response as a run file holds it: as text, or in base64 where it is no UTF-8."""
    try:
        text, encoding = raw.decode(), "utf-8"
    except UnicodeDecodeError:
        text, encoding = base64.b64encode(raw).decode(), "base64"
    canonical = canonical_response(raw)
    return {
        "raw": text,
        "raw_encoding": encoding,
        "raw_digest": digest(raw),
        "canonical": canonical,
        "canonical_digest": digest(canonical_json(canonical)),
    }


def raw_of(response: dict[str, Any]) -> bytes:
    """The raw bytes of a response section."""
    text: str = response["raw"]
    return base64.b64decode(text, validate=True) if response["raw_encoding"] == "base64" else text.encode()


def canonical_response(raw: bytes) -> Any:
    """The JSON value of a raw response, or None where it is no JSON that a run file can hold."""
    try:
        value = load_strict(raw)
        # What is read may still not be writable: a float beyond 2^53, or nesting that is full
        canonical_json({"cases": [{"response": {"canonical": value}}]})
    except EvalkitError:
        return None
    return value


def check_scorer(plan: Precommit) -> None:
    """The scorer must be the one that was sealed: otherwise a score cannot be replayed."""
    if scorer_digest() != plan.scorer_digest:
        raise BindingError(
            Binding.SCORE,
            "the scorer of this installation is not the one that the plan seals",
            where="evalkit.decisions",
            expected=plan.scorer_digest,
            do=f"use evalkit {plan.evalkit_version}, with which the plan was made",
        )
