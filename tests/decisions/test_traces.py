"""W35: an attestation comes from the live pair of traces of this process, or not at all."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from evalkit.decisions.chain import load_trust, open_evidence, open_plan
from evalkit.decisions.evaluation import _document, attest, signer_of
from evalkit.decisions.moments import instant
from evalkit.decisions.run_document import response_section
from evalkit.errors import Binding, BindingError
from evalkit.models import LiveTrace, Request, Response, call
from evalkit.models.trace import is_live
from evalkit.sealing import digest

from .support import World

pytestmark = pytest.mark.usefixtures("quick_signer")


class Attempt:
    """An evaluation up to the point where it is attested."""

    def __init__(self, world: World) -> None:
        from evalkit.decisions.configuration import provider_for

        self.world = world
        self.opened = open_plan(world.run, load_trust(world.run, None, world.places))
        evidence = open_evidence(self.opened)
        provider = provider_for(self.opened.model)
        self.number = world.ledger.begin_attempt(world.run_id, "ex-ante")
        self.traces = [call(provider, Request(p), subject=c) for c, p in evidence.prompts.items()]
        now = instant("2026-11-30T13:00:00+00:00")
        self.document = _document(evidence, self.traces, self.number, 1, now, now)

    def attest(self, traces: list[Any] | None = None, document: Any = None) -> None:
        with signer_of(self.opened.plan, self.world.places, self.world.run) as signer:
            attest(
                self.opened,
                self.document if document is None else document,
                self.traces if traces is None else traces,
                self.number,
                signer,
                self.world.ledger,
            )


@pytest.fixture
def attempt(planned: World) -> Attempt:
    return Attempt(planned)


def test_the_live_pair_is_attested(attempt: Attempt) -> None:
    attempt.attest()
    assert (attempt.world.run / "ex-ante" / "run.dsse.json").exists()


def refused(attempt: Attempt, **given: Any) -> None:
    with pytest.raises(BindingError) as caught:
        attempt.attest(**given)
    assert caught.value.binding is Binding.ATTESTATION
    assert not (attempt.world.run / "ex-ante").exists()
    assert attempt.world.states() == ["begun"]


@pytest.mark.parametrize(
    "copier",
    [copy.copy, copy.deepcopy, pickle.dumps, lambda t: t.__reduce_ex__(4), lambda t: t.__getstate__()],
)
def test_a_trace_is_neither_copied_nor_pickled(attempt: Attempt, copier: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError):
        copier(attempt.traces[0])


def lookalike(trace: LiveTrace) -> LiveTrace:
    """The same values in an object that `call` did not make."""
    twin = object.__new__(LiveTrace)
    for name in ("_subject", "_configuration_digest", "_response", "_started_at"):
        setattr(twin, name, getattr(trace, name))
    return twin


def test_a_hand_built_trace_is_refused(attempt: Attempt) -> None:
    twins = [lookalike(t) for t in attempt.traces]
    assert [t.coordinates() for t in twins] == [t.coordinates() for t in attempt.traces]
    assert not any(is_live(t) for t in twins)
    refused(attempt, traces=twins)
    refused(attempt, traces=[attempt.traces[0], twins[1]])


def test_a_trace_cannot_be_constructed(attempt: Attempt) -> None:
    response = attempt.traces[0].response
    with pytest.raises(TypeError):
        LiveTrace(object(), "case", "sha256:0", response, "now")


def test_a_subclass_or_a_stand_in_is_refused(attempt: Attempt) -> None:
    real = attempt.traces[0]
    stand_in = SimpleNamespace(
        subject=real.subject, response=real.response, coordinates=real.coordinates, replayed=False
    )
    refused(attempt, traces=[stand_in, attempt.traces[1]])


def test_what_was_read_from_a_file_is_refused(attempt: Attempt) -> None:
    recorded = [json.loads(json.dumps(t.coordinates())) for t in attempt.traces]
    refused(attempt, traces=recorded)


@pytest.mark.parametrize("choose", [lambda t: t[:1], lambda t: t + t[:1], lambda t: t[::-1], lambda t: [t[0], t[0]],
                                    lambda t: []])  # fmt: skip
def test_only_the_exact_pair(attempt: Attempt, choose: Callable[[list[LiveTrace]], list[LiveTrace]]) -> None:
    refused(attempt, traces=choose(attempt.traces))


def test_a_document_with_another_response_is_refused(attempt: Attempt) -> None:
    document = copy.deepcopy(attempt.document)
    document["cases"][0]["response"] = response_section(b"{}")
    refused(attempt, document=document)


def test_a_document_with_another_response_under_the_true_digest_is_refused(attempt: Attempt) -> None:
    document = copy.deepcopy(attempt.document)
    document["cases"][0]["response"]["raw"] = "{}"
    refused(attempt, document=document)
    document = copy.deepcopy(attempt.document)
    document["cases"][0]["response"]["canonical"]["scenarios"][0]["probability"] = "0.9"
    refused(attempt, document=document)


def test_a_document_with_an_edited_trace_is_refused(attempt: Attempt) -> None:
    document = copy.deepcopy(attempt.document)
    document["cases"][1]["trace"]["served_model"] = "a-better-one"
    refused(attempt, document=document)


def test_a_trace_of_an_earlier_call_is_not_that_of_this_answer(attempt: Attempt) -> None:
    """The same provider asked again: live, but its document is another."""
    prompt = Request(b"another prompt")

    class Echo:
        def configuration(self) -> dict[str, Any]:
            return {"adapter": "echo", "model": "echo"}

        def complete(self, request: Request) -> Response:
            d = digest(request.prompt)
            return Response(request.prompt, "echo", "echo", d, d, d)

    trace = call(Echo(), prompt, subject=attempt.traces[0].subject)
    assert is_live(trace)
    refused(attempt, traces=[trace, attempt.traces[1]])


def test_a_trace_dies_with_its_process(planned: World) -> None:
    """Another process has no live traces at all: a fresh import knows none."""
    import subprocess
    import sys

    code = "from evalkit.models import trace; print(len(trace._live))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "0"
