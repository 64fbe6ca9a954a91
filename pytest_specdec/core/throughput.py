"""Objectives of output throughput: its gain over the baseline, and its absolute value."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.intervals import UNBOUNDED, t_over
from pytest_specdec.core.samples import ARMS
from pytest_specdec.core.steady import keeps_up
from pytest_specdec.core.tables import numbered
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.intervals import Floats, Interval
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.core.verdict import Requirement


def throughput_gain(evidence: Evidence, requirement: Requirement) -> Estimate:
    """``throughput_spec / throughput_base - 1``: the geometric mean of the rounds' ratios, t interval over rounds."""
    if all(keeps_up(evidence.comparison, arm) for arm in ARMS):
        raise _offered_load(requirement, "both arms keep up with")
    evidence.check_gain_is_told()
    base, spec = (_per_round(evidence, arm, requirement) for arm in ARMS)
    log_ratio = np.log(spec / base)
    centre = float(log_ratio.mean())
    interval = over_time(evidence, log_ratio, centre)
    return Estimate(
        value=math.expm1(centre),
        low=None if interval.low is None else math.expm1(interval.low),
        high=None if interval.high is None else math.expm1(interval.high),
        level=evidence.level,
        samples=len(log_ratio),
        basis=interval.basis,
        limited_by=interval.limited_by,
    )


def throughput(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Tokens per second of the speculating server: mean over rounds, t interval."""
    if keeps_up(evidence.comparison, "specdec"):
        raise _offered_load(requirement, "the speculating server keeps up with")
    rates = _per_round(evidence, "specdec", requirement)
    centre = float(rates.mean())
    interval = over_time(evidence, rates, centre)
    return Estimate(
        value=centre,
        low=None if interval.low is None else max(0.0, interval.low),
        high=interval.high,
        level=evidence.level,
        samples=len(rates),
        basis=interval.basis,
        limited_by=interval.limited_by,
    )


def mean_throughput(evidence: Evidence, arm: Arm) -> float | None:
    """Mean over rounds for a table; None where there is no steady window, or where it would be the offered load."""
    rates = evidence.throughput(arm)
    known = [rate for rate in rates if rate is not None]
    if not known or len(known) < len(rates) or keeps_up(evidence.comparison, arm):
        return None
    return sum(known) / len(known)


def over_time(evidence: Evidence, per_round: Floats, centre: float) -> Interval:
    """The t interval of a figure that each round has one of, in the order of rounds."""
    units = numbered(evidence.moment(np.arange(len(per_round))))
    means = np.bincount(units, weights=per_round) / np.bincount(units)
    return t_over(means, centre, evidence.level, of=evidence.moments, limited_by="rounds") or UNBOUNDED


def _per_round(evidence: Evidence, arm: Arm, requirement: Requirement) -> Floats:
    rates = evidence.throughput(arm)
    known = [rate for rate in rates if rate]
    if len(known) < len(rates):
        raise CannotMeasure(
            f"{requirement.objective}: {len(rates) - len(known)} of {len(rates)} runs of the {arm} arm had no steady window",
            remedy="Raise num_requests to at least four times the concurrency: the server must stay busy for longer than it "
            "takes to fill and to drain.",
        )
    return np.array(known)


def _offered_load(requirement: Requirement, who: str) -> InvalidMeasurement:
    return InvalidMeasurement(
        f"{requirement.objective}: at a request rate that {who}, throughput is the offered load and says nothing "
        "about the server",
        remedy="Use concurrency=... (a closed loop), or a request_rate that saturates the server.",
    )
