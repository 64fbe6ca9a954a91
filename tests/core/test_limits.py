"""Absolute limits on latencies."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from pytest_specdec.core.chunks import chunk_table
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.limits import latency
from pytest_specdec.core.samples import Comparison, RequestSample
from pytest_specdec.core.verdict import Estimate, Requirement
from tests.core.comparison_builder import build_comparison, change_samples


def measured(name: str, comparison: Comparison, level: float = 0.95) -> Estimate:
    return latency(Evidence(comparison, level), Requirement(name, 1.0))


@pytest.mark.parametrize(
    ("name", "milliseconds"),
    [("ttft_p50_ms", 60.0), ("tpot_mean_ms", 7.0), ("tpot_p95_ms", 7.0), ("e2el_p90_ms", 60 + 32 * 7.0)],
)
def test_latencies_of_the_speculating_server_are_in_milliseconds(name: str, milliseconds: float) -> None:
    comparison = build_comparison(ttft_base_ms=1, ttft_spec_ms=60, tpot_base_ms=1, tpot_spec_ms=7)
    assert measured(name, comparison).value == pytest.approx(milliseconds)


def test_percentiles_pool_the_requests_of_all_rounds() -> None:
    comparison = build_comparison(noise=0.3, requests=20)
    pooled = [
        1000 * (sample.token_times_s[0] - sample.sent_s) for run in comparison.arm("specdec") for sample in run.samples
    ]
    assert measured("ttft_p90_ms", comparison).value == pytest.approx(float(np.quantile(pooled, 0.9)))


def test_a_gap_that_carries_tokens_counts_once_for_each_of_them() -> None:
    # Gaps of 0.4 s with 4 tokens and 0.3 s with 3: seven inter-token latencies of 0.1 s, two chunk gaps.
    sample = RequestSample(
        index=0,
        prompt=0,
        category=None,
        due_s=None,
        sent_s=0.0,
        token_times_s=(1.0, 1.4, 1.7),
        chunk_tokens=(1, 4, 3),
        completion_tokens=8,
    )
    table = chunk_table([sample, sample])
    assert table.itl()[0] == pytest.approx(np.full(14, 0.1))
    assert table.gaps()[0] == pytest.approx(np.array([0.4, 0.3, 0.4, 0.3]))


def test_a_chunk_without_a_token_lends_its_time_to_the_next() -> None:
    sample = RequestSample(0, 0, None, None, 0.0, (1.0, 1.2, 1.4), (1, 0, 2), completion_tokens=3)
    assert chunk_table([sample]).itl()[0] == pytest.approx(np.array([0.2, 0.2]))


def test_mean_itl_is_the_mean_over_tokens() -> None:
    assert measured("itl_mean_ms", build_comparison(tpot_spec_ms=7)).value == pytest.approx(7.0)


def test_chunk_gaps_are_longer_than_itl_under_speculation() -> None:
    comparison = build_comparison(tpot_spec_ms=7)
    assert measured("chunk_gap_mean_ms", comparison).value > 1.5 * measured("itl_mean_ms", comparison).value


def test_itl_without_token_ids_cannot_be_measured() -> None:
    with pytest.raises(CannotMeasure, match="no token ids"):
        measured("itl_p95_ms", build_comparison(token_ids=False))


def test_chunk_gaps_need_no_token_ids() -> None:
    assert measured("chunk_gap_p50_ms", build_comparison(token_ids=False)).value > 0


def test_too_few_requests_leave_a_high_percentile_open_and_say_how_many_it_takes() -> None:
    estimate = measured("ttft_p99_ms", build_comparison(requests=16, noise=0.1))
    assert estimate.high is None
    assert estimate.level == 0.95
    assert estimate.needed_requests is not None
    assert estimate.needed_requests > 16


def test_enough_requests_bound_a_high_percentile() -> None:
    estimate = measured("ttft_p95_ms", build_comparison(requests=100, noise=0.1, tokens=3))
    assert estimate.high is not None
    assert estimate.needed_requests is None


def test_rounds_that_repeat_each_other_do_not_narrow_a_percentile() -> None:
    once = measured("ttft_p50_ms", build_comparison(requests=60, rounds=1, prompt_spread=0.3, tokens=3))
    often = measured("ttft_p50_ms", build_comparison(requests=60, rounds=8, prompt_spread=0.3, tokens=3))
    assert once.low is not None
    assert once.high is not None
    assert often.low is not None
    assert often.high is not None
    assert often.high - often.low > 0.9 * (once.high - once.low)


def test_rounds_that_differ_widen_a_percentile() -> None:
    calm = measured("ttft_p50_ms", build_comparison(requests=64, noise=0.02, tokens=3))
    drifting = measured("ttft_p50_ms", build_comparison(requests=64, noise=0.02, round_drift=0.2, tokens=3))
    assert drifting.basis == "t over 4 rounds"
    assert drifting.high is not None
    assert calm.high is not None
    assert drifting.high > calm.high


def test_undefined_values_are_counted() -> None:
    def short(sample: RequestSample) -> RequestSample:
        if sample.index:
            return sample
        return replace(sample, token_times_s=sample.token_times_s[:1], chunk_tokens=(1,), completion_tokens=1)

    assert measured("tpot_p50_ms", change_samples(build_comparison(rounds=4), short)).excluded == 4
