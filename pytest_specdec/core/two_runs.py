"""One quantity in two runs on the same prompts: its change, with an interval that holds the noise of both.

Prompts are the same in both, so what they have of their own cancels, prompt by prompt. Rounds are not: each run has its own
moments, and they are independent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.intervals import UNBOUNDED, Interval, resampled_sums, resampling_counts, t_quantile, widest

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.verdict import Estimate


@dataclass(frozen=True)
class Sums:
    """One run: ``numerator.sum() / denominator.sum()`` is its figure. Both of shape (rounds, prompts), 0 where nothing was measured."""

    numerator: Floats
    denominator: Floats

    @property
    def value(self) -> float:
        """The figure."""
        return float(self.numerator.sum() / self.denominator.sum())

    @property
    def per_round(self) -> Floats:
        """The figure of each round that has one."""
        weights = self.denominator.sum(axis=1)
        means: Floats = self.numerator.sum(axis=1)[weights > 0] / weights[weights > 0]
        return means

    def residuals(self) -> Floats:
        """What each prompt adds to the figure's deviation (linearised), shape (prompts,)."""
        of_prompt = self.numerator.sum(axis=0) - self.value * self.denominator.sum(axis=0)
        deviations: Floats = of_prompt / float(self.denominator.sum())
        return deviations

    def resampled(self, stream: int, of_prompts: Floats) -> Floats:
        """The figure of each resample, shape (resamples,); NaN where a resample has drawn nothing."""
        of_rounds = resampling_counts(len(self.numerator), stream)
        sums, weights = (resampled_sums(cells, of_rounds, of_prompts) for cells in (self.numerator, self.denominator))
        figures: Floats = np.divide(sums, weights, out=np.full_like(sums, np.nan), where=weights > 0)
        return figures


def difference(now: Sums, before: Sums, level: float, *, of: str = "rounds") -> tuple[float, Interval]:
    """``now - before`` with its interval: the widest of Welch's over rounds, Student's over prompts, and a bootstrap of both.

    Args:
        now: Of the new run.
        before: Of the saved one, with the same prompts in the same columns.
        level: Two-sided confidence.
        of: What the rounds are called in the report.
    """
    value = now.value - before.value
    over_time = welch(now.per_round, before.per_round, value, level, of=of)
    return value, over_time if over_time.low is None else widest(
        over_time, _bootstrap(now, before, level), over_prompts(now.residuals() - before.residuals(), value, level)
    )


def welch(now: Floats, before: Floats, centre: float, level: float, *, of: str) -> Interval:
    """Welch's t interval of the difference of two means (1947), laid around ``centre``; unbounded where a side has one value."""
    if min(len(now), len(before)) < 2:  # noqa: PLR2004 - one value has no spread
        return UNBOUNDED
    basis = f"Welch's t over {len(before)} and {len(now)} {of}"
    mine, theirs = (float(np.var(one, ddof=1)) / len(one) for one in (now, before))
    if mine + theirs == 0:
        return Interval(centre, centre, basis, "rounds")
    degrees = (mine + theirs) ** 2 / (mine**2 / (len(now) - 1) + theirs**2 / (len(before) - 1))
    half = t_quantile(level, degrees) * math.sqrt(mine + theirs)
    return Interval(centre - half, centre + half, basis, "rounds")


def over_prompts(residuals: Floats, centre: float, level: float) -> Interval | None:
    """Student's t interval from what each prompt adds to a difference, shape (prompts,); None for a single prompt."""
    prompts = len(residuals)
    if prompts < 2:  # noqa: PLR2004 - one value has no spread
        return None
    half = t_quantile(level, prompts - 1) * math.sqrt(prompts / (prompts - 1) * float((residuals**2).sum()))
    return Interval(centre - half, centre + half, f"t over {prompts} prompts, each in both runs", "requests")


def _bootstrap(now: Sums, before: Sums, level: float) -> Interval | None:
    prompts = now.numerator.shape[1]
    of_prompts = resampling_counts(prompts, 2)
    drawn = now.resampled(1, of_prompts) - before.resampled(3, of_prompts)
    low, high = np.nanquantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    return Interval(float(low), float(high), f"bootstrap over the rounds of both runs and {prompts} prompts", "rounds")


def apart(now: Estimate, before: Estimate) -> tuple[float, Interval]:
    """``log(now / before)`` from two figures whose prompts cannot be matched: both intervals together.

    By the method of variance estimates recovery (Zou and Donner 2008), on the logarithms; unbounded where a side is.
    """
    mine, theirs = math.log(now.value), math.log(before.value)
    value = mine - theirs
    ends = (now.low, now.high, before.low, before.high)
    if any(end is None or end <= 0 for end in ends):
        return value, UNBOUNDED
    now_low, now_high, before_low, before_high = (math.log(end) for end in ends if end is not None)
    low = value - math.hypot(mine - now_low, before_high - theirs)
    high = value + math.hypot(now_high - mine, theirs - before_low)
    return value, Interval(low, high, "both intervals together", "requests")
