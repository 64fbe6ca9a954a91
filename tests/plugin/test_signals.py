"""A signal to pytest, in whatever phase: no process of the run is left, and no result is half written."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specdec.reporting.result_file import read_result
from pytest_specdec.serving.device_lock import DeviceLocks
from tests.plugin.started_run import WAIT_S, StartedRun, write_project

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    Hold = Callable[..., "HeldRun"]

EARLIER = Path(__file__).parent.parent / "data" / "results" / "schema_1.json"
INTERRUPTED = 2
TERMINATED = 128 + signal.SIGTERM
HELD: dict[str, dict[str, Any]] = {
    "collecting": {},
    "loading": {"startup_s": 600},
    "warming up": {"hang_after_requests": 1},  # the first request is the one that shows that the server is ready
    "measuring": {},
    "judging": {},
    "stopping": {"spawn_child": True},  # a child deaf to SIGTERM
}
"""What keeps a run in a phase once it has got there, as far as it is a matter of the servers."""

HOLDING = """
import asyncio
import os
import signal

from pytest_specdec.load import measure
from pytest_specdec.serving.readiness import ReadinessProbe
from pytest_specdec.serving.supervisor import Supervisor

once = set()


def pause(phase):
    if phase in once:
        return
    once.add(phase)
    with open("phases", "a") as phases:
        phases.write(phase + "\\n")
    if os.path.exists(phase):  # a pipe: opening it lasts until somebody opens its other end
        open(phase).close()


def stop(phase):
    if os.path.exists("stops " + phase) and phase not in once:
        once.add(phase)
        os.kill(os.getpid(), signal.SIGTSTP)


end, step, run_window = Supervisor.end, ReadinessProbe.step, measure.run_window


def end_in_two(supervisor):
    supervisor._close_stdin()  # from here on the server is being ended
    pause("stopping")
    end(supervisor)


def step_and_stop(probe):
    stop("loading")
    return step(probe)


async def run_window_and_stop(*arguments, **more):
    asyncio.get_running_loop().call_later(0.05, stop, "measuring")
    return await run_window(*arguments, **more)


Supervisor.end, ReadinessProbe.step, measure.run_window = end_in_two, step_and_stop, run_window_and_stop
"""
"""A plugin that holds a run in a phase: on a pipe, or stopped as by Ctrl-Z. No test has to be quick enough to meet it there."""
GATE = """
import pytest

from holding import pause

pause("collecting")


@pytest.mark.spec_load(workload="tiny", concurrency=8, num_requests=1, max_tokens={max_tokens}, ignore_eos=True)
@pytest.mark.spec_slo(tpot_gain=-0.99)
def test_gate(spec_comparison):
    pause("judging")
"""


class HeldRun(StartedRun):
    """A run that has got to a phase, with an earlier result in its folder."""

    def __init__(
        self,
        folder: Path,
        phase: str,
        *,
        knobs: dict[str, Any],
        max_tokens: int,
        options: tuple[str, ...] = (),
        stops: bool = False,
        later: str = "",
    ) -> None:
        self.result = folder / ".specdec" / "results.json"
        self.result.parent.mkdir()
        shutil.copy(EARLIER, self.result)
        phases, log, journal = (folder / name for name in ("phases", ".specdec/baseline/baseline.log", "journal"))
        fake = {"tpot_ms": 1, "ttft_ms": 1, "journal": str(journal)} | knobs
        write_project(folder, fake=fake, tests=GATE.format(max_tokens=max_tokens))
        (folder / "holding.py").write_text(HOLDING)
        self._pipes = [folder / each for each in (phase, later) if each in ("collecting", "judging", "stopping")]
        for pipe in self._pipes:
            os.mkfifo(pipe)
        if stops:
            (folder / f"stops {phase}").touch()
        super().__init__(folder, "--specdec-config=fake.json", "-p", "holding", *options)
        signs: dict[str, Callable[[], object]] = {
            "collecting": lambda: "collecting" in _text(phases),
            "loading": lambda: "Loading weights" in _text(log),
            "warming up": lambda: "warming up baseline" in self.output,
            "measuring": lambda: "round 1 of 2, baseline" in self.output,
            "judging": lambda: "judging" in _text(phases),
            "stopping": lambda: "stopping" in _text(phases) and " stop" in _text(journal),
        }
        self.signs = signs
        self.wait_for(signs[phase])
        if phase in ("loading", "warming up", "measuring"):
            self.wait_for(self.servers)

    def servers(self) -> list[psutil.Process]:
        return [process for process in self.processes() if "pytest_specdec.testing.fake_vllm" in process.cmdline()]

    def go_on(self) -> None:
        """Let go of the pipe on which the run waits, where it does."""
        for pipe in self._pipes:
            os.close(os.open(pipe, os.O_WRONLY))


def _text(path: Path) -> str:
    return path.read_text() if path.exists() else ""


@pytest.fixture
def hold(tmp_path: Path) -> Iterator[Hold]:
    runs: list[HeldRun] = []

    def start(phase: str, *, knobs: dict[str, Any] | None = None, **more: Any) -> HeldRun:
        runs.append(HeldRun(tmp_path, phase, knobs=knobs or {}, **{"max_tokens": 8} | more))
        return runs[-1]

    yield start
    for run in runs:
        run.end()


def assert_nothing_is_left(run: HeldRun) -> None:
    assert run.left_after(WAIT_S) == []
    assert {path.name for path in run.result.parent.iterdir()} <= {"results.json", ".lock", "baseline", "fake"}
    locks = DeviceLocks(Path(tempfile.gettempdir()) / f"pytest-specdec-{os.getuid()}")
    locks.take([], timeout_s=WAIT_S, progress=lambda _: None)
    locks.release()


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGKILL], ids=lambda n: n.name
)
@pytest.mark.parametrize("phase", HELD)
def test_a_signal_ends_everything_and_leaves_whole_results(hold: Hold, phase: str, number: signal.Signals) -> None:
    run = hold(phase, knobs=HELD[phase], max_tokens=8000 if phase == "measuring" else 8)
    run.process.send_signal(number)
    code = run.process.wait(WAIT_S)
    answered = number == signal.SIGTERM and phase != "collecting"  # from the first test on
    assert code == (INTERRUPTED if number == signal.SIGINT else TERMINATED if answered else -number), run.output
    assert_nothing_is_left(run)
    read_result(run.result)


@pytest.mark.parametrize("phase", ["collecting", "loading", "measuring", "judging"])
def test_a_run_that_is_stopped_and_continued_goes_on(hold: Hold, phase: str) -> None:
    stops = phase in ("loading", "measuring")
    run = hold(phase, knobs={"startup_s": 0.2}, max_tokens=200, stops=stops)
    if not stops:
        run.process.send_signal(signal.SIGTSTP)
    run.wait_for(lambda: psutil.Process(run.process.pid).status() == psutil.STATUS_STOPPED)
    assert all(server.status() != psutil.STATUS_STOPPED for server in run.servers())
    run.process.send_signal(signal.SIGCONT)
    run.go_on()
    assert run.process.wait(WAIT_S) == 0, run.output
    assert [gate.config_id for gate in read_result(run.result).gates] == ["fake"], run.output
    assert_nothing_is_left(run)


def test_a_second_interrupt_hurries_and_loses_no_result(hold: Hold) -> None:
    run = hold("judging", knobs={"spawn_child": True}, later="stopping")
    run.process.send_signal(signal.SIGINT)
    run.wait_for(run.signs["stopping"])
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(WAIT_S) == INTERRUPTED, run.output
    assert list(read_result(run.result).comparisons) == ["fake/tiny"]
    assert "Traceback" not in run.output
    assert_nothing_is_left(run)


def test_sigterm_loses_nothing_that_was_measured(hold: Hold) -> None:
    run = hold("judging")
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(WAIT_S) == TERMINATED, run.output
    assert list(read_result(run.result).comparisons) == ["fake/tiny"]
    assert "Traceback" not in run.output
    assert_nothing_is_left(run)


def test_sigterm_loses_nothing_where_interrupts_are_ignored_as_in_the_background_of_a_script(
    hold: Hold,
) -> None:
    # Children inherit what is ignored.
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        run = hold("judging")
    finally:
        signal.signal(signal.SIGINT, before)
    run.process.send_signal(signal.SIGTERM)
    assert run.process.wait(WAIT_S) == TERMINATED, run.output
    assert list(read_result(run.result).comparisons) == ["fake/tiny"]
    assert_nothing_is_left(run)


SECOND_K = """
from pytest_specdec import dynamic

measured, calls = dynamic._measured, []


def held(*arguments):
    calls.append(arguments)
    if len(calls) == 2:
        open("second", "w").close()
        open("pipe").close()  # lasts until somebody opens its other end
    return measured(*arguments)


dynamic._measured = held
"""
SWEEP = """
import pytest


@pytest.mark.spec_load(workload="tiny", concurrency=[1, 2], num_requests=4, max_tokens=8)
@pytest.mark.spec_slo(tpot_gain=-0.99)
def test_gate(spec_comparison):
    pass
"""


def test_sigterm_between_the_ks_of_a_schedule_leaves_what_was_measured(tmp_path: Path) -> None:
    write_project(tmp_path, fake={"tpot_ms": 1, "ttft_ms": 1}, tests=SWEEP)
    (tmp_path / "second_k.py").write_text(SECOND_K)
    os.mkfifo(tmp_path / "pipe")
    run = StartedRun(tmp_path, "--specdec-config=fake.json", "--specdec-dynamic", "-p", "second_k", "-k", "dynamic")
    try:
        run.wait_for((tmp_path / "second").exists)
        run.process.send_signal(signal.SIGTERM)
        assert run.process.wait(WAIT_S) == TERMINATED, run.output
        assert run.left_after(WAIT_S) == []
    finally:
        run.end()
    comparisons = read_result(tmp_path / ".specdec" / "results.json").comparisons.values()
    assert [(one.num_speculative_tokens, one.load.concurrency) for one in comparisons] == [(1, 1), (1, 2)]


INTERRUPTED_WHILE_SAVING = """
import os
import signal

from pytest_specdec.session import SpecSession

save = SpecSession.save


def save_late(session):
    os.kill(os.getpid(), signal.SIGINT)
    return save(session)


SpecSession.save = save_late
"""


def test_an_interrupt_while_results_are_written_loses_neither_them_nor_the_report(hold: Hold, tmp_path: Path) -> None:
    (tmp_path / "interrupting.py").write_text(INTERRUPTED_WHILE_SAVING)
    run = hold("loading", knobs={"startup_s": 0.5}, options=("-p", "interrupting"))
    assert run.process.wait(WAIT_S) == INTERRUPTED, run.output
    # Judged or, on a busy machine, not: it is written either way.
    assert [gate.config_id for gate in read_result(run.result).gates] == ["fake"]
    assert "Traceback" not in run.output
    assert "results: .specdec/results.json" in run.output
    assert_nothing_is_left(run)


HALF_IMPORTED = """
import sys


def pytest_keyboard_interrupt():
    sys.modules["asyncio"] = None  # as good as what an interrupt in the middle of its import leaves
"""


def test_an_interrupt_in_the_middle_of_an_import_ends_the_run_like_any_other(hold: Hold, tmp_path: Path) -> None:
    (tmp_path / "half_imported.py").write_text(HALF_IMPORTED)
    run = hold("collecting", options=("-p", "half_imported"))
    run.process.send_signal(signal.SIGINT)
    assert run.process.wait(WAIT_S) == INTERRUPTED, run.output
    assert "Traceback" not in run.output
    assert_nothing_is_left(run)
