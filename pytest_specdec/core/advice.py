"""What would settle an objective: the threshold that is provable now, more rounds, or more requests."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from pytest_specdec.core.intervals import t_quantile

if TYPE_CHECKING:
    from pytest_specdec.core.objective import Objective
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Direction, Estimate, Outcome, Requirement, Unit

_DECIMALS: dict[Unit, int] = {
    "fraction": 1,
    "ms": 1,
    "tokens": 2,
    "tok/s": 0,
    "GiB": 1,
    "s": 1,
    "count": 0,
    "yes/no": 0,
    "req/s": 2,
}
_MOST_TIMES = 100
"""Times the requests of a round; beyond that, "more requests" is no advice."""
_MOST_ROUNDS = 200
"""Beyond that, "more rounds" is no advice."""


def advice_for(
    comparison: Comparison, requirement: Requirement, estimate: Estimate, objective: Objective, outcome: Outcome
) -> str:
    """One line for a verdict that is not ok; empty for ok and where there is nothing to say."""
    if outcome == "ok" or estimate.level is None:
        return ""
    if objective.unit == "yes/no" and estimate.needed_requests is None:
        return ""  # what is open here, more of the same would not close
    provable = "" if objective.unit == "yes/no" else _provable(requirement, estimate, objective)
    if outcome == "FAIL":
        return provable
    if objective.kind == "history":
        return f"{provable}; more rounds (max_rounds) narrow this run's share of the interval only: save a result with more, too"
    return "; ".join(filter(None, (provable, _settling(comparison, requirement, estimate))))


def shown(value: float, unit: Unit, *, towards: Direction | None = None) -> str:
    """A number with its unit: ``21.4 %``, ``1.31``, ``246.0 ms``.

    Args:
        value: In the unit; fractions are fractions.
        unit: Of the objective.
        towards: Round away from what cannot be promised: ``lower`` rounds down, ``higher`` up.
    """
    scaled = 100 * value if unit == "fraction" else value
    step = 10.0 ** _DECIMALS[unit]
    if towards is not None:
        # A hair against 0.3 * 1000 = 299.99999999999994.
        scaled = (math.floor(scaled * step + 1e-6) if towards == "lower" else math.ceil(scaled * step - 1e-6)) / step
    suffix = {"fraction": " %", "tokens": "", "count": ""}.get(unit, f" {unit}")
    return f"{scaled:.{_DECIMALS[unit]}f}{suffix}"


def with_interval(estimate: Estimate, unit: Unit) -> str:
    """``21.4 % (18.9 .. 23.8 %)``, without the brackets where nothing bounds it."""
    if estimate.low is None or estimate.high is None:
        return shown(estimate.value, unit)
    low = shown(estimate.low, unit).removesuffix(" %")
    return f"{shown(estimate.value, unit)} ({low} .. {shown(estimate.high, unit)})"


def _provable(requirement: Requirement, estimate: Estimate, objective: Objective) -> str:
    higher = objective.direction == "higher"
    bound = estimate.low if higher else estimate.high
    if bound is None or (objective.unit == "fraction" and bound < -1):  # more than twice as slow: nothing to rely on
        return ""
    sign = ">=" if higher else "<="
    return f"provable now: {requirement.label} {sign} {shown(bound, objective.unit, towards='lower' if higher else 'higher')}"


def _settling(comparison: Comparison, requirement: Requirement, estimate: Estimate) -> str:
    load = comparison.load
    if estimate.needed_requests is not None and (
        estimate.low is None or estimate.high is None or estimate.limited_by == "requests"
    ):
        return (
            f"needs about {estimate.needed_requests} different requests a round (num_requests; {load.num_requests} now)"
            + _beyond(comparison, estimate.needed_requests)
        )
    if estimate.low is None or estimate.high is None:
        return "needs a second round" if comparison.rounds < 2 else ""  # noqa: PLR2004 - as the text says
    distance = abs(estimate.value - requirement.required)
    if distance == 0:
        return "the measured value is the threshold itself: no number of rounds settles that"
    # The interval must shrink on the side on which the threshold lies.
    half = estimate.value - estimate.low if requirement.required < estimate.value else estimate.high - estimate.value
    if estimate.limited_by == "requests":
        return _more_requests(comparison, math.ceil(load.num_requests * (half / distance) ** 2))
    return _more_time(comparison, distance / half, estimate.level or load.confidence)


def _more_requests(comparison: Comparison, needed: int) -> str:
    if needed > _MOST_TIMES * comparison.load.num_requests:
        return "too close to the threshold for any reasonable number of requests"
    return f"more rounds do not help; about {needed} requests (num_requests) would{_beyond(comparison, needed)}"


def _beyond(comparison: Comparison, needed: int) -> str:
    """Sending a prompt twice does not make two of it."""
    prompts = comparison.workload.prompts
    return f", and a workload of as many prompts ({prompts} now)" if needed > prompts else ""


def _more_time(comparison: Comparison, shrink: float, level: float) -> str:
    """How many rounds narrow the interval by this factor, or pairs of launches where these are the trials."""
    placement = comparison.placement
    if placement is not None and any(block.grouped for block in placement.blocks):
        done, what, how = len(placement.blocks), "pairs of launches", "every further look adds one"
    else:
        done, what, how = comparison.rounds, "rounds", f"max_rounds {comparison.load.max_rounds}"
    needed = _rounds_for(shrink, done, level)
    if needed is None:
        return f"too close to the threshold for any reasonable number of {what}"
    return f"about {needed} {what} would settle it ({done} run, {how})"


def _rounds_for(shrink: float, rounds: int, level: float) -> int | None:
    """How many rounds narrow a t interval by this factor, if the spread between rounds stays what it is."""
    if rounds < 2:  # noqa: PLR2004 - no spread known
        return None
    now = t_quantile(level, rounds - 1) / math.sqrt(rounds)
    candidates = range(rounds + 1, _MOST_ROUNDS + 1)
    return next((n for n in candidates if t_quantile(level, n - 1) / math.sqrt(n) <= shrink * now), None)
