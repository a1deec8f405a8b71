"""Live traces: proof, inside this process, that a call was really made here.

A trace is a capability, not a record.  It is created by `call` only, is known to this process by
identity, and cannot be copied, pickled or built from values: what a file says about a call has no
authority.  `LiveTrace.coordinates` gives the record of it for the run file.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, NoReturn

from evalkit.models.provider import Provider, ProviderError, Request, Response
from evalkit.sealing import canonical_json, digest

#: bytes of an answer
MAX_TEXT = 2 * 2**20

_live: weakref.WeakSet[LiveTrace] = weakref.WeakSet()
_mint = object()


class LiveTrace:
    """One call that this process made."""

    __slots__ = ("__weakref__", "_configuration_digest", "_response", "_started_at", "_subject")

    def __init__(
        self, mint: object, subject: str, configuration_digest: str, response: Response, started_at: str
    ) -> None:
        if mint is not _mint:
            raise TypeError("a LiveTrace is made by evalkit.models.call, not by hand")
        self._subject = subject
        self._configuration_digest = configuration_digest
        self._response = response
        self._started_at = started_at
        _live.add(self)

    @property
    def response(self) -> Response:
        return self._response

    @property
    def subject(self) -> str:
        """What the call was about (for example a case id)."""
        return self._subject

    def coordinates(self) -> dict[str, Any]:
        """The record of this call for a run file."""
        r = self._response
        return {
            "subject": self._subject,
            "configuration_digest": self._configuration_digest,
            "requested_model": r.requested_model,
            "served_model": r.served_model,
            "transmitted_prompt_digest": r.transmitted_prompt_digest,
            "request_digest": r.request_digest,
            "body_digest": r.body_digest,
            "replayed": r.replayed,
            "usage": dict(r.usage),
            "started_at": self._started_at,
        }

    def _refuse(self, *_: object) -> NoReturn:
        raise TypeError("a LiveTrace cannot be copied or serialised: a copy would have no authority")

    __copy__ = __deepcopy__ = __reduce__ = __reduce_ex__ = __getstate__ = _refuse


def is_live(trace: object) -> bool:
    """Was this very object made by `call` in this process?"""
    return type(trace) is LiveTrace and trace in _live


def call(
    provider: Provider,
    request: Request,
    *,
    subject: str,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> LiveTrace:
    """Make one fresh call and return its live trace.  Raises `ProviderError`."""
    started_at = clock().astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    configuration = digest(canonical_json(provider.configuration()))
    response = provider.complete(request)
    if len(response.text) > MAX_TEXT:
        raise ProviderError(
            "malformed",
            f"the answer has {len(response.text)} bytes",
            where=subject,
            expected=f"at most {MAX_TEXT}, so that a run file can hold it",
            do="limit the output of the model",
        )
    return LiveTrace(_mint, subject, configuration, response, started_at)
