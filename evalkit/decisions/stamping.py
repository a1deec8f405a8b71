"""Stamping a decision run: asking an authority for tokens, or carrying requests and answers by hand.

A token is verified before it is written.  What is asked for is a token over the attestation as it lies
there: whether the attestation itself holds, `evalkit verify` says.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from evalkit.decisions.chain import load_trust, run_directory
from evalkit.decisions.layout import check_parent, read_bound
from evalkit.decisions.timestamps import ENVELOPES, PRECOMMIT
from evalkit.errors import Binding, EvalkitError
from evalkit.sealing import Places, Timestamp, Trust, read_tokens, verify_token, write_token
from evalkit.sealing.exchange import read_exchange
from evalkit.sealing.files import directory, exists, write_new_at
from evalkit.sealing.timestamp import (
    MAX_TOKEN,
    asked_imprint,
    request,
    require_extra,
    stated_imprint,
    status_of,
)
from evalkit.sealing.timestamp_folder import FOLDER, token_name
from evalkit.sealing.tsa_http import NoTimestamp, ask


@dataclass(frozen=True)
class Stamped:
    """A token that was put into a run, or that was there already (then not ``added``)."""

    phase: str
    timestamp: Timestamp
    added: bool = True

    def record(self) -> dict[str, Any]:
        t = self.timestamp
        return {
            "phase": self.phase,
            "time": t.time.isoformat(),
            "accuracy_seconds": None if t.accuracy is None else t.accuracy.total_seconds(),
            "authority": t.authority,
            "serial": str(t.serial),
            "policy": t.policy,
        }


def authorities_to_ask(run_dir: Path, trust: Path | None, places: Places | None = None) -> Trust:
    """The trust file, with an authority in it: without one no answer could be verified."""
    require_extra()
    loaded = load_trust(run_dir, trust, places)
    if not loaded.timestamp_authorities:
        raise EvalkitError(
            "your trust file pins no timestamp authority",
            where=str(loaded.path),
            expected="the certificate that signs its tokens, and its root",
            do="evalkit timestamps pin --name NAME --root root.pem --leaf leaf.pem",
        )
    return loaded


def unstamped(run_dir: Path, phase: str | None = None) -> dict[str, bytes]:
    """Phase -> attestation of what is committed and has no token; of ``phase`` only, where it is given."""
    committed = [p for p, name in ENVELOPES.items() if os.path.lexists(run_dir / name)]
    wanted = committed if phase is None else [phase]
    if not committed or not set(wanted) <= set(committed):
        raise EvalkitError(
            f"the phase {phase or PRECOMMIT} is not committed",
            where=str(run_dir),
            expected=ENVELOPES[phase or PRECOMMIT],
            do="name a run folder, and a phase that is in it",
        )
    tokens = read_tokens(run_dir, ENVELOPES)
    if phase in tokens:
        raise EvalkitError(
            f"the phase {phase} has a token",
            where=str(run_dir / FOLDER / token_name(phase)),
            expected="a phase without one",
            do="keep it: a later token proves less",
        )
    return {p: read_bound(run_dir, ENVELOPES[p], Binding.ATTESTATION) for p in wanted if p not in tokens}


def stamp(
    run_dir: Path | str,
    url: str,
    *,
    phase: str | None = None,
    trust: Path | None = None,
    places: Places | None = None,
    ask: Callable[[str, bytes], bytes] = ask,
) -> list[Stamped]:
    """Get a token for each phase that is committed and has none, or for ``phase`` alone.

    A token is verified, nonce included, before it is written.  Raises `NoTimestamp` where the authority
    gives none; what was stamped before that stays.
    """
    run_dir = run_directory(Path(run_dir))
    pinned = authorities_to_ask(run_dir, trust, places).timestamp_authorities
    done = []
    for name, data in unstamped(run_dir, phase).items():
        query = request(data)
        response = ask(url, query)
        if refusal := status_of(response):
            raise NoTimestamp(
                f"the timestamp authority gave no timestamp: {refusal}",
                where=url,
                expected="the status granted",
                do="read its words, then: evalkit timestamps stamp RUN --tsa URL",
            )
        done.append(Stamped(name, write_token(run_dir, name, response, data, pinned, request=query)))
    return done


def write_requests(run_dir: Path | str, out: Path) -> dict[str, Path]:
    """Write ``<phase>.tsq`` into ``out`` for each phase that is committed and has no token.

    The request holds the nonce: keep it for `attach`.
    """
    run_dir = run_directory(Path(run_dir))
    require_extra()
    if out.resolve().is_relative_to(run_dir.resolve()):
        raise EvalkitError(
            "requests do not belong into the run folder",
            where=str(out),
            expected="a folder outside of it",
            do="choose another --out",
        )
    check_parent(out)
    queries = {phase: request(data) for phase, data in unstamped(run_dir).items()}
    out.mkdir(exist_ok=True)
    with directory(out, binding=None, owner="us-or-sticky") as fd:
        for phase in queries:
            if exists(fd, f"{phase}.tsq"):
                raise EvalkitError(
                    "there is a request already",
                    where=str(out / f"{phase}.tsq"),
                    expected="a new name: its nonce may be needed still",
                    do="choose another --out",
                )
        for phase, query in queries.items():
            write_new_at(fd, f"{phase}.tsq", query, where=str(out / f"{phase}.tsq"))
    return {phase: out / f"{phase}.tsq" for phase in queries}


def attach(
    run_dir: Path | str,
    token: Path,
    *,
    phase: str,
    request: Path | None = None,
    trust: Path | None = None,
    places: Places | None = None,
) -> Stamped:
    """Put a token that was fetched elsewhere into the run, after verifying it.

    With ``request``, its nonce must be the token's.  Without, an old token for the same bytes counts too:
    it proves no less.  The token that is there already changes nothing.
    """
    run_dir = run_directory(Path(run_dir))
    pinned = authorities_to_ask(run_dir, trust, places).timestamp_authorities
    if not os.path.lexists(run_dir / ENVELOPES[phase]):
        unstamped(run_dir, phase)
    data = read_bound(run_dir, ENVELOPES[phase], Binding.ATTESTATION)
    response = read_exchange(token, max_bytes=MAX_TOKEN)
    query = None if request is None else read_exchange(request, max_bytes=MAX_TOKEN)
    _refuse_mix_up(run_dir, phase, token, _imprint(response, where=token))
    if request is not None and query is not None:
        _refuse_mix_up(run_dir, phase, request, asked_imprint(query))
    if read_tokens(run_dir, ENVELOPES).get(phase) == response:
        return Stamped(phase, verify_token(response, data, pinned, request=query), added=False)
    return Stamped(phase, write_token(run_dir, phase, response, data, pinned, request=query))


def _imprint(response: bytes, *, where: Path) -> bytes | None:
    """The digest that a token is over, as far as it can be read; refuses a request in its place."""
    if asked_imprint(response) is not None:
        raise EvalkitError(
            "this looks like a request, not like the answer to it",
            where=str(where),
            expected="the authority's answer, usually named .tsr",
            do="send the request to the authority, and attach what it answers",
        )
    return stated_imprint(response)


def _refuse_mix_up(run_dir: Path, phase: str, file: Path, imprint: bytes | None) -> None:
    """Say so where a token or a request is for another phase of this very run."""
    for other, name in ENVELOPES.items():
        if other == phase or not os.path.lexists(run_dir / name):
            continue
        if hashlib.sha256(read_bound(run_dir, name, Binding.ATTESTATION)).digest() == imprint:
            raise EvalkitError(
                f"this is for the phase {other} of this run",
                where=str(file),
                expected=f"what is for the phase {phase}",
                do=f"check --phase: --phase {other} fits this file",
            )
