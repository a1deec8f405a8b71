"""The baseline's rule is part of the sealed configuration: an edited rule is another model."""

from __future__ import annotations

from pathlib import Path

import pytest

from evalkit.decisions import baseline, configuration, evaluate
from evalkit.errors import Binding, BindingError
from evalkit.models.local import CallableProvider

from .support import World


def test_an_edited_baseline_is_refused(
    planned: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edited = tmp_path / "baseline.py"
    edited.write_text(Path(baseline.__file__).read_text().replace("1 - abs(", "2 - abs("))
    monkeypatch.setattr(
        configuration,
        "_baseline",
        lambda: CallableProvider(
            baseline.analyse, name="evalkit-baseline", version=baseline.VERSION, source=edited
        ),
    )
    with pytest.raises(BindingError) as caught:
        evaluate(planned.run, places=planned.places)
    assert caught.value.binding is Binding.CONFIGURATION
    assert planned.states() == []
