"""The server between windows: is it idle, what do its counters say, can its prefix cache be emptied?"""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.foreign_traffic import REMEDY

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.samples import ServerCounters
    from pytest_specdec.load.client import Client

POLL_S = 0.1
IDLE_TIMEOUT_S = 30.0
"""A server that we send nothing to is idle within this time, or somebody else uses it."""
SETTLE_TIMEOUT_S = 10.0
"""For two equal reads of an idle server's counters."""
RESET_TIMEOUT_S = 5.0
"""For blocks of finished requests that the prefix cache still holds."""


@dataclass(frozen=True)
class ScrapeReader:
    """How the text of ``GET /metrics`` is understood; given by whoever knows vLLM's metrics."""

    counters: Callable[[str], ServerCounters]
    running: Callable[[str], int]
    """Requests that the server works on at the moment."""
    difference: Callable[[ServerCounters, ServerCounters], ServerCounters]
    """Counters of what happened between two scrapes, the earlier first."""


async def wait_until_idle(client: Client, reader: ScrapeReader, *, since: str) -> str:
    """Returns the first scrape without a running request.

    Args:
        client: The server.
        reader: Understands the scrape.
        since: Completes "N requests are running on the server although ..." .

    Raises:
        InvalidMeasurement: Requests are still running after :data:`IDLE_TIMEOUT_S`, or the server does not answer.
    """
    deadline = time.monotonic() + IDLE_TIMEOUT_S
    while running := reader.running(text := await client.get_text("/metrics")):
        if time.monotonic() > deadline:
            requests = "1 request is" if running == 1 else f"{running} requests are"
            raise InvalidMeasurement(
                f"foreign traffic: {requests} running on the server although {since}",
                where=client.endpoint.base_url,
                remedy=REMEDY,
            )
        await asyncio.sleep(POLL_S)
    return text


async def settled_counters(client: Client, reader: ScrapeReader) -> ServerCounters:
    """The counters once the server is idle and two reads in a row count the same generated tokens.

    Counters that never settle are returned as they are: that they do not fit what was received shows elsewhere.
    """
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    counters = reader.counters(await wait_until_idle(client, reader, since="all of ours have ended"))
    while time.monotonic() < deadline:
        await asyncio.sleep(POLL_S)
        before = counters
        counters = reader.counters(await wait_until_idle(client, reader, since="all of ours have ended"))
        if counters.generation_tokens == before.generation_tokens:
            break
    return counters


async def shared_counters(
    client: Client, reader: ScrapeReader, before: ServerCounters, finished: int
) -> ServerCounters:
    """The counters of a server that others use, which is never idle: once they have grown by so many finished requests.

    A step's counters come after its tokens have left; where they do not come in time, that shows elsewhere.
    """
    deadline = time.monotonic() + SETTLE_TIMEOUT_S
    while True:
        await asyncio.sleep(POLL_S)
        counters = reader.counters(await client.get_text("/metrics"))
        grown = (counters.finished_requests or 0) - (before.finished_requests or 0)
        if grown >= finished or time.monotonic() > deadline:
            return counters


async def reset_prefix_cache(client: Client) -> bool:
    """Empties the prefix cache; False where the server cannot (it offers that only in its development mode)."""
    deadline = time.monotonic() + RESET_TIMEOUT_S
    while True:
        status, text = await client.post("/reset_prefix_cache")
        if status != 200:  # noqa: PLR2004 - OK
            return False
        if not _says_failure(text):
            return True
        if time.monotonic() > deadline:
            return False
        await asyncio.sleep(POLL_S)


def _says_failure(text: str) -> bool:
    """Newer servers answer ``{"success": false}`` while blocks are in use; older ones have no body."""
    try:
        body = json.loads(text)
    except ValueError:
        return False
    return isinstance(body, dict) and body.get("success") is False
