"""Whatever becomes of pytest or of the supervisor, nothing of the server stays behind."""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specdec.serving import reaper
from pytest_specdec.serving.process import Server

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from tests.serving.conftest import Eventually, Launch, MakePlan

    Running = Callable[[Iterable[psutil.Process]], list[psutil.Process]]

HOLDER = Path(__file__).with_name("server_holder.py")


class Held:
    """A stand-in for pytest that holds a server, and the processes of that server."""

    def __init__(self, folder: Path, mode: str, *extra: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HOLDER), str(folder), mode, *extra],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
            text=True,
        )
        self._log = folder / "specdec.log"

    def says(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def orphan(self) -> psutil.Process | None:
        text = self._log.read_text() if self._log.exists() else ""
        found = re.findall(r"orphan (\d+)\n", text)
        return psutil.Process(int(found[0])) if found else None

    def family(self) -> list[psutil.Process]:
        """The server's processes at this moment; one of them may just be ending."""
        family = []
        for pid in reaper.descendants(self.process.pid):
            with contextlib.suppress(psutil.NoSuchProcess):
                family.append(psutil.Process(pid))
        return family


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Callable[..., Held]]:
    held: list[Held] = []

    def start(mode: str, *extra: str) -> Held:
        held.append(Held(tmp_path, mode, *extra))
        return held[-1]

    yield start
    for one in held:
        with one.process:
            one.process.kill()


def test_the_time_that_ending_a_server_is_given_keeps_what_users_are_promised() -> None:
    """Nothing is left five seconds after pytest was killed. How long it takes on a busy machine is up to that machine."""
    grace_s = inspect.signature(Server.begin).parameters["grace_s"].default
    assert reaper._TICK_S + grace_s <= 5 - 2 * reaper._TICK_S


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
@pytest.mark.parametrize("mode", ["serves", "deaf", "family", "family-loads"])
def test_nothing_survives_the_end_of_pytest(
    hold: Callable[..., Held], eventually: Eventually, running: Running, number: int, mode: str
) -> None:
    held = hold(mode)
    if mode == "family-loads":
        eventually(held.orphan)
    else:
        assert held.says() == "ready"
    family = held.family()
    assert len(family) >= 3
    held.process.send_signal(number)
    eventually(lambda: not running(family))


def test_nothing_survives_a_pytest_that_ends_without_cleaning_up(
    hold: Callable[..., Held], eventually: Eventually, running: Running
) -> None:
    held = hold("family", "leave")
    assert held.says() == "ready"
    family = held.family()
    assert held.process.stdin is not None
    held.process.stdin.close()
    assert held.process.wait() == 0
    eventually(lambda: not running(family))


def test_nothing_survives_although_a_fork_of_pytest_holds_the_pipe(
    hold: Callable[..., Held], eventually: Eventually, running: Running, left_running: list[psutil.Process]
) -> None:
    held = hold("serves", "fork")
    assert held.says() == "ready"
    family = held.family()
    fork = next(process for process in family if "server_holder.py" in " ".join(process.cmdline()))
    family.remove(fork)
    left_running.append(fork)
    held.process.kill()
    eventually(lambda: not running(family))
    assert running([fork])


@pytest.mark.parametrize("killed", ["guard", "keeper"])
def test_nothing_survives_the_kill_of_one_supervising_process(
    launch: Launch, make_plan: MakePlan, eventually: Eventually, running: Running, killed: str
) -> None:
    server = launch(make_plan("family"), grace_s=0.3)
    family = [psutil.Process(pid) for pid in server.pids()]
    guard = next(process for process in family if process.ppid() == os.getpid())
    keeper = next(process for process in family if process.ppid() == guard.pid)
    (guard if killed == "guard" else keeper).kill()
    eventually(lambda: not running(family))


def test_stop_ends_the_session_of_a_server_whose_supervisors_were_both_killed(
    launch: Launch, make_plan: MakePlan, eventually: Eventually, running: Running
) -> None:
    worker = "import subprocess, sys, signal; subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); import runpy; "
    plan = make_plan()
    stub = plan.argv[1]
    code = f"{worker} sys.argv = {list(plan.argv[1:])!r}; runpy.run_path({stub!r}, run_name='__main__')"
    plan = make_plan(port=plan.port, served_name=plan.served_name, argv=(sys.executable, "-c", code))
    server = launch(plan)
    family = [psutil.Process(pid) for pid in server.pids()]
    supervising = [process for process in family if reaper.__file__ in process.cmdline()]
    assert (len(supervising), len(family)) == (2, 4)
    for process in supervising:
        process.suspend()  # so that neither acts on the death of the other
    for process in supervising:
        process.kill()
    eventually(lambda: not running(supervising))
    server.stop()
    assert running(family) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_signal_to_the_supervisor_ends_the_server(
    launch: Launch, make_plan: MakePlan, eventually: Eventually, running: Running, number: int
) -> None:
    server = launch(make_plan())
    family = [psutil.Process(pid) for pid in server.pids()]
    next(process for process in family if process.ppid() == os.getpid()).send_signal(number)
    eventually(lambda: not running(family))


def test_a_kept_server_outlives_pytest_until_its_supervisor_is_told(
    hold: Callable[..., Held], eventually: Eventually, running: Running, left_running: list[psutil.Process]
) -> None:
    held = hold("serves", "keep")
    supervisor = psutil.Process(int(held.says()))
    left_running.append(supervisor)
    family = [supervisor, *(psutil.Process(pid) for pid in reaper.descendants(supervisor.pid))]
    assert held.process.wait() == 0
    turns = supervisor.num_ctx_switches().voluntary
    eventually(
        lambda: supervisor.num_ctx_switches().voluntary > turns + 2
    )  # it has looked round, and found pytest gone
    assert running(family) == family
    supervisor.terminate()
    eventually(lambda: not running(family))


def test_the_ctrl_c_of_a_terminal_does_not_reach_the_server(launch: Launch, make_plan: MakePlan) -> None:
    server = launch(make_plan())
    assert all(os.getpgid(pid) != os.getpgid(0) for pid in server.pids())
    assert all(os.getsid(pid) != os.getsid(0) for pid in server.pids())


def test_a_supervisor_without_a_task_goes_away() -> None:
    ended = subprocess.run(
        [sys.executable, "-I", "-S", reaper.__file__], stdin=subprocess.DEVNULL, capture_output=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, b"", b"")


def test_the_supervisor_loads_nothing_but_the_standard_library_it_names() -> None:
    command = [sys.executable, "-I", "-S", "-X", "importtime", reaper.__file__]
    told = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=True, text=True).stderr
    loaded = {line.rpartition("|")[2].strip() for line in told.splitlines()}
    assert {"ctypes", "json", "select"} <= loaded
    heavy = {"asyncio", "logging", "multiprocessing", "pathlib", "pytest_specdec", "socket", "subprocess", "typing"}
    assert heavy.isdisjoint(loaded)


def test_the_exit_is_told_before_the_clean_up_is_over(tmp_path: Path) -> None:
    leaves = (
        "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import signal; signal.pause()']); sys.exit(5)"
    )
    task = {
        "argv": [sys.executable, "-c", leaves],
        "env": dict(os.environ),
        "cwd": str(tmp_path),
        "log": str(tmp_path / "log"),
        "grace_s": 0.2,
        "stop_command": None,
        "parent": os.getpid(),
        "private_fds": [],
    }
    with subprocess.Popen(
        [sys.executable, "-I", "-S", reaper.__file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as supervisor:
        assert supervisor.stdin is not None
        assert supervisor.stdout is not None
        supervisor.stdin.write(json.dumps(task).encode() + b"\n")
        supervisor.stdin.flush()
        messages = [json.loads(line) for line in supervisor.stdout]
    assert messages[0].keys() == {"pid"}
    assert messages[1:] == [{"code": 5}]
