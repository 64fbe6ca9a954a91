"""Streams, clients and devices that must not be believed."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.core.errors import DisturbedMeasurement, InvalidMeasurement
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.samples import Comparison, DeviceReading, RequestSample, ServerCounters
from pytest_specdec.core.stream_validity import check_sources, lag_allowed_s, stream_notes
from pytest_specdec.core.validity import check_comparison
from tests.core.comparison_builder import build_comparison, change_counters, change_runs, change_samples


def complaint(comparison: Comparison) -> str:
    with pytest.raises(InvalidMeasurement) as raised:
        check_comparison(comparison)
    assert raised.value.remedy
    return raised.value.what


def held_back(sample: RequestSample) -> RequestSample:
    """All chunks arrive in the last millisecond."""
    last, count = sample.token_times_s[-1], len(sample.token_times_s)
    return replace(sample, token_times_s=tuple(last - 0.001 * (count - 1 - i) / count for i in range(count)))


def with_client(comparison: Comparison, **health: float) -> Comparison:
    return change_runs(comparison, lambda run: replace(run, client=replace(run.client, **health)))


def with_device(comparison: Comparison, **reading: object) -> Comparison:
    device = DeviceReading(index=0, name="NVIDIA H200", **reading)  # type: ignore[arg-type] # by name
    return change_runs(comparison, lambda run: replace(run, devices=(device,)))


@pytest.mark.parametrize("server_tells", [True, False])
def test_a_buffered_stream_is_invalid(server_tells: bool) -> None:  # noqa: FBT001 - a table
    comparison = change_samples(build_comparison(), held_back, arm="specdec")
    if not server_tells:
        comparison = change_counters(comparison, tpot_sum_s=None, tpot_count=None, ttft_sum_s=None, ttft_count=None)
    assert "the stream was buffered" in complaint(comparison)


def test_short_answers_after_a_long_prefill_are_not_buffered() -> None:
    check_comparison(build_comparison(ttft_base_ms=5000, tokens=17, tpot_base_ms=5, tpot_spec_ms=4))


def test_answers_that_are_written_in_a_moment_are_not_buffered() -> None:
    check_comparison(build_comparison(tokens=3, tpot_base_ms=0.1, tpot_spec_ms=0.1))


@pytest.mark.parametrize("more", [-300, 300])
def test_acceptance_that_steps_and_tokens_cannot_explain_is_invalid(more: int) -> None:
    comparison = build_comparison(requests=32, rounds=1, acceptance=(1.0, 0.0, 0.0))
    accepted = comparison.arm("specdec")[0].counters.accepted_tokens
    assert accepted is not None
    odd = change_counters(
        comparison, accepted_tokens=accepted + more, accepted_per_position=(accepted + min(more, 0), max(more, 0), 0)
    )
    assert f"counted {accepted + more} accepted tokens, but 1056 tokens of 32 requests" in complaint(odd)


def test_a_real_window_of_speculation_explains_itself() -> None:
    run = build_comparison(k=4).arm("specdec")[0]
    counters = ServerCounters(
        accepted_tokens=290, decode_steps=254, generation_tokens=545, finished_requests=8, drafts=133, draft_tokens=512
    )
    check_sources(replace(run, counters=counters), 4)


def test_figures_per_request_must_add_up_to_the_servers() -> None:
    def more(sample: RequestSample) -> RequestSample:
        assert sample.spec is not None
        return replace(sample, spec=replace(sample.spec, accepted_tokens=sample.spec.accepted_tokens + 3))

    comparison = change_samples(build_comparison(per_request_stats=True), more, arm="specdec")
    assert "in its figures per request" in complaint(comparison)


@pytest.mark.parametrize("factor", [0.5, 1.5])
def test_a_client_that_disagrees_with_the_servers_own_tpot_is_invalid(factor: float) -> None:
    comparison = build_comparison()
    seconds = comparison.arm("specdec")[0].counters.tpot_sum_s
    assert seconds is not None
    text = complaint(change_counters(comparison, tpot_sum_s=factor * seconds))
    assert "saw a mean TPOT of 7.00 ms" in text


@pytest.mark.parametrize(
    ("health", "says"),
    [
        ({"p99_loop_lag_s": 0.001, "cpu_share": 0.2}, "1.0 ms late at the 99th percentile, 20% of a core"),
        ({"p99_loop_lag_s": 0.001, "cpu_share": 0.95}, "or the load generator is the bottleneck"),
        ({"p99_loop_lag_s": 0.01, "cpu_share": 0.2}, "or the load generator is the bottleneck"),
    ],
)
def test_a_late_stream_is_laid_on_the_client_only_when_it_was_busy_or_late(health: dict[str, float], says: str) -> None:
    comparison = with_client(build_comparison(), **health)
    slow = change_counters(comparison, tpot_sum_s=1e-6, tpot_count=len(comparison.runs[0].successes))
    with pytest.raises(InvalidMeasurement, match="this client saw a mean TPOT") as raised:
        check_comparison(slow)
    assert says in raised.value.remedy


def test_small_disagreements_with_the_server_are_tolerated() -> None:
    comparison = build_comparison()
    seconds = comparison.arm("specdec")[0].counters.tpot_sum_s
    assert seconds is not None
    check_comparison(change_counters(comparison, tpot_sum_s=1.08 * seconds))


def test_other_peoples_requests_are_not_compared_with_ours() -> None:
    check_comparison(change_counters(build_comparison(), tpot_sum_s=100.0, tpot_count=17))


def test_a_late_event_loop_makes_the_load_generator_the_bottleneck() -> None:
    assert "event loop was 100.0 ms late" in complaint(with_client(build_comparison(), p99_loop_lag_s=0.1))


@pytest.mark.parametrize(
    ("share", "had", "remedy"),
    [
        (0.02, "it used 2% of a core, and waited for one the rest of the time", "Run nothing else on the machine"),
        (0.97, "it used 97% of a core, all that it could", "`clients: auto`"),
    ],
)
def test_why_the_client_was_late_follows_from_what_it_used(share: float, had: str, remedy: str) -> None:
    with pytest.raises(DisturbedMeasurement) as raised:
        check_comparison(with_client(build_comparison(), p99_loop_lag_s=0.1, cpu_share=share))
    assert had in raised.value.what
    assert remedy in (raised.value.remedy or "")


def test_a_lag_that_hardly_moves_a_tpot_is_tolerated() -> None:
    check_comparison(with_client(build_comparison(tokens=129, tpot_spec_ms=7), p99_loop_lag_s=0.03))


def test_the_tolerable_lag_follows_the_stream() -> None:
    run = build_comparison(tokens=129, tpot_base_ms=10).arm("baseline")[0]
    assert lag_allowed_s(run) == pytest.approx(0.05 * 1.28)


def test_requests_that_left_too_slowly_are_invalid() -> None:
    load = LoadSpec(concurrency=None, request_rate=2.0)
    slow = with_client(build_comparison(load=load), offered_rate=2.0, achieved_rate=1.8)
    assert "it sent 1.80 requests per second instead of 2.00" in complaint(slow)


def test_requests_that_left_late_are_invalid() -> None:
    load = LoadSpec(concurrency=None, request_rate=2.0)
    late = with_client(build_comparison(load=load), offered_rate=2.0, achieved_rate=2.0, p99_send_delay_s=0.2)
    assert "requests left 200 ms late" in complaint(late)


def test_a_device_that_was_slowed_down_is_invalid() -> None:
    hot = with_device(build_comparison(), throttle_reasons=("hardware thermal slowdown",), temperature_c=91)
    text = complaint(hot)
    assert "device 0 (NVIDIA H200) was slowed down, 91 degrees: hardware thermal slowdown" in text


def test_a_device_at_its_power_limit_is_noted_and_valid() -> None:
    capped = with_device(build_comparison(), throttle_reasons=("software power cap",))
    check_comparison(capped)
    assert "at its power limit: device 0" in stream_notes(capped)


def test_a_shared_device_is_invalid() -> None:
    shared = with_device(build_comparison(), foreign_processes=("python (pid 4711)",))
    assert "other processes use device 0 (NVIDIA H200): python (pid 4711)" in complaint(shared)


def test_a_chunk_of_more_tokens_than_a_step_can_yield_is_noted_and_valid() -> None:
    def merged(sample: RequestSample) -> RequestSample:
        assert sample.chunk_tokens is not None
        if sample.index:
            return sample
        rest = sum(sample.chunk_tokens[1:])
        return replace(
            sample, token_times_s=(sample.token_times_s[0], sample.token_times_s[-1]), chunk_tokens=(1, rest)
        )

    comparison = change_samples(build_comparison(rounds=2), merged, arm="specdec")
    check_comparison(comparison)
    assert any(note.startswith("2 chunks carried more than 4 tokens") for note in stream_notes(comparison))


def test_a_clean_stream_needs_no_note() -> None:
    assert stream_notes(build_comparison()) == ()
