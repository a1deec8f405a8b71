"""Points in time: a day is an interval, and doubt counts as late (W6)."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from evalkit.decisions.moments import earliest, instant, latest, moment, not_after, partial_day, stamp


@pytest.mark.parametrize(
    ("text", "limit", "in_time"),
    [
        ("2007-07-24", "2007-07-24", True),
        ("2007-07-25", "2007-07-24", False),
        ("2007-07-24", "2007-07-24T12:00:00+00:00", False),
        ("2007-07-23", "2007-07-24T12:00:00+00:00", True),
        ("2007-07-24T23:59:59+00:00", "2007-07-24", True),
        ("2007-07-24T23:59:59-01:00", "2007-07-24", False),
        ("2007-07-25T00:30:00+01:00", "2007-07-24", True),
        ("2007-07-24T12:00:00Z", "2007-07-24T14:00:00+02:00", True),
    ],
)
def test_w6_what_cannot_be_shown_to_be_in_time_is_late(text: str, limit: str, in_time: bool) -> None:
    assert not_after(text, limit) is in_time


@pytest.mark.parametrize(
    "text", ["", "2007", "2007-07", "2007-7-4", "2007-02-30", "24.07.2007", "2007-07-24T12:00:00", "today",
             "\u0662\u0660\u0660\u0667-07-24"]
)  # fmt: skip
def test_no_moment(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several causes
        moment(text)


@pytest.mark.parametrize("text", ["2007", "2007-07", "2007-07-24", "2007-07-24T12:00:00Z"])
def test_a_publication_may_be_known_to_the_year(text: str) -> None:
    assert partial_day(text) == text


@pytest.mark.parametrize("text", ["2007-00", "2007-13", "2007-07-32", "07", "2007-07-24T12:00:00"])
def test_no_publication_day(text: str) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - several causes
        partial_day(text)


times = st.datetimes(datetime(1950, 1, 1), datetime(2100, 1, 1)).map(lambda d: d.replace(tzinfo=UTC))


@settings(max_examples=100, deadline=None)
@given(times, st.integers(-14 * 60, 14 * 60))
def test_offsets_do_not_move_an_instant(value: datetime, minutes: int) -> None:
    from datetime import timezone

    other = value.astimezone(timezone(timedelta(minutes=minutes)))
    assert instant(other.isoformat()) == value
    assert instant(stamp(other)) == value


@settings(max_examples=100, deadline=None)
@given(times)
def test_a_day_holds_its_instants(value: datetime) -> None:
    day = value.date().isoformat()
    assert earliest(day) <= value <= latest(day)
    assert not_after(value.isoformat(), day)
