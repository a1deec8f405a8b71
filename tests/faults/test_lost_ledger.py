"""A ledger or a journal that does not tell of the plan stops a run before anything is asked."""

from __future__ import annotations

import pytest
from decisions.support import World

from evalkit.decisions import evaluate, verify_run
from evalkit.errors import Binding, BindingError


def test_evaluate_asks_nothing_when_the_ledger_is_gone(
    planned: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """W40: the attempt would be counted in a ledger that does not hold the plan."""
    planned.ledger.path.unlink()
    monkeypatch.setattr("evalkit.decisions.evaluation.call", lambda *a, **k: pytest.fail("it asked"))
    with pytest.raises(BindingError) as error:
        evaluate(planned.run, write_run=True, places=planned.places)
    assert error.value.binding is Binding.RUN
    assert not planned.ledger.path.exists()


def test_verify_reads_the_journal_of_a_plan_too(planned: World) -> None:
    (planned.run / "journal.jsonl").write_bytes(b"")
    with pytest.raises(BindingError) as error:
        verify_run(planned.run, places=planned.places)
    assert error.value.binding is Binding.RUN
