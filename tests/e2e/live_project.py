"""A project of a user, in a folder of its own, whose tests run in a pytest of their own against real vLLM.

The folder is laid out like the repository where it matters: ``models`` and ``drafts`` are links, configs lie in ``configs``, so that
servers (which run in their config's folder) can be told from everything else on the machine.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import psutil

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specdec.core.results import GateRecord, ResultDocument
    from pytest_specdec.core.samples import ArmRun, Comparison

SERVE = {"dtype": "bfloat16", "max_model_len": 2048, "enforce_eager": True}
ENV = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1"}


TOLERANCES = {"LAG_S": 10.0, "TPOT_SLACK_S": 10.0, "BUFFERED_SHARE": 0.0}
TOLERANT = f"""
from pytest_specdec.core import stream_validity

vars(stream_validity).update({TOLERANCES})
"""
"""What is tested with real vLLM (acceptance, answers, counters, processes) holds on a machine that has other things to do, too;
that times are refused there is tested in tests/core."""


def make_tolerant(folder: Path) -> None:
    """Have a pytest that is started in that folder measure however late its client is."""
    (folder / "tolerant.py").write_text(TOLERANT, encoding="utf-8")
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p no:cacheprovider -p tolerant -ra\n", encoding="utf-8")


@dataclass(frozen=True)
class Finished:
    """What a pytest left behind."""

    exit_code: int
    output: str = field(repr=False)
    document: ResultDocument = field(repr=False)

    def gate(self, part: str) -> GateRecord:
        """The one gate whose node id contains ``part``."""
        found = [gate for gate in self.document.gates if part in gate.nodeid]
        assert len(found) == 1, f"{len(found)} gates match {part!r}"
        return found[0]

    def comparison(self, gate: GateRecord) -> Comparison:
        """What a gate was judged on."""
        assert gate.comparison is not None, f"{gate.nodeid} measured nothing: {gate.message}"
        return self.document.comparisons[gate.comparison]

    def runs(self, part: str, arm: str) -> list[ArmRun]:
        """The runs of one arm behind a gate."""
        return [run for run in self.comparison(self.gate(part)).runs if run.arm == arm]


class LiveProject:
    """A folder with configs and tests; one pytest at a time runs in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.configs: list[str] = []
        (folder / "configs").mkdir(parents=True)
        make_tolerant(folder)
        self._process: subprocess.Popen[bytes] | None = None

    def add_config(
        self,
        name: str,
        model: str,
        speculative_config: dict[str, Any],
        *,
        max_tokens: int = 32,
        placement: str = "auto",
        workloads: dict[str, Any] | None = None,
        env: dict[str, str] | None = None,
        **serve: Any,
    ) -> None:
        """Write ``configs/NAME.json``; paths in it are relative to that folder, ``serve`` are vLLM's flags, ``env`` more variables.

        Its load point ``pair`` sends two requests at once and lets answers have ``max_tokens``.
        """
        envelope = {
            "model": model,
            "placement": placement,
            "speculative_config": speculative_config,
            "serve": SERVE | serve,
            "env": ENV | (env or {}),
            "load": {"pair": {"concurrency": 2, "max_tokens": max_tokens}},
            "workloads": workloads or {},
        }
        path = self.folder / "configs" / f"{name}.json"
        path.write_text(json.dumps(envelope, indent=1), encoding="utf-8")
        self.configs.append(f"configs/{name}.json")

    def add_tests(self, text: str) -> None:
        """Write the project's only test module."""
        (self.folder / "test_gates.py").write_text(text, encoding="utf-8")

    @property
    def output(self) -> str:
        """What pytest has printed so far."""
        return (self.folder / "output.txt").read_text(encoding="utf-8", errors="replace")

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Run pytest without waiting for it."""
        configs = [f"--specdec-config={path}" for path in self.configs]
        with (self.folder / "output.txt").open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", *configs, *arguments],
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
            )
        return self._process

    def finish(self, timeout_s: float) -> Finished:
        """Wait for the pytest that was started, and read what it left."""
        assert self._process is not None
        try:
            exit_code = self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.interrupt()
            raise AssertionError(f"pytest was not done after {timeout_s} s; it said:\n{self.output}") from None
        results = self.folder / ".specdec" / "results.json"
        assert results.exists(), f"exit code {exit_code}, and no results; pytest said:\n{self.output}"
        return Finished(exit_code, self.output, read_result(results))

    def interrupt(self) -> None:
        """End pytest if it runs; its servers go with it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(300)

    def server_processes(self) -> list[psutil.Process]:
        """Every process of every server, engines and workers included, whoever their parent is by now."""
        return [process for process in psutil.process_iter() if self._is_server(process)]

    def _is_server(self, process: psutil.Process) -> bool:
        try:
            return process.status() != psutil.STATUS_ZOMBIE and process.cwd() == str(self.folder.resolve() / "configs")
        except psutil.Error:  # gone, or none of ours
            return False

    def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> None:
        """Wait for something that only real servers take long to do."""
        assert self._process is not None
        deadline = time.monotonic() + timeout_s
        while not condition():
            assert self._process.poll() is None, f"pytest ended early; it said:\n{self.output}"
            assert time.monotonic() < deadline, f"nothing after {timeout_s} s; pytest said:\n{self.output}"
            time.sleep(0.1)
