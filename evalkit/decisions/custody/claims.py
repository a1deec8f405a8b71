"""What a run's files show of its custody, and what they cannot show.

A signature shows what a key signed, and by the digests in it, after what.  Whose the keys are, whether their
owners kept apart, and whether a clock was right, no file shows.
"""

from __future__ import annotations

from evalkit.decisions.claims import Line
from evalkit.decisions.custody.opening import Release
from evalkit.decisions.plan import Precommit


def plan_claims(plan: Precommit) -> list[Line]:
    """Of the plan: who keeps the outcomes."""
    keys = ", keys made for this run by its own user" if plan.ephemeral_keys else ""
    policy = Line("policy", f"custody {plan.custody}{keys}")
    if plan.custodian is None:
        return [policy]
    return [
        Line(
            "proven",
            "Part A and the sealed files are those that the custodian's key signed before the plan; that key is not"
            " the evaluator's",
            plan.custodian.key_id,
        ),
        policy,
        Line("policy", "that the sealed files open with the custodian's unsealing key only: she sealed them"),
        _owners(plan),
    ]


def _owners(plan: Precommit) -> Line:
    if plan.custody == "process":
        return Line(
            "policy", "that the custodian's account is another one than the evaluator's, of the same person"
        )
    return Line(
        "policy",
        "that custodian and evaluator are two people who did not collude: the evaluator could then not open the"
        " sealed files without the custodian",
    )


def release_claims(release: Release) -> list[Line]:
    """Of the reveal: how the openings came to the evaluator."""
    return [
        Line(
            "proven",
            "the custodian's key signed that it releases these openings for this very ex-ante attestation, and"
            " signed that after the attestation was made",
            release.key_id,
        ),
        Line(
            "proven",
            "the custodian's key signed how many other bundles of this pair her ledger tells of, and how many of"
            " them she had released",
            f"{release.others['sealed']} sealed, {release.others['released']} released",
        ),
        Line(
            "policy",
            "that nothing was released before: the custodian's evalkit releases the openings of a run once, for one"
            " attestation, after verifying it",
        ),
        Line("policy", "that the custodian's clock is right", f"released {release.released_at}"),
    ]


def custody_limits(plan: Precommit) -> list[Line]:
    """What stays open, whatever was verified."""
    if plan.custody == "self":
        return [
            Line("not proven", "that nobody peeked: the evaluator's own user could open the sealed files")
        ]
    if plan.custody == "process":
        return [
            Line(
                "not proven",
                "that nobody peeked: the person who evaluated also has the account that could open the sealed files",
            )
        ]
    return [
        Line(
            "not proven",
            "that nobody peeked: the custodian could open the sealed files at any time and has the cases; whom she"
            " told, no file shows",
        )
    ]
