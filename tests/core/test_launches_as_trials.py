"""One server at a time: rounds on the same launches are no independent trials."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specdec.core.course import BlockRecord, PlacementRecord
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.judge import estimate, judge
from pytest_specdec.core.objectives import REGISTRY
from tests.core.comparison_builder import build_comparison, change_runs

if TYPE_CHECKING:
    from pytest_specdec.core.samples import ArmRun, Comparison, RequestSample

ROUNDS_PER_LAUNCH = 3


def one_after_the_other(comparison: Comparison, rounds: int = ROUNDS_PER_LAUNCH) -> Comparison:
    """The same runs, told to be of so many rounds a launch."""
    blocks = tuple(
        BlockRecord(first, rounds, ("baseline", "specdec"), grouped=True, launches=(number, number))
        for number, first in enumerate(range(0, comparison.rounds, rounds))
    )
    return replace(comparison, placement=PlacementRecord("sequential", "it is a test", blocks))


def launches_differ(comparison: Comparison, spread: float, seed: int) -> Comparison:
    """Each launch of the speculating server has a pace of its own."""
    paces = np.exp(np.random.default_rng(seed).normal(0, spread, size=comparison.rounds))

    def paced(run: ArmRun) -> ArmRun:
        factor = float(paces[run.round // ROUNDS_PER_LAUNCH])

        def slower(sample: RequestSample) -> RequestSample:
            first = sample.token_times_s[0]
            times = tuple(first + factor * (time - first) for time in sample.token_times_s)
            return replace(sample, token_times_s=times)

        if run.arm == "baseline":
            return run
        # The server's own figures, which would contradict the changed times, are not told.
        silent = replace(run.counters, tpot_sum_s=None, tpot_count=None)
        return replace(run, samples=tuple(map(slower, run.samples)), counters=silent)

    return change_runs(comparison, paced)


def test_intervals_count_launches() -> None:
    comparison = one_after_the_other(build_comparison(rounds=6, noise=0.02))
    assert estimate(comparison, "tpot_gain").basis == "t over 2 pairs of launches"


def test_the_point_value_is_that_of_all_rounds() -> None:
    comparison = build_comparison(rounds=6, noise=0.02)
    assert estimate(one_after_the_other(comparison), "tpot_gain").value == pytest.approx(
        estimate(comparison, "tpot_gain").value
    )


def test_intervals_hold_the_truth_although_launches_differ() -> None:
    def holds(seed: int) -> bool:
        comparison = build_comparison(rounds=12, noise=0.01, seed=seed, tpot_base_ms=10, tpot_spec_ms=10)
        found = estimate(one_after_the_other(launches_differ(comparison, 0.05, seed)), "tpot_gain")
        assert found.low is not None
        assert found.high is not None
        return found.low <= 0.0 <= found.high

    # At 95 % three of 60 may miss it; with rounds as trials a third do.
    assert sum(holds(seed) for seed in range(60)) >= 55


def test_throughput_counts_launches_too() -> None:
    comparison = one_after_the_other(build_comparison(rounds=6, noise=0.02))
    assert estimate(comparison, "throughput_gain").basis == "t over 2 pairs of launches"


def test_one_launch_of_each_tells_no_gain() -> None:
    comparison = one_after_the_other(build_comparison(rounds=3), rounds=3)
    with pytest.raises(CannotMeasure, match="launched once, one after the other"):
        judge(comparison, REGISTRY["tpot_gain"].parse(0.1))


def test_one_launch_of_each_tells_acceptance() -> None:
    comparison = one_after_the_other(build_comparison(rounds=3), rounds=3)
    (verdict,) = judge(comparison, REGISTRY["min_acceptance_length"].parse(1.5))
    assert verdict.outcome == "ok"


def test_what_would_settle_it_is_said_in_launches() -> None:
    comparison = launches_differ(build_comparison(rounds=6, noise=0.01), 0.01, seed=3)
    (verdict,) = judge(one_after_the_other(comparison), REGISTRY["tpot_gain"].parse(0.25))
    assert verdict.outcome == "unsure"
    assert "pairs of launches would settle it (2 run" in verdict.advice
