"""Several load processes on one server, where one core cannot read all streams in time.

Each is a Python of its own that gets its share of the plan on stdin, opens its connections, says that it is ready, and starts when all are:
``time.perf_counter()`` is one clock for all processes of a machine. It reads its answers itself, after the window. It ends with its stdin, so
that none outlives pytest, whatever becomes of that.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import pickle
import signal
import sys
import tempfile
import time
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, NamedTuple, TypeVar

from pytest_specdec.core.errors import InvalidMeasurement
from pytest_specdec.load.client import Endpoint, connect
from pytest_specdec.load.observed import Observed, merged, observed
from pytest_specdec.load.window import run_window

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterable, Sequence

    from pytest_specdec.load.shares import Share

START_AHEAD_S = 0.05
"""From the word that all are ready to the start of the window; the word has then arrived everywhere."""
PARENT_POLL_S = 1.0

_T = TypeVar("_T")


class _Task(NamedTuple):
    """What a process is told."""

    endpoint: Endpoint
    share: Share
    stall_timeout_s: float
    parent: int
    """Process id of pytest."""


async def run_in_processes(
    endpoint: Endpoint, shares: Sequence[Share], *, on_progress: Callable[[int, int], None], stall_timeout_s: float
) -> Observed:
    """Sends all shares at once, each from a process of its own.

    Args:
        endpoint: The server.
        shares: From :func:`pytest_specdec.load.shares.shared_out`.
        on_progress: Called with the number of requests that have ended and their total.
        stall_timeout_s: A share's requests fail when the server has sent nothing to any of them for so long.

    Raises:
        InvalidMeasurement: A process died.
    """
    total = sum(len(share.plan) for share in shares)
    async with contextlib.AsyncExitStack() as stack:
        clients = [
            await stack.enter_async_context(_started(number, len(shares))) for number in range(1, len(shares) + 1)
        ]

        def show() -> None:
            on_progress(sum(client.done for client in clients), total)

        for client, share in zip(clients, shares, strict=True):
            client.tell(pickle.dumps(_Task(endpoint, share, stall_timeout_s, os.getpid())))
        await _all(client.ready() for client in clients)
        start = time.perf_counter() + START_AHEAD_S
        for client in clients:
            client.tell(f"{start!r}\n".encode())
        return merged(await _all(client.result(show) for client in clients))


async def _all(works: Iterable[Coroutine[None, None, _T]]) -> list[_T]:
    """The results of all; with the first failure, none of the others goes on."""
    tasks = [asyncio.ensure_future(work) for work in works]
    try:
        return await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)


@contextlib.asynccontextmanager
async def _started(number: int, of: int) -> AsyncIterator[_Client]:
    """A process that waits for its task; it is gone when this ends."""
    # Isolated, and with the very modules that are in use here: nothing in the current folder can stand in for one of them.
    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    with tempfile.TemporaryFile() as complaints:
        process = await asyncio.create_subprocess_exec(
            sys.executable,
            "-I",
            "-c",
            code,
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=complaints,
            start_new_session=True,  # Ctrl-C is for pytest, which ends this process
        )
        if process.stdin is None or process.stdout is None:
            raise AssertionError("pipes were asked for")
        try:
            yield _Client(process, process.stdin, process.stdout, complaints, f"{number} of {of}")
        finally:
            process.stdin.close()
            if process.returncode is None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
            await process.stdout.read()
            await process.wait()


@dataclass
class _Client:
    """One process, seen from pytest."""

    process: asyncio.subprocess.Process
    stdin: asyncio.StreamWriter
    stdout: asyncio.StreamReader
    complaints: IO[bytes]
    name: str
    done: int = 0
    """Requests that have ended."""

    def tell(self, data: bytes) -> None:
        self.stdin.write(data)

    async def ready(self) -> None:
        await self._next()

    async def result(self, show: Callable[[], None]) -> Observed:
        while "result" not in (said := await self._next()):
            self.done = said["done"]
            show()
        try:
            found: Observed = pickle.loads(await self.stdout.readexactly(said["result"]))  # noqa: S301 - from our own process
        except asyncio.IncompleteReadError:
            raise await self._death() from None
        return found

    async def _next(self) -> dict[str, int]:
        line = await self.stdout.readline()
        if not line.endswith(b"\n"):
            raise await self._death()
        said: dict[str, int] = json.loads(line)
        return said

    async def _death(self) -> InvalidMeasurement:
        code = await self.process.wait()
        how = f"exit status {code}" if code >= 0 else signal.Signals(-code).name
        self.complaints.seek(0)
        last = self.complaints.read().decode(errors="replace").strip().rpartition("\n")[2]
        return InvalidMeasurement(
            f"load process {self.name} ended before its requests did ({how}){f': {last}' if last else ''}",
            remedy="Is memory short, or did something kill it? With clients: 1 pytest sends all requests itself.",
        )


def serve() -> None:
    """The whole life of a load process."""
    task: _Task = pickle.load(sys.stdin.buffer)  # noqa: S301 - from pytest
    asyncio.run(_send(task))


async def _send(task: _Task) -> None:
    start: asyncio.Future[float] = asyncio.get_running_loop().create_future()

    def hear() -> None:
        word = os.read(sys.stdin.fileno(), 64)
        if not word:
            os._exit(1)  # pytest is gone, or wants this to end
        start.set_result(float(word))

    async def when_all_are_ready() -> float:
        _say(ready=1)
        return await start

    asyncio.get_running_loop().add_reader(sys.stdin.fileno(), hear)
    watch = asyncio.create_task(_end_with(task.parent))
    async with connect(task.endpoint) as client:
        window = await run_window(
            client,
            task.share.plan,
            task.share.load,
            on_progress=lambda done, _: _say(done=done),
            stall_timeout_s=task.stall_timeout_s,
            start=when_all_are_ready,
        )
    watch.cancel()
    result = pickle.dumps(observed(window))
    _say(result=len(result))
    sys.stdout.buffer.write(result)
    sys.stdout.buffer.flush()


async def _end_with(parent: int) -> None:
    """Ends this process with its parent, even where a fork of that still holds the pipe."""
    while os.getppid() == parent:  # noqa: ASYNC110 - nothing tells of it
        await asyncio.sleep(PARENT_POLL_S)
    os._exit(1)


def _say(**word: int) -> None:
    sys.stdout.buffer.write(json.dumps(word).encode() + b"\n")
    sys.stdout.buffer.flush()
