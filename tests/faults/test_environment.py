"""What stands in the environment of the evaluating process reaches neither the analyst nor a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from decisions.support import evaluate_world, replay_world

from evalkit.decisions import evaluation, reveal
from evalkit.models import Request
from evalkit.models.replay import ReplayProvider

SECRETS = {
    "OPENAI_API_KEY": "sk-sentinel-0123456789abcdef",
    "AWS_SECRET_ACCESS_KEY": "sentinel/AWS+0123456789",
    "EVALKIT_PASSPHRASE": "sentinel passphrase",
    "PROMPT": "sentinel: the first case failed",
}


def test_the_environment_is_not_handed_to_the_analyst(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A provider gets the prompt and the schema; of the environment nothing is in them, or in any file."""
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    world = replay_world(tmp_path / "w", {})
    asked: list[Request] = []
    real = evaluation.call

    def listening(provider: Any, request: Request, **other: Any) -> Any:
        asked.append(request)
        assert isinstance(provider, ReplayProvider)
        assert not [v for v in SECRETS.values() if v in repr(provider.configuration())]
        return real(provider, request, **other)

    monkeypatch.setattr(evaluation, "call", listening)
    evaluate_world(world)
    reveal(world.run, write_calibration=True, places=world.places)
    assert len(asked) == 2
    words = [*SECRETS.values(), os.environ["HOME"], str(world.root)]
    for request in asked:
        # Its two fields are all there is.
        assert set(vars(request)) == {"prompt", "response_schema"}
        shown = request.prompt.decode() + repr(request.response_schema)
        assert not [word for word in words if word in shown]
    for path in world.root.rglob("*"):
        if path.is_file():
            data = path.read_bytes()
            assert not [name for name, value in SECRETS.items() if value.encode() in data], path
