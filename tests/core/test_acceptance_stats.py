"""Acceptance: values from counters, widths from prompts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from pytest_specdec.core.acceptance_stats import (
    acceptance_at,
    acceptance_length,
    acceptance_rate,
    coverage,
    per_step,
)
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.metrics import pooled_counters
from pytest_specdec.core.verdict import Estimate, Requirement
from tests.core.comparison_builder import build_comparison, change_counters, change_samples

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison, RequestSample

NAMES = {
    "min_acceptance_length": acceptance_length,
    "min_acceptance_rate": acceptance_rate,
    "min_tokens_per_step": per_step,
    "min_draft_coverage": coverage,
}


def measured(name: str, comparison: Comparison) -> Estimate:
    return NAMES[name](Evidence(comparison, 0.95), Requirement(name, 0.5))


def at(position: int, comparison: Comparison) -> Estimate:
    requirement = Requirement("min_acceptance_at", 0.5, part=str(position))
    return acceptance_at(Evidence(comparison, 0.95), requirement)


def width(estimate: Estimate) -> float:
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


def handed() -> Comparison:
    """The counters of a real window of ngram speculation."""
    return change_counters(
        build_comparison(rounds=1, k=4, method="ngram", token_ids=False),
        drafts=133,
        draft_tokens=512,
        accepted_tokens=290,
        accepted_per_position=(110, 70, 60, 50),
        decode_steps=254,
        generation_tokens=545,
        finished_requests=8,
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("min_acceptance_length", 3.1805),
        ("min_acceptance_rate", 0.5664),
        ("min_tokens_per_step", 2.114),
        ("min_draft_coverage", 0.524),
    ],
)
def test_figures_of_a_real_window(name: str, value: float) -> None:
    assert measured(name, handed()).value == pytest.approx(value, abs=5e-4)


@pytest.mark.parametrize(("position", "share"), [(0, 0.827), (1, 0.526), (2, 0.451), (3, 0.376)])
def test_positions_of_a_real_window_are_joint(position: int, share: float) -> None:
    assert at(position, handed()).value == pytest.approx(share, abs=5e-4)


def test_the_acceptance_length_counts_the_bonus_token() -> None:
    nothing = change_counters(build_comparison(), accepted_tokens=0, accepted_per_position=(0, 0, 0))
    assert measured("min_acceptance_length", nothing).value == 1.0


def test_the_value_comes_from_the_counters_although_answers_cut_what_was_accepted() -> None:
    comparison = build_comparison(acceptance=(0.9, 0.8, 0.7))
    counters = pooled_counters(run.counters for run in comparison.arm("specdec"))
    assert counters.accepted_tokens is not None
    assert counters.drafts is not None
    delivered = sum(
        sum(sample.chunk_tokens[1:]) - len(sample.chunk_tokens[1:])
        for run in comparison.arm("specdec")
        for sample in run.samples
        if sample.chunk_tokens
    )
    assert delivered < counters.accepted_tokens
    expected = 1 + counters.accepted_tokens / counters.drafts
    assert measured("min_acceptance_length", comparison).value == pytest.approx(expected)


def test_the_interval_lies_around_the_counters_value() -> None:
    # Answers of 9 tokens cut much of what was accepted, so the stream alone would tell far less.
    estimate = measured("min_acceptance_length", build_comparison(tokens=9, requests=64, acceptance=(0.9, 0.8, 0.7)))
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.value == pytest.approx((estimate.low + estimate.high) / 2, abs=0.1 * (estimate.high - estimate.low))


@pytest.mark.parametrize("name", ["min_acceptance_length", "min_acceptance_rate", "min_tokens_per_step"])
def test_rounds_that_repeat_each_other_do_not_make_acceptance_certain(name: str) -> None:
    once, often = (measured(name, build_comparison(rounds=rounds)) for rounds in (2, 12))
    assert width(often) == pytest.approx(width(once), rel=0.05)
    assert width(often) > 0


def test_more_prompts_make_acceptance_more_certain() -> None:
    few, many = (measured("min_acceptance_length", build_comparison(requests=count)) for count in (8, 128))
    assert width(many) < 0.5 * width(few)


@pytest.mark.parametrize("name", ["min_acceptance_length", "min_acceptance_rate"])
def test_the_server_and_the_stream_tell_the_same_width(name: str) -> None:
    stream = measured(name, build_comparison(requests=64))
    server = measured(name, build_comparison(requests=64, per_request_stats=True))
    assert "the stream" in stream.basis
    assert "the server" in server.basis
    assert server.value == stream.value
    assert width(server) == pytest.approx(width(stream), rel=0.25)


@pytest.mark.parametrize("name", ["min_acceptance_length", "min_acceptance_rate", "min_tokens_per_step"])
def test_where_nothing_tells_how_prompts_differ_the_widest_difference_is_taken(name: str) -> None:
    known = measured(name, build_comparison(requests=64))
    unknown = measured(name, build_comparison(requests=64, token_ids=False))
    assert "unknown" in unknown.basis
    assert unknown.value == known.value
    assert width(unknown) > width(known)


def test_merged_chunks_no_longer_tell_steps() -> None:
    def merged(sample: RequestSample) -> RequestSample:
        assert sample.chunk_tokens is not None
        first, second, *rest = sample.chunk_tokens[1:]
        return replace(
            sample,
            token_times_s=(sample.token_times_s[0], *sample.token_times_s[2:]),
            chunk_tokens=(1, first + second, *rest),
        )

    comparison = change_samples(build_comparison(), merged, arm="specdec")
    estimate = measured("min_acceptance_length", comparison)
    assert "unknown" in estimate.basis
    assert estimate.value == measured("min_acceptance_length", build_comparison()).value


def test_coverage_of_a_draft_model_is_complete() -> None:
    estimate = measured("min_draft_coverage", build_comparison(requests=64))
    assert estimate.value == 1.0
    assert estimate.low is not None
    assert estimate.low > 0.99


def test_which_steps_of_a_stream_drafted_is_unknown_where_not_all_did() -> None:
    estimate = measured("min_draft_coverage", build_comparison(coverage=0.5, method="ngram"))
    assert "unknown" in estimate.basis


def test_coverage_is_known_where_the_server_reports_every_request() -> None:
    estimate = measured("min_draft_coverage", build_comparison(coverage=0.5, method="ngram", per_request_stats=True))
    assert "unknown" not in estimate.basis


def test_never_accepted_in_a_few_drafts_is_not_never() -> None:
    comparison = build_comparison(requests=2, tokens=9, acceptance=(0.0, 0.0, 0.0))
    for estimate in (at(0, comparison), measured("min_acceptance_rate", comparison)):
        assert estimate.value == 0.0
        assert estimate.high is not None
        assert estimate.high > 0.05


def test_a_position_beyond_k_cannot_be_measured() -> None:
    with pytest.raises(CannotMeasure, match="positions counted: 0 to 2"):
        at(3, build_comparison())


@pytest.mark.parametrize("name", ["min_acceptance_length", "min_acceptance_rate"])
def test_without_drafts_acceptance_cannot_be_measured(name: str) -> None:
    with pytest.raises(CannotMeasure, match="no drafts"):
        measured(name, build_comparison(coverage=0.0, method="ngram"))


def test_without_drafts_coverage_is_zero() -> None:
    estimate = measured("min_draft_coverage", build_comparison(coverage=0.0, method="ngram"))
    assert estimate.value == 0.0


@pytest.mark.parametrize("verification", ["synthetic", "fly"])
def test_acceptance_that_is_not_the_drafts_own_is_not_judged(verification: str) -> None:
    comparison = replace(build_comparison(), extra={"verification": verification})
    with pytest.raises(CannotMeasure, match=f"verification is {verification}"):
        measured("min_acceptance_length", comparison)


def test_decode_steps_that_nobody_counts_leave_nothing_to_measure() -> None:
    with pytest.raises(CannotMeasure, match="does not count decode steps"):
        measured("min_tokens_per_step", change_counters(build_comparison(), decode_steps=None))


def test_intervals_stay_within_what_a_step_can_yield() -> None:
    comparison = build_comparison(requests=2, rounds=2, tokens=9, acceptance=(0.95, 0.9, 0.9))
    estimate = measured("min_acceptance_length", comparison)
    assert estimate.high is not None
    assert estimate.high <= 4.0


def test_prompts_of_fresh_rounds_all_count() -> None:
    estimate = measured("min_acceptance_length", build_comparison(fresh=True, rounds=4, requests=8))
    assert estimate.samples == 32
    assert width(estimate) > 0


@pytest.mark.parametrize("name", ["min_acceptance_rate", "min_draft_coverage"])
def test_shares_have_intervals_of_shares(name: str) -> None:
    def uneven(sample: RequestSample) -> RequestSample:
        assert sample.spec is not None
        drafts = sample.spec.drafts if sample.index == 0 else 0
        return replace(
            sample, spec=replace(sample.spec, drafts=drafts, draft_tokens=3 * drafts, accepted_tokens=drafts)
        )

    comparison = build_comparison(requests=4, rounds=1, coverage=0.4, method="ngram", per_request_stats=True)
    estimate = measured(name, change_samples(comparison, uneven, arm="specdec"))
    assert estimate.low is not None
    assert estimate.high is not None
    assert 0 <= estimate.low <= estimate.value <= estimate.high <= 1
