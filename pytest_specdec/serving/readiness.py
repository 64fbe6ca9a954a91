"""When a server counts as up: it answers, it is ours, and it has generated a token.

``GET /health`` alone says nothing: an old server on the same port answers it too. ``http.client`` is used because it knows
no proxies; this is loopback traffic.
"""

from __future__ import annotations

import http.client
import json
import select
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from pytest_specdec.core.errors import LaunchError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import Arm

_REQUEST_TIMEOUT_S = 2.0
_ONCE_TIMEOUT_S = 30.0
_PATIENCE_S = 0.05
_OK, _UNAUTHORIZED, _UNAVAILABLE = 200, 401, 503


class PortTaken(LaunchError):  # noqa: N818 - as its base family: a state of affairs
    """Somebody else listens on the port that the server was given."""


class Refused(LaunchError):  # noqa: N818 - likewise
    """The server is up and will not generate."""


class Starting(Protocol):
    """A server that was begun."""

    arm: Arm

    def look(self, wait_s: float) -> bool:
        """Whether it is ready, waiting up to so long for news."""

    def stop(self) -> None:
        """End it."""


def await_ready(
    server: Starting,
    phase: Callable[[], str],
    progress: Callable[[str], None],
    meanwhile: Callable[[], None],
    poll_s: float,
) -> None:
    """Wait for a server; one that does not become ready is stopped.

    Args:
        server: To be waited for.
        phase: What it does at the moment.
        progress: Told so several times a second.
        meanwhile: Called as often; what it raises ends the server, too.
        poll_s: Most seconds between two of these.

    Raises:
        LaunchError: From ``server``, marked as launched.
    """
    try:
        while not server.look(poll_s):
            progress(f"{server.arm} server: {phase()}")
            meanwhile()
    except BaseException as error:
        if isinstance(error, LaunchError):
            error.launched = True
        server.stop()
        raise


@dataclass(frozen=True)
class Answer:
    """An HTTP response."""

    status: int
    body: bytes

    @property
    def data(self) -> Any:
        """The body as JSON; None if it is none."""
        try:
            return json.loads(self.body)
        except ValueError:
            return None


def get(host: str, port: int, path: str, timeout_s: float = _REQUEST_TIMEOUT_S) -> Answer | None:
    """What ``GET path`` answers; None when nobody does within the time."""
    return _ask(host, port, "GET", path, timeout_s=timeout_s)


def post(host: str, port: int, path: str, timeout_s: float, body: dict[str, object] | None = None) -> Answer | None:
    """What ``POST path`` answers; likewise."""
    data = json.dumps(body) if body else None
    return _ask(host, port, "POST", path, body=data, timeout_s=timeout_s)


def _ask(
    host: str,
    port: int,
    method: str,
    path: str,
    *,
    body: str | None = None,
    timeout_s: float,
) -> Answer | None:
    connection = http.client.HTTPConnection(host, port, timeout=timeout_s)
    try:
        connection.request(method, path, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        return Answer(response.status, response.read())
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()


def server_version(host: str, port: int) -> str | None:
    """Version of vLLM from ``GET /version``; None when the server does not tell. Asked once, so a busy server is waited for."""
    answer = get(host, port, "/version", _ONCE_TIMEOUT_S)
    data = answer.data if answer is not None and answer.status == _OK else None
    version = data.get("version") if isinstance(data, dict) else None
    return version if isinstance(version, str) else None


class ReadinessProbe:
    """Asks one question at a time and never blocks for long, so that its caller can watch the process in between.

    Args:
        host: Where the server listens.
        port: Likewise.
        served_name: The name of the model that no other server has.
    """

    def __init__(self, host: str, port: int, served_name: str) -> None:
        self._host, self._port, self._served_name = host, port, served_name
        self._generating: http.client.HTTPConnection | None = None

    def step(self) -> bool:
        """Whether the server is ready.

        Raises:
            PortTaken: Another server answers.
            Refused: It is our server, and it will not generate.
        """
        if self._generating is None:
            if not self._is_ours():
                return False
            self._generating = self._ask_for_a_token()
        if self._generating is None or not select.select([self._generating.sock], [], [], _PATIENCE_S)[0]:
            return False
        answer = self._take_answer()
        if answer is None or answer.status == _UNAVAILABLE:
            return False
        if answer.status != _OK:
            raise Refused(f"answered its first request with HTTP {answer.status}: {_detail(answer)}")
        return True

    def close(self) -> None:
        """Drop a request that is under way."""
        if self._generating is not None:
            self._generating.close()
            self._generating = None

    def _is_ours(self) -> bool:
        health = get(self._host, self._port, "/health")
        if health is None or health.status != _OK:
            return False
        models = get(self._host, self._port, "/v1/models")
        if models is None or models.status == _UNAVAILABLE:
            return False
        if models.status == _UNAUTHORIZED:
            raise Refused(
                "demands an API key",
                remedy="Take --api-key out of the config, and VLLM_API_KEY out of the environment.",
            )
        served = _served_names(models)
        if self._served_name not in served:
            serves = f" (it serves {', '.join(served)})" if served else ""
            raise PortTaken(
                f"another server answers on port {self._port}{serves}", remedy="End that server, or run again."
            )
        return True

    def _ask_for_a_token(self) -> http.client.HTTPConnection | None:
        body = {"model": self._served_name, "prompt": "Hello", "max_tokens": 1, "temperature": 0}
        connection = http.client.HTTPConnection(self._host, self._port, timeout=_REQUEST_TIMEOUT_S)
        try:
            connection.request("POST", "/v1/completions", json.dumps(body), {"Content-Type": "application/json"})
        except OSError:
            connection.close()
            return None
        return connection

    def _take_answer(self) -> Answer | None:
        assert self._generating is not None  # noqa: S101 - for the type checker
        try:
            response = self._generating.getresponse()
            return Answer(response.status, response.read())
        except (OSError, http.client.HTTPException):
            return None
        finally:
            self.close()


def _served_names(models: Answer) -> list[str]:
    data = models.data
    entries = data.get("data") if isinstance(data, dict) else None
    return [str(entry.get("id")) for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []


def _detail(answer: Answer) -> str:
    """The message of vLLM's error body, or the start of whatever came."""
    data = answer.data
    error = data.get("error", data) if isinstance(data, dict) else None
    message = error.get("message") if isinstance(error, dict) else None
    return str(message) if message else answer.body.decode(errors="replace").strip()[:200]
