"""Points in time as the evidence states them: a calendar day, or an instant with an offset.

A day is an interval.  "Known on the 24th" is at or before a cutoff "the 24th", but not before a
cutoff "the 24th at noon": what cannot be shown to be in time counts as late, so that doubt never
lets hindsight in.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, time

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}\Z", re.ASCII)
_PARTIAL = re.compile(r"\d{4}(-(0[1-9]|1[0-2])(-\d{2})?)?\Z", re.ASCII)


def latest(text: str) -> datetime:
    """The last instant that ``text`` can mean, in UTC (ISO 8601 day, or instant with offset)."""
    if _DAY.match(text):
        return datetime.combine(date.fromisoformat(text), time.max, UTC)
    return instant(text)


def earliest(text: str) -> datetime:
    """The first instant that ``text`` can mean, in UTC."""
    if _DAY.match(text):
        return datetime.combine(date.fromisoformat(text), time.min, UTC)
    return instant(text)


def instant(text: str) -> datetime:
    """An offset-aware ISO 8601 instant.  Raises `ValueError` for a naive one."""
    value = datetime.fromisoformat(text)
    if value.tzinfo is None:
        raise ValueError(f"{text!r} has no offset: write for example 2026-11-30T12:00:00+00:00")
    # An offset, or a tolerance that is added, must not lead out of the calendar.
    if not 2 <= value.year <= 9998:
        raise ValueError(f"{text!r} is not in the years 2 to 9998")
    return value.astimezone(UTC)


def moment(text: str) -> str:
    """Validate a day or an offset-aware instant and return it unchanged."""
    latest(text)
    return text


def partial_day(text: str) -> str:
    """Validate a year, a month, a day or an instant (how exactly a publication date is known)."""
    if not _PARTIAL.match(text):
        instant(text)
    elif _DAY.match(text):
        date.fromisoformat(text)
    return text


def not_after(text: str, limit: str) -> bool:
    """Is ``text`` certainly at or before ``limit``?"""
    return latest(text) <= latest(limit)


def stamp(value: datetime) -> str:
    """Instant as text: UTC, to the microsecond."""
    return value.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
