"""What a run's files show of its custody, and what they cannot show.

A signature shows what a key signed, and by the digests in it, after what.  Whose the keys are, whether their
owners kept apart, and whether a clock was right, no file shows.
"""

from __future__ import annotations

from evalkit.decisions.claims import Line, Status
from evalkit.decisions.custody.bundle import BUNDLE
from evalkit.decisions.custody.opening import SUBJECT, Release
from evalkit.decisions.plan import Precommit
from evalkit.decisions.shipped import shipped_claims
from evalkit.sealing import Verified


def _line(status: Status, text: str, detail: str = "") -> Line:
    return Line(status, text, detail, topic="custody")


def _caveats(caveats: tuple[str, ...], signed: str) -> list[Line]:
    """What the custodian's signature alone does not prove of its time (evalkit.sealing.envelope)."""
    return [_line("not proven", caveat, signed) for caveat in caveats]


def plan_claims(plan: Precommit, sealed: Verified | None) -> list[Line]:
    """Of the plan: who keeps the outcomes.  ``sealed`` is the custodian's verified word for the bundle."""
    keys = ", keys made for this run by its own user" if plan.ephemeral_keys else ""
    policy = _line("policy", f"custody {plan.custody}{keys}")
    if plan.custodian is None:
        return [policy]
    return [
        _line(
            "proven",
            "Part A and the sealed files are those that the custodian's key signed; it is another key than the"
            " plan's, and no rotation that your trust file knows leads from one to the other",
            plan.custodian.key_id,
        ),
        policy,
        _line(
            "policy", "that the sealed files open with the custodian's unsealing key only: she sealed them"
        ),
        _owners(plan),
        *_caveats(sealed.caveats if sealed else (), BUNDLE),
    ]


def _owners(plan: Precommit) -> Line:
    if plan.custody == "process":
        return _line(
            "policy", "that the custodian's account is another one than the evaluator's, of the same person"
        )
    return _line(
        "policy",
        "that custodian and evaluator are two people who did not collude: the evaluator could then not open the"
        " sealed files without the custodian",
    )


def release_claims(release: Release) -> list[Line]:
    """Of the reveal: how the openings came to the evaluator."""
    return [
        _line(
            "proven",
            "the custodian's key signed that it releases these openings for this very ex-ante attestation, and"
            " signed that after the attestation was made",
            release.key_id,
        ),
        _line(
            "proven",
            "the custodian's key signed how many other bundles of this pair her ledger tells of, and how many of"
            " them she had released",
            f"{release.others['sealed']} sealed, {release.others['released']} released",
        ),
        _line(
            "policy",
            "that nothing was released before: the custodian's evalkit releases the openings of a run once, for one"
            " attestation, after verifying it",
        ),
        _line("policy", "that the custodian's clock is right", f"released {release.released_at}"),
        *_caveats(release.caveats, SUBJECT),
    ]


def custody_limits(plan: Precommit) -> list[Line]:
    """What stays open, whatever was verified."""
    return [
        _line("not proven", f"that nobody peeked: {_COULD_PEEK[plan.custody]}"),
        *shipped_claims(plan.cases),
    ]


_COULD_PEEK = {
    "self": "the evaluator's own user could open the sealed files",
    "process": "the person who evaluated also has the account that could open the sealed files",
    "second_party": "the custodian could open the sealed files at any time and has the cases; whom she told, no"
    " file shows",
}
