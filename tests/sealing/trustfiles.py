"""Trust files for tests of rotation and revocation: signers in memory, chains signed by them."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from evalkit.errors import Binding, BindingError
from evalkit.sealing import (
    PREDICATES,
    Trust,
    TrustedKey,
    Verified,
    canonical_json,
    load_canonical,
    sign,
    verify,
)
from evalkit.sealing.pinning import CHAIN
from evalkit.sealing.rotation import ROTATION, sign_rotation
from evalkit.sealing.trust import FORMAT

EX_ANTE = PREDICATES["decisions/ex-ante"]
SUBJECT = b'{"score":7}'
NOW = datetime(2026, 11, 30, 12, tzinfo=UTC)
DAY = timedelta(days=1)


class Chain:
    """Keys k0, k1, ...; each is signed for by the one before, ``days[n]`` days after NOW."""

    def __init__(self, make_signer: Callable[..., Any], days: tuple[int, ...] = (1,), **fields: Any) -> None:
        rights: dict[str, Any] = {"roles": ("evaluator",), "predicate_types": (EX_ANTE, ROTATION)}
        self.make_signer = make_signer
        self.signers = [make_signer() for _ in range(len(days) + 1)]
        self.times = [NOW, *(NOW + n * DAY for n in days)]
        self.entries = [
            TrustedKey.of(signer.public_key, **(rights | {"valid_from": at} | fields))
            for signer, at in zip(self.signers, self.times, strict=True)
        ]
        self.rotations = [self.rotation(n) for n in range(len(days))]

    def rotation(self, n: int, successor: TrustedKey | None = None, **other: Any) -> Any:
        """The rotation from key n to ``successor`` (to key n + 1), as a JSON value."""
        arguments: dict[str, Any] = {
            "serial": n + 1,
            "ends_previous": self.times[n + 1],
            "signer": self.signers[n],
            "at": self.times[n + 1],
        }
        entry = successor if successor is not None else self.entries[n + 1]
        return load_canonical(sign_rotation(entry, **(arguments | other)))

    def thief(self, n: int, at: datetime, **other: Any) -> tuple[TrustedKey, Any]:
        """What whoever holds key n can make: a key of their own, and a rotation to it with any date."""
        signer = self.make_signer()
        entry = TrustedKey.of(
            signer.public_key,
            roles=self.entries[n].roles,
            predicate_types=self.entries[n].predicate_types,
            valid_from=at,
        )
        rotation = self.rotation(n, entry, at=at, ends_previous=at, **other)
        return entry, rotation

    def file(self, **other: Any) -> dict[str, Any]:
        """The trust file with the whole chain, as a JSON value."""
        return {
            "format": FORMAT,
            "keys": [entry.record() for entry in self.entries],
            "revocations": [],
            "rotations": list(self.rotations),
            "timestamp_authorities": [],
        } | other

    def export(self, upto: int | None = None) -> dict[str, Any]:
        return {"format": CHAIN, "entry": self.entries[0].record(), "rotations": self.rotations[:upto]}


def write(path: Path, value: Any) -> Path:
    path.parent.mkdir(mode=0o700, exist_ok=True)
    path.write_bytes(json.dumps(value, indent=1).encode())
    path.chmod(0o600)
    return path


def load(path: Path, value: Any) -> Trust:
    return Trust.load(write(path, value), [])


def refused(path: Path, value: Any, match: str) -> None:
    with pytest.raises(BindingError, match=match) as caught:
        load(path, value)
    assert caught.value.binding is Binding.AUTHORITY, caught.value
    assert caught.value.where
    assert caught.value.expected
    assert caught.value.do


def signed(signer: Any, at: datetime) -> bytes:
    return sign("run.json", SUBJECT, predicate_type=EX_ANTE, predicate={"run_id": "r1"}, signer=signer, at=at)


def check(envelope: bytes, trust: Trust, at: datetime, **other: Any) -> Verified:
    return verify(
        envelope,
        subject_name="run.json",
        predicate_type=EX_ANTE,
        trust=trust,
        run_id="r1",
        at=at,
        **other,
    )


def unauthorised(envelope: bytes, trust: Trust, at: datetime, match: str, **other: Any) -> None:
    with pytest.raises(BindingError, match=match) as caught:
        check(envelope, trust, at, **other)
    assert caught.value.binding is Binding.AUTHORITY, caught.value


def revocation(entry: TrustedKey, since: datetime, reason: str = "compromised") -> dict[str, Any]:
    return {
        "key_id": entry.key_id,
        "since": since.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "reason": reason,
        "comment": "",
    }


__all__ = [
    "DAY", "EX_ANTE", "NOW", "SUBJECT", "Chain", "canonical_json", "check", "load", "refused", "revocation",
    "signed", "unauthorised", "write",
]  # fmt: skip
