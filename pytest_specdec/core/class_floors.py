"""Floors for every class: which requirements they make, and the figures that are held against them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.class_acceptance import (
    FEWEST_PROMPTS,
    class_gain,
    class_length,
    class_tokens_per_step,
    prompts_of,
)
from pytest_specdec.core.class_sums import class_sums, classes_of
from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.suggest import did_you_mean

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.class_sums import ClassSums
    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.verdict import Estimate, Requirement


def for_classes(
    requirements: Sequence[Requirement], classes: Sequence[str], *, workload: str
) -> tuple[Requirement, ...]:
    """The same with a floor of every class made one for each of them.

    Args:
        requirements: Of a test.
        classes: That the workload has.
        workload: Its name, for errors.

    Raises:
        MarkError: A floor is for a class that the workload does not have.
    """
    from pytest_specdec.core.objectives import REGISTRY

    found: list[Requirement] = []
    for requirement in requirements:
        if not REGISTRY[requirement.objective].per_class:
            found.append(requirement)
            continue
        if not classes:
            raise MarkError(
                f"{requirement.label}: no prompt of workload {workload!r} has a class",
                remedy="Give prompts a `category`, set `classify: true`, or name several workloads: workload=['code', 'chat'].",
            )
        if requirement.part is None:
            found += [replace(requirement, part=name) for name in classes]
        elif requirement.part in classes:
            found.append(requirement)
        else:
            raise unknown_class(requirement, classes, workload)
    return tuple(found)


def unknown_class(requirement: Requirement, classes: Sequence[str], workload: str) -> MarkError:
    """The error about a class that is not there."""
    meant = did_you_mean(requirement.part or "", classes)
    return MarkError(
        f"{requirement.objective}: no prompt of workload {workload!r} has class {requirement.part!r}"
        + (f"; did you mean {meant!r}?" if meant else ""),
        remedy=f"Its classes: {', '.join(classes)}.",
    )


def acceptance_length(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Of the requirement's class."""
    return class_length(_sums(evidence, requirement), evidence)


def tokens_per_step(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Of the requirement's class."""
    return class_tokens_per_step(_sums(evidence, requirement), evidence)


def tpot_gain(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Of the requirement's class."""
    name = _class_of(evidence, requirement)
    _check_enough(requirement, _prompts(evidence, name))
    return class_gain(name, evidence)


def _sums(evidence: Evidence, requirement: Requirement) -> ClassSums:
    name = _class_of(evidence, requirement)
    (sums,) = (one for one in class_sums(evidence) if one.name == name)
    _check_enough(requirement, sums.prompts)
    return sums


def _class_of(evidence: Evidence, requirement: Requirement) -> str:
    classes = classes_of(evidence.comparison)
    if requirement.part is None or requirement.part not in classes:
        raise CannotMeasure(
            f"{requirement.label}: no request of class {requirement.part!r} was answered",
            remedy=f"Classes measured: {', '.join(classes) or 'none'}.",
        )
    return requirement.part


def _prompts(evidence: Evidence, name: str) -> int:
    return len(np.unique(prompts_of(evidence.comparison, name)))


def _check_enough(requirement: Requirement, prompts: int) -> None:
    if prompts < FEWEST_PROMPTS:
        raise CannotMeasure(
            f"{requirement.label}: {prompts} different prompts of the class were answered, and {FEWEST_PROMPTS} are needed to judge it",
            remedy="Raise num_requests, or give the class a larger share of the requests.",
        )
