"""The chain line by line, at its edges: what is wrong alone must be wrong among others too."""

from __future__ import annotations

from typing import Any

import pytest

from evalkit.errors import Binding, BindingError
from evalkit.sealing import Head, canonical_json, digest, verify_chain
from evalkit.sealing.hash_chain import BATCH, GENESIS, MAX_LINE, Chain

T = "2026-11-30T12:00:00.%06dZ"


def lines(*records: dict[str, Any], start: int = 0, prev: str = GENESIS) -> list[bytes]:
    """Lines that follow on each other; a record may state other fields than it should."""
    made = []
    for seq, record in enumerate(records, start):
        made.append(canonical_json({"event": "note", "prev": prev, "seq": seq} | record))
        prev = digest(made[-1])
    return made


def joined(made: list[bytes]) -> bytes:
    return b"".join(line + b"\n" for line in made)


def refused(data: bytes, match: str, **named: Any) -> BindingError:
    with pytest.raises(BindingError, match=match) as caught:
        verify_chain(data, **named)
    assert caught.value.binding is Binding.RUN
    return caught.value


@pytest.mark.parametrize(
    "time",
    [
        *("2026-11-30T12:00:00.000000z", "2026-11-30 12:00:00.000000Z", "2026-11-30T12:00:00,000000Z"),
        *("2026-11-30T12:00:00.0000000", "٢026-11-30T12:00:00.000000Z", "2026-11-30T12:00:00.000000Z\n"),
        *("2026-11-30T12:00:00Z", "", 0, None, True, ["2026-11-30T12:00:00.000000Z"]),
    ],
)
@pytest.mark.parametrize("among", [[], [{"time": T % 0}], [{}, {"time": T % 0}, {"time": T % 1}]])
def test_a_time_that_is_malformed(time: Any, among: list[dict[str, Any]]) -> None:
    for records in ([*among, {"time": time}], [{"time": time}, *among]):
        at = records.index({"time": time})
        assert refused(joined(lines(*records)), "time is malformed").where == f"seq {at}"


def test_time_may_stand_still_or_be_left_out_but_not_run_backwards() -> None:
    fine = [{"time": T % 1}, {"time": T % 1}, {}, {"time": T % 2}]
    assert len(verify_chain(joined(lines(*fine)))) == 4
    for records, at in (
        ([{"time": T % 1}, {"time": T % 0}], 1),
        ([{"time": T % 1}, {}, {"time": T % 0}], 2),
        ([{"time": T % 0}, {"time": T % 2}, {"time": T % 1}], 2),
    ):
        assert refused(joined(lines(*records)), "time runs backwards").where == f"seq {at}"
    # Also from one batch to the next, and from one feed to the next.
    chain = Chain()
    first, second = lines({"time": T % 1}, {"time": T % 0})
    chain.feed([first])
    assert chain.time == T % 1
    with pytest.raises(BindingError, match="time runs backwards"):
        chain.feed([second])


@pytest.mark.parametrize(
    "field",
    [
        *({"seq": 1}, {"seq": -1}, {"seq": "0"}, {"seq": None}, {"seq": False}, {"seq": 0.5}),
        *({"prev": ""}, {"prev": None}, {"prev": "sha256:" + "1" * 64}, {"event": 1}, {"event": None}),
    ],
)
@pytest.mark.parametrize("before", [0, 2])
def test_a_field_that_is_wrong(field: dict[str, Any], before: int) -> None:
    records = [{}] * before + [field | ({"seq": 7} if field == {"seq": 1} and before else {}), {}]
    assert refused(joined(lines(*records)), "chain breaks|has no seq").where == f"seq {before}"


@pytest.mark.parametrize("value", [[], 1, "x", None, {}, {"seq": 0}, {"seq": 0, "prev": GENESIS}])
def test_a_line_that_is_no_entry(value: Any) -> None:
    for more in ([], lines({}, start=1)):
        assert refused(joined([canonical_json(value), *more]), "no seq, prev or event").where == "seq 0"


def test_a_line_may_be_as_long_as_the_limit() -> None:
    room = MAX_LINE - len(lines({"x": ""})[0])
    assert len(lines({"x": "a" * room})[0]) == MAX_LINE
    for among in ([], [{}]):
        assert len(verify_chain(joined(lines(*among, {"x": "a" * room})))) == len(among) + 1
        refused(joined(lines(*among, {"x": "a" * (room + 1)})), "does not parse")


@pytest.mark.parametrize("size", [BATCH - 1, BATCH, BATCH + 1, 2 * BATCH + 1])
def test_batches_follow_on_each_other(size: int) -> None:
    made = lines(*({"time": T % n} for n in range(size)))
    head = Head(size, digest(made[-1]))
    assert [r["seq"] for r in verify_chain(joined(made), covers=head)] == list(range(size))
    refused(joined(made[:-1]), "does not contain", covers=head)
    for gone in (0, size // 2, min(BATCH, size) - 2, size - 2):
        assert refused(joined(made[:gone] + made[gone + 1 :]), "chain breaks").where == f"seq {gone}"


def test_a_segment_begins_where_it_is_said_to() -> None:
    made = lines({}, {}, {}, {})
    heads = [Head(n + 1, digest(line)) for n, line in enumerate(made)]
    whole, rest = joined(made), joined(made[2:])
    known: dict[str, Any] = {"start_prev": heads[1].digest, "start_seq": 2}
    for head in (Head(0, GENESIS), *heads):
        verify_chain(whole, covers=head)
    for head in heads[1:]:  # the entry just before the segment is vouched for by its first line
        verify_chain(rest, covers=head, **known)
    for head in (Head(0, GENESIS), heads[0], Head(5, heads[3].digest), Head(3, heads[3].digest)):
        refused(rest, "does not contain", covers=head, **known)
    refused(rest, "chain breaks")
    refused(whole[:-1], "torn")
    assert verify_chain(b"") == []
    refused(b"\n", "does not parse")


def test_entries_and_heads() -> None:
    chain = Chain()
    made = lines({}, {})
    digests, records = chain.feed(made)
    assert digests == [digest(line) for line in made]
    assert [r["seq"] for r in records] == [0, 1]
    assert chain.head == Head(2, digests[-1])
    assert Head.from_record(chain.head.record()) == chain.head
    assert chain.feed([]) == ([], [])
