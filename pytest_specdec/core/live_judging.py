"""Objectives judged on live traffic: counters and histograms over a window, no single requests.

Slices of the window are the independent units of time. A percentile is known no better than the bucket that it lies in.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.intervals import ratio_of_sums, t_over, widest, wilson
from pytest_specdec.core.judge import outcome_of
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.quantiles import order_statistic_ranks
from pytest_specdec.core.verdict import Estimate, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from pytest_specdec.core.intervals import Floats, Interval
    from pytest_specdec.core.live_window import LiveArm, LiveHistogram, LiveWindow
    from pytest_specdec.core.verdict import Requirement

    Estimator = Callable[[LiveWindow, Requirement, float], Estimate]

_FEWEST_SLICES = 3
_UNLIKE = 1.1
"""Mean lengths of prompts and answers whose ratio is beyond this are said."""


def judge_live(window: LiveWindow, requirements: Sequence[Requirement], *, confidence: float) -> tuple[Verdict, ...]:
    """Verdicts of all requirements, in their order.

    Raises:
        CannotMeasure: An objective cannot be told from counters and histograms, or there was too little traffic.
        InvalidMeasurement: The numbers must not be believed.
    """
    _check(window)
    return tuple(_judged(window, requirement, confidence) for requirement in requirements)


def live_notes(window: LiveWindow) -> tuple[str, ...]:
    """How the arms' traffic differs, which is not split by the same requests here."""
    return tuple(_notes(window))


def live_objectives() -> tuple[str, ...]:
    """Names of the objectives that can be judged so."""
    return tuple(name for name in REGISTRY if _estimator(name) is not None)


def _judged(window: LiveWindow, requirement: Requirement, level: float) -> Verdict:
    objective, estimator = REGISTRY[requirement.objective], _estimator(requirement.objective)
    if estimator is None:
        raise CannotMeasure(
            f"{requirement.objective} cannot be judged on live traffic: counters and histograms do not tell it",
            remedy=f"Judged can be {', '.join(live_objectives())}.",
        )
    estimate = estimator(window, requirement, level)
    outcome = outcome_of(estimate, requirement.required, objective.direction)
    advice = _advice(window, requirement) if outcome == "unsure" else ""
    return Verdict(requirement, estimate, outcome, objective.direction, objective.unit, advice)


def _estimator(name: str) -> Estimator | None:
    found = _ESTIMATORS.get(name)
    quantity, _, statistic = name.removesuffix("_ms").rpartition("_")
    if found is None and name.endswith("_ms") and quantity in ("ttft", "tpot", "e2el"):
        return _mean_ms if statistic == "mean" else _percentile_ms
    return found


def _check(window: LiveWindow) -> None:
    base, spec = window.baseline, window.specdec
    if "drafts" in base.counts:
        raise InvalidMeasurement(
            f"the baseline speculates too: servers of {base.selector} count drafts ({base.total('drafts'):.0f} in the window)",
            remedy="Choose labels that only the servers without speculation have.",
        )
    if "drafts" not in spec.counts:
        raise InvalidMeasurement(
            f"speculation is not on: no server of {spec.selector} has vllm:spec_decode_* counters",
            remedy="Choose labels of the servers that were started with --speculative-config.",
        )
    if spec.restarts:
        times = "once" if spec.restarts == 1 else f"{spec.restarts} times"
        raise InvalidMeasurement(
            f"a speculating server restarted {times} within the window",
            remedy="Look for out-of-memory kills in its events and its log; the draft takes memory of its own. A restart that was "
            "meant to be is left out by a shorter window.",
        )
    if not spec.total("drafts"):
        raise InvalidMeasurement(
            f"speculation was not active: not one draft by servers of {spec.selector} in the window",
            remedy="Has it had traffic? Otherwise look into its log for what became of the draft.",
        )
    for arm in (base, spec):
        if not arm.total("finished_requests"):
            raise CannotMeasure(
                f"no request of {arm.selector} ended within the window",
                remedy="Send it traffic, or take a longer window.",
            )


def _ratio(top: Floats, bottom: Floats, level: float, what: str) -> tuple[float, Interval, int]:
    """The ratio of the sums, its interval over slices, and in how many slices there was anything."""
    busy = int((bottom > 0).sum())
    if busy < _FEWEST_SLICES:
        raise CannotMeasure(
            f"{what}: traffic in {busy} of {len(bottom)} slices of the window does not tell how much they differ",
            remedy="Take a longer window, or send more traffic.",
        )
    value, interval = ratio_of_sums(top[:, None], bottom[:, None], level, of="slices")
    return value, interval, busy


def _estimate(value: float, interval: Interval, level: float, slices: int) -> Estimate:
    return Estimate(value, interval.low, interval.high, level, slices, interval.basis, limited_by=interval.limited_by)


def _spec_count(window: LiveWindow, field: str, requirement: Requirement) -> Floats:
    counts = window.specdec.counts
    if field not in counts:
        raise CannotMeasure(
            f"{requirement.label}: no server of {window.specdec.selector} counts {field.replace('_', ' ')}"
        )
    return counts[field]


def _share_of(
    window: LiveWindow, requirement: Requirement, level: float, *, top: Floats, bottom: str, add: float = 0.0
) -> Estimate:
    below = _spec_count(window, bottom, requirement)
    value, interval, busy = _ratio(top, below, level, requirement.label)
    if value in (0.0, 1.0):  # without spread, their number sets the width
        interval = widest(interval, wilson(value, float(below.sum()), level, of=bottom.replace("_", " ")))
    return _estimate(value + add, interval.moved(add), level, busy)


def _acceptance_length(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    accepted = _spec_count(window, "accepted_tokens", requirement)
    return _share_of(window, requirement, level, top=accepted, bottom="drafts", add=1.0)


def _acceptance_rate(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    accepted = _spec_count(window, "accepted_tokens", requirement)
    return _share_of(window, requirement, level, top=accepted, bottom="draft_tokens")


def _acceptance_at(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    positions, position = window.specdec.positions, int(requirement.part or 0)
    if positions is None or position >= positions.shape[1]:
        raise CannotMeasure(f"{requirement.label}: no server of {window.specdec.selector} counts that position")
    return _share_of(window, requirement, level, top=positions[:, position], bottom="drafts")


def _coverage(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    drafts = _spec_count(window, "drafts", requirement)
    return _share_of(window, requirement, level, top=drafts, bottom="decode_steps")


def _tokens_per_step(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    """First tokens are counted with the request's first token, which may fall into an earlier slice than its end."""
    tokens = _spec_count(window, "generation_tokens", requirement) - _spec_count(window, "ttft_count", requirement)
    return _share_of(window, requirement, level, top=tokens, bottom="decode_steps")


def _failure_share(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    arm = window.specdec
    # What was answered with 5xx did not get so far as to be counted as finished.
    refused = arm.counts.get("http_5xx", 0.0)
    failed, attempted = arm.counts["errors"] + refused, arm.counts["finished_requests"] + refused
    value, interval, busy = _ratio(failed, attempted, level, requirement.label)
    interval = widest(interval, wilson(value, float(attempted.sum()), level, of="requests")).clipped(0.0, 1.0)
    return _estimate(value, interval, level, busy)


def _gain(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    """``1 - mean_spec / mean_base`` of all requests of the window; t over the slices' ratios."""
    quantity = requirement.objective.removesuffix("_gain")
    base, spec = (_histogram(window.arm(arm), quantity, requirement) for arm in ("baseline", "specdec"))
    counts = base.counts.sum(axis=1), spec.counts.sum(axis=1)
    both = (counts[0] > 0) & (counts[1] > 0) & (base.sums_s > 0) & (spec.sums_s > 0)
    if both.sum() < _FEWEST_SLICES:
        raise CannotMeasure(
            f"{requirement.label}: both arms had traffic in {both.sum()} of {len(both)} slices of the window, too few to tell how "
            "much they differ",
            remedy="Take a longer window, or send more traffic.",
        )
    logs = np.log(spec.sums_s[both] / counts[1][both]) - np.log(base.sums_s[both] / counts[0][both])
    centre = math.log(spec.sums_s.sum() / counts[1].sum()) - math.log(base.sums_s.sum() / counts[0].sum())
    interval = widest(t_over(logs, centre, level, of="slices", limited_by="rounds"))
    return Estimate(
        value=-math.expm1(centre),
        low=None if interval.high is None else -math.expm1(interval.high),
        high=None if interval.low is None else -math.expm1(interval.low),
        level=level,
        samples=int(both.sum()),
        basis=interval.basis,
    )


def _histogram(arm: LiveArm, quantity: str, requirement: Requirement) -> LiveHistogram:
    if quantity not in arm.histograms:
        raise CannotMeasure(f"{requirement.label}: no server of {arm.selector} has a histogram of {quantity.upper()}")
    return arm.histograms[quantity]


def _mean_ms(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    histogram = _histogram(window.specdec, requirement.objective.partition("_")[0], requirement)
    value, interval, busy = _ratio(histogram.sums_s, histogram.counts.sum(axis=1), level, requirement.label)
    return _estimate(1000 * value, interval.moved(0.0, scale=1000.0), level, busy)


def _percentile_ms(window: LiveWindow, requirement: Requirement, level: float) -> Estimate:
    """The buckets of the order statistics between which the percentile lies; its value interpolates as Prometheus does."""
    quantity, _, statistic = requirement.objective.removesuffix("_ms").rpartition("_")
    share = int(statistic.removeprefix("p")) / 100
    histogram = _histogram(window.specdec, quantity, requirement)
    cumulative = histogram.counts.sum(axis=0).cumsum()
    n = round(float(cumulative[-1]))
    if not n:
        raise CannotMeasure(
            f"{requirement.label}: no request of {window.specdec.selector} was observed within the window"
        )
    lower, upper = order_statistic_ranks(n, share, level)
    # The bucket itself is the least that is unknown, whatever the ranks.
    here = _bucket(cumulative, share * n)
    low = min(_bucket(cumulative, lower), here) if lower is not None else None
    high = max(_bucket(cumulative, upper), here) if upper is not None else None
    return Estimate(
        value=1000 * _interpolated(histogram, cumulative, share * n),
        low=None if low is None else 1000 * _lower_bound(histogram, low),
        high=None if high is None or math.isinf(histogram.bounds_s[high]) else 1000 * histogram.bounds_s[high],
        level=level,
        samples=n,
        basis=f"buckets of the histogram, order statistics of {n} requests",
        limited_by="requests",
    )


def _bucket(cumulative: Floats, rank: float) -> int:
    """Index of the bucket that holds the value of a rank."""
    return min(int(np.searchsorted(cumulative, rank - 1e-9)), len(cumulative) - 1)


def _lower_bound(histogram: LiveHistogram, bucket: int) -> float:
    return histogram.bounds_s[bucket - 1] if bucket else 0.0


def _interpolated(histogram: LiveHistogram, cumulative: Floats, rank: float) -> float:
    bucket = _bucket(cumulative, rank)
    low, high = _lower_bound(histogram, bucket), histogram.bounds_s[bucket]
    if math.isinf(high):
        return low
    before = float(cumulative[bucket - 1]) if bucket else 0.0
    within = float(cumulative[bucket]) - before
    return low + (high - low) * (rank - before) / within if within else high


_ESTIMATORS: dict[str, Estimator] = {
    "tpot_gain": _gain,
    "ttft_gain": _gain,
    "min_acceptance_length": _acceptance_length,
    "min_acceptance_rate": _acceptance_rate,
    "min_acceptance_at": _acceptance_at,
    "min_tokens_per_step": _tokens_per_step,
    "min_draft_coverage": _coverage,
    "max_failure_share": _failure_share,
}


def _advice(window: LiveWindow, requirement: Requirement) -> str:
    quantity, _, statistic = requirement.objective.removesuffix("_ms").rpartition("_")
    histogram = window.specdec.histograms.get(quantity)
    if histogram is None or not statistic.startswith("p"):
        return "a longer window, or more traffic, makes the interval narrower"
    limit_s = requirement.required / 1000
    bounds = [bound for bound in histogram.bounds_s if math.isfinite(bound)]
    if any(math.isclose(bound, limit_s) for bound in bounds):
        return "more traffic makes the interval narrower"
    nearest = sorted(sorted(bounds, key=lambda bound: abs(bound - limit_s))[:2])
    return (
        "a histogram proves limits at the bounds of its buckets only; the nearest are "
        f"{' and '.join(f'{1000 * bound:g}' for bound in nearest)} ms"
    )


def _notes(window: LiveWindow) -> Iterator[str]:
    base, spec = window.baseline, window.specdec
    yield "live traffic: the arms answered different requests, and gains compare means over all of them"
    for what, of, per in (
        ("prompt", "prompt_tokens", "ttft_count"),
        ("answer", "generation_tokens", "finished_requests"),
    ):
        lengths = base.mean(of, per), spec.mean(of, per)
        if lengths[0] and lengths[1] and not 1 / _UNLIKE < lengths[1] / lengths[0] < _UNLIKE:
            yield f"the mean {what} has {lengths[0]:.0f} tokens in the baseline, {lengths[1]:.0f} in the speculating servers"
    if base.restarts:
        yield f"a server of the baseline restarted within the window ({base.restarts} times)"
    if base.models != spec.models:
        yield f"served names differ: {', '.join(sorted(base.models))} and {', '.join(sorted(spec.models))}"
