"""Servers that each span several devices (here: two processes on CPU cores of their own), for both arms, with a draft that is spread, too."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.e2e.live_project import LiveProject

GATE = """
import pytest


@pytest.mark.spec_load(load="pair", num_requests=8, rounds=2, max_rounds=2)
@pytest.mark.spec_slo(min_acceptance_length=1.0)
def test_gate(spec_comparison):
    pass
"""
TWO = "world_size=2 rank=1"


def test_both_servers_are_spread_over_two_workers(make_project: Callable[[str], LiveProject]) -> None:
    project = make_project("spread")
    cores = sorted(os.sched_getaffinity(0))[:2]
    project.add_config(
        "mtp",
        "../models/tiny-mimo",
        {"method": "mtp", "num_speculative_tokens": 1},
        env={"VLLM_CPU_OMP_THREADS_BIND": "|".join(map(str, cores))},
        load_format="dummy",
        tensor_parallel_size=2,
    )
    project.add_tests(GATE)
    project.start()
    finished = project.finish(timeout_s=1800)
    assert finished.exit_code == 0, finished.output
    comparison = finished.comparison(finished.gate("test_gate"))
    for server in comparison.servers:
        assert TWO in (project.folder / Path(server.log)).read_text(encoding="utf-8")
    for arm in ("baseline", "specdec"):
        assert [len(run.successes) for run in finished.runs("test_gate", arm)] == [8, 8]
    assert all(run.counters.drafts for run in finished.runs("test_gate", "specdec"))
    assert project.server_processes() == []
