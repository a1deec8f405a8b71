"""W6: evidence is frozen after its cutoff and not in the future."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from evalkit.decisions import import_cases
from evalkit.decisions.case import part_a, read_part_a, verify_part_a
from evalkit.decisions.quality import quality_control
from evalkit.errors import Blocked, EvalkitError
from evalkit.sealing import canonical_json

from .support import CASES, FROZEN_AT, write_sheets

NOW = datetime(2026, 11, 30, 13, tzinfo=UTC)


@pytest.mark.parametrize("when", ["1999-01-01T00:00:00Z", "2026-11-30T13:00:01Z", "2099-01-01T00:00:00Z"])
def test_import_refuses_an_impossible_freeze(tmp_path: Path, when: str) -> None:
    sheets, pairs = write_sheets(tmp_path / "sheets")
    with pytest.raises(EvalkitError, match=r"cutoff|future"):
        import_cases(sheets, pairs, tmp_path / "cases", frozen_at=when, clock=lambda: NOW)
    assert not (tmp_path / "cases").exists()


def test_import_takes_paths_as_text_and_a_possible_freeze(tmp_path: Path) -> None:
    sheets, pairs = write_sheets(tmp_path / "sheets")
    out = tmp_path / "cases"
    import_cases([str(s) for s in sheets], str(pairs), str(out), frozen_at=FROZEN_AT, clock=lambda: NOW)
    assert (out / "catalog.json").is_file()


def test_a_freeze_before_the_cutoff_does_not_verify() -> None:
    part = read_part_a(CASES / "case-nflx-2007-07" / "part-a")
    warnings = quality_control(part.packet, part.report_bytes).codes()
    verify_part_a(part, accepted_warnings=warnings)
    freeze = json.loads(part.freeze_bytes) | {
        "frozen_at": "2007-07-23T23:59:59Z",
        "authored_at": "2007-07-23T00:00:00Z",
    }
    early = part_a(part.files() | {"freeze.json": canonical_json(freeze)}, where="part-a")
    with pytest.raises(Blocked, match="before the knowledge cutoff"):
        verify_part_a(early, accepted_warnings=warnings)
