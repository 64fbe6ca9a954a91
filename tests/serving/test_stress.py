"""Servers that end badly, often, or beside children that do not want to go: nothing of them stays behind."""

from __future__ import annotations

import contextlib
import gc
import http.client
import os
import signal
import socket
import sys
import threading
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specdec.core.errors import LaunchError, ServerDied
from pytest_specdec.serving import reaper
from pytest_specdec.serving.pool import reserved_port
from tests.serving.daemonising_server import KINDS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from pytest_specdec.serving.process import Server
    from tests.serving.conftest import Eventually, Launch, MakePlan

    Running = Callable[[Iterable[psutil.Process]], list[psutil.Process]]

DAEMONISING = Path(__file__).with_name("daemonising_server.py")


@pytest.fixture
def daemons(tmp_path: Path) -> Iterator[Callable[[], list[psutil.Process]]]:
    """The living daemons of this test, whoever their parents are."""

    def find() -> list[psutil.Process]:
        found = []
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                if process.cmdline()[-1:] == [str(tmp_path)] and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
        return found

    yield find
    for process in find():
        process.kill()


@pytest.fixture
def launch_with_daemon(
    launch: Launch, make_plan: MakePlan, tmp_path: Path, eventually: Eventually
) -> Callable[[str], Server]:
    def start(kind: str) -> Server:
        plan = make_plan()
        argv = (sys.executable, str(DAEMONISING), kind, str(tmp_path), str(plan.port), plan.served_name)
        server = launch(make_plan(port=plan.port, served_name=plan.served_name, argv=argv), grace_s=0.5)
        eventually((tmp_path / "daemon").exists)
        return server

    return start


@pytest.mark.parametrize("kind", KINDS)
def test_a_daemon_that_a_server_has_started_ends_with_it(
    launch_with_daemon: Callable[[str], Server],
    daemons: Callable[[], list[psutil.Process]],
    kind: str,
) -> None:
    server = launch_with_daemon(kind)
    assert daemons()
    server.stop()
    assert daemons() == []
    assert server.left == ()


@pytest.mark.parametrize("kind", KINDS)
def test_a_daemon_whose_server_has_crashed_ends_too(
    launch_with_daemon: Callable[[str], Server],
    daemons: Callable[[], list[psutil.Process]],
    eventually: Eventually,
    kind: str,
) -> None:
    server = launch_with_daemon(kind)
    assert daemons()
    connection = http.client.HTTPConnection(server.base_url.removeprefix("http://"))
    with contextlib.closing(connection):
        connection.request("GET", "/die")
    eventually(lambda: not daemons())


def test_signals_that_pytest_has_blocked_still_end_the_server(
    launch: Launch, make_plan: MakePlan, eventually: Eventually, running: Running
) -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGCHLD, signal.SIGINT})
    try:
        server = launch(make_plan())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    family = [psutil.Process(pid) for pid in server.pids()]
    guard = next(process for process in family if process.ppid() == os.getpid())
    guard.kill()  # the keeper is told so by SIGTERM
    eventually(lambda: not running(family))


def test_the_server_blocks_no_signal(launch: Launch, make_plan: MakePlan) -> None:
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGUSR1})
    try:
        server = launch(make_plan())
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
    masks = {
        line.split()[1]
        for pid in server.pids()
        for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        if line.startswith("SigBlk")
    }
    assert masks == {"0" * 16}


def test_twenty_servers_that_end_in_every_way_leak_nothing(
    launch: Launch, make_plan: MakePlan, tmp_path: Path, eventually: Eventually
) -> None:
    me = psutil.Process()
    # Each of them holds its port.
    serves, is_deaf, exits, family, is_not_there = (
        make_plan(),
        make_plan("deaf"),
        make_plan("exits", "1"),
        make_plan("family"),
        make_plan(argv=("no-such-vllm",)),
    )

    def holds() -> tuple[int, int, set[int]]:
        gc.collect()
        return me.num_fds(), threading.active_count(), reaper.descendants(os.getpid())

    def stopped(log: Path) -> None:
        launch(serves, log_path=log).stop()

    def deaf(log: Path) -> None:
        launch(is_deaf, log_path=log, grace_s=0.1).stop()

    def failed(log: Path) -> None:
        with pytest.raises(LaunchError):
            launch(exits, log_path=log)

    def killed(log: Path) -> None:
        server = launch(family, log_path=log, grace_s=0.1)
        guard = next(pid for pid in server.pids() if psutil.Process(pid).ppid() == os.getpid())
        os.kill(guard, signal.SIGKILL)
        server.stop()

    def without_command(log: Path) -> None:
        with pytest.raises(LaunchError):
            launch(is_not_there, log_path=log)

    endings = (stopped, deaf, failed, killed, without_command)
    stopped(tmp_path / "first.log")
    before = holds()
    for cycle in range(20):
        endings[cycle % len(endings)](tmp_path / f"{cycle}.log")
    eventually(lambda: holds() == before)


def test_a_server_whose_log_has_grown_too_long_is_ended_and_says_so_every_time(
    launch: Launch, make_plan: MakePlan, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = launch(make_plan())
    family = [psutil.Process(pid) for pid in server.pids()]
    monkeypatch.setattr("pytest_specdec.serving.server_log.GROWS_TO", 1024)
    server.check_alive()
    with server.log_path.open("a") as log:
        log.write("the same line once more\n" * 100)
    for _ in range(2):
        with pytest.raises(ServerDied, match=r"GiB to its log and was ended\n(?s:.*)\| the same line once more"):
            server.check_alive()
    assert running(family) == []


def test_ports_that_are_reserved_at_once_all_differ() -> None:
    with ExitStack() as stack:
        ports = [stack.enter_context(reserved_port()) for _ in range(500)]
        assert len(set(ports)) == len(ports)
        with socket.create_server(("127.0.0.1", 0)) as other:  # nor does anybody else get one of them
            assert other.getsockname()[1] not in ports


def test_a_reserved_port_can_be_bound_by_its_server_and_by_nobody_after_it() -> None:
    with reserved_port() as port, socket.create_server(("127.0.0.1", port)):  # with SO_REUSEADDR, as servers do
        with pytest.raises(OSError, match="in use"):
            socket.create_server(("127.0.0.1", port))
        socket.create_connection(("127.0.0.1", port)).close()


def test_nobody_answers_on_a_reserved_port_before_its_server() -> None:
    with reserved_port() as port, pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.1", port))
