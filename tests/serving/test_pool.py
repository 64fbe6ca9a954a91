"""The servers of a run, and the locks that keep two runs from one device."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import psutil
import pytest

from pytest_specdec.core.errors import LaunchError, ServerDied
from pytest_specdec.serving.device_lock import DeviceLocks
from pytest_specdec.serving.pool import FailedEarlier, ServerPool, free_port, fresh_log, served_name
from tests.serving.conftest import WAIT_S

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from pytest_specdec.serving.command import LaunchPlan
    from tests.serving.conftest import Eventually, Hands, MakePlan

    Running = Callable[[Iterable[psutil.Process]], list[psutil.Process]]
    PlanFactory = Callable[[int, str], LaunchPlan]


@pytest.fixture
def said() -> list[str]:
    return []


@pytest.fixture
def pool(tmp_path: Path, said: list[str]) -> Iterator[ServerPool]:
    servers = ServerPool(tmp_path / "run", said.append, lock_directory=tmp_path / "locks", lock_timeout_s=0.0)
    yield servers
    servers.close_all()


@pytest.fixture
def plans(make_plan: MakePlan) -> Callable[..., PlanFactory]:
    return lambda mode="serves", argument="": lambda port, name: make_plan(mode, argument, port=port, served_name=name)


def test_a_server_is_started_once_per_key(pool: ServerPool, plans: Callable[..., PlanFactory], tmp_path: Path) -> None:
    server = pool.acquire("a", plans(), folder="eagle3")
    assert pool.acquire("a", plans()) is server
    assert server.log_path == tmp_path / "run" / "eagle3" / "specdec.log"
    other = pool.acquire("b", plans(), folder="eagle3")
    assert other.served_name != server.served_name
    assert other.log_path.name == "specdec.2.log"


def test_a_closed_key_is_launched_anew_and_counted(
    pool: ServerPool, plans: Callable[..., PlanFactory], running: Running
) -> None:
    first = pool.acquire("a", plans())
    family = [psutil.Process(pid) for pid in first.pids()]
    pool.close("a")
    assert running(family) == []
    second = pool.acquire("a", plans())
    assert (first.record.launch, second.record.launch) == (0, 1)


def test_all_but_the_named_servers_can_be_ended(pool: ServerPool, plans: Callable[..., PlanFactory]) -> None:
    kept, ended = pool.acquire("a", plans()), pool.acquire("b", plans())
    pool.close_others(["a", "never"])
    assert pool.running("a") is kept
    assert pool.running("b") is None
    assert (kept.record.stop_s, ended.record.stop_s is not None) == (None, True)


def test_closing_an_unknown_key_does_nothing(pool: ServerPool) -> None:
    pool.close("never")


def test_a_failure_is_remembered_and_told_in_one_line(pool: ServerPool, plans: Callable[..., PlanFactory]) -> None:
    with pytest.raises(LaunchError):
        pool.acquire("a", plans("exits", "2"))

    def never(_port: int, _name: str) -> LaunchPlan:
        pytest.fail("launched a second time")

    with pytest.raises(LaunchError) as caught:
        pool.acquire("a", never)
    assert caught.value.what.startswith("did not start earlier in this run: the specdec server exited with code 2")
    assert "\n" not in str(caught.value)


def test_only_want_of_memory_is_forgiven(pool: ServerPool, plans: Callable[..., PlanFactory]) -> None:
    for key, how in (
        ("memory", ("says-and-exits", "torch.OutOfMemoryError: CUDA out of memory.")),
        ("other", ("exits", "2")),
    ):
        with pytest.raises(LaunchError):
            pool.acquire(key, plans(*how))
    pool.forgive_memory()
    assert pool.acquire("memory", plans()).record.launch == 1
    with pytest.raises(FailedEarlier):
        pool.acquire("other", plans())


def test_a_server_that_has_died_is_not_replaced_silently(
    pool: ServerPool, plans: Callable[..., PlanFactory], eventually: Eventually, running: Running
) -> None:
    family = [psutil.Process(pid) for pid in pool.acquire("a", plans()).pids()]
    next(process for process in family if process.ppid() == os.getpid()).terminate()
    eventually(lambda: not running(family))
    with pytest.raises(ServerDied):
        pool.acquire("a", plans())


def test_servers_that_were_begun_start_side_by_side(
    pool: ServerPool, plans: Callable[..., PlanFactory], meeting: Path
) -> None:
    for key in ("a", "b"):
        pool.begin(key, plans("meets", str(meeting)), folder=key)
    assert (pool.running("a"), pool.running("b")) == (None, None)
    first, second = (pool.acquire(key, plans("exits", "1")) for key in ("a", "b"))
    assert (first.record.started_beside, second.record.started_beside) == (True, True)
    assert (first.record.launch, second.record.launch) == (0, 0)
    assert first.startup_s > 0
    assert second.startup_s > 0
    assert pool.acquire("c", plans()).record.started_beside is False


def test_a_server_is_begun_once(pool: ServerPool, plans: Callable[..., PlanFactory]) -> None:
    pool.begin("a", plans())
    pool.begin("a", plans("exits", "1"))
    server = pool.acquire("a", plans("exits", "1"))
    pool.begin("a", plans("exits", "1"))
    assert pool.acquire("a", plans("exits", "1")) is server


def test_what_was_begun_ends_with_a_server_that_fails_beside_it(
    pool: ServerPool,
    plans: Callable[..., PlanFactory],
    begin_waiting: Callable[[str], list[psutil.Process]],
    meeting: Path,
    running: Running,
) -> None:
    family = begin_waiting("b")
    assert len(running(family)) > 1
    with pytest.raises(LaunchError, match="exited with code 3"):
        pool.acquire("a", plans("meets-and-exits", str(meeting)), folder="a")
    assert running(family) == []
    pool.acquire("b", plans())


def test_a_failure_beside_another_start_is_told_when_its_turn_comes(
    pool: ServerPool, plans: Callable[..., PlanFactory], meeting: Path
) -> None:
    pool.begin("a", plans("meets", str(meeting)), folder="a")
    pool.begin("b", plans("meets-and-exits", str(meeting)), folder="b")
    assert pool.acquire("a", plans()).record.started_beside
    with pytest.raises(LaunchError, match="exited with code 3"):
        pool.acquire("b", plans())


@pytest.mark.parametrize("end", ["close", "close_others", "close_all"])
def test_what_was_begun_and_never_awaited_is_ended(
    pool: ServerPool, begin_waiting: Callable[[str], list[psutil.Process]], running: Running, end: str
) -> None:
    family = begin_waiting("a")
    assert len(running(family)) > 1
    {"close": lambda: pool.close("a"), "close_others": lambda: pool.close_others(()), "close_all": pool.close_all}[
        end
    ]()
    assert running(family) == []


@pytest.fixture
def begin_waiting(
    pool: ServerPool, plans: Callable[..., PlanFactory], meeting: Path, eventually: Eventually
) -> Callable[[str], list[psutil.Process]]:
    """Begins a server that waits for another one to run; its processes."""

    def begin(key: str) -> list[psutil.Process]:
        pool.begin(key, plans("meets", str(meeting)), folder=key)
        eventually(lambda: any(meeting.iterdir()))
        return [psutil.Process(pid) for pid in pool._begun[key][0].pids()]

    return begin


@pytest.fixture
def meeting(tmp_path: Path) -> Path:
    (tmp_path / "meeting").mkdir()
    return tmp_path / "meeting"


def test_a_taken_port_costs_one_new_port(pool: ServerPool, make_plan: MakePlan) -> None:
    asked: list[int] = []
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port_of_another = taken.getsockname()[1]

        def factory(port: int, name: str) -> LaunchPlan:
            asked.append(port)
            return make_plan(port=port_of_another if len(asked) == 1 else port, served_name=name)

        server = pool.acquire("a", factory)
    assert len(asked) == 2
    assert asked[1] != port_of_another
    assert server.base_url.endswith(str(asked[1]))


def test_a_port_that_is_taken_again_is_a_failure(pool: ServerPool, make_plan: MakePlan) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
        with pytest.raises(LaunchError, match=f"port {port} was taken, another process held it"):
            pool.acquire("a", lambda _, name: make_plan(port=port, served_name=name))


def test_closing_all_closes_the_rest_when_one_raises(
    pool: ServerPool, plans: Callable[..., PlanFactory], running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    servers = {key: pool.acquire(key, plans()) for key in ("a", "b", "c")}
    families = {key: [psutil.Process(pid) for pid in server.pids()] for key, server in servers.items()}
    stop = servers["b"].stop

    def broken() -> None:
        raise OSError("broken")

    monkeypatch.setattr(servers["b"], "stop", broken)
    with pytest.raises(OSError, match="broken"):
        pool.close_all()
    assert running(families["a"] + families["c"]) == []
    stop()


def test_a_fork_does_not_end_its_parents_servers(pool: ServerPool, plans: Callable[..., PlanFactory]) -> None:
    server = pool.acquire("a", plans())
    child = os.fork()
    if child == 0:
        pool.close_all()
        os._exit(0)
    os.waitpid(child, 0)
    server.check_alive()


def test_kept_servers_run_on_until_they_are_killed(
    pool: ServerPool,
    plans: Callable[..., PlanFactory],
    eventually: Eventually,
    running: Running,
    left_running: list[psutil.Process],
) -> None:
    family = [psutil.Process(pid) for pid in pool.acquire("a", plans()).pids()]
    left_running += [psutil.Process(server.pid) for server in pool.keep_all()]
    pool.close_all()
    assert len(running(family)) == 3
    left_running[0].terminate()
    eventually(lambda: not running(family))


def test_names_and_ports_differ() -> None:
    assert len({served_name() for _ in range(10)}) == 10
    with socket.create_server(("127.0.0.1", 0)) as other:
        assert other.getsockname()[1] not in {free_port() for _ in range(10)}


def test_each_launch_has_a_log_of_its_own(tmp_path: Path) -> None:
    names = []
    for _ in range(3):
        path = fresh_log(tmp_path, "baseline")
        path.touch()
        names.append(path.name)
    assert names == ["baseline.log", "baseline.2.log", "baseline.3.log"]


HOLDS_LOCKS = """
import sys, signal
from pathlib import Path
from pytest_specdec.serving.device_lock import DeviceLocks
DeviceLocks(Path(sys.argv[1])).take([int(index) for index in sys.argv[2:]], timeout_s=0, progress=print)
print("held", flush=True)
signal.pause()
"""


@pytest.fixture
def another_run(tmp_path: Path) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    runs: list[subprocess.Popen[str]] = []

    def hold(*devices: int) -> subprocess.Popen[str]:
        command = [sys.executable, "-c", HOLDS_LOCKS, str(tmp_path / "locks"), *map(str, devices)]
        runs.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
        assert runs[-1].stdout is not None
        assert runs[-1].stdout.readline() == "held\n"
        return runs[-1]

    yield hold
    for run in runs:
        with run:
            run.kill()


def test_a_device_of_another_run_is_waited_for_and_then_given_up(
    another_run: Callable[..., subprocess.Popen[str]], tmp_path: Path, hands: Hands
) -> None:
    holder, said, began_s = another_run(0, 1), list[str](), hands.now_s
    with pytest.raises(LaunchError, match=rf"another run still holds device 1 \(pid {holder.pid}\) after 7 s"):
        DeviceLocks(tmp_path / "locks").take([1, 2], timeout_s=7, progress=said.append)
    assert set(said) == {f"waiting for another run that holds device 1 (pid {holder.pid})"}
    assert 7 < hands.now_s - began_s < 8


def test_the_kernel_frees_the_devices_of_a_killed_run(
    another_run: Callable[..., subprocess.Popen[str]], tmp_path: Path
) -> None:
    holder = another_run(0)
    locks = DeviceLocks(tmp_path / "locks")
    locks.take([0], timeout_s=WAIT_S, progress=lambda _: holder.kill())
    locks.release()


def test_other_devices_are_free(another_run: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    another_run(0)
    locks = DeviceLocks(tmp_path / "locks")
    locks.take([1], timeout_s=0, progress=lambda _: None)
    locks.release()


def test_a_failed_take_holds_nothing(another_run: Callable[..., subprocess.Popen[str]], tmp_path: Path) -> None:
    another_run(1)
    with pytest.raises(LaunchError):
        DeviceLocks(tmp_path / "locks").take([0, 1], timeout_s=0, progress=lambda _: None)
    locks = DeviceLocks(tmp_path / "locks")
    locks.take([0], timeout_s=0, progress=lambda _: None)
    locks.release()


def test_without_devices_the_cpu_is_locked_until_the_pool_is_closed(
    pool: ServerPool, plans: Callable[..., PlanFactory], tmp_path: Path
) -> None:
    pool.acquire("a", plans())
    pool.close("a")
    with pytest.raises(LaunchError, match=rf"holds cpu \(pid {os.getpid()}\)"):
        DeviceLocks(tmp_path / "locks").take([], timeout_s=0, progress=lambda _: None)
    pool.close_all()
    locks = DeviceLocks(tmp_path / "locks")
    locks.take([], timeout_s=0, progress=lambda _: None)
    locks.release()


def test_a_kept_server_goes_on_holding_its_device(
    pool: ServerPool, plans: Callable[..., PlanFactory], tmp_path: Path, left_running: list[psutil.Process]
) -> None:
    pool.acquire("a", plans())
    left_running += [psutil.Process(server.pid) for server in pool.keep_all()]
    with pytest.raises(LaunchError, match="holds cpu"):
        DeviceLocks(tmp_path / "locks").take([], timeout_s=0, progress=lambda _: None)


def test_settled_servers_are_up(pool: ServerPool, plans: Callable[..., PlanFactory], meeting: Path) -> None:
    for key in ("a", "b"):
        pool.begin(key, plans("meets", str(meeting)), folder=key)
    pool.settle()
    up = pool.running("a"), pool.running("b")
    assert None not in up
    again = [pool.acquire(key, plans("exits", "1")) for key in ("a", "b")]
    assert (*again,) == up
    assert pool.pids() == again[0].pids() | again[1].pids()


def test_a_server_that_fails_beside_others_is_launched_alone_when_it_is_needed(
    pool: ServerPool, plans: Callable[..., PlanFactory], meeting: Path, said: list[str]
) -> None:
    pool.begin("a", plans("meets", str(meeting)), folder="a")
    pool.begin("b", plans("meets-and-exits", str(meeting)), folder="b")
    pool.settle()
    assert pool.running("a") is not None
    assert pool.running("b") is None
    assert any(
        line.startswith("b: did not start beside the others (") and line.endswith("launched alone") for line in said
    )
    alone = pool.acquire("b", plans(), folder="b")
    assert (alone.record.launch, alone.record.started_beside) == (1, False)
    assert pool.running("a") is not None
