"""A response that is no decision record is blocked, scored, kept and never revealed (W28, W36)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from evalkit.decisions import configure, evaluate, reveal, verify_run
from evalkit.decisions.evaluation import Evaluation
from evalkit.decisions.rubric import score_response
from evalkit.errors import Blocked
from evalkit.models import Request, Response
from evalkit.sealing import digest

from .support import CASE_IDS, World, baseline_record, codes, make_world, part_a, rubric

pytestmark = pytest.mark.usefixtures("quick_signer")

INCOMPLETE = {"REQUIRED_DECISION_RECORD_INCOMPLETE"}


def good() -> str:
    return json.dumps(baseline_record(part_a("case-bbi-2007-07")))


def with_field(**fields: Any) -> bytes:
    return json.dumps(json.loads(good()) | fields).encode()


MALFORMED: dict[str, bytes] = {
    "empty": b"",
    "not JSON": b"I would keep the price.",
    "fenced JSON": b"```json\n" + good().encode() + b"\n```",
    "JSON and a sentence": good().encode() + b"\nI hope this helps.",
    "two objects": good().encode() + good().encode(),
    "duplicate key": good().replace('"facts":', '"facts": [], "facts":', 1).encode(),
    "duplicate key, escaped": good().replace('"facts":', '"f\\u0061cts": [], "facts":', 1).encode(),
    "NaN": good().replace('"rank": 1', '"rank": NaN', 1).encode(),
    "invalid UTF-8": good().encode()[:-1] + b"\xff}",
    "byte order mark": b"\xef\xbb\xbf" + good().encode(),
    "lone surrogate": with_field().replace(b"Baseline rule", b"\\ud800 rule", 1),
    "extra field": with_field(note="also"),
    "missing field": json.dumps({k: v for k, v in json.loads(good()).items() if k != "facts"}).encode(),
    "wrong type": with_field(facts="none"),
    "number as a number": good().replace('"probability": "0.', '"probability": 0.', 1).replace('"', '"').encode(),
    "null": b"null",
    "list": b"[]",
    "an integral float beyond 2^53": with_field(note=1e300),
    "an integer beyond 2^53": with_field(note=2**60),
    "too many digits": b'{"a": ' + b"9" * 5000 + b"}",
    "nested 60 deep": b"[" * 60 + b"]" * 60,
    "nested 62 deep": b"[" * 62 + b"]" * 62,
    "nested 5000 deep": b"[" * 5000 + b"]" * 5000,
}  # fmt: skip


def sealed_files_opened(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names of sealed files and unsealing keys that are asked for from now on."""
    seen: list[str] = []
    from evalkit.decisions import calibration

    def forbidden(*arguments: Any, **named: Any) -> Any:
        seen.append(str(arguments))
        raise AssertionError(f"opened: {arguments}")

    monkeypatch.setattr(calibration, "load_unsealing_key", forbidden)
    monkeypatch.setattr(calibration, "sealed_packets", forbidden)
    return seen


@pytest.fixture(scope="session")
def planned_once(tmp_path_factory: pytest.TempPathFactory) -> World:
    """A plan for a model behind a service: only its answers cannot be computed again by a verifier."""
    model = configure("openai:stub", base_url="http://127.0.0.1:9/v1")
    return make_world(tmp_path_factory.mktemp("asked") / "w", model=model)


@dataclass(frozen=True)
class Stub:
    """A provider of the sealed configuration that answers as it is told."""

    world: World
    respond: Callable[[bytes], bytes]

    def configuration(self) -> dict[str, Any]:
        value: dict[str, Any] = self.world.plan["model"]
        return value

    def complete(self, request: Request) -> Response:
        text = self.respond(request.prompt)
        return Response(text, "stub", "stub", digest(request.prompt), digest(b"request"), digest(text))


def answer(
    world: World, monkeypatch: pytest.MonkeyPatch, raw: bytes, *, write_run: bool = True
) -> Evaluation:
    """Evaluate with a provider of the sealed configuration that gives ``raw`` for one case."""
    from evalkit.decisions import evaluation
    from evalkit.decisions.baseline import analyse

    def respond(prompt: bytes) -> bytes:
        return raw if b'"case-bbi-2007-07"' in prompt else analyse(prompt)

    monkeypatch.setattr(evaluation, "provider_for", lambda model: Stub(world, respond))
    return evaluate(world.run, write_run=write_run, places=world.places)


@pytest.mark.parametrize("name", MALFORMED)
def test_w28_malformed_is_blocked_scored_and_kept(
    planned: World, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    result = answer(planned, monkeypatch, MALFORMED[name])
    case = next(c for c in result.document["cases"] if c["case_id"] == "case-bbi-2007-07")
    assert {b["code"] for b in case["score"]["blockers"]} == INCOMPLETE
    assert case["score"]["eligible"] is False
    assert case["score"]["substantive_human_review_required"] is True
    assert case["response"]["raw_digest"] == digest(MALFORMED[name])
    assert verify_run(planned.run, places=planned.places).phase == "ex_ante_scored"
    seen = sealed_files_opened(monkeypatch)
    with pytest.raises(Blocked) as caught:
        reveal(planned.run, write_calibration=True, places=planned.places)
    assert caught.value.exit_code == 5
    assert not seen
    assert not (planned.run / "reveal").exists()
    assert planned.states("reveal") == []


def test_w36_one_blocked_case_stops_both(planned: World, monkeypatch: pytest.MonkeyPatch) -> None:
    result = answer(planned, monkeypatch, b"no")
    eligible = {c["case_id"]: c["eligible"] for c in result.summary()["cases"]}
    assert eligible == {"case-bbi-2007-07": False, "case-nflx-2007-07": True}
    assert result.summary()["eligible"] is False
    with pytest.raises(Blocked, match="case-bbi-2007-07"):
        reveal(planned.run, places=planned.places)


def test_a_malformed_response_scores_nothing() -> None:
    score = score_response(b"no", part_a(CASE_IDS[0]).packet, rubric())
    assert score.total == "0.00"
    assert score.maximum == "100"


@pytest.mark.parametrize("value", ["NaN", "sNaN", "Infinity", "1e999", "", "0.2.5"])
def test_a_probability_that_is_none_is_scored_without_a_crash(value: str) -> None:
    part = part_a(CASE_IDS[0])
    record = baseline_record(part)
    record["scenarios"][0]["probability"] = value
    assert codes(record, part) == {"SCENARIO_MAPPING_INVALID"}


def test_a_run_of_probabilities_at_the_tolerance_can_be_revealed(
    planned: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for values in (("0.25", "0.25", "0.25", "0.250001"), ("0.25", "0.25", "0.25", "0.249999")):
        world = planned.copy(tmp_path / values[-1])
        record = baseline_record(part_a("case-bbi-2007-07"))
        for one, value in zip(record["scenarios"], values, strict=True):
            one["probability"] = value
        assert answer(world, monkeypatch, json.dumps(record).encode()).summary()["eligible"]
        case = reveal(world.run, places=world.places).summary()["cases"][0]
        assert case["brier"] == pytest.approx(0.75, abs=1e-5)
