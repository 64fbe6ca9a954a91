"""A scripted HTTP server for cases that need exact bytes; what it answers is up to the test."""

from __future__ import annotations

import contextlib
import fcntl
import json
import socket
import struct
import sys
import termios
import threading
import time
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.samples import ServerCounters
from pytest_specdec.load.arrivals import PlannedRequest
from pytest_specdec.load.client import Endpoint
from pytest_specdec.load.workload import Prompt

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from typing_extensions import Self

WAIT_S = 60.0
"""Nothing here takes that long unless it is broken."""


class Exchange(BaseHTTPRequestHandler):
    """One connection; a route answers through it."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    stub: Stub
    body: bytes = b""

    def do_GET(self) -> None:
        """Hand over to the route."""
        self.body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        with self.stub.lock:
            self.stub.seen.append(Seen(self.path, dict(self.headers), self.body, self.client_address[1]))
        with contextlib.suppress(ConnectionError):
            self.stub.routes[self.path](self)

    do_POST = do_GET  # noqa: N815 - http.server's name

    def log_message(self, *_: Any) -> None:
        """Stay silent."""

    def reply(self, status: int, text: str = "") -> None:
        self.send_response(status)
        self.send_header("Content-Length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())

    def stream(self, *pieces: bytes, end: bool = True) -> None:
        """Begins a chunked answer, one HTTP chunk for each piece; without ``end`` it stays open."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for piece in [*pieces, *([b""] if end else [])]:
            self.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")

    def close(self) -> None:
        """Ends the connection in order, in the middle of whatever it carries."""
        self.close_connection = True

    def reset(self) -> None:
        """Ends the connection with a RST, once all that was sent is with the client: a RST drops what still waits to be sent."""
        while _unacknowledged(self.connection):
            time.sleep(0.001)
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.close_connection = True

    def wait_for_client_to_close(self) -> None:
        """Also with a RST, which is what it sends when it has not read everything yet."""
        self.connection.settimeout(WAIT_S)
        with contextlib.suppress(ConnectionError):
            assert self.connection.recv(1) == b""
        self.stub.abandoned.set()
        self.close_connection = True


@dataclass(frozen=True)
class Seen:
    path: str
    headers: Mapping[str, str]
    body: bytes
    client_port: int

    @property
    def json(self) -> Any:
        return json.loads(self.body)


class _Server(ThreadingHTTPServer):
    def shutdown_request(self, request: Any) -> None:
        """Only close: an orderly shutdown would come before a RST."""
        self.close_request(request)


class Stub:
    """Answers by ``routes``; ``seen`` holds every request in order of arrival."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.seen: list[Seen] = []
        self.abandoned = threading.Event()
        self.routes: dict[str, Callable[[Exchange], None]] = {
            "/health": lambda exchange: exchange.reply(200),
            "/metrics": lambda exchange: exchange.reply(200, "running 0 tokens 0"),
            "/reset_prefix_cache": lambda exchange: exchange.reply(404),
            "/v1/completions": lambda exchange: exchange.stream(*ANSWER),
        }
        handler = type("Handler", (Exchange,), {"stub": self})
        self._server = _Server(("127.0.0.1", 0), handler)
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})

    @property
    def endpoint(self) -> Endpoint:
        return Endpoint(f"http://127.0.0.1:{self._server.server_address[1]}", "m")

    def seen_at(self, path: str) -> list[Seen]:
        return [seen for seen in self.seen if seen.path == path]

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._thread.join(WAIT_S)
        self._server.server_close()


def _unacknowledged(connection: socket.socket) -> int:
    """Bytes that the other side's kernel has not taken yet."""
    return int.from_bytes(fcntl.ioctl(connection, termios.TIOCOUTQ, bytes(4)), sys.byteorder)


def event(data: Any) -> bytes:
    return b"data: " + json.dumps(data).encode() + b"\n\n"


CHUNK = event({"choices": [{"index": 0, "text": "x", "finish_reason": None, "token_ids": [7]}]})
USAGE = event({"choices": [], "usage": {"prompt_tokens": 1, "total_tokens": 3, "completion_tokens": 2}})
DONE = b"data: [DONE]\n\n"
ANSWER = (CHUNK, CHUNK, USAGE + DONE)


def planned(count: int, *, due_s: Sequence[float] | None = None) -> tuple[PlannedRequest, ...]:
    return tuple(
        PlannedRequest(
            index=index,
            prompt=Prompt(index=index, prompt=f"prompt {index}"),
            due_s=None if due_s is None else due_s[index],
            max_tokens=8,
            seed=100 + index,
        )
        for index in range(count)
    )


def stub_counters(text: str) -> ServerCounters:
    """Of the stub's own scrape: ``running 0 tokens 17``."""
    return ServerCounters(generation_tokens=int(text.split()[3]))


def stub_running(text: str) -> int:
    return int(text.split()[1])
