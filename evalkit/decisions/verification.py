"""Verify a run as a third party: the run folder and one's own trust file, nothing else.

Nothing is opened that the run did not publish itself: before a reveal the sealed packets stay shut, after
it the published openings are checked against the plan's commitments and the scores are computed again.
Each line says whether it is proven, a policy that was declared, or not proven by these files.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, get_args

from evalkit.decisions.chain import (
    OpenEvidence,
    OpenExAnte,
    OpenPlan,
    check_signer,
    load_trust,
    open_evidence,
    open_ex_ante,
    open_plan,
    run_directory,
)
from evalkit.decisions.claims import Line, Status, counted
from evalkit.decisions.custody.bundle import check_custodian
from evalkit.decisions.custody.claims import custody_limits, plan_claims, release_claims
from evalkit.decisions.custody.opening import Release, check_release, check_revealed_after
from evalkit.decisions.journal import (
    check_committed,
    check_covered,
    check_dated,
    check_signed_at,
    open_journal,
)
from evalkit.decisions.layout import EX_ANTE, MALFORMED, REVEAL, REVEAL_FILE, about_extra
from evalkit.decisions.moments import instant
from evalkit.decisions.openings import published, sealed_packets
from evalkit.decisions.prompt import Instructions
from evalkit.decisions.reveal_document import document_of, predicate_of
from evalkit.decisions.run_document import same, without_ledger
from evalkit.decisions.settling import OPTIONAL, REPORTS, REQUIRED
from evalkit.decisions.supersession import check_superseded
from evalkit.decisions.timestamps import ENVELOPES, PRECOMMIT, claims
from evalkit.errors import Binding, BindingError, located
from evalkit.sealing import (
    PREDICATES,
    Head,
    Places,
    Verified,
    digest,
    load_canonical,
    read_phase,
)
from evalkit.sealing import verify as verify_envelope
from evalkit.sealing.ledger import require_intent


@dataclass(frozen=True)
class VerificationReport:
    """What the files of a run show."""

    run_id: str
    phase: str
    trust_path: str
    trust_digest: str
    lines: tuple[Line, ...]
    evidence: OpenEvidence = field(repr=False)
    attempts: int
    ex_ante: dict[str, Any] | None = field(repr=False)
    calibration: dict[str, Any] | None = field(repr=False)
    run: OpenExAnte | None = field(repr=False)
    heads: tuple[Head, ...] = field(repr=False)

    def summary(self) -> dict[str, Any]:
        return {
            "run_id": self.run_id,
            "phase": self.phase,
            "trust": {"path": self.trust_path, "digest": self.trust_digest},
            "lines": [{"status": x.status, "text": x.text, "detail": x.detail} for x in self.lines],
        }

    def __str__(self) -> str:
        """What is proven, then what is policy, then what is not proven; a last line that counts them."""
        head = [f"run {self.run_id}, phase {self.phase}", f"trust {self.trust_path} {self.trust_digest}"]
        grouped = {status: [x for x in self.lines if x.status == status] for status in get_args(Status)}
        counts = ", ".join(f"{len(lines)} {status}" for status, lines in grouped.items())
        lines = [str(line) for group in grouped.values() for line in group]
        return "\n".join([*head, *lines, f"verified: nothing failed; {counts}"])


def verify_run(
    run_dir: Path | str, *, trust: Path | None = None, places: Places | None = None
) -> VerificationReport:
    """Verify a decision run.  Raises `BindingError` naming the first binding that fails."""
    run_dir = run_directory(Path(run_dir))
    _check_entries(run_dir)
    opened = open_plan(run_dir, load_trust(run_dir, trust, places))
    evidence = open_evidence(opened)
    lines = [*_plan_lines(opened), *_caveat_lines(opened.attestation)]
    phase, attempts, ex_ante, calibration = "precommitted", 0, None, None
    run: OpenExAnte | None = None
    heads = [Head.from_record(opened.attestation.predicate.get("ledger"))]
    if os.path.lexists(run_dir / EX_ANTE):
        run = open_ex_ante(evidence)
        ex_ante, attempts = run.document, run.attempts
        heads.append(run.signed_head)
        phase = str(ex_ante["phase"])
        lines += [*_ex_ante_lines(run), *_caveat_lines(run.attestation)]
        # what stands behind the signed head, anybody could have written
        signed = [record for record in run.journal if record["seq"] < run.signed_head.size]
        lines += check_superseded(opened.plan.supersedes, opened.plan.run_id, signed, attempted=True)
        if os.path.lexists(run_dir / REVEAL):
            calibration, attestation, release = _check_reveal(run)
            heads.append(Head.from_record(attestation.predicate.get("ledger")))
            phase = str(calibration["phase"])
            lines += [*_reveal_lines(calibration), *_caveat_lines(attestation)]
            lines += release_claims(release) if release else []
        else:
            _refuse_removed(REVEAL, opened, run.journal)
            sealed_packets(run_dir, opened.plan)
            lines.append(
                Line("proven", "catalog, mapping and Part B are the ciphertexts that the plan names")
            )
    elif os.path.lexists(run_dir / REVEAL):
        raise BindingError(
            Binding.RUN,
            "there is a reveal without an ex-ante run",
            where=str(run_dir),
            expected="ex-ante before reveal",
            do="restore the ex-ante folder",
        )
    else:
        sealed_packets(run_dir, opened.plan)
        journal = open_journal(opened)
        _refuse_removed(EX_ANTE, opened, journal)
        lines += check_superseded(opened.plan.supersedes, opened.plan.run_id, journal, attempted=False)
    lines += [
        Line(*claim)
        for claim in claims(
            opened.stamps, planned=opened.plan.created_at, ex_ante=ex_ante, calibration=calibration
        )
    ]
    lines += _limits(opened)
    return VerificationReport(
        run_id=opened.plan.run_id,
        phase=phase,
        trust_path=str(opened.trust.path),
        trust_digest=opened.trust.digest,
        lines=tuple(lines),
        evidence=evidence,
        attempts=attempts,
        ex_ante=ex_ante,
        calibration=calibration,
        run=run,
        heads=tuple(heads),
    )


def _refuse_removed(phase: str, opened: OpenPlan, journal: list[dict[str, Any]]) -> None:
    """A phase that the journal says was committed must be there: nobody hides a result."""
    wanted = ("committed", opened.plan.run_id, phase)
    if any((r["event"], r.get("run_id"), r.get("phase")) == wanted for r in journal):
        raise BindingError(
            Binding.RUN,
            f"the journal says that the phase {phase} was committed, and it is not there",
            where=str(opened.run_dir / phase),
            expected="its document and attestation",
            do="restore the folder",
        )


def _check_entries(run_dir: Path) -> None:
    """Nothing lies in a run folder that no format names."""
    allowed = {*REQUIRED, *OPTIONAL, EX_ANTE, REVEAL}
    for name in REPORTS:
        if os.path.lexists(run_dir / name) and not stat.S_ISREG((run_dir / name).lstat().st_mode):
            raise BindingError(
                Binding.RUN,
                f"{name} is no regular file",
                where=str(run_dir),
                expected="a report, or none",
                do="remove it",
            )
    extra = sorted(p.name for p in run_dir.iterdir() if p.name not in allowed)
    if extra:
        raise BindingError(
            Binding.RUN,
            f"the run folder holds {', '.join(extra)}",
            where=str(run_dir),
            expected=", ".join(sorted(allowed)),
            do=about_extra(extra),
        )


def _plan_lines(opened: OpenPlan) -> list[Line]:
    plan = opened.plan
    return [
        Line(
            "proven", "the plan was signed by a key that your trust file pins", opened.attestation.key.key_id
        ),
        *_instruction_lines(opened),
        Line(
            "proven",
            "Part A of both cases is the one that was sealed and passes its quality control again with exactly"
            " the accepted warnings; nothing in it is dated after the cutoff",
            ", ".join(plan.pair.order),
        ),
        *plan_claims(plan, check_custodian(plan, opened.trust, attested_at=opened.stamps.known(PRECOMMIT))),
        Line("policy", f"verification mode {plan.verification_mode}: no artifact bytes were replayed"),
        Line("policy", f"label {plan.contamination}"),
        Line(
            "policy",
            f"a realized scenario counts as not ruled out from probability {plan.nontrivial_probability}",
        ),
        Line("policy", f"at most {counted(plan.attempt_cap, 'attempt')}"),
    ]


def _caveat_lines(attestation: Verified) -> list[Line]:
    """What the signature alone does not prove of its time (evalkit.sealing.envelope)."""
    return [Line("not proven", caveat, attestation.subject_name) for caveat in attestation.caveats]


def _instruction_lines(opened: OpenPlan) -> list[Line]:
    own = Instructions.shipped().digests() == opened.plan.instructions
    said = "prompt template, response schema and rubric are those of the plan"
    if own:
        return [Line("proven", f"{said}, and evalkit's own")]
    return [
        Line("proven", said),
        Line("not proven", "that they are fair: they are not the ones that this version of evalkit ships"),
    ]


def _ex_ante_lines(run: OpenExAnte) -> list[Line]:
    d = run.document
    blocked = {case: codes for case, codes in run.blockers.items() if codes}
    named = "; ".join(f"{case}: {', '.join(sorted(set(codes)))}" for case, codes in blocked.items())
    return [
        Line("proven", "the run was signed over every digest in it", run.attestation.key.key_id),
        Line(
            "proven",
            "prompts and configuration follow from the plan and Part A, and the scores from the signed"
            " responses",
        ),
        Line(
            "proven",
            "the journal is unbroken from the plan to the signed head; this many attempts are in it",
            f"attempt {d['attempt']} of {run.attempts}",
        ),
        *_rivals(run),
        Line("proven", "a blocker stands: reveal refuses this run", named)
        if blocked
        else Line("proven", "neither record has a blocker"),
        *_answer_lines(d),
    ]


def _answer_lines(d: dict[str, Any]) -> list[Line]:
    """Where the answers came from, as far as files can show it."""
    if d["replayed"]:
        return [
            Line("proven", "the answers are those of the sealed replay file"),
            Line("not proven", "that a model gave these answers: they were replayed from a file"),
        ]
    if d["configuration"]["adapter"] == "callable":
        return [Line("proven", "the answers are what the baseline gives to these prompts")]
    return [
        Line("not proven", "that the answers came from the model named: the evaluator's key vouches for it"),
    ]


def _rivals(run: OpenExAnte) -> list[Line]:
    """Other plans of the same signer: many plans, the best one shown, is a way to cheat."""
    plan = run.evidence.opened.plan
    if plan.ephemeral_keys and run.attestation.key.ephemeral:
        # a key made for one run has a ledger of its own, which shows nothing of other plans; that it was made
        # for one run, the verifier's own trust file must say as well
        return []
    size = run.signed_head.size  # what stands behind it, anybody could have written
    made = [r.get("document") for r in run.journal if r["event"] == "precommit" and r["seq"] < size]
    # by digest; an entry without one is of no plan that could be shown
    count = len({d for d in made if isinstance(d, str)} - {run.evidence.opened.digest})
    return [
        Line(
            "proven",
            "the journal shows the plans that this signer made between plan and run",
            counted(count, "other plan"),
        ),
        Line(
            "not proven",
            "what this signer did before this plan: the entries before it are not in the run",
            counted(plan.ledger_head.size, "entry"),
        ),
    ]


def _reveal_lines(calibration: dict[str, Any]) -> list[Line]:
    return [
        Line("proven", "catalog, mapping and both Part Bs open to what the plan committed to"),
        Line(
            "proven",
            "the reveal binds this very run, and its scores come out again",
            f"revealed {calibration['revealed_at']}",
        ),
    ]


def _limits(opened: OpenPlan) -> list[Line]:
    lines = [
        Line("not proven", "that a cited record supports the sentence citing it: a person must review that"),
        Line("not proven", "that the model does not remember the case: it is named"),
    ]
    lines += custody_limits(opened.plan)
    lines.append(Line("not proven", "that no other plan or attempt was made, with this key or another"))
    if any((opened.run_dir / name).exists() for name in REPORTS):
        lines.append(Line("not proven", "anything that report.html says: make your own with evalkit report"))
    return lines


def _check_reveal(run: OpenExAnte) -> tuple[dict[str, Any], Verified, Release | None]:
    """Verify the reveal's attestation, its openings and its numbers against run and plan."""
    try:
        return _checked_reveal(run)
    except MALFORMED as error:
        raise _wrong(Binding.RUN, f"this is no post-reveal record ({type(error).__name__})") from None


def _checked_reveal(run: OpenExAnte) -> tuple[dict[str, Any], Verified, Release | None]:
    opened = run.evidence.opened
    plan = opened.plan
    document_bytes, envelope = read_phase(opened.run_dir, REVEAL, REVEAL_FILE)
    with located(ENVELOPES[REVEAL]):
        verified = verify_envelope(
            envelope,
            subject_name=REVEAL_FILE,
            predicate_type=PREDICATES["decisions/reveal"],
            trust=opened.trust,
            run_id=plan.run_id,
            attested_at=opened.stamps.attested_at(REVEAL, envelope),
        )
    check_signer(verified, plan, ENVELOPES[REVEAL])
    with located(f"{REVEAL}/{REVEAL_FILE}"):
        verified.check_subject(document_bytes)
    document: dict[str, Any] = load_canonical(document_bytes)
    attempt = verified.predicate.get("attempt")
    if not same(without_ledger(verified.predicate), predicate_of(document) | {"attempt": attempt}):
        raise _wrong(Binding.ATTESTATION, "the attestation's digests are not those of calibration.json")
    sealed = published(opened.run_dir, plan, document["openings"])
    release = _release(document, run)
    if document["bindings"]["ex_ante_run_digest"] != digest(run.document_bytes) or document["bindings"][
        "ex_ante_attestation_digest"
    ] != digest(run.attestation_bytes):
        raise _wrong(Binding.ATTESTATION, "the reveal binds another ex-ante run")
    if instant(document["revealed_at"]) < instant(run.document["finalized_at"]):
        raise _wrong(Binding.RUN, "the reveal is dated before the run was final")
    if any(run.blockers.values()):
        raise _wrong(Binding.RUN, "a blocked run was revealed")
    if document["combined_score_prohibited"] is not True or document["calibration_included_in_ex_ante_total"]:
        raise _wrong(Binding.RUN, "the record allows a combined score")
    again = document_of(run, sealed, document["revealed_at"], release.envelope if release else None) | {
        "evalkit_version": document["evalkit_version"]
    }
    wrong = sorted(
        k
        for k in again.keys() | document.keys()
        if k not in again or k not in document or not same(document[k], again[k])
    )
    if wrong:
        raise _wrong(Binding.SCORE, f"{', '.join(wrong)} of the calibration do not come out again")
    journal = run.journal
    head = Head.from_record(verified.predicate.get("ledger"))
    check_covered(journal, head)
    if type(attempt) is not int:
        raise _wrong(Binding.RUN, "the attestation has no number of its attempt")
    require_intent(
        journal, head, run_id=plan.run_id, phase=REVEAL, attempt=attempt, document=digest(document_bytes)
    )
    check_dated(document["revealed_at"], journal, since=run.document["finalized_at"], until=head)
    check_signed_at(journal, verified)
    check_committed(journal, plan_run_id=plan.run_id, phase=REVEAL, pair=(document_bytes, envelope))
    return document, verified, release


def _release(document: dict[str, Any], run: OpenExAnte) -> Release | None:
    """The custodian's word for this reveal, where the run has a custodian; else there must be none."""
    if run.evidence.opened.plan.custodian is None:
        if document["release"] is not None:
            raise _wrong(Binding.ATTESTATION, "there is a release, and the run has no custodian")
        return None
    release = check_release(run, document["openings"], document["release"])
    check_revealed_after(release, document["revealed_at"])
    return release


def _wrong(binding: Binding, what: str) -> BindingError:
    return BindingError(
        binding,
        what,
        where=f"{REVEAL}/{REVEAL_FILE}",
        expected="a record made by reveal from this run",
        do="do not use this record",
    )
