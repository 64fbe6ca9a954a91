"""The suite that docs/testing-your-suite.md tells users to copy, run as it stands there."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.exact_times import ON_SCHEDULE

DOCUMENT = Path(__file__).parents[2] / "docs" / "testing-your-suite.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", DOCUMENT.read_text(), re.MULTILINE | re.DOTALL)


@pytest.fixture
def suite(tmp_path: Path) -> Path:
    """The folder that the document describes."""
    named = {text.partition("\n")[0].removeprefix("# "): text for text in blocks("python")}
    for name in ("test_chat.py", "test_the_gate.py"):
        (tmp_path / name).write_text(named[name].replace('"ttft_ms": 50', '"ttft_ms": 50, "stamped": True'))
    # On a machine that has other things to do meanwhile, too, the gate is to be judged.
    (tmp_path / "conftest.py").write_text(ON_SCHEDULE)
    (tmp_path / "good.json").write_text(blocks("json")[0])
    return tmp_path


def test_the_documented_suite_does_what_its_tests_say(suite: Path) -> None:
    command = [sys.executable, "-m", "pytest", "test_the_gate.py", "-q", "-p", "no:cacheprovider"]
    # Gates of one machine wait for each other through a lock in the temporary folder; these need no device.
    env = {**os.environ, "TMPDIR": str(suite)}
    done = subprocess.run(command, cwd=suite, env=env, capture_output=True, text=True, check=False, timeout=3000)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_the_example_of_a_server_inside_a_test_runs(tmp_path: Path) -> None:
    [example] = [text for text in blocks("python") if "with FakeVllm(" in text]
    done = subprocess.run([sys.executable, "-c", example], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "Application startup complete" in done.stdout
