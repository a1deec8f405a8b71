"""W4: case ids name folders beside the instructor's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.decisions import import_cases
from evalkit.errors import EvalkitError

from .support import FROZEN_AT, other_sheet, pairs_file, sheet, write_sheets


def import_as(root: Path, first: str, second: str) -> Path:
    one, two, pairs = sheet(first), other_sheet(), pairs_file()
    two["case_id"] = second
    pairs["pairs"][0].update(favorable_case_id=first, unfavorable_case_id=second)
    sheets, pair_path = write_sheets(root / "sheets", [one, two], pairs)
    import_cases(sheets, pair_path, root / "cases", frozen_at=FROZEN_AT)
    return root / "cases"


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("case-ferry", "Case-Ferry"),
        ("CASE", "case"),
        ("catalog.json", "case-b"),
        ("case-a", "mapping.json"),
        ("Catalog.JSON", "case-b"),
        ("case-a", "MAPPING.json"),
    ],
)
def test_w4_names_that_a_file_system_could_confuse_are_refused(
    tmp_path: Path, first: str, second: str
) -> None:
    with pytest.raises(EvalkitError, match="cannot name a folder") as caught:
        import_as(tmp_path, first, second)
    assert caught.value.exit_code == 2
    assert not (tmp_path / "cases").exists()


def test_w4_other_names_are_folders(tmp_path: Path) -> None:
    cases = import_as(tmp_path, "Case-1", "case-2.json")
    assert (cases / "Case-1" / "part-a" / "packet.json").is_file()
    assert (cases / "case-2.json" / "part-a" / "packet.json").is_file()
