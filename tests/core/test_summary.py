"""The figures that every report shows."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.metrics import pooled_counters
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.summary import summarise
from tests.core.comparison_builder import build_comparison, change_counters, change_samples


def test_the_gain_follows_exactly_from_the_two_tpots_that_are_shown() -> None:
    comparison = build_comparison(noise=0.2, prompt_spread=0.3, requests=16)
    comparison = change_samples(
        comparison,
        lambda one: (
            one
            if one.index
            else replace(one, token_times_s=one.token_times_s[:1], chunk_tokens=(1,), completion_tokens=1)
        ),
    )
    comparison = change_counters(comparison, "specdec", generation_tokens=15 * 33 + 1, tpot_count=None)
    comparison = change_counters(comparison, "baseline", generation_tokens=15 * 33 + 1, tpot_count=None)
    summary = summarise(comparison)
    (verdict,) = judge(comparison, REGISTRY["tpot_gain"].parse(0.1))
    assert summary.specdec.tpot_s is not None
    assert summary.baseline.tpot_s is not None
    assert 1 - summary.specdec.tpot_s / summary.baseline.tpot_s == pytest.approx(verdict.estimate.value)
    assert summary.tpot_gain == pytest.approx(verdict.estimate.value)


def test_speed_up_is_the_other_side_of_the_gain() -> None:
    assert summarise(build_comparison(tpot_base_ms=10, tpot_spec_ms=7)).speedup == pytest.approx(1 / 0.7)


def test_step_ratio_and_break_even() -> None:
    comparison = build_comparison(tpot_base_ms=10, tpot_spec_ms=7)
    summary = summarise(comparison)
    counters = pooled_counters(run.counters for run in comparison.arm("specdec"))
    assert counters.decode_steps is not None
    per_step = 4 * 16 * 32 / counters.decode_steps
    assert summary.tokens_per_step == pytest.approx(per_step)
    assert summary.step_ratio == pytest.approx(0.7 * per_step)
    assert summary.break_even_tokens_per_step == summary.step_ratio
    assert summary.tokens_per_step_for_gain(0.3) == pytest.approx(per_step)


def test_a_gain_as_an_acceptance_length_where_every_step_drafts() -> None:
    summary = summarise(build_comparison())
    assert summary.draft_coverage == 1.0
    assert summary.acceptance_length_for_gain(0.3) == summary.tokens_per_step_for_gain(0.3)


def test_no_acceptance_length_is_named_where_steps_go_without_a_draft() -> None:
    summary = summarise(build_comparison(coverage=0.5, method="ngram"))
    assert summary.draft_coverage is not None
    assert summary.draft_coverage < 0.99
    assert summary.break_even_acceptance_length is None
    assert summary.break_even_tokens_per_step is not None


def test_acceptance_is_shown_joint_and_conditional() -> None:
    acceptance = summarise(build_comparison(requests=64)).acceptance
    assert acceptance is not None
    assert acceptance.per_position is not None
    assert acceptance.conditional is not None
    first, second, _ = acceptance.per_position
    assert acceptance.conditional[0] == first
    assert acceptance.conditional[1] == pytest.approx(second / first)
    assert acceptance.acceptance_length == pytest.approx(1 + sum(acceptance.per_position))


def test_rejected_drafts_are_wasted() -> None:
    summary = summarise(build_comparison())
    assert summary.acceptance is not None
    assert summary.acceptance.acceptance_rate is not None
    assert summary.wasted_share == pytest.approx(1 - summary.acceptance.acceptance_rate)
    assert summary.drafted_per_draft == 3.0


def test_latency_and_throughput_of_each_arm() -> None:
    summary = summarise(build_comparison(ttft_base_ms=50, ttft_spec_ms=60, requests=32))
    assert summary.baseline.ttft_p95_s == pytest.approx(0.05)
    assert summary.specdec.ttft_p95_s == pytest.approx(0.06)
    assert summary.baseline.throughput_tok_s is not None
    assert summary.specdec.throughput_tok_s is not None
    assert summary.specdec.throughput_tok_s > summary.baseline.throughput_tok_s


def test_no_throughput_at_a_request_rate() -> None:
    summary = summarise(build_comparison(load=LoadSpec(concurrency=None, request_rate=2.0)))
    assert (summary.baseline.throughput_tok_s, summary.specdec.throughput_tok_s) == (None, None)


def test_failures_are_counted() -> None:
    failed = change_samples(
        build_comparison(requests=16, rounds=2),
        lambda one: replace(one, error="HTTP 500", token_times_s=()) if one.index == 0 else one,
        arm="specdec",
    )
    summary = summarise(failed)
    assert (summary.specdec.requests, summary.specdec.failed, summary.baseline.failed) == (32, 2, 0)


@pytest.mark.parametrize("what", ["no runs", "all failed", "no counters"])
def test_a_report_of_a_bad_measurement_gets_what_there_is(what: str) -> None:
    comparison = build_comparison()
    if what == "no runs":
        comparison = replace(comparison, runs=())
    elif what == "all failed":
        comparison = change_samples(comparison, lambda one: replace(one, error="HTTP 500", token_times_s=()))
    else:
        names = ("drafts", "draft_tokens", "accepted_tokens", "accepted_per_position", "decode_steps")
        comparison = change_counters(comparison, **dict.fromkeys(names))
    summary = summarise(comparison)
    assert summary.step_ratio is None
