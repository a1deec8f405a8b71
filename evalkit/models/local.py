"""A provider that is a Python function in this process: it gets the prompt bytes and nothing else."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

from evalkit.models.provider import ProviderError, Request, Response
from evalkit.sealing import canonical_json, digest


class CallableProvider:
    """Wrap ``function(prompt: bytes) -> bytes``.

    ``name``, ``version`` and the digest of its source file identify it in a plan, so that a function
    that was edited after the precommit is another one.  ``source``: the file where the function's rule is
    written, if it is not the one that defines it.
    """

    def __init__(
        self, function: Callable[[bytes], bytes], *, name: str, version: str, source: Path | None = None
    ) -> None:
        self._function = function
        self._name = name
        self._version = version
        self._source_digest = digest((source or Path(inspect.getfile(function))).read_bytes())

    def configuration(self) -> dict[str, Any]:
        return {
            "adapter": "callable",
            "model": self._name,
            "version": self._version,
            "source_digest": self._source_digest,
        }

    def complete(self, request: Request) -> Response:
        text = self._function(request.prompt)
        if type(text) is not bytes:
            raise ProviderError(
                "malformed",
                f"{self._name} returned {type(text).__name__}",
                where="local function",
                expected="bytes",
                do="encode the answer",
            )
        model = f"{self._name}/{self._version}"
        prompt = digest(request.prompt)
        return Response(
            text=text,
            requested_model=model,
            served_model=model,
            transmitted_prompt_digest=prompt,
            request_digest=digest(canonical_json({"model": model, "prompt": prompt})),
            body_digest=digest(text),
        )
