"""A server that dies while it is measured is an ERROR that says so: never a pass, never a miss."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.e2e.test_nothing_left_behind import LONG_MEASUREMENT, NGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.live_project import Finished, LiveProject


@pytest.fixture(scope="module")
def finished(make_project: Callable[[str], LiveProject]) -> Finished:
    """A run whose speculating server was killed in its first round."""
    project = make_project("dying")
    project.add_config("ngram", "../models/tiny-mimo", NGRAM, load_format="dummy")
    project.add_tests(LONG_MEASUREMENT)
    project.start()
    project.wait_until(lambda: "round 1 of" in project.output, timeout_s=1200)
    (server,) = [process for process in project.server_processes() if "--speculative-config" in process.cmdline()]
    server.kill()
    return project.finish(timeout_s=3000)


def test_the_gate_is_an_error_and_blocks(finished: Finished) -> None:
    assert finished.exit_code == 1
    assert finished.gate("test_gate").outcome == "error"
    assert "1 error" in finished.output


def test_the_message_names_the_server_and_its_end(finished: Finished) -> None:
    message = finished.gate("test_gate").message
    assert "specdec server" in message
    assert "SIGKILL" in message
