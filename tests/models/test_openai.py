"""W9, W26: one POST with the prompt and nothing else; every way in which an answer can fail."""

from __future__ import annotations

import json
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.models import ProviderError, Request, call
from evalkit.models.openai import OpenAIProvider
from evalkit.sealing import canonical_json, digest

from .server import Seen, always, completion, serving

PROMPT = "Entscheide: ü 🚢".encode()
SCHEMA = {"type": "object", "properties": {}, "required": [], "additionalProperties": False}
SECRET = "sk-not-to-be-seen-anywhere"


def provider(base_url: str, **options: Any) -> OpenAIProvider:
    environ = options.pop("environ", {"MY_KEY": SECRET})
    return OpenAIProvider("stub", base_url=base_url, api_key_variable="MY_KEY", environ=environ, **options)


def failure(answer: Any, **options: Any) -> ProviderError:
    with serving(answer) as service, pytest.raises(ProviderError) as caught:
        provider(service.base_url, **options).complete(Request(PROMPT, SCHEMA))
    assert SECRET not in str(caught.value)
    return caught.value


def test_w9_the_request_is_the_prompt_with_a_strict_schema_and_no_tools() -> None:
    with serving(always(completion("{}"))) as service:
        response = provider(service.base_url).complete(Request(PROMPT, SCHEMA))
    (seen,) = service.seen
    assert seen.path == "/v1/chat/completions"
    assert seen.json == {
        "model": "stub",
        "messages": [{"role": "user", "content": PROMPT.decode()}],
        "max_completion_tokens": 16000,
        "n": 1,
        "stream": False,
        "response_format": {
            "type": "json_schema",
            "json_schema": {"name": "response", "strict": True, "schema": SCHEMA},
        },
    }
    assert response.text == b"{}"
    assert response.transmitted_prompt_digest == digest(PROMPT)
    assert response.request_digest == digest(
        b"POST " + service.base_url.encode() + b"/chat/completions\n" + seen.body
    )
    assert response.usage == {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12}


def test_the_key_goes_into_the_header_and_nowhere_else() -> None:
    with serving(always(completion("{}"))) as service:
        p = provider(service.base_url)
        trace = call(p, Request(PROMPT, SCHEMA), subject="case")
    (seen,) = service.seen
    assert seen.headers["authorization"] == f"Bearer {SECRET}"
    assert SECRET.encode() not in seen.body
    assert SECRET not in seen.path
    recorded = json.dumps([p.configuration(), trace.coordinates()])
    assert SECRET not in recorded
    assert "MY_KEY" in recorded
    assert SECRET not in repr(trace.response)
    assert trace.response.request_digest == digest(
        b"POST " + service.base_url.encode() + b"/chat/completions\n" + seen.body
    ), "the digest does not depend on the key"


def test_without_a_key_no_header_is_sent() -> None:
    with serving(always(completion("{}"))) as service:
        provider(service.base_url, environ={}).complete(Request(PROMPT))
    assert "authorization" not in service.seen[0].headers
    assert "response_format" not in service.seen[0].json


@pytest.mark.parametrize(
    "key", ["sk-secret-word\n", "sk-secret\r\nword", "sk-secret-wörd", "sk-secret word\x00"]
)
def test_a_key_that_is_no_header_is_refused_and_not_shown(key: str) -> None:
    with (
        serving(always(completion("{}"))) as service,
        pytest.raises(EvalkitError) as caught,
    ):
        provider(service.base_url, environ={"MY_KEY": key}).complete(Request(PROMPT))
    assert "secret" not in str(caught.value)
    assert "MY_KEY" in str(caught.value)
    assert not service.seen


@pytest.mark.parametrize(
    "url",
    ["ftp://127.0.0.1/v1", "127.0.0.1/v1", "", "http://", "http://[::1/v1", "http://127.0.0.1:notaport/v1",
     "http://user:pass@127.0.0.1/v1", "http://127.0.0.1/v1?api-key=abc", "http://127.0.0.1/v1#x",
     "http://exa mple/v1", "http://127.0.0.1:99999/v1"],
)  # fmt: skip
def test_a_base_url_that_is_none_or_holds_a_secret_is_refused_early(url: str) -> None:
    with pytest.raises(EvalkitError) as caught:
        OpenAIProvider("stub", base_url=url)
    assert caught.value.where == "--base-url"
    assert "pass" not in caught.value.what
    assert "abc" not in caught.value.what


@pytest.mark.parametrize("name", ["sk-abc-0123456789", "", "A B", "A=B", "9A", "Ä"])
def test_a_key_in_the_place_of_its_variables_name_is_refused_and_not_shown(name: str) -> None:
    with pytest.raises(EvalkitError) as caught:
        OpenAIProvider("stub", base_url="http://127.0.0.1/v1", api_key_variable=name)
    assert not name or name not in str(caught.value).replace("OPENAI_API_KEY", "")


def test_the_services_words_are_short_plain_and_without_the_key() -> None:
    message = f"Incorrect API key: {SECRET}\n\x1b[31m" + "x" * 1000
    error = failure(always(json.dumps({"error": {"message": message}}).encode(), 401))
    assert "Incorrect API key" in error.what
    assert len(error.what) < 300
    assert "\x1b" not in error.what
    for body in (b"[" * 100_000, b'{"error": {"message": "\\ud800"}}', b"[1]", b'"x"', b'{"error": []}'):
        str(failure(always(body, 500))).encode()


def test_a_temperature_is_sent_only_where_it_is_stated() -> None:
    with serving(always(completion("{}"))) as service:
        provider(service.base_url, temperature="0.7").complete(Request(PROMPT))
    assert service.seen[0].json["temperature"] == 0.7


@pytest.mark.parametrize("status", [500, 401, 404, 429, 204, 201])
def test_any_status_but_200_is_an_error_and_not_repeated(status: int) -> None:
    with serving(always(b"" if status == 204 else completion("{}"), status)) as service:
        with pytest.raises(ProviderError) as caught:
            provider(service.base_url).complete(Request(PROMPT))
        assert len(service.seen) == 1
    assert caught.value.kind == "status"
    assert str(status) in caught.value.what


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_refused(status: int) -> None:
    with serving(always(completion("{}"))) as target:
        error = failure(always(b"", status, location=f"{target.base_url}/chat/completions"))
    assert error.kind == "status"
    assert not target.seen


def test_no_server_at_all() -> None:
    with serving(always(b"")) as service:
        url = service.base_url
    with pytest.raises(ProviderError) as caught:
        provider(url).complete(Request(PROMPT))
    assert caught.value.kind == "transport"


def test_a_silent_server_times_out() -> None:
    import threading

    gate = threading.Event()

    def wait(seen: Seen) -> Any:
        gate.wait(10)
        return 200, {}, completion("{}")

    with serving(wait) as service:
        with pytest.raises(ProviderError) as caught:
            provider(service.base_url, timeout=1).complete(Request(PROMPT))
        gate.set()
    assert caught.value.kind == "timeout"


def test_an_answer_that_drips_is_a_timeout() -> None:
    """Each byte comes in time, the whole does not: the deadline is for the whole answer."""
    dripping = serving(lambda seen: (200, {"x-drip": "0.2"}, completion("{}")))
    with dripping as service, pytest.raises(ProviderError) as caught:
        provider(service.base_url, timeout=1).complete(Request(PROMPT))
    assert caught.value.kind == "timeout"


def test_an_answer_without_end_is_cut_off() -> None:
    error = failure(always(b" " * (40 * 2**20)))
    assert error.kind == "malformed"


@pytest.mark.parametrize(
    "body",
    [
        b"<html><body>Bad gateway</body></html>",
        b"",
        completion("{}")[:-20],
        b"null",
        b"[]",
        b'{"choices": []}',
        b'{"choices": [null]}',
        b'{"choices": [{"message": null}]}',
        b'{"choices": [{"message": {}}]}',
        b'{"choices": "abc"}',
        b"\xff\xfe",
        completion(None),
        json.dumps({"choices": [{"message": {"content": ["a"]}}]}).encode(),
        json.dumps({"choices": [{"message": {"content": "a"}}], "usage": [1]}).encode(),
        b'{"choices": [{"message": {"content": "a"}}], "model": "\\ud800"}',
        b'{"choices": [{"message": {"content": "a"}}], "usage": {"\\ud800": 1}}',
        b"[" * 100_000,
        b'{"choices": [{"message": {"content": "a"}}], "n": ' + b"9" * 5000 + b"}",
    ],
    ids=range(18),
)
def test_an_answer_that_is_no_completion(body: bytes) -> None:
    assert failure(always(body)).kind == "malformed"


def test_a_connection_that_ends_too_soon() -> None:
    error = failure(always(completion("{}"), **{"content-length": "100000"}))
    assert error.kind in ("transport", "malformed")


def test_a_refusal() -> None:
    assert failure(always(completion(None, refusal="I will not."))).kind == "refusal"


def test_an_answer_cut_at_the_output_limit() -> None:
    assert failure(always(completion('{"a"', finish="length"))).kind == "truncated"


def test_w26_another_model_than_asked_is_recorded() -> None:
    with serving(always(completion("{}", model="stub-2026-mini"))) as service:
        trace = call(provider(service.base_url), Request(PROMPT), subject="case")
    assert trace.coordinates()["requested_model"] == "stub"
    assert trace.coordinates()["served_model"] == "stub-2026-mini"
    assert trace.coordinates()["replayed"] is False


def test_the_raw_text_is_kept_byte_for_byte() -> None:
    text = ' {"a":\t1}\r\n\u2028 ü🚢'
    with serving(always(completion(text))) as service:
        response = provider(service.base_url).complete(Request(PROMPT))
    assert response.text == text.encode()


def test_a_proxy_in_the_environment_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(always(completion("{}"))) as proxy, serving(always(completion("{}"))) as service:
        for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
            monkeypatch.setenv(name, proxy.base_url.removesuffix("/v1"))
        provider(service.base_url).complete(Request(PROMPT))
        assert (len(proxy.seen), len(service.seen)) == (0, 1)


def test_a_configuration_identifies_the_provider_and_is_json() -> None:
    c = provider("http://127.0.0.1:1/v1/").configuration()
    assert c["base_url"] == "http://127.0.0.1:1/v1"
    assert canonical_json(c)
    assert SECRET not in json.dumps(c)
