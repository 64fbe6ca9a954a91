"""Objectives that a conftest or another plugin adds: a figure of each round, judged like any other."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

from pytest_specdec.core import slo_values
from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.objective import Objective
from pytest_specdec.core.objectives import REGISTRY, add, remove
from pytest_specdec.core.verdict import Direction, Estimate, Requirement, Unit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.samples import ArmRun


@dataclass(frozen=True)
class OwnObjective:
    """What ``pytest_specdec_objectives`` returns: one name more for ``spec_slo``."""

    name: str
    unit: Unit
    """``fraction``, ``ms``, ``tokens``, ``tok/s``, ``GiB``, ``s``, ``count`` or ``req/s``."""
    direction: Direction
    """``higher``: the figure must reach the mark's value; ``lower``: it must not exceed it."""
    summary: str
    """What is measured, in a sentence."""
    per_round: Callable[[ArmRun, ArmRun], float | None]
    """The figure of one round, from the baseline's half and the speculating server's; None where it has none. Rounds are independent
    trials, so the interval is Student's t over them."""


def register(objectives: Iterable[OwnObjective]) -> Callable[[], None]:
    """Make them known to marks. Returns a function that makes them unknown again.

    Raises:
        MarkError: A name is no name or is taken, or a unit or direction does not exist.
    """
    added: list[str] = []
    for own in objectives:
        problem = _problem(own)
        if problem:
            remove(added)
            raise MarkError(f"objective {own.name!r}: {problem}")
        add(_entry(own))
        added.append(own.name)
    return lambda: remove(added)


def _problem(own: OwnObjective) -> str | None:
    if not own.name.isidentifier() or own.name == "configs":
        return "marks cannot name that; take letters, digits and underscores"
    if own.name in REGISTRY:
        return "there is one of that name already"
    for what, value, known in (("unit", own.unit, get_args(Unit)), ("direction", own.direction, get_args(Direction))):
        if value not in known:
            return f"{what} {value!r} does not exist; there are {', '.join(known)}"
    return None


def _entry(own: OwnObjective) -> Objective:
    return Objective(
        own.name,
        unit=own.unit,
        direction=own.direction,
        kind="own",
        summary=own.summary,
        values=lambda name, value: (Requirement(name, slo_values.number(name, value)),),
        estimator=lambda evidence, _: _estimate(own, evidence),
    )


def _estimate(own: OwnObjective, evidence: Evidence) -> Estimate:
    """The mean over rounds, with a t interval."""
    import numpy as np

    from pytest_specdec.core.throughput import over_time

    comparison = evidence.comparison
    values = []
    for baseline, specdec in zip(comparison.arm("baseline"), comparison.arm("specdec"), strict=True):
        try:
            value = own.per_round(baseline, specdec)
        except Exception as error:
            raise CannotMeasure(
                f"{own.name}: its function failed in round {baseline.round + 1}: {type(error).__name__}: {error}"
            ) from error
        if value is None or not math.isfinite(value):
            raise CannotMeasure(f"{own.name}: round {baseline.round + 1} has no figure ({value})")
        values.append(float(value))
    figures = np.array(values)
    centre = float(figures.mean())
    interval = over_time(evidence, figures, centre)
    return Estimate(
        centre,
        interval.low,
        interval.high,
        level=evidence.level,
        samples=len(values),
        basis=interval.basis,
        limited_by=interval.limited_by,
    )
