"""The bundle that a custodian seals (``evalkit/custody-bundle/1``), and the custodian that a plan names.

1. A custodian's word counts only under a key that the reader's own trust file pins for it.
2. The envelope names the key that made it: custody compares envelopes by digest, so that the hint that DSSE leaves
   free must not be.
3. Custodian and evaluator have different keys: with one key the custody would be ``self``.
4. A plan carries the bundle's statement with its signature, so that a run folder shows alone what was sealed, by
   whom, and that the plan did not change it.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from pydantic import Field

from evalkit.decisions.case import PART_A_FILES, PartA, part_a
from evalkit.decisions.layout import read_bound, sealed_file
from evalkit.decisions.moments import instant
from evalkit.decisions.packet import Frozen, Moment, Text, dump, parse
from evalkit.decisions.sealed_pair import PACKETS, LedgerHead, PlannedPair, SealedCase, SealedPair, place_of
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    SealedPacket,
    Trust,
    Verified,
    canonical_json,
    digest,
    load_canonical,
    verify,
)
from evalkit.sealing.ledger import CLOCK_TOLERANCE

if TYPE_CHECKING:
    from evalkit.decisions.plan import Precommit

BUNDLE = "bundle.json"
BUNDLE_ATTESTATION = "bundle.dsse.json"
#: what a custodian's key signs
CUSTODY_PHASES = ("custody/seal", "custody/opening")
#: who keeps the unsealing key, where it is not the evaluator
KEPT_APART = ("second_party", "process")


class Bundle(Frozen):
    """What the custodian sealed for one run, in the clear: digests, records and keys."""

    bundle_format: Literal["evalkit/custody-bundle/1"] = Field(alias="schema")
    run_id: Text
    sealed_at: Moment
    evalkit_version: Text
    custody: Literal["process", "second_party"]
    pair: PlannedPair
    cases: list[SealedCase]
    catalog: dict[str, Any]
    mapping: dict[str, Any]
    custodian_key_id: str
    unsealing_public_key: str
    ledger_head: LedgerHead

    def to_json(self) -> bytes:
        return canonical_json(dump(self))


class Custodian(Frozen):
    """Who keeps the outcomes of a run, in its plan: the bundle with its attestation, checkable from the run alone."""

    key_id: str
    bundle_digest: str
    bundle: Bundle
    attestation: dict[str, Any]


@dataclass(frozen=True)
class OpenBundle:
    """A bundle that a pinned custodian key signed, every file of it as signed."""

    bundle: Bundle
    sealed: SealedPair
    custodian: Custodian


def is_bundle(folder: Path) -> bool:
    """Is this a custodian's bundle rather than a folder of cases?"""
    return os.path.lexists(folder / BUNDLE)


def open_bundle(folder: Path, trust: Trust) -> OpenBundle:
    """Read and verify a bundle.  Raises `BindingError` naming what does not hold."""
    if folder.is_symlink():
        _refuse(Binding.RUN, "the bundle is a symbolic link", str(folder), "the folder itself")
    data = _read(folder, BUNDLE, Binding.ATTESTATION)
    envelope = _read(folder, BUNDLE_ATTESTATION, Binding.ATTESTATION)
    try:
        bundle = parse(Bundle, load_canonical(data), where=BUNDLE)
    except EvalkitError as error:
        _refuse(Binding.ATTESTATION, error.what, f"{folder}: {error.where}", "the bundle as it was sealed")
    verified = verify_custodian(
        envelope, BUNDLE, "custody/seal", trust, run_id=bundle.run_id, key_id=bundle.custodian_key_id
    )
    verified.check_subject(data)
    order = [c.case_id for c in sorted(bundle.cases, key=lambda c: place_of(c.packet_digest))]
    if [c.case_id for c in bundle.cases] != bundle.pair.order or len(set(order)) != 2 or len(order) != 2:
        _refuse(Binding.ATTESTATION, "the bundle's cases are not its ordered pair", BUNDLE, "two cases")
    if bundle.pair.order != order:
        _refuse(
            Binding.ATTESTATION,
            "the order of the pair does not follow from its evidence",
            BUNDLE,
            ", ".join(order),
        )
    _check_entries(folder, bundle)
    return OpenBundle(
        bundle=bundle,
        sealed=SealedPair(
            run_id=bundle.run_id,
            pair=bundle.pair,
            cases=bundle.cases,
            part_a={c.case_id: _part_a(folder, c) for c in bundle.cases},
            packets=_packets(folder, bundle),
            unsealing_public_key=bundle.unsealing_public_key,
        ),
        custodian=Custodian(
            key_id=bundle.custodian_key_id,
            bundle_digest=digest(data),
            bundle=bundle,
            attestation=load_canonical(envelope),
        ),
    )


def verify_custodian(
    envelope: bytes,
    subject_name: str,
    phase: str,
    trust: Trust,
    *,
    run_id: str,
    key_id: str,
    attested_at: datetime | None = None,
) -> Verified:
    """An envelope by the custodian named, and in the one spelling that her key gave it (rules 1 and 2).

    ``attested_at``: a time at which a pinned timestamp authority saw what it stands in.
    """
    if trust.key(key_id) is None:
        raise BindingError(
            Binding.AUTHORITY,
            "the custodian's key is not pinned",
            where=f"{subject_name} claims the custodian {key_id!a}",
            expected=f"in {trust.path} the custodian's key, beside the evaluator's",
            do="ask the custodian for its entry (evalkit keys export in her account), check it with her, and evalkit"
            " keys pin it",
        )
    verified = verify(
        envelope,
        subject_name=subject_name,
        predicate_type=PREDICATES[phase],
        trust=trust,
        run_id=run_id,
        attested_at=attested_at,
    )
    require_spelling(envelope, verified)
    if verified.key.key_id != key_id:
        _refuse(
            Binding.AUTHORITY,
            f"another key signed {subject_name} than the custodian's",
            verified.key.key_id,
            key_id,
        )
    return verified


def require_spelling(envelope: bytes, verified: Verified) -> None:
    """The envelope's hint names the key whose signature it has (rule 2)."""
    hint = load_canonical(envelope)["signatures"][0]["keyid"]
    if hint != verified.key.key_id:
        _refuse(
            Binding.ATTESTATION,
            "the envelope names another key than the one that signed it",
            f"{verified.subject_name}: {hint[:80]!a}",
            verified.key.key_id,
        )


def check_custodian(plan: Precommit, trust: Trust, *, attested_at: datetime | None = None) -> Verified | None:
    """The custody of a plan is one that this version knows, and what the custodian signed is what is planned.

    ``attested_at``: by when the plan's attestation existed, and with it the bundle that it holds.  Returns her verified word for the bundle, None where there is no custodian.
    """
    custodian = plan.custodian
    if plan.custody == "timelock":
        _refuse(
            Binding.PRECOMMIT, "this version cannot check custody timelock", "plan.json", "another custody"
        )
    if (plan.custody == "self") != (custodian is None):
        _refuse(
            Binding.PRECOMMIT,
            f"custody {plan.custody} {'with' if custodian else 'without'} a custodian",
            "plan.json",
            "a custodian for process and second_party, and none for self",
        )
    if custodian is None:
        return None
    bundle = custodian.bundle
    refuse_one_key(custodian.key_id, plan.signing_key_id, plan.custody)
    if trust.origin(custodian.key_id) == trust.origin(plan.signing_key_id):
        _refuse(
            Binding.AUTHORITY,
            "custodian and evaluator have keys of one owner: rotations lead from one to the other",
            custodian.key_id,
            "two keys of two accounts",
        )
    data = bundle.to_json()
    verified = verify_custodian(
        canonical_json(custodian.attestation),
        BUNDLE,
        "custody/seal",
        trust,
        run_id=plan.run_id,
        key_id=custodian.key_id,
        attested_at=attested_at,
    )
    verified.check_subject(data)
    signed_at = verified.signed_at
    if signed_at is None or instant(bundle.sealed_at) > signed_at + CLOCK_TOLERANCE:
        _refuse(
            Binding.ATTESTATION,
            f"the bundle says that it was sealed at {bundle.sealed_at}, after it was signed",
            BUNDLE,
            f"a time up to {signed_at}",
        )
    planned: dict[str, Any] = {
        "run_id": plan.run_id,
        "custody": plan.custody,
        "pair": plan.pair,
        "cases": [SealedCase(**c.model_dump(exclude={"accepted_warnings"})) for c in plan.cases],
        "catalog": plan.catalog,
        "mapping": plan.mapping,
        "unsealing_public_key": plan.unsealing_public_key,
        "custodian_key_id": custodian.key_id,
    }
    wrong = sorted(name for name, value in planned.items() if getattr(bundle, name) != value)
    if digest(data) != custodian.bundle_digest:
        wrong.append("bundle_digest")
    if wrong:
        _refuse(
            Binding.PRECOMMIT,
            f"{', '.join(wrong)} of the plan are not what the custodian sealed",
            "plan.json",
            f"what the bundle says, {digest(data)}",
        )
    return verified


def refuse_one_key(custodian: str, evaluator: str, custody: str) -> None:
    """Custodian and evaluator must have two keys (rule 3)."""
    if custodian == evaluator:
        raise BindingError(
            Binding.AUTHORITY,
            f"custodian and evaluator are one key: this would be custody self, not {custody}",
            where=evaluator,
            expected="two keys of two accounts",
            do="run evalkit decisions precommit BUNDLE in the evaluator's account, with her own key",
        )


def _part_a(folder: Path, case: SealedCase) -> PartA:
    place = f"part-a/{case.case_id}"
    data = {name: _read(folder, f"{place}/{name}", Binding.PART_A) for name in PART_A_FILES}
    for name in PART_A_FILES:
        sealed = getattr(case, f"{name.partition('.')[0]}_digest")
        if digest(data[name]) != sealed:
            _refuse(
                Binding.PART_A,
                f"{name} of {case.case_id} is not what the custodian signed",
                f"{place}/{name}",
                sealed,
            )
    part = part_a(data, where=place)
    if part.packet.case_id != case.case_id:
        _refuse(Binding.PART_A, f"the packet is of {part.packet.case_id}", place, case.case_id)
    return part


def _packets(folder: Path, bundle: Bundle) -> dict[str, SealedPacket]:
    records = {"catalog": bundle.catalog, "mapping": bundle.mapping} | {
        f"part-b-{n}": case.part_b for n, case in enumerate(bundle.cases)
    }
    packets = {}
    for kind in PACKETS:
        ciphertext = _read(folder, sealed_file(kind), Binding.SEALED_PACKET)
        packets[kind] = SealedPacket.from_record(records[kind], ciphertext, bundle.run_id)
        if packets[kind].kind != kind:
            _refuse(Binding.SEALED_PACKET, f"a packet {packets[kind].kind}", sealed_file(kind), kind)
    return packets


def _check_entries(folder: Path, bundle: Bundle) -> None:
    """A bundle holds what its statement names, and nothing else."""
    names = {BUNDLE, BUNDLE_ATTESTATION, *map(sealed_file, PACKETS)}
    names |= {f"part-a/{case_id}/{name}" for case_id in bundle.pair.order for name in PART_A_FILES}
    folders = {parent.as_posix() for name in names for parent in Path(name).parents} - {"."}
    for path in folder.rglob("*"):
        name = path.relative_to(folder).as_posix()
        is_folder = path.is_dir() and not path.is_symlink()
        if name not in (folders if is_folder else names):
            _refuse(Binding.RUN, f"the bundle holds {name}", str(folder), "only what bundle.json names")


def _read(folder: Path, name: str, binding: Binding) -> bytes:
    return read_bound(
        folder, name, binding, expected="the bundle as `evalkit custodian seal` made it", do=_RESTORE
    )


_RESTORE = "copy the bundle again from the custodian, whole and unchanged"


def _refuse(binding: Binding, what: str, where: str, expected: str) -> NoReturn:
    raise BindingError(binding, what, where=where, expected=expected, do=_RESTORE)
