"""Between windows: waiting for an idle server, settled counters, the prefix cache."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.core.samples import ServerCounters
from pytest_specdec.load import idle
from pytest_specdec.load.client import Client, connect
from pytest_specdec.load.idle import (
    ScrapeReader,
    reset_prefix_cache,
    settled_counters,
    shared_counters,
    wait_until_idle,
)
from tests.load.stub_server import Exchange, Stub, stub_counters, stub_running

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

READER = ScrapeReader(counters=stub_counters, running=stub_running, difference=lambda _, after: after)
T = TypeVar("T")


@pytest.fixture(autouse=True)
def _often_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "POLL_S", 0.01)


@pytest.fixture
def soon_over(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("IDLE_TIMEOUT_S", "SETTLE_TIMEOUT_S", "RESET_TIMEOUT_S"):
        monkeypatch.setattr(idle, name, 0.2)


def ask(stub: Stub, question: Callable[[Client], Coroutine[Any, Any, T]]) -> T:
    async def work() -> T:
        async with connect(stub.endpoint) as client:
            return await question(client)

    return asyncio.run(work())


def answers(*texts: str) -> Callable[[Exchange], None]:
    """One text for each request, the last one for all that follow."""
    left = list(texts)
    return lambda exchange: exchange.reply(200, left.pop(0) if len(left) > 1 else left[0])


def test_the_first_idle_scrape_is_returned(stub: Stub) -> None:
    stub.routes["/metrics"] = answers("running 2 tokens 5", "running 1 tokens 8", "running 0 tokens 9")
    assert ask(stub, lambda client: wait_until_idle(client, READER, since="we sent none")) == "running 0 tokens 9"


@pytest.mark.usefixtures("soon_over")
@pytest.mark.parametrize(("count", "requests"), [(1, "1 request is"), (3, "3 requests are")])
def test_foreign_traffic_is_named(stub: Stub, count: int, requests: str) -> None:
    stub.routes["/metrics"] = answers(f"running {count} tokens 5")
    message = f"foreign traffic: {requests} running on the server although we sent none"
    with pytest.raises(InvalidMeasurement, match=message):
        ask(stub, lambda client: wait_until_idle(client, READER, since="we sent none"))


def test_counters_are_read_until_they_settle(stub: Stub) -> None:
    tokens = [5, 8, 9, 12, 12]
    stub.routes["/metrics"] = answers(*(f"running {int(count == 5)} tokens {count}" for count in tokens), "no more")
    assert ask(stub, lambda client: settled_counters(client, READER)).generation_tokens == 12


@pytest.mark.usefixtures("soon_over")
def test_counters_that_never_settle_are_returned(stub: Stub) -> None:
    counts = iter(range(100_000))
    stub.routes["/metrics"] = lambda exchange: exchange.reply(200, f"running 0 tokens {next(counts)}")
    settled = ask(stub, lambda client: settled_counters(client, READER)).generation_tokens
    assert settled == next(counts) - 1


def finished(text: str) -> ServerCounters:
    return ServerCounters(finished_requests=int(text))


def test_a_shared_servers_counters_are_read_when_they_hold_our_requests(stub: Stub) -> None:
    reader = replace(READER, counters=finished)
    stub.routes["/metrics"] = answers("5", "7", "8", "12")
    before = ServerCounters(finished_requests=5)
    counters = ask(stub, lambda client: shared_counters(client, reader, before, 3))
    assert counters.finished_requests == 8


@pytest.mark.usefixtures("soon_over")
def test_a_shared_server_that_never_counts_them_is_not_waited_for(stub: Stub) -> None:
    reader = replace(READER, counters=finished)
    stub.routes["/metrics"] = answers("5")
    counters = ask(stub, lambda client: shared_counters(client, reader, ServerCounters(finished_requests=5), 3))
    assert counters.finished_requests == 5


@pytest.mark.usefixtures("soon_over")
@pytest.mark.parametrize(
    ("status", "text", "was_reset"),
    [
        (200, "", True),
        (200, '{"success": true}', True),
        (200, '{"success": false}', False),
        (404, '{"detail": "Not Found"}', False),
        (405, "", False),
        (500, "", False),
    ],
)
def test_a_reset_counts_only_when_the_server_says_so(stub: Stub, status: int, text: str, *, was_reset: bool) -> None:
    stub.routes["/reset_prefix_cache"] = lambda exchange: exchange.reply(status, text)
    assert ask(stub, reset_prefix_cache) is was_reset


def test_a_reset_is_asked_for_until_no_block_is_in_use(stub: Stub) -> None:
    stub.routes["/reset_prefix_cache"] = answers('{"success": false}', '{"success": false}', '{"success": true}')
    assert ask(stub, reset_prefix_cache) is True
    assert len(stub.seen) == 3
