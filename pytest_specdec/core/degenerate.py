"""Answers that went wrong as answers: how often each server loops, is cut, says nothing, and whether the difference is chance.

Served prompts decide, not single answers: greedy rounds repeat each other, so a prompt's answers count once, and the arms
are compared by a sign test over the prompts on which they differ.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from pytest_specdec.core.answer_form import SHORTEST
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import effective_size, wilson, wilson_needs
from pytest_specdec.core.tables import grid, numbered
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.samples import Arm, Comparison, RequestSample
    from pytest_specdec.core.verdict import Requirement

CHANCE = 0.01
"""Differences that chance makes more often than this are not reported; there are several rows, and they are not gates."""


@dataclass(frozen=True)
class Defect:
    """One way in which answers go wrong, on both servers."""

    name: str
    baseline: float
    """Share of answers."""
    specdec: float
    p_value: float
    """Of the sign test over prompts that the servers differ on."""

    @property
    def significant(self) -> bool:
        """Whether the servers differ by more than chance."""
        return self.p_value < CHANCE


_DEFECTS: Mapping[str, Callable[[RequestSample], bool | None]] = {
    "loop": lambda sample: None if sample.form is None else sample.form.loops,
    "are cut at max_tokens": lambda sample: sample.finish_reason == "length",
    "are blank": lambda sample: None if sample.form is None else sample.form.blank,
    "hold damaged text": lambda sample: None if sample.form is None else sample.form.damaged,
    "begin as JSON and are none": lambda sample: (
        None if sample.form is None or sample.form.parses is None else not sample.form.parses
    ),
    "do not have the form that was asked for": lambda sample: (
        None if sample.form is None or sample.form.as_asked is None else not sample.form.as_asked
    ),
    "call a tool": lambda sample: None if sample.form is None else sample.form.calls,
}

ORDINARY = ("are cut at max_tokens", "call a tool")
"""Those that are none while both servers do it alike."""


def defects_of(comparison: Comparison) -> tuple[Defect, ...]:
    """Every kind of defect that could be looked for, in a fixed order."""
    found = []
    for name, is_so in _DEFECTS.items():
        if name == "are cut at max_tokens" and comparison.load.ignore_eos:
            continue  # all are, by request
        base, spec = (_by_prompt(comparison, arm, is_so) for arm in ("baseline", "specdec"))
        shared = sorted(base.keys() & spec.keys())
        if shared:
            pairs = [(float(np.mean(base[prompt])), float(np.mean(spec[prompt]))) for prompt in shared]
            found.append(Defect(name, _share(base), _share(spec), _sign_test(pairs)))
    return tuple(found)


def defect_notes(comparison: Comparison) -> tuple[str, ...]:
    """What every report must say: kinds of defects that only one server has more of."""
    return tuple(
        f"{100 * one.specdec:.1f} % of the speculating server's answers {one.name}, {100 * one.baseline:.1f} % of the baseline's "
        f"(chance: {one.p_value:.2g}): speculation should not change that; lossless=True compares the answers themselves"
        for one in defects_of(comparison)
        if one.significant
    )


def max_loop_share(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of the speculating server's answers that end in a loop; Wilson over as many prompts as they are worth.

    Raises:
        CannotMeasure: No answer tells, since token ids are missing.
    """
    comparison = evidence.comparison
    rows = [
        (run.round, sample) for run in comparison.arm("specdec") for sample in run.successes if sample.form is not None
    ]
    if not rows or all(sample.chunk_tokens is None for _, sample in rows):
        raise CannotMeasure(
            "max_loop_share: loops are told by token ids, and there are none",
            remedy="Use a vLLM that knows return_token_ids, and no proxy that drops it.",
        )
    longest = max(sample.completion_tokens for _, sample in rows)
    if longest < SHORTEST and any(sample.finish_reason == "length" for _, sample in rows):
        raise CannotMeasure(
            f"max_loop_share: all answers are cut after {longest} tokens, before a loop could be told",
            remedy=f"Raise max_tokens to {2 * SHORTEST} or more.",
        )
    loops = np.array([float(sample.form is not None and sample.form.loops) for _, sample in rows])
    prompts = numbered([sample.content for _, sample in rows])
    rounds = numbered([one for one, _ in rows])
    counts = grid(np.ones(len(rows)), rounds, prompts).sum(axis=0, keepdims=True)
    hits = grid(loops, rounds, prompts).sum(axis=0, keepdims=True)
    share = float(loops.mean())
    worth = min(effective_size(hits / counts, np.ones_like(hits), evidence.level), hits.shape[1])
    interval = wilson(share, worth, evidence.level, of="prompts")
    base = _by_prompt(comparison, "baseline", _DEFECTS["loop"])
    return Estimate(
        value=share,
        low=interval.low,
        high=interval.high,
        level=evidence.level,
        samples=len(rows),
        basis=interval.basis,
        limited_by="requests",
        needed_requests=wilson_needs(1 - requirement.required, evidence.level)
        if share <= requirement.required
        else None,
        remark=f"the baseline loops in {100 * _share(base):.1f} % of its answers" if base else "",
    )


def _by_prompt(
    comparison: Comparison, arm: Arm, is_so: Callable[[RequestSample], bool | None]
) -> dict[int, list[bool]]:
    found: dict[int, list[bool]] = defaultdict(list)
    for run in comparison.arm(arm):
        for sample in run.successes:
            if (value := is_so(sample)) is not None:
                found[sample.content].append(value)
    return found


def _share(by_prompt: Mapping[int, list[bool]]) -> float:
    values = [value for values in by_prompt.values() for value in values]
    return sum(values) / len(values) if values else 0.0


def _sign_test(pairs: list[tuple[float, float]]) -> float:
    """Two-sided, exact."""
    more = sum(spec > base for base, spec in pairs)
    differing = sum(spec != base for base, spec in pairs)
    if not differing:
        return 1.0
    least = min(more, differing - more)
    return min(1.0, 2 * float(special.bdtr(least, differing, 0.5)))
