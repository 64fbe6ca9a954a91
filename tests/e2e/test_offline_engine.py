"""vLLM's offline engine and its server agree: the same requests, one set of flags, two ways in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.commands.offline import planned, run_planned
from pytest_specdec.core.acceptance import acceptance_of
from pytest_specdec.core.config import load_configs
from pytest_specdec.core.contributions import contributions
from pytest_specdec.core.intervals import ratio_over_prompts
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.bundled import bundled_workloads
from pytest_specdec.load.workload import read_workload
from pytest_specdec.progress import SilentProgress
from pytest_specdec.rounds import run_once
from pytest_specdec.serving.command import plan_launch
from pytest_specdec.serving.pool import ServerPool

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.samples import ArmRun
    from tests.e2e.live_project import LiveProject

EAGLE3 = {"method": "eagle3", "model": "../drafts/smollm2-135m-eagle3", "num_speculative_tokens": 3}
LOAD = LoadSpec(workload="chat", concurrency=8, num_requests=16, max_tokens=48)


def served(config: SpecConfig, folder: Path) -> ArmRun:
    """The requests of the load through a server."""
    workload = read_workload(bundled_workloads()[LOAD.workload], name=LOAD.workload)
    pool = ServerPool(folder, lambda _: None)
    try:
        server = pool.acquire("specdec", lambda port, name: plan_launch(config, "specdec", port=port, served_name=name))
        return run_once(
            server,
            [server],
            workload,
            LOAD,
            own_pids=pool.pids(),
            index=0,
            position=0,
            plan=0,
            fresh=False,
            progress=SilentProgress(),
        )
    finally:
        pool.close_all()


def test_engine_and_server_accept_alike_and_nothing_is_left(make_project: Callable[[str], LiveProject]) -> None:
    project = make_project("offline")
    project.add_config("eagle3", "../models/smollm2-135m-instruct", EAGLE3)
    (config,), _ = load_configs([project.folder / project.configs[0]], default_model=None)
    by_server = served(config, project.folder / "server")
    workload = read_workload(bundled_workloads()[LOAD.workload], name=LOAD.workload)
    by_engine = run_planned(config, "specdec", planned(workload, LOAD), LOAD, directory=project.folder / "engine")

    samples = by_server.successes
    known = contributions(
        [sample.spec for sample in samples], np.arange(len(samples)), [by_server.table], by_server.counters
    )
    assert known is not None
    _, interval = ratio_over_prompts(known.accepted, known.drafts, 0.95)
    length = acceptance_of(by_engine.counters).acceptance_length
    server_length = acceptance_of(by_server.counters).acceptance_length
    print(f"acceptance length: engine {length}, server {server_length}, interval {interval}")  # noqa: T201 - on a failure
    assert length is not None
    assert interval.low is not None
    assert interval.high is not None
    assert 1 + interval.low <= length <= 1 + interval.high

    same = sum(ids == sample.token_ids for ids, sample in zip(by_engine.token_ids, samples, strict=True))
    print(f"{same} of {len(samples)} answers are the same")  # noqa: T201 - as above
    # Greedy answers may part at near ties, since batches differ; most of them do not.
    assert same >= len(samples) / 2
    assert project.server_processes() == []
