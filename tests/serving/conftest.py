"""Real processes for the tests of serving: plans for the stub server, launches that are cleaned up, waiting with a deadline."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import psutil
import pytest

from pytest_specdec.serving.command import LaunchPlan
from pytest_specdec.serving.pool import free_port, served_name
from pytest_specdec.serving.process import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

STUB = Path(__file__).with_name("stub_server.py")
DEADLINE_S = 5.0
"""What users are promised: nothing is left five seconds after pytest was killed."""


class Eventually(Protocol):
    def __call__(self, condition: Callable[[], object], *, within_s: float = DEADLINE_S) -> None: ...


class MakePlan(Protocol):
    def __call__(self, mode: str = "serves", argument: str = "", **changes: Any) -> LaunchPlan: ...


class Launch(Protocol):
    def __call__(self, plan: LaunchPlan, **options: Any) -> Server: ...


@pytest.fixture
def eventually() -> Eventually:
    """Return as soon as the condition holds; fail when it does not within the deadline."""

    def wait(condition: Callable[[], object], *, within_s: float = DEADLINE_S) -> None:
        deadline = time.monotonic() + within_s
        while not condition():
            assert time.monotonic() < deadline, f"not within {within_s} s"
            time.sleep(0.02)

    return wait


@pytest.fixture
def running() -> Callable[[Iterable[psutil.Process]], list[psutil.Process]]:
    """Those of the processes that still run; psutil compares start times, so a reused number does not count."""

    def runs(process: psutil.Process) -> bool:
        try:
            return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return lambda processes: [process for process in processes if runs(process)]


@pytest.fixture
def left_running() -> Iterator[list[psutil.Process]]:
    """What a test leaves running on purpose; ended even when the test fails."""
    processes: list[psutil.Process] = []
    yield processes
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=20)  # which also reaps those that are our children
    assert not alive


@pytest.fixture
def make_plan(tmp_path: Path) -> MakePlan:
    def make(mode: str = "serves", argument: str = "", **changes: Any) -> LaunchPlan:
        port = changes.pop("port", None) or free_port()
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

    return make


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
