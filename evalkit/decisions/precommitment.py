"""Precommit: fix the pair, the evidence, the model and the scoring, and seal what must stay unseen.

This is the instructor's step and the only one that reads Part B, the mapping and the catalog in the
clear.  It runs in a process of its own; the process that evaluates gets a folder in which they are
ciphertext.  The whole run folder appears at once, or not at all.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

import evalkit
from evalkit.decisions.case import PartA, read_part_a, verify_part_a
from evalkit.decisions.catalog import (
    CATALOG,
    MAPPING,
    Catalog,
    CatalogEntry,
    Episode,
    Mapping,
    Pair,
    PartB,
    check_part_b,
    read,
)
from evalkit.decisions.configuration import REPLAY_FILE, Model, configure
from evalkit.decisions.layout import JOURNAL, check_parent, sealed_file
from evalkit.decisions.moments import stamp
from evalkit.decisions.packet import CONTAMINATION, DecimalText, dump
from evalkit.decisions.plan import (
    PLAN,
    PLAN_ATTESTATION,
    LedgerHead,
    PlannedCase,
    PlannedPair,
    Precommit,
)
from evalkit.decisions.prompt import Instructions
from evalkit.decisions.quality import quality_control
from evalkit.decisions.rubric import scorer_digest
from evalkit.errors import EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Ledger,
    Places,
    SealedPacket,
    Trust,
    canonical_json,
    commit_directory,
    digest,
    sign,
    trust_path,
    verify,
)
from evalkit.sealing.packet import bucket_for
from evalkit.sealing.places import check_run_id

SIGNED_PHASES = ("decisions/precommit", "decisions/ex-ante", "decisions/reveal")


@dataclass(frozen=True)
class _Case:
    """One case as the instructor sees it."""

    entry: CatalogEntry
    part_a: PartA
    episode: Episode
    warnings: list[str]
    part_b_payload: bytes


@dataclass(frozen=True)
class _Keys:
    """Public halves of the keys of this run, and where their private halves lie."""

    signing_path: Path | None
    unsealing_public: bytes
    ephemeral: bool


def new_run_id() -> str:
    """A run id: random, minted before anything is fixed."""
    return secrets.token_hex(16)


def precommit(
    cases: Path | str,
    *,
    pair: str,
    out: Path | str,
    model: Model | None = None,
    run_id: str | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    accepted_warnings: dict[str, list[str]] | None = None,
    selection_rule: str | None = None,
    attempt_cap: int = 3,
    nontrivial_probability: str = "0.10",
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Precommit:
    """Make the run folder ``out`` for one pair of a folder of cases.

    ``accepted_warnings`` maps case id to the exact warning codes to accept; without it, those that the
    cases have now.  With no signing key configured, an ephemeral signing key and an unsealing key are
    made outside the workspace, and the trust file pins the former for this run only.

    Raises `EvalkitError` (a pair or case that does not hold), `Blocked` (evidence that does not
    verify), `BindingError` (trust or keys refused).
    """
    cases, out = Path(cases), Path(out)
    places = places or Places.from_environment()
    run_id = run_id or new_run_id()
    model = model or configure()
    if out.exists() or out.is_symlink():
        raise EvalkitError(
            "the run folder exists already",
            where=str(out),
            expected="a new path: runs are never overwritten",
            do="choose another --out",
        )
    check_parent(out)
    _check_threshold(nontrivial_probability)
    check_run_id(run_id)
    workspace = [cases, out.absolute()]
    catalog, catalog_bytes = read(Catalog, cases / CATALOG)
    mapping, _ = read(Mapping, cases / MAPPING)
    members = _pair(catalog, pair)
    if foreign := sorted(set(accepted_warnings or {}) - set(members)):
        raise EvalkitError(
            f"warnings are accepted for {', '.join(foreign)}, which is not in pair {pair}",
            where="--accept-warning",
            expected=" or ".join(members),
            do="correct the case id",
        )
    loaded = [_case(cases, catalog.entry(case_id), accepted_warnings) for case_id in members]
    _check_reciprocal(loaded, catalog.pair(pair))
    ordered = sorted(loaded, key=lambda c: digest(c.entry.packet_digest.encode()))
    sealed_mapping = _checked_mapping(mapping, ordered)
    instructions = Instructions.shipped()

    from evalkit.sealing import resolve_signer

    with (
        _keys(places, run_id, workspace, trust, out) as (keys, trust_file),
        resolve_signer(places, key_path=keys.signing_path, workspace=workspace) as signer,
    ):
        loaded_trust = Trust.load(trust_file, workspace)
        ledger = Ledger(places.ledger(signer.key_id), clock=clock)
        head = ledger.head
        packets = _seal(
            ordered,
            catalog.extract(pair, catalog_bytes).to_json(),
            sealed_mapping,
            keys.unsealing_public,
            run_id,
        )
        plan = Precommit(
            schema="evalkit/decisions-precommit/1",
            run_id=run_id,
            created_at=stamp(clock()),
            evalkit_version=evalkit.__version__,
            contamination=CONTAMINATION,
            pair=PlannedPair(
                pair_id=pair,
                order=[c.entry.case_id for c in ordered],
                selection_rule=selection_rule or f"the pair named before the run: {pair}",
                pairing_basis=catalog.pair(pair).pairing_basis,
            ),
            cases=[
                PlannedCase(
                    case_id=c.entry.case_id,
                    episode_digest=c.entry.episode_digest,
                    freeze_digest=c.entry.freeze_digest,
                    packet_digest=c.entry.packet_digest,
                    qc_digest=c.entry.qc_digest,
                    report_digest=c.entry.report_digest,
                    accepted_warnings=c.warnings,
                    part_b=packets[f"part-b-{n}"].record(),
                )
                for n, c in enumerate(ordered)
            ],
            catalog=packets["catalog"].record(),
            mapping=packets["mapping"].record(),
            instructions=instructions.digests(),
            scorer_digest=scorer_digest(),
            model=model.configuration,
            model_digest=digest(canonical_json(model.configuration)),
            verification_mode="frozen_bundle",
            nontrivial_probability=nontrivial_probability,
            attempt_cap=attempt_cap,
            custody="self",
            signing_key_id=signer.key_id,
            ephemeral_keys=keys.ephemeral,
            unsealing_public_key=keys.unsealing_public.hex(),
            trust_digest=loaded_trust.digest,
            ledger_head=LedgerHead(size=head.size, digest=head.digest),
        )
        plan_bytes = plan.to_json()
        attestation = sign(
            PLAN,
            plan_bytes,
            predicate_type=PREDICATES["decisions/precommit"],
            predicate={
                "run_id": run_id,
                "phase": "precommitted",
                "plan_digest": digest(plan_bytes),
                "custody": plan.custody,
                "ledger": head.record(),
            },
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

        def build(root: Path) -> None:
            files = {PLAN: plan_bytes, PLAN_ATTESTATION: attestation, JOURNAL: ledger.segment(head.size)}
            for case in ordered:
                for name, data in case.part_a.files().items():
                    files[f"part-a/{case.entry.case_id}/{name}"] = data
            files |= {f"instructions/{name}": data for name, data in instructions.files().items()}
            files |= {sealed_file(kind): packet.ciphertext for kind, packet in packets.items()}
            if model.replay is not None:
                files[REPLAY_FILE] = model.replay
            for name, data in files.items():
                target = root / name
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(data)

        commit_directory(out, build)
    return plan


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


def _pair(catalog: Catalog, pair_id: str) -> tuple[str, str]:
    """The two cases of a pair; the catalog must give it exactly one of each role (W1)."""
    pair = catalog.pair(pair_id)
    roles = sorted((c.role, c.case_id) for c in catalog.cases if c.pair_id == pair_id)
    expected = sorted([("favorable", pair.favorable_case_id), ("unfavorable", pair.unfavorable_case_id)])
    if roles != expected:
        raise EvalkitError(
            f"pair {pair_id} is not one favorable and one unfavorable case",
            where=CATALOG,
            expected=f"{pair.favorable_case_id} favorable, {pair.unfavorable_case_id} unfavorable",
            do="import the cases again",
        )
    return pair.favorable_case_id, pair.unfavorable_case_id


def _case(root: Path, entry: CatalogEntry, accepted: dict[str, list[str]] | None) -> _Case:
    folder = root / entry.case_id
    part = read_part_a(folder / "part-a")
    episode, episode_bytes = read(Episode, folder / "episode.json")
    part_b, part_b_bytes = read(PartB, folder / "part-b" / "outcome.json")
    try:
        note = (folder / "part-b" / "teaching-note.md").read_bytes()
    except OSError as error:
        raise EvalkitError(
            f"cannot read the teaching note ({error.strerror})",
            where=str(folder / "part-b"),
            expected="teaching-note.md beside outcome.json",
            do="import the case again",
        ) from None
    found = {f"{k}_digest": v for k, v in part.digests().items()} | {
        "episode_digest": digest(episode_bytes),
        "part_b_digest": digest(part_b_bytes),
    }
    wrong = sorted(k for k, v in found.items() if getattr(entry, k) != v)
    if wrong:
        raise EvalkitError(
            f"case {entry.case_id} is not what the catalog lists: {', '.join(wrong)}",
            where=str(folder),
            expected="the files as they were imported",
            do="import the case again",
        )
    check_part_b(part_b, note, packet_digest=entry.packet_digest, where=str(folder / "part-b"))
    found_warnings = quality_control(part.packet, part.report_bytes).codes()
    warnings = found_warnings if accepted is None else accepted.get(entry.case_id, [])
    verify_part_a(part, accepted_warnings=warnings)
    payload = canonical_json({"outcome": dump(part_b), "teaching_note": note.decode()})
    return _Case(entry, part, episode, sorted(warnings), payload)


def _check_reciprocal(cases: list[_Case], pair: Pair) -> None:
    """Each case names the other, and both name this pair (W1)."""
    first, second = cases
    for one, other in ((first, second), (second, first)):
        episode = one.episode
        if (episode.partner_case_id, episode.pair_id) != (other.entry.case_id, pair.pair_id):
            raise EvalkitError(
                f"{one.entry.case_id} names {episode.partner_case_id} in {episode.pair_id} as its partner",
                where=f"{one.entry.case_id}/episode.json",
                expected=f"{other.entry.case_id} in {pair.pair_id}",
                do="import the pair again",
            )


def _checked_mapping(mapping: Mapping, cases: list[_Case]) -> bytes:
    """The mapping of this pair: bound to both digests, one existing scenario a case (W4)."""
    only = mapping.only([c.entry.case_id for c in cases])
    for case in cases:
        realized = only.cases[case.entry.case_id]
        problems = []
        if realized.packet_digest != case.entry.packet_digest:
            problems.append("another packet")
        if realized.part_b_digest != case.entry.part_b_digest:
            problems.append("another Part B")
        if realized.realized_scenario_id not in case.part_a.packet.ids("scenario"):
            problems.append("a scenario that the packet does not have")
        if problems:
            raise EvalkitError(
                f"the mapping of {case.entry.case_id} names {' and '.join(problems)}",
                where=MAPPING,
                expected="the digests in the catalog and one scenario of the packet",
                do="import the cases again",
            )
    return only.to_json()


def _seal(
    cases: list[_Case], catalog: bytes, mapping: bytes, recipient: bytes, run_id: str
) -> dict[str, SealedPacket]:
    """Seal catalog extract, mapping and both Part Bs; the Part Bs share a bucket, so that size tells nothing."""
    bucket = max(bucket_for(len(c.part_b_payload)) for c in cases)
    packets = {
        "catalog": SealedPacket.seal(catalog, kind="catalog", run_id=run_id, recipient=recipient),
        "mapping": SealedPacket.seal(mapping, kind="mapping", run_id=run_id, recipient=recipient),
    }
    for n, case in enumerate(cases):
        kind = f"part-b-{n}"
        packets[kind] = SealedPacket.seal(
            case.part_b_payload, kind=kind, run_id=run_id, recipient=recipient, minimum_bucket=bucket
        )
    return packets


@contextmanager
def _keys(
    places: Places, run_id: str, workspace: list[Path], trust: Path | None, out: Path
) -> Iterator[tuple[_Keys, Path]]:
    """The configured keys, or ephemeral ones that are pinned for this run only.

    Where no run comes of it, the ephemeral keys and their pin go again.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

    from evalkit.sealing import (
        TrustedKey,
        create_signing_key,
        create_unsealing_key,
        load_unsealing_key,
        pin,
    )
    from evalkit.sealing.pinning import unpin

    trust_file = trust_path(trust, places)
    if os.path.lexists(places.signing_key):
        if not os.path.lexists(places.unsealing_key):
            create_unsealing_key(places.unsealing_key, workspace=workspace)
        private = load_unsealing_key(places.unsealing_key, workspace=workspace)
        public = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        yield _Keys(None, public, ephemeral=False), trust_file
        return
    folder = places.ephemeral(run_id)
    with ExitStack() as undo:  # holds what was made here, never the keys of an older run of that id
        signing = create_signing_key(folder / "signing", workspace=workspace)
        undo.callback(folder.rmdir)
        undo.callback((folder / "signing").unlink)
        unsealing = create_unsealing_key(folder / "unsealing.pem", workspace=workspace)
        undo.callback((folder / "unsealing.pem").unlink)
        key = TrustedKey.of(
            signing,
            roles=("evaluator", "instructor"),
            predicate_types=tuple(PREDICATES[name] for name in SIGNED_PHASES),
            custody="self",
            ephemeral=True,
            runs=(run_id,),
            comment="made by precommit because no signing key was configured",
        )
        pin(trust_file, key, workspace=workspace)
        undo.callback(unpin, trust_file, key, workspace=workspace)
        try:
            yield _Keys(folder / "signing", unsealing, ephemeral=True), trust_file
        except BaseException:
            if os.path.lexists(out):  # the run is there, and only what came after it failed
                undo.pop_all()
            raise
        undo.pop_all()
