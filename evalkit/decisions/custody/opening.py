"""The opening (``evalkit/custody-opening/1``): what the custodian releases, and her signed word for which run.

The statement names the plan, the ex-ante run and that run's attestation by digest.  So it was signed after that
attestation was made, and serves no other run, plan or attempt.  Its subject are the openings themselves, and
these must be what the plan committed to.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from evalkit.decisions.chain import OpenExAnte
from evalkit.decisions.custody.bundle import verify_custodian
from evalkit.decisions.layout import REVEAL
from evalkit.decisions.moments import instant
from evalkit.errors import Binding, BindingError, EvalkitError
from evalkit.sealing import CanonicalError, Head, canonical_json, digest, load_canonical
from evalkit.sealing.exchange import read_exchange
from evalkit.sealing.ledger import CLOCK_TOLERANCE

SCHEMA = "evalkit/custody-opening/1"
SUBJECT = "openings.json"


@dataclass(frozen=True)
class Release:
    """A custodian's word that these openings were released for this very run.

    ``others``: how many other bundles of the same pair she had ``sealed`` and ``released`` by then.
    ``caveats``: what the signature alone does not prove of its time.  ``again``: it was released before.
    """

    run_id: str
    openings: dict[str, Any]
    envelope: dict[str, Any]
    key_id: str
    released_at: str
    others: dict[str, int]
    caveats: tuple[str, ...] = ()
    again: bool = False


def bindings_of(run: OpenExAnte) -> dict[str, Any]:
    """What a release binds: this plan, this run, and this attestation of it."""
    return {
        "run_id": run.evidence.opened.plan.run_id,
        "phase": "released",
        "plan_digest": run.evidence.opened.digest,
        "ex_ante_run_digest": digest(run.document_bytes),
        "ex_ante_attestation_digest": digest(run.attestation_bytes),
    }


def to_json(run_id: str, openings: dict[str, Any], envelope: bytes) -> bytes:
    return canonical_json(
        {"schema": SCHEMA, "run_id": run_id, "openings": openings, "release": load_canonical(envelope)}
    )


def read_opening(path: Path, run: OpenExAnte) -> Release:
    """Read the custodian's file and verify it for this run.  Raises `EvalkitError` or `BindingError`."""
    try:
        value = load_canonical(read_exchange(path))
    except CanonicalError as error:
        _no_opening(f"it does not parse: {error.what}", f"{path} {error.where}")
    if type(value) is not dict or set(value) != {"schema", "run_id", "openings", "release"}:
        _no_opening("missing or unknown fields", str(path))
    if value["schema"] != SCHEMA:
        _no_opening("another format", str(path))
    run_id = run.evidence.opened.plan.run_id
    if value["run_id"] != run_id:
        _refuse(f"it is of another run ({value['run_id']!a})", run_id, where=str(path))
    return check_release(run, value["openings"], value["release"])


def check_release(run: OpenExAnte, openings: Any, envelope: Any) -> Release:
    """The custodian that the plan names signed these openings for this very attested run.

    That they are what the plan committed to is for `evalkit.decisions.openings.published` to say.
    """
    opened = run.evidence.opened
    custodian = opened.plan.custodian
    if custodian is None or type(envelope) is not dict or type(openings) is not dict:
        _refuse("there is no release, or nothing that could have been released", "openings and a release")
    verified = verify_custodian(
        canonical_json(envelope),
        SUBJECT,
        "custody/opening",
        opened.trust,
        run_id=opened.plan.run_id,
        key_id=custodian.key_id,
        attested_at=opened.stamps.known(REVEAL),
    )
    verified.check_subject(canonical_json(openings))
    predicate = verified.predicate
    bound = bindings_of(run)
    for name, value in bound.items():
        if predicate.get(name) != value:
            _refuse(f"the custodian released this for another {_MEANS.get(name, name)}", str(value))
    Head.from_record(predicate.get("ledger"))
    others = predicate.get("others")
    if type(others) is not dict or {(k, type(v)) for k, v in others.items()} != _OTHERS:
        _refuse("the custodian's count of other bundles is malformed", "sealed and released, two integers")
    if not 0 <= others["released"] <= others["sealed"]:
        _refuse("the custodian's count of other bundles cannot be", "0 or more released, of those sealed")
    released_at: Any = predicate.get("released_at")
    try:
        at = instant(released_at)
    except (TypeError, ValueError):
        _refuse("the release has no time", "the time of the release, with its offset")
    signed_at = verified.signed_at
    if signed_at is None or abs(signed_at - at) > CLOCK_TOLERANCE:
        _refuse(f"the release is dated {released_at}, and was signed at another time", f"{signed_at}")
    finalized = run.document["finalized_at"]
    if at + CLOCK_TOLERANCE < instant(finalized):
        _refuse(f"the release is dated {released_at}, before the run was final", f"from {finalized} on")
    return Release(
        run_id=opened.plan.run_id,
        openings=openings,
        envelope=envelope,
        key_id=custodian.key_id,
        released_at=released_at,
        others=others,
        caveats=verified.caveats,
    )


def check_revealed_after(release: Release, revealed_at: str) -> None:
    """Nobody reveals before the release: the two clocks may differ by what a ledger tolerates."""
    if instant(revealed_at) + CLOCK_TOLERANCE < instant(release.released_at):
        raise BindingError(
            Binding.RUN,
            f"the reveal is dated {revealed_at}, before the custodian released the openings",
            where="revealed_at",
            expected=f"from {release.released_at} on, by the custodian's clock",
            do="set the clock that is wrong, or wait",
        )


_OTHERS = {("sealed", int), ("released", int)}
_MEANS = {
    "plan_digest": "plan",
    "ex_ante_run_digest": "ex-ante run",
    "ex_ante_attestation_digest": "attestation of the run",
}


def _no_opening(what: str, where: str) -> NoReturn:
    raise EvalkitError(
        f"this is no opening: {what}",
        where=where,
        expected="one file as `evalkit custodian open` writes it",
        do="ask the custodian for it again, whole and unchanged",
    )


def _refuse(what: str, expected: str, *, where: str = "the custodian's release") -> NoReturn:
    raise BindingError(
        Binding.ATTESTATION,
        what,
        where=where,
        expected=expected,
        do="use the opening that the custodian made for this run's own request",
    )
