"""The command as a process: version, wrong arguments, a closed pipe, and nothing heavy before it is needed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from pytest_specdec import __version__
from pytest_specdec.cli import main

DATA_PARALLEL = str(Path(__file__).parents[1] / "data" / "metrics" / "data_parallel.txt")
COMMAND = [sys.executable, "-m", "pytest_specdec.cli"]


def test_command_runs_as_a_process() -> None:
    done = subprocess.run([*COMMAND, "acceptance", DATA_PARALLEL, "--json"], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["drafts"] == 513


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="0"):
        main(["--version"])
    assert capsys.readouterr().out == f"pytest-specdec {__version__}\n"


@pytest.mark.parametrize("arguments", [[], ["accept"], ["acceptance"], ["schema", "toml"]])
def test_wrong_arguments_exit_with_2(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(arguments)
    assert "usage: pytest-specdec" in capsys.readouterr().err


def test_closed_pipe_is_no_traceback() -> None:
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [*COMMAND, "schema", "results"], stdout=writer, stderr=subprocess.PIPE, text=True, check=False
        )
    finally:
        os.close(writer)
    assert (done.returncode, done.stderr) == (141, "")


def test_interrupt_is_no_traceback(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(_: object) -> str:
        raise KeyboardInterrupt

    monkeypatch.setattr("pytest_specdec.commands.acceptance.run", interrupted)
    assert main(["acceptance", DATA_PARALLEL]) == 130
    assert capsys.readouterr().err == ""


def test_schema_of_results_is_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["schema", "results"]) == 0
    assert json.loads(capsys.readouterr().out)["title"] == "pytest-specdec results"


def test_importing_the_command_loads_nothing_heavy() -> None:
    heavy = ("aiohttp", "numpy", "prometheus_client", "pydantic", "pytest", "scipy", "yaml")
    code = f"import sys, pytest_specdec.cli; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
