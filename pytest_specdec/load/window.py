"""The timed window: sends the planned requests, closed or open loop, and ends even when the server hangs."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.load.answer import Transfer, text_of_answer
from pytest_specdec.load.client import prepare
from pytest_specdec.load.health import LoopHealth, LoopMonitor
from pytest_specdec.load.shelf import Shelf

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.load.arrivals import PlannedRequest
    from pytest_specdec.load.client import Client, PreparedRequest

WATCH_S = 0.2
"""How often progress is shown and a stall is looked for."""
OPEN_LOOP_CONNECTIONS = 16
"""Connections opened before an open loop, whose concurrency nobody knows."""


@dataclass(frozen=True)
class Window:
    """What happened in a window; all times of ``time.perf_counter()``."""

    transfers: tuple[Transfer, ...]
    """In the order of the plan, each of them ended."""
    started: float
    started_unix_s: float
    loop: LoopHealth
    stalled: bool
    """Given up because the server sent nothing to anybody for too long."""

    @property
    def disconnected(self) -> bool:
        """A connection failed."""
        return any(transfer.disconnected for transfer in self.transfers)


async def run_window(
    client: Client,
    plan: Sequence[PlannedRequest],
    load: LoadSpec,
    *,
    on_progress: Callable[[int, int], None],
    stall_timeout_s: float,
    more: Mapping[str, Any] | None = None,
    start: Callable[[], Awaitable[float]] | None = None,
) -> Window:
    """Sends every request of the plan once, ``more`` in the body of each.

    In a closed loop ``load.concurrency`` workers take requests in the order of the plan; in an open loop each request
    is sent at its own time. When no request gets a byte for ``stall_timeout_s``, all that is under way and all that is
    still to come fails with ``no data for ... s``.

    The window starts at once when all is prepared, or at the time that ``start`` gives then (of ``time.perf_counter()``).
    """
    transfers = tuple(Transfer(request) for request in plan)
    work = _pieces(
        [
            _Planned(
                transfer, prepare(request, load, client.endpoint.model, more=more) if request.after is None else None
            )
            for request, transfer in zip(plan, transfers, strict=True)
        ]
    )
    send = _Sender(client, load, more)
    await client.warm_connections(min(load.concurrency or OPEN_LOOP_CONNECTIONS, len(plan)))
    monitor = LoopMonitor()
    with _garbage_collector_off():
        started = time.perf_counter()
        if start is not None:
            started = await start()
            await asyncio.sleep(max(started - time.perf_counter(), 0.0))
        started_unix_s = time.time()
        monitor.start()
        sending = _open_loop(send, work, started) if load.open_loop else _closed_loop(send, work, load.concurrency or 1)
        stalled = await _watched(sending, send, transfers, on_progress=on_progress, stall_timeout_s=stall_timeout_s)
        loop = monitor.stop()
    return Window(transfers, started, started_unix_s, loop, stalled)


@dataclass(frozen=True)
class _Planned:
    """A request, with its body where that is known beforehand."""

    transfer: Transfer
    prepared: PreparedRequest | None


def _pieces(planned: Sequence[_Planned]) -> list[list[_Planned]]:
    """What is sent one after the other: single requests, and conversations that continue with the server's own answers."""
    pieces: list[list[_Planned]] = []
    for one in planned:
        if one.prepared is None:
            pieces[-1].append(one)
        else:
            pieces.append([one])
    return pieces


class _Sender:
    """Sends a piece: a turn of a conversation as soon as the turn before is answered.

    It knows what is under way and how many requests have ended, so that nobody has to look through all of them for that.
    """

    def __init__(self, client: Client, load: LoadSpec, more: Mapping[str, Any] | None) -> None:
        self._client = client
        self._load = load
        self._more = more
        self._shelf = Shelf()
        self._under_way: dict[int, Transfer] = {}
        """By place in the plan."""
        self._last: tuple[Transfer, ...] = ()
        """That ended, at most one."""
        self.ended = 0

    async def __call__(self, piece: Sequence[_Planned]) -> None:
        answers: list[str] = []
        for place, one in enumerate(piece):
            transfer, prepared = one.transfer, one.prepared
            if prepared is None:
                prepared = prepare(transfer.request, self._load, self._client.endpoint.model, answers, more=self._more)
            await self._send(prepared, transfer)
            later = [one.transfer for one in piece[place + 1 :]]
            if later and transfer.failure is not None:
                _not_sent(later)
                self.ended += len(later)
                return
            if later:
                answers.append(text_of_answer(transfer))

    async def _send(self, prepared: PreparedRequest, transfer: Transfer) -> None:
        self._under_way[transfer.request.index] = transfer
        try:
            await self._client.transfer(prepared, transfer)
        finally:
            del self._under_way[transfer.request.index]
        self.ended += 1
        self._last = (transfer,)
        if transfer.failure is None:
            self._shelf.put(transfer)

    @property
    def latest(self) -> list[Transfer]:
        """What is under way, and what ended last: all that tells of progress."""
        return [*self._under_way.values(), *self._last]


def _not_sent(transfers: Sequence[Transfer]) -> None:
    for transfer in transfers:
        transfer.failure = "not sent: the turn before it failed"
        transfer.sent = transfer.ended = time.perf_counter()


async def _closed_loop(send: _Sender, work: Sequence[Sequence[_Planned]], concurrency: int) -> None:
    queue = iter(work)

    async def worker() -> None:
        for piece in queue:
            await send(piece)

    await asyncio.gather(*(worker() for _ in range(min(concurrency, len(work)))))


async def _open_loop(send: _Sender, work: Sequence[Sequence[_Planned]], started: float) -> None:
    under_way: list[asyncio.Task[None]] = []
    try:
        for piece in work:
            wait_s = started + (piece[0].transfer.request.due_s or 0.0) - time.perf_counter()
            if wait_s > 0:
                await asyncio.sleep(wait_s)
            under_way.append(asyncio.create_task(send(piece)))
        await asyncio.gather(*under_way)
    finally:
        for task in under_way:
            task.cancel()
        await asyncio.gather(*under_way, return_exceptions=True)


async def _watched(
    sending: Coroutine[None, None, None],
    send: _Sender,
    transfers: Sequence[Transfer],
    *,
    on_progress: Callable[[int, int], None],
    stall_timeout_s: float,
) -> bool:
    """Awaits the sending; True when it was given up because of a stall. Progress is shown from here, not per request."""
    task = asyncio.ensure_future(sending)
    shown = 0
    try:
        while not task.done():
            await asyncio.wait({task}, timeout=min(WATCH_S, stall_timeout_s))
            if send.ended != shown:
                shown = send.ended
                on_progress(shown, len(transfers))
            if not task.done() and _silence_s(send.latest, time.perf_counter()) > stall_timeout_s:
                _give_up(transfers, stall_timeout_s)
                return True
        task.result()
    finally:
        task.cancel()
        await asyncio.wait({task})
    return False


def _silence_s(transfers: Sequence[Transfer], now: float) -> float:
    """For how long requests have been under way without one of them making any progress; 0 when none is under way."""
    under_way = [transfer for transfer in transfers if transfer.sent and transfer.ended is None]
    if not under_way:
        return 0.0
    since = min(transfer.sent for transfer in under_way)
    for transfer in transfers:
        if transfer.reads:
            since = max(since, transfer.reads[-1][0])
        elif transfer.ended is not None:
            since = max(since, transfer.ended)
    return now - since


def _give_up(transfers: Sequence[Transfer], stall_timeout_s: float) -> None:
    now = time.perf_counter()
    for transfer in transfers:
        if transfer.ended is None:
            silence = f"no data for {stall_timeout_s:g} s"
            transfer.failure = silence if transfer.sent else f"not sent: the server had given {silence}"
            transfer.sent = transfer.sent or now
            transfer.ended = now


@contextlib.contextmanager
def _garbage_collector_off() -> Iterator[None]:
    """No pauses of the collector inside; what is garbage before is collected first."""
    was_enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
