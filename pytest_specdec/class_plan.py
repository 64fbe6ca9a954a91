"""Floors for classes held against a workload and its plan, before any server is started."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.objectives import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.verdict import Requirement
    from pytest_specdec.load.workload import Workload
    from pytest_specdec.measuring import Measurement


def class_requirements(requirements: Sequence[Requirement], measurement: Measurement) -> tuple[Requirement, ...]:
    """The requirements with a floor of every class made one for each class of the workload.

    Raises:
        MarkError: A floor is for a class that the workload does not have.
        CannotMeasure: The plan has too few prompts of a class to judge it.
    """
    if not any(REGISTRY[one.objective].per_class for one in requirements):
        return tuple(requirements)
    from pytest_specdec.core.class_floors import for_classes
    from pytest_specdec.core.class_sums import class_name

    workload = measurement.workload
    there = Counter(class_name(prompt.category) for prompt in workload.prompts)
    classes = () if {prompt.category for prompt in workload.prompts} == {None} else tuple(sorted(there))
    found = for_classes(requirements, classes, workload=workload.name)
    planned = _planned(measurement)
    for requirement in found:
        if requirement.part is not None and REGISTRY[requirement.objective].per_class:
            _check_enough(requirement, planned, there, workload, measurement.load)
    return found


def _planned(measurement: Measurement) -> Counter[str]:
    """Different prompts of each class before the first verdict."""
    from pytest_specdec.core.class_sums import class_name
    from pytest_specdec.load.arrivals import plan_requests

    fresh = measurement.plan_is_fresh
    prompts = {
        request.prompt.index: request.prompt
        for index in range(measurement.load.rounds if fresh else 1)
        for request in plan_requests(measurement.workload, measurement.load, round_index=index, fresh=fresh)
    }
    return Counter(class_name(prompt.category) for prompt in prompts.values())


def _check_enough(
    requirement: Requirement, planned: Mapping[str, int], there: Mapping[str, int], workload: Workload, load: LoadSpec
) -> None:
    from pytest_specdec.core.class_acceptance import FEWEST_PROMPTS

    name = requirement.part or ""
    have = planned.get(name, 0)
    if have >= FEWEST_PROMPTS:
        return
    if there[name] < FEWEST_PROMPTS:
        remedy = f"The workload has {there[name]} of them: add prompts of that class, or remove its floor."
    else:
        share = (workload.mix or {}).get(name, there[name] / sum(there.values()))
        remedy = f"Set num_requests to about {math.ceil(FEWEST_PROMPTS / share)}, or give the class a larger share."
    raise CannotMeasure(
        f"{requirement.label}: {have} of the {load.num_requests} requests are different prompts of class {name!r}, and "
        f"{FEWEST_PROMPTS} are needed to judge it",
        remedy=remedy,
    )
