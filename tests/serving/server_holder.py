"""Stands for pytest in the tests that kill it: holds a server, says so, and waits. ``server_holder.py FOLDER MODE [fork | keep | leave]``."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from pytest_specdec.serving.command import LaunchPlan
from pytest_specdec.serving.pool import reserved_port, served_name
from pytest_specdec.serving.process import Server


def main() -> None:
    folder, mode, *extra = sys.argv[1:]
    with reserved_port() as port:
        server = launch(Path(folder), mode, port)
    if extra == ["fork"] and os.fork() == 0:
        signal.pause()  # a child of pytest that still has its pipes
    if extra == ["keep"]:
        sys.stdout.write(f"{server.keep()}\n")
        return
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    if extra == ["leave"]:
        sys.stdin.readline()
        return
    signal.pause()


def launch(folder: Path, mode: str, port: int) -> Server:
    name = served_name()
    stub = Path(__file__).with_name("stub_server.py")
    plan = LaunchPlan(
        arm="specdec",
        argv=(sys.executable, str(stub), str(port), name, mode),
        env={},
        unset_env=(),
        model="m",
        served_name=name,
        port=port,
        host="127.0.0.1",
        cwd=folder,
        changes=(),
        stop_command=None,
    )
    return Server.launch(
        plan,
        log_path=folder / "specdec.log",
        startup_timeout_s=60,
        silence_timeout_s=60,
        progress=lambda _: None,
        grace_s=1.0,
    )


if __name__ == "__main__":
    main()
