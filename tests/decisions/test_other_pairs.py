"""Revealing one pair tells nothing about the others of the same catalog."""

from __future__ import annotations

import json
from pathlib import Path

from evalkit.decisions import evaluate, precommit, reveal, verify_run
from evalkit.decisions.session import DEMO_PAIR, shipped_cases
from evalkit.sealing import digest


def test_the_opened_catalog_holds_this_pair_only(tmp_path: Path) -> None:
    """W1, W3: roles live in the catalog; its extract binds the whole by digest and shows one pair."""
    cases = shipped_cases()
    catalog = json.loads((cases / "catalog.json").read_bytes())
    others = [c for c in catalog["cases"] if c["pair_id"] != DEMO_PAIR]
    assert others
    run = tmp_path / "run"
    precommit(cases, pair=DEMO_PAIR, out=run)
    evaluate(run, write_run=True)
    reveal(run, write_calibration=True)
    verify_run(run)
    opened = (run / "reveal" / "calibration.json").read_text()
    extract = json.loads(opened)["openings"]["catalog"]["payload"]
    assert extract["catalog_digest"] == digest((cases / "catalog.json").read_bytes())
    for other in others:
        for value in (other["case_id"], other["pair_id"], other["part_b_digest"]):
            assert value not in opened
