"""Moments as text: what each form takes, and that nothing else is read as a time."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest

from evalkit.sealing.times import parse_by_hand, parse_signed, short_text, signed_text

NOON = datetime(2026, 11, 30, 12, tzinfo=UTC)


def test_one_moment_has_one_signed_text() -> None:
    elsewhere = NOON.astimezone(timezone(timedelta(hours=5, minutes=30)))
    for moment in (NOON, elsewhere):
        assert signed_text(moment) == "2026-11-30T12:00:00.000000Z"
        assert short_text(moment) == "2026-11-30T12:00:00Z"
    later = NOON + timedelta(microseconds=120)
    assert signed_text(later) == short_text(later) == "2026-11-30T12:00:00.000120Z"
    for write, read in ((signed_text, parse_signed), (short_text, parse_by_hand)):
        assert read(write(elsewhere)) == NOON
        assert read(write(later)) == later
        with pytest.raises(ValueError, match="time zone"):
            write(NOON.replace(tzinfo=None))


def test_what_a_person_may_write() -> None:
    assert parse_by_hand("2026-11-30T12:00:00Z") == NOON
    assert parse_by_hand("2026-11-30T12:00:00.5Z") == NOON + timedelta(seconds=0.5)
    assert parse_signed("2026-11-30T12:00:00Z") is None
    assert parse_signed("2026-11-30T12:00:00.5Z") is None


@pytest.mark.parametrize(
    "value",
    [
        *(None, 0, True, b"2026-11-30T12:00:00.000000Z", NOON, ["2026-11-30T12:00:00.000000Z"]),
        *("", "now", "2026-11-30", "2026-11-30T12:00Z", "20261130T120000Z", "2026-11-30T12:00:00.000000"),
        *("2026-11-30T12:00:00.000000+00:00", "2026-11-30 12:00:00.000000Z", "2026-11-30T12:00:00.0000000Z"),
        *(" 2026-11-30T12:00:00.000000Z", "2026-11-30T12:00:00.000000Z\n", "٢026-11-30T12:00:00.000000Z"),
        *("2026-13-30T12:00:00.000000Z", "2026-02-30T12:00:00.000000Z", "2026-11-30T25:00:00.000000Z"),
    ],
)
def test_what_is_no_time(value: object) -> None:
    assert parse_signed(value) is None
    assert parse_by_hand(value) is None
