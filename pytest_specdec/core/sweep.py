"""Several loads in one test: which they are, and the load at which a gain is gone.

Imported while tests are collected, so it stays free of heavy imports. What turns comparisons into points is in
:mod:`pytest_specdec.core.crossover_verdicts`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Literal

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.load_spec import LoadSpec, merge_load
from pytest_specdec.core.objectives import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.verdict import Estimate, Requirement

SweptField = Literal["concurrency", "request_rate"]
SWEPT: tuple[SweptField, SweptField] = ("concurrency", "request_rate")
REQUESTS_PER_SLOT = 4
"""A closed loop of so many requests per place in flight has a steady window three quarters long."""
ARRIVALS_S = 20.0
"""So long the arrivals of every rate of a sweep last at least: answers that take a few seconds must overlap as in production."""


def loads_of(layers: Sequence[Mapping[str, Any]]) -> tuple[LoadSpec, ...]:
    """The loads of a test, the lowest first: one, or one for each value of a list.

    In a sweep ``num_requests`` is the least: a load gets more where its steady window needs them, :data:`REQUESTS_PER_SLOT`
    for each place of a closed loop, :data:`ARRIVALS_S` seconds of arrivals in an open one.

    Args:
        layers: Valid values, the farthest (weakest) first; the nearest ``concurrency`` or ``request_rate`` wins, be it a
            list or not.
    """
    values = [(name, layer[name]) for layer in layers for name in SWEPT if layer.get(name) is not None]
    plain = [
        {name: value for name, value in layer.items() if name not in SWEPT or not isinstance(value, list | tuple)}
        for layer in layers
    ]
    if not values or not isinstance(values[-1][1], list | tuple):
        return (merge_load(plain),)
    name, several = values[-1]
    return tuple(_long_enough(merge_load([*plain, {name: value}])) for value in several)


def _long_enough(load: LoadSpec) -> LoadSpec:
    needed = (
        REQUESTS_PER_SLOT * load.concurrency
        if load.concurrency is not None
        else math.ceil(ARRIVALS_S * (load.request_rate or 0.0))
    )
    return replace(load, num_requests=max(load.num_requests, needed))


def swept_field(loads: Sequence[LoadSpec]) -> SweptField:
    """What differs between the loads of a sweep."""
    return "request_rate" if loads[0].open_loop else "concurrency"


def amount(load: LoadSpec) -> float:
    """The concurrency or the request rate."""
    return float(load.request_rate or load.concurrency or 0)


def check_requirement(requirement: Requirement, loads: Sequence[LoadSpec]) -> None:
    """Refuse what no measurement under these loads could judge.

    Raises:
        CannotMeasure: With what to change.
    """
    objective = REGISTRY[requirement.objective]
    if objective.kind != "sweep" or len(loads) == 1:
        for load in loads:
            objective.precheck(load)
        return
    name = swept_field(loads)
    wanted = "request_rate" if requirement.objective == "min_crossover_rate" else "concurrency"
    values = [amount(load) for load in loads]
    if name != wanted:
        other = "min_crossover_rate" if name == "request_rate" else "min_crossover_concurrency"
        raise CannotMeasure(
            f"{requirement.label} needs a list at {wanted}, and this test sweeps {name}",
            remedy=f"Declare {other}, or sweep {wanted}=[...].",
        )
    if requirement.required > values[-1]:
        raise CannotMeasure(
            f"{requirement.label}={requirement.required:g} lies above the highest load of the sweep, {values[-1]:g}: no gain is "
            "measured there",
            remedy=f"Add {requirement.required:g} to {wanted}=[{', '.join(f'{value:g}' for value in values)}].",
        )


@dataclass(frozen=True)
class Crossover:
    """The load at which a gain is gone."""

    value: float
    """Interpolated in log(load) where the gain's estimate turns negative; the highest or the lowest load of the sweep where it
    does not, see ``censored``."""
    low: float | None
    """Largest load at which the gain is proven to be above 0; None where it is at none."""
    high: float | None
    """Smallest load at which it is proven to be below 0; None where it is at none."""
    censored: Literal["", "above", "below"] = ""
    """On which side of ``value`` it lies, where all estimates are on one side of 0."""

    def __str__(self) -> str:
        """``27.3 (8 .. 32)``, ``above 32``, ``below 1``."""
        if self.censored:
            return f"{self.censored} {self.value:g}"
        low, high = ("?" if end is None else f"{end:g}" for end in (self.low, self.high))
        return f"{self.value:.3g} ({low} .. {high})"


def crossover(loads: Sequence[float], gains: Sequence[Estimate]) -> Crossover:
    """Where the gain is gone, taking it that a gain once lost does not come back at a higher load.

    The bounds are loads that were measured: the smallest at which the gain is proven to be lost, and the largest below that
    at which it is proven to be there. Between them the value is where the straight line through two neighbouring estimates,
    over the logarithm of the load, first reaches 0.

    Args:
        loads: Ascending, above 0, at least one.
        gains: Of each, with intervals; a side without a bound proves nothing.
    """
    lost = [at for at, gain in enumerate(gains) if gain.high is not None and gain.high < 0]
    first_lost = lost[0] if lost else len(loads)
    there = [at for at, gain in enumerate(gains[:first_lost]) if gain.low is not None and gain.low > 0]
    low = loads[there[-1]] if there else None
    high = loads[first_lost] if lost else None
    first, last = there[-1] if there else 0, min(first_lost, len(loads) - 1)
    if gains[first].value <= 0:
        return Crossover(loads[first], low, high, censored="below")
    for at, after in pairwise(range(first, last + 1)):
        if gains[after].value <= 0:
            value = _zero(loads[at], gains[at].value, loads[after], gains[after].value)
            return Crossover(min(max(value, loads[at]), loads[after]), low, high)
    return Crossover(loads[last], low, high, censored="above")


def _zero(before: float, gain_before: float, after: float, gain_after: float) -> float:
    """Where the line through both reaches 0, over log(load); ``gain_before > 0 >= gain_after``."""
    share = gain_before / (gain_before - gain_after)
    return math.exp(math.log(before) + share * (math.log(after) - math.log(before)))
