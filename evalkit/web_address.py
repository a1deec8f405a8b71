"""Taking an address apart that is to be asked over HTTP."""

from __future__ import annotations

import re
from urllib.parse import SplitResult, urlsplit


def web_address(text: str) -> tuple[SplitResult, bool]:
    """The parts of ``text``, and whether it is an http or https URL with a host, in visible ASCII.

    The parts are there where it is none as well (all empty where nothing can be told apart): a secret in
    them must not be shown by the error either.  What may be in them is for the caller to judge.
    """
    try:
        parts = urlsplit(text)
        holds = (
            parts.scheme in ("http", "https")
            and bool(parts.hostname)
            and (parts.port is None or parts.port > 0)
            and re.fullmatch(r"[!-~]+", text) is not None
        )
    except ValueError:
        return urlsplit(""), False
    return parts, holds
