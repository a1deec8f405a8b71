"""OpenAI-compatible chat completions over HTTP (hosted services, vLLM, Ollama, llama.cpp servers).

One POST a call, no retry, no streaming, redirects refused, proxies and ``.netrc`` of the environment not
used.  The API key comes from an environment variable that is named, never given: the plan records the
name.  The digest of a request covers method, URL and body; the authorization header is not part of it.
"""

from __future__ import annotations

import json
import os
import re
import time
from collections.abc import Mapping
from typing import Any

from evalkit.errors import EvalkitError
from evalkit.models.provider import ProviderError, Request, Response
from evalkit.sealing import canonical_json, digest
from evalkit.web_address import web_address

DEFAULT_BASE_URL = "https://api.openai.com/v1"


#: bytes of an answer that are read: 16,000 tokens are well below a megabyte
_MAX_BODY = 32 * 2**20


def _check_base_url(base_url: str) -> None:
    """Refuse early what cannot be called, and what would put a secret into the plan."""
    parts, holds = web_address(base_url)
    secret = "@" in parts.netloc or parts.query or parts.fragment or "?" in base_url
    if secret or not holds:
        raise EvalkitError(
            "the base URL holds a user, a query or a fragment" if secret else f"{base_url!r} is no base URL",
            where="--base-url",
            expected="http:// or https://, a host and a path",
            do="give the service's address up to and including /v1; a key goes into an environment variable",
        )


class OpenAIProvider:
    """Provider for ``POST {base_url}/chat/completions`` with a strict JSON schema.

    ``timeout`` is in seconds, for the whole answer; ``max_output_tokens`` limits the answer;
    ``temperature`` is a decimal string, and None leaves it to the service (some models refuse one).
    """

    def __init__(
        self,
        model: str,
        *,
        base_url: str = DEFAULT_BASE_URL,
        api_key_variable: str = "OPENAI_API_KEY",
        temperature: str | None = None,
        max_output_tokens: int = 16_000,
        timeout: int = 600,
        environ: Mapping[str, str] | None = None,
    ) -> None:
        _check_base_url(base_url)
        if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,63}", api_key_variable):
            raise EvalkitError(
                "this is no name of an environment variable",  # it may be the key itself: not shown
                where="--api-key-variable",
                expected="a name such as OPENAI_API_KEY",
                do="put the key into a variable, and name the variable",
            )
        if temperature is not None and not re.fullmatch(r"\d(\.\d{1,3})?", temperature):
            raise EvalkitError(
                f"{temperature!r} is no temperature",
                where="--temperature",
                expected="a decimal such as 0 or 0.7",
                do="correct it, or leave it to the service",
            )
        self._model = model
        self._base_url = base_url.rstrip("/")
        self._api_key_variable = api_key_variable
        self._temperature = temperature
        self._max_output_tokens = max_output_tokens
        self._timeout = timeout
        self._environ = os.environ if environ is None else environ

    def configuration(self) -> dict[str, Any]:
        return {
            "adapter": "openai",
            "model": self._model,
            "base_url": self._base_url,
            "api_key_variable": self._api_key_variable,
            "temperature": self._temperature,
            "max_output_tokens": self._max_output_tokens,
            "timeout_seconds": self._timeout,
        }

    def complete(self, request: Request) -> Response:
        import httpx2

        url = f"{self._base_url}/chat/completions"
        body = canonical_json(self._body(request))
        headers = {"content-type": "application/json", "accept": "application/json"}
        key = self._key()
        if key:
            headers["authorization"] = f"Bearer {key}"
        try:
            with (
                httpx2.Client(timeout=self._timeout, follow_redirects=False, trust_env=False) as client,
                client.stream("POST", url, content=body, headers=headers) as answer,
            ):
                received = bytearray()
                deadline = time.monotonic() + self._timeout
                for part in answer.iter_bytes():
                    received += part
                    if time.monotonic() > deadline:  # a service that drips never times out by itself
                        raise self._error("timeout", f"no whole answer within {self._timeout} s", url)
                    if len(received) > _MAX_BODY:
                        raise self._error("malformed", f"the answer is longer than {_MAX_BODY} bytes", url)
                data = bytes(received)
        except httpx2.TimeoutException:
            raise self._error("timeout", f"no answer within {self._timeout} s", url) from None
        except httpx2.HTTPError as error:
            raise self._error("transport", f"{type(error).__name__}: {error}", url) from None
        if answer.status_code != 200:
            said = _said(data, key)
            raise self._error("status", f"HTTP status {answer.status_code}{said}", url)
        text, served, usage = self._read(data, url)
        return Response(
            text=text,
            requested_model=self._model,
            served_model=served,
            transmitted_prompt_digest=digest(request.prompt),
            request_digest=digest(b"POST " + url.encode() + b"\n" + body),
            body_digest=digest(data),
            usage=usage,
        )

    def _key(self) -> str:
        """The key, which must be able to stand in a header: a library's error would print it."""
        key = self._environ.get(self._api_key_variable, "")
        if not re.fullmatch(r"[!-~]*", key):
            raise EvalkitError(
                "the API key has a character that no key has, such as a space or a line break",
                where=f"${self._api_key_variable}",
                expected="printable ASCII without spaces",
                do="set the variable again, without the line break at its end",
            )
        return key

    def _body(self, request: Request) -> dict[str, Any]:
        try:
            content = request.prompt.decode()
        except UnicodeDecodeError:
            raise self._error("malformed", "the prompt is not UTF-8", "prompt") from None
        body: dict[str, Any] = {
            "model": self._model,
            "messages": [{"role": "user", "content": content}],
            "max_completion_tokens": self._max_output_tokens,
            "n": 1,
            "stream": False,
        }
        if self._temperature is not None:
            body["temperature"] = float(self._temperature)
        if request.response_schema is not None:
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {
                    "name": "response",
                    "strict": True,
                    "schema": dict(request.response_schema),
                },
            }
        return body

    def _read(self, data: bytes, url: str) -> tuple[bytes, str, dict[str, int]]:
        try:
            value = json.loads(data)
            choice = value["choices"][0]
            message = choice["message"]
            refusal, content = message.get("refusal"), message.get("content")
            served = str(value.get("model", ""))
            usage = {k: v for k, v in (value.get("usage") or {}).items() if type(v) is int}
            canonical_json([served, usage])  # a run file must be able to hold them
        except (ValueError, KeyError, IndexError, TypeError, AttributeError, RecursionError, EvalkitError):
            raise self._error("malformed", "the answer is not a chat completion", url) from None
        if refusal:
            raise self._error("refusal", "the model refused", url)
        if choice.get("finish_reason") == "length":
            raise self._error("truncated", "the answer was cut at the output limit", url)
        if type(content) is not str:
            raise self._error("malformed", "the answer has no text", url)
        return content.encode("utf-8", "surrogatepass"), served, usage

    def _error(self, kind: str, what: str, where: str) -> ProviderError:
        return ProviderError(
            kind,
            f"{self._model}: {what}",
            where=where,
            expected="one chat completion (HTTP 200) with a text answer",
            do=f"{self._remedy(kind, what)}; the attempt stays in the ledger",
        )

    def _remedy(self, kind: str, what: str) -> str:
        if kind == "truncated":
            return "make a plan with a larger --max-output-tokens"
        if kind == "refusal":
            return "the model declines this prompt: try another"
        if "status 429" in what or "status 5" in what or kind == "timeout":
            return "the service is busy or slow: wait, then evaluate again"
        if ("status 401" in what or "status 403" in what) and not self._environ.get(self._api_key_variable):
            return f"set ${self._api_key_variable}: it is empty"
        return f"check --base-url, the model's name and the key in ${self._api_key_variable}"


def _said(data: bytes, key: str) -> str:
    """The service's own words about an error, short, on one line, and without the key."""
    try:
        message = json.loads(data)["error"]["message"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return ""
    text = "".join(c if c.isprintable() else " " for c in " ".join(str(message).split()))
    if key:
        text = text.replace(key, "…")
    # services like to quote the start or the end of a key that they refuse
    text = re.sub(r"\bsk-[\w*-]+", "…", text)
    return f": {text[:200]}"
