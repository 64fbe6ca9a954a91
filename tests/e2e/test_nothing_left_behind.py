"""Signals to pytest: every process of every server is gone after it, even after SIGKILL, which no finalizer survives."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import psutil
import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.live_project import LiveProject

WAIT_S = 120.0
"""How long it takes is up to the machine, and what it is given is tested in tests/serving; a failing test waits so long."""
NGRAM = {"method": "ngram", "num_speculative_tokens": 2, "prompt_lookup_max": 3, "prompt_lookup_min": 1}
LONG_MEASUREMENT = """
import pytest


@pytest.mark.spec_load(concurrency=2, num_requests=32, max_tokens=1500, ignore_eos=True)
@pytest.mark.spec_slo(tpot_gain=0.1)
def test_gate(spec_comparison):
    pass
"""


@pytest.fixture
def project(make_project: Callable[[str], LiveProject]) -> LiveProject:
    """A long measurement of a tiny target, not yet started."""
    project = make_project("long")
    project.add_config("ngram", "../models/tiny-mimo", NGRAM, load_format="dummy")
    project.add_tests(LONG_MEASUREMENT)
    return project


def assert_the_signal_ends_all(project: LiveProject, pytest_pid: int, number: signal.Signals) -> None:
    pytest_process = psutil.Process(pytest_pid)
    before = {*pytest_process.children(recursive=True), *project.server_processes()}
    assert before
    pytest_process.send_signal(number)
    pytest_process.wait(WAIT_S)
    _, alive = psutil.wait_procs(before, timeout=WAIT_S)
    left = [process for process in alive if process.is_running() and process.status() != psutil.STATUS_ZOMBIE]
    assert left == []
    assert project.server_processes() == []


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_signalled_while_a_server_loads(project: LiveProject, number: signal.Signals) -> None:
    running = project.start()
    # The API server has started its engine, and neither is ready.
    project.wait_until(lambda: len(project.server_processes()) > 1, timeout_s=1200)
    assert "warming up" not in project.output
    assert_the_signal_ends_all(project, running.pid, number)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_signalled_while_requests_run(project: LiveProject, number: signal.Signals) -> None:
    running = project.start()
    project.wait_until(lambda: "round 1 of" in project.output, timeout_s=1200)
    assert_the_signal_ends_all(project, running.pid, number)
