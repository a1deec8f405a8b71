"""Asking an authority: what is sent, and every way in which no answer is an answer."""

from __future__ import annotations

import socket
from typing import Any

import pytest

from evalkit.errors import EvalkitError
from evalkit.sealing.timestamp import MAX_TOKEN
from evalkit.sealing.tsa_http import NoTimestamp, ask, check_url
from tests.models.server import serving

REPLY = {"content-type": "application/timestamp-reply"}


def test_the_query_goes_out_and_the_answer_comes_back_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nobody listens there
    with serving(lambda seen: (200, REPLY, b"answer")) as service:
        assert ask(service.base_url + "/tsr", b"query") == b"answer"
    (seen,) = service.seen
    assert (seen.path, seen.body) == ("/v1/tsr", b"query")
    assert seen.headers["content-type"] == "application/timestamp-query"
    assert seen.headers["accept"] == "application/timestamp-reply"
    assert "authorization" not in seen.headers
    assert "cookie" not in seen.headers


@pytest.mark.parametrize(
    ("status", "headers", "body", "match"),
    [
        (500, REPLY, b"", "HTTP status 500"),
        (404, {}, b"", "HTTP status 404"),
        (302, REPLY | {"location": "/elsewhere"}, b"", "HTTP status 302"),
        (307, REPLY | {"location": "/elsewhere"}, b"", "HTTP status 307"),
        (200, {"content-type": "text/html"}, b"<html>", "of the type 'text/html'"),
        (200, {}, b"answer", "of the type ''"),
        (200, REPLY, b"x" * (MAX_TOKEN + 1), "longer than 65536"),
    ],
)
def test_no_usable_answer(status: int, headers: dict[str, str], body: bytes, match: str) -> None:
    with (
        serving(lambda seen: (status, headers, body)) as service,
        pytest.raises(NoTimestamp, match=match) as caught,
    ):
        ask(service.base_url, b"query")
    assert len(service.seen) == 1
    assert caught.value.exit_code == 6
    assert caught.value.where == service.base_url


def test_an_answer_may_be_as_long_as_a_token() -> None:
    with serving(lambda seen: (200, REPLY, b"x" * MAX_TOKEN)) as service:
        assert ask(service.base_url, b"query") == b"x" * MAX_TOKEN


def test_parameters_of_the_content_type_do_not_matter() -> None:
    with serving(
        lambda seen: (200, {"content-type": "Application/Timestamp-Reply; charset=x"}, b"a")
    ) as service:
        assert ask(service.base_url, b"query") == b"a"


def test_nobody_listens() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(NoTimestamp, match="Connect"):
        ask(f"http://127.0.0.1:{port}/", b"query")


def test_an_answer_that_drips_or_never_comes() -> None:
    drip: dict[str, Any] = REPLY | {"x-drip": "0.2"}
    with (
        serving(lambda seen: (200, drip, b"x" * 50)) as service,
        pytest.raises(NoTimestamp, match=r"within 0\.5 s"),
    ):
        ask(service.base_url, b"query", timeout=0.5)
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        with pytest.raises(NoTimestamp, match=r"within 0\.3 s"):
            ask(f"http://127.0.0.1:{silent.getsockname()[1]}/", b"query", timeout=0.3)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "tsa.example",
        "ftp://tsa.example/",
        "http:///x",
        "http://tsa.example:0/",
        "http://a b/",
        "http://[::1/",
    ],
)
def test_what_is_no_address(url: str) -> None:
    with pytest.raises(EvalkitError, match="not the URL") as caught:
        check_url(url)
    assert caught.value.exit_code == 2


def test_a_secret_in_the_address_is_refused_and_not_shown() -> None:
    with pytest.raises(EvalkitError) as caught:
        check_url("https://user:hunter2@tsa.example/")
    assert "hunter2" not in str(caught.value)
    assert check_url("https://tsa.example/tsr?profile=1") == "https://tsa.example/tsr?profile=1"
