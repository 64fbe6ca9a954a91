"""Placement ``sequential`` on real vLLM: two launches of each server, never two at once, and a verdict at the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.e2e.test_nothing_left_behind import NGRAM

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.live_project import LiveProject

GATE = """
import pytest


@pytest.mark.spec_load(load="pair", num_requests=8, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(min_acceptance_length=1.5)
def test_gate(spec_comparison):
    pass
"""


def test_servers_take_turns_and_the_gate_is_judged(make_project: Callable[[str], LiveProject]) -> None:
    project = make_project("turns")
    project.add_config(
        "ngram", "../models/tiny-mimo", NGRAM, max_tokens=64, placement="sequential", load_format="dummy"
    )
    project.add_tests(GATE)
    project.start()
    finished = project.finish(timeout_s=3000)
    assert finished.exit_code == 0, finished.output
    comparison = finished.comparison(finished.gate("test_gate"))
    assert [(server.arm, server.launch) for server in comparison.servers] == [
        ("baseline", 0),
        ("specdec", 0),
        ("specdec", 1),
        ("baseline", 1),
    ]
    ran = sorted(comparison.runs, key=lambda run: run.started_unix_s)
    assert [(run.arm, run.round) for run in ran] == [("baseline", 0), ("specdec", 0), ("specdec", 1), ("baseline", 1)]
    assert all(server.stop_s is not None for server in comparison.servers)
    assert project.server_processes() == []
