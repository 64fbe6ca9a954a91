"""The HTTP client: sends one request and records when its bytes arrive, nothing more.

Bytes are stamped with ``time.perf_counter()`` as soon as they are read (:mod:`pytest_specdec.load.connection`); what they mean
is found out after the window (:mod:`pytest_specdec.load.answer`). Nothing is retried: a request that fails is a failure of the
server under test. Everything that is not timed is asked through aiohttp.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.load.answer import message_of
from pytest_specdec.load.connection import (
    CONNECT_TIMEOUT_S,
    KEEP_ALIVE_S,
    Connections,
    NotHttpError,
    ServerClosedError,
)

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping, Sequence

    import aiohttp

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.load.answer import Transfer
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.connection import Reads

QUESTION_TIMEOUT_S = 30.0
"""For everything that is not a timed request."""
_MAX_MESSAGE_CHARACTERS = 500


@dataclass(frozen=True)
class Endpoint:
    """Where requests go."""

    base_url: str
    """``http://127.0.0.1:8000``, without ``/v1``."""
    model: str
    """The served name."""
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Sent with every request, such as a key; not shown."""


@dataclass(frozen=True)
class PreparedRequest:
    """A request as bytes, made before the window."""

    path: str
    body: bytes


def prepare(
    request: PlannedRequest,
    load: LoadSpec,
    model: str,
    answers: Sequence[str] = (),
    *,
    more: Mapping[str, Any] | None = None,
) -> PreparedRequest:
    """The body of a request. Sampling is always stated, so that no default of the server or the model decides.

    ``repetition_penalty`` is among what a model's ``generation_config`` may set; like ``vllm bench serve`` it is
    switched off. ``return_token_ids`` makes a chat send every chunk, also those whose text is held back.

    Args:
        request: What was planned.
        load: The sampling.
        model: The served name.
        answers: The server's own to the turns before, for a request that continues them.
        more: What goes into the body beside that.
    """
    prompt = request.prompt.continued(answers) if answers else request.prompt
    body: dict[str, Any] = {"model": model}
    if prompt.messages is not None:
        body["messages"] = list(prompt.messages)
    else:
        body["prompt"] = prompt.prompt
    body |= dict(prompt.asked)
    body |= {
        "max_tokens": request.max_tokens,
        "temperature": load.temperature,
        "top_p": load.top_p,
        "top_k": load.top_k,
        "repetition_penalty": 1.0,
        "seed": request.seed,
        "ignore_eos": load.ignore_eos,
        "stream": True,
        "stream_options": {"include_usage": True},
        "return_token_ids": True,
    } | dict(more or {})
    path = "/v1/completions" if prompt.messages is None else "/v1/chat/completions"
    return PreparedRequest(path, json.dumps(body).encode())


@contextlib.asynccontextmanager
async def connect(endpoint: Endpoint) -> AsyncIterator[Client]:
    """A client for the server, without proxies and without a limit on connections; closes them at the end."""
    import aiohttp

    # A compressed stream could be held back to fill a block.
    headers = {"Content-Type": "application/json", "Accept-Encoding": "identity", **endpoint.headers}
    async with aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE_S),
        headers=headers,
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_TIMEOUT_S),
        trust_env=False,
    ) as session:
        connections = Connections(endpoint.base_url, headers)
        try:
            yield Client(endpoint, session, connections)
        finally:
            connections.close()


class Client:
    """One HTTP session with one server, for the length of a run; made by :func:`connect`."""

    def __init__(self, endpoint: Endpoint, session: aiohttp.ClientSession, connections: Connections) -> None:
        self.endpoint = endpoint
        self._connections = connections
        self._base_url = endpoint.base_url.rstrip("/")
        self._session = session

    async def warm_connections(self, count: int) -> None:
        """Opens ``count`` connections, so that no timed request pays for its own. A failure shows in the run itself."""

        async def touch() -> None:
            with contextlib.suppress(OSError, asyncio.TimeoutError):
                await self._exchange(self._connections.request("GET", "/health"), [])

        await asyncio.gather(*(touch() for _ in range(count)))

    async def transfer(self, prepared: PreparedRequest, transfer: Transfer) -> None:
        """Sends the request and reads its answer to the end; what goes wrong is noted in ``transfer``, not raised."""
        request = self._connections.request("POST", prepared.path, prepared.body)
        transfer.sent = time.perf_counter()
        try:
            status = await self._exchange(request, transfer.reads)
        except (asyncio.TimeoutError, OSError) as error:
            transfer.failure = _reason(error)
            transfer.disconnected = True
        else:
            if status != 200:  # noqa: PLR2004 - OK
                body = b"".join(piece for _, piece in transfer.reads).decode(errors="replace")
                transfer.failure = f"HTTP {status}: {_body_message(body)}"
                transfer.reads.clear()
        finally:
            transfer.ended = time.perf_counter()

    async def _exchange(self, request: bytes, reads: Reads) -> int:
        """The answer's status, once its whole body is in ``reads``.

        Raises:
            OSError, asyncio.TimeoutError: There is no whole answer.
        """
        connection = await self._connections.take()
        complete = False
        try:
            await connection.exchange(request, reads)
            complete = True
        finally:
            self._connections.give_back(connection, complete=complete)
        return connection.status

    async def get_text(self, path: str) -> str:
        """The body of ``GET path``.

        Raises:
            InvalidMeasurement: No answer, or a status other than 200.
        """
        status, text = await self._question("GET", path)
        if status != 200:  # noqa: PLR2004 - OK
            raise self._no_answer("GET", path, f"HTTP {status}: {_body_message(text)}")
        return text

    async def post(self, path: str) -> tuple[int, str]:
        """Status and body of ``POST path`` without a body of its own.

        Raises:
            InvalidMeasurement: No answer.
        """
        return await self._question("POST", path)

    async def ask(self, path: str, body: Mapping[str, Any], *, timeout_s: float) -> dict[str, Any]:
        """The JSON that ``POST path`` answers.

        Raises:
            InvalidMeasurement: No answer, a status other than 200, or something that is no JSON object.
        """
        status, text = await self._question("POST", path, data=json.dumps(body).encode(), timeout_s=timeout_s)
        if status != 200:  # noqa: PLR2004 - OK
            raise self._no_answer("POST", path, f"HTTP {status}: {_body_message(text)}")
        answer = None
        with contextlib.suppress(ValueError):
            answer = json.loads(text)
        if not isinstance(answer, dict):
            raise self._no_answer("POST", path, "the answer is no JSON object")
        return answer

    async def _question(
        self, method: str, path: str, *, data: bytes | None = None, timeout_s: float = QUESTION_TIMEOUT_S
    ) -> tuple[int, str]:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=timeout_s)
        try:
            async with self._session.request(method, self._base_url + path, data=data, timeout=timeout) as response:
                return response.status, await response.text()
        except (aiohttp.ClientError, asyncio.TimeoutError, OSError) as error:
            raise self._no_answer(method, path, _reason(error)) from None

    def _no_answer(self, method: str, path: str, reason: str) -> InvalidMeasurement:
        return InvalidMeasurement(
            f"{method} {path} failed: {reason}",
            where=self.endpoint.base_url,
            remedy="The server's log says what happened to it.",
        )


def _body_message(text: str) -> str:
    """The message in the body of an error, whatever its shape, on one line and of bounded length."""
    message = text
    with contextlib.suppress(ValueError):
        body = json.loads(text)
        message = message_of(body.get("error", body) if isinstance(body, dict) else body)
    message = " ".join(message.split()) or "(no message)"
    if len(message) > _MAX_MESSAGE_CHARACTERS:
        return message[:_MAX_MESSAGE_CHARACTERS] + " ..."
    return message


def _reason(error: BaseException) -> str:
    """An exception of aiohttp or the socket in words."""
    import aiohttp

    if isinstance(error, OSError) and error.errno:
        return os.strerror(error.errno).lower()
    if isinstance(error, (ServerClosedError, aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError)):
        return "the server closed the connection"
    if isinstance(error, NotHttpError):
        return str(error)
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    return f"{type(error).__name__}: {error}"
