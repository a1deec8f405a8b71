"""What torchmetrics and netcal return: the record that the tests of their errors quote, and that it still holds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .asking import Peers
from .torch_claims import CLAIMS, RECORD, answers

pytestmark = pytest.mark.peers


@pytest.fixture(scope="module")
def record() -> dict[str, Any]:
    return json.loads(RECORD.read_text(encoding="utf-8"))


def test_each_claim_has_a_recorded_answer(record: dict[str, Any]) -> None:
    assert record["answers"].keys() == CLAIMS.keys()
    assert {"torchmetrics", "netcal"} <= record["versions"].keys()


@pytest.mark.slow
def test_the_record_is_what_they_return(record: dict[str, Any], torch_peers: Peers) -> None:
    assert answers(torch_peers) == pytest.approx(record["answers"], rel=1e-9)
