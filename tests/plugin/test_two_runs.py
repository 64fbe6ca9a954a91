"""Two runs at once on one machine: one waits for the other where they would disturb each other, and says for whom."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.reporting.result_file import read_result
from tests.plugin.started_run import WAIT_S, StartedRun, write_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    Start = Callable[..., StartedRun]

GATE = """
import pytest


@pytest.mark.spec_load(workload="tiny", concurrency=8, num_requests=1, max_tokens=8, ignore_eos=True)
@pytest.mark.spec_slo(tpot_gain=-0.99)
def test_{name}(spec_comparison):
    {body}
"""


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start a run of the gate of that name in the one project; one that is held has measured and does not end by itself."""
    write_project(tmp_path, fake={"tpot_ms": 1, "ttft_ms": 1}, tests="")
    os.mkfifo(tmp_path / "held")
    runs: list[StartedRun] = []

    def run(name: str, *arguments: str, held: bool = False, locks: str = "locks") -> StartedRun:
        body = 'open("held").close()' if held else "pass"
        (tmp_path / f"test_{name}.py").write_text(GATE.format(name=name, body=body))
        (tmp_path / locks).mkdir(exist_ok=True)
        runs.append(
            StartedRun(
                tmp_path,
                "--specdec-config=fake.json",
                f"test_{name}.py",
                *arguments,
                environment={"TMPDIR": str(tmp_path / locks)},
            )
        )
        return runs[-1]

    yield run
    for each in runs:
        each.end()


def gates_in(result: Path) -> list[str]:
    return [gate.nodeid for gate in read_result(result).gates]


def test_the_device_is_waited_for_and_free_once_its_holder_was_killed(start: Start, tmp_path: Path) -> None:
    first = start("first", "--specdec-dir=first", held=True)
    first.wait_for_output("round 1 of 2, baseline")
    second = start("second", "--specdec-dir=second")
    second.wait_for_output(f"specdec: waiting for another run that holds cpu (pid {first.process.pid})\n")
    assert "starting the baseline server" not in second.output
    first.process.kill()
    assert second.process.wait(WAIT_S) == 0, second.output
    assert gates_in(tmp_path / "second" / "results.json") == ["test_second.py::test_second[fake]"]
    assert second.output.count("waiting for another run") == 1
    assert first.left_after(WAIT_S) == []


def test_a_result_folder_is_waited_for_although_the_devices_are_others(start: Start, tmp_path: Path) -> None:
    first = start("first", held=True)
    first.wait_for_output("round 1 of 2, baseline")
    second = start("second", locks="other-locks")
    second.wait_for_output(
        f"specdec: waiting for another run that holds the folder .specdec (pid {first.process.pid})\n"
    )
    first.process.terminate()
    assert second.process.wait(WAIT_S) == 0, second.output
    assert gates_in(tmp_path / ".specdec" / "results.json") == ["test_second.py::test_second[fake]"]
    assert (tmp_path / ".specdec" / "baseline" / "baseline.2.log").exists()


def test_runs_that_share_nothing_do_not_wait(start: Start, tmp_path: Path) -> None:
    first = start("first", "--specdec-dir=first", held=True)
    first.wait_for_output("round 1 of 2, baseline")
    second = start("second", "--specdec-dir=second", locks="other-locks")
    assert second.process.wait(WAIT_S) == 0, second.output
    assert "waiting" not in second.output
    assert first.process.poll() is None
    assert gates_in(tmp_path / "second" / "results.json") == ["test_second.py::test_second[fake]"]
