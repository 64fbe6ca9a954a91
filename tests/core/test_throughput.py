"""Throughput over the steady window, and where it means nothing."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.core.errors import CannotMeasure, InvalidMeasurement
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.samples import ArmRun, ClientHealth, RequestSample, ServerCounters
from pytest_specdec.core.steady import completed_per_arrival, output_throughput, steady_window
from pytest_specdec.core.throughput import mean_throughput, throughput, throughput_gain
from pytest_specdec.core.verdict import Estimate, Requirement
from tests.core.comparison_builder import build_comparison, change_samples

CLOSED = LoadSpec(concurrency=2, num_requests=4)


def request(index: int, sent_s: float, *times_s: float, tokens: tuple[int, ...] | None = None) -> RequestSample:
    return RequestSample(
        index=index,
        prompt=index,
        category=None,
        due_s=sent_s,
        sent_s=sent_s,
        token_times_s=times_s,
        chunk_tokens=tokens,
        completion_tokens=sum(tokens) if tokens else 3,
    )


def run_of(*samples: RequestSample) -> ArmRun:
    return ArmRun("specdec", 0, 0, 0.0, 10.0, samples, ServerCounters(), ClientHealth(0.0, 0.0, 0.0))


# Two slots; the first two requests have their first tokens at 1 and 2 s, the last one is sent at 5 s.
RUN = run_of(
    request(0, 0.0, 1.0, 2.0, 3.0, tokens=(1, 2, 3)),
    request(1, 0.0, 2.0, 3.0, 5.0, tokens=(1, 4, 4)),
    request(2, 3.0, 4.0, 5.0, 6.0, tokens=(1, 2, 2)),
    request(3, 5.0, 6.0, 7.0, 8.0, tokens=(1, 9, 9)),
)


def gain_of(**changes: float) -> Estimate:
    comparison = build_comparison(requests=32, tpot_base_ms=10, tpot_spec_ms=7, **changes)  # type: ignore[arg-type] # noise only
    return throughput_gain(Evidence(comparison, 0.95), Requirement("throughput_gain", 0.0))


def at_rate(rate: float, *, late: float = 0.0) -> Evidence:
    """Arrivals at a rate; each request is answered later by ``late`` seconds than the one before it."""
    load = LoadSpec(concurrency=None, request_rate=rate)
    comparison = build_comparison(load=load, requests=32)

    def queued(sample: RequestSample) -> RequestSample:
        return replace(sample, token_times_s=tuple(time + late * sample.index for time in sample.token_times_s))

    return Evidence(change_samples(comparison, queued), 0.95)


def test_the_window_opens_when_all_slots_decode_and_closes_with_the_last_request() -> None:
    assert steady_window(RUN, CLOSED) == (2.0, 5.0)


def test_tokens_count_when_their_chunk_arrives_within_the_window() -> None:
    # After 2 s and up to 5 s: 3 of request 0, 4 + 4 of request 1, 1 + 2 of request 2.
    assert output_throughput(RUN, CLOSED) == pytest.approx(14 / 3)


def test_chunks_that_do_not_tell_their_tokens_share_them_evenly() -> None:
    silent = run_of(*(replace(sample, chunk_tokens=None) for sample in RUN.samples))
    # 6 tokens of request 0: 1, 2.5, 2.5; 9 of request 1: 1, 4, 4; 5 of request 2: 1, 2, 2.
    assert output_throughput(silent, CLOSED) == pytest.approx((2.5 + 8 + 3) / 3)


def test_a_loop_that_only_fills_and_drains_has_no_window() -> None:
    assert steady_window(RUN, replace(CLOSED, concurrency=3)) is None


def test_throughput_gain_is_the_ratio_of_the_arms() -> None:
    comparison = build_comparison(requests=64, tokens=65, ttft_base_ms=1, tpot_base_ms=10, tpot_spec_ms=5)
    estimate = throughput_gain(Evidence(comparison, 0.95), Requirement("throughput_gain", 0.0))
    assert estimate.value == pytest.approx(1.0, abs=0.05)


def test_throughput_gain_has_a_t_interval_over_rounds() -> None:
    estimate = gain_of(noise=0.02, round_drift=0.02)
    assert estimate.basis == "t over 4 rounds"
    assert estimate.low is not None
    assert estimate.high is not None
    assert estimate.low < estimate.value < estimate.high


def test_throughput_is_tokens_per_second() -> None:
    # Four slots, a token every 7 ms each; every request's first token costs 50 ms and yields one.
    comparison = build_comparison(requests=64, tokens=65, tpot_spec_ms=7)
    estimate = throughput(Evidence(comparison, 0.95), Requirement("min_throughput_tok_s", 1.0))
    assert estimate.value == pytest.approx(4 * 65 / (0.050 + 64 * 0.007), rel=0.02)


@pytest.mark.parametrize("rate", [0.5, 2.0, 8.0])
def test_at_a_rate_that_both_arms_keep_up_with_throughput_is_an_error(rate: float) -> None:
    with pytest.raises(InvalidMeasurement, match="throughput is the offered load"):
        throughput_gain(at_rate(rate), Requirement("throughput_gain", 0.0))


def test_at_a_rate_that_the_server_keeps_up_with_its_throughput_is_an_error() -> None:
    with pytest.raises(InvalidMeasurement, match="the speculating server keeps up with"):
        throughput(at_rate(2.0), Requirement("min_throughput_tok_s", 1.0))


def test_saturating_arrivals_measure_throughput() -> None:
    estimate = throughput(at_rate(10.0, late=0.2), Requirement("min_throughput_tok_s", 1.0))
    assert estimate.value > 0


def test_answering_everything_late_is_keeping_up() -> None:
    run = run_of(*(request(i, float(i), i + 5.0, i + 5.5, i + 6.0) for i in range(20)))
    assert completed_per_arrival(run) == pytest.approx(1.0)


def test_a_growing_queue_is_not_keeping_up() -> None:
    run = run_of(*(request(i, float(i), 2.0 * i + 1, 2.0 * i + 1.5, 2.0 * i + 2) for i in range(20)))
    assert completed_per_arrival(run) == pytest.approx(0.5)


def test_runs_without_a_window_cannot_be_measured() -> None:
    comparison = build_comparison(requests=4)
    with pytest.raises(CannotMeasure, match="no steady window"):
        throughput_gain(Evidence(comparison, 0.95), Requirement("throughput_gain", 0.0))


def test_a_table_shows_no_throughput_at_a_rate_that_is_kept_up_with() -> None:
    assert mean_throughput(at_rate(2.0), "specdec") is None


def test_a_single_round_bounds_nothing() -> None:
    comparison = build_comparison(rounds=1, requests=32)
    estimate = throughput_gain(Evidence(comparison, 0.95), Requirement("throughput_gain", 0.0))
    assert (estimate.low, estimate.high, estimate.level) == (None, None, 0.95)
