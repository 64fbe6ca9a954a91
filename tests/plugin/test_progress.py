"""The line that says how far a run is: on a terminal, on a dumb one, in CI, in a file."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from _pytest.terminal import TerminalReporter

from pytest_specdec.progress import TerminalProgress

if TYPE_CHECKING:
    from collections.abc import Callable

LONG = "eagle3: chat, round 2 of 4, specdec (TPOT gain 31.0 % so far, about 20 s of rounds left)"


class Screen(io.StringIO):
    """What was written, and whether it claims to be a terminal."""

    def __init__(self, *, terminal: bool) -> None:
        super().__init__()
        self._terminal = terminal

    def isatty(self) -> bool:
        return self._terminal


class Clock:
    now_s = 0.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def progress_on(
    pytester: pytest.Pytester, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> Callable[..., tuple[TerminalProgress, Screen]]:
    def build(*, terminal: bool, width: int = 80, **environment: str) -> tuple[TerminalProgress, Screen]:
        for name, value in ({"TERM": "xterm-256color", "COLUMNS": str(width)} | environment).items():
            monkeypatch.setenv(name, value)
        config = pytester.parseconfig()
        screen = Screen(terminal=terminal)
        config.pluginmanager.unregister(name="terminalreporter")
        config.pluginmanager.register(TerminalReporter(config, screen), "terminalreporter")
        config.pluginmanager.unregister(name="capturemanager")
        return TerminalProgress(config, clock=clock), screen

    return build


def test_a_terminal_has_one_line_that_changes_and_is_wiped(
    progress_on: Callable[..., tuple[TerminalProgress, Screen]], clock: Clock
) -> None:
    progress, screen = progress_on(terminal=True)
    progress.phase("eagle3: starting")
    clock.now_s = 5.0
    progress.detail("3/8 requests")
    progress.close()
    drawn = screen.getvalue().split("\r\x1b[K")
    assert [line.strip("\n") for line in drawn] == [
        "",
        "specdec: eagle3: starting",
        "specdec: eagle3: starting: 3/8 requests (5 s)",
        "",
    ]


@pytest.mark.parametrize("width", [80, 200])
def test_the_line_leaves_the_last_column_empty(
    width: int, progress_on: Callable[..., tuple[TerminalProgress, Screen]]
) -> None:
    progress, screen = progress_on(terminal=True, width=width)
    progress.phase(3 * LONG)
    assert len(screen.getvalue().rpartition("\x1b[K")[2]) == width - 1


def test_it_is_redrawn_a_few_times_a_second_at_most(
    progress_on: Callable[..., tuple[TerminalProgress, Screen]], clock: Clock
) -> None:
    progress, screen = progress_on(terminal=True)
    progress.phase("eagle3: starting")
    for done in range(100):
        clock.now_s = done / 100
        progress.detail(f"{done}/100 requests")
    assert 3 <= screen.getvalue().count("requests") <= 5


@pytest.mark.parametrize(
    ("terminal", "environment"),
    [(False, {}), (True, {"TERM": "dumb"}), (True, {"CI": "true"}), (True, {"BUILD_NUMBER": "7"})],
    ids=["file", "dumb", "CI", "jenkins"],
)
@pytest.mark.parametrize("width", [80, 200])
def test_elsewhere_each_phase_has_lines_of_its_own(
    terminal: bool,  # noqa: FBT001 - a parameter
    environment: dict[str, str],
    width: int,
    progress_on: Callable[..., tuple[TerminalProgress, Screen]],
) -> None:
    progress, screen = progress_on(terminal=terminal, width=width, **environment)
    progress.phase("eagle3: starting")
    progress.phase(LONG)
    progress.phase(LONG)
    progress.detail("3/8 requests")
    progress.close()
    lines = screen.getvalue().splitlines()
    assert " ".join(" ".join(lines).split()) == f"specdec: eagle3: starting specdec: {LONG}"
    assert max(map(len, lines)) <= width
    assert len(lines) == (3 if width == 80 else 2)
    assert re.findall(r"[^\n -~]", screen.getvalue()) == []


def test_a_log_has_a_sign_of_life_every_minute(
    progress_on: Callable[..., tuple[TerminalProgress, Screen]], clock: Clock
) -> None:
    progress, screen = progress_on(terminal=False)
    progress.phase("eagle3: round 1")
    for second in range(150):
        clock.now_s = float(second)
        progress.detail(f"{second}/500 requests")
    assert screen.getvalue().splitlines() == [
        "specdec: eagle3: round 1",
        "specdec: eagle3: round 1: 60/500 requests (60 s)",
        "specdec: eagle3: round 1: 120/500 requests (120 s)",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_names_move_no_cursor(
    terminal: bool,  # noqa: FBT001 - a parameter
    progress_on: Callable[..., tuple[TerminalProgress, Screen]],
) -> None:
    progress, screen = progress_on(terminal=terminal)
    progress.phase("eagle\x1b[2J3\rstarting")
    assert "eagle\\x1b[2J3\\x0dstarting" in screen.getvalue()
