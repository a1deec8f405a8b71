"""W6: what a frozen case must satisfy before its prompt is made."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from typing import Any

import pytest

from evalkit.decisions.case import PartA, verify_part_a
from evalkit.decisions.case import part_a as parse_part_a
from evalkit.decisions.quality import quality_control
from evalkit.decisions.rendering import render
from evalkit.errors import Blocked
from evalkit.sealing import canonical_json, digest

from .support import CASE_IDS, part_a


def warnings_of(part: PartA) -> list[str]:
    return quality_control(part.packet, part.report_bytes).codes()


@pytest.mark.parametrize("case_id", CASE_IDS)
def test_w6_the_committed_cases_verify(case_id: str) -> None:
    part = part_a(case_id)
    record = verify_part_a(part, accepted_warnings=warnings_of(part))
    assert record.mode == "frozen_bundle"
    assert record.artifact_bytes_replayed is False
    assert record.digests["packet"] == digest(part.packet_bytes)


def refrozen(change: Callable[[dict[str, Any]], None], **freeze: str) -> PartA:
    """A case that was changed and whose report, QC and freeze were all made anew."""
    part = part_a(CASE_IDS[0])
    value = json.loads(part.packet_bytes)
    change(value)
    packet_bytes = canonical_json(value)
    stub = {"packet.json": packet_bytes, "freeze.json": part.freeze_bytes, "report.md": b"", "qc.json": b""}
    packet = parse_part_a(stub, where="test").packet
    report = render(packet).encode()
    frozen = json.loads(part.freeze_bytes) | {
        "packet_digest": digest(packet_bytes),
        "report_digest": digest(report),
    }
    files = {
        "packet.json": packet_bytes,
        "freeze.json": canonical_json(frozen | freeze),
        "report.md": report,
        "qc.json": quality_control(packet, report).to_json(),
    }
    return parse_part_a(files, where="test")


def blocked(part: PartA, accepted: list[str] | None = None) -> str:
    with pytest.raises(Blocked) as caught:
        verify_part_a(part, accepted_warnings=warnings_of(part) if accepted is None else accepted)
    assert caught.value.exit_code == 5
    return str(caught.value)


def test_refrozen_without_a_change_verifies() -> None:
    part = refrozen(lambda value: None)
    verify_part_a(part, accepted_warnings=warnings_of(part))


def test_w6_a_changed_packet_byte() -> None:
    part = part_a(CASE_IDS[0])
    changed = part.packet_bytes.replace(b"303.7", b"303.8", 1)
    assert "not the packet that was frozen" in blocked(dataclasses.replace(part, packet_bytes=changed))


def test_w6_a_changed_report_byte() -> None:
    part = part_a(CASE_IDS[0])
    changed = part.report_bytes.replace(b"303.7", b"303.8", 1)
    text = blocked(dataclasses.replace(part, report_bytes=changed))
    assert "not the report that was frozen" in text
    assert "report-is-rendering" in text


def test_w6_a_changed_qc_byte() -> None:
    part = part_a(CASE_IDS[0])
    changed = part.qc_bytes.replace(b"EXCERPT_READ", b"EXCERPT_REAX")
    assert "qc.json" in blocked(dataclasses.replace(part, qc_bytes=changed))


@pytest.mark.parametrize(
    ("authored", "frozen"),
    [
        ("2026-11-30T12:00:01+00:00", "2026-11-30T12:00:00+00:00"),
        ("2026-11-30T12:00:00+00:00", "2026-11-30T13:59:59+02:00"),
        ("2026-12-01", "2026-11-30T12:00:00+00:00"),
    ],
)
def test_w6_authored_after_the_freeze(authored: str, frozen: str) -> None:
    assert "after the freeze" in blocked(refrozen(lambda v: None, authored_at=authored, frozen_at=frozen))


def test_w6_authored_at_the_freeze_is_in_time() -> None:
    part = refrozen(
        lambda v: None, authored_at="2026-11-30T12:00:00+00:00", frozen_at="2026-11-30T14:00:00+02:00"
    )
    verify_part_a(part, accepted_warnings=warnings_of(part))


@pytest.mark.parametrize("name", ["decision_time", "knowledge_cutoff", "case_id"])
def test_w6_freeze_of_other_coordinates(name: str) -> None:
    other = {"decision_time": "2007-07-26", "knowledge_cutoff": "2007-07-23", "case_id": "case-x"}[name]
    text = blocked(refrozen(lambda v: None, **{name: other}))
    assert name in text or "speaks of case-x" in text


@pytest.mark.parametrize(
    ("record", "field"),
    [("facts", "known_at"), ("company_claims", "known_at"), ("sources", "known_at"), ("judgments", "date"),
     ("liquidity", "as_of")],
)  # fmt: skip
@pytest.mark.parametrize("late", ["2007-07-25", "2007-07-24T23:59:59.9999999-01:00", "2008-01-01"])
def test_w6_known_after_the_cutoff(record: str, field: str, late: str) -> None:
    def change(value: dict[str, Any]) -> None:
        value[record][0][field] = late

    assert "known-by-cutoff" in blocked(refrozen(change))


def test_w6_a_reported_fact_about_the_future() -> None:
    def change(value: dict[str, Any]) -> None:
        value["facts"][0]["period"]["end"] = "2007-12-31"

    assert "facts-past" in blocked(refrozen(change))


def test_w6_an_extra_warning_blocks() -> None:
    part = part_a(CASE_IDS[0])
    accepted = warnings_of(part)
    for left_out in accepted:
        text = blocked(part, [c for c in accepted if c != left_out])
        assert f"not accepted: {left_out}" in text


def test_w6_a_missing_warning_blocks() -> None:
    part = part_a(CASE_IDS[0])
    text = blocked(part, [*warnings_of(part), "NO_LIQUIDITY_ITEM"])
    assert "accepted warnings that are not there: NO_LIQUIDITY_ITEM" in text


def test_w11_a_named_case_always_warns() -> None:
    for case_id in CASE_IDS:
        part = part_a(case_id)
        assert "NAMED_CASE" in warnings_of(part)
        assert part.packet.contamination == "named_case_source_bounded"


def test_w6_every_reason_is_given_at_once() -> None:
    part = part_a(CASE_IDS[0])
    broken = dataclasses.replace(part, report_bytes=b"x", qc_bytes=b"y")
    text = blocked(broken, [])
    assert all(word in text for word in ("report.md", "qc.json", "warnings that were not accepted"))
