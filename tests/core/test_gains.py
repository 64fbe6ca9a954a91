"""Gains over the baseline: pairing, exclusions, and what may not change them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.gains import time_gain
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.verdict import Estimate, Requirement
from tests.core.comparison_builder import build_comparison, change_samples, scaled_in_time

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison, RequestSample

GAIN = st.floats(0.5, 20.0)


def gain(comparison: Comparison, name: str = "tpot_gain") -> Estimate:
    return time_gain(Evidence(comparison, 0.95), Requirement(name, 0.0))


def test_the_gain_is_the_share_of_time_saved() -> None:
    assert gain(build_comparison(tpot_base_ms=10, tpot_spec_ms=7)).value == pytest.approx(0.3)


def test_a_slower_server_has_a_negative_gain() -> None:
    assert gain(build_comparison(tpot_base_ms=10, tpot_spec_ms=12)).value == pytest.approx(-0.2)


def test_ttft_has_its_own_gain() -> None:
    comparison = build_comparison(ttft_base_ms=100, ttft_spec_ms=110)
    assert gain(comparison, "ttft_gain").value == pytest.approx(-0.1)


def test_ratios_are_averaged_geometrically_and_per_request() -> None:
    # One request is 4 times faster, the other 4 times slower: neither wins. Means of times would say otherwise.
    comparison = build_comparison(requests=2, rounds=2, tpot_base_ms=10, tpot_spec_ms=10)

    def uneven(sample: RequestSample) -> RequestSample:
        factor = 4.0 if sample.index else 0.25
        first = sample.token_times_s[0]
        return replace(sample, token_times_s=tuple(first + factor * (time - first) for time in sample.token_times_s))

    assert gain(change_samples(comparison, uneven, arm="specdec")).value == pytest.approx(0.0, abs=1e-9)


def slower_by_prompt(sample: RequestSample) -> RequestSample:
    """Prompts differ by up to a factor of thirty, alike in both arms."""
    first, factor = sample.token_times_s[0], 1.0 + 2 * sample.prompt
    return replace(sample, token_times_s=tuple(first + factor * (time - first) for time in sample.token_times_s))


def test_pairing_by_request_removes_the_spread_of_prompts() -> None:
    # Unpaired, nothing could be told from 16 such prompts.
    estimate = gain(change_samples(build_comparison(noise=0.001), slower_by_prompt))
    assert estimate.value == pytest.approx(0.3, abs=1e-3)
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.high - estimate.low < 0.01


def test_a_failed_request_takes_its_partner_with_it() -> None:
    comparison = build_comparison(requests=16, rounds=4)
    failed = change_samples(
        comparison, lambda one: replace(one, error="HTTP 500") if one.index == 3 else one, arm="baseline"
    )
    estimate = gain(failed)
    assert (estimate.samples, estimate.excluded) == (60, 4)


def test_requests_stay_paired_when_one_is_missing() -> None:
    uneven = change_samples(build_comparison(), slower_by_prompt)
    failed = change_samples(
        uneven, lambda one: replace(one, error="HTTP 500") if one.index == 3 else one, arm="baseline"
    )
    assert gain(failed).value == pytest.approx(0.3)


def test_answers_of_one_token_are_left_out_and_counted() -> None:
    def short(sample: RequestSample) -> RequestSample:
        if sample.index:
            return sample
        return replace(sample, token_times_s=sample.token_times_s[:1], chunk_tokens=(1,), completion_tokens=1)

    estimate = gain(change_samples(build_comparison(requests=16, rounds=4), short))
    assert (estimate.samples, estimate.excluded) == (60, 4)


def test_nothing_but_one_token_answers_cannot_be_measured() -> None:
    short = change_samples(
        build_comparison(),
        lambda one: replace(one, token_times_s=one.token_times_s[:1], chunk_tokens=(1,), completion_tokens=1),
    )
    with pytest.raises(CannotMeasure, match="no request has a TPOT in both arms"):
        gain(short)


def test_many_tokens_in_no_time_are_no_infinite_speed() -> None:
    at_once = change_samples(
        build_comparison(),
        lambda one: replace(one, token_times_s=(one.token_times_s[-1],) * len(one.token_times_s)),
        arm="specdec",
    )
    with pytest.raises(
        InvalidMeasurement, match="64 of 64 answers of the specdec arm came with all their tokens in one moment"
    ):
        gain(at_once)


@pytest.mark.parametrize(("stalled", "measurable"), [(6, True), (7, False)])
def test_a_moment_in_which_the_machine_stood_still_costs_its_requests_only(stalled: int, measurable: bool) -> None:  # noqa: FBT001
    def at_once(sample: RequestSample) -> RequestSample:
        if sample.index >= stalled:
            return sample
        return replace(sample, token_times_s=(sample.token_times_s[-1],) * len(sample.token_times_s))

    comparison = change_samples(build_comparison(requests=64, rounds=1), at_once, arm="baseline")
    if measurable:
        estimate = gain(comparison)
        assert estimate.value == pytest.approx(0.3)
        assert (estimate.samples, estimate.excluded) == (58, 6)
    else:
        with pytest.raises(InvalidMeasurement, match="7 of 64 answers of the baseline arm"):
            gain(comparison)


def test_e2el_is_not_compared_when_the_arms_wrote_different_amounts() -> None:
    comparison = build_comparison(load=LoadSpec(concurrency=4, ignore_eos=True))
    shorter = change_samples(
        comparison, lambda one: replace(one, completion_tokens=one.completion_tokens - 1), arm="specdec"
    )
    with pytest.raises(CannotMeasure, match="different work"):
        gain(shorter, "e2el_gain")


def test_e2el_gain_of_equal_work() -> None:
    comparison = build_comparison(ttft_base_ms=40, tokens=33, tpot_base_ms=10, tpot_spec_ms=5)
    assert gain(comparison, "e2el_gain").value == pytest.approx(1 - (40 + 160) / (40 + 320))


def test_rounds_of_fresh_prompts_are_paired_within_the_round() -> None:
    assert gain(build_comparison(fresh=True, noise=0.05)).value == pytest.approx(0.3, abs=0.03)


def test_one_round_has_an_interval_from_prompts() -> None:
    estimate = gain(build_comparison(rounds=1, requests=200, noise=0.1))
    assert "prompts" in estimate.basis
    assert estimate.low is not None


@settings(max_examples=20, deadline=None)
@given(factor=st.floats(0.01, 100.0), seed=st.integers(0, 5))
def test_a_slower_machine_has_the_same_gains(factor: float, seed: int) -> None:
    comparison = build_comparison(noise=0.1, prompt_spread=0.2, seed=seed, rounds=3, requests=8)
    here, there = gain(comparison), gain(scaled_in_time(comparison, factor))
    assert (there.value, there.low, there.high) == pytest.approx((here.value, here.low, here.high), abs=1e-6)


@settings(max_examples=20, deadline=None)
@given(tpot_ms=GAIN, seed=st.integers(0, 5))
def test_swapping_the_arms_flips_the_sign_of_the_logarithm(tpot_ms: float, seed: int) -> None:
    comparison = build_comparison(
        tpot_base_ms=10, tpot_spec_ms=tpot_ms, noise=0.1, prompt_spread=0.1, seed=seed, rounds=3, requests=8
    )
    other = {"baseline": "specdec", "specdec": "baseline"}
    swapped = replace(
        comparison,
        runs=tuple(replace(run, arm=other[run.arm]) for run in comparison.runs),  # type: ignore[arg-type] # arms again
    )
    assert 1 - gain(swapped).value == pytest.approx(1 / (1 - gain(comparison).value))
