"""A sweep judged: every objective at every load, and the loads at which gains are gone.

All figures of a sweep share the permitted error equally, over its loads as over the looks, so that what is said about the sweep
as a whole - no load missed the objective, the crossover lies in this interval - is wrong as seldom as a verdict at a single load.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NoReturn

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.judge import judge, level_for, planned_looks
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.slo_values import CROSSING_GAINS
from pytest_specdec.core.sweep import Crossover, SweptField, amount, crossover, swept_field
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import SavedFor
    from pytest_specdec.core.verdict import Outcome


@dataclass(frozen=True)
class SweepPoint:
    """The gains at one load; None for one that is not defined there, such as throughput at a rate that the server keeps up with."""

    comparison: Comparison
    tpot_gain: Estimate | None
    throughput_gain: Estimate | None

    @property
    def load(self) -> float:
        """Its concurrency or request rate."""
        return amount(self.comparison.load)


@dataclass(frozen=True)
class Sweep:
    """Gain against load."""

    field: SweptField
    points: tuple[SweepPoint, ...]
    """The lowest load first."""

    def crossover(self, gain: str = "tpot_gain") -> Crossover | None:
        """The load at which ``tpot_gain`` or ``throughput_gain`` is gone; None where it is not defined at every load."""
        gains = [one for point in self.points if (one := getattr(point, gain)) is not None]
        return crossover([point.load for point in self.points], gains) if len(gains) == len(self.points) else None


def sweep_of(comparisons: Sequence[Comparison], *, looks: int | None = None) -> Sweep:
    """The gains at every load, with intervals that hold together.

    Args:
        comparisons: Of one config, at ascending loads.
        looks: How many times each may be judged in all; None takes the planned number.
    """
    points = []
    for comparison in comparisons:
        level = level_for(comparison.load.confidence, _looks(comparison, looks) * len(comparisons))
        evidence = Evidence(comparison, level)
        tpot, throughput = (_gain(evidence, gain) for gain in CROSSING_GAINS)
        points.append(SweepPoint(comparison, tpot, throughput))
    return Sweep(swept_field([comparison.load for comparison in comparisons]), tuple(points))


def measured_sweeps(
    comparisons: Mapping[str, Comparison], declared: Iterable[Sequence[str]] = ()
) -> list[dict[str, Comparison]]:
    """The sweeps among saved comparisons, by their keys, the lowest load first.

    Args:
        comparisons: By key.
        declared: Keys of sweeps that tests declared. Whatever is in none of them makes one, too, where one config was measured at
            several loads that are otherwise equal; of two equal loads the one with more requests counts.
    """
    sweeps = [
        {key: comparisons[key] for key in keys}
        for keys in dict.fromkeys(map(tuple, declared))
        if {*keys} <= {*comparisons}
    ]
    groups: dict[object, dict[float, str]] = {}
    by_requests = sorted(comparisons, key=lambda key: comparisons[key].load.num_requests)
    for key in by_requests:
        one = comparisons[key]
        same = replace(one.load, concurrency=None, request_rate=None, num_requests=1)
        if not any(key in sweep for sweep in sweeps):
            groups.setdefault((one.config_id, one.workload.sha256, one.load.open_loop, same), {})[amount(one.load)] = (
                key
            )
    several = (sorted(group.items()) for group in groups.values() if len(group) > 1)
    return [*sweeps, *({key: comparisons[key] for _, key in group} for group in several)]


def judge_sweep(
    comparisons: Sequence[Comparison],
    requirements: Sequence[Requirement],
    *,
    looks: int | None = None,
    saved_for: SavedFor | None = None,
) -> tuple[Verdict, ...]:
    """Verdicts of all requirements: each at every load, then the crossovers.

    Args:
        comparisons: At ascending loads, each with at least one round of both arms; one is no sweep, and is judged as it is.
        requirements: A merged ``spec_slo``.
        looks: How many times each load may be judged in all; None takes the planned number.
        saved_for: As in :func:`judge`.

    Raises:
        CannotMeasure: A measurement is invalid, or an objective has no number to be judged by.
    """
    if len(comparisons) == 1:
        return judge(comparisons[0], requirements, looks=looks, saved_for=saved_for)
    everywhere = [one for one in requirements if REGISTRY[one.objective].kind != "sweep"]
    at_each = [
        judge(
            comparison,
            [replace(one, at=comparison.load.at) for one in everywhere],
            looks=_looks(comparison, looks) * len(comparisons),
            saved_for=saved_for,
        )
        for comparison in comparisons
    ]
    verdicts = [verdict for of_one_objective in zip(*at_each, strict=True) for verdict in of_one_objective]
    crossing = [one for one in requirements if REGISTRY[one.objective].kind == "sweep"]
    if crossing:
        sweep = sweep_of(comparisons, looks=looks)
        verdicts += [_crossing(sweep, requirement) for requirement in crossing]
    return tuple(verdicts)


def worth_extending(verdicts: Iterable[Verdict], comparisons: Sequence[Comparison]) -> set[int]:
    """The loads, by place, at which more rounds could settle a verdict that is unsure."""
    places: set[int] = set()
    for verdict in verdicts:
        if verdict.outcome == "unsure":
            places |= set(_places(verdict.requirement, comparisons))
    return places


def shown_place(verdicts: Sequence[Verdict], comparisons: Sequence[Comparison]) -> int:
    """Which load's figures stand below the table: the first that was missed, else the first unsure one, else the lowest."""
    for outcome in ("FAIL", "unsure"):
        for verdict in verdicts:
            if verdict.outcome == outcome:
                return _places(verdict.requirement, comparisons)[-1]
    return 0


def of_one_load(evidence: Evidence, requirement: Requirement) -> NoReturn:
    """The estimator of crossovers in the registry, where a single comparison is all there is."""
    REGISTRY[requirement.objective].precheck(evidence.comparison.load)
    raise AssertionError


def _looks(comparison: Comparison, looks: int | None) -> int:
    return looks or len(planned_looks(comparison.load))


def _gain(evidence: Evidence, name: str) -> Estimate | None:
    try:
        return REGISTRY[name].estimate(evidence, Requirement(name, 0.0))
    except CannotMeasure:
        return None


def _places(requirement: Requirement, comparisons: Sequence[Comparison]) -> list[int]:
    """Where a requirement is judged; a crossover at the loads next to it, on either side."""
    if requirement.at:
        return [at for at, comparison in enumerate(comparisons) if comparison.load.at == requirement.at]
    loads = [amount(comparison.load) for comparison in comparisons]
    below = [at for at, load in enumerate(loads) if load <= requirement.required]
    above = [at for at, load in enumerate(loads) if load >= requirement.required]
    return [*below[-1:], *above[:1]]


def _crossing(sweep: Sweep, requirement: Requirement) -> Verdict:
    gain = requirement.part or CROSSING_GAINS[0]
    found = sweep.crossover(gain)
    if found is None:
        _explain_missing(sweep, gain)
        raise AssertionError  # one of the points has just said what is missing
    gains = [getattr(point, gain) for point in sweep.points]
    outcome: Outcome = "unsure"
    if found.low is not None and found.low >= requirement.required:
        outcome = "ok"
    elif (
        found.high is not None and found.high <= requirement.required
    ):  # where it is proven to be lost, it is gone before
        outcome = "FAIL"
    estimate = Estimate(
        value=found.value,
        low=found.low,
        high=found.high,
        level=gains[0].level,
        samples=len(gains),
        basis=f"interpolated in log(load) between {len(gains)} loads",
        limited_by="rounds",
        censored=found.censored,
    )
    objective = REGISTRY[requirement.objective]
    advice = "" if outcome == "ok" else _advice(sweep, requirement, gain, found)
    return Verdict(requirement, estimate, outcome, objective.direction, objective.unit, advice)


def _explain_missing(sweep: Sweep, gain: str) -> None:
    """Raise what keeps the gain from being estimated at one of the loads."""
    for point in sweep.points:
        evidence = Evidence(point.comparison, point.comparison.load.confidence)
        try:
            REGISTRY[gain].estimate(evidence, Requirement(gain, 0.0))
        except CannotMeasure as error:
            raise type(error)(f"at {point.comparison.load.at}: {error.what}", remedy=error.remedy) from None


def _advice(sweep: Sweep, requirement: Requirement, gain: str, found: Crossover) -> str:
    provable = "" if found.low is None else f"provable now: {requirement.label} >= {found.low:g}"
    if found.high is not None and found.high <= requirement.required:
        return provable
    if requirement.required not in [point.load for point in sweep.points]:
        settling = f"add {requirement.required:g} to {sweep.field}=[...]: what the {gain} is there would settle it"
    else:
        settling = "more rounds (max_rounds) or requests (num_requests) narrow the gain at that load"
    return "; ".join(filter(None, (provable, settling)))
