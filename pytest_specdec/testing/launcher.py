"""Starts the stand-in server from a test, and stops it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from pytest_specdec.testing.knobs import ENVIRONMENT_VARIABLE, KnobError, read_knobs

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from types import TracebackType

    from typing_extensions import Self

_POLL_S = 0.02
_STOP_S = 2.0
_ANSWER_S = 60.0


class FakeVllmError(RuntimeError):
    """The stand-in server did not start, or refused a knob; the message holds its log."""


class FakeVllm:
    """A stand-in vLLM server for the time of a ``with`` block.

    ::

        with FakeVllm(tpot_ms=8, acceptance_length=2.4, speculative_config={"method": "ngram"}) as server:
            answer = requests.post(f"{server.base_url}/v1/completions", json={"model": server.served_name, "prompt": "Hi"})
            server.set(tpot_ms=16)                 # from the next request on

    Args:
        speculative_config: As vLLM's ``--speculative-config``; None for a server without speculation.
        model: Name of the pretended target; with it, answers differ.
        served_name: Name that requests must use; the model's by default.
        flags: Further vLLM flags.
        env: Further environment variables, ``{"VLLM_SERVER_DEV_MODE": "1"}`` for sleep and prefix-cache reset.
        startup_timeout_s: How long the server may take to become ready.
        knobs: See :class:`pytest_specdec.testing.knobs.Knobs`.

    Raises:
        KnobError: A knob does not exist or has a wrong value.
    """

    def __init__(
        self,
        *,
        speculative_config: Mapping[str, Any] | None = None,
        model: str = "fake/model",
        served_name: str | None = None,
        flags: Sequence[str] = (),
        env: Mapping[str, str] | None = None,
        startup_timeout_s: float = 120.0,
        **knobs: Any,
    ) -> None:
        read_knobs(knobs, speculating=speculative_config is not None)
        self.model = model
        self.served_name = served_name or model
        self.base_url = ""
        self._speculative_config = speculative_config
        self._flags = tuple(flags)
        self._env = {**os.environ, **(env or {}), ENVIRONMENT_VARIABLE: json.dumps(knobs)}
        self._startup_timeout_s = startup_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log: IO[bytes] | None = None
        self._last_log = ""

    @property
    def log(self) -> str:
        """Everything the server printed so far."""
        if self._log is None:
            return self._last_log
        self._log.flush()
        return Path(self._log.name).read_text(errors="replace")

    @property
    def pid(self) -> int:
        """Process id of the server, and id of its process group."""
        return self._running_process().pid

    @property
    def exit_code(self) -> int | None:
        """Exit status of the server, None while it runs."""
        return self._running_process().poll()

    def start(self) -> None:
        """Start the process and wait until ``/health`` answers.

        Raises:
            FakeVllmError: It exited, or was not ready in time.
        """
        with _reserved_port() as port:
            self._launch(port)

    def _launch(self, port: int) -> None:
        self.base_url = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "pytest_specdec.testing.fake_vllm", "--model", self.model, "--port", str(port)]
        command += ["--served-model-name", self.served_name]
        if self._speculative_config is not None:
            command += ["--speculative-config", json.dumps(self._speculative_config)]
        self._log = tempfile.NamedTemporaryFile(prefix="fake-vllm-", suffix=".log")  # noqa: SIM115 - closed by stop()
        self._process = subprocess.Popen(  # noqa: S603 - our own module
            [*command, *self._flags], stdout=self._log, stderr=self._log, env=self._env, start_new_session=True
        )
        deadline_s = time.monotonic() + self._startup_timeout_s
        while not self._healthy():
            if self._process.poll() is not None or time.monotonic() > deadline_s:
                code = self._process.poll()
                self.stop()
                state = f"exited with status {code}" if code is not None else "was not ready in time"
                raise FakeVllmError(f"the stand-in server {state}:\n{self.log}")
            time.sleep(_POLL_S)

    def set(self, **knobs: Any) -> None:
        """Change knobs of the running server.

        Raises:
            KnobError: A knob does not exist or has a wrong value; nothing was changed.
        """
        body = json.dumps(knobs).encode()
        request = urllib.request.Request(f"{self.base_url}/fake/knobs", data=body, method="POST")  # noqa: S310 - http on loopback
        try:
            with _OPENER.open(request, timeout=_ANSWER_S):
                pass
        except urllib.error.HTTPError as error:
            with error:
                raise KnobError(json.loads(error.read())["error"]) from None

    def wait(self, timeout_s: float) -> int:
        """Wait until the server ends by itself; returns its exit status.

        Raises:
            subprocess.TimeoutExpired: It still runs.
        """
        return self._running_process().wait(timeout_s)

    def stop(self) -> None:
        """End the server and everything it started; does nothing when it is gone."""
        if self._process is None:
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGTERM)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._log is not None:
            self._last_log = self.log
            self._log.close()
            self._log = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    def _running_process(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise FakeVllmError("the stand-in server was not started")
        return self._process

    def _healthy(self) -> bool:
        try:
            with _OPENER.open(f"{self.base_url}/health", timeout=1) as response:
                return bool(response.status == 200)  # noqa: PLR2004 - HTTP's OK
        except OSError:
            return False


_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))
"""Without proxies: the server is on loopback."""


@contextlib.contextmanager
def _reserved_port() -> Iterator[int]:
    """A port that nobody else is given until the server, which sets ``SO_REUSEADDR`` too, has bound it."""
    with socket.socket() as holder:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind(("127.0.0.1", 0))
        yield int(holder.getsockname()[1])
