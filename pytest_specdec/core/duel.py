"""Two configs under one load: who is faster, and whether that is more than noise.

Both were compared with the same baseline on the same requests, so what tells them apart is the ratio of their ratios,
request by request and round by round: ``(A_spec / A_base) / (B_spec / B_base)``.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.intervals import ratio_of_sums
from pytest_specdec.core.judge import level_for, planned_looks
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.tables import grid, numbered
from pytest_specdec.core.verdict import Estimate, Requirement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.samples import Comparison

_MOST_PLACES = 10**6
"""Requests of a round are fewer, turns of conversations included."""
_SHARED = 0.5
"""Share of the requests that two configs must have in common to be compared request by request."""


@dataclass(frozen=True)
class Duel:
    """Two configs against each other."""

    ahead: str
    """The config whose TPOT was measured to be shorter."""
    behind: str
    less_time: Estimate
    """``1 - TPOT of the one ahead / TPOT of the other``, in units of their common baseline."""

    @property
    def told_apart(self) -> bool:
        """Whether the interval leaves no doubt who is faster."""
        return self.less_time.low is not None and self.less_time.low > 0


def duel(one: Comparison, other: Comparison, *, pairs: int = 1) -> Duel:
    """Two configs under the same load, measured against an equal baseline; both have a gain.

    Args:
        one: Of the first config.
        other: Of the second.
        pairs: How many pairs share the confidence.
    """
    looks = max(len(planned_looks(each.load)) for each in (one, other))
    level = level_for(min(each.load.confidence for each in (one, other)), looks * pairs)
    left, right = Evidence(one, level), Evidence(other, level)
    value, low, high, basis = _log_difference(left, right)
    if value > 0:
        one, other = other, one
        value, low, high = -value, None if high is None else -high, None if low is None else -low
    return Duel(
        ahead=one.config_id,
        behind=other.config_id,
        less_time=Estimate(
            value=-math.expm1(value),
            low=None if high is None else -math.expm1(high),
            high=None if low is None else -math.expm1(low),
            level=level,
            samples=min(each.rounds for each in (one, other)),
            basis=basis,
            limited_by="rounds",
        ),
    )


def beaten(comparisons: Sequence[Comparison]) -> frozenset[str]:
    """Ids of the configs that another one of them is faster than beyond doubt.

    Args:
        comparisons: Of different configs under the same load; all have a gain.
    """
    pairs = list(itertools.combinations(comparisons, 2))
    duels = (duel(one, other, pairs=len(pairs)) for one, other in pairs)
    return frozenset(one.behind for one in duels if one.told_apart)


def _log_difference(left: Evidence, right: Evidence) -> tuple[float, float | None, float | None, str]:
    """Mean of ``log ratio of left - log ratio of right`` with its interval."""
    ours, theirs = _log_ratios(left), _log_ratios(right)
    rounds = min(left.comparison.rounds, right.comparison.rounds)
    _, mine, yours = np.intersect1d(ours.key, theirs.key, assume_unique=True, return_indices=True)
    common = ours.round[mine] < rounds
    mine, yours = mine[common], yours[common]
    possible = int((ours.round < rounds).sum())
    same_moments = np.array_equal(numbered(ours.moment[mine]), numbered(theirs.moment[yours])) if len(mine) else False
    if not same_moments or len(mine) < _SHARED * possible:
        return _apart(left, right)
    difference = ours.value[mine] - theirs.value[yours]
    moment, unit = numbered(ours.moment[mine]), numbered(ours.unit[mine])
    value, interval = ratio_of_sums(
        grid(difference, moment, unit), grid(np.ones_like(difference), moment, unit), left.level, of=left.moments
    )
    return value, interval.low, interval.high, f"{interval.basis}, request by request"


def _apart(left: Evidence, right: Evidence) -> tuple[float, float | None, float | None, str]:
    """Where requests do not coincide (a suffix cache asks for fresh ones): what both intervals leave possible together."""
    requirement = Requirement("tpot_gain", math.nan)
    gains = [REGISTRY["tpot_gain"].estimate(each, requirement) for each in (left, right)]

    def log(gain: float | None) -> float | None:
        return None if gain is None else math.log1p(-gain)

    def minus(one: float | None, other: float | None) -> float | None:
        return None if one is None or other is None else one - other

    a, b = gains
    low, high = minus(log(a.high), log(b.low)), minus(log(a.low), log(b.high))
    return math.log1p(-a.value) - math.log1p(-b.value), low, high, "both intervals together"


@dataclass(frozen=True)
class _LogRatios:
    """``log(TPOT_spec / TPOT_base)`` of every request that has it in both arms; shape (pairs,)."""

    value: Floats
    key: Ints
    """Equal in two comparisons for the same prompt at the same place of the same round."""
    round: Ints
    moment: Ints
    unit: Ints


def _log_ratios(evidence: Evidence) -> _LogRatios:
    base, spec = evidence.base, evidence.spec
    width = 1 + int(max(base.index.max(), spec.index.max()))
    _, left, right = np.intersect1d(
        base.round * width + base.index, spec.round * width + spec.index, assume_unique=True, return_indices=True
    )
    defined = (base.tpot_s[left] > 0) & (spec.tpot_s[right] > 0)
    left, right = left[defined], right[defined]
    contents = 1 + evidence.comparison.workload.prompts  # conversations count below zero
    index, prompt, rounds = base.index[left], base.prompt[left], base.round[left]
    return _LogRatios(
        value=np.log(spec.tpot_s[right] / base.tpot_s[left]),
        key=(rounds * _MOST_PLACES + index) * 2 * contents + prompt + contents,
        round=rounds,
        moment=evidence.moment(rounds),
        unit=prompt,
    )
