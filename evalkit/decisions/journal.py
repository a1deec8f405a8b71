"""The run's journal: its segment of the signer's ledger, and what it must tell.

The chain runs unbroken from the ledger head in the plan to the head that the newest attestation signed.  What
stands behind that head is under no signature: it must chain, and proves nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from evalkit.decisions.layout import EX_ANTE, JOURNAL, read_bound
from evalkit.decisions.moments import instant
from evalkit.errors import Binding, BindingError, located
from evalkit.sealing import Head, Verified, canonical_json, digest, verify_chain
from evalkit.sealing.ledger import CLOCK_TOLERANCE, require_intent

if TYPE_CHECKING:
    from evalkit.decisions.chain import OpenPlan


def check_committed(
    journal: list[dict[str, Any]], *, plan_run_id: str, phase: str, pair: tuple[bytes, bytes]
) -> None:
    """What the journal says was committed must be what lies there (no signature covers that line)."""
    document, envelope = map(digest, pair)
    for record in journal:
        about = (record["event"], record.get("run_id"), record.get("phase"))
        if about == ("committed", plan_run_id, phase) and (document, envelope) != (
            record.get("document"),
            record.get("envelope"),
        ):
            raise BindingError(
                Binding.RUN,
                f"the journal says that another {phase} was committed",
                where=JOURNAL,
                expected=f"{document}, attested by {envelope}",
                do="restore the journal",
            )


def check_covered(journal: list[dict[str, Any]], signed: Head) -> None:
    """A ledger head that a signature vouches for must be in the journal: nothing was cut off before it."""
    if not any(r["seq"] == signed.size - 1 and digest(canonical_json(r)) == signed.digest for r in journal):
        raise BindingError(
            Binding.RUN,
            "the journal does not hold the entry that a signature vouches for",
            where=JOURNAL,
            expected=f"entry {signed.size - 1}, {signed.digest}",
            do="restore the journal",
        )


def open_journal(opened: OpenPlan, signed: Head | None = None) -> list[dict[str, Any]]:
    """The run's segment of the ledger: unbroken from the plan on, and telling of this very plan.

    ``signed``: a head that a signature vouches for, which must be in it.
    """
    head = opened.plan.ledger_head
    with located(JOURNAL):
        records = verify_chain(
            read_bound(opened.run_dir, JOURNAL, Binding.RUN),
            start_prev=head.digest,
            start_seq=head.size,
            covers=signed,
        )
    covered = records if signed is None else [r for r in records if r["seq"] < signed.size]
    if not tells_of_plan(covered, opened):
        raise _journal_error("the journal does not tell of this plan", "the precommit of plan.json")
    return records


def tells_of_plan(records: list[dict[str, Any]], opened: OpenPlan) -> bool:
    """Is the precommit of this plan, with this attestation, among the entries of a ledger?"""
    wanted = ("precommit", opened.plan.run_id, opened.digest, opened.attestation.envelope_digest)
    return any((r["event"], r.get("run_id"), r.get("document"), r.get("envelope")) == wanted for r in records)


def attested_journal(
    opened: OpenPlan, signed: Head, document: dict[str, Any], document_bytes: bytes
) -> list[dict[str, Any]]:
    """The journal of an attested run: the signed head is the intent to sign it, after its attempt was begun,
    after the plan; the attempt is counted, within the cap of the plan."""
    number, stated = document["attempt"], document["attempts"]
    if type(number) is not int or type(stated) is not int:
        raise _journal_error("the run states no number of its attempt", "attempt and attempts as integers")
    records = open_journal(opened, signed)
    run_id = opened.plan.run_id
    require_intent(
        records, signed, run_id=run_id, phase=EX_ANTE, attempt=number, document=digest(document_bytes)
    )
    begun = attempts_begun(records, run_id, signed)
    if number not in begun or not number <= stated <= len(begun):
        raise _journal_error(
            "the journal does not tell of this attempt", f"{stated} attempt(s), number {number} among them"
        )
    if number > opened.plan.attempt_cap:
        raise _journal_error(
            f"attempt {number} is beyond the plan's cap", f"at most {opened.plan.attempt_cap}"
        )
    planned = next(r["seq"] for r in records if tells_of_plan([r], opened))
    if planned > min(begun.values()):
        raise _journal_error("an attempt was begun before the plan was recorded", "the precommit first")
    check_dated(document["started_at"], records, since=None, until=signed)
    check_dated(document["finalized_at"], records, since=document["started_at"], until=signed)
    return records


def check_dated(at: str, records: list[dict[str, Any]], *, since: str | None, until: Head) -> None:
    """A time that a signer states must lie between the plan and the entry that was signed with it.

    The ledger's clock tolerates small corrections, and so does this.
    """
    last = next(r for r in records if r["seq"] == until.size - 1)
    if not all(isinstance(r.get("time"), str) for r in (records[0], last)):
        raise _journal_error("an entry of the journal has no time", "the time at which it was written")
    first = instant(since) if since else instant(records[0]["time"])
    if not first - CLOCK_TOLERANCE <= instant(at) <= instant(last["time"]) + CLOCK_TOLERANCE:
        raise _journal_error(
            f"{at} is not a time at which that could happen, by the journal",
            f"from {first.isoformat()} to {last['time']}",
        )


def check_signed_at(records: list[dict[str, Any]], verified: Verified) -> None:
    """A phase is signed at the time of its intent, the entry whose head it signs: the key's validity is
    judged at that time, so it must not be another than the ledger's."""
    head = Head.from_record(verified.predicate.get("ledger"))
    intent = next(r for r in records if r["seq"] == head.size - 1)
    stated = verified.predicate.get("signed_at")
    if stated is None or intent.get("time") != stated:
        raise _journal_error(
            f"the attestation says that it was signed at {stated}",
            f"{intent.get('time')}, when the journal says that it was to be signed",
        )


def attempts_begun(records: list[dict[str, Any]], run_id: str, signed: Head) -> dict[int, int]:
    """Number -> seq of all attempts at the ex-ante phase that were begun before the signed head, whatever became
    of them and whichever of them this run is.

    The ledger numbers them 1, 2, 3, …, each begun once, and each event of an attempt comes after its beginning.
    """
    begun: dict[int, int] = {}
    for r in records:
        if r["seq"] >= signed.size or (r.get("run_id"), r.get("phase")) != (run_id, EX_ANTE):
            continue
        number = r.get("attempt")
        fits = number == len(begun) + 1 if r["event"] == "attempt" else number in begun
        if type(number) is not int or not fits:
            raise _journal_error(
                f"entry {r['seq']} ({r['event']}) is of an attempt out of its order",
                "attempts that are numbered 1, 2, 3, …, each begun before it goes on",
            )
        if r["event"] == "attempt":
            begun[number] = r["seq"]
    return begun


def _journal_error(what: str, expected: str) -> BindingError:
    return BindingError(Binding.RUN, what, where=JOURNAL, expected=expected, do="restore the journal")
