"""Percentiles and what bounds them: order statistics, which hold for any distribution."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from scipy import special

from pytest_specdec.core.intervals import Interval

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats


def order_statistic_ranks(n: int, quantile: float, level: float) -> tuple[int | None, int | None]:
    """Ranks (from 1) of the two order statistics between which a quantile lies, exact for any distribution.

    None where even the smallest or the largest value is no bound: a 95th percentile has an upper one at level 95 % only
    from 72 values on.
    """
    tail = (1 - level) / 2
    spread = 10 * math.sqrt(n * quantile * (1 - quantile)) + 10
    ranks = np.arange(max(1, int(n * quantile - spread)), min(n, int(n * quantile + spread)) + 1)
    below = special.bdtr(ranks - 1, n, quantile)
    lower, upper = ranks[below <= tail], ranks[1 - below <= tail]
    return (int(lower[-1]) if len(lower) else None), (int(upper[0]) if len(upper) else None)


def quantile_needs(quantile: float, level: float) -> int:
    """From how many independent values on a quantile has bounds on both sides."""
    tail = (1 - level) / 2
    return max(math.ceil(math.log(tail) / math.log(one)) for one in (quantile, 1 - quantile))


def quantile_of(ascending: Floats, quantile: float) -> float:
    """The quantile of sorted values, interpolated linearly like numpy's and vLLM's."""
    place = quantile * (len(ascending) - 1)
    before = min(math.floor(place), len(ascending) - 1)
    after = min(before + 1, len(ascending) - 1)
    return float(ascending[before] + (place - before) * (ascending[after] - ascending[before]))


def ranked_interval(ascending: Floats, worth: int, quantile: float, level: float) -> Interval:
    """Order-statistic interval of a quantile of pooled requests.

    Args:
        ascending: Shape (n,), sorted.
        worth: How many independent values the pooled ones are worth.
        quantile: Between 0 and 1.
        level: Two-sided confidence.
    """
    n = len(ascending)
    lower, upper = order_statistic_ranks(worth, quantile, level)
    # One of `worth` values stands for n / worth pooled ones: outwards from the rank, to be safe.
    low = None if lower is None else float(ascending[math.floor((lower - 1) * n / worth)])
    high = None if upper is None else float(ascending[min(math.ceil(upper * n / worth), n) - 1])
    return Interval(low, high, f"order statistics of {worth} independent values", "requests")
