"""Servers that a conftest launches: awaited, measured and ended like our own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import psutil
import pytest

from pytest_specdec.reporting.result_file import read_result

if TYPE_CHECKING:
    from collections.abc import Callable

CONFTEST = """
import os
import subprocess
from pathlib import Path

from pytest_specdec import Launched

def pytest_specdec_launch(arm, argv, env, served_name, port):
    {first}
    process = subprocess.Popen(argv, env=os.environ | env)
    with Path("journal.txt").open("a") as journal:
        journal.write(f"{{arm}} {{process.pid}}\\n")

    def stop():
        process.terminate()
        process.wait()
        with Path("journal.txt").open("a") as journal:
            journal.write(f"{{arm}} stopped\\n")
        {last}

    return Launched(url=f"http://127.0.0.1:{{port}}/", stop=stop)
"""


@pytest.fixture
def run_gate(
    pytester: pytest.Pytester, write_config: Callable[..., Any], write_gate: Callable[..., Any]
) -> Callable[..., pytest.RunResult]:
    def run(slo: str = "tpot_gain=0.1", first: str = "", last: str = "", **envelope: Any) -> pytest.RunResult:
        pytester.makeconftest(CONFTEST.format(first=first, last=last))
        write_config(**envelope)
        write_gate(slo)
        return pytester.runpytest("--specdec-config=fake.json")

    return run


def journal(pytester: pytest.Pytester) -> list[list[str]]:
    return [line.split() for line in (pytester.path / "journal.txt").read_text().splitlines()]


def test_a_gate_is_judged_on_servers_that_were_launched_elsewhere(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    result = run_gate()
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*placement: together, because a plugin launches the servers*"])
    (comparison,) = read_result(pytester.path / ".specdec" / "results.json").comparisons.values()
    assert [(server.arm, server.launch, server.log) for server in comparison.servers] == [
        ("baseline", 0, ""),
        ("specdec", 0, ""),
    ]
    assert all(server.startup_s > 0 and server.stop_s is not None for server in comparison.servers)
    assert "--speculative-config" in comparison.servers[1].command
    started = [entry for entry in journal(pytester) if entry[1] != "stopped"]
    assert sorted(entry[0] for entry in journal(pytester) if entry[1] == "stopped") == ["baseline", "specdec"]
    assert [pid for _, pid in started if psutil.pid_exists(int(pid))] == []


def test_none_leaves_the_launch_to_the_plugin(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    run_gate(first="return None").assert_outcomes(passed=1)
    assert not (pytester.path / "journal.txt").exists()


def test_a_launch_that_fails_is_an_error_that_says_so(run_gate: Callable[..., pytest.RunResult]) -> None:
    result = run_gate(first="raise RuntimeError('no node is free')")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(
        ["*pytest_specdec_launch could not start the baseline server: RuntimeError: no node is free*"]
    )


def test_a_server_that_never_answers_is_an_error_and_is_stopped(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    result = run_gate(first="argv = ('sleep', '1000')", startup_timeout_s=1)
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*the baseline server, launched by a plugin, was not ready after 1 s: *"])
    assert [entry[1] for entry in journal(pytester)][1:] == ["stopped"]


def test_what_is_on_this_machine_says_nothing_about_servers_elsewhere(
    run_gate: Callable[..., pytest.RunResult],
) -> None:
    """The command is no program here; the conftest replaces it."""
    fake = "import sys; argv = (sys.executable, '-m', 'pytest_specdec.testing.fake_vllm', *argv[1:])"
    run_gate(first=fake, command=["vllm-on-the-cluster"]).assert_outcomes(passed=1)


def test_one_that_cannot_be_stopped_fails_the_run_and_loses_no_results(
    run_gate: Callable[..., pytest.RunResult], pytester: pytest.Pytester
) -> None:
    result = run_gate(last="assert arm != 'baseline', 'the cluster does not answer'")
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(
        ["ERROR: the baseline server could not be ended: AssertionError: the cluster does not answer*"]
    )
    result.assert_outcomes(passed=1)
    assert len(read_result(pytester.path / ".specdec" / "results.json").gates) == 1
    assert len(journal(pytester)) == 4
