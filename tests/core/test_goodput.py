"""Goodput: the share of requests within every limit, and its gain over the baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.goodput import failure_share, good_requests_per_s, goodput, goodput_gain
from pytest_specdec.core.verdict import Estimate, Requirement
from tests.core.comparison_builder import build_comparison, change_samples

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Arm, Comparison, RequestSample


def good(comparison: Comparison, required: float = 0.9, **limits: float) -> Estimate:
    return goodput(Evidence(comparison, 0.95), Requirement("min_goodput", required, options=tuple(limits.items())))


def slow_down(comparison: Comparison, *indices: int, arm: Arm = "specdec") -> Comparison:
    """The first token of some requests comes a second later."""

    def late(sample: RequestSample) -> RequestSample:
        if sample.index not in indices:
            return sample
        return replace(sample, token_times_s=tuple(time + 1 for time in sample.token_times_s))

    return change_samples(comparison, late, arm=arm)


def gained(comparison: Comparison, **limits: float) -> Estimate:
    return goodput_gain(Evidence(comparison, 0.95), Requirement("goodput_gain", 0.1, options=tuple(limits.items())))


def test_goodput_is_the_share_within_every_limit() -> None:
    comparison = slow_down(build_comparison(requests=16, tpot_spec_ms=7), 1, 5)
    assert good(comparison, ttft_ms=500, tpot_ms=20).value == pytest.approx(14 / 16)
    assert good(comparison, ttft_ms=500, tpot_ms=6).value == 0.0
    assert good(comparison, ttft_ms=2000, tpot_ms=20).value == 1.0


def test_failed_requests_count_against_goodput() -> None:
    failed = change_samples(
        build_comparison(requests=16),
        lambda one: replace(one, error="HTTP 500", token_times_s=()) if one.index < 4 else one,
        arm="specdec",
    )
    assert good(failed, ttft_ms=500).value == pytest.approx(12 / 16)


def test_faultless_goodput_is_as_certain_as_the_number_of_prompts_allows() -> None:
    once, often = (good(build_comparison(requests=16, rounds=rounds), required=0.9, ttft_ms=500) for rounds in (2, 8))
    assert often.low == once.low == pytest.approx(16 / (16 + 1.96**2), abs=1e-3)
    assert often.needed_requests is not None
    assert often.needed_requests > 16


def test_an_answer_of_one_token_breaks_no_limit_on_tpot() -> None:
    short = change_samples(
        build_comparison(),
        lambda one: replace(one, token_times_s=one.token_times_s[:1], chunk_tokens=(1,), completion_tokens=1),
    )
    assert good(short, tpot_ms=1).value == 1.0


def test_good_requests_per_second_count_the_windows() -> None:
    comparison = build_comparison(requests=16, rounds=2)
    seconds = sum(run.duration_s for run in comparison.arm("specdec"))
    requirement = Requirement("min_goodput", 0.9, options=(("ttft_ms", 500),))
    assert good_requests_per_s(Evidence(comparison, 0.95), requirement, "specdec") == pytest.approx(32 / seconds)


def test_the_gain_relates_both_shares() -> None:
    slower = slow_down(build_comparison(requests=16), 0, 1, 2, 3, arm="baseline")
    estimate = gained(slow_down(slower, 0), ttft_ms=500)
    assert estimate.value == pytest.approx((15 / 16) / (12 / 16) - 1)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_exchanging_the_arms_turns_a_gain_into_a_loss() -> None:
    comparison = build_comparison(requests=64, tpot_spec_ms=10, tpot_base_ms=10)
    gain = gained(slow_down(comparison, *range(32), arm="baseline"), ttft_ms=500)
    loss = gained(slow_down(comparison, *range(32), arm="specdec"), ttft_ms=500)
    assert (1 + gain.value) * (1 + loss.value) == pytest.approx(1)
    assert gain.low is not None
    assert loss.high is not None
    assert (1 + gain.low) * (1 + loss.high) == pytest.approx(1)


def test_arms_without_a_fault_do_not_prove_a_gain_of_zero() -> None:
    estimate = gained(build_comparison(requests=16), ttft_ms=500)
    assert estimate.value == 0.0
    assert estimate.low is not None
    assert estimate.low < -0.05


def test_a_baseline_without_a_good_request_gives_no_gain() -> None:
    with pytest.raises(CannotMeasure, match="no request of the baseline met every limit"):
        gained(build_comparison(tpot_base_ms=10, tpot_spec_ms=5), tpot_ms=6)


def test_good_requests_per_second_are_told_beside_the_share() -> None:
    assert good(build_comparison(), ttft_ms=500).remark.endswith("good requests per second")


def test_failures_are_what_goodput_without_limits_leaves() -> None:
    comparison = change_samples(
        build_comparison(requests=16),
        lambda one: replace(one, error="HTTP 500", token_times_s=()) if one.index == 3 else one,
        arm="specdec",
    )
    estimate = failure_share(Evidence(comparison, 0.95), Requirement("max_failure_share", 0.1))
    assert estimate.value == pytest.approx(1 / 16)
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low < 1 / 16 < estimate.high < 0.4
