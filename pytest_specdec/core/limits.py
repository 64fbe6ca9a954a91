"""Absolute limits on the latencies of the speculating server."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, cast

import numpy as np

from pytest_specdec.core.intervals import (
    effective_size,
    ratio_of_sums,
    t_over,
    widest,
)
from pytest_specdec.core.quantiles import quantile_needs, quantile_of, ranked_interval
from pytest_specdec.core.tables import grid
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from pytest_specdec.core.evidence import Evidence, Quantity
    from pytest_specdec.core.intervals import Interval
    from pytest_specdec.core.tables import Values
    from pytest_specdec.core.verdict import Requirement


def latency(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Mean or percentile, in milliseconds, over the requests of all rounds (tokens for ITL, gaps for chunk gaps)."""
    quantity, statistic = requirement.objective.removesuffix("_ms").rsplit("_", 1)
    values = evidence.values(cast("Quantity", quantity))
    needed = None
    if statistic == "mean":
        value, interval = _mean(values, evidence)
    else:
        share = int(statistic.removeprefix("p")) / 100
        value = quantile_of(values.ascending, share)
        worth = effective_size(values.where(values.value <= value), values.counts, evidence.level)
        # Order statistics of all requests for content, t over the rounds' percentiles for time; the wider.
        per_round = np.array([quantile_of(one, share) for one in values.by_round])
        interval = widest(
            ranked_interval(values.ascending, worth, share, evidence.level),
            t_over(per_round, value, evidence.level, of=evidence.moments, limited_by="rounds"),
        )
        needed = requests_needed(quantile_needs(share, evidence.level), worth, evidence)
    return Estimate(
        value=1000 * value,
        low=None if interval.low is None else 1000 * max(0.0, interval.low),
        high=None if interval.high is None else 1000 * interval.high,
        level=evidence.level,
        samples=len(values.value),
        basis=interval.basis,
        excluded=values.excluded,
        limited_by=interval.limited_by,
        needed_requests=needed,
    )


def _mean(values: Values, evidence: Evidence) -> tuple[float, Interval]:
    return ratio_of_sums(
        grid(values.of_request(values.value), values.round, values.unit),
        grid(values.of_request(), values.round, values.unit),
        evidence.level,
        of=evidence.moments,
    )


def requests_needed(values: int, worth: int, evidence: Evidence) -> int | None:
    """Requests a round that would be worth so many independent values; None where there are enough."""
    return math.ceil(evidence.comparison.load.num_requests * values / worth) if worth < values else None
