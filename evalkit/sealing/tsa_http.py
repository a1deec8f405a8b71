"""Asking a timestamp authority over HTTP (RFC 3161 section 3.4): one POST, one answer, nothing else.

No retry, no redirects, no proxy or ``.netrc`` of the environment.  The answer is limited in size and
time and is not looked into here; it proves nothing before evalkit.sealing.timestamp has verified it.
The authority learns a digest and a random number, never what they are of.
"""

from __future__ import annotations

import time
from typing import NoReturn

from evalkit.errors import EvalkitError
from evalkit.sealing.timestamp import MAX_TOKEN
from evalkit.web_address import web_address

QUERY, REPLY = "application/timestamp-query", "application/timestamp-reply"


class NoTimestamp(EvalkitError):
    """The authority gave no usable answer; what was to be stamped stands all the same."""

    exit_code = 6


def check_url(url: str) -> str:
    """``url`` itself, if it can be asked and holds no secret that an error would show."""
    parts, holds = web_address(url)
    secret = "@" in parts.netloc or bool(parts.fragment)
    if secret or not holds:
        raise EvalkitError(
            "the URL holds a user or a fragment" if secret else f"{url!a} is not the URL of an authority",
            where="--tsa",
            expected="http:// or https://, a host and a path",
            do="give the address that the timestamp authority publishes",
        )
    return url


def ask(url: str, query: bytes, *, timeout: float = 30) -> bytes:
    """The authority's answer to a DER TimeStampReq.  ``timeout``: seconds for the whole answer.

    Raises `NoTimestamp` where none comes.
    """
    import httpx2

    check_url(url)
    headers = {"content-type": QUERY, "accept": REPLY}
    try:
        with (
            httpx2.Client(timeout=timeout, follow_redirects=False, trust_env=False) as client,
            client.stream("POST", url, content=query, headers=headers) as answer,
        ):
            if answer.status_code != 200:
                _no_answer(f"HTTP status {answer.status_code}", url)
            kind = answer.headers.get("content-type", "").partition(";")[0].strip().lower()
            if kind != REPLY:
                _no_answer(f"the answer is of the type {kind[:60]!a}", url)
            received = bytearray()
            deadline = time.monotonic() + timeout
            for part in answer.iter_bytes():
                received += part
                if time.monotonic() > deadline:  # what drips never times out by itself
                    _no_answer(f"no whole answer within {timeout:g} s", url)
                if len(received) > MAX_TOKEN:
                    _no_answer(f"the answer is longer than {MAX_TOKEN} bytes", url)
    except httpx2.TimeoutException:
        _no_answer(f"no answer within {timeout:g} s", url)
    except httpx2.HTTPError as error:
        _no_answer(f"{type(error).__name__}: {error}", url)
    return bytes(received)


def _no_answer(what: str, url: str) -> NoReturn:
    raise NoTimestamp(
        f"the timestamp authority gave no usable answer: {what}",
        where=url,
        expected=f"HTTP status 200 and {REPLY}",
        do="check the address, or try again later: evalkit timestamps stamp RUN --tsa URL",
    )
