"""Times that a signer states must fit each other and the journal's, to the ledger's tolerance (W33, W40)."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from evalkit.decisions import reveal, verify_run
from evalkit.decisions.moments import instant, stamp
from evalkit.errors import Binding, BindingError
from evalkit.sealing import canonical_json

from .forging import sign_reveal
from .support import World, forge

pytestmark = pytest.mark.usefixtures("quick_signer")

BEYOND = timedelta(seconds=8)  # the ledger tolerates five seconds


def shifted(text: str, by: timedelta) -> str:
    return stamp(instant(text) + by)


#: field -> a time for it, from the run, its plan and the clock: a loaded machine moves none of them apart
IMPOSSIBLE: dict[str, tuple[str, Callable[[dict[str, Any]], str]]] = {
    "begun before the plan": (
        "started_at",
        lambda d: shifted(d["precommit"]["created_at"], -BEYOND),
    ),
    "begun years before the plan": ("started_at", lambda d: "2007-07-25T00:00:00.000000Z"),
    "begun after it was signed": ("started_at", lambda d: stamp(datetime.now(UTC) + BEYOND)),
    "final before it was begun": ("finalized_at", lambda d: shifted(d["started_at"], -BEYOND)),
    "final after it was signed": ("finalized_at", lambda d: stamp(datetime.now(UTC) + BEYOND)),
    "final in another century": ("finalized_at", lambda d: "2999-01-01T00:00:00.000000Z"),
}


@pytest.mark.parametrize("name", IMPOSSIBLE)
def test_a_run_dated_off_its_journal_is_refused(planned: World, document: dict[str, Any], name: str) -> None:
    """A backdated or postdated run, signed with the right key over every digest."""
    field, at = IMPOSSIBLE[name]
    forge(planned, document, lambda d: d.update({field: at(d)}))
    with pytest.raises(BindingError, match="by the journal") as caught:
        verify_run(planned.run, places=planned.places)
    assert caught.value.binding is Binding.RUN


def test_a_run_dated_within_the_tolerance_verifies(planned: World, document: dict[str, Any]) -> None:
    """The forged copy that changes nothing: it is the date that the tests above refuse."""
    forge(planned, document, lambda d: None)
    assert verify_run(planned.run, places=planned.places).phase == "ex_ante_scored"


def test_a_reveal_dated_after_its_signature_is_refused(evaluated: World) -> None:
    made = json.loads(canonical_json(reveal(evaluated.run, places=evaluated.places).document))
    sign_reveal(evaluated, made | {"revealed_at": "2999-01-01T00:00:00.000000Z"})
    with pytest.raises(BindingError, match="by the journal") as caught:
        verify_run(evaluated.run, places=evaluated.places)
    assert caught.value.binding is Binding.RUN
