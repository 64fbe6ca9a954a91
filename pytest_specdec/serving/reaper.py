"""The supervisor of one server: whatever becomes of pytest, nothing of the server stays behind.

Run as a file (``python -I -S reaper.py``), stdlib only, importing nothing of the package, so that it starts in milliseconds.
The process that starts it holds the other end of its stdin and sends one line of JSON, a :class:`Task`. Two processes result::

    pytest ──stdin──> guard ──> keeper ──> server ──> its workers
                      └─ both are child subreapers: orphans of the server come to them, not to init

The *keeper* starts the server in a session of its own and ends every descendant (SIGTERM, a grace time, SIGKILL) when the
server exits or when it is told to. The *guard* tells it to when stdin closes, when pytest is gone although some fork of it
still holds the pipe, or on SIGTERM, SIGINT or SIGHUP. Either survives the other's SIGKILL: without a guard the keeper gets
SIGTERM from the kernel; without a keeper the server gets SIGKILL, the orphans come to the guard, and it ends them.
The limit: guard and keeper killed with SIGKILL at the same moment leave the server's own children to init.

On stdout come JSON lines, ``{"pid": …}`` once the server runs, ``{"error": …}`` if its command cannot be executed and
``{"code": …}`` or ``{"signal": …}`` when it has exited; end of file means that everything is gone, but for the processes
of a last line ``{"left": [pid, …]}``, which not even SIGKILL could end.
"""

from __future__ import annotations

import ctypes
import json
import os
import select
import signal
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NoReturn, TypedDict

    class Task(TypedDict):
        """What the first line on stdin holds."""

        argv: list[str]
        env: dict[str, str]
        """The whole environment of the server."""
        cwd: str
        log: str
        """Absolute; the server's stdout and stderr are appended."""
        grace_s: float
        stop_command: list[str] | None
        parent: int
        """Process id of pytest."""
        private_fds: list[int]
        """Descriptors (locks) that live as long as the supervisor and must not reach the server."""


KEEP = b"keep\n"
"""Sent on stdin before closing it: the server stays up until the guard is ended by a signal."""

_PR_SET_PDEATHSIG, _PR_SET_NAME, _PR_SET_CHILD_SUBREAPER = 1, 15, 36
_TICK_S = 0.5
UNKILLABLE_S = 5.0  # a process in an uninterruptible system call outlives SIGKILL; it is not waited for any longer
STOP_COMMAND_S = 30.0
_ENDING_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


def _prctl(option: int, argument: int | bytes) -> None:
    ctypes.CDLL(None, use_errno=True).prctl(option, argument, 0, 0, 0)


def processes() -> dict[int, tuple[int, int]]:
    """Parent and session of every process in ``/proc``; the session of a zombie is -1."""
    table = {}
    for name in os.listdir("/proc"):  # noqa: PTH208 - pathlib costs more than this file's whole start-up
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as stat:  # noqa: PTH123 - as above
                    state, parent, _, session = stat.read().rpartition(b")")[2].split()[:4]
            except (OSError, ValueError):
                continue  # it ended while we looked
            table[int(name)] = (int(parent), -1 if state in {b"Z", b"X"} else int(session))
    return table


def descendants(root: int) -> set[int]:
    """Living (not zombie) processes below ``root``, whatever their group or session."""
    table = processes()
    children: dict[int, list[int]] = {}
    for pid, (parent, _) in table.items():
        children.setdefault(parent, []).append(pid)
    found, queue = set(), [root]
    while queue:
        for pid in children.get(queue.pop(), ()):
            queue.append(pid)
            if table[pid][1] != -1:
                found.add(pid)
    return found


def _signal_all(pids: set[int], number: int) -> None:
    for pid in pids:
        _signal(pid, number)


def _signal(pid: int, number: int) -> None:
    try:
        os.kill(pid, number)
    except (ProcessLookupError, PermissionError):
        return


class _Events:
    """Sleeps until a signal, end of file on ``source``, or a tick; remembers what happened."""

    def __init__(self, source: int | None = None) -> None:
        self.told_to_end = False
        self.told_to_keep = False
        self._source = source
        self._poll = select.poll()
        self._wake, wake_writer = os.pipe()
        os.set_blocking(self._wake, False)
        os.set_blocking(wake_writer, False)
        signal.set_wakeup_fd(wake_writer, warn_on_full_buffer=False)
        self._poll.register(self._wake, select.POLLIN)
        if source is not None:
            self._poll.register(source, select.POLLIN)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        for number in _ENDING_SIGNALS:
            signal.signal(number, self._end)

    def _end(self, *_: object) -> None:
        self.told_to_end = True

    def wait(self, seconds: float) -> None:
        for descriptor, _ in self._poll.poll(seconds * 1000):
            if descriptor == self._wake:
                os.read(self._wake, 4096)
            elif os.read(descriptor, 4096).endswith(KEEP):
                self.told_to_keep = True
                self._poll.unregister(descriptor)
            else:
                self.told_to_end = True
                self._poll.unregister(descriptor)


def _reap() -> dict[int, int]:
    """Wait status of every child that has ended."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if pid == 0:
            return ended
        ended[pid] = status


def _end_all(events: _Events, grace_s: float) -> dict[int, int]:
    """End every descendant: SIGTERM, ``grace_s`` seconds, SIGKILL until none is left. Returns the statuses reaped."""
    statuses = _reap()
    started = time.monotonic()
    if grace_s > 0:
        _signal_all(descendants(os.getpid()), signal.SIGTERM)
        _signal_all(descendants(os.getpid()), signal.SIGCONT)  # a stopped process would sit out the grace time
    while time.monotonic() - started < grace_s + UNKILLABLE_S:
        statuses.update(_reap())
        alive = descendants(os.getpid())
        if not alive:
            break
        if time.monotonic() - started >= grace_s:
            _signal_all(alive, signal.SIGKILL)
        events.wait(0.02)
    statuses.update(_reap())
    return statuses


def _report(**fields: object) -> None:
    try:
        os.write(1, json.dumps(fields).encode() + b"\n")
    except OSError:
        return  # pytest is gone; the work goes on


def _execute(task: Task, parent: int) -> NoReturn:
    """In the fork: become the server."""
    os.setsid()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    signal.set_wakeup_fd(-1)
    for number in (*_ENDING_SIGNALS, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.chdir(task["cwd"])
    os.execvpe(task["argv"][0], task["argv"], task["env"])  # noqa: S606 - running the user's server is the purpose


def _start(task: Task) -> int:
    """Process id of the server, 0 if its command cannot be executed (which is reported)."""
    reader, writer = os.pipe()
    keeper = os.getpid()
    server = os.fork()
    if server == 0:
        try:
            _execute(task, keeper)
        except BaseException as error:  # noqa: BLE001 - nothing may escape into the keeper's code
            os.write(writer, str(error).encode())
        os._exit(127)
    os.close(writer)
    failure = os.read(reader, 4096)  # end of file at exec
    os.close(reader)
    if failure:
        _report(error=failure.decode(errors="replace"))
        return 0
    _report(pid=server)
    return server


def _keep(task: Task, guard: int) -> None:
    """The keeper: start the server, wait until it ends or must end, end what is left."""
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    events = _Events()
    _prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    events.told_to_end = os.getppid() != guard
    server = 0 if events.told_to_end else _start(task)
    statuses: dict[int, int] = {}
    while server and not events.told_to_end and server not in statuses:
        events.wait(_TICK_S)
        statuses.update(_reap())
    if server in statuses:
        _report_exit(statuses[server])
        _end_all(events, task["grace_s"])
    else:
        statuses = _end_all(events, task["grace_s"])
        if server in statuses:
            _report_exit(statuses[server])
    if os.getppid() != guard:
        _run_stop_command(task)


def _report_exit(status: int) -> None:
    if os.WIFSIGNALED(status):
        _report(signal=os.WTERMSIG(status))
    else:
        _report(code=os.WEXITSTATUS(status))


def _run_stop_command(task: Task) -> None:
    """Such as ``docker stop``: ends what is no descendant of ours."""
    if not task["stop_command"]:
        return
    guard = os.getpid()
    command = os.fork()
    if command == 0:
        try:
            _execute({**task, "argv": task["stop_command"]}, guard)
        except BaseException as error:  # noqa: BLE001 - as in _start
            os.write(2, f"stop_command: {error}\n".encode())
        os._exit(127)
    deadline = time.monotonic() + STOP_COMMAND_S
    while time.monotonic() < deadline and command not in _reap():
        time.sleep(0.02)
    _signal_all(descendants(guard), signal.SIGKILL)


def main() -> None:
    """The guard: read the task, start the keeper, tell it when to end, clean up behind it."""
    line = b""
    while not line.endswith(b"\n"):
        part = os.read(0, 65536)
        if not part:
            return  # pytest ended before it had told us anything
        line += part
    task: Task = json.loads(line)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())  # pytest may have blocked some; the server would inherit that, too
    for descriptor in task["private_fds"]:
        os.set_inheritable(descriptor, False)
    _prctl(_PR_SET_NAME, b"specdec-reaper")
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)
    guard = os.getpid()
    keeper = os.fork()
    if keeper == 0:
        os.close(0)
        os.open(os.devnull, os.O_RDONLY)
        _keep(task, guard)
        os._exit(0)
    events = _Events(source=0)
    while keeper not in _reap():
        orphaned = os.getppid() != task["parent"] and not events.told_to_keep
        if events.told_to_end or orphaned:
            _signal(keeper, signal.SIGTERM)
        events.wait(_TICK_S)
    _end_all(events, 0)
    _run_stop_command(task)
    left = descendants(guard)
    if left:
        _report(left=sorted(left))


if __name__ == "__main__":
    main()
