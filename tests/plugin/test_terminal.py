"""A whole run as a person sees it: in a terminal with and without colour, on a dumb one, and in a log.

Each run is a process of its own on a terminal (a pty) or a pipe of 80 columns.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.plugin.started_run import write_project

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
COLUMNS = 80
TESTS = """
import pytest

@pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=16)
@pytest.mark.spec_slo(tpot_gain=0.99, min_acceptance_length=1.5)
def test_what_is_missed(spec_comparison):
    pass

@pytest.mark.spec_load(workload="tiny", concurrency=4, num_requests=8, max_tokens=16)
@pytest.mark.spec_slo(min_acceptance_length=1.5)
def test_what_is_met(spec_comparison):
    pass

@pytest.mark.spec_load(workload="nowhere")
@pytest.mark.spec_slo(tpot_gain=0.1)
def test_what_cannot_be_measured(spec_comparison):
    pass
"""
NOTE = "\x1b[31mred\x1b[0m and a note that is longer than any terminal that has eighty columns to show it in"
CONFTEST = f"def pytest_specdec_notes():\n    return [{NOTE!r}]\n"
CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
COLOUR = re.compile(r"\x1b\[[0-9;]*m")
WIPED = "\r\x1b[K"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    write_project(tmp_path, fake={"tpot_ms": 8, "ttft_ms": 4, "answer_tokens": [16, 16]}, tests=TESTS)
    (tmp_path / "conftest.py").write_text(CONFTEST)
    return tmp_path


@pytest.fixture
def seen(project: Path) -> Callable[..., str]:
    """What a run writes."""

    def run(*arguments: str, terminal: bool, **environment: str) -> str:
        command = [sys.executable, "-m", "pytest", "-p", "pytest_specdec.plugin", "-v", "--specdec-config=fake.json"]
        unset = ("COLUMNS", "NO_COLOR", "FORCE_COLOR", "PY_COLORS", "PYTEST_ADDOPTS", "CI", "TERM")
        inherited = {name: value for name, value in os.environ.items() if name not in unset}
        own = {"TERM": "xterm-256color", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": f"{ROOT}"}
        environ = inherited | own | environment
        command += arguments
        if not terminal:
            done = subprocess.run(
                command, cwd=project, env=environ, capture_output=True, text=True, check=False, timeout=600
            )
            return done.stdout + done.stderr
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
        with subprocess.Popen(
            command, cwd=project, env=environ, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs
        ):
            os.close(theirs)
            read = b""
            with contextlib.suppress(OSError):  # how Linux says that the other side is gone
                while chunk := os.read(ours, 65536):
                    read += chunk
        os.close(ours)
        return read.decode().replace("\r\n", "\n")

    return run


def ours_of(text: str) -> list[str]:
    """Lines that this plugin writes: its part of the header, its progress, its sections."""
    lines = [part for line in text.split("\n") for part in line.split(WIPED)]
    start = next(place for place, line in enumerate(lines) if "- speculative decoding -" in line)
    section = lines[start : next(place for place, line in enumerate(lines) if place > start and "====" in line)]
    end = next(place for place, line in enumerate(lines) if "= speculative decoding =" in line)
    summary = lines[end : next(place for place, line in enumerate(lines) if place > end and "short test" in line)]
    assert len(section) > 20
    assert len(summary) > 8
    return [*(line for line in lines if line.startswith("specdec")), *section, *summary]


@pytest.mark.parametrize("environment", [{}, {"TERM": "dumb"}], ids=["pipe", "dumb"])
def test_a_log_has_lines_of_its_width_and_nothing_that_a_terminal_would_obey(
    environment: dict[str, str], seen: Callable[..., str]
) -> None:
    text = seen(terminal="TERM" in environment, **environment)
    assert re.search("^specdec: fake: .*round 2 of 2, specdec", text, re.MULTILINE)
    assert [line for line in ours_of(text) if len(line) > COLUMNS] == []
    assert CONTROL.findall("".join(ours_of(text))) == []
    assert "\x1b" not in text
    assert "note: \\x1b[31mred\\x1b[0m and a note" in text


@pytest.mark.parametrize(
    ("arguments", "environment"),
    [((), {}), (("--color=no",), {}), ((), {"NO_COLOR": "1"})],
    ids=["on", "no", "NO_COLOR"],
)
def test_a_terminal_says_the_same_with_and_without_colour(
    arguments: tuple[str, ...], environment: dict[str, str], seen: Callable[..., str]
) -> None:
    text = seen(*arguments, terminal=True, **environment)
    coloured = not (arguments or environment)
    assert bool(COLOUR.search(text)) == coloured
    plain = COLOUR.sub("", text)
    assert re.search(f"{re.escape(WIPED)}specdec: fake: .*round 2 of 2, specdec", plain)
    assert [line for line in ours_of(plain) if len(line) > COLUMNS] == []
    assert CONTROL.findall("".join(ours_of(plain))) == []
    # Verdicts and errors are words.
    assert re.search(r"^  FAIL    tpot_gain", plain, re.MULTILINE)
    assert re.search(r"^  ok      min_acceptance_length", plain, re.MULTILINE)
    assert re.search(r"^ERROR +test_gate.py::test_what_cannot_be_measured", plain, re.MULTILINE)
