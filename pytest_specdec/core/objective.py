"""One name of ``spec_slo``: its value in a mark, what it compares, and how it is estimated."""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from pytest_specdec.core import slo_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.slo_values import Parse
    from pytest_specdec.core.verdict import Direction, Estimate, Requirement, Unit

Kind = Literal["gain", "speculation", "limit", "side effect", "outputs", "sweep", "history", "own"]


def _any_load(_: LoadSpec) -> None:
    """Most objectives can be measured under any load."""


@dataclass(frozen=True)
class Objective:
    """One name of ``spec_slo``."""

    name: str
    unit: Unit
    direction: Direction
    kind: Kind
    summary: str
    """One sentence for the documentation: what is compared with the threshold."""
    values: Parse
    """Reads the mark's value; see :mod:`pytest_specdec.core.slo_values`."""
    estimator: str | Callable[[Evidence, Requirement], Estimate]
    """From (Evidence, Requirement) to Estimate; within the core ``module:function``, imported when it is called."""
    needs: str = ""
    """What must be given for a measurement, in words."""
    possible: Callable[[LoadSpec], None] = _any_load

    @property
    def takes_mapping(self) -> bool:
        """Whether a mark's value is a mapping, such as ``min_acceptance_at={0: 0.7}``."""
        plain = (slo_values.shares_by_position, slo_values.goodput, slo_values.goodput_gain)
        return self.per_class or self.values in plain

    @property
    def per_class(self) -> bool:
        """Whether it is judged for each class of prompts, as in ``min_class_acceptance_length={"code": 2.0}``."""
        return self.values in (slo_values.lengths_by_class, slo_values.gains_by_class)

    def parse(self, value: object) -> tuple[Requirement, ...]:
        """What a mark's value requires.

        Raises:
            MarkError: The value cannot be meant like that; the message says what is wrong with it.
        """
        return self.values(self.name, value)

    def precheck(self, load: LoadSpec) -> None:
        """Refuse what no measurement under this load could judge.

        Raises:
            CannotMeasure: With what to change.
        """
        self.possible(load)

    def estimate(self, evidence: Evidence, requirement: Requirement) -> Estimate:
        """The measured quantity with its interval.

        Raises:
            CannotMeasure: There is none.
        """
        if not isinstance(self.estimator, str):
            return self.estimator(evidence, requirement)
        module, function = self.estimator.split(":")
        estimator = getattr(importlib.import_module(f"pytest_specdec.core.{module}"), function)
        result: Estimate = estimator(evidence, requirement)
        return result
