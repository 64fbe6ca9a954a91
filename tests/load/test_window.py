"""The window sends what is planned, as it is planned, and comes to an end."""

from __future__ import annotations

import asyncio
import gc
import math
import threading
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.answer import Transfer, read_answer
from pytest_specdec.load.client import Client, connect
from pytest_specdec.load.window import Window, _silence_s, run_window
from tests.load.stub_server import ANSWER, CHUNK, WAIT_S, Exchange, Stub, planned

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specdec.load.arrivals import PlannedRequest

OPEN = LoadSpec(concurrency=None, request_rate=1000.0)
NOW = 5000.0


def run(
    stub: Stub,
    plan: Sequence[PlannedRequest],
    load: LoadSpec,
    *,
    on_progress: Callable[[int, int], None] = lambda *_: None,
    stall_timeout_s: float = WAIT_S,
) -> Window:
    async def work() -> Window:
        async with connect(stub.endpoint) as client:
            return await run_window(client, plan, load, on_progress=on_progress, stall_timeout_s=stall_timeout_s)

    return asyncio.run(work())


def errors(window: Window) -> list[str | None]:
    return [read_answer(transfer, window_start=window.started).error for transfer in window.transfers]


class InFlight:
    """A route that answers only when so many requests are under way at once."""

    def __init__(self, together: int) -> None:
        self._together = threading.Barrier(together, timeout=WAIT_S)
        self._lock = threading.Lock()
        self._now = self.most = 0

    def __call__(self, exchange: Exchange) -> None:
        with self._lock:
            self._now += 1
            self.most = max(self.most, self._now)
        self._together.wait()
        with self._lock:
            self._now -= 1
        exchange.stream(*ANSWER)


def test_a_closed_loop_keeps_its_concurrency(stub: Stub) -> None:
    route = stub.routes["/v1/completions"] = InFlight(3)
    assert errors(run(stub, planned(9), LoadSpec(concurrency=3))) == [None] * 9
    assert route.most == 3


def test_a_closed_loop_takes_requests_in_order(stub: Stub) -> None:
    run(stub, planned(5), LoadSpec(concurrency=1))
    assert [seen.json["seed"] for seen in stub.seen_at("/v1/completions")] == [100, 101, 102, 103, 104]


def test_more_workers_than_requests_are_no_problem(stub: Stub) -> None:
    assert errors(run(stub, planned(2), LoadSpec(concurrency=50))) == [None, None]


def test_an_open_loop_waits_for_no_answer(stub: Stub) -> None:
    route = stub.routes["/v1/completions"] = InFlight(6)
    assert errors(run(stub, planned(6, due_s=[0.0] * 6), OPEN)) == [None] * 6
    assert route.most == 6


def test_an_open_loop_sends_nothing_early(stub: Stub) -> None:
    due_s = [0.0, 0.05, 0.15]
    window = run(stub, planned(3, due_s=due_s), OPEN)
    sent_s = [transfer.sent - window.started for transfer in window.transfers]
    assert all(sent >= due for sent, due in zip(sent_s, due_s, strict=True))
    assert errors(window) == [None] * 3


def test_progress_ends_at_the_total(stub: Stub) -> None:
    shown: list[tuple[int, int]] = []
    run(stub, planned(7), LoadSpec(concurrency=2), on_progress=lambda done, total: shown.append((done, total)))
    assert shown[-1] == (7, 7)
    assert shown == sorted(shown)


def test_a_hang_ends_in_errors(stub: Stub) -> None:
    stub.routes["/v1/completions"] = Exchange.wait_for_client_to_close
    window = run(stub, planned(3), LoadSpec(concurrency=2), stall_timeout_s=0.3)
    assert window.stalled
    assert errors(window) == ["no data for 0.3 s"] * 2 + ["not sent: the server had given no data for 0.3 s"]
    assert all(transfer.sent and transfer.ended for transfer in window.transfers)
    assert stub.abandoned.wait(WAIT_S), "the connection stays open"


def test_a_stream_that_stops_ends_in_errors(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        exchange.wait_for_client_to_close()

    stub.routes["/v1/completions"] = route
    # However long the first chunk takes to come: the silence begins after it.
    monkeypatch.setattr(
        "pytest_specdec.load.window._silence_s", lambda transfers, _: math.inf if transfers[0].reads else 0.0
    )
    window = run(stub, planned(1, due_s=[0.0]), OPEN, stall_timeout_s=2.0)
    assert errors(window) == ["no data for 2 s"]
    assert len(window.transfers[0].reads) == 1


def test_a_run_that_fails_at_once_is_no_stall(stub: Stub) -> None:
    stub.routes["/v1/completions"] = lambda exchange: exchange.reply(500, "no")
    window = run(stub, planned(4), LoadSpec(concurrency=2))
    assert errors(window) == ["HTTP 500: no"] * 4
    assert not window.stalled


def test_a_defect_of_the_client_is_not_swallowed(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    async def broken(*_: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(Client, "transfer", broken)
    with pytest.raises(ZeroDivisionError):
        run(stub, planned(2), LoadSpec(concurrency=1))


def under_way(*, sent_ago_s: float, read_ago_s: float | None = None, ended_ago_s: float | None = None) -> Transfer:
    return Transfer(
        planned(1)[0],
        sent=NOW - sent_ago_s,
        reads=[] if read_ago_s is None else [(NOW - read_ago_s, b"")],
        ended=None if ended_ago_s is None else NOW - ended_ago_s,
    )


@pytest.mark.parametrize(
    ("transfers", "silence_s"),
    [
        ([], 0),
        ([Transfer(planned(1)[0])], 0),
        ([under_way(sent_ago_s=900, ended_ago_s=800)], 0),
        ([under_way(sent_ago_s=500)], 500),
        ([under_way(sent_ago_s=500, read_ago_s=300)], 300),
        ([under_way(sent_ago_s=500), under_way(sent_ago_s=400, read_ago_s=200)], 200),
        ([under_way(sent_ago_s=500), under_way(sent_ago_s=400, ended_ago_s=100)], 100),
        ([under_way(sent_ago_s=500), under_way(sent_ago_s=5)], 500),
        ([under_way(sent_ago_s=900, read_ago_s=800, ended_ago_s=800), under_way(sent_ago_s=50)], 50),
    ],
    ids=[
        "nothing",
        "not sent",
        "all ended",
        "no byte",
        "no further byte",
        "another one gets bytes",
        "another one ended",
        "new requests are no progress",
        "idle time does not count",
    ],
)
def test_silence_is_time_without_progress_of_anybody(transfers: list[Transfer], silence_s: float) -> None:
    assert _silence_s(transfers, NOW) == silence_s


def test_no_garbage_is_collected_in_the_window(stub: Stub) -> None:
    seen: list[bool] = []

    def route(exchange: Exchange) -> None:
        seen.append(gc.isenabled())
        exchange.stream(*ANSWER)

    stub.routes["/v1/completions"] = route
    run(stub, planned(1), LoadSpec(concurrency=1))
    assert seen == [False]
    assert gc.isenabled()


def test_a_disabled_collector_stays_disabled(stub: Stub, request: Any) -> None:
    request.addfinalizer(gc.enable)
    gc.disable()
    run(stub, planned(1), LoadSpec(concurrency=1))
    assert not gc.isenabled()
