"""A small client of the stand-in server, independent of the plugin's own."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pytest_specdec.testing import FakeVllm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
_TIMEOUT_S = 60


@dataclass(frozen=True)
class Stream:
    """What came over the wire for one streamed request."""

    lines: tuple[dict[str, Any], ...]
    done: bool
    """Whether ``[DONE]`` came."""

    @property
    def token_chunks(self) -> list[dict[str, Any]]:
        """Choices with tokens: all but a chat's role-only chunk."""
        choices = [line["choices"][0] for line in self.lines if line["choices"]]
        return [each for each in choices if "role" not in each.get("delta", {})]

    @property
    def tokens(self) -> list[int]:
        return [token for chunk in self.token_chunks for token in chunk["token_ids"]]

    @property
    def last(self) -> dict[str, Any]:
        return self.lines[-1]


@dataclass(frozen=True)
class Client:
    """Requests to one stand-in server."""

    server: FakeVllm

    def get(self, path: str) -> tuple[int, str]:
        return self._open(self._request(path))

    def post(self, path: str, body: Any = None, *, timeout_s: float = _TIMEOUT_S) -> tuple[int, str]:
        data = b"" if body is None else json.dumps(body).encode()
        return self._open(self._request(path, data), timeout_s=timeout_s)

    def complete(self, prompt: str | list[int] = "Tell me", **options: Any) -> dict[str, Any]:
        """One answer without streaming, greedy and with token ids."""
        status, text = self.post("/v1/completions", self._body(prompt=prompt, **options))
        assert status == 200, text
        answer: dict[str, Any] = json.loads(text)
        return answer

    def tokens(self, prompt: str | list[int] = "Tell me", **options: Any) -> list[int]:
        tokens: list[int] = self.complete(prompt, **options)["choices"][0]["token_ids"]
        return tokens

    def stream(self, prompt: str = "Tell me", *, chat: bool = False, **options: Any) -> Stream:
        asked = {"messages": [{"role": "user", "content": prompt}]} if chat else {"prompt": prompt}
        usage = {"include_usage": True, **options.pop("stream_options", {})}
        body = self._body(**asked, stream=True, stream_options=usage, **options)
        path = "/v1/chat/completions" if chat else "/v1/completions"
        request = self._request(path, json.dumps(body).encode())
        text = b""
        with _OPENER.open(request, timeout=_TIMEOUT_S) as response:
            try:
                for line in response:
                    text += line
            except (http.client.IncompleteRead, ConnectionResetError):
                pass
        return parse_stream(text.decode())

    def counters(self) -> dict[str, float]:
        """Sum of every sample by name, over engines and other labels."""
        sums: dict[str, float] = {}
        for family in text_string_to_metric_families(self.get("/metrics")[1]):
            for sample in family.samples:
                sums[sample.name] = sums.get(sample.name, 0.0) + sample.value
        return sums

    def counters_once(self, name: str, least: float) -> dict[str, float]:
        """The counters as soon as one of them has come to ``least``."""
        deadline_s = time.monotonic() + _TIMEOUT_S
        while (counters := self.counters())[name] < least:
            assert time.monotonic() < deadline_s, f"{name} is still {counters[name]}"
        return counters

    def endless(self, prompt: str = "Hi", **options: Any) -> socket.socket:
        """The connection of a request whose answer takes 8000 steps."""
        body = json.dumps(
            {"model": self.server.served_name, "prompt": prompt, "max_tokens": 8000, "ignore_eos": True, **options}
        )
        connection = socket.create_connection(("127.0.0.1", int(self.server.base_url.rpartition(":")[2])))
        connection.sendall(
            f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        return connection

    def _request(self, path: str, data: bytes | None = None) -> urllib.request.Request:
        return urllib.request.Request(self.server.base_url + path, data=data)  # noqa: S310 - http on loopback

    def _body(self, **options: Any) -> dict[str, Any]:
        return {"model": self.server.served_name, "temperature": 0, "return_token_ids": True, **options}

    def _open(self, request: urllib.request.Request, *, timeout_s: float = _TIMEOUT_S) -> tuple[int, str]:
        try:
            with _OPENER.open(request, timeout=timeout_s) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()


def parse_stream(text: str) -> Stream:
    """The ``data:`` lines of a stream."""
    data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
    done = data[-1:] == ["[DONE]"]
    return Stream(lines=tuple(json.loads(line) for line in data if line != "[DONE]"), done=done)


@pytest.fixture(name="parse_stream")
def _parse_stream() -> Callable[[str], Stream]:
    return parse_stream


QUICK: dict[str, Any] = {"ttft_ms": 1, "tpot_ms": 0.1}
EAGLE = {"method": "eagle3", "model": "some/head", "num_speculative_tokens": 3}


@pytest.fixture
def serve() -> Iterator[Callable[..., Client]]:
    """Start stand-in servers; all are gone when the test ends."""
    servers: list[FakeVllm] = []

    def start(**arguments: Any) -> Client:
        server = FakeVllm(**{**QUICK, **arguments})
        servers.append(server)
        server.start()
        return Client(server)

    yield start
    for server in servers:
        server.stop()


@pytest.fixture(scope="session")
def baseline() -> Iterator[Client]:
    """A server without speculation, for tests that leave it as it is and do not look at its counters."""
    with FakeVllm(**QUICK) as server:
        yield Client(server)


@pytest.fixture(scope="session")
def specdec() -> Iterator[Client]:
    """As ``baseline``, with speculation."""
    with FakeVllm(**QUICK, speculative_config=EAGLE) as server:
        yield Client(server)


@pytest.fixture
def eagle() -> dict[str, Any]:
    """A speculative config with K = 3."""
    return dict(EAGLE)
