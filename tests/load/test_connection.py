"""What a connection makes of bytes, fed to it piece by piece: over a socket, which pieces arrive together is up to chance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.load.connection import READ_BYTES, Connection, Connections

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.load.stub_server import Stub

ANSWER = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
UNASKED = b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\nx"


class Wire(asyncio.Transport):
    """Takes what is sent."""

    def __init__(self) -> None:
        super().__init__()
        self.sent = b""
        self.aborted = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.sent += bytes(data)

    def abort(self) -> None:
        self.aborted = True


def after(*steps: Callable[[Connection], None]) -> tuple[Connection, Wire, list[bytes], asyncio.Future[None]]:
    """One request, and what happens to it."""

    async def work() -> tuple[Connection, Wire, list[bytes], asyncio.Future[None]]:
        connection, wire = Connection(bytearray(READ_BYTES)), Wire()
        reads: list[tuple[float, bytes]] = []
        connection.connection_made(wire)
        done = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", reads)
        for step in steps:
            step(connection)
        return connection, wire, [piece for _, piece in reads], done

    return asyncio.run(work())


def receive(data: bytes) -> Callable[[Connection], None]:
    def step(connection: Connection) -> None:
        connection.get_buffer(-1)[: len(data)] = data
        connection.buffer_updated(len(data))

    return step


def test_what_one_connection_read_outlives_the_next_read_into_the_shared_buffer() -> None:
    async def work() -> list[list[tuple[float, bytes]]]:
        buffer = bytearray(READ_BYTES)
        connections = [Connection(buffer) for _ in range(2)]
        bodies: list[list[tuple[float, bytes]]] = [[], []]
        for connection, reads in zip(connections, bodies, strict=True):
            connection.connection_made(Wire())
            connection.exchange(b"GET / HTTP/1.1\r\n\r\n", reads)
        for piece in (ANSWER[:-1], b"k"):
            for connection in connections:
                receive(piece)(connection)
        receive(b"later bytes")(connections[0])
        return bodies

    assert [b"".join(piece for _, piece in body) for body in asyncio.run(work())] == [b"ok", b"ok"]


def test_an_answer_leaves_the_connection_for_the_next_request() -> None:
    connection, wire, body, done = after(receive(ANSWER[:30]), receive(ANSWER[30:]))
    assert (connection.status, connection.usable, b"".join(body), done.exception()) == (200, True, b"ok", None)
    assert (wire.sent, wire.aborted) == (b"GET / HTTP/1.1\r\n\r\n", False)


@pytest.mark.parametrize("pieces", [(ANSWER, UNASKED), (ANSWER + UNASKED,), (ANSWER + UNASKED[:20], UNASKED[20:])])
def test_bytes_that_nobody_asked_for_cost_the_connection_only(pieces: tuple[bytes, ...]) -> None:
    connection, wire, body, done = after(*map(receive, pieces))
    assert (connection.status, b"".join(body), done.exception()) == (200, b"ok", None)
    assert (connection.usable, wire.aborted) == (False, True)


def test_a_connection_that_was_closed_while_it_was_opened_does_not_stay_open() -> None:
    connection, wire = Connection(bytearray(READ_BYTES)), Wire()
    connection.close()
    connection.connection_made(wire)
    assert wire.aborted


def test_giving_up_takes_effect_even_as_the_connection_is_made(stub: Stub) -> None:
    async def work() -> None:
        connections = Connections(stub.endpoint.base_url, {})
        loop = asyncio.get_running_loop()
        taking = asyncio.ensure_future(connections.take())
        made = loop.create_connection

        async def making(*arguments: Any, **more: Any) -> Any:
            result = await made(*arguments, **more)
            loop.call_soon(taking.cancel)  # both are known to the waiting task in one turn of the loop
            return result

        loop.create_connection = making  # type: ignore[method-assign] # for this one call
        with pytest.raises(asyncio.CancelledError):
            await taking
        connections.close()

    asyncio.run(work())
