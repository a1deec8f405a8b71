"""The replay provider and the local one: no guess, labelled, prompt bytes only."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.models import ProviderError, Request, Response, call
from evalkit.models.local import CallableProvider
from evalkit.models.replay import Recorded, ReplayProvider, read_replay, replay_file
from evalkit.sealing import canonical_json, digest

PROMPT = b"What now?"


def test_a_replay_answers_the_very_prompt_and_says_replayed() -> None:
    provider = ReplayProvider(replay_file([Recorded(digest(PROMPT), "answer", "m-1")]))
    response = provider.complete(Request(PROMPT))
    assert (response.text, response.replayed, response.served_model) == (b"answer", True, "m-1")
    assert call(provider, Request(PROMPT), subject="x").coordinates()["replayed"] is True
    with pytest.raises(ProviderError) as caught:
        provider.complete(Request(PROMPT + b" "))
    assert caught.value.kind == "not-recorded"


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        {"schema": "evalkit/replay/2", "records": []},
        {"schema": "evalkit/replay/1"},
        {"schema": "evalkit/replay/1", "records": [], "more": 1},
        {"schema": "evalkit/replay/1", "records": [{"prompt_digest": "x", "text": "y"}]},
        {"schema": "evalkit/replay/1", "records": [{"prompt_digest": "x", "text": "y", "model": 1}]},
        {"schema": "evalkit/replay/1", "records": [3]},
        {"schema": "evalkit/replay/1", "records": 3},
        {"schema": "evalkit/replay/1", "records": [{"prompt_digest": "x", "text": "y", "model": "m"}] * 2},
    ],
)
def test_what_is_no_replay_file(value: Any) -> None:
    with pytest.raises(EvalkitError):
        read_replay(value, where="test")


def test_a_replay_file_must_be_canonical() -> None:
    data = json.dumps(json.loads(replay_file([])), indent=1).encode()
    with pytest.raises(EvalkitError, match="not canonical"):
        ReplayProvider(data)


def test_a_replays_configuration_binds_its_bytes() -> None:
    one = ReplayProvider(replay_file([Recorded(digest(PROMPT), "a", "m")])).configuration()
    two = ReplayProvider(replay_file([Recorded(digest(PROMPT), "b", "m")])).configuration()
    assert one != two
    assert one["replay_digest"] == digest(replay_file([Recorded(digest(PROMPT), "a", "m")]))


def test_w9_a_local_function_gets_the_prompt_bytes_only() -> None:
    seen: list[tuple[Any, ...]] = []

    def function(*arguments: Any, **named: Any) -> bytes:
        seen.append((arguments, named))
        return b"ok"

    CallableProvider(function, name="f", version="1").complete(Request(PROMPT, {"type": "object"}))
    assert seen == [((PROMPT,), {})]


@pytest.mark.parametrize("answer", ["text", None, bytearray(b"x"), 1])
def test_a_local_function_must_return_bytes(answer: Any) -> None:
    with pytest.raises(ProviderError) as caught:
        CallableProvider(lambda prompt: answer, name="f", version="1").complete(Request(PROMPT))
    assert caught.value.kind == "malformed"


def test_a_trace_binds_configuration_and_prompt() -> None:
    provider = CallableProvider(lambda prompt: b"ok", name="f", version="1")
    trace = call(provider, Request(PROMPT), subject="case-x")
    c = trace.coordinates()
    assert c["configuration_digest"] == digest(canonical_json(provider.configuration()))
    assert c["transmitted_prompt_digest"] == digest(PROMPT)
    assert c["subject"] == "case-x"


def test_an_answer_of_gigabytes_is_refused() -> None:
    class Flood:
        def configuration(self) -> dict[str, Any]:
            return {"adapter": "flood", "model": "flood"}

        def complete(self, request: Request) -> Response:
            d = digest(request.prompt)
            return Response(b" " * (17 * 2**20), "flood", "flood", d, d, d)

    with pytest.raises(ProviderError) as caught:
        call(Flood(), Request(PROMPT), subject="x")
    assert caught.value.kind == "malformed"
