"""Step 1: the goal, the classes of traffic, and whether the machine is free to tell."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from pytest_specdec.fixtures import GATES

if TYPE_CHECKING:
    from collections.abc import Mapping

    import pytest

    from pytest_specdec.acceptance.conditions import Conditions
    from pytest_specdec.core.config import SpecConfig

_GOALS = {
    "latency": "goal latency: low load decides; speculation trades spare compute for shorter answers",
    "throughput": "goal throughput: high load decides; a busy server has little compute to spare, so expect little",
    "both": "goal: none set, so both low and high load count (--specdec-acceptance goal=latency or goal=throughput)",
}


def goal_lines(conditions: Conditions) -> list[str]:
    """What speculation is to improve, and at which loads that is measured."""
    return [_GOALS[conditions.procedure.goal], *conditions.notes]


def classes_of(config: SpecConfig, conditions: Conditions, request: pytest.FixtureRequest) -> list[str]:
    """What each workload holds, by class; raises where one is not there."""
    from pytest_specdec.commands.workload import look
    from pytest_specdec.core.workload_options import WorkloadOptions
    from pytest_specdec.workload_search import find_workload

    ini: Mapping[str, object] = request.config.stash[GATES].options.workloads
    lines = []
    for name in dict.fromkeys((*conditions.workloads, conditions.traffic)):
        found = find_workload(name, config=config, ini=ini, test_dir=request.path.parent)  # type: ignore[arg-type]
        looked = look(found.path, found.options or WorkloadOptions(), classify=True)
        classes = ", ".join(f"{count} {kind}" for kind, count in looked.classes.most_common())
        lines.append(f"workload {name}: {looked.summary.prompts} prompts ({classes} by the rules)")
    if not config.workloads:
        lines.append(
            "these are bundled prompts: name your own traffic under `workloads` of the config for an answer about it"
        )
    return lines


def machine_lines(conditions: Conditions) -> list[str]:
    """Whether others use the machine; their work would be measured, too."""
    cores = len(os.sched_getaffinity(0))
    busy = os.getloadavg()[0] / cores
    limit = conditions.procedure.busy
    state = f"{100 * busy:.0f} % of {cores} cores in use over the last minute"
    if busy > limit:
        return [f"the machine is busy ({state}, more than {100 * limit:.0f} %): expect wide intervals"]
    return [
        f"the machine is free ({state})",
        f"a server whose device is busy for more than {100 * limit:.0f} % in production has no compute to spare for drafts: see high load",
    ]
