"""A server that streams made-up completions as fast as they are read, or on an exact schedule, and tells what it really sent.

One process, one thread, one loop that never sleeps while anybody is connected: pin it to a core of its own. It speaks as much of
vLLM's HTTP as load generators ask for. ``GET /truth`` says when each request came and its answer's chunks left, in seconds of the
machine's monotonic clock (``time.perf_counter``, one for all processes); ``POST /reset`` forgets them.

A request came when the kernel took its last byte from the network, and a chunk left when it was handed to the kernel: how long
this server needs to wake up, or to get round to one request of many, is part of its answer's time, as it is of any server's, and
no error of the tool that measures it.

    python benchmarks/load_generator/server.py --port 8100 --chunks 256                          # as fast as it is read
    python benchmarks/load_generator/server.py --port 8100 --chunks 256 --tpot-ms 10 --tokens-per-chunk 2
"""

from __future__ import annotations

import argparse
import contextlib
import heapq
import json
import selectors
import signal
import socket
import struct
import sys
import time
from dataclasses import dataclass, field
from typing import Any, cast

MODEL = "exact"
BLOCK = 32
"""Chunks handed to the socket at once where nothing paces them."""
SO_TIMESTAMPNS = 35
"""Of Linux' ``asm-generic/socket.h``; :mod:`socket` does not name it."""
TIMESPEC = struct.Struct("qq")
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nTransfer-Encoding: chunked\r\n\r\n"


@dataclass(frozen=True)
class Pace:
    """How answers are streamed."""

    chunks: int
    """Token chunks of an answer, at least 2."""
    tokens_per_chunk: int
    tpot_s: float | None
    """Seconds per token; None streams as fast as the client reads."""
    ttft_s: float
    text_bytes: int = 0
    """Of each chunk at least."""

    @property
    def tokens(self) -> int:
        """Completion tokens of an answer: the first chunk has one."""
        return 1 + (self.chunks - 1) * self.tokens_per_chunk

    def due_s(self, chunk: int) -> float:
        """Seconds after the request at which a chunk is due."""
        return self.ttft_s + chunk * self.tokens_per_chunk * (self.tpot_s or 0.0)


@dataclass
class Answer:
    """One request under way or done."""

    received: float
    sent: int = 0
    """Chunks sent."""
    first: float = 0.0
    last: float = 0.0
    late_s: float = 0.0
    """Longest time by which the server itself missed its schedule."""


@dataclass
class Connection:
    """One client's connection; keeps alive."""

    sock: socket.socket
    read: bytearray = field(default_factory=bytearray)
    unsent: memoryview = field(default_factory=lambda: memoryview(b""))
    answer: Answer | None = None
    chat: bool = False
    writable_watched: bool = False


class Server:
    """The loop."""

    def __init__(self, port: int, pace: Pace) -> None:
        self.pace = pace
        self.finished: list[Answer] = []
        self.running = 0
        self._due: list[tuple[float, int, Connection]] = []
        self._serial = 0
        self._selector = selectors.DefaultSelector()
        self._listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self._listener.setblocking(False)
        self._listener.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)  # so do all connections that it accepts
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._events = {chat: _Events(pace, chat=chat) for chat in (False, True)}
        self.port = self._listener.getsockname()[1]

    def run(self) -> None:
        """Serve until SIGTERM."""
        while True:
            self.turn()

    def turn(self) -> None:
        """Take what has come, send what is due."""
        connected = len(self._selector.get_map()) > 1
        for key, ready in self._selector.select(0 if connected else None):
            connection = key.data
            if connection is None:
                self._accept()
                continue
            try:
                if ready & selectors.EVENT_WRITE:
                    self._pump(connection)
                if ready & selectors.EVENT_READ:
                    self._receive(connection)
            except OSError:
                self._close(connection)
        now = time.perf_counter()
        while self._due and self._due[0][0] <= now:
            due, _, connection = heapq.heappop(self._due)
            try:
                self._send_due(connection, due)
            except OSError:
                self._close(connection)
            now = time.perf_counter()

    def close(self) -> None:
        """All sockets."""
        for key in tuple(self._selector.get_map().values()):
            cast("socket.socket", key.fileobj).close()
        self._selector.close()

    def _accept(self) -> None:
        sock, _ = self._listener.accept()
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._selector.register(sock, selectors.EVENT_READ, Connection(sock))

    def _close(self, connection: Connection) -> None:
        if connection.answer is not None:
            self.running -= 1
            connection.answer = None
        if connection.sock.fileno() >= 0:
            self._selector.unregister(connection.sock)
            connection.sock.close()

    def _receive(self, connection: Connection) -> None:
        piece, ancillary, _, _ = connection.sock.recvmsg(1 << 16, socket.CMSG_SPACE(TIMESPEC.size))
        if not piece:
            self._close(connection)
            return
        connection.read += piece
        end = connection.read.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(connection.read[:end])
        lines = head.split(b"\r\n")
        length = next((int(line[15:]) for line in lines if line[:15].lower() == b"content-length:"), 0)
        if len(connection.read) < end + 4 + length:
            return
        del connection.read[: end + 4 + length]
        path = lines[0].split(b" ")[1].decode()
        if path.endswith("/completions"):
            self._begin(connection, _came(ancillary), chat="chat" in path)
        else:
            self._write(connection, _plain(self._question(path)))

    def _begin(self, connection: Connection, received: float, *, chat: bool) -> None:
        answer = connection.answer = Answer(received)
        connection.chat = chat
        self.running += 1
        if self.pace.tpot_s is None:
            self._write(connection, HEAD)
            self._pump(connection)
        else:
            self._schedule(connection, answer)

    def _schedule(self, connection: Connection, answer: Answer) -> None:
        self._serial += 1
        heapq.heappush(self._due, (answer.received + self.pace.due_s(answer.sent), self._serial, connection))

    def _send_due(self, connection: Connection, due: float) -> None:
        answer, events = connection.answer, self._events[connection.chat]
        if answer is None:
            return
        data = events.chunk if answer.sent < self.pace.chunks - 1 else events.end
        if answer.sent == 0:
            data = HEAD + events.first
        now = time.perf_counter()
        self._write(connection, data)
        answer.late_s = max(answer.late_s, now - due)
        self._count(connection, answer, 1, now)
        if connection.answer is not None:
            self._schedule(connection, answer)

    def _count(self, connection: Connection, answer: Answer, chunks: int, now: float) -> None:
        if answer.sent == 0:
            answer.first = now
        answer.sent += chunks
        answer.last = now
        if answer.sent == self.pace.chunks:
            self.finished.append(answer)
            self.running -= 1
            connection.answer = None

    def _pump(self, connection: Connection) -> None:
        """Hand over blocks until the socket is full; the selector calls again when it is not."""
        self._write(connection, b"")
        while not connection.unsent and connection.answer is not None and self.pace.tpot_s is None:
            answer, events = connection.answer, self._events[connection.chat]
            left = self.pace.chunks - 1 - answer.sent
            if answer.sent == 0:
                count, block = 1, events.first
            elif left > 0:
                count = min(BLOCK, left)
                block = events.block if count == BLOCK else events.chunk * count
            else:
                count, block = 1, events.end
            now = time.perf_counter()
            self._write(connection, block)
            self._count(connection, answer, count, now)

    def _write(self, connection: Connection, data: bytes) -> None:
        unsent = memoryview(bytes(connection.unsent) + data) if connection.unsent else memoryview(data)
        if unsent:
            with contextlib.suppress(BlockingIOError):
                unsent = unsent[connection.sock.send(unsent) :]
        connection.unsent = unsent
        watch = bool(unsent)
        if watch != connection.writable_watched:
            connection.writable_watched = watch
            events = selectors.EVENT_READ | (selectors.EVENT_WRITE if watch else 0)
            self._selector.modify(connection.sock, events, connection)

    def _question(self, path: str) -> str:
        if path == "/reset":
            self.finished.clear()
        if path == "/truth":
            return json.dumps([vars(answer) for answer in self.finished])
        if path.endswith("/models"):
            return json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model", "owned_by": "benchmark"}]})
        if path == "/metrics":
            tokens = len(self.finished) * self.pace.tokens
            label = f'{{engine="0",model_name="{MODEL}"}}'
            return (
                f"# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running{label} {self.running}\n"
                f"# TYPE vllm:generation_tokens counter\nvllm:generation_tokens_total{label} {tokens}\n"
            )
        return "{}"


def _came(ancillary: list[tuple[int, int, bytes]]) -> float:
    """When the kernel took the last byte of what ``recvmsg`` gave, on the clock of ``time.perf_counter``."""
    [(_, _, stamp)] = ancillary
    seconds, nanoseconds = TIMESPEC.unpack(stamp)
    ago_s: float = (time.time_ns() - seconds * 10**9 - nanoseconds) / 1e9
    return time.perf_counter() - ago_s


class _Events:
    """The events of an answer as bytes, each in an HTTP chunk of its own, as vLLM's server sends them."""

    def __init__(self, pace: Pace, *, chat: bool) -> None:
        ids = list(range(1000, 1000 + pace.tokens_per_chunk))
        role = {"delta": {"role": "assistant", "content": ""}, "finish_reason": None}
        start = _event(_chunk([role | {"index": 0, "logprobs": None}], chat=chat)) if chat else b""
        # One token: so that TPOT is the same whether its first chunk's tokens are left out or its first token is.
        size = pace.text_bytes
        self.first = start + _event(_chunk([_choice(ids[:1], None, chat=chat, size=size)], chat=chat))
        self.chunk = _event(_chunk([_choice(ids, None, chat=chat, size=size)], chat=chat))
        self.block = self.chunk * BLOCK
        usage = {"prompt_tokens": 16, "completion_tokens": pace.tokens, "total_tokens": 16 + pace.tokens}
        last = _event(_chunk([_choice(ids, "length", chat=chat)], chat=chat))
        self.end = last + _event(_chunk([], chat=chat) | {"usage": usage}) + _framed(b"data: [DONE]\n\n") + b"0\r\n\r\n"


def _choice(ids: list[int], finish: str | None, *, chat: bool, size: int = 0) -> dict[str, Any]:
    text = (" word" * len(ids)).ljust(size, "x")
    said = {"delta": {"content": text}} if chat else {"text": text}
    return {"index": 0, **said, "logprobs": None, "finish_reason": finish, "stop_reason": None, "token_ids": ids}


def _chunk(choices: list[dict[str, Any]], *, chat: bool) -> dict[str, Any]:
    kind = "chat.completion.chunk" if chat else "text_completion"
    return {"id": "cmpl-0123456789abcdef", "object": kind, "created": 1700000000, "model": MODEL, "choices": choices}


def _event(data: dict[str, Any]) -> bytes:
    return _framed(f"data: {json.dumps(data, separators=(',', ':'))}\n\n".encode())


def _framed(piece: bytes) -> bytes:
    return f"{len(piece):x}\r\n".encode() + piece + b"\r\n"


def _plain(text: str) -> bytes:
    kind = "application/json" if text[:1] in "[{" else "text/plain; version=0.0.4"
    body = text.encode()
    return f"HTTP/1.1 200 OK\r\nContent-Type: {kind}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body


def main() -> None:
    """Serve until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=0)
    parser.add_argument("--chunks", type=int, default=256, help="token chunks of an answer")
    parser.add_argument("--tokens-per-chunk", type=int, default=1)
    parser.add_argument("--tpot-ms", type=float, help="without it, as fast as the client reads")
    parser.add_argument("--ttft-ms", type=float, default=50.0)
    parser.add_argument("--text-bytes", type=int, default=0, help="text of each chunk, at least")
    options = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    tpot_s = None if options.tpot_ms is None else options.tpot_ms / 1000
    pace = Pace(options.chunks, options.tokens_per_chunk, tpot_s, options.ttft_ms / 1000, options.text_bytes)
    with contextlib.closing(Server(options.port, pace)) as server:
        print(f"listening on {server.port}", flush=True)
        server.run()


if __name__ == "__main__":
    main()
