"""Measuring one arm once, and warming it up: synchronous entry points, each with an event loop of its own.

While they run, ``alive`` is called at least every :data:`ALIVE_POLL_S`; what it raises ends everything at once. An
interrupt does so too, and leaves no socket open.
"""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, TypeVar

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.samples import ArmRun
from pytest_specdec.load.client import Endpoint, connect
from pytest_specdec.load.health import client_health
from pytest_specdec.load.idle import (
    ScrapeReader,
    reset_prefix_cache,
    settled_counters,
    shared_counters,
    wait_until_idle,
)
from pytest_specdec.load.interrupt import run_cancellable
from pytest_specdec.load.observed import Observed, observed
from pytest_specdec.load.processes import run_in_processes
from pytest_specdec.load.shares import clients_for, shared_out
from pytest_specdec.load.warmup import WarmUp, warm
from pytest_specdec.load.window import run_window

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Arm, ServerCounters
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.client import Client
    from pytest_specdec.load.window import Window
    from pytest_specdec.load.workload import Workload

__all__ = ["Endpoint", "ScrapeReader", "WarmUp", "run_arm", "warm_up"]

ALIVE_POLL_S = 0.2
DEATH_NOTICE_S = 1.0
"""Sockets close before a dying process is gone: so long we wait for ``alive`` to say it, before the connection is blamed."""
STALL_TIMEOUT_S = 120.0

_T = TypeVar("_T")


def warm_up(
    endpoint: Endpoint,
    workload: Workload,
    load: LoadSpec,
    *,
    alive: Callable[[], None],
    fresh: bool = False,
    stall_timeout_s: float = STALL_TIMEOUT_S,
) -> WarmUp:
    """Sends requests that are thrown away until the server's pace has settled (see :mod:`pytest_specdec.load.warmup`).

    Args:
        endpoint: The server.
        workload: Where the load's prompts come from.
        load: The load that will be measured.
        alive: Raises ServerDied when the server's process is gone.
        fresh: The rounds take fresh prompts: the warm-up leaves those of all ``load.max_rounds`` rounds alone.
        stall_timeout_s: Give up when the server has sent nothing to any request for so long.

    Raises:
        RequestsFailed: All requests of a batch failed.
        ServerDied: From ``alive``.
    """

    async def work() -> WarmUp:
        async with connect(endpoint) as client:
            return await warm(client, workload, load, fresh=fresh, stall_timeout_s=stall_timeout_s)

    return run_cancellable(while_alive(work(), alive))


def run_arm(
    endpoint: Endpoint,
    plan: Sequence[PlannedRequest],
    load: LoadSpec,
    *,
    arm: Arm,
    round_index: int,
    order: int,
    alive: Callable[[], None],
    on_progress: Callable[[int, int], None],
    read_counters: Callable[[str], ServerCounters],
    running: Callable[[str], int],
    difference: Callable[[ServerCounters, ServerCounters], ServerCounters],
    shared: bool = False,
    stall_timeout_s: float = STALL_TIMEOUT_S,
) -> ArmRun:
    """Sends the planned requests to one server and records what happened. Failed requests are samples with an error.

    Args:
        endpoint: The server.
        plan: What to send, from :func:`pytest_specdec.load.arrivals.plan_requests`.
        load: The load the plan was made for.
        arm: Which side of the comparison the server is.
        round_index: The round this run is half of.
        order: 0 when this arm runs first in its round, else 1.
        alive: Raises ServerDied when the server's process is gone; called at least every 0.2 s.
        on_progress: Called with the number of requests that have ended and their total.
        read_counters: Understands the text of ``/metrics``.
        running: How many requests are running, according to the text of ``/metrics``.
        difference: Counters between two scrapes, the earlier first.
        shared: Others may use the server: it need not be idle before and after, and its prefix cache is left alone.
        stall_timeout_s: Requests fail when the server has sent nothing to any of them for so long.

    Raises:
        InvalidMeasurement: Requests that are not ours run on the server, or ``/metrics`` does not answer.
        ServerDied: From ``alive``.
    """
    reader = ScrapeReader(counters=read_counters, running=running, difference=difference)

    shares = shared_out(plan, load, clients_for(load, cores=len(os.sched_getaffinity(0))))

    async def sent(client: Client) -> Window | Observed:
        if len(shares) == 1:
            return await run_window(client, plan, load, on_progress=on_progress, stall_timeout_s=stall_timeout_s)
        return await run_in_processes(endpoint, shares, on_progress=on_progress, stall_timeout_s=stall_timeout_s)

    async def work() -> tuple[bool, ServerCounters, Window | Observed, ServerCounters]:
        async with connect(endpoint) as client:
            was_reset = False
            if not shared:
                await wait_until_idle(client, reader, since="we sent none")
                was_reset = await reset_prefix_cache(client)
            before = reader.counters(await client.get_text("/metrics"))
            window = await sent(client)
            if window.disconnected:
                await asyncio.sleep(DEATH_NOTICE_S)
            if window.stalled:  # it may never become idle again
                after = reader.counters(await client.get_text("/metrics"))
            elif shared:
                window = window if isinstance(window, Observed) else observed(window)
                ours = sum(sample.error is None for sample in window.samples)
                after = await shared_counters(client, reader, before, ours)
            else:
                after = await settled_counters(client, reader)
            return was_reset, before, window, after

    was_reset, before, window, after = run_cancellable(while_alive(work(), alive))
    seen = window if isinstance(window, Observed) else observed(window)
    return ArmRun(
        arm=arm,
        round=round_index,
        order=order,
        started_unix_s=seen.started_unix_s,
        duration_s=seen.duration_s,
        samples=seen.samples,
        counters=reader.difference(before, after),
        client=client_health(seen.loop, seen.samples),
        prefix_cache_reset=was_reset,
    )


async def while_alive(work: Coroutine[None, None, _T], alive: Callable[[], None]) -> _T:
    """Awaits the work while polling ``alive``, which explains better than a lost connection why there is no result."""
    task = asyncio.ensure_future(_noticing_death(work))
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=ALIVE_POLL_S)
            alive()
        return task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})
        if not task.cancelled():
            task.exception()  # looked at, so that asyncio does not complain about it


async def _noticing_death(work: Coroutine[None, None, _T]) -> _T:
    try:
        return await work
    except CannotMeasure:
        await asyncio.sleep(DEATH_NOTICE_S)
        raise
