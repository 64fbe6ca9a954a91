"""pytest with a config, as a process of its own: to be signalled, killed, and looked for afterwards."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import uuid
from typing import TYPE_CHECKING, Any

import psutil

from tests.exact_times import ON_SCHEDULE, STAMPED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

MARKER = "SPECDEC_STARTED_RUN"
"""Set to something unique in the environment of a run, and so in that of all its processes, whoever their parents are."""
WAIT_S = 300.0
"""For a sign of progress on a busy machine; a failing test waits so long, a passing one does not."""


class StartedRun:
    """A run in a folder, in a process group of its own within our session: it can be stopped and continued like a shell's job.

    Args:
        folder: Where pytest is started.
        arguments: Of pytest.
        environment: Added to ours.
        wrapper: Command that starts pytest.
    """

    def __init__(
        self, folder: Path, *arguments: str, environment: Mapping[str, str] | None = None, wrapper: tuple[str, ...] = ()
    ) -> None:
        self.folder = folder
        self._id = uuid.uuid4().hex
        self._output = folder / f"output-{self._id}.txt"
        # Only our own plugin: the others that are installed here would double the time that a start takes.
        options = ("-p", "pytest_specdec.plugin", "-p", "no:cacheprovider")
        command = [*wrapper, sys.executable, "-m", "pytest", *options, *arguments]
        with self._output.open("wb") as output:
            self.process = subprocess.Popen(
                command,
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", **(environment or {}), MARKER: self._id},
                preexec_fn=_alone_and_without_core,  # noqa: PLW1509 - two system calls; process_group came with 3.11
            )

    @property
    def output(self) -> str:
        return self._output.read_text()

    def wait_for(self, sign: Callable[[], object]) -> None:
        """Until something can be observed of the run, which must not end before."""
        deadline = time.monotonic() + WAIT_S
        while not sign():
            assert self.process.poll() is None, self.output
            assert time.monotonic() < deadline, self.output
            time.sleep(0.01)

    def wait_for_output(self, text: str) -> None:
        self.wait_for(lambda: text in self.output)

    def processes(self) -> list[psutil.Process]:
        """All that run and were started by this run, itself included."""
        return [process for process in psutil.process_iter() if self._owns(process)]

    def left_after(self, seconds: float) -> list[psutil.Process]:
        """Those that still run when so much time has passed; returns as soon as there is none."""
        deadline = time.monotonic() + seconds
        while (left := self.processes()) and time.monotonic() < deadline:
            time.sleep(0.05)
        return left

    def _owns(self, process: psutil.Process) -> bool:
        try:
            return process.environ().get(MARKER) == self._id and process.status() != psutil.STATUS_ZOMBIE
        except psutil.Error:
            return False

    def end(self) -> None:
        """Whatever a failed test has left."""
        for process in self.processes():
            process.kill()
        self.process.wait()


def _alone_and_without_core() -> None:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def write_project(folder: Path, *, fake: Mapping[str, Any], tests: str, **envelope: Any) -> None:
    """A config ``fake.json`` whose servers are fakes with those knobs, a small workload, and a file of tests."""
    prompts = [json.dumps({"prompt": f"Prompt number {n}: tell me about it."}) + "\n" for n in range(24)]
    (folder / "tiny.jsonl").write_text("".join(prompts))
    config = {
        "model": "fake-model",
        "speculative_config": {"method": "ngram", "num_speculative_tokens": 3},
        "command": [sys.executable, "-m", "pytest_specdec.testing.fake_vllm"],
        "env": {"FAKE_VLLM": json.dumps(STAMPED | dict(fake))},
        "workloads": {"tiny": {"path": "tiny.jsonl"}},
        "measure": {"rounds": 2, "max_rounds": 2},
    }
    (folder / "fake.json").write_text(json.dumps(config | envelope))
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p on_schedule\n")
    (folder / "on_schedule.py").write_text(ON_SCHEDULE)
    (folder / "test_gate.py").write_text(tests)
