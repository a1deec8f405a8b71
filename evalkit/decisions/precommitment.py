"""Precommit: fix the pair, the evidence, the model and the scoring, and seal what must stay unseen.

From a folder of cases this is the instructor's step, which has Part B, the mapping and the catalog in the clear
(`evalkit.decisions.preparation`).  It runs in a process of its own; the process that evaluates gets a folder in
which they are ciphertext.  From a custodian's bundle it never has them: they are ciphertext there already, and
the custodian keeps the key.  The whole run folder appears at once, or not at all.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import TypeAdapter, ValidationError

import evalkit
from evalkit.decisions.case import accept_warnings, refuse_foreign_warnings
from evalkit.decisions.configuration import REPLAY_FILE, Model, configure
from evalkit.decisions.custody.bundle import (
    BUNDLE,
    OpenBundle,
    check_custodian,
    is_bundle,
    open_bundle,
    refuse_one_key,
)
from evalkit.decisions.layout import JOURNAL, check_parent
from evalkit.decisions.moments import stamp
from evalkit.decisions.own_ledgers import refuse_second_plan
from evalkit.decisions.packet import CONTAMINATION, DecimalText
from evalkit.decisions.plan import PLAN, PLAN_ATTESTATION, PlannedCase, Precommit, predicate_of_plan
from evalkit.decisions.prompt import Instructions
from evalkit.decisions.rubric import scorer_digest
from evalkit.decisions.run_keys import RunKeys, keys_for_run, require_role
from evalkit.decisions.sealed_pair import LedgerHead, refuse_existing, write_tree
from evalkit.decisions.sealed_pair import new_run_id as new_run_id
from evalkit.decisions.supersession import record_superseded, supersede
from evalkit.errors import EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Ledger,
    Places,
    Trust,
    canonical_json,
    commit_directory,
    digest,
    sign,
    trust_path,
    verify,
)
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.keys import public_part
from evalkit.sealing.places import check_run_id

if TYPE_CHECKING:
    from evalkit.sealing import AgentSigner, HelperSigner


def precommit(
    cases: Path | str,
    *,
    pair: str | None = None,
    out: Path | str,
    model: Model | None = None,
    run_id: str | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    accepted_warnings: dict[str, list[str]] | None = None,
    selection_rule: str | None = None,
    attempt_cap: int = 3,
    nontrivial_probability: str = "0.10",
    supersedes: Path | str | None = None,
    reason: str = "",
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Precommit:
    """Make the run folder ``out`` for one pair of a folder of cases, or for the pair of a custodian's bundle.

    ``accepted_warnings`` maps case id to the exact warning codes to accept; without it, those that the
    cases have now.  With no signing key configured, an ephemeral signing key and an unsealing key are
    made outside the workspace, and the trust file pins the former for this run only.  A bundle has its pair,
    selection rule and run id: ``pair``, ``selection_rule`` and ``run_id`` must then be absent or equal.
    ``supersedes`` is the folder of a run whose plan gives way to this one, for the stated ``reason``.

    Raises `EvalkitError` (a pair or case that does not hold), `Blocked` (evidence that does not
    verify; a bundle whose run this account planned before), `BindingError` (trust or keys refused; a bundle
    that is not as it was sealed).
    """
    cases, out = Path(cases), Path(out)
    places = places or Places.from_environment()
    model = model or configure()
    refuse_existing(out, "run folder")
    check_parent(out)
    _check_threshold(nontrivial_probability)
    if reason and supersedes is None:
        raise EvalkitError(
            "a reason is given, and no plan that is superseded",
            where="--reason",
            expected="--supersedes RUN beside it",
            do="name the run, or leave the reason out",
        )
    workspace = [cases, out.absolute()]
    bundle = prepared = None
    if is_bundle(cases):
        bundle = open_bundle(cases, Trust.load(trust_path(trust, places), workspace))
        run_id = _stated(bundle, pair, run_id, selection_rule)
        order = bundle.sealed.pair.order
        refuse_foreign_warnings(accepted_warnings, order, bundle.sealed.pair.pair_id)
        warnings = {c: accept_warnings(bundle.sealed.part_a[c], c, accepted_warnings) for c in order}
        refuse_second_plan(run_id, places)
    else:
        # here and not above: whoever evaluates from a bundle does not even load what reads Part B
        from evalkit.decisions.preparation import prepare

        run_id = check_run_id(run_id or new_run_id())
        prepared = prepare(cases, _named(pair), accepted_warnings)
        warnings = prepared.warnings
    instructions = Instructions.shipped()

    with (
        keys_for_run(places, run_id, workspace, trust, out, sealing=bundle is None) as keys,
        _signer(keys, bundle, trust, places=places, workspace=workspace, run_id=run_id, at=clock()) as signer,
    ):
        loaded_trust = Trust.load(trust_path(trust, places), workspace)
        ledger = Ledger(places.ledger(signer.key_id), clock=clock)
        gives_way = None
        if supersedes is not None:
            gives_way = supersede(Path(supersedes), reason, by=run_id, trust=loaded_trust, places=places)
        head = ledger.head
        if bundle is not None:
            sealed, custodian = bundle.sealed, bundle.custodian
        else:
            assert prepared is not None
            assert keys.unsealing_public is not None
            custodian = None
            sealed = prepared.seal(
                run_id=run_id, recipient=keys.unsealing_public, selection_rule=selection_rule
            )
        plan = Precommit(
            schema="evalkit/decisions-precommit/1",
            run_id=run_id,
            created_at=stamp(clock()),
            evalkit_version=evalkit.__version__,
            contamination=CONTAMINATION,
            pair=sealed.pair,
            cases=[
                PlannedCase(**c.model_dump(), accepted_warnings=warnings[c.case_id]) for c in sealed.cases
            ],
            catalog=sealed.packets["catalog"].record(),
            mapping=sealed.packets["mapping"].record(),
            instructions=instructions.digests(),
            scorer_digest=scorer_digest(),
            model=model.configuration,
            model_digest=digest(canonical_json(model.configuration)),
            verification_mode="frozen_bundle",
            nontrivial_probability=nontrivial_probability,
            attempt_cap=attempt_cap,
            custody="self" if bundle is None else bundle.bundle.custody,
            custodian=custodian,
            signing_key_id=signer.key_id,
            ephemeral_keys=keys.ephemeral,
            unsealing_public_key=sealed.unsealing_public_key,
            trust_digest=loaded_trust.digest,
            ledger_head=LedgerHead(size=head.size, digest=head.digest),
            supersedes=gives_way,
        )
        check_custodian(plan, loaded_trust)
        plan_bytes = plan.to_json()
        attestation = sign(
            PLAN,
            plan_bytes,
            predicate_type=PREDICATES["decisions/precommit"],
            predicate=predicate_of_plan(plan, digest(plan_bytes)) | {"ledger": head.record()},
            signer=signer,
            at=clock(),
        )
        verify(
            attestation,
            subject_name=PLAN,
            predicate_type=PREDICATES["decisions/precommit"],
            trust=loaded_trust,
            run_id=run_id,
            at=clock(),
        ).check_subject(plan_bytes)
        ledger.append("precommit", run_id=run_id, document=digest(plan_bytes), envelope=digest(attestation))
        files = {PLAN: plan_bytes, PLAN_ATTESTATION: attestation, JOURNAL: ledger.segment(head.size)}
        files |= sealed.files()
        files |= {f"instructions/{name}": data for name, data in instructions.files().items()}
        if model.replay is not None:
            files[REPLAY_FILE] = model.replay
        commit_directory(out, write_tree(files))
        record_superseded(gives_way, run_id, ledger, places)
    return plan


def _signer(
    keys: RunKeys,
    bundle: OpenBundle | None,
    trust: Path | None,
    *,
    places: Places,
    workspace: list[Path],
    run_id: str,
    at: datetime,
) -> HelperSigner | AgentSigner:
    """The signer of the plan, once it is known that its key may sign it and is not the custodian's own."""
    from evalkit.sealing import resolve_signer

    key_id = id_of(public_part(keys.signing_path or places.signing_key, workspace=workspace)[0])
    if bundle is not None:
        refuse_one_key(bundle.custodian.key_id, key_id, bundle.bundle.custody)
    loaded = Trust.load(trust_path(trust, places), workspace)
    require_role(key_id, "decisions/precommit", "evaluator", trust=loaded, run_id=run_id, at=at)
    return resolve_signer(places, key_path=keys.signing_path, workspace=workspace)


def _named(pair: str | None) -> str:
    if pair is None:
        raise EvalkitError(
            "no pair is named",
            where="--pair",
            expected="a pair id of the catalog; only a custodian's bundle has its pair already",
            do="name one with --pair",
        )
    return pair


def _stated(bundle: OpenBundle, pair: str | None, run_id: str | None, selection_rule: str | None) -> str:
    """The run id of a bundle; what the caller states beside it must be what the custodian sealed."""
    sealed = bundle.sealed
    for option, given, has in (
        ("--pair", pair, sealed.pair.pair_id),
        ("--run-id", run_id, sealed.run_id),
        ("--selection-rule", selection_rule, sealed.pair.selection_rule),
    ):
        if given is not None and given != has:
            raise EvalkitError(
                f"{option} {given!r} is not what the custodian sealed",
                where=BUNDLE,
                expected=has,
                do=f"leave {option} out, or ask the custodian for another bundle",
            )
    return check_run_id(sealed.run_id)


def _check_threshold(text: str) -> None:
    try:
        holds = 0 <= Decimal(text) <= 1 and TypeAdapter(DecimalText).validate_python(text) == text
    except (ArithmeticError, ValidationError):
        holds = False
    if not holds:
        raise EvalkitError(
            f"{text!r} is no probability",
            where="--nontrivial",
            expected="a decimal from 0 to 1, for example 0.10",
            do="correct it",
        )
