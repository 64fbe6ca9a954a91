"""Gains over the baseline of the same run: the same request in both arms, round by round."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import ratio_of_sums
from pytest_specdec.core.tables import grid
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from pytest_specdec.core.evidence import Evidence, RequestQuantity
    from pytest_specdec.core.verdict import Requirement


def time_gain(evidence: Evidence, requirement: Requirement) -> Estimate:
    """``1 - time_spec / time_base`` from the geometric mean of ratios paired by request.

    The logarithms of the ratios are averaged over all pairs; the interval is made for that mean and carried over.
    """
    quantity = cast("RequestQuantity", requirement.objective.removesuffix("_gain"))
    evidence.check_gain_is_told()
    pairs = evidence.pairs(quantity)
    if quantity == "e2el":
        _check_same_work(evidence)
    log_ratio = np.log(pairs.spec / pairs.base)
    value, interval = ratio_of_sums(
        grid(log_ratio, pairs.round, pairs.unit),
        grid(np.ones_like(log_ratio), pairs.round, pairs.unit),
        evidence.level,
        of=evidence.moments,
    )
    return Estimate(
        value=_gain(value),
        low=None if interval.high is None else _gain(interval.high),
        high=None if interval.low is None else _gain(interval.low),
        level=evidence.level,
        samples=len(pairs.base),
        basis=interval.basis,
        excluded=pairs.excluded,
        limited_by=interval.limited_by,
    )


def _gain(log_ratio: float) -> float:
    return -math.expm1(log_ratio)


def _check_same_work(evidence: Evidence) -> None:
    """E2EL compares whole answers, so both arms must have written equally much."""
    base, spec = int(evidence.base.tokens.sum()), int(evidence.spec.tokens.sum())
    if base != spec:
        raise CannotMeasure(
            f"e2el_gain: the arms did different work, {base} tokens against {spec}",
            remedy="Set ignore_eos=True, or judge tpot_gain, which does not need answers of equal length.",
        )
