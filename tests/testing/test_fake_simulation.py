"""The pretended model: what it says, what drafts get right, how long steps take."""

from __future__ import annotations

import random
import statistics

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.testing.knobs import KnobError, Knobs
from pytest_specdec.testing.simulation import (
    END_TOKEN,
    Oracle,
    Pace,
    conditional_acceptance,
    oracle_of,
    plan_steps,
    split_context,
    tie_position,
    token_text,
    tokens_of_chat,
    tokens_of_text,
)

PROMPT = tokens_of_text("What is the capital of France?")


def answer(oracle: Oracle, count: int) -> list[int]:
    return [oracle.token(position) for position in range(count)]


def oracle(knobs: Knobs | None = None, *, model: str = "m", seed: int | None = None) -> Oracle:
    return oracle_of(knobs or Knobs(), model, PROMPT, seed)


def test_the_same_prompt_has_the_same_answer() -> None:
    assert answer(oracle(), 20) == answer(oracle(), 20)


@pytest.mark.parametrize("other", [oracle(model="n"), oracle(seed=1), oracle_of(Knobs(), "m", PROMPT[1:], None)])
def test_another_model_seed_or_prompt_has_another_answer(other: Oracle) -> None:
    assert answer(other, 20) != answer(oracle(), 20)


@given(st.lists(st.integers(0, 40_000), min_size=1, max_size=30), st.integers(1, 30), st.integers(0, 30))
def test_a_natural_answer_ends_with_the_only_end_token(prompt: list[int], shortest: int, more: int) -> None:
    told = oracle_of(Knobs(answer_tokens=(shortest, shortest + more)), "m", prompt, None)
    assert shortest <= told.natural_tokens <= shortest + more
    tokens = answer(told, told.natural_tokens)
    assert [index for index, token in enumerate(tokens) if token == END_TOKEN] == [told.natural_tokens - 1]


def test_a_prompt_that_ends_in_part_of_an_answer_is_split_there() -> None:
    started = answer(oracle(), 5)
    assert split_context([*PROMPT, *started]) == (PROMPT, tuple(started))


def test_a_chat_prompt_is_not_taken_for_part_of_an_answer() -> None:
    prompt = tokens_of_chat([("system", "Be brief."), ("user", "Hello")])
    assert split_context(prompt) == (prompt, ())


def test_only_the_end_token_has_no_text() -> None:
    assert [token for token in (END_TOKEN, 30_000, 39_999, 100) if not token_text(token)] == [END_TOKEN]


def test_different_answer_tokens_have_different_texts() -> None:
    assert len({token_text(token) for token in range(30_000, 40_000)}) == 10_000


def test_a_corrupt_answer_diverges_at_an_unlikely_token() -> None:
    corrupt, clean = oracle(Knobs(corrupt_output=1.0)), oracle()
    at = next(index for index in range(30) if corrupt.token(index) != clean.token(index))
    gap = clean.log_probability(at, clean.token(at)) - clean.log_probability(at, corrupt.token(at))
    assert gap > 3


def test_a_near_tie_diverges_where_both_tokens_are_as_likely() -> None:
    tied, clean = oracle(Knobs(near_ties=1.0)), oracle()
    at = next(index for index in range(30) if tied.token(index) != clean.token(index))
    gap = clean.log_probability(at, clean.token(at)) - clean.log_probability(at, tied.token(at))
    assert at == tie_position(clean.identity, clean.natural_tokens)
    assert 0 < gap < 0.1


def test_a_share_of_prompts_is_corrupted() -> None:
    knobs = Knobs(corrupt_output=0.25)
    corrupted = sum(oracle_of(knobs, "m", (number,), None).corrupt_at is not None for number in range(2000))
    assert 0.2 < corrupted / 2000 < 0.3


@given(st.floats(1.0, 5.0))
def test_acceptance_length_is_spread_so_that_its_mean_is_as_set(length: float) -> None:
    conditional = conditional_acceptance(Knobs(acceptance_length=length), 4)
    joint, expected = 1.0, 1.0
    for c in conditional:
        joint *= c
        expected += joint
    assert expected == pytest.approx(length, abs=1e-6)


@pytest.mark.parametrize("length", [0.5, 4.5])
def test_an_acceptance_length_out_of_reach_is_refused(length: float) -> None:
    with pytest.raises(KnobError, match="from 1 to 4"):
        conditional_acceptance(Knobs(acceptance_length=length), 3)


def test_the_last_acceptance_holds_for_further_positions() -> None:
    assert conditional_acceptance(Knobs(acceptance=(0.9, 0.5)), 4) == (0.9, 0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"synthetic_acceptance_length": 2.5}, (1.0, 0.5, 0.0)),
        ({"synthetic_acceptance_rates": [0.8, 0.4, 0.1]}, (0.8, 0.5, 0.25)),
    ],
)
def test_synthetic_rejection_sets_the_acceptance(config: dict[str, object], expected: tuple[float, ...]) -> None:
    config = {"rejection_sample_method": "synthetic", **config}
    assert conditional_acceptance(Knobs(acceptance_length=1.2), 3, config) == pytest.approx(expected)


@given(
    tokens=st.integers(1, 200),
    k=st.integers(0, 6),
    acceptance=st.floats(0, 1),
    coverage=st.floats(0, 1),
    seed=st.integers(0, 2**16),
)
def test_steps_deliver_all_tokens_and_only_the_last_is_cut(
    tokens: int, k: int, acceptance: float, coverage: float, seed: int
) -> None:
    steps = plan_steps(tokens, k=k, conditional=(acceptance,) * k, coverage=coverage, rng=random.Random(seed))  # noqa: S311 - a simulation
    assert sum(step.delivered for step in steps) == tokens - 1
    assert all(step.delivered == step.accepted + 1 for step in steps[:-1])
    assert all(step.drafted in (0, k) and step.accepted <= step.drafted for step in steps)


def test_coverage_is_the_share_of_steps_that_draft() -> None:
    steps = plan_steps(20_000, k=2, conditional=(0.5, 0.5), coverage=0.3, rng=random.Random(1))  # noqa: S311 - a simulation
    assert statistics.fmean(step.drafted > 0 for step in steps) == pytest.approx(0.3, abs=0.02)


def pace(knobs: Knobs, *, speculating: bool = False, nth: int = 1, identity: str = "p") -> Pace:
    return Pace(knobs, arm="baseline", nth=nth, identity=identity, speculating=speculating)


def test_only_a_speculating_server_pays_the_step_ratio() -> None:
    knobs = Knobs(tpot_ms=10, step_ratio=1.5)
    durations_s = [pace(knobs, speculating=each).step_s(uptime_s=0, running=1) for each in (False, True)]
    assert durations_s == pytest.approx([0.010, 0.015])


def test_other_running_requests_slow_each_step_down() -> None:
    assert pace(Knobs(tpot_ms=10, tpot_ms_per_running=0.5)).step_s(uptime_s=0, running=5) == pytest.approx(0.012)


def test_drift_slows_down_by_the_minute() -> None:
    assert pace(Knobs(tpot_ms=10, drift=0.1)).step_s(uptime_s=120, running=1) == pytest.approx(0.012)


def test_jitter_keeps_the_mean() -> None:
    noisy = pace(Knobs(tpot_ms=10, jitter=0.3))
    durations_s = [noisy.step_s(uptime_s=0, running=1) for _ in range(5000)]
    assert statistics.fmean(durations_s) == pytest.approx(0.010, rel=0.02)
    assert statistics.stdev(durations_s) == pytest.approx(0.003, rel=0.1)


def test_request_jitter_is_one_factor_per_request() -> None:
    knobs = Knobs(request_jitter=0.3)
    first, second = pace(knobs, nth=1), pace(knobs, nth=2)
    one, same, other = (each.step_s(uptime_s=0, running=1) for each in (first, first, second))
    assert one == same != other


def test_prompt_spread_is_the_same_on_both_arms() -> None:
    knobs = Knobs(prompt_spread=0.3)
    arms = [Pace(knobs, arm=arm, nth=9, identity="p", speculating=False) for arm in ("baseline", "specdec")]
    one, other = (arm.step_s(uptime_s=0, running=1) for arm in arms)
    assert one == other != pace(knobs, identity="q").step_s(uptime_s=0, running=1)


def test_a_cached_prompt_can_have_its_own_ttft() -> None:
    quick = pace(Knobs(ttft_ms=100, ttft_ms_cached=10))
    assert [quick.first_token_s(uptime_s=0, cached=cached) for cached in (False, True)] == pytest.approx([0.1, 0.01])
