"""The load generator reports how well it kept up itself."""

from __future__ import annotations

import asyncio
import time

import pytest

from pytest_specdec.core.samples import RequestSample
from pytest_specdec.load.health import LoopHealth, LoopMonitor, client_health

CALM = LoopHealth(max_lag_s=0.002, p99_lag_s=0.001, cpu_share=0.5)


def arrival(due_s: float | None, sent_s: float) -> RequestSample:
    return RequestSample(index=0, prompt=0, category=None, due_s=due_s, sent_s=sent_s)


def busy(seconds: float) -> None:
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        pass


def test_a_blocked_loop_shows_as_lag() -> None:
    async def work() -> LoopHealth:
        monitor = LoopMonitor()
        monitor.start()
        await asyncio.sleep(0)
        busy(0.3)
        await asyncio.sleep(0)
        return monitor.stop()

    assert asyncio.run(work()).max_lag_s >= 0.25


def test_a_block_that_lasts_to_the_end_counts() -> None:
    async def work() -> LoopHealth:
        monitor = LoopMonitor()
        monitor.start()
        busy(0.2)
        return monitor.stop()

    assert asyncio.run(work()).max_lag_s >= 0.15


def test_the_watch_leaves_nothing_behind() -> None:
    async def work() -> int:
        monitor = LoopMonitor()
        monitor.start()
        await asyncio.sleep(0)
        monitor.stop()
        await asyncio.sleep(0)
        return len(asyncio.all_tasks())

    assert asyncio.run(work()) == 1


def test_the_cpu_share_is_that_of_the_watch(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> LoopHealth:
        monitor = LoopMonitor()
        with monkeypatch.context() as clocks:
            clocks.setattr(time, "process_time", lambda: 10.0)
            clocks.setattr(time, "perf_counter", lambda: 100.0)
            monitor.start()
            clocks.setattr(time, "process_time", lambda: 11.0)
            clocks.setattr(time, "perf_counter", lambda: 104.0)
            return monitor.stop()

    assert asyncio.run(work()).cpu_share == pytest.approx(0.25)


def test_lag_and_cpu_share_are_handed_on() -> None:
    health = client_health(CALM, [arrival(None, 0.0)])
    assert (health.max_loop_lag_s, health.p99_loop_lag_s, health.cpu_share) == (0.002, 0.001, 0.5)


def test_a_closed_loop_has_no_rates() -> None:
    health = client_health(CALM, [arrival(None, 0.0), arrival(None, 1.0)])
    assert (health.offered_rate, health.achieved_rate, health.p99_send_delay_s) == (None, None, None)


def test_rates_count_the_gaps_between_arrivals() -> None:
    health = client_health(CALM, [arrival(0.0, 0.0), arrival(0.5, 0.6), arrival(1.0, 1.25)])
    assert health.offered_rate == pytest.approx(2.0)
    assert health.achieved_rate == pytest.approx(1.6)


def test_the_send_delay_is_that_of_the_latest_percent() -> None:
    samples = [
        arrival(float(place), place + (0.5 if place == 98 else 2.0 if place == 99 else 0.0)) for place in range(100)
    ]
    assert client_health(CALM, samples).p99_send_delay_s == pytest.approx(0.5)


def test_a_single_arrival_has_no_rate() -> None:
    health = client_health(CALM, [arrival(0.0, 0.1)])
    assert (health.offered_rate, health.achieved_rate) == (None, None)
    assert health.p99_send_delay_s == pytest.approx(0.1)
