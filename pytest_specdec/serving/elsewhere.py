"""Servers that a plugin starts elsewhere: awaited and ended like our own, and otherwise known by what they answer."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import LaunchError, ServerDied
from pytest_specdec.core.masked_text import masked_text
from pytest_specdec.core.samples import ServerRecord
from pytest_specdec.serving.attached import AttachedServer, attach
from pytest_specdec.serving.command import masked_argv, masked_env
from pytest_specdec.serving.readiness import await_ready

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.launched import Launched
    from pytest_specdec.serving.command import LaunchPlan

_POLL_S = 0.25
_ANSWER_S = 5.0
"""For one answer of a server that is starting."""


class ElsewhereServer:
    """Stands where :class:`pytest_specdec.serving.process.Server` does.

    Args:
        plan: What it was asked to be.
        launched: Where it is, and how it is ended.
        startup_timeout_s: Most seconds until it is ready.
        launch: How many times this arm has been launched before.
        beside: The other server starts at the same time.
    """

    def __init__(
        self, plan: LaunchPlan, launched: Launched, *, startup_timeout_s: float, launch: int, beside: bool
    ) -> None:
        self.arm = plan.arm
        self.base_url = launched.url.rstrip("/")
        self.served_name = self.identity = plan.served_name
        self.headers = launched.headers
        self.log_path = self.base_url
        self.devices: tuple[int, ...] = ()
        self.left: tuple[int, ...] = ()
        self.startup_s = 0.0
        self.stop_s: float | None = None
        self.asleep = False
        self._plan = plan
        self._launched = launched
        self._startup_timeout_s = startup_timeout_s
        self._launch = launch
        self._beside = beside
        self._began = time.monotonic()
        self._found: AttachedServer | None = None
        self._stopped = False

    @property
    def version(self) -> str | None:
        """From ``GET /version``."""
        return self._found.version if self._found else None

    @property
    def record(self) -> ServerRecord:
        """As it was started, secrets masked."""
        return ServerRecord(
            arm=self.arm,
            command=tuple(masked_argv(self._plan.argv)),
            env=dict(sorted(masked_env(self._plan.env).items())),
            model=masked_text(self._plan.model),
            version=self.version,
            log="",
            startup_s=self.startup_s,
            launch=self._launch,
            started_beside=self._beside,
            stop_s=self.stop_s,
            facts=self._found.facts if self._found else None,
        )

    def await_ready(self, progress: Callable[[str], None], *, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Wait until it answers as vLLM does.

        Raises:
            LaunchError: It does not in time; it has been stopped.
        """
        await_ready(self, lambda: f"waiting for {self.base_url}", progress, meanwhile, _POLL_S)

    def look(self, wait_s: float = 0.0) -> bool:
        """Whether it is ready.

        Raises:
            LaunchError: It has not become so in time.
        """
        if self._found is None:
            try:
                self._found = attach(self.arm, f"{self.base_url}#{self.served_name}", self.headers, timeout_s=_ANSWER_S)
            except LaunchError as error:
                if time.monotonic() - self._began > self._startup_timeout_s:
                    raise LaunchError(
                        f"the {self.arm} server, launched by a plugin, was not ready after {self._startup_timeout_s:.0f} s: {error.what}",
                        where=self.base_url,
                        remedy="Look where pytest_specdec_launch started it.",
                    ) from None
                time.sleep(wait_s)
                return False
            self.startup_s = time.monotonic() - self._began
        return True

    def pids(self) -> frozenset[int]:
        """None that we know."""
        return frozenset()

    def check_alive(self) -> None:
        """Nobody can tell, except that it has been stopped; requests that fail do.

        Raises:
            ServerDied: It has been stopped.
        """
        if self._stopped:
            raise ServerDied(f"the {self.arm} server has been stopped", where=self.base_url)

    def stop(self) -> None:
        """Have it ended, once.

        Raises:
            LaunchError: The plugin's function fails: somebody has to look after that server.
        """
        if self._stopped:
            return
        self._stopped = True
        began = time.monotonic()
        try:
            self._launched.stop()
        except Exception as error:
            raise LaunchError(
                f"the {self.arm} server could not be ended: {type(error).__name__}: {error}",
                where=self.base_url,
                remedy="End it where pytest_specdec_launch started it: it may hold its device.",
            ) from error
        finally:
            self.stop_s = time.monotonic() - began

    def keep(self) -> None:
        """Leave it up; nobody here knows how to end it later."""
        self._stopped = True
