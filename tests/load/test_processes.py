"""Several load processes measure what one does, and none outlives the run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.health import LoopHealth
from pytest_specdec.load.measure import Endpoint, run_arm
from pytest_specdec.load.observed import Observed, merged
from pytest_specdec.testing import FakeVllm
from tests.load.stub_server import ANSWER, CHUNK, WAIT_S, Exchange, Stub, planned, stub_counters, stub_running
from tests.load.test_measure import EAGLE3, measured

if TYPE_CHECKING:
    from pytest_specdec.core.samples import ArmRun

ROOT = Path(__file__).parents[2]
CLOSED = LoadSpec(concurrency=5, num_requests=12, max_tokens=24)
OPEN = LoadSpec(concurrency=None, request_rate=60, num_requests=12, max_tokens=8)


def measured_stub(endpoint: Endpoint, *, requests: int, concurrency: int, clients: int = 2) -> ArmRun:
    return run_arm(
        endpoint,
        planned(requests),
        LoadSpec(concurrency=concurrency, clients=clients),
        arm="baseline",
        round_index=0,
        order=0,
        alive=lambda: None,
        on_progress=lambda *_: None,
        read_counters=stub_counters,
        running=stub_running,
        difference=lambda _, after: after,
    )


def load_processes() -> list[psutil.Process]:
    return [
        child for child in psutil.Process().children() if "pytest_specdec.load.processes" in " ".join(child.cmdline())
    ]


@pytest.mark.parametrize("load", [CLOSED, OPEN], ids=["closed loop", "open loop"])
def test_the_samples_are_those_of_one_process(load: LoadSpec) -> None:
    with FakeVllm(speculative_config=EAGLE3, tpot_ms=1, ttft_ms=2) as server:
        one, several = (measured(server, replace(load, clients=clients)) for clients in (1, 3))
    for mine, theirs in zip(one.samples, several.samples, strict=True):
        timeless: dict[str, Any] = {"sent_s": 0.0, "token_times_s": (), "chunk_tokens": None}
        assert replace(mine, **timeless) == replace(theirs, **timeless)
        assert theirs.error is None
        assert theirs.token_times_s == tuple(sorted(theirs.token_times_s))
        assert theirs.sent_s <= theirs.token_times_s[0]
        assert load.request_rate is None or (theirs.due_s is not None and theirs.sent_s >= theirs.due_s)
    assert several.duration_s == max(sample.token_times_s[-1] for sample in several.samples)
    counted = ("generation_tokens", "finished_requests", "drafts", "accepted_tokens", "decode_steps")
    assert [getattr(one.counters, name) for name in counted] == [getattr(several.counters, name) for name in counted]


def test_progress_counts_the_requests_of_all() -> None:
    seen: list[tuple[int, int]] = []
    with FakeVllm(tpot_ms=1, ttft_ms=2) as server:
        measured(server, replace(CLOSED, clients=2), on_progress=lambda *counts: seen.append(counts))
    assert seen[-1] == (12, 12)
    assert seen == sorted(seen)


def test_as_many_requests_are_in_flight_as_were_asked_for(stub: Stub) -> None:
    together = threading.Barrier(5, timeout=WAIT_S)  # passed by five at once, and only then
    lock, flying, most = threading.Lock(), [0], [0]

    def route(exchange: Exchange) -> None:
        with lock:
            flying[0] += 1
            most[0] = max(most[0], flying[0])
        together.wait()
        with lock:
            flying[0] -= 1
        exchange.stream(*ANSWER)

    stub.routes["/v1/completions"] = route
    run = measured_stub(stub.endpoint, requests=10, concurrency=5)
    assert [sample.error for sample in run.samples] == [None] * 10
    assert most == [5]


def test_a_process_that_dies_is_one_error_and_the_others_end(stub: Stub) -> None:
    killed: list[int] = []
    lock = threading.Lock()

    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        with lock:
            if not killed:
                killed.append(load_processes()[0].pid)
                os.kill(killed[0], signal.SIGKILL)
        exchange.wait_for_client_to_close()

    stub.routes["/v1/completions"] = route
    with pytest.raises(InvalidMeasurement, match=r"load process . of 2 ended before its requests did \(SIGKILL\)"):
        measured_stub(stub.endpoint, requests=2, concurrency=2)
    assert load_processes() == []


def test_an_interrupt_ends_all(stub: Stub) -> None:
    lock = threading.Lock()
    interrupted: list[bool] = []

    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        with lock:
            if not interrupted:
                interrupted.append(True)
                os.kill(os.getpid(), signal.SIGINT)
        exchange.wait_for_client_to_close()

    stub.routes["/v1/completions"] = route
    with pytest.raises(KeyboardInterrupt):
        measured_stub(stub.endpoint, requests=2, concurrency=2)
    assert load_processes() == []


def test_none_outlives_a_pytest_that_is_killed(stub: Stub) -> None:
    arrived, closed = threading.Barrier(3), threading.Barrier(3)

    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        arrived.wait(WAIT_S)
        exchange.wait_for_client_to_close()
        closed.wait(WAIT_S)

    stub.routes["/v1/completions"] = route
    call = f"measured_stub(Endpoint({stub.endpoint.base_url!r}, 'm'), requests=2, concurrency=2)"
    code = f"from tests.load.test_processes import Endpoint, measured_stub; {call}"
    with subprocess.Popen([sys.executable, "-c", code], cwd=ROOT) as process:
        arrived.wait(WAIT_S)  # both processes have a request under way
        process.kill()
        closed.wait(WAIT_S)  # and both have closed their sockets


def test_the_worst_client_tells_the_health() -> None:
    def part(lag_s: float, share: float) -> Observed:
        return Observed(
            (), 1.0, 2.0 + lag_s, 3.0, LoopHealth(2 * lag_s, lag_s, share), stalled=False, disconnected=False
        )

    whole = merged([part(0.001, 0.9), part(0.5, 0.2)])
    assert whole.loop == LoopHealth(1.0, 0.5, 0.9)
    assert whole.duration_s == 2.5


def test_what_befalls_one_befalls_all() -> None:
    fine = Observed((), 1.0, 2.0, 3.0, LoopHealth(0, 0, 0), stalled=False, disconnected=False)
    whole = merged([fine, replace(fine, stalled=True), replace(fine, disconnected=True, started_unix_s=0.5)])
    assert (whole.stalled, whole.disconnected, whole.started_unix_s) == (True, True, 0.5)
