"""Moments in signed and trusted files: always UTC, always with a ``Z``.

What evalkit signs has six digits of a second, so that one moment has one spelling and texts compare
as the moments do.  What a person writes by hand may leave the fraction out.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

_SIGNED = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{6}Z", re.ASCII)
_BY_HAND = re.compile(r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(\.\d{1,6})?Z", re.ASCII)


def signed_text(moment: datetime) -> str:
    """``YYYY-MM-DDThh:mm:ss.ffffffZ``.  ValueError for a moment without a time zone."""
    return _utc(moment).isoformat(timespec="microseconds") + "Z"


def short_text(moment: datetime) -> str:
    """The same without a fraction that is zero.  ValueError for a moment without a time zone."""
    return _utc(moment).isoformat() + "Z"


def parse_signed(value: object) -> datetime | None:
    """The moment that `signed_text` wrote, or None where ``value`` is nothing of the kind."""
    return _parse(value, _SIGNED)


def parse_by_hand(value: object) -> datetime | None:
    """The moment that a person or `short_text` wrote, or None."""
    return _parse(value, _BY_HAND)


def _parse(value: object, form: re.Pattern[str]) -> datetime | None:
    if type(value) is not str or not form.fullmatch(value):
        return None
    try:
        return datetime.fromisoformat(value)
    except ValueError:
        return None  # well formed, but no such day or hour


def _utc(moment: datetime) -> datetime:
    if moment.tzinfo is None:
        raise ValueError("a time without a time zone")
    return moment.astimezone(UTC).replace(tzinfo=None)
