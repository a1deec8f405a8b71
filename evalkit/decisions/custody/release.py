"""The custodian verifies a request and releases the openings, for one attested run and never for another.

The order is the point:

1. The whole run is verified, with the custodian's own trust file, as any third party would.
2. It must be mine: my key signed its bundle, and that key's ledger tells of it.  A key that was rotated since
   goes on with what it sealed: for a new release as long as it is valid, and to give an old one again after that.
3. No blocker, not revealed, not released for another attestation of the same run: there is no second try with
   the same packets, whatever plan, attempt or evaluator asks.
4. The packets are opened in memory and checked.
5. The ledger's event ``released`` is written and synced, under a lock, before anything leaves.
6. The statement is made from that event alone: asking again, after a crash too, gives the same bytes.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from evalkit.decisions.chain import OpenExAnte
from evalkit.decisions.custody.bundle import require_spelling, verify_custodian
from evalkit.decisions.custody.opening import SUBJECT, Release, bindings_of, to_json
from evalkit.decisions.custody.request import read_request
from evalkit.decisions.layout import check_parent
from evalkit.decisions.moments import instant, stamp
from evalkit.decisions.openings import interpret, sealed_packets, to_publish
from evalkit.decisions.own_ledgers import own_entries
from evalkit.decisions.plan import Precommit
from evalkit.decisions.releasable import require_releasable
from evalkit.decisions.verification import verify_run
from evalkit.errors import Binding, BindingError, Blocked, EvalkitError
from evalkit.sealing import (
    PREDICATES,
    Entry,
    Ledger,
    Places,
    Trust,
    canonical_json,
    digest,
    load_canonical,
    load_unsealing_key,
    resolve_signer,
    sign,
)
from evalkit.sealing.exchange import refuse_taken, write_exchange
from evalkit.sealing.files import directory, locked, make_private_directory
from evalkit.sealing.keys import key_id as id_of
from evalkit.sealing.keys import public_part
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.signer import signing_key_file
from evalkit.sealing.times import short_text


def release(
    request: Path | str,
    *,
    out: Path | str,
    trust: Path | None = None,
    places: Places | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
    observe: Callable[[str], None] = lambda step: None,
) -> Release:
    """Write the opening for a verified request into the new file ``out``.

    Raises `BindingError` where the run does not verify or is not mine, `Blocked` where outcomes may not be
    released (a blocker, or released before for another attestation), and `EvalkitError` for a bad file.
    """
    request, out = Path(request), Path(out)
    places = places or Places.from_environment()
    check_parent(out)
    refuse_taken(out)
    asked = read_request(request)
    with tempfile.TemporaryDirectory(prefix="evalkit-request-") as folder:
        run_dir = asked.unpack(Path(folder))
        report = verify_run(run_dir, trust=trust, places=places)
        run = require_releasable(report.run, report.phase, str(request))
        opened = run.evidence.opened
        if asked.run_id != opened.plan.run_id:
            raise EvalkitError(
                f"the request says {asked.run_id} and holds {opened.plan.run_id}",
                where=str(request),
                expected="one run",
                do="ask the evaluator for it again, whole and unchanged",
            )
        _require_signed(run, str(request))
        key_path = _key_file(opened.plan, opened.trust, places)
        with resolve_signer(places, key_path=key_path, workspace=[run_dir]) as signer:
            ledger = Ledger(places.ledger(signer.key_id), clock=clock)
            _require_mine(opened.plan, signer.key_id, ledger)
            _refuse_future(run, clock())
            private = load_unsealing_key(places.unsealing_key, workspace=[run_dir])
            packets = sealed_packets(run_dir, opened.plan)
            found = {kind: packet.reveal(private) for kind, packet in packets.items()}
            interpret(opened.plan, found)
            openings = to_publish(found)
            make_private_directory(places.ledgers)
            with directory(places.ledgers, binding=Binding.RUN) as fd, locked(fd):
                observe("ledger")
                entry, again = _released(run, ledger, digest(canonical_json(openings)), places, clock())
            predicate: dict[str, Any] = bindings_of(run) | {
                "released_at": entry.record["time"],
                "others": entry.record["others"],
                "ledger": entry.head.record(),
            }
            observe("sign")
            envelope = sign(
                SUBJECT,
                canonical_json(openings),
                predicate_type=PREDICATES["custody/opening"],
                predicate=predicate,
                signer=signer,
                at=instant(entry.record["time"]),
            )
            verify_custodian(
                envelope,
                SUBJECT,
                "custody/opening",
                opened.trust,
                run_id=opened.plan.run_id,
                key_id=signer.key_id,
            )
            observe("write")
            write_exchange(out, to_json(opened.plan.run_id, openings, envelope))
    return Release(
        run_id=opened.plan.run_id,
        openings=openings,
        envelope=load_canonical(envelope),
        key_id=signer.key_id,
        released_at=entry.record["time"],
        others=entry.record["others"],
        again=again,
    )


def _key_file(plan: Precommit, trust: Trust, places: Places) -> Path:
    """The file of the key that sealed the bundle: my own, rotated since or not."""
    custodian = plan.custodian
    assert custodian is not None
    path = signing_key_file(places, custodian.key_id)
    rotated = trust.rotation_from(custodian.key_id) is not None and os.path.lexists(path)
    if rotated and id_of(public_part(path)[0]) != custodian.key_id:
        raise EvalkitError(
            "the key that sealed this bundle was rotated, and its file is not here",
            where=str(places.retired_signing_key(custodian.key_id)),
            expected=f"the key {custodian.key_id}, which evalkit keys rotate keeps under that name",
            do="restore the file, or answer in the account whose key it is; no other key can sign this release",
        )
    return path


def _require_signed(run: OpenExAnte, where: str) -> None:
    """Nothing in the request is beyond a signature: who carries it can change nothing, not even its digests."""
    require_spelling(run.attestation_bytes, run.attestation)
    if len(run.journal) != run.signed_head.size - run.evidence.opened.plan.ledger_head.size:
        raise BindingError(
            Binding.RUN,
            "the journal in the request goes on behind what the run's attestation signed",
            where=where,
            expected="the journal as `evalkit custodian request` cuts it",
            do="ask the evaluator for the request again",
        )


def _require_mine(plan: Precommit, key_id: str, ledger: Ledger) -> None:
    """I sealed the bundle of this plan: my signature over it was verified, and my ledger tells of it."""
    custodian = plan.custodian
    assert custodian is not None
    if custodian.key_id != key_id:
        raise BindingError(
            Binding.AUTHORITY,
            "another custodian sealed this run",
            where=custodian.key_id,
            expected=f"a bundle of this key, {key_id}",
            do="hand the request to the custodian whom the plan names",
        )
    wanted = ("sealed", plan.run_id, custodian.bundle_digest, digest(canonical_json(custodian.attestation)))
    for entry in ledger.entries():
        r = entry.record
        if (r["event"], r.get("run_id"), r.get("document"), r.get("envelope")) == wanted:
            return
    raise BindingError(
        Binding.RUN,
        "this ledger does not tell of the bundle",
        where=str(ledger.path),
        expected=f"the event sealed of run {plan.run_id}, {custodian.bundle_digest}",
        do="restore the ledger: without it nothing shows what was released before",
    )


def _refuse_future(run: OpenExAnte, now: datetime) -> None:
    finalized = run.document["finalized_at"]
    if now + CLOCK_TOLERANCE < instant(finalized):
        raise EvalkitError(
            f"this machine's clock ({stamp(now)}) is behind the time at which the run was final",
            where="clock",
            expected=f"a time from {finalized} on",
            do="find out whose clock is wrong, and set it; nothing was released",
        )


def _released(
    run: OpenExAnte, ledger: Ledger, openings_digest: str, places: Places, now: datetime
) -> tuple[Entry, bool]:
    """The event ``released`` of this very run, and whether it was there before."""
    bound = bindings_of(run)
    fields = {
        "run_id": bound["run_id"],
        "plan": bound["plan_digest"],
        "document": bound["ex_ante_run_digest"],
        "attestation": bound["ex_ante_attestation_digest"],
        "openings": openings_digest,
    }
    entries = ledger.entries()
    for entry in entries:
        if (entry.record["event"], entry.record.get("run_id")) != ("released", bound["run_id"]):
            continue
        if all(entry.record.get(name) == value for name, value in fields.items()):
            return entry, True
        raise Blocked(
            "the openings of this run were released for another attestation",
            where=f"{ledger.path}: seq {entry.seq}, attestation {entry.record.get('attestation')}",
            expected="one release a run: no second try with the same packets",
            do="seal another bundle, for another run",
        )
    opened = run.evidence.opened
    _refuse_unable(opened.plan, opened.trust, now)  # before it is recorded: nothing is released by half
    return ledger.append("released", **fields, others=_others(opened.plan, places)), False


def _refuse_unable(plan: Precommit, trust: Trust, now: datetime) -> None:
    """A release that was not given before needs a new signature of the key that sealed the bundle."""
    assert plan.custodian is not None
    key = trust.key(plan.custodian.key_id)
    assert key is not None  # it signed the bundle, which was verified
    objection = trust.objection(key, PREDICATES["custody/opening"], plan.run_id, now)
    if objection:
        raise BindingError(
            Binding.AUTHORITY,
            f"the key that sealed this bundle can release it no more: {objection}",
            where=key.key_id,
            expected=f"a key that can sign at {short_text(now)}; what was released before, it gives again at any time",
            do="nothing was recorded or released; seal another bundle with the key that you use now, for another run",
        )


def _others(plan: Precommit, places: Places) -> dict[str, int]:
    """How many other bundles of this pair my ledgers tell of: many runs, the best one shown, is a way to cheat."""
    events = [entry.record for _, entry in own_entries(places)]
    pair = {r["run_id"] for r in events if r["event"] == "sealed" and r.get("pair") == plan.pair.pair_id}
    others = pair - {plan.run_id}
    released = {r["run_id"] for r in events if r["event"] == "released"} & others
    return {"sealed": len(others), "released": len(released)}
