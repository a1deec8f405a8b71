"""From a run folder to a verified run, in one order only.

Each step takes what the step before returned, so that nothing can be used that was not verified:

1. `open_plan`: the plan's attestation by a pinned key, then the plan, then the instructions and the
   replay file that it seals.
2. `open_evidence`: Part A of both cases by digest, then times, quality control and exact warnings.
3. `open_ex_ante`: the run's attestation by a pinned key, then the run file against it, then every
   binding replayed for both cases: precommit, configuration, prompt, response, score, ledger.

No step opens anything below ``RUN/sealed``.  Every failure is a `BindingError` that names its binding;
evidence that is authentic but does not verify is `Blocked`.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.decisions.case import PART_A_FILES, PartA, Verification, part_a, verify_part_a
from evalkit.decisions.configuration import REPLAY_FILE, Model
from evalkit.decisions.custody.bundle import check_custodian, is_bundle
from evalkit.decisions.journal import attempts_begun, attested_journal, check_committed, check_signed_at
from evalkit.decisions.layout import (
    EX_ANTE,
    EX_ANTE_FILE,
    INSTRUCTIONS,
    JOURNAL,
    about_extra,
    read_bound,
    sealed_file,
)
from evalkit.decisions.plan import PLAN, PLAN_ATTESTATION, Precommit, predicate_of_plan
from evalkit.decisions.prompt import Instructions, build_prompt
from evalkit.decisions.run_document import differs, predicate_of, replay, same, without_ledger
from evalkit.decisions.timestamps import ENVELOPES, PRECOMMIT, Stamps
from evalkit.errors import Binding, BindingError, EvalkitError, located
from evalkit.sealing import (
    PREDICATES,
    Head,
    Places,
    Trust,
    Verified,
    canonical_json,
    digest,
    load_canonical,
    load_strict,
    read_phase,
    trust_path,
    verify,
)


@dataclass(frozen=True)
class OpenPlan:
    """A plan that a pinned key signed, with what it seals in the clear."""

    run_dir: Path
    plan: Precommit
    plan_bytes: bytes
    attestation: Verified
    trust: Trust
    instructions: Instructions
    model: Model
    stamps: Stamps

    @property
    def digest(self) -> str:
        return digest(self.plan_bytes)

    @property
    def rubric(self) -> dict[str, Any]:
        value = load_strict(self.instructions.rubric)
        assert isinstance(value, dict)
        return value


@dataclass(frozen=True)
class OpenEvidence:
    """Verified Part A of both cases, in the sealed order, and the prompts that follow from it."""

    opened: OpenPlan
    parts: dict[str, PartA]
    verifications: dict[str, Verification]
    prompts: dict[str, bytes]


@dataclass(frozen=True)
class OpenExAnte:
    """An attested ex-ante run whose every binding was replayed."""

    evidence: OpenEvidence
    document: dict[str, Any]
    document_bytes: bytes
    attestation: Verified
    attestation_bytes: bytes
    journal: list[dict[str, Any]]

    @property
    def signed_head(self) -> Head:
        return Head.from_record(self.attestation.predicate["ledger"])

    @property
    def attempts(self) -> int:
        """How many attempts had been begun when this one was signed: the journal's count, not the run's."""
        return len(attempts_begun(self.journal, self.evidence.opened.plan.run_id, self.signed_head))

    @property
    def blockers(self) -> dict[str, list[str]]:
        """Case id -> codes of its blockers."""
        return {c["case_id"]: [b["code"] for b in c["score"]["blockers"]] for c in self.document["cases"]}


def run_directory(run_dir: Path) -> Path:
    """The absolute path of a run folder.  Raises `EvalkitError` where there is none."""
    path = Path(os.path.abspath(run_dir))  # noqa: PTH100 - resolve() would follow a symlinked run
    if path.is_symlink():
        raise BindingError(
            Binding.RUN,
            "the run folder is a symbolic link",
            where=str(path),
            expected="the folder itself",
            do="name the folder that it points to",
        )
    if not path.is_dir():
        raise EvalkitError(
            "there is no such run folder",
            where=str(path),
            expected="a folder made by `evalkit decisions precommit`",
            do="check the path",
        )
    _refuse_other_folder(path)
    return path


def _refuse_other_folder(path: Path) -> None:
    """A run that lost its plan still has the plan's attestation or the journal; what has none of these is no run."""
    if any(os.path.lexists(path / name) for name in (PLAN, PLAN_ATTESTATION, JOURNAL)):
        return
    if is_bundle(path):
        raise EvalkitError(
            "this is a custodian's bundle, not a run",
            where=str(path),
            expected="a folder made by `evalkit decisions precommit`",
            do="make a run of it: evalkit decisions precommit BUNDLE --out RUN",
        )
    raise EvalkitError(
        "this is no run folder",
        where=str(path),
        expected=f"a folder made by `evalkit decisions precommit`, with {PLAN} in it",
        do="name the run's own folder",
    )


def load_trust(run_dir: Path, trust: Path | None, places: Places | None) -> Trust:
    """The verifier's own trust file: the one named, else the user's."""
    return Trust.load(trust_path(trust, places or Places.from_environment()), [run_dir])


def open_plan(run_dir: Path, trust: Trust) -> OpenPlan:
    """Step 1.  The plan is read once; its attestation must be by a pinned key."""
    run_dir = run_directory(run_dir)
    plan_bytes = read_bound(run_dir, PLAN, Binding.PRECOMMIT)
    envelope = read_bound(run_dir, PLAN_ATTESTATION, Binding.ATTESTATION)
    stamps = Stamps(run_dir, trust)
    run_id = _stated_run_id(plan_bytes)
    with located(PLAN_ATTESTATION):
        verified = verify(
            envelope,
            subject_name=PLAN,
            predicate_type=PREDICATES["decisions/precommit"],
            trust=trust,
            run_id=run_id,
            attested_at=stamps.attested_at(PRECOMMIT, envelope),
        )
    if verified.subject_digest != digest(plan_bytes):
        raise BindingError(
            Binding.PRECOMMIT,
            "plan.json is not the plan that was signed",
            where=str(run_dir / PLAN),
            expected=verified.subject_digest,
            do="restore the plan; a plan is never edited, only superseded",
        )
    plan = Precommit.from_json(plan_bytes)
    check_signer(verified, plan, PLAN_ATTESTATION)
    _check_said(verified, plan, digest(plan_bytes))
    check_custodian(plan, trust, attested_at=stamps.known(PRECOMMIT))
    if [c.case_id for c in plan.cases] != plan.pair.order or not len(plan.pair.order) == len(
        set(plan.pair.order)
    ) == 2:
        raise BindingError(
            Binding.PRECOMMIT,
            "the plan's cases are not its ordered pair",
            where=PLAN,
            expected=", ".join(plan.pair.order),
            do="make a new run",
        )
    return OpenPlan(
        run_dir=run_dir,
        plan=plan,
        plan_bytes=plan_bytes,
        attestation=verified,
        trust=trust,
        instructions=_instructions(run_dir, plan),
        model=_model(run_dir, plan),
        stamps=stamps,
    )


def _check_said(verified: Verified, plan: Precommit, plan_digest: str) -> None:
    """What the plan's attestation says beside its subject is what the plan says, and nothing more."""
    said = verified.predicate
    if not same(without_ledger(said), predicate_of_plan(plan, plan_digest)) or not same(
        said.get("ledger"), plan.ledger_head.model_dump()
    ):
        raise BindingError(
            Binding.ATTESTATION,
            "the attestation of the plan says other things than the plan",
            where=PLAN_ATTESTATION,
            expected="run, phase, digest, custody and ledger head of plan.json",
            do="make a new run",
        )


def _stated_run_id(plan_bytes: bytes) -> str | None:
    """The run id that the plan states, to find a key pinned for it; the signature decides later."""
    try:
        value = load_canonical(plan_bytes)
    except EvalkitError:
        raise BindingError(
            Binding.PRECOMMIT,
            "plan.json is no canonical JSON",
            where=PLAN,
            expected="the bytes that were signed",
            do="restore the plan",
        ) from None
    run_id = value.get("run_id") if isinstance(value, dict) else None
    if not isinstance(run_id, str):
        raise BindingError(
            Binding.PRECOMMIT,
            "plan.json names no run",
            where=PLAN,
            expected="a run_id",
            do="restore the plan",
        )
    return run_id


def _instructions(run_dir: Path, plan: Precommit) -> Instructions:
    template, schema, rubric = INSTRUCTIONS
    bindings = {template: Binding.PROMPT, schema: Binding.PROMPT, rubric: Binding.SCORE}
    data = {n: read_bound(run_dir, f"instructions/{n}", b) for n, b in bindings.items()}
    instructions = Instructions(data[template], data[schema], data[rubric])
    for (name, sealed), file in zip(instructions.digests().items(), INSTRUCTIONS, strict=True):
        if plan.instructions.get(name) != sealed:
            raise BindingError(
                bindings[file],
                f"{file} is not what the plan seals",
                where=f"instructions/{file}",
                expected=str(plan.instructions.get(name)),
                do="restore the file",
            )
    return instructions


def _model(run_dir: Path, plan: Precommit) -> Model:
    if digest(canonical_json(plan.model)) != plan.model_digest:
        raise BindingError(
            Binding.CONFIGURATION,
            "the plan's model configuration does not have the plan's digest",
            where=PLAN,
            expected=plan.model_digest,
            do="make a new run",
        )
    if plan.model.get("adapter") != "replay":
        return Model(plan.model)
    data = read_bound(run_dir, REPLAY_FILE, Binding.CONFIGURATION)
    if digest(data) != plan.model.get("replay_digest"):
        raise BindingError(
            Binding.CONFIGURATION,
            "the replay file is not the one that the plan seals",
            where=REPLAY_FILE,
            expected=str(plan.model.get("replay_digest")),
            do="restore the file",
        )
    return Model(plan.model, data)


def check_folders(opened: OpenPlan) -> None:
    """The folders of a run hold the files that its plan names, and nothing else."""
    names = {f"part-a/{c.case_id}/{name}" for c in opened.plan.cases for name in PART_A_FILES}
    names |= {f"instructions/{name}" for name in INSTRUCTIONS}
    names |= {sealed_file(kind) for kind in ("catalog", "mapping", "part-b-0", "part-b-1")}
    names |= {REPLAY_FILE} if opened.model.replay is not None else set()
    folders = {name.rpartition("/")[0] for name in names} | {"part-a"}
    for top in ("part-a", "instructions", "sealed", "model"):
        for path in [opened.run_dir / top, *(opened.run_dir / top).rglob("*")]:
            name = path.relative_to(opened.run_dir).as_posix()
            is_folder = path.is_dir() and not path.is_symlink()
            if os.path.lexists(path) and name not in (folders if is_folder else names):
                raise BindingError(
                    Binding.RUN,
                    f"the run folder holds {name}",
                    where=str(opened.run_dir),
                    expected="only what its plan names",
                    do=about_extra([path.name]),
                )


def open_evidence(opened: OpenPlan) -> OpenEvidence:
    """Step 2.  Part A of both cases; raises `Blocked` where authentic evidence does not verify."""
    check_folders(opened)
    parts: dict[str, PartA] = {}
    verifications: dict[str, Verification] = {}
    prompts: dict[str, bytes] = {}
    for case in opened.plan.cases:
        folder = f"part-a/{case.case_id}"
        data = {n: read_bound(opened.run_dir, f"{folder}/{n}", Binding.PART_A) for n in PART_A_FILES}
        for name in PART_A_FILES:
            sealed = getattr(case, f"{name.partition('.')[0]}_digest")
            if digest(data[name]) != sealed:
                raise BindingError(
                    Binding.PART_A,
                    f"{name} of {case.case_id} is not what the plan seals",
                    where=f"{folder}/{name}",
                    expected=sealed,
                    do="restore the file",
                )
        part = part_a(data, where=folder)
        parts[case.case_id] = part
        verifications[case.case_id] = verify_part_a(part, accepted_warnings=case.accepted_warnings)
        prompts[case.case_id] = build_prompt(opened.instructions, part.packet_bytes)
    return OpenEvidence(opened, parts, verifications, prompts)


def read_attested(opened: OpenPlan) -> tuple[bytes, bytes, Verified]:
    """The run file, its envelope and what was signed; where they differ, says in which section."""
    document_bytes, envelope = read_phase(opened.run_dir, EX_ANTE, EX_ANTE_FILE)
    with located(ENVELOPES[EX_ANTE]):
        verified = verify(
            envelope,
            subject_name=EX_ANTE_FILE,
            predicate_type=PREDICATES["decisions/ex-ante"],
            trust=opened.trust,
            run_id=opened.plan.run_id,
            attested_at=opened.stamps.attested_at(EX_ANTE, envelope),
        )
    check_signer(verified, opened.plan, ENVELOPES[EX_ANTE])
    if verified.subject_digest != digest(document_bytes):
        raise differs(document_bytes, verified)
    return document_bytes, envelope, verified


def open_ex_ante(evidence: OpenEvidence) -> OpenExAnte:
    """Step 3.  Verify the attestation, then replay every binding for both cases."""
    opened = evidence.opened
    document_bytes, envelope, verified = read_attested(opened)
    document = load_canonical(document_bytes)
    replay(document, evidence)
    if not same(predicate_of(document), without_ledger(verified.predicate)):
        raise BindingError(
            Binding.ATTESTATION,
            "the attestation's digests are not those of the run file",
            where=EX_ANTE,
            expected="a predicate made from the run file",
            do="make a new run",
        )
    signed = Head.from_record(verified.predicate.get("ledger"))
    journal = attested_journal(opened, signed, document, document_bytes)
    check_signed_at(journal, verified)
    check_committed(journal, plan_run_id=opened.plan.run_id, phase=EX_ANTE, pair=(document_bytes, envelope))
    return OpenExAnte(evidence, document, document_bytes, verified, envelope, journal)


def check_signer(verified: Verified, plan: Precommit, where: str) -> None:
    """One key signs all phases of a run, the one that its plan names, and the envelope says so too.

    The keyid is in no signature: another one is a change that only the file's own digest would show.
    """
    if verified.key.key_id != plan.signing_key_id:
        raise BindingError(
            Binding.AUTHORITY,
            "another key signed this than the one that the plan names",
            where=where,
            expected=plan.signing_key_id,
            do="use the run as it was made",
        )
    if verified.hint != verified.key.key_id:
        raise BindingError(
            Binding.ATTESTATION,
            "the attestation names another key than the one that signed it",
            where=where,
            expected=verified.key.key_id,
            do="take an unchanged copy of it",
        )
