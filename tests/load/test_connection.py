"""What a connection makes of bytes, fed to it piece by piece: over a socket, which pieces arrive together is up to chance."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.load.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Callable

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
        connection, wire = Connection(), Wire()
        reads: list[tuple[float, bytes]] = []
        connection.connection_made(wire)
        done = connection.exchange(b"GET / HTTP/1.1\r\n\r\n", reads)
        for step in steps:
            step(connection)
        return connection, wire, [piece for _, piece in reads], done

    return asyncio.run(work())


def receive(data: bytes) -> Callable[[Connection], None]:
    return lambda connection: connection.data_received(data)


def test_an_answer_leaves_the_connection_for_the_next_request() -> None:
    connection, wire, body, done = after(receive(ANSWER[:30]), receive(ANSWER[30:]))
    assert (connection.status, connection.usable, b"".join(body), done.exception()) == (200, True, b"ok", None)
    assert (wire.sent, wire.aborted) == (b"GET / HTTP/1.1\r\n\r\n", False)


@pytest.mark.parametrize("pieces", [(ANSWER, UNASKED), (ANSWER + UNASKED,), (ANSWER + UNASKED[:20], UNASKED[20:])])
def test_bytes_that_nobody_asked_for_cost_the_connection_only(pieces: tuple[bytes, ...]) -> None:
    connection, wire, body, done = after(*map(receive, pieces))
    assert (connection.status, b"".join(body), done.exception()) == (200, b"ok", None)
    assert (connection.usable, wire.aborted) == (False, True)
