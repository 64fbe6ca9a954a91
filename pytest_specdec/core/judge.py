"""From a comparison and its objectives to verdicts: ok, FAIL or unsure, and when enough rounds have been run."""

from __future__ import annotations

import functools
import math
from typing import TYPE_CHECKING

from pytest_specdec.core.advice import advice_for
from pytest_specdec.core.class_floors import for_classes
from pytest_specdec.core.class_sums import classes_of
from pytest_specdec.core.errors import CannotMeasure, MarkError, SpecDecError
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.objectives import REGISTRY, unknown
from pytest_specdec.core.saved import for_quantities
from pytest_specdec.core.validity import check_comparison
from pytest_specdec.core.verdict import Requirement, Verdict

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.saved import SavedFor
    from pytest_specdec.core.verdict import Direction, Estimate, Outcome

_LOOKS = (1.0, 1.5, 2.0, 3.0)
"""Looks in multiples of ``rounds``: 4, 6, 8, 12."""


def planned_looks(load: LoadSpec) -> tuple[int, ...]:
    """After how many rounds to judge, fixed before the first one: 4, 6, 8, 12 for 4 rounds and at most 12.

    In general ``rounds`` times 1, 1.5, 2 and 3, made even (so that each arm runs first equally often), and ``max_rounds``.
    """
    last = max(load.rounds, load.max_rounds)
    later = (2 * math.ceil(load.rounds * factor / 2) for factor in _LOOKS[1:])
    return tuple(sorted({load.rounds, last, *(look for look in later if load.rounds < look < last)}))


def level_for(confidence: float, looks: int) -> float:
    """Confidence of a single look, when all looks together may be wrong as often as one at ``confidence`` (Bonferroni)."""
    return 1 - (1 - confidence) / looks


def judge(
    comparison: Comparison,
    requirements: Sequence[Requirement],
    *,
    looks: int | None = None,
    saved_for: SavedFor | None = None,
) -> tuple[Verdict, ...]:
    """Verdicts of all requirements, in their order.

    Args:
        comparison: At least one round of both arms.
        requirements: A merged ``spec_slo``.
        looks: How many times this comparison may be judged in all; None takes the planned number.
        saved_for: Finds what ``max_regression`` is held against; None where nothing was saved.

    Raises:
        CannotMeasure: The measurement is invalid, or an objective has no number to be judged by.
    """
    check_comparison(comparison)
    level = level_for(comparison.load.confidence, looks or len(planned_looks(comparison.load)))
    evidence = Evidence(comparison, level, saved_for=saved_for)
    requirements = for_classes(requirements, classes_of(comparison), workload=comparison.workload.name)
    requirements = for_quantities(requirements, comparison.load)
    return tuple(_judged(evidence, requirement) for requirement in requirements)


def estimate(comparison: Comparison, objective: str, value: object = None) -> Estimate:
    """The figure of one objective with its interval, at the load's own confidence, without judging it.

    Args:
        comparison: At least one round of both arms.
        objective: A name of the registry.
        value: For objectives whose value is a mapping: one with a single entry, such as ``{0: 0.7}``.

    Raises:
        CannotMeasure: The measurement is invalid, or the objective is undefined for it.
        MarkError: There is no such objective, or it needs a ``value``.
    """
    if objective not in REGISTRY:
        raise MarkError(unknown(objective))
    requirement = Requirement(objective, math.nan) if value is None else REGISTRY[objective].parse(value)[0]
    if value is None and REGISTRY[objective].takes_mapping:
        such_as = "{'code': 2.0}" if REGISTRY[objective].per_class else "{0: 0.7}"
        raise MarkError(f"{objective} needs a value that says which part is meant, such as {such_as}")
    check_comparison(comparison)
    return REGISTRY[objective].estimate(Evidence(comparison, comparison.load.confidence), requirement)


class Figures:
    """The figures that a comparison's verdicts rest on, at the same level; checked once, whatever is asked.

    Args:
        comparison: At least one round of both arms.
    """

    def __init__(self, comparison: Comparison) -> None:
        self.comparison = comparison
        level = level_for(comparison.load.confidence, len(planned_looks(comparison.load)))
        self._evidence = Evidence(comparison, level)

    @functools.cached_property
    def _invalid(self) -> str:
        if self.comparison.rounds < 2:  # noqa: PLR2004 - one round cannot tell noise from effect
            return "only one round is complete"
        try:
            check_comparison(self.comparison)
        except SpecDecError as error:
            return error.what
        return ""

    def of(self, objective: str) -> tuple[Estimate | None, str]:
        """One objective's figure, or why there is none."""
        if self._invalid:
            return None, self._invalid
        try:
            REGISTRY[objective].precheck(self.comparison.load)
            return REGISTRY[objective].estimate(self._evidence, Requirement(objective, math.nan)), ""
        except SpecDecError as error:
            return None, error.what


def decided(verdicts: Iterable[Verdict]) -> bool:
    """Whether more rounds could not change the result: nothing is unsure, or something failed."""
    outcomes = {verdict.outcome for verdict in verdicts}
    return "FAIL" in outcomes or "unsure" not in outcomes


def _judged(evidence: Evidence, requirement: Requirement) -> Verdict:
    objective = REGISTRY[requirement.objective]
    objective.precheck(evidence.comparison.load)
    estimate = objective.estimate(evidence, requirement)
    numbers = (estimate.value, estimate.low, estimate.high)
    if any(number is not None and not math.isfinite(number) for number in numbers):
        raise CannotMeasure(
            f"{requirement.label}: the measured value is {estimate.value} in {estimate.low} .. {estimate.high}, which is no "
            "number to judge",
            remedy="This is a defect of the plugin or of the result file: please report it with the file.",
        )
    outcome = outcome_of(estimate, requirement.required, objective.direction)
    return Verdict(
        requirement=requirement,
        estimate=estimate,
        outcome=outcome,
        direction=objective.direction,
        unit=objective.unit,
        advice=advice_for(evidence.comparison, requirement, estimate, objective, outcome),
    )


def outcome_of(estimate: Estimate, required: float, direction: Direction) -> Outcome:
    """Ok when the whole interval meets the requirement, FAIL when the whole interval misses it, else unsure.

    A fact (no level) is judged by its value; a side on which nothing bounds the quantity proves nothing.
    """
    low, high = (estimate.value, estimate.value) if estimate.level is None else (estimate.low, estimate.high)
    if direction == "lower":
        # Mirrored, so that there is one rule: at most x is at least -x of the negative.
        required, low, high = -required, None if high is None else -high, None if low is None else -low
    if low is not None and low >= required:
        return "ok"
    if high is not None and high < required:
        return "FAIL"
    return "unsure"
