"""What the timestamps of a decision run prove.

A token is over the bytes of an attestation.  It proves one thing: by a time that a pinned authority
states, that attestation existed.  It does not prove when something began, and a late token is no proof
of an early plan.  So every claim here says what it compares, and where it rests on the signer's clock.
"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

from evalkit.decisions.layout import EX_ANTE, REVEAL
from evalkit.decisions.moments import instant
from evalkit.decisions.plan import PLAN_ATTESTATION
from evalkit.errors import Binding, BindingError
from evalkit.sealing import Timestamp, Trust, read_tokens, verify_token
from evalkit.sealing.ledger import CLOCK_TOLERANCE
from evalkit.sealing.timestamp import available
from evalkit.sealing.timestamp_folder import FOLDER, token_name

PRECOMMIT = "precommit"
#: phase -> the attestation that its token is over, in the order of the phases
ENVELOPES = {
    PRECOMMIT: PLAN_ATTESTATION,
    EX_ANTE: f"{EX_ANTE}/run.dsse.json",
    REVEAL: f"{REVEAL}/calibration.dsse.json",
}
_WHAT = {
    PRECOMMIT: "the plan's attestation",
    EX_ANTE: "the run's attestation",
    REVEAL: "the reveal's attestation",
}

#: status, text, detail: a line of the verification
Claim = tuple[Literal["proven", "not proven"], str, str]


class Stamps:
    """The tokens of a run, read once, each verified over the very bytes of the attestation that is judged.

    Whoever can write the run while it is verified must not get one envelope stamped and another one judged.
    """

    def __init__(self, run_dir: Path, trust: Trust) -> None:
        self.trust = trust
        self.tokens = read_tokens(run_dir, ENVELOPES)
        self.envelopes: dict[str, bytes] = {}

    def attested_at(self, phase: str, envelope: bytes) -> datetime | None:
        """The time by which this envelope existed, as a pinned authority states (its latest meaning).

        None where there is no token, or one that does not verify: that is no evidence, and `claims` refuses it.
        """
        self.envelopes[phase] = envelope
        if phase not in self.tokens or _cannot_verify(self.trust):
            return None
        try:
            return self.verified(phase).latest
        except BindingError:
            return None

    def known(self, phase: str) -> datetime | None:
        """The same for an envelope that was judged before, None where there was none."""
        envelope = self.envelopes.get(phase)
        return None if envelope is None else self.attested_at(phase, envelope)

    def verified(self, phase: str) -> Timestamp:
        """The timestamp of a phase whose envelope was judged.  Raises `BindingError` ``timestamp``."""
        try:
            return verify_token(self.tokens[phase], self.envelopes[phase], self.trust.timestamp_authorities)
        except BindingError as error:
            what = error.what.removeprefix(f"{error.binding.value}: ")
            raise _token_error(phase, what, error.expected, error.do) from None


def claims(
    stamps: Stamps, *, planned: str, ex_ante: dict[str, Any] | None, calibration: dict[str, Any] | None
) -> list[Claim]:
    """What the tokens of a run prove, beside the times that its signer states.

    Raises `BindingError`: ``timestamp`` where a token does not verify although authorities are pinned.
    """
    tokens = stamps.tokens
    stated = {PRECOMMIT: planned}
    if ex_ante is not None:
        stated[EX_ANTE] = ex_ante["finalized_at"]
    if calibration is not None:
        stated[REVEAL] = calibration["revealed_at"]
    for phase in tokens:
        if phase not in stated:
            raise _token_error(phase, "there is a timestamp of a phase that is not there", ENVELOPES[phase])
    if tokens and (missing := _cannot_verify(stamps.trust)):
        return [
            (
                "not proven",
                f"what the timestamps in the run say: {missing[0]}",
                f"{', '.join(tokens)}; {missing[1]}",
            ),
            _limit(stated, {}),
        ]
    found = {phase: stamps.verified(phase) for phase in tokens}
    fast = {p: t for p, t in found.items() if instant(stated[p]) - t.latest > CLOCK_TOLERANCE}
    lines: list[Claim] = [
        ("proven", f"{_WHAT[phase]} existed at a time that a pinned timestamp authority states", str(t))
        for phase, t in found.items()
    ]
    lines += [
        (
            "not proven",
            f"the time that the signer states for {_WHAT[phase]}: it existed before that, so the signer's clock"
            " was wrong",
            f"stated {stated[phase]}, {(instant(stated[phase]) - t.latest).total_seconds():.0f} s after the timestamp",
        )
        for phase, t in fast.items()
    ]
    if ex_ante is not None and PRECOMMIT in found:
        lines.append(
            _order(PRECOMMIT, found[PRECOMMIT], "the evaluation began", ex_ante["started_at"], bool(fast))
        )
    if calibration is not None and EX_ANTE in found:
        lines.append(_order(EX_ANTE, found[EX_ANTE], "the reveal", calibration["revealed_at"], bool(fast)))
    return [*lines, _limit(stated, found)]


def _cannot_verify(trust: Trust) -> tuple[str, str] | None:
    """Why tokens cannot be verified here, and what to do."""
    if not trust.timestamp_authorities:
        return (
            "your trust file pins no timestamp authority",
            "evalkit timestamps pin, if you know whose they are",
        )
    if not available():
        return "the extra timestamps is not installed", "pip install 'evalkit-sealed[timestamps]'"
    return None


def _order(phase: str, stamp: Timestamp, event: str, at: str, clock_was_wrong: bool) -> Claim:
    """Was the attestation there before an event whose time only the signer states?"""
    if stamp.latest > instant(at):
        return (
            "not proven",
            f"that {_WHAT[phase]} existed before {event}: its timestamp is later and proves nothing about the order",
            f"timestamp {stamp}; the signer states {at}",
        )
    if clock_was_wrong:
        return (
            "not proven",
            f"that {_WHAT[phase]} existed before {event}: its timestamp is earlier, but than a time by a wrong clock",
            f"timestamp {stamp}; the signer states {at}",
        )
    return (
        "proven",
        f"{_WHAT[phase]} existed before {event}, if that was not before the signer says",
        f"timestamp {stamp}; the signer states {at}",
    )


def _limit(stated: dict[str, str], stamps: dict[str, Timestamp]) -> Claim:
    if not stamps:
        return "not proven", "when things happened, beyond the signer's own clock", ""
    without = [phase for phase in stated if phase not in stamps]
    return (
        "not proven",
        "how long before its timestamp an attestation was made, and any other time beyond the signer's own clock",
        f"no timestamp of {', '.join(without)}" if without else "",
    )


def _token_error(phase: str, what: str, expected: str, do: str = "") -> BindingError:
    return BindingError(
        Binding.TIMESTAMP,
        what,
        where=f"{FOLDER}/{token_name(phase)}",
        expected=expected,
        do=do or "restore what is missing, or take the token away, which removes a proof only",
    )
