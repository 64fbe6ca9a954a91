"""Starts and stops servers a thousand times, and looks for what is left: processes, file descriptors, threads, memory, files.

::

    $ python benchmarks/start_stop.py --cycles 1000 --server stub

``stub`` is a minimal server that is up in a tenth of a second, ``fake`` the stand-in vLLM, which starts a child that ignores
SIGTERM. Every fifth server is killed, so that the supervisor cleans up behind a crash. Exit code 1 when something is left.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import tempfile
import threading
import time
import uuid
from dataclasses import dataclass
from pathlib import Path

import psutil

from pytest_specdec.serving import reaper
from pytest_specdec.serving.command import LaunchPlan
from pytest_specdec.serving.pool import reserved_port, served_name
from pytest_specdec.serving.process import Server

STUB = Path(__file__).parent.parent / "tests" / "serving" / "stub_server.py"
MARKER = "SPECDEC_START_STOP"
WARM_UP = 3
"""Cycles before the first look: modules that are imported at the first launch are no leak."""
CRASH_EVERY = 5


@dataclass(frozen=True)
class Held:
    """What this process has and what it has started."""

    descriptors: int
    threads: int
    processes: int
    """With our mark in their environment, whoever their parents are."""
    rss_mib: float


def held(mark: str) -> Held:
    """Look now."""
    me = psutil.Process()
    return Held(me.num_fds(), threading.active_count(), len(marked(mark)), me.memory_info().rss / 1024**2)


def marked(mark: str) -> list[psutil.Process]:
    """Processes of this benchmark but for this one."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.pid != os.getpid() and process.environ().get(MARKER) == mark:
                found.append(process)
        except psutil.Error:
            continue
    return found


def plan_of(kind: str, folder: Path, port: int) -> LaunchPlan:
    """The command of one server."""
    name = served_name()
    stub = (sys.executable, str(STUB), str(port), name, "serves")
    fake = (sys.executable, "-m", "pytest_specdec.testing.fake_vllm", "--model", "m", "--port", str(port))
    return LaunchPlan(
        arm="baseline",
        argv=stub if kind == "stub" else (*fake, "--served-model-name", name),
        env={"FAKE_VLLM": '{"spawn_child": true, "ttft_ms": 1}'},
        unset_env=(),
        model="m",
        served_name=name,
        port=port,
        host="127.0.0.1",
        cwd=folder,
        changes=(),
        stop_command=None,
    )


def cycle(kind: str, folder: Path, number: int) -> tuple[float, float]:
    """One server up and down. Returns the seconds of both."""
    log = folder / "server.log"
    with reserved_port() as port:
        server = Server.launch(
            plan_of(kind, folder, port),
            log_path=log,
            startup_timeout_s=120,
            silence_timeout_s=120,
            progress=lambda _: None,
            grace_s=0.3,
            poll_s=0.02,
        )
    if number % CRASH_EVERY == 0:
        for pid in server.pids():
            if os.getsid(pid) == pid and psutil.Process(pid).ppid() != os.getpid():  # not the supervisor
                psutil.Process(pid).kill()
    server.stop()
    log.unlink()
    return server.startup_s, server.stop_s or 0.0


def main() -> int:
    """Run the cycles, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--cycles", type=int, default=1000)
    parser.add_argument("--server", choices=("stub", "fake"), default="stub")
    arguments = parser.parse_args()
    mark = os.environ[MARKER] = uuid.uuid4().hex
    times: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for number in range(WARM_UP):
            cycle(arguments.server, folder, number)
        before, began = held(mark), time.monotonic()
        for number in range(arguments.cycles):
            times.append(cycle(arguments.server, folder, number))
            if (number + 1) % max(1, arguments.cycles // 10) == 0:
                now = held(mark)
                print(
                    f"{number + 1:6d} cycles: {now.descriptors} descriptors, {now.threads} threads, "
                    f"{now.processes} processes, {now.rss_mib:.1f} MiB",
                    flush=True,
                )
        after = held(mark)
        files = sorted(path.name for path in folder.iterdir())
    starts, stops = ([each[index] for each in times] for index in (0, 1))
    print(
        f"took {time.monotonic() - began:.0f} s; median start {statistics.median(starts):.3f} s, longest {max(starts):.3f} s"
    )
    print(f"median stop {statistics.median(stops):.3f} s, longest {max(stops):.3f} s")
    print(
        f"before: {before}\nafter:  {after}\nfiles left: {files or 'none'}; descendants left: {len(reaper.descendants(os.getpid()))}"
    )
    same = (before.descriptors, before.threads, 0) == (after.descriptors, after.threads, after.processes)
    return 0 if same and not files else 1


if __name__ == "__main__":
    sys.exit(main())
