"""Goodput: how many requests succeed within every limit, and how that compares with the baseline."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.intervals import Interval, effective_size, t_over, widest, wilson, wilson_needs
from pytest_specdec.core.limits import requests_needed
from pytest_specdec.core.tables import grid, numbered
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from numpy.typing import NDArray

    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.run_table import RunTable
    from pytest_specdec.core.samples import Arm
    from pytest_specdec.core.verdict import Requirement

_LIMITED: Mapping[str, Callable[[RunTable], Floats]] = {
    "ttft_ms": lambda table: table.ttft_s,
    "tpot_ms": lambda table: table.tpot_s,
    "e2el_ms": lambda table: table.e2el_s,
}


def goodput(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of attempted requests of the speculating server that succeed and meet every limit.

    Wilson's interval over as many independent requests as the repeated ones are worth, or t over rounds when that is wider.
    """
    share, worth, interval = _share(evidence, requirement, "specdec", evidence.level)
    needed = requests_needed(wilson_needs(requirement.required, evidence.level), worth, evidence)
    return Estimate(
        value=share,
        low=interval.low,
        high=interval.high,
        level=evidence.level,
        samples=_attempted(evidence, "specdec"),
        basis=interval.basis,
        limited_by=interval.limited_by,
        needed_requests=needed if share >= requirement.required else None,
        remark=f"{good_requests_per_s(evidence, requirement, 'specdec'):.3g} good requests per second",
    )


def failure_share(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of attempted requests of the speculating server that did not succeed, with the interval of goodput without limits."""
    succeeded, worth, interval = _share(evidence, requirement, "specdec", evidence.level)
    needed = requests_needed(wilson_needs(1 - requirement.required, evidence.level), worth, evidence)
    return Estimate(
        value=1 - succeeded,
        low=None if interval.high is None else 1 - interval.high,
        high=None if interval.low is None else 1 - interval.low,
        level=evidence.level,
        samples=_attempted(evidence, "specdec"),
        basis=interval.basis,
        limited_by=interval.limited_by,
        needed_requests=needed if 1 - succeeded <= requirement.required else None,
    )


def goodput_gain(evidence: Evidence, requirement: Requirement) -> Estimate:
    """Share of good requests of the speculating server / that of the baseline - 1.

    Each share has its interval at a level of (1 + level) / 2, so that both hold together at ``level`` (Bonferroni), whatever the
    arms have in common; the ratio lies between the ends that are farthest apart.

    Raises:
        CannotMeasure: No request of the baseline was good, so that there is nothing to relate to.
    """
    evidence.check_gain_is_told()
    level = (1 + evidence.level) / 2
    base, _, base_interval = _share(evidence, requirement, "baseline", level)
    share, _, interval = _share(evidence, requirement, "specdec", level)
    if base == 0:
        raise CannotMeasure(
            "goodput_gain: no request of the baseline met every limit, so there is nothing to relate the gain to",
            remedy="Loosen the limits, lower the load, or judge min_goodput, which needs no baseline.",
        )
    per_s = (good_requests_per_s(evidence, requirement, arm) for arm in ("baseline", "specdec"))
    return Estimate(
        value=share / base - 1,
        low=(interval.low or 0.0) / (base_interval.high or 1.0) - 1,
        high=interval.high / base_interval.low - 1 if interval.high is not None and base_interval.low else None,
        level=evidence.level,
        samples=_attempted(evidence, "specdec"),
        basis=f"{interval.basis}, for both arms",
        limited_by=interval.limited_by,
        remark="{:.3g} good requests per second without, {:.3g} with speculation".format(*per_s),
    )


def _share(evidence: Evidence, requirement: Requirement, arm: Arm, level: float) -> tuple[float, int, Interval]:
    """The share of good requests, how many independent ones they are worth, and the share's interval."""
    runs = evidence.comparison.arm(arm)
    if not any(run.samples for run in runs):
        raise CannotMeasure(f"{requirement.objective}: no request was sent to the {arm} server")
    limits = dict(requirement.options)
    rounds = numbered(evidence.moment(np.repeat([run.round for run in runs], [len(run.samples) for run in runs])))
    prompts = numbered(np.concatenate([run.table.content for run in runs]))
    good = np.concatenate([are_good(run.table, limits) for run in runs]).astype(np.float64)
    share = float(good.mean())
    per_round = np.bincount(rounds, weights=good) / np.bincount(rounds)
    worth = effective_size(grid(good, rounds, prompts), grid(np.ones(len(good)), rounds, prompts), level)
    interval = widest(
        wilson(share, worth, level, of="independent requests"),
        t_over(per_round, share, level, of=evidence.moments, limited_by="rounds"),
    ).clipped(0.0, 1.0)
    return share, worth, interval


def are_good(table: RunTable, limits: Mapping[str, float]) -> NDArray[np.bool_]:
    """Whether each request succeeded within all limits (``ttft_ms``, ``tpot_ms``, ``e2el_ms``).

    An answer of one token has no TPOT and cannot break a limit on it.
    """
    good: NDArray[np.bool_] = table.ok.copy()
    for name, limit in limits.items():
        good &= ~(1000 * _LIMITED[name](table) > limit)
    return good


def good_requests_per_s(evidence: Evidence, requirement: Requirement, arm: Arm) -> float:
    """Goodput as ``vllm bench serve`` prints it: good requests per second of the windows."""
    runs = evidence.comparison.arm(arm)
    limits = dict(requirement.options)
    return int(sum(are_good(run.table, limits).sum() for run in runs)) / sum(run.duration_s for run in runs)


def _attempted(evidence: Evidence, arm: Arm) -> int:
    return sum(len(run.samples) for run in evidence.comparison.arm(arm))
