"""Intervals of acceptance: the point value always from the server's counters, the width from how prompts differ.

Greedy rounds repeat each other, so rounds alone would give an interval of no width. What each request contributed comes
from the server's own figures per request, else from the stream (a chunk after the first is a decode step); where neither
tells, prompts are taken to differ as much as they possibly can.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import Interval, ratio_over_prompts, widest, wilson
from pytest_specdec.core.metrics import draft_coverage, tokens_per_step
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from pytest_specdec.core.contributions import Contributions
    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.verdict import Requirement


def acceptance_length(evidence: Evidence, _: Requirement) -> Estimate:
    """``1 + accepted / drafts``."""
    acceptance = evidence.acceptance
    per_draft = acceptance.draft_tokens / acceptance.drafts
    rate = acceptance.accepted_tokens / acceptance.draft_tokens
    known = evidence.contributions
    if known is None:
        interval = _as_different_as_possible(rate, evidence).moved(1, scale=per_draft)
    else:
        interval = _shifted(
            known.accepted, known.drafts, acceptance.accepted_tokens / acceptance.drafts, known, evidence
        )
        interval = _if_all_alike(interval, rate, evidence, scale=per_draft).moved(1)
    longest = 1.0 + (len(acceptance.per_position) if acceptance.per_position else per_draft)
    return _estimate(1 + acceptance.accepted_tokens / acceptance.drafts, interval.clipped(1.0, longest), evidence)


def acceptance_rate(evidence: Evidence, _: Requirement) -> Estimate:
    """``accepted / draft tokens``."""
    acceptance = evidence.acceptance
    rate = acceptance.accepted_tokens / acceptance.draft_tokens
    known = evidence.contributions
    if known is None:
        return _estimate(rate, _as_different_as_possible(rate, evidence), evidence)
    shifted = _shifted(known.accepted, known.draft_tokens, rate, known, evidence)
    return _estimate(rate, _if_all_alike(shifted, rate, evidence).clipped(0.0, 1.0), evidence)


def acceptance_at(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of drafts with at least ``i + 1`` tokens accepted, ``i`` being the requirement's part."""
    position = int(requirement.part or 0)
    joint = evidence.acceptance.per_position
    if joint is None or position >= len(joint):
        counted = "none" if joint is None else f"0 to {len(joint) - 1}"
        raise CannotMeasure(
            f"{requirement.label}: the server does not count acceptance at position {position}; positions counted: {counted}",
            remedy="Positions count from 0 and end at num_speculative_tokens - 1.",
        )
    share = joint[position]
    known = evidence.contributions
    if known is None or position >= len(known.reached):
        return _estimate(share, _as_different_as_possible(share, evidence), evidence)
    shifted = _shifted(known.reached[position], known.drafts, share, known, evidence)
    return _estimate(share, widest(shifted, _binomial(share, evidence)).clipped(0.0, 1.0), evidence)


def coverage(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Drafting steps per decode step."""
    share = draft_coverage(evidence.counters)
    if share is None:
        raise _no_steps(requirement)
    known = evidence.contributions
    if known is None or not known.drafts_known:
        return _estimate(share, _as_different_as_possible(share, evidence), evidence)
    shifted = _shifted(known.drafts, known.steps, share, known, evidence)
    return _estimate(share, widest(shifted, _binomial(share, evidence, of="steps")).clipped(0.0, 1.0), evidence)


def per_step(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Tokens after each request's first, per decode step."""
    value = tokens_per_step(evidence.counters)
    if value is None:
        raise _no_steps(requirement)
    positions = evidence.counters.accepted_per_position
    longest = 1.0 + (len(positions) if positions else evidence.comparison.num_speculative_tokens or max(1, value))
    known = evidence.contributions
    if known is None:
        share = min(max((value - 1) / (longest - 1), 0.0), 1.0)
        interval = _as_different_as_possible(share, evidence).moved(1, scale=longest - 1)
    else:
        interval = _shifted(known.later_tokens, known.steps, value, known, evidence)
    return _estimate(value, interval.clipped(min(1.0, value), longest), evidence)


def _shifted(
    numerator: Floats, denominator: Floats, point: float, known: Contributions, evidence: Evidence
) -> Interval:
    """The bootstrap's interval moved to the counters' value: what was delivered may fall short of what was accepted."""
    if not denominator.sum():
        return _as_different_as_possible(min(max(point, 0.0), 1.0), evidence)
    value, interval = ratio_over_prompts(numerator, denominator, evidence.level)
    moved = interval.moved(point - value)
    return Interval(moved.low, moved.high, f"{moved.basis}, from {known.source}", moved.limited_by)


def _binomial(share: float, evidence: Evidence, *, of: str = "drafts") -> Interval:
    """Never narrower than independent drafts (or steps) of one round would give: nothing accepted in 20 drafts is not 0 for sure."""
    counted = evidence.counters.decode_steps if of == "steps" else evidence.counters.drafts
    in_a_round = (counted or 0) / max(1, len(evidence.comparison.arm("specdec")))
    return wilson(min(share, 1.0), max(1.0, in_a_round), evidence.level, of=f"{of} of a round")


def _if_all_alike(interval: Interval, rate: float, evidence: Evidence, *, scale: float = 1.0) -> Interval:
    """The same where drafts differ; where all or none were accepted there is no spread, and their number sets the width."""
    return interval if 0 < rate < 1 else widest(interval, _binomial(rate, evidence).moved(0, scale=scale))


def _as_different_as_possible(share: float, evidence: Evidence) -> Interval:
    """Wilson's interval as if each prompt accepted either everything or nothing: no spread of prompts can be larger."""
    prompts = len(np.unique(evidence.spec.prompt))
    return wilson(min(share, 1.0), prompts, evidence.level, of="prompts (what each contributed is unknown)")


def _estimate(value: float, interval: Interval, evidence: Evidence) -> Estimate:
    return Estimate(
        value=value,
        low=interval.low,
        high=interval.high,
        level=evidence.level,
        samples=len(np.unique(evidence.spec.prompt)),
        basis=interval.basis,
        limited_by="requests",
    )


def _no_steps(requirement: Requirement) -> CannotMeasure:
    return CannotMeasure(
        f"{requirement.objective}: the server does not count decode steps (vllm:inter_token_latency_seconds)",
        remedy="Remove --disable-log-stats, or use a supported vLLM.",
    )
