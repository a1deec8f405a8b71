"""The provider protocol: prompt bytes in, response bytes out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from evalkit.errors import EvalkitError


@dataclass(frozen=True)
class Request:
    """One call.  ``response_schema`` is passed on to services that can enforce it."""

    prompt: bytes
    response_schema: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class Response:
    """What came back.

    ``text`` is the raw answer of the model as bytes; ``body_digest`` covers everything that came over
    the wire; ``transmitted_prompt_digest`` is taken from the bytes that were handed over, not from what
    the caller meant to send; ``usage`` holds token counts as the service states them.
    """

    text: bytes
    requested_model: str
    served_model: str
    transmitted_prompt_digest: str
    request_digest: str
    body_digest: str
    replayed: bool = False
    usage: Mapping[str, int] = field(default_factory=dict)


class Provider(Protocol):
    """Anything that answers a prompt."""

    def configuration(self) -> dict[str, Any]:
        """What identifies this provider, as JSON, without any secret.  A precommit seals it."""

    def complete(self, request: Request) -> Response:
        """Answer once.  Raises `ProviderError`."""


class ProviderError(EvalkitError):
    """A call that gave no usable answer.  ``kind`` says why, in one word."""

    exit_code = 6

    def __init__(self, kind: str, what: str, *, where: str = "", expected: str = "", do: str = "") -> None:
        self.kind = kind
        super().__init__(what, where=where, expected=expected, do=do)
