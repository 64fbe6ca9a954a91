"""Whether there is something to say about classes, and which mix of them would turn a verdict about the whole."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.class_acceptance import FEWEST_PROMPTS, prompts_of
from pytest_specdec.core.class_mixture import flip
from pytest_specdec.core.class_sums import classes_answered
from pytest_specdec.core.objectives import REGISTRY

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.class_mixture import Flip
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Verdict

_WHOLE = {"min_acceptance_length": "the acceptance length", "min_tokens_per_step": "the tokens per step"}


def asked_for(comparison: Comparison, verdicts: Sequence[Verdict]) -> bool:
    """Whether a workload states shares of its classes, or an objective is about them."""
    floors = any(REGISTRY[verdict.requirement.objective].per_class for verdict in verdicts)
    return floors or bool(comparison.workload.weights)


def worth_telling(comparison: Comparison, verdicts: Sequence[Verdict]) -> bool:
    """Whether there are several classes that were asked for, or all have prompts enough to be judged."""
    classes = set(classes_answered(comparison).tolist())
    if len(classes) < 2:  # noqa: PLR2004 - one class is the whole
        return False
    prompts = (len(np.unique(prompts_of(comparison, name))) for name in classes)
    return asked_for(comparison, verdicts) or min(prompts) >= FEWEST_PROMPTS


def turning_points(comparison: Comparison, verdicts: Sequence[Verdict]) -> Iterator[str]:
    """For each objective about the acceptance of the whole, the share of the worst class that decides it."""
    if not worth_telling(comparison, verdicts):
        return
    for verdict in verdicts:
        name, required = verdict.requirement.objective, verdict.requirement.required
        if name in _WHOLE:
            turning = flip(comparison, required, steps=name == "min_tokens_per_step")
            if turning is not None:
                yield _sentence(turning, _WHOLE[name], required)


def _sentence(flip: Flip, what: str, required: float) -> str:
    kept = ", the other classes in proportion" if flip.several else ""
    if flip.falls:
        return (
            f"With more than {flip.share:.0%} {flip.name} ({flip.now:.0%} now{kept}) {what} falls below {required:g}."
        )
    return f"With at most {flip.share:.0%} {flip.name} ({flip.now:.0%} now{kept}) {what} would reach {required:g}."
