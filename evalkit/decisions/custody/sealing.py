"""The custodian seals a pair for one run: Part A in the clear, the rest to her own unsealing key.

The run id is minted here, since packets open in their own run only: one bundle serves one run.  What precommit
refuses of cases is refused here, by the same code (`evalkit.decisions.preparation`).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal, NoReturn, cast

import evalkit
from evalkit.decisions.custody.bundle import (
    BUNDLE,
    BUNDLE_ATTESTATION,
    KEPT_APART,
    Bundle,
    verify_custodian,
)
from evalkit.decisions.layout import check_parent
from evalkit.decisions.moments import stamp
from evalkit.decisions.preparation import prepare
from evalkit.decisions.run_keys import require_role, unsealing_public_key
from evalkit.decisions.sealed_pair import LedgerHead, new_run_id, refuse_existing, write_tree
from evalkit.errors import EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Ledger,
    Places,
    Trust,
    commit_directory,
    digest,
    resolve_signer,
    sign,
    trust_path,
)
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.keys import public_part
from evalkit.sealing.places import check_run_id


def seal_bundle(
    cases: Path | str,
    *,
    pair: str,
    out: Path | str,
    custody: str = "second_party",
    run_id: str | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    selection_rule: str | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Bundle:
    """Make the bundle ``out`` of one pair of a folder of cases, for one run of an evaluator who has no cases.

    Needs a signing key of one's own that one's own trust file pins for custody.  The ledger's event ``sealed`` is
    written before the folder appears.  Raises `EvalkitError`, `Blocked` or `BindingError` as `precommit` does.
    """
    cases, out = Path(cases), Path(out)
    places = places or Places.from_environment()
    _check_custody(custody)
    refuse_existing(out, "bundle")
    check_parent(out)
    run_id = check_run_id(run_id or new_run_id())
    workspace = [cases, out.absolute()]
    prepared = prepare(cases, pair, None)  # which warnings are acceptable is for the evaluator to say
    if not os.path.lexists(places.signing_key):
        raise EvalkitError(
            "there is no signing key",
            where=str(places.signing_key),
            expected="a custodian's key of one's own",
            do="make one with evalkit keys init --role custodian",
        )
    own = Trust.load(trust_path(trust, places), workspace)
    key_id = id_of(public_part(places.signing_key, workspace=workspace)[0])
    require_role(key_id, "custody/seal", "custodian", trust=own, run_id=run_id, at=clock())
    with resolve_signer(places, workspace=workspace) as signer:
        ledger = Ledger(places.ledger(signer.key_id), clock=clock)
        head = ledger.head
        sealed = prepared.seal(
            run_id=run_id,
            recipient=unsealing_public_key(places, workspace),
            selection_rule=selection_rule,
        )
        bundle = Bundle(
            schema="evalkit/custody-bundle/1",
            run_id=run_id,
            sealed_at=stamp(clock()),
            evalkit_version=evalkit.__version__,
            custody=cast(Literal["process", "second_party"], custody),
            pair=sealed.pair,
            cases=sealed.cases,
            catalog=sealed.packets["catalog"].record(),
            mapping=sealed.packets["mapping"].record(),
            custodian_key_id=signer.key_id,
            unsealing_public_key=sealed.unsealing_public_key,
            ledger_head=LedgerHead(size=head.size, digest=head.digest),
        )
        data = bundle.to_json()
        attestation = sign(
            BUNDLE,
            data,
            predicate_type=PREDICATES["custody/seal"],
            predicate={
                "run_id": run_id,
                "phase": "sealed",
                "bundle_digest": digest(data),
                "custody": custody,
                "ledger": head.record(),
            },
            signer=signer,
            at=clock(),
        )
        verify_custodian(attestation, BUNDLE, "custody/seal", own, run_id=run_id, key_id=signer.key_id)
        ledger.append("sealed", run_id=run_id, pair=pair, document=digest(data), envelope=digest(attestation))
    commit_directory(out, write_tree({BUNDLE: data, BUNDLE_ATTESTATION: attestation} | sealed.files()))
    return bundle


def _check_custody(custody: str) -> None:
    if custody == "timelock":
        _refuse(
            "this version does not write custody timelock",
            "nothing here keeps a key from everybody until a time: take second_party, with somebody who waits",
        )
    if custody == "self":
        _refuse(
            "custody self needs no custodian",
            "evalkit decisions precommit CASES; such a run is never called blind",
        )
    if custody not in KEPT_APART:
        _refuse(f"{custody!a} is no custody", "correct it")


def _refuse(what: str, do: str) -> NoReturn:
    raise EvalkitError(what, where="--custody", expected=" or ".join(KEPT_APART), do=do)
