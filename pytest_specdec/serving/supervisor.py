"""pytest's side of :mod:`~pytest_specdec.serving.reaper`: starts a supervisor, hears from it, has it end the server."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.serving import reaper

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

_MARGIN_S = 2.0
"""Beyond the time that the supervisor allows itself; after that it is killed, and the server with it."""


@dataclass(frozen=True)
class ExitStatus:
    """How a process ended; both None when its supervisor was killed before it could tell."""

    code: int | None = None
    signal: int | None = None

    def __str__(self) -> str:
        if self.code is not None:
            return f"exited with code {self.code}"
        if self.signal is None:
            return "was killed together with its supervisor"
        with contextlib.suppress(ValueError):
            return f"was killed by signal {self.signal} ({signal.Signals(self.signal).name})"
        return f"was killed by signal {self.signal}"


class Supervisor:
    """One supervised process.

    Args:
        argv: Command of the server.
        env: Its whole environment.
        cwd: Its working directory.
        log: Absolute path of the file to which its stdout and stderr are appended.
        grace_s: Seconds between SIGTERM and SIGKILL.
        stop_command: Run once everything has ended, for what is no descendant of the server (a container).
        private_fds: File descriptors that stay open until everything has ended: device locks.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: Path,
        log: Path,
        grace_s: float = 2.5,
        stop_command: Sequence[str] | None = None,
        private_fds: Sequence[int] = (),
    ) -> None:
        self.pid: int | None = None
        """Process id and session id of the server, once it runs."""
        self.exit: ExitStatus | None = None
        """None as long as the server runs."""
        self.error: str | None = None
        """Why the command could not be executed."""
        self.left: tuple[int, ...] = ()
        """Processes that not even SIGKILL has ended."""
        self._unread = b""
        self._timeout_s = grace_s + 2 * reaper.UNKILLABLE_S + _MARGIN_S
        if stop_command:
            self._timeout_s += reaper.STOP_COMMAND_S
        task: reaper.Task = {
            "argv": list(argv),
            "env": dict(env),
            "cwd": str(cwd),
            "log": str(log),
            "grace_s": grace_s,
            "stop_command": list(stop_command) if stop_command else None,
            "parent": os.getpid(),
            "private_fds": list(private_fds),
        }
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(  # noqa: S603 - our own file, run by our own interpreter
                [sys.executable, "-I", "-S", reaper.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,  # a traceback of the supervisor belongs where the user looks
                cwd="/",
                start_new_session=True,  # a terminal's Ctrl-C must not reach it
                pass_fds=tuple(private_fds),
            )
        os.set_blocking(self._stdout, False)
        self._send(json.dumps(task).encode() + b"\n")

    @property
    def _stdout(self) -> int:
        assert self._process.stdout is not None  # noqa: S101 - for the type checker: it is a pipe
        return self._process.stdout.fileno()

    @property
    def supervisor_pid(self) -> int:
        """To be ended by a signal when the server has been told to :meth:`keep` running."""
        return self._process.pid

    def pids(self) -> frozenset[int]:
        """Every living process that belongs to the server."""
        return frozenset(reaper.descendants(self._process.pid)) | {self._process.pid}

    def listen(self, timeout_s: float = 0.0) -> None:
        """Take in what the supervisor has said, waiting up to ``timeout_s`` for it to say something."""
        if self._process.stdout is None or self._process.stdout.closed:
            return
        while select.select([self._stdout], [], [], timeout_s)[0]:
            timeout_s = 0.0
            said = os.read(self._stdout, 65536)
            if not said:
                self.exit = self.exit or ExitStatus()
                return
            *lines, self._unread = (self._unread + said).split(b"\n")
            for line in lines:
                self._understand(json.loads(line))

    def _understand(self, message: dict[str, int | str | list[int]]) -> None:
        match message:
            case {"pid": int(pid)}:
                self.pid = pid
            case {"code": int(code)}:
                self.exit = ExitStatus(code=code)
            case {"signal": int(number)}:
                self.exit = ExitStatus(signal=number)
            case {"error": str(error)}:
                self.error, self.exit = error, ExitStatus(code=127)
            case {"left": list(pids)}:
                self.left = tuple(pids)

    def end(self) -> None:
        """End the server and all its descendants, and wait until that is done. Does nothing the second time."""
        pipes = self._process.stdin, self._process.stdout
        if pipes[1] is None or pipes[1].closed:
            return
        self._close_stdin()
        try:
            self._process.wait(self._timeout_s)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.listen()
        if self._process.returncode != 0:
            self._sweep()
        pipes[1].close()

    def keep(self) -> None:
        """Let the server outlive this process; a signal to :attr:`supervisor_pid` ends it."""
        self._send(reaper.KEEP)
        self._close_stdin()
        if self._process.stdout is not None:
            self._process.stdout.close()
        self._process.returncode = 0  # it is meant to run on: no ResourceWarning, no waiting

    def _send(self, data: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - for the type checker: it is a pipe
        with contextlib.suppress(BrokenPipeError):  # it has died: end of file on its stdout says so
            self._process.stdin.write(data)
            self._process.stdin.flush()

    def _close_stdin(self) -> None:
        if self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):
                self._process.stdin.close()

    def _sweep(self) -> None:
        """Without a supervisor to do it: end what is left in the server's session."""
        deadline = time.monotonic() + reaper.UNKILLABLE_S
        while time.monotonic() < deadline:
            self.left = tuple(pid for pid, (_, session) in reaper.processes().items() if session == self.pid)
            if not self.left:
                return
            for pid in self.left:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
            time.sleep(0.02)
