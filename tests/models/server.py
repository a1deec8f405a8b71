"""A model service on the loopback interface, in a thread: it answers as it is told and keeps what it got."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Seen:
    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Service:
    """``answer(seen)`` gives status, headers and body of each request."""

    answer: Callable[[Seen], tuple[int, dict[str, str], bytes]]
    seen: list[Seen] = field(default_factory=list)
    base_url: str = ""


def completion(text: str | None, *, model: str = "served-1", finish: str = "stop", **message: Any) -> bytes:
    return json.dumps(
        {
            "id": "x",
            "object": "chat.completion",
            "model": model,
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish,
                    "message": {"role": "assistant", "content": text} | message,
                }
            ],
            "usage": {"prompt_tokens": 7, "completion_tokens": 5, "total_tokens": 12},
        }
    ).encode()


def always(body: bytes, status: int = 200, **headers: str) -> Callable[[Seen], Any]:
    return lambda seen: (status, {"content-type": "application/json"} | headers, body)


@contextmanager
def serving(answer: Callable[[Seen], Any]) -> Iterator[Service]:
    """Serve until the block ends."""
    service = Service(answer)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            seen = Seen(self.path, {k.lower(): v for k, v in self.headers.items()}, body)
            service.seen.append(seen)
            status, headers, data = service.answer(seen)
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            if "content-length" not in headers:
                self.send_header("content-length", str(len(data)))
            self.end_headers()
            pause = float(headers.get("x-drip", 0))
            with suppress(OSError):  # the client may have given up
                for part in [data] if not pause else [data[i : i + 1] for i in range(len(data))]:
                    self.wfile.write(part)
                    self.wfile.flush()
                    time.sleep(pause)
            if "content-length" in headers:
                self.close_connection = True

        do_GET = do_POST  # noqa: N815 - the name is http.server's

        def log_message(self, *_: Any) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
    thread.start()
    service.base_url = f"http://127.0.0.1:{server.server_port}/v1"
    try:
        yield service
    finally:
        server.shutdown()
        server.server_close()
