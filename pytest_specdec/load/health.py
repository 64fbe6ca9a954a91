"""Was the load generator itself in time? Event loop lag, CPU share, and how well the arrivals were kept."""

from __future__ import annotations

import asyncio
import math
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.samples import ClientHealth

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.samples import RequestSample

TICK_S = 0.01
"""How often the event loop is asked to come round."""


@dataclass(frozen=True)
class LoopHealth:
    """How the client's process fared in the window."""

    max_lag_s: float
    p99_lag_s: float
    cpu_share: float


class LoopMonitor:
    """Watches the running event loop between :meth:`start` and :meth:`stop`."""

    def __init__(self) -> None:
        self._lags_s: list[float] = []
        self._started = self._asleep_since = 0.0
        self._cpu_started_s = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begins to watch; to be called inside the loop."""
        self._started = self._asleep_since = time.perf_counter()
        self._cpu_started_s = time.process_time()
        self._task = asyncio.create_task(self._tick())

    def stop(self) -> LoopHealth:
        """Ends the watch and sums it up."""
        now = time.perf_counter()
        cpu_s = time.process_time() - self._cpu_started_s
        if self._task is not None:
            self._task.cancel()
        self._lags_s.append(now - self._asleep_since - TICK_S)  # a tick that has not come back yet is late as well
        lags_s = sorted(max(lag_s, 0.0) for lag_s in self._lags_s)
        return LoopHealth(
            max_lag_s=lags_s[-1],
            p99_lag_s=_p99(lags_s),
            cpu_share=cpu_s / max(now - self._started, 1e-9),
        )

    async def _tick(self) -> None:
        while True:
            self._asleep_since = time.perf_counter()
            await asyncio.sleep(TICK_S)
            self._lags_s.append(time.perf_counter() - self._asleep_since - TICK_S)


def client_health(loop: LoopHealth, samples: Sequence[RequestSample]) -> ClientHealth:
    """The loop's health together with the arrivals: planned and achieved rate and the delay, where there is a plan.

    Both rates are taken over the gaps between the first and the last arrival; a single arrival has none.
    """
    due_s = sorted(sample.due_s for sample in samples if sample.due_s is not None)
    sent_s = sorted(sample.sent_s for sample in samples if sample.due_s is not None)
    delays_s = sorted(sample.sent_s - sample.due_s for sample in samples if sample.due_s is not None)
    return ClientHealth(
        max_loop_lag_s=loop.max_lag_s,
        p99_loop_lag_s=loop.p99_lag_s,
        cpu_share=loop.cpu_share,
        offered_rate=_rate(due_s),
        achieved_rate=_rate(sent_s),
        p99_send_delay_s=_p99(delays_s) if delays_s else None,
    )


def _rate(times_s: Sequence[float]) -> float | None:
    if not times_s or times_s[-1] <= times_s[0]:
        return None
    return (len(times_s) - 1) / (times_s[-1] - times_s[0])


def _p99(ascending: Sequence[float]) -> float:
    return ascending[math.ceil(0.99 * len(ascending)) - 1]
