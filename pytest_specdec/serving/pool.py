"""The servers of one run: started one at a time or side by side, shared by key, never retried after a failure, all ended at the end."""

from __future__ import annotations

import atexit
import contextlib
import itertools
import os
import socket
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from pytest_specdec.core.errors import LaunchError
from pytest_specdec.core.samples import ARMS
from pytest_specdec.serving.device_lock import DeviceLocks
from pytest_specdec.serving.elsewhere import ElsewhereServer
from pytest_specdec.serving.gpu import memory_used_gib, wait_for_memory
from pytest_specdec.serving.process import Server
from pytest_specdec.serving.readiness import PortTaken
from pytest_specdec.serving.result_folder import ResultFolder

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from pathlib import Path

    from pytest_specdec.core.launched import Launched
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.serving.command import LaunchPlan

STARTUP_TIMEOUT_S = 1800.0
SILENCE_TIMEOUT_S = 600.0
LOCK_TIMEOUT_S = 3600.0
_MEMORY_TIMEOUT_S = 30.0

_numbers = itertools.count(1)


def served_name() -> str:
    """A model name that no other server answers to: ``specdec-PID-N``."""
    return f"specdec-{os.getpid()}-{next(_numbers)}"


def free_port() -> int:
    """A port of the loopback interface on which nobody listens at this moment."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@contextlib.contextmanager
def reserved_port() -> Iterator[int]:
    """A port that no other process is given while its server, which sets ``SO_REUSEADDR`` as servers do, has not bound it yet."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        port: int = holder.getsockname()[1]
        yield port


def fresh_log(directory: Path, stem: str) -> Path:
    """``STEM.log``, or ``STEM.2.log``, ``STEM.3.log``, ... when a launch has written that already."""
    names = itertools.chain([f"{stem}.log"], (f"{stem}.{number}.log" for number in itertools.count(2)))
    return next(path for name in names if not (path := directory / name).exists())


class FailedEarlier(LaunchError):  # noqa: N818 - as its base family: a state of affairs
    """The server did not come up when it was first asked for; one line, since the whole story has been told then."""


@dataclass(frozen=True)
class KeptServer:
    """A server that outlives the run."""

    arm: Arm
    base_url: str
    pid: int | None
    """``kill`` ends it with everything that it started; None where a plugin launched it elsewhere."""


def kept_lines(kept: Sequence[KeptServer]) -> list[str]:
    """Where they are, how to measure them again, and how to end them; none without one."""
    if not kept:
        return []
    lines = [f"kept up: the {server.arm} server at {server.base_url}" for server in kept]
    urls = {server.arm: server.base_url for server in kept}
    if len(urls) == len(ARMS):
        lines.append(f"  measure them again: --specdec-attach={urls['baseline']},{urls['specdec']}")
    ours = [str(server.pid) for server in kept if server.pid is not None]
    return [*lines, *([f"  end them: kill {' '.join(ours)}"] if ours else [])]


class ServerPool:
    """Not for several threads: one of them starts and awaits all servers.

    Args:
        directory: Under it are the logs.
        progress: Told what is going on, several times a second.
        devices: Indices of all devices that the run will use; empty on a CPU. Locked at the first start.
        lock_directory: Where the device locks are, see :class:`DeviceLocks`.
        lock_timeout_s: Most seconds to wait for another run that uses the same device.
        nvml: The ``pynvml`` module; default: the installed one.
        elsewhere: Starts a server somewhere else, or returns None.
    """

    def __init__(
        self,
        directory: Path,
        progress: Callable[[str], None],
        *,
        devices: Sequence[int] = (),
        waiting: Callable[[str], None] | None = None,
        lock_directory: Path | None = None,
        lock_timeout_s: float = LOCK_TIMEOUT_S,
        nvml: Any = None,
        elsewhere: Callable[[LaunchPlan], Launched | None] | None = None,
    ) -> None:
        self._directory = directory
        self._progress = progress
        self._devices = tuple(devices)
        self._nvml = nvml
        self._elsewhere = elsewhere
        self._waiting = waiting or progress
        self._folder = ResultFolder(directory)
        self._locks = DeviceLocks(lock_directory)
        self._lock_timeout_s = lock_timeout_s
        self._servers: dict[str, Server] = {}
        self._begun: dict[str, tuple[Server, contextlib.ExitStack]] = {}
        """Servers that nobody has waited for yet, and what holds their ports."""
        self._failures: dict[str, LaunchError] = {}
        self._launches: dict[str, int] = {}
        self._memory_before: dict[int, float] | None = None
        atexit.register(self.close_all)

    def begin(self, key: str, plan_factory: Callable[[int, str], LaunchPlan], **how: Any) -> None:
        """Launch the server of that key and go on, so that others start beside it; :meth:`acquire` waits for it.

        Args:
            key: As for :meth:`acquire`. Nothing happens when that server is up, begun already, or failed earlier.
            plan_factory: Likewise.
            how: Likewise.
        """
        if key not in self._servers and key not in self._begun and key not in self._failures:
            self._begin(key, plan_factory, beside=True, **how)

    def acquire(self, key: str, plan_factory: Callable[[int, str], LaunchPlan], **how: Any) -> Server:
        """The server of that key, launched if it is not up.

        Args:
            key: Servers with equal keys are the same server.
            plan_factory: Called with a port and a served name; a second time if the first port turns out to be taken.
            how: ``folder`` under the pool's directory for its log, ``ARM.log``; ``devices`` that this server runs on
                (default: all of the pool's); ``startup_timeout_s`` and ``silence_timeout_s`` as for :meth:`Server.begin`.

        Raises:
            LaunchError: It did not come up. Servers that were begun are ended with it.
            FailedEarlier: It did not come up earlier in this run.
            ServerDied: It had come up and has ended since.
        """
        if key in self._servers:
            self._servers[key].check_alive()
            return self._servers[key]
        if key in self._failures:
            raise FailedEarlier(f"did not start earlier in this run: {self._failures[key].what.splitlines()[0]}")
        try:
            try:
                if key not in self._begun:
                    self._begin(key, plan_factory, **how)
                server, reserved = self._begun.pop(key)
                with reserved:
                    self._await(server)
            except PortTaken:
                # Not reserved: for a server that insists on being the only one bound to it.
                server = self._launch(key, plan_factory, free_port(), **how)
                self._await(server)
        except LaunchError as error:
            self._failures[key] = error
            for other in tuple(self._begun):
                self.close(other)
            raise
        self._servers[key] = server
        return server

    def forgive_memory(self) -> None:
        """Let servers that did not come up for want of memory be launched again, since they will have it otherwise."""
        self._failures = {key: error for key, error in self._failures.items() if not error.memory}

    def settle(self) -> None:
        """Wait until each server that was begun is up; one that fails is ended, and launched anew by :meth:`acquire`, which then raises."""
        for key, (server, reserved) in tuple(self._begun.items()):
            try:
                self._await(server)
            except LaunchError as error:
                self._waiting(
                    f"{key}: did not start beside the others ({error.what.splitlines()[0]}); it will be launched alone"
                )
                self.close(key)
            else:
                del self._begun[key]
                reserved.close()
                self._servers[key] = server

    def pids(self) -> frozenset[int]:
        """Processes of all servers that are up or starting."""
        return frozenset().union(*self._processes().values())

    def running(self, key: str) -> Server | None:
        """The server of that key, if it has been launched and not closed."""
        return self._servers.get(key)

    def close_others(self, keep: Collection[str]) -> None:
        """End every server but those."""
        for key in [key for key in (*self._servers, *self._begun) if key not in keep]:
            self.close(key)

    def close(self, key: str) -> None:
        """End the server of that key, if there is one; a later :meth:`acquire` launches it anew."""
        server = self._servers.pop(key, None)
        if key in self._begun:
            server, reserved = self._begun.pop(key)
            reserved.close()
        if server is not None:
            server.stop()
            if server.left:
                self._progress(
                    f"processes of the {server.arm} server that cannot be ended: {', '.join(map(str, server.left))}"
                )

    def close_all(self) -> None:
        """End every server, even when ending one raises, and give the devices back."""
        with contextlib.ExitStack() as stack:
            stack.callback(atexit.unregister, self.close_all)
            stack.callback(self._folder.release)
            stack.callback(self._locks.release)
            for key in (*self._servers, *self._begun):
                stack.callback(self.close, key)

    def keep_all(self) -> list[KeptServer]:
        """Leave every server up."""
        kept = [KeptServer(server.arm, server.base_url, server.keep()) for server in self._servers.values()]
        self._servers.clear()
        self.close_all()
        return kept

    def _begin(self, key: str, plan_factory: Callable[[int, str], LaunchPlan], **how: Any) -> None:
        # In this order in every run, so that two of them cannot wait for each other.
        self._folder.take(timeout_s=self._lock_timeout_s, progress=self._waiting)
        self._locks.take(self._devices, timeout_s=self._lock_timeout_s, progress=self._waiting)
        self._await_memory()
        with contextlib.ExitStack() as stack:
            server = self._launch(key, plan_factory, stack.enter_context(reserved_port()), **how)
            self._begun[key] = server, stack.pop_all()

    def _launch(
        self,
        key: str,
        plan_factory: Callable[[int, str], LaunchPlan],
        port: int,
        *,
        folder: str = "",
        devices: Sequence[int] | None = None,
        startup_timeout_s: float = STARTUP_TIMEOUT_S,
        silence_timeout_s: float = SILENCE_TIMEOUT_S,
        beside: bool = False,
    ) -> Server:
        plan = plan_factory(port, served_name())
        number = self._launches[key] = self._launches.get(key, -1) + 1
        launched = self._elsewhere(plan) if self._elsewhere else None
        if launched is not None:
            server = ElsewhereServer(plan, launched, startup_timeout_s=startup_timeout_s, launch=number, beside=beside)
            return cast("Server", server)  # it has all that is asked of a server here
        return Server.begin(
            plan,
            log_path=fresh_log(self._directory / folder, plan.arm),
            startup_timeout_s=startup_timeout_s,
            silence_timeout_s=silence_timeout_s,
            devices=self._devices if devices is None else devices,
            launch=number,
            private_fds=self._locks.descriptors,
            neighbours=self._processes,
            beside=beside,
        )

    def _await(self, server: Server) -> None:
        """Wait for one server; those that start beside it are looked at, so that theirs are the times at which they are ready."""

        def meanwhile() -> None:
            for other, _ in self._begun.values():
                with contextlib.suppress(LaunchError):  # raised again when it is its turn
                    other.look()

        server.await_ready(self._progress, meanwhile=meanwhile)

    def _processes(self) -> dict[str, Collection[int]]:
        servers = (*self._servers.values(), *(server for server, _ in self._begun.values()))
        return {f"our {server.arm} server {server.served_name}": server.pids() for server in servers}

    def _await_memory(self) -> None:
        """With no server up, the devices must be as they were before the first one."""
        if not self._devices or self._servers or self._begun:
            return
        if self._memory_before is None:
            self._memory_before = memory_used_gib(self._devices, nvml=self._nvml)
            return
        self._progress("waiting for the memory of the last server")
        began = time.monotonic()
        if not wait_for_memory(self._memory_before, timeout_s=_MEMORY_TIMEOUT_S, nvml=self._nvml):
            self._progress(
                f"device memory is still in use {time.monotonic() - began:.0f} s after the last server ended"
            )
