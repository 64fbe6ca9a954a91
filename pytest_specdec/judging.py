"""The loop "measure until decided": one load, or the loads of a sweep, each of them a comparison that other tests share."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pytest_specdec.core.config import SpecConfig
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import SavedFor
    from pytest_specdec.core.verdict import Requirement, Verdict
    from pytest_specdec.measuring import Measurement
    from pytest_specdec.session import SpecSession


@dataclass(frozen=True)
class Judged:
    """What a test's fixture gets."""

    key: str
    """Of ``comparison``, in the session."""
    comparison: Comparison
    """Of a sweep: at the load that was missed first, and the lowest where none was."""
    verdicts: tuple[Verdict, ...]
    points: dict[str, Comparison] = field(default_factory=dict)
    """All loads of a sweep, the lowest first; empty where there is one load."""

    @property
    def here(self) -> tuple[Verdict, ...]:
        """The verdicts that rest on ``comparison``: all, where there is one load."""
        return tuple(one for one in self.verdicts if not self.points or one.requirement.at == self.comparison.load.at)


@dataclass
class _Growing:
    """One load's comparison, and after how many rounds it may be judged."""

    key: str
    measurement: Measurement
    looks: list[int]
    target: int

    @property
    def later(self) -> list[int]:
        return [look for look in self.looks if look > self.measurement.rounds]

    @property
    def exhausted(self) -> bool:
        return not self.later or self.measurement.measured_s >= self.measurement.load.budget_s


def judge_loads(
    session: SpecSession,
    config: SpecConfig,
    loads: Sequence[LoadSpec],
    requirements: Sequence[Requirement],
    *,
    test_dir: Path,
    attempt: int = 1,
) -> Judged:
    """Measure as much as the objectives need, and judge them.

    Every load gets its first look; then those at which something is unsure get more rounds, until nothing is, or something
    was missed anywhere.

    Args:
        session: Owns servers and measurements.
        config: Whose speculation is compared with the baseline.
        loads: The conditions, ascending; more than one are a sweep.
        requirements: The test's objectives; may be empty, then the first look is all that is measured.
        test_dir: Where a workload's relative path is looked for.
        attempt: 1, or more when a test is run again: its new rounds are added to what was measured.

    Raises:
        CannotMeasure: There is no number to judge.
    """
    from pytest_specdec.class_plan import class_requirements
    from pytest_specdec.core.crossover_verdicts import judge_sweep, shown_place, worth_extending
    from pytest_specdec.core.judge import decided
    from pytest_specdec.core.output_rules import refuse_unfaithful, split
    from pytest_specdec.core.sweep import check_requirement

    for requirement in requirements:
        check_requirement(requirement, loads)
    points = [_growing(session, config, load, test_dir=test_dir, attempt=attempt) for load in loads]
    saved_for = _saved_for(session, points, requirements)
    requirements = class_requirements(requirements, points[0].measurement)
    timed, of_outputs = split(requirements)
    for point, load in zip(points, loads, strict=True):
        own_answers = any(prompt.answers for prompt in point.measurement.workload.prompts)
        verification = point.measurement.verification
        refuse_unfaithful(config, load, of_outputs, verification=verification, own_answers=own_answers)
    try:
        while True:
            for point in points:
                session.extend(point.key, point.measurement, max(point.target, point.measurement.rounds))
            comparisons = [point.measurement.comparison() for point in points]
            verdicts = judge_sweep(comparisons, timed, looks=len(points[0].looks), saved_for=saved_for)
            # A retry is one look, whatever it shows.
            if attempt > 1 or decided(verdicts):
                break
            growing = [points[place] for place in sorted(worth_extending(verdicts, comparisons))]
            growing = [point for point in growing if not point.exhausted]
            if not growing:
                break
            for point in growing:
                point.target = point.later[0]
        if of_outputs:
            comparisons = [session.compare_outputs(point.measurement, of_outputs) for point in points]
            verdicts = judge_sweep(comparisons, requirements, looks=len(points[0].looks), saved_for=saved_for)
    finally:
        session.progress.close()
    place = shown_place(verdicts, comparisons) if len(points) > 1 else 0
    return Judged(
        points[place].key,
        comparisons[place],
        verdicts,
        {point.key: one for point, one in zip(points, comparisons, strict=True)} if len(points) > 1 else {},
    )


def _growing(
    session: SpecSession,
    config: SpecConfig,
    load: LoadSpec,
    *,
    test_dir: Path,
    attempt: int,
) -> _Growing:
    from pytest_specdec.core.judge import planned_looks

    key, measurement = session.measurement(config, load, test_dir)
    session.refuse_what_failed(key, again=attempt > 1)
    looks = list(planned_looks(load))
    # A retry is one more look at pooled data, and pays for it like any other.
    looks += [looks[-1] + load.rounds * extra for extra in range(1, attempt)]
    target = next((look for look in looks if look > measurement.rounds), looks[-1]) if attempt > 1 else looks[0]
    return _Growing(key, measurement, looks, target)


def _saved_for(
    session: SpecSession, points: Sequence[_Growing], requirements: Sequence[Requirement]
) -> SavedFor | None:
    """What finds the saved measurements, where an objective asks for them; a miss that can be foreseen is said before a launch.

    Raises:
        CannotMeasure: Nothing saved was measured under equal conditions. A run that is saved itself is measured all the same,
            and says so then: the next one has something to compare with.
    """
    from pytest_specdec.core.objectives import REGISTRY
    from pytest_specdec.core.saved import for_quantities, nothing_to_compare_with

    wanted = [one for one in requirements if one.objective == "max_regression"]
    if not wanted:
        return None
    for point in points:
        if any(one.part == "throughput" for one in for_quantities(wanted, point.measurement.load)):
            REGISTRY["min_throughput_tok_s"].precheck(point.measurement.load)
    saved = session.saved_for
    if session.is_saved:
        return saved
    if saved is None:
        raise nothing_to_compare_with()
    for point in points:
        saved(point.measurement.comparison())
    return saved
