"""When a server counts as warm: on synthetic sequences of batches."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.samples import RequestSample
from pytest_specdec.core.warming import MIN_TOKENS, BatchPace, has_settled, pace_of


def batches(*pairs_ms: tuple[float | None, float]) -> list[BatchPace]:
    return [BatchPace(None if tpot is None else tpot / 1000, ttft / 1000) for tpot, ttft in pairs_ms]


@pytest.mark.parametrize(
    "cold",
    [
        [],
        [(6.2, 195)],
        [(9.2, 1190), (6.2, 195)],
        [(6.2, 1190), (6.2, 195)],
        [(9.2, 195), (6.2, 195)],
        [(1537, 2000), (58, 80)],
        [(9.2, 1190), (6.2, 195), (5.0, 190)],
        [(4.0, 50), (8.0, 50), (4.0, 50), (8.0, 50)],
        [(8.0, 50), (7.0, 50), (6.0, 50), (5.0, 50)],
        [(6.0, 400), (6.0, 300), (6.0, 220), (6.0, 160)],
        [(None, 1190), (None, 195)],
    ],
)
def test_it_still_drifts(cold: list[tuple[float | None, float]]) -> None:
    assert not has_settled(batches(*cold))


@pytest.mark.parametrize(
    "warm",
    [
        [(6.2, 195), (6.1, 190)],
        [(9.2, 1190), (6.2, 195), (6.1, 200)],
        [(1537, 2000), (58, 80), (57, 84)],
        [(6.0, 50), (6.0, 61)],  # a first token waits for its turn
        [(6.0, 2), (6.0, 6)],  # milliseconds of the client
        [(0.50, 50), (0.58, 50)],  # hundredths of them
        [(6.0, 50), (7.0, 50), (6.1, 50), (7.1, 50)],  # a noisy machine that goes nowhere
        [(20.0, 900), (6.0, 50), (7.0, 62), (6.0, 50), (7.0, 64)],
        [(None, 200), (None, 190)],  # answers of one or two tokens
        [(6.0, 200), (None, 190)],
    ],
)
def test_it_has_settled(warm: list[tuple[float | None, float]]) -> None:
    assert has_settled(batches(*warm))


@given(st.floats(0.5, 200), st.floats(5, 5000), st.integers(0, 1_000_000))
def test_a_steady_server_is_found_warm_at_once(tpot_ms: float, ttft_ms: float, seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311 - a simulation
    steady = [(tpot_ms * rng.uniform(0.97, 1.02), ttft_ms * rng.uniform(0.9, 1.1)) for _ in range(2)]
    assert has_settled(batches(*steady))


@given(st.lists(st.floats(0.3, 0.85), min_size=1, max_size=8), st.floats(1, 200), st.floats(50, 5000))
def test_a_server_that_gets_faster_by_every_batch_is_never_called_warm(
    steps: list[float], tpot_ms: float, ttft_ms: float
) -> None:
    seen = [(tpot_ms * 1000, ttft_ms)]
    for step in steps:
        seen.append((seen[-1][0] * step, ttft_ms))
        assert not has_settled(batches(*seen)) or seen[-1][0] < 1


def sample(tokens: int, *, ttft_s: float = 0.1, tpot_s: float = 0.01, first_chunk: int | None = None) -> RequestSample:
    end = 1 + ttft_s + tpot_s * (tokens - (first_chunk or 1))
    times = (1 + ttft_s, end) if tokens > (first_chunk or 1) else (1 + ttft_s,)
    chunks = (
        None if first_chunk is None else ((first_chunk, tokens - first_chunk) if len(times) > 1 else (first_chunk,))
    )
    return RequestSample(0, 0, None, None, 1.0, times, chunks, completion_tokens=tokens)


def test_a_batch_is_paced_by_its_tokens_not_by_its_requests() -> None:
    pace = pace_of([sample(101), sample(2, tpot_s=1.0)])
    assert pace.tpot_s == pytest.approx((1.0 + 1.0) / 101)


def test_one_slow_first_token_is_not_the_batch() -> None:
    assert pace_of([sample(20), sample(20, ttft_s=0.12), sample(20, ttft_s=5)]).ttft_s == pytest.approx(0.12)


def test_tokens_of_the_first_chunk_took_no_decoding() -> None:
    assert pace_of([sample(MIN_TOKENS + 4, first_chunk=4)]).tpot_s == pytest.approx(0.01)


@pytest.mark.parametrize("tokens", [1, 2])
def test_short_answers_say_nothing_about_tpot(tokens: int) -> None:
    pace = pace_of([sample(tokens)] * 8)
    assert pace.tpot_s is None
    assert pace.ttft_s == pytest.approx(0.1)
