"""Putting a server to sleep and waking it: vLLM's sleep mode, which needs ``--enable-sleep-mode`` and ``VLLM_SERVER_DEV_MODE=1``.

Asleep at level 1, a server keeps its process, moves its weights to the host's memory and gives up its KV cache. The first sleep
copies the weights into memory that has to be pinned first and was seen to take 10 s; later ones take less than one.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from pytest_specdec.core.errors import InvalidMeasurement, LaunchError
from pytest_specdec.serving.readiness import get, post

if TYPE_CHECKING:
    from pytest_specdec.serving.process import Server

SLEEP_MODE = "--enable-sleep-mode"
TIMEOUT_S = 180.0
"""For falling asleep or waking up; a large model's first sleep pins tens of gigabytes."""
_POLL_S = 0.1
_OK, _NOT_FOUND = 200, 404
_THROWN_AWAY_TOKENS = 16
_REMEDY = "The server's log says more. `placement: sequential` does without sleep mode."


def put_to_sleep(server: Server, *, timeout_s: float | None = None) -> None:
    """Return when the server says that it sleeps, within ``timeout_s`` or :data:`TIMEOUT_S`.

    Raises:
        LaunchError: It has no sleep mode.
        InvalidMeasurement: It does not fall asleep in time.
        ServerDied: It is gone.
    """
    _switch(server, "/sleep?level=1", asleep=True, timeout_s=TIMEOUT_S if timeout_s is None else timeout_s)


def wake_up(server: Server, *, timeout_s: float | None = None) -> None:
    """Return when the server is awake and has answered a request that is thrown away: its first one after sleep is slow.

    Raises:
        LaunchError: It has no sleep mode.
        InvalidMeasurement: It does not wake up in time, or does not answer.
        ServerDied: It is gone.
    """
    timeout_s = TIMEOUT_S if timeout_s is None else timeout_s
    _switch(server, "/wake_up", asleep=False, timeout_s=timeout_s)
    body = {
        "model": server.served_name,
        "prompt": "Once upon a time",
        "max_tokens": _THROWN_AWAY_TOKENS,
        "temperature": 0,
    }
    answer = post(*_address(server), "/v1/completions", timeout_s, body)
    if answer is None or answer.status != _OK:
        server.check_alive()
        status = f"HTTP {answer.status}" if answer else f"nothing within {timeout_s:.0f} s"
        raise InvalidMeasurement(
            f"the {server.arm} server woke up and then answered its first request with {status}",
            where=str(server.log_path),
            remedy=_REMEDY,
        )


def is_asleep(server: Server) -> bool | None:
    """What the server says; None when it does not."""
    host, port = _address(server)
    answer = get(host, port, "/is_sleeping")
    data = answer.data if answer is not None and answer.status == _OK else None
    said = data.get("is_sleeping") if isinstance(data, dict) else None
    return said if isinstance(said, bool) else None


def _switch(server: Server, path: str, *, asleep: bool, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    answer = post(*_address(server), path, timeout_s)
    if answer is not None and answer.status == _NOT_FOUND:
        raise LaunchError(
            f"the {server.arm} server has no sleep mode: POST {path} answers HTTP 404",
            where=str(server.log_path),
            remedy="Placement swap sets --enable-sleep-mode and VLLM_SERVER_DEV_MODE=1: take out what the config says against it, "
            "or set `placement: sequential`.",
        )
    if answer is not None and answer.status == _OK:
        while True:
            if is_asleep(server) is asleep:
                return
            if time.monotonic() >= deadline:
                break
            time.sleep(_POLL_S)
    server.check_alive()
    verb = "go to sleep" if asleep else "wake up"
    why = f" (HTTP {answer.status})" if answer is not None and answer.status != _OK else ""
    raise InvalidMeasurement(
        f"the {server.arm} server did not {verb} within {timeout_s:g} s{why}",
        where=str(server.log_path),
        remedy=_REMEDY,
    )


def _address(server: Server) -> tuple[str, int]:
    parts = urlsplit(server.base_url)
    return parts.hostname or "", parts.port or 0
