"""Are the outputs the target's own? Verdicts on compared answers; pure functions of :class:`~pytest_specdec.core.outputs.Outputs`."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import effective_size, wilson, wilson_needs
from pytest_specdec.core.output_rules import check_faithful
from pytest_specdec.core.outputs import MAX_TIE_MARGIN, divergences, noise_floor
from pytest_specdec.core.sampled_lossless import sampled_estimate
from pytest_specdec.core.tables import grid, numbered
from pytest_specdec.core.verdict import Estimate, yes_no

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.outputs import Condition, OutputPair, Outputs
    from pytest_specdec.core.verdict import Outcome, Requirement

TOLD_APART = 0.25
"""An excess of mismatches over the noise floor that a run must be able to tell from none, or it proves nothing. Hard divergences
are judged one by one, so this is about near ties only."""
_DIFFER = "answers differ"
_CONDITIONS: tuple[Literal["load", "alone"], ...] = ("load", "alone")


@dataclass(frozen=True)
class Excess:
    """By how much more often the speculating server leaves the baseline than the baseline leaves itself."""

    condition: Condition
    mismatches: float
    """Share of answers of the speculating server that differ."""
    floor: float
    """Share for the baseline with itself, on the same prompts."""
    low: float
    high: float
    """Of the difference."""
    prompts: int

    @property
    def value(self) -> float:
        """The difference itself."""
        return self.mismatches - self.floor


@dataclass(frozen=True)
class LosslessVerdict:
    """What the comparison of greedy answers amounts to, with the reason in a few words."""

    outcome: Outcome
    reason: str
    needed_requests: int | None = None


def lossless(evidence: Evidence, requirement: Requirement) -> Estimate:
    """1 where outputs are the target's own up to numerics, 0 where they are not, 0.5 in ``0 .. 1`` where that is open.

    Raises:
        CannotMeasure: Outputs were not compared, or cannot be under these conditions.
    """
    if evidence.comparison.load.temperature > 0:
        return sampled_estimate(evidence.comparison)
    outputs = compared_outputs(evidence, "lossless")
    stated = dict(requirement.options).get("tie_margin")
    confidence = evidence.comparison.load.confidence
    verdict = lossless_verdict(outputs, confidence, outputs.tie_margin_nats if stated is None else stated)
    return yes_no(
        verdict.outcome,
        level=confidence,
        samples=len(outputs.of("speculation")),
        basis="hard divergences, and Newcombe's interval of the excess of mismatches, paired by prompt",
        limited_by="requests" if verdict.outcome == "unsure" else "",
        needed_requests=verdict.needed_requests,
        remark=verdict.reason,
    )


def min_output_match(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of answers under the declared load that are equal in both arms; Wilson over as many prompts as they are worth.

    Raises:
        CannotMeasure: As :func:`lossless`.
    """
    outputs = compared_outputs(evidence, "min_output_match")
    pairs, confidence = outputs.of("speculation", "load"), evidence.comparison.load.confidence
    share = sum(pair.equal for pair in pairs) / len(pairs)
    prompts, rounds = numbered([pair.prompt for pair in pairs]), numbered([pair.round for pair in pairs])
    # Greedy rounds repeat each other, so that only prompts are trials: a prompt's answers count as one.
    counts = grid(np.ones(len(pairs)), rounds, prompts).sum(axis=0, keepdims=True)
    hits = grid(np.array([float(pair.equal) for pair in pairs]), rounds, prompts).sum(axis=0, keepdims=True)
    worth = min(effective_size(hits / counts, np.ones_like(hits), confidence), hits.shape[1])
    interval = wilson(share, worth, confidence, of="prompts")
    floor = noise_floor(outputs.pairs)
    return Estimate(
        value=share,
        low=interval.low,
        high=interval.high,
        level=confidence,
        samples=len(pairs),
        basis=interval.basis,
        limited_by="requests",
        needed_requests=wilson_needs(requirement.required, confidence) if share >= requirement.required else None,
        remark=f"the baseline matches itself in {floor.compared - floor.differing} of {floor.compared} answers "
        f"({100 * (1 - floor.share):.1f} %)",
    )


def compared_outputs(evidence: Evidence, objective: str) -> Outputs:
    """The comparison of answers.

    Raises:
        CannotMeasure: There is none, or none that means anything.
    """
    comparison = evidence.comparison
    check_faithful(comparison.extra.get("verification"), comparison.load, objective)
    if comparison.outputs is None or not comparison.outputs.of("speculation", "load"):
        raise CannotMeasure(
            f"{objective}: the outputs of this comparison were not compared",
            remedy=f"They are where a test declares it: @pytest.mark.spec_slo({objective}=...).",
        )
    return comparison.outputs


def lossless_verdict(outputs: Outputs, confidence: float, tie_margin_nats: float) -> LosslessVerdict:
    """Judge greedy answers.

    Not lossless: a hard divergence that repeats, whatever the rates; or more mismatches, or more hard divergences, than the
    baseline has with itself, with confidence. Open: a token that no rounding explains, seen once; or too few prompts to tell
    an excess of :data:`TOLD_APART`.

    Raises:
        CannotMeasure: The baseline did not tell how likely the tokens are at which answers part.
    """
    unscored = [pair for pair in outputs.of("speculation") if not pair.equal and pair.margin_nats is None]
    if unscored:
        raise CannotMeasure(
            f"lossless: {len(unscored)} answers differ, and the baseline did not tell how likely the tokens are at which "
            f"they part: {unscored[0].unscored or 'it was not asked'}",
            remedy="Let it list log-probabilities (--max-logprobs 20, vLLM's default), or judge min_output_match alone.",
        )
    hard = divergences(outputs.pairs, tie_margin_nats)
    repeating = [one for one in hard if one.repeats]
    if repeating:
        return LosslessVerdict("FAIL", _counted(len(repeating), "hard divergence repeats", "hard divergences repeat"))
    level = 1 - (1 - confidence) / (2 * len(_CONDITIONS))
    tests = [
        (_DIFFER, lambda pair: not pair.equal),
        ("answers diverge hard", lambda pair: pair.is_hard(tie_margin_nats)),
    ]
    results = [(what, excess) for what, differs in tests for excess in excesses(outputs, level, differs)]
    if not results:
        raise CannotMeasure(
            "lossless: no prompt was answered by both servers and twice by the baseline, so there is no noise floor",
            remedy="Requests failed; look into the servers' logs.",
        )
    for what, excess in results:
        if excess.low > 0:
            return LosslessVerdict("FAIL", f"more {what} than noise explains, {excess_text(outputs, excess)}")
    once = [one for one in hard if one.margin_nats > MAX_TIE_MARGIN]
    if once:
        seen = _counted(len(once), "hard divergence was", "hard divergences were")
        return LosslessVerdict("unsure", f"{seen} seen once and did not repeat")
    widest = max((excess for _, excess in results), key=lambda excess: excess.high - excess.value)
    reach = widest.high - widest.value
    if reach > TOLD_APART:
        return LosslessVerdict(
            "unsure",
            f"{_counted(widest.prompts, 'prompt', 'prompts')} cannot tell an excess of {100 * TOLD_APART:.0f} pp from noise, "
            f"{excess_text(outputs, widest)}",
            math.ceil(widest.prompts * (reach / TOLD_APART) ** 2),
        )
    most = max((excess for what, excess in results if what == _DIFFER), key=lambda excess: excess.value)
    return LosslessVerdict("ok", excess_text(outputs, most))


def excesses(outputs: Outputs, level: float, differs: Callable[[OutputPair], bool]) -> tuple[Excess, ...]:
    """The excess under each condition that was tried, on the prompts that both comparisons have."""
    floor = _by_prompt(outputs.of("baseline", "composition"), differs)
    found = []
    for condition in _CONDITIONS:
        spec = _by_prompt(outputs.of("speculation", condition), differs)
        shared = sorted(spec.keys() & floor.keys())
        if shared:
            one, other = ([by[prompt] for prompt in shared] for by in (spec, floor))
            low, high = paired_difference(one, other, level)
            found.append(Excess(condition, float(np.mean(one)), float(np.mean(other)), low, high, len(shared)))
    return tuple(found)


def paired_difference(one: list[float], other: list[float], level: float) -> tuple[float, float]:
    """Interval of ``mean(one) - mean(other)``, shares of the same units: Newcombe's hybrid score interval for paired data.

    Newcombe, Statistics in Medicine 17 (1998) 2635, method 10: Wilson's limits of both shares, put together with the correlation
    of the pairs. Entries are 0, 1 or, where a unit was tried several times, a share in between, which only makes it wider
    than it need be.
    """
    n, first, second = len(one), float(np.mean(one)), float(np.mean(other))
    spread = float(np.std(one) * np.std(other))
    # A correlation that few pairs suggest would make the interval too narrow; a negative one makes it wider and stands.
    phi = float(np.mean(np.multiply(one, other)) - first * second) / spread if spread > 0 else 0.0
    phi = max(phi - 1 / (2 * n * spread), 0.0) if phi > 0 and spread > 0 else phi
    a, b = (wilson(share, n, level, of="prompts") for share in (first, second))
    down1, up1 = first - (a.low or 0.0), (a.high or 0.0) - first
    down2, up2 = second - (b.low or 0.0), (b.high or 0.0) - second
    low = first - second - math.sqrt(max(0.0, down1**2 - 2 * phi * down1 * up2 + up2**2))
    high = first - second + math.sqrt(max(0.0, up1**2 - 2 * phi * up1 * down2 + down2**2))
    return low, high


def excess_text(outputs: Outputs, excess: Excess) -> str:
    """``at concurrency 8: 9.4 % against a noise floor of 6.2 % (excess -4.1 .. 10.3 pp)``."""
    where = outputs.under_load if excess.condition == "load" else "one at a time"
    return (
        f"{where}: {100 * excess.mismatches:.1f} % against a noise floor of {100 * excess.floor:.1f} % "
        f"(excess {100 * excess.low:.1f} .. {100 * excess.high:.1f} pp)"
    )


def _by_prompt(pairs: Iterable[OutputPair], differs: Callable[[OutputPair], bool]) -> dict[int, float]:
    tried: dict[int, list[bool]] = defaultdict(list)
    for pair in pairs:
        tried[pair.prompt].append(differs(pair))
    return {prompt: sum(found) / len(found) for prompt, found in tried.items()}


def _counted(count: int, one: str, many: str) -> str:
    return f"{count} {one if count == 1 else many}"
