"""Real processes for the tests of serving: plans for the stub server, launches that are cleaned up, waiting with a deadline."""

from __future__ import annotations

import contextlib
import sys
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import pytest

from pytest_specdec.serving.command import LaunchPlan
from pytest_specdec.serving.pool import reserved_port, served_name
from pytest_specdec.serving.process import Server
from pytest_specdec.serving.server_log import ServerLog

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

STUB = Path(__file__).with_name("stub_server.py")
WAIT_S = 60.0
"""For what comes by itself, on a busy machine; a failing test waits so long, a passing one does not."""


class Eventually(Protocol):
    def __call__(self, condition: Callable[[], object]) -> None: ...


class MakePlan(Protocol):
    def __call__(self, mode: str = "serves", argument: str = "", **changes: Any) -> LaunchPlan: ...


class Launch(Protocol):
    def __call__(self, plan: LaunchPlan, **options: Any) -> Server: ...


@pytest.fixture
def eventually() -> Eventually:
    """Return as soon as the condition holds; fail when it never does."""

    def wait(condition: Callable[[], object]) -> None:
        deadline = time.monotonic() + WAIT_S
        while not condition():
            assert time.monotonic() < deadline, f"not within {WAIT_S} s"
            time.sleep(0.02)

    return wait


def running(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those of the processes that still run; psutil compares start times, so a reused number does not count."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return [process for process in processes if runs(process)]


@pytest.fixture(name="running")
def _running() -> Callable[[Iterable[psutil.Process]], list[psutil.Process]]:
    return running


@pytest.fixture
def left_running() -> Iterator[list[psutil.Process]]:
    """What a test leaves running on purpose; ended even when the test fails."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=WAIT_S)  # which also reaps those that are our children
    assert not running(alive)


class Hands:
    """A clock that stands still but when it is told to go on: what takes long on a busy machine takes no time on it."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """The clock by which launches, logs and locks are judged too slow."""
    clock = Hands()
    for module in ("process", "file_lock", "device_lock"):
        monkeypatch.setattr(f"pytest_specdec.serving.{module}.time", clock)
    monkeypatch.setattr("pytest_specdec.serving.process.ServerLog", partial(ServerLog, clock=clock.monotonic))
    return clock


@pytest.fixture
def make_plan(tmp_path: Path) -> Iterator[MakePlan]:
    reserved = contextlib.ExitStack()

    def make(mode: str = "serves", argument: str = "", **changes: Any) -> LaunchPlan:
        port = changes.pop("port", None) or reserved.enter_context(reserved_port())
        name = changes.pop("served_name", None) or served_name()
        fields: dict[str, Any] = {
            "arm": "specdec",
            "argv": (sys.executable, str(STUB), str(port), name, mode, argument),
            "env": {},
            "unset_env": (),
            "model": "m",
            "served_name": name,
            "port": port,
            "host": "127.0.0.1",
            "cwd": tmp_path,
            "changes": (),
            "stop_command": None,
        }
        return LaunchPlan(**{**fields, **changes})

    with reserved:
        yield make


@pytest.fixture
def launch(tmp_path: Path) -> Iterator[Launch]:
    servers: list[Server] = []

    def start(plan: LaunchPlan, **options: Any) -> Server:
        defaults: dict[str, Any] = {
            "log_path": tmp_path / "logs" / "specdec.log",
            "startup_timeout_s": 60.0,
            "silence_timeout_s": 60.0,
            "progress": lambda _: None,
            "grace_s": 1.0,
            "poll_s": 0.05,
        }
        servers.append(Server.launch(plan, **{**defaults, **options}))
        return servers[-1]

    yield start
    for server in servers:
        server.stop()
