"""Classes put together again as the traffic has them: weighted acceptance, the worst class, and the mix that flips a verdict.

Two weightings answer two questions. *By requests* is what the server's own counters would show for such traffic: a class
whose answers are long makes more drafts and counts for more. The *plain mean* of the classes' figures gives each class its
share whatever it drafts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.class_acceptance import shares_of
from pytest_specdec.core.class_sums import ClassSums, class_sums
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.intervals import Interval, resampling_counts, t_quantile, widest
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.samples import Comparison

_FIRST_STREAM = 10
"""Of random numbers: one for each class, beside those that whole comparisons use."""


@dataclass(frozen=True)
class Mixture:
    """Acceptance of the whole traffic, from its classes; an estimate is None where a class's own is undefined."""

    shares: Mapping[str, float]
    """Of the measured classes, together 1."""
    stated: bool
    """Whether the workload states them; else they are those of the requests that were sent."""
    unmeasured: tuple[str, ...]
    """Classes that have a share of the traffic and no request here; the others' shares are scaled up."""
    acceptance_length: Estimate | None
    """Weighted by requests: ``1 + sum w A / sum w D`` with accepted tokens and drafts per request of each class."""
    mean_acceptance_length: Estimate | None
    """The plain mean of the classes' acceptance lengths, each with its share."""
    tokens_per_step: Estimate | None
    """Weighted by requests, likewise from tokens and steps."""
    worst: str | None
    """The class with the fewest tokens per step; by acceptance length where steps are unknown."""


@dataclass(frozen=True)
class Flip:
    """The share of one class at which the whole meets a requirement exactly, the others keeping their proportions."""

    name: str
    share: float
    """Where it flips; now it is ``now``."""
    now: float
    falls: bool
    """Whether more of the class makes the whole miss the requirement; else less of it is needed to meet it."""
    several: bool = False
    """Whether there is more than one other class."""


def mixture(comparison: Comparison, level: float | None = None) -> Mixture | None:
    """The traffic's figures; None where no prompt has a class. Never raises.

    Args:
        comparison: At least one round of the speculating server.
        level: Of the intervals; None takes the load's confidence.
    """
    evidence = Evidence(comparison, level or comparison.load.confidence)
    shares = shares_of(comparison)
    try:
        sums = class_sums(evidence)
    except CannotMeasure:
        sums = ()
    stated = comparison.workload.weights or {}
    if not shares or not (sums or stated):
        return None
    used = bool(stated) and set(shares) <= set(stated)
    drafts = _all_draft(evidence, sums)
    steps = [one.steps for one in sums if one.steps is not None and one.steps.sum()]
    complete = bool(sums) and len(steps) == len(sums)
    return Mixture(
        shares=shares,
        stated=used,
        unmeasured=tuple(name for name in stated if name not in shares) if used else (),
        acceptance_length=_weighted(sums, shares, "drafts", evidence) if drafts else None,
        mean_acceptance_length=_plain_mean(sums, shares, evidence) if drafts else None,
        tokens_per_step=_weighted(sums, shares, "steps", evidence) if complete else None,
        worst=_worst(sums, drafts=drafts, steps=complete),
    )


def flip(comparison: Comparison, required: float, *, steps: bool = False) -> Flip | None:
    """Which share of the worst class decides whether the whole meets a requirement; None where no share does.

    Args:
        comparison: With classes.
        required: An acceptance length, or tokens per step.
        steps: Whether tokens per step are meant.
    """
    evidence = Evidence(comparison, comparison.load.confidence)
    shares = shares_of(comparison)
    try:
        sums = class_sums(evidence)
    except CannotMeasure:
        return None
    if len(sums) < 2 or not (all(one.steps is not None for one in sums) if steps else _all_draft(evidence, sums)):  # noqa: PLR2004 - a mix
        return None
    # Per request and class: how much more than required it yields. The whole meets it where the weighted sum is not negative.
    surplus = {}
    for one in sums:
        tokens, per = _columns(one, "steps" if steps else "drafts")
        surplus[one.name] = float((tokens - (required if steps else required - 1) * per).sum() / one.requests.sum())
    name = min(surplus, key=lambda one: surplus[one])
    rest = sum(shares[other] * surplus[other] for other in surplus if other != name) / (1 - shares[name])
    if surplus[name] >= 0 or rest <= 0:
        return None
    share = rest / (rest - surplus[name])
    return Flip(name, share, shares[name], falls=shares[name] <= share, several=len(sums) > 2)  # noqa: PLR2004 - it and another


def _columns(sums: ClassSums, per: str) -> tuple[Floats, Floats]:
    if per == "drafts":
        return sums.accepted, sums.drafts
    return sums.later_tokens, np.zeros(sums.prompts) if sums.steps is None else sums.steps


def _all_draft(evidence: Evidence, sums: Sequence[ClassSums]) -> bool:
    try:
        _ = evidence.acceptance
    except CannotMeasure:
        return False
    return bool(sums) and all(one.drafts.sum() > 0 for one in sums)


def _worst(sums: Sequence[ClassSums], *, drafts: bool, steps: bool) -> str | None:
    if not (drafts or steps):
        return None

    def yields(one: ClassSums) -> float:
        tokens, per = _columns(one, "steps" if steps else "drafts")
        return float(tokens.sum() / per.sum())

    return min(sums, key=yields).name


def _weighted(sums: Sequence[ClassSums], shares: Mapping[str, float], per: str, evidence: Evidence) -> Estimate:
    """``sum w A / sum w D`` with per-request means of each class, prompts drawn anew within each."""
    above = denominator = 0.0
    drawn_above, drawn_below = np.zeros(()), np.zeros(())
    for place, one in enumerate(sums):
        weight = shares[one.name]
        tokens, counted = _columns(one, per)
        drawn = resampling_counts(one.prompts, _FIRST_STREAM + place)
        requests = drawn @ one.requests
        above += weight * float(tokens.sum() / one.requests.sum())
        denominator += weight * float(counted.sum() / one.requests.sum())
        drawn_above = drawn_above + weight * (drawn @ tokens) / requests
        drawn_below = drawn_below + weight * (drawn @ counted) / requests
    ratio = above / denominator
    residuals = []
    for one in sums:
        tokens, counted = _columns(one, per)
        surplus = tokens - ratio * counted
        mean = float(surplus.sum() / one.requests.sum())
        scale = shares[one.name] / (float(one.requests.sum()) * denominator)
        residuals.append(scale * (surplus - mean * one.requests))
    usable = drawn_below > 0
    interval = _widest(ratio, drawn_above[usable] / drawn_below[usable], residuals, evidence.level)
    if per == "drafts":
        return _estimate(1 + ratio, interval.moved(1), sums, evidence, "drafts")
    return _estimate(ratio, interval, sums, evidence, "steps")


def _plain_mean(sums: Sequence[ClassSums], shares: Mapping[str, float], evidence: Evidence) -> Estimate:
    value, drawn_value, residuals = 0.0, np.zeros(()), []
    for place, one in enumerate(sums):
        weight, drafts = shares[one.name], float(one.drafts.sum())
        ratio = float(one.accepted.sum()) / drafts
        drawn = resampling_counts(one.prompts, _FIRST_STREAM + place)
        value += weight * (1 + ratio)
        drawn_value = drawn_value + weight * (1 + (drawn @ one.accepted) / np.maximum(drawn @ one.drafts, 1e-9))
        residuals.append(weight / drafts * (one.accepted - ratio * one.drafts))
    return _estimate(value, _widest(value, drawn_value, residuals, evidence.level), sums, evidence, "drafts")


def _widest(value: float, drawn: Floats, residuals: Sequence[Floats], level: float) -> Interval:
    """The wider of the bootstrap and of t over the prompts of all classes (Welch and Satterthwaite's degrees of freedom)."""
    low, high = np.quantile(drawn, [(1 - level) / 2, (1 + level) / 2])
    bootstrap = Interval(float(low), float(high), f"bootstrap within {len(residuals)} classes", "requests")
    if any(len(one) < 2 for one in residuals):  # noqa: PLR2004 - a class of one prompt has no spread
        return Interval(None, None, "a class of one prompt has no interval", "requests")
    variances = [len(one) / (len(one) - 1) * float((one**2).sum()) for one in residuals]
    total = sum(variances)
    if not total:
        return bootstrap
    degrees = total**2 / sum(variance**2 / (len(one) - 1) for variance, one in zip(variances, residuals, strict=True))
    half = t_quantile(level, degrees) * math.sqrt(total)
    return widest(bootstrap, Interval(value - half, value + half, f"t within {len(residuals)} classes", "requests"))


def _estimate(value: float, interval: Interval, sums: Sequence[ClassSums], evidence: Evidence, per: str) -> Estimate:
    unsure = per == "drafts" and any(one.drafts_between is not None for one in sums)
    return Estimate(
        value=value,
        low=None if unsure or interval.low is None else max(interval.low, min(1.0, value)),
        high=None if unsure else interval.high,
        level=evidence.level,
        samples=sum(one.prompts for one in sums),
        basis=f"{interval.basis}, from {sums[0].source}",
        limited_by="requests",
        remark="which steps drafted is not known per class" if unsure else "",
    )
