"""One vLLM server: started, awaited, watched, ended."""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.errors import CannotMeasure, LaunchError, ServerDied
from pytest_specdec.core.masked_text import masked_text, secret_values
from pytest_specdec.core.samples import ServerRecord
from pytest_specdec.serving.attestation import Attested, attested
from pytest_specdec.serving.command import masked_argv, masked_env
from pytest_specdec.serving.device_holders import device_holders
from pytest_specdec.serving.failures import Cause, find_cause, quote
from pytest_specdec.serving.fallbacks import changed_by_vllm
from pytest_specdec.serving.log_facts import read_facts
from pytest_specdec.serving.log_tables import Circumstances, Event
from pytest_specdec.serving.readiness import PortTaken, ReadinessProbe, Refused, await_ready, get, server_version
from pytest_specdec.serving.result_folder import ELSEWHERE, create_log, is_full
from pytest_specdec.serving.server_log import GROWS_TO, ServerLog
from pytest_specdec.serving.supervisor import Supervisor

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from pytest_specdec.core.server_facts import ServerFacts
    from pytest_specdec.serving.command import LaunchPlan

_NOT_FREE = "free-memory-too-small"
_DYING_S = 3.0
"""A server whose engine died answers HTTP 500 for a moment before it exits; its log then says why."""


class Server:
    """A server. Use :meth:`launch`, or :meth:`begin` and :meth:`await_ready`.

    Attributes:
        arm: ``baseline`` or ``specdec``.
        base_url: ``http://127.0.0.1:PORT``.
        served_name: The name of its model in requests.
        identity: What no other server of the run has.
        headers: What requests to it must carry.
        log_path: Its output.
        version: From ``GET /version``; None when it does not tell.
        startup_s: Seconds from launch to the first token.
        stop_s: Seconds that :meth:`stop` took; None before.
        devices: Indices of the devices it runs on; empty on a CPU.
        record: All this for the report, secrets masked.
    """

    def __init__(
        self,
        plan: LaunchPlan,
        supervisor: Supervisor,
        log: ServerLog,
        *,
        env: Mapping[str, str],
        devices: Sequence[int],
        launch: int,
        neighbours: Callable[[], Mapping[str, Collection[int]]] = dict,
        beside: bool,
        startup_timeout_s: float,
        silence_timeout_s: float,
        poll_s: float,
    ) -> None:
        self.arm = plan.arm
        self.base_url = f"http://{plan.host}:{plan.port}"
        self.served_name = plan.served_name
        self.identity = plan.served_name
        self.headers: Mapping[str, str] = {}
        self.log_path = log.path
        self.version: str | None = None
        self.startup_s = 0.0
        self._startup_phases_s: dict[str, float] = {}
        self.stop_s: float | None = None
        self.devices = tuple(devices)
        self._plan = plan
        self._env = env
        self._supervisor = supervisor
        self._log = log
        self._launch = launch
        self._neighbours = neighbours
        self._beside = beside
        self._startup_timeout_s = startup_timeout_s
        self._silence_timeout_s = silence_timeout_s
        self._poll_s = poll_s
        self._probe: ReadinessProbe | None = ReadinessProbe(plan.host, plan.port, plan.served_name)
        self._facts: ServerFacts | None = None
        self._attested: Attested | None = None
        self._changed: tuple[str, ...] = ()
        self._launched_at = time.monotonic()
        self._stopped = False

    @classmethod
    def launch(cls, plan: LaunchPlan, *, progress: Callable[[str], None], **how: Any) -> Server:
        """Start a server and wait until it has generated a token: :meth:`begin`, which says what ``how`` is, and :meth:`await_ready`."""
        server = cls.begin(plan, **how)
        server.await_ready(progress)
        return server

    @classmethod
    def begin(
        cls,
        plan: LaunchPlan,
        *,
        log_path: Path,
        startup_timeout_s: float,
        silence_timeout_s: float,
        devices: Sequence[int] = (),
        launch: int = 0,
        grace_s: float = 2.5,
        private_fds: Sequence[int] = (),
        poll_s: float = 0.25,
        neighbours: Callable[[], Mapping[str, Collection[int]]] = dict,
        beside: bool = False,
    ) -> Server:
        """Start a server and go on; :meth:`await_ready` or :meth:`stop` must follow.

        Args:
            plan: Command, environment, port, name.
            log_path: File for its output; created, or appended to.
            startup_timeout_s: Most seconds until it is ready, however busy its log is.
            silence_timeout_s: Most seconds without a new line in the log.
            devices: Indices of the devices it will run on, for the record.
            launch: How many times this arm has been launched before.
            grace_s: Seconds between SIGTERM and SIGKILL when it is ended.
            private_fds: Descriptors that stay open until every process of the server is gone (device locks).
            poll_s: Seconds between two looks at it while it is awaited; its exit is noticed at once all the same.
            neighbours: Gives the process ids of our other servers, by what a message about memory should call them.
            beside: Another server starts at the same time, for the record.
        """
        create_log(log_path)
        log = ServerLog(log_path)
        env = environment_of(plan)
        supervisor = Supervisor(
            plan.argv,
            env=env,
            cwd=plan.cwd,
            log=log_path.resolve(),
            grace_s=grace_s,
            stop_command=plan.stop_command,
            private_fds=private_fds,
        )
        return cls(
            plan,
            supervisor,
            log,
            env=env,
            devices=devices,
            launch=launch,
            neighbours=neighbours,
            beside=beside,
            startup_timeout_s=startup_timeout_s,
            silence_timeout_s=silence_timeout_s,
            poll_s=poll_s,
        )

    def await_ready(self, progress: Callable[[str], None], *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until the server has generated a token.

        Args:
            progress: Told the phase of the start several times a second.
            meanwhile: Called as often.

        Raises:
            LaunchError: It did not come up; nothing of it is left running.
            PortTaken: Likewise, because its port belongs to another process.
        """
        await_ready(self, lambda: self._log.phase, progress, meanwhile, self._poll_s)

    def look(self, wait_s: float = 0.0) -> bool:
        """Whether a server that was begun is ready.

        Args:
            wait_s: Most seconds to wait for something to happen; its exit is noticed at once.

        Raises:
            LaunchError: It will not become ready. Another look raises again.
        """
        if self._probe is None:
            return True
        self._supervisor.listen(wait_s)
        self._log.follow()
        self._raise_if_over()
        try:
            if not self._probe.step():
                return False
        except (PortTaken, Refused) as error:
            raise self._failure(error) from None
        self._stop_asking()
        self.startup_s = time.monotonic() - self._launched_at
        self._startup_phases_s = self._log.phases_s
        started = self._log.lines()
        self._facts, self._changed = read_facts(started), changed_by_vllm(started)
        self._attested = attested("\n".join(started))
        self.version = server_version(self._plan.host, self._plan.port)
        return True

    @property
    def record(self) -> ServerRecord:
        """As it was started."""
        in_force = {name: value for name, value in self._env.items() if name.startswith("VLLM_")}
        said = self._attested or Attested(None, None)
        return ServerRecord(
            arm=self.arm,
            command=tuple(masked_argv(self._plan.argv)),
            env=dict(sorted(masked_env(in_force | dict(self._plan.env)).items())),
            model=masked_text(self._plan.model),
            version=self.version,
            log=str(self.log_path),
            startup_s=self.startup_s,
            startup_phases_s=self._startup_phases_s,
            launch=self._launch,
            started_beside=self._beside,
            stop_s=self.stop_s,
            attested_method=said.method,
            attested_tokens=said.num_speculative_tokens,
            facts=self._facts,
            changed_by_vllm=self._changed,
        )

    @property
    def left(self) -> tuple[int, ...]:
        """Processes that not even SIGKILL could end; filled by :meth:`stop`, and as good as always empty."""
        return self._supervisor.left

    def pids(self) -> frozenset[int]:
        """Every process of the server, its supervisor's included."""
        return self._supervisor.pids()

    def check_alive(self) -> None:
        """Do nothing as long as the server runs; end it when its log has grown too long.

        Raises:
            ServerDied: It has ended; the message quotes its log.
        """
        if self._log.overgrown:
            self.stop()
            raise self._overgrown(ServerDied)
        if self._stopped:
            raise ServerDied(f"the {self.arm} server has been stopped", where=str(self.log_path))
        self._supervisor.listen()
        if self._supervisor.exit is not None:
            raise self._error(f"{self._supervisor.exit} while it was needed", kind=ServerDied)

    def stop(self) -> None:
        """End the server, its workers and whatever else it started; return when they are gone. Never raises."""
        self._stopped = True
        self._stop_asking()
        began = time.monotonic()
        self._supervisor.end()
        self.stop_s = self.stop_s if self.stop_s is not None else time.monotonic() - began

    def keep(self) -> int:
        """Let the server outlive pytest. Returns the process id that ends it all with ``kill``."""
        self._stopped = True
        self._supervisor.keep()
        return self._supervisor.supervisor_pid

    def _stop_asking(self) -> None:
        if self._probe is not None:
            self._probe.close()
            self._probe = None

    def _raise_if_over(self) -> None:
        passed_s = time.monotonic() - self._launched_at
        if self._supervisor.exit is not None:
            raise self._failure(None)
        if self._log.overgrown:
            raise self._overgrown(LaunchError)
        if passed_s > self._startup_timeout_s:
            raise self._error(
                f"was not ready after {self._startup_timeout_s:.0f} s, while {self._log.phase}", event="timeout"
            )
        if self._log.silent_s > self._silence_timeout_s:
            raise self._error(
                f"wrote nothing to its log for {self._silence_timeout_s:.0f} s, while {self._log.phase}",
                event="silence",
            )

    def _overgrown(self, kind: type[CannotMeasure]) -> CannotMeasure:
        """Also a disk that is protected: nobody waits for it to be full."""
        return kind(
            f"the {self.arm} server wrote more than {GROWS_TO / 1024**3:.3g} GiB to its log and was ended"
            + quote(self._log.lines(), secrets=secret_values(self._plan.argv, self._env)),
            where=str(self.log_path),
            remedy="See what repeats itself there. VLLM_LOGGING_LEVEL and --enable-log-requests make logs long. Delete the log afterwards.",
        )

    def _failure(self, answered: LaunchError | None) -> CannotMeasure:
        """The error for a server that exited, or that answered what it must not."""
        if isinstance(answered, PortTaken):
            return PortTaken(
                f"the {self.arm} server did not start: {answered.what}{quote(self._log.lines())}",
                where=str(self.log_path),
                remedy=answered.remedy,
            )
        if answered is not None:
            self._supervisor.listen(_DYING_S)
        passed_s = time.monotonic() - self._launched_at
        exit_ = self._supervisor.exit
        if self._supervisor.error is not None:
            return self._error(
                f"could not be started: {self._supervisor.error}",
                remedy=f"The command is {self._plan.argv[0]!r}; `command` in the config can name another.",
            )
        if answered is not None and exit_ is None:
            return self._error(answered.what, remedy=answered.remedy)
        return self._error(f"{exit_} after {passed_s:.0f} s")

    def _error(
        self, what: str, *, event: Event | None = None, kind: type[CannotMeasure] = LaunchError, remedy: str = ""
    ) -> CannotMeasure:
        """What happened, why as far as the log tells, and vLLM's own words: of a cause that is not known, the end of the log."""
        lines, secrets = self._log.lines(), secret_values(self._plan.argv, self._env)
        here = Circumstances(arm=self.arm, method=self._plan.method, event=event)
        cause = find_cause(lines, self._supervisor.exit, here, secrets) or Cause("")
        if cause.port_taken and kind is LaunchError:
            kind = PortTaken
            listens = get(self._plan.host, self._plan.port, "/health") is not None
            who = "another server answers on it" if listens else "another process held it"
            what += f": port {self._plan.port} was taken, {who}"
        elif cause.what:
            what += f": {cause.what}"
        if is_full(self.log_path.parent):
            what += " (the disk with its log is full, so the log may lack its end)"
            remedy = f"Free space, or {ELSEWHERE}"
        said = f"\n  vLLM says: {cause.said}" if cause.said else quote(lines, secrets=secrets)
        error = kind(
            f"the {self.arm} server {what}{self._holders() if cause.memory else ''}{said}",
            where=str(self.log_path),
            remedy=remedy or cause.remedy,
        )
        if isinstance(error, LaunchError):
            error.memory = cause.memory and cause.id != _NOT_FREE
        return error

    def _holders(self) -> str:
        """Who holds the memory that this server did not get."""
        ours = {"this server": self._supervisor.pids(), **self._neighbours()}
        return "".join(f"\n  {line}" for line in device_holders(self.devices, ours))


def environment_of(plan: LaunchPlan) -> dict[str, str]:
    """Ours, without what the plan unsets, with what it adds."""
    return {name: value for name, value in os.environ.items() if name not in plan.unset_env} | dict(plan.env)


def all_alive(servers: Iterable[Server]) -> Callable[[], None]:
    """A function that raises ServerDied when one of these servers is gone."""
    watched = tuple(servers)

    def check() -> None:
        for server in watched:
            server.check_alive()

    return check
