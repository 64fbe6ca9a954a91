"""The verdict on sampled answers: do they come from the target's distribution?"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.distribution_tests import compare_distributions
from pytest_specdec.core.distributions import BIAS, SampledOutputs
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.output_rules import check_faithful
from pytest_specdec.core.verdict import yes_no

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate, Outcome


@dataclass(frozen=True)
class SampledVerdict:
    """What the tests amount to, with the reason in a few words."""

    outcome: Outcome
    reason: str
    needed_samples: int | None = None
    """Of each prompt on each server, where more would settle it."""


def judge_distributions(
    samples_spec: Mapping[int, Sequence[Sequence[int]]],
    samples_base: Mapping[int, Sequence[Sequence[int]]],
    calibration: tuple[Mapping[int, Sequence[Sequence[int]]], Mapping[int, Sequence[Sequence[int]]]] | None = None,
    *,
    tokens: int,
    confidence: float,
    temperature: float,
    concurrency: int,
    duration_s: float = 0.0,
) -> SampledOutputs:
    """Test the speculating server against the baseline, and the baseline against itself.

    Args:
        samples_spec: Prompt to the token ids of its answers, on the speculating server.
        samples_base: On the baseline; each answer with a seed of its own.
        calibration: Two sets of the baseline; None takes the two halves of ``samples_base``.
        tokens: How many first tokens of each answer to look at.
        confidence: Of the verdict.
        temperature: Of sampling.
        concurrency: Requests at once.
        duration_s: What sampling took.

    Raises:
        CannotMeasure: There are too few answers to test anything.
    """
    alpha = alpha_of(confidence)
    if calibration is None:
        calibration = (
            {prompt: answers[: len(answers) // 2] for prompt, answers in samples_base.items()},
            {prompt: answers[len(answers) // 2 :] for prompt, answers in samples_base.items()},
        )
    return SampledOutputs(
        speculation=compare_distributions(samples_spec, samples_base, tokens=tokens, alpha=alpha),
        calibration=compare_distributions(*calibration, tokens=tokens, alpha=alpha),
        temperature=temperature,
        tokens=tokens,
        concurrency=concurrency,
        duration_s=duration_s,
    )


def alpha_of(confidence: float) -> float:
    """How often equal servers may be called different: as for every objective, half of what the confidence leaves."""
    return (1 - confidence) / 2


def sampled_verdict(sampled: SampledOutputs, confidence: float) -> SampledVerdict:
    """Judge sampled answers.

    Not lossless: a test finds a difference that the baseline does not show against itself. Open: the baseline differs from
    itself, too; or there are too few samples to see a bias of :data:`~pytest_specdec.core.distributions.BIAS`.
    """
    alpha = alpha_of(confidence)
    found, own = sampled.speculation, sampled.calibration
    differs = found.least.corrected <= alpha
    # Without a difference, the baseline must be far from itself for its samples to be useless.
    if own.least.corrected <= (alpha if differs else alpha / 10):
        return SampledVerdict(
            "unsure",
            f"the baseline's samples differ from its own ({_test(own.least.name, own.least.corrected)}), "
            "so a difference would mean nothing",
        )
    if differs:
        return SampledVerdict(
            "FAIL", f"sampled tokens differ ({_test(found.least.name, found.least.corrected)}), {shift_text(sampled)}"
        )
    if found.shift.detectable > BIAS:
        per_prompt = min(found.samples) / found.prompts
        return SampledVerdict(
            "unsure",
            f"{found.samples[0]} samples of {found.prompts} prompts show a bias of {100 * found.shift.detectable:.1f} pp at best, "
            f"not of {100 * BIAS:.0f}",
            math.ceil(per_prompt * (found.shift.detectable / BIAS) ** 2),
        )
    return SampledVerdict(
        "ok", f"no difference ({_test(found.least.name, found.least.corrected)}), {shift_text(sampled)}"
    )


def shift_text(sampled: SampledOutputs) -> str:
    """``most likely token +0.3 pp (a shift of 3.6 pp would show)``."""
    shift = sampled.speculation.shift
    return f"most likely token {100 * shift.value:+.1f} pp (a shift of {100 * shift.detectable:.1f} pp would show)"


def _test(name: str, p_value: float) -> str:
    return f"{name}: p {'< 0.0001' if p_value < 0.0001 else f'= {p_value:.4f}'}"  # noqa: PLR2004 - as printed


def sampled_estimate(comparison: Comparison) -> Estimate:
    """1 where sampled answers come from the target's distribution, 0 where they do not, 0.5 in ``0 .. 1`` where that is open.

    Raises:
        CannotMeasure: None were compared, or drafts are not really verified.
    """
    check_faithful(comparison.extra.get("verification"), comparison.load, "lossless")
    sampled, confidence = comparison.sampled, comparison.load.confidence
    if sampled is None:
        raise CannotMeasure(
            "lossless: the sampled outputs of this comparison were not compared",
            remedy="They are where a test declares it: @pytest.mark.spec_slo(lossless=True).",
        )
    verdict = sampled_verdict(sampled, confidence)
    return yes_no(
        verdict.outcome,
        level=confidence,
        samples=sum(sampled.speculation.samples),
        basis="two-sample tests of the first tokens of sampled answers, corrected by Holm",
        remark=verdict.reason,
    )
