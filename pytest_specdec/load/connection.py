"""Connections for timed requests: bytes in, bytes out, and the time at which each piece came.

A stream costs the event loop a socket read and httptools' parser (C), nothing else: no stream objects, no text, no JSON. What
the pieces mean is found out after the window (:mod:`pytest_specdec.load.answer`).
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from httptools import HttpParserError, HttpResponseParser

if TYPE_CHECKING:
    from collections.abc import Mapping

    Reads = list[tuple[float, bytes]]
    """Time of each piece of a body (``time.perf_counter()``), and the piece."""

READ_BYTES = 256 * 1024
"""Read from a socket at once, at most."""
KEEP_ALIVE_S = 4.0
"""Shorter than the 5 s of vLLM's own server, so that we never send on a connection that it is just closing."""
CONNECT_TIMEOUT_S = 30.0


class ServerClosedError(ConnectionError):
    """The server closed the connection before its answer was complete."""


class NotHttpError(ConnectionError):
    """What came back is no HTTP."""


class Connection(asyncio.BufferedProtocol):
    """One connection: one request at a time, kept alive between them.

    Reads go through a buffer that all connections of an event loop may share. asyncio otherwise allocates 256 KiB for every read, which
    glibc maps anew each time: of what a read costs, nine parts in ten (10 us), by which each stream delays those behind it.
    """

    def __init__(self, buffer: bytearray) -> None:
        self._buffer = memoryview(buffer)
        self.free_since = 0.0
        self.usable = True
        self.status = 0
        """Of the last answer."""
        self._transport: asyncio.Transport | None = None
        self._parser: Any = None
        self._reads: Reads = []
        self._done: asyncio.Future[None] | None = None
        self._now = 0.0
        self._sized = self._until_close = False

    def exchange(self, request: bytes, reads: Reads) -> asyncio.Future[None]:
        """Send a request; the answer's body is stamped into ``reads``. Done when it is complete.

        Raises:
            ConnectionError: From the future, when it does not become complete.
        """
        self._parser, self._reads = HttpResponseParser(self), reads
        self._sized = self._until_close = False
        self._done = asyncio.get_running_loop().create_future()
        cast("asyncio.Transport", self._transport).write(request)
        return self._done

    def close(self) -> None:
        """Whatever is under way is given up."""
        self.usable = False
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Of the protocol."""
        self._transport = cast("asyncio.Transport", transport)
        if not self.usable:  # closed while it was being opened
            self.close()

    def get_buffer(self, sizehint: int) -> memoryview:  # noqa: ARG002 - of the protocol
        """Of the protocol: where the next read goes; what of it is kept is copied before anything else is read."""
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        """Of the protocol: the one place where time is taken."""
        self._now = time.perf_counter()
        if self._parser is None:  # an answer that nobody asked for
            self.close()
            return
        try:
            self._parser.feed_data(self._buffer[:nbytes])
        except HttpParserError as error:
            self._end(NotHttpError(f"the server's answer is no HTTP: {error}"))
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Of the protocol."""
        self.usable = False
        if exc is None and self._until_close and self._parser is not None:
            self.on_message_complete()
        self._end(exc or ServerClosedError("the server closed the connection"))

    def on_message_begin(self) -> None:
        """Of the parser. A second answer to one request is none: the parser stops, and the connection is given up."""
        if self._parser is None:
            raise NotHttpError("there is more than the answer")

    def on_header(self, name: bytes, _: bytes) -> None:
        """Of the parser."""
        self._sized = self._sized or name.lower() in (b"content-length", b"transfer-encoding")

    def on_headers_complete(self) -> None:
        """Of the parser. A body whose length nothing tells ends with the connection."""
        self._until_close = not self._sized

    def on_body(self, piece: bytes) -> None:
        """Of the parser."""
        self._reads.append((self._now, piece))

    def on_message_complete(self) -> None:
        """Of the parser."""
        self.status = self._parser.get_status_code()
        self.usable = self.usable and self._parser.should_keep_alive()
        self._end(None)

    def _end(self, error: Exception | None) -> None:
        done, self._done, self._parser = self._done, None, None
        if done is not None and not done.done():
            if error is None:
                done.set_result(None)
            else:
                done.set_exception(error)


class Connections:
    """The connections to one server: as many as are used at once, free ones first."""

    def __init__(self, base_url: str, headers: Mapping[str, str]) -> None:
        address = urlsplit(base_url)
        self._host, self._tls = address.hostname or "", address.scheme == "https"
        self._port = address.port or (443 if self._tls else 80)
        self._path = address.path.rstrip("/")
        fields = {"Host": address.netloc.rpartition("@")[2], **headers}
        self._fields = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
        self._free: list[Connection] = []
        self._all: set[Connection] = set()
        self._buffer = bytearray(READ_BYTES)

    def request(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A request as it goes over the wire."""
        head = f"{method} {self._path}{path} HTTP/1.1\r\n{self._fields}Content-Length: {len(body)}\r\n\r\n"
        return head.encode() + body

    async def take(self) -> Connection:
        """A free connection, or a new one.

        Raises:
            OSError: The server cannot be reached.
        """
        oldest = time.monotonic() - KEEP_ALIVE_S
        while self._free:
            connection = self._free.pop()
            if connection.usable and connection.free_since > oldest:
                return connection
            self._drop(connection)
        return await self._connect()

    def give_back(self, connection: Connection, *, complete: bool) -> None:
        """After an exchange; what did not come to its end cannot be used again."""
        if complete and connection.usable:
            connection.free_since = time.monotonic()
            self._free.append(connection)
        else:
            self._drop(connection)

    def close(self) -> None:
        """All of them."""
        for connection in tuple(self._all):
            self._drop(connection)

    def _drop(self, connection: Connection) -> None:
        connection.close()
        self._all.discard(connection)

    async def _connect(self) -> Connection:
        connection = Connection(self._buffer)
        self._all.add(connection)
        opening = asyncio.ensure_future(
            asyncio.get_running_loop().create_connection(
                lambda: connection, self._host, self._port, ssl=True if self._tls else None
            )
        )
        try:
            # Before Python 3.12 wait_for swallows a cancellation that comes as the connection does.
            if not (await asyncio.wait({opening}, timeout=CONNECT_TIMEOUT_S))[0]:
                raise asyncio.TimeoutError  # noqa: TRY301 - whatever is raised here, nothing may stay open
            opening.result()
        except BaseException:
            opening.cancel()
            self._drop(connection)
            raise
        return connection
