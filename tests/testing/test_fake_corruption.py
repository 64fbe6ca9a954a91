"""Defects that can be planted in answers, and the sampler of temperatures above 0."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.testing.corruption import knobs_of_answer, swapped_at_a_draft
from pytest_specdec.testing.knobs import Knobs, Loop
from pytest_specdec.testing.simulation import Step, oracle_of
from pytest_specdec.testing.token_choice import IMPOSSIBLE, TokenChoice

SEEDS = range(4000)


def drawn(bias: float = 0.0, draws: str = "") -> list[int]:
    return [TokenChoice("prompt", f"{seed}|{draws}", 0.8, bias=bias).token(3) for seed in SEEDS]


def test_candidates_are_different_tokens_with_a_distribution() -> None:
    candidates = TokenChoice("prompt", "1", 0.8).candidates(3)
    assert len({token for token, _ in candidates}) == 6
    assert sum(p for _, p in candidates) == pytest.approx(1)
    assert [p for _, p in candidates] == sorted((p for _, p in candidates), reverse=True)


def test_tokens_are_drawn_as_often_as_they_are_likely() -> None:
    counts = Counter(drawn())
    for token, p in TokenChoice("prompt", "1", 0.8).candidates(3):
        assert counts[token] / len(SEEDS) == pytest.approx(p, abs=0.03)


def test_a_bias_is_added_to_the_first_candidate_and_taken_from_the_others() -> None:
    candidates = TokenChoice("prompt", "1", 0.8).candidates(3)
    counts = Counter(drawn(bias=0.2))
    (first, p), *others = candidates
    assert counts[first] / len(SEEDS) == pytest.approx(p + 0.2, abs=0.03)
    for token, other in others:
        assert counts[token] / len(SEEDS) == pytest.approx(other * (0.8 - p) / (1 - p), abs=0.03)


def test_a_lower_temperature_prefers_the_first_candidate() -> None:
    cold, warm = (TokenChoice("prompt", "1", temperature).candidates(3)[0] for temperature in (0.5, 1.0))
    assert cold[0] == warm[0]
    assert cold[1] > warm[1]


def test_log_probabilities_are_those_of_the_candidates() -> None:
    choice = TokenChoice("prompt", "1", 0.8, bias=0.3)
    token, p = choice.candidates(3)[2]
    assert choice.log_probability(3, token) == pytest.approx(math.log(p))
    assert choice.log_probability(3, 7) == IMPOSSIBLE


def test_servers_draw_other_tokens_from_the_same_seed_and_the_same_distribution(baseline: Any, specdec: Any) -> None:
    answers = [client.tokens(temperature=0.8, seed=1, max_tokens=12) for client in (baseline, specdec)]
    assert answers[0] != answers[1]
    assert drawn(draws="a") != drawn(draws="b")
    assert set(drawn(draws="a")) == set(drawn(draws="b"))


def test_a_swap_is_at_the_first_border_of_a_draft() -> None:
    steps = [Step(1, 0, 0), Step(3, 3, 2), Step(1, 3, 0), Step(2, 3, 1)]
    assert swapped_at_a_draft((0, 1, 2, 3, 4, 5, 6, 7), steps) == (0, 1, 2, 3, 5, 4, 6, 7)


def test_an_answer_without_a_border_stays_as_it_is() -> None:
    assert swapped_at_a_draft((0, 1, 2), [Step(2, 3, 2)]) == (0, 1, 2)


@given(st.integers(1, 90), st.integers(1, 9), st.integers(0, 300))
def test_a_loop_repeats_what_came_before_it(after: int, period: int, position: int) -> None:
    loop = Loop(after=after, period=period)
    source = loop.source(position)
    assert source == position if position < after else after - period <= source < after
    assert loop.source(position + min(period, after)) == source or position < after - period


def test_a_looping_answer_ends_only_at_max_tokens(serve: Any) -> None:
    clean, looping = serve(answer_tokens=100), serve(answer_tokens=100, loop={"after": 64, "period": 3})
    choice = looping.complete(max_tokens=150)["choices"][0]
    tokens = choice["token_ids"]
    assert choice["finish_reason"] == "length"
    assert tokens[:64] == clean.tokens(max_tokens=64)
    assert tokens[64:150] == (tokens[61:64] * 30)[:86]


def test_a_shorter_answer_does_not_come_to_the_loop(serve: Any) -> None:
    assert len(serve(answer_tokens=40, loop={"after": 64}).tokens(max_tokens=150)) == 40


def test_tokens_are_swapped_only_where_there_are_drafts(serve: Any, eagle: dict[str, Any]) -> None:
    knobs: dict[str, Any] = {"swap_at_drafts": 1.0, "answer_tokens": 60}
    plain, drafted = serve(**knobs), serve(**knobs, speculative_config=eagle)
    right = serve(answer_tokens=60).tokens(max_tokens=60)
    wrong = drafted.tokens(max_tokens=60)
    assert plain.tokens(max_tokens=60) == right != wrong
    assert sorted(wrong) == sorted(right)
    assert sum(a != b for a, b in zip(right, wrong, strict=True)) == 2


ALL = Knobs(corrupt_output=1.0, swap_at_drafts=1.0, loop=Loop(), sampler_bias=0.1)


@pytest.mark.parametrize(
    ("limits", "prompt", "alone", "corrupts"),
    [
        ({}, "a", True, True),
        ({"corrupt_only_concurrent": True}, "a", True, False),
        ({"corrupt_only_concurrent": True}, "a", False, True),
        ({"corrupt_only_with": "§"}, "a", False, False),
        ({"corrupt_only_with": "§"}, "a§", True, True),
        ({"corrupt_only_with": "§", "corrupt_only_concurrent": True}, "a§", True, False),
    ],
)
def test_corruption_can_be_limited(limits: dict[str, Any], prompt: str, *, alone: bool, corrupts: bool) -> None:
    knobs = Knobs(**{**vars(ALL), **limits})
    held = knobs_of_answer(knobs, prompt=prompt, alone=alone)
    planted = [held.corrupt_output, held.swap_at_drafts, held.loop, held.sampler_bias]
    assert planted == ([1.0, 1.0, Loop(), 0.1] if corrupts else [0.0, 0.0, None, 0.0])


def test_an_answer_is_corrupted_beside_another_one_only(serve: Any) -> None:
    client = serve(corrupt_output=1.0, corrupt_only_concurrent=True, tpot_ms=20, answer_tokens=40)
    right = serve(answer_tokens=40).tokens(max_tokens=17)
    assert client.tokens(max_tokens=17) == right
    with client.endless("another"):
        client.counters_once("vllm:num_requests_running", 1)
        assert client.tokens(max_tokens=17) != right


@pytest.mark.parametrize("chat", [False, True])
def test_the_text_of_a_prompt_decides_whether_it_is_corrupted(serve: Any, *, chat: bool) -> None:
    clean, wrong = serve(), serve(corrupt_output=1.0, corrupt_only_with="\u2028")
    for prompt, same in (("a b", True), ("a\u2028b", False)):
        answers = [client.stream(prompt, chat=chat, max_tokens=17).tokens for client in (clean, wrong)]
        assert (answers[0] == answers[1]) == same


def test_numeric_noise_takes_the_tied_token_now_and_then() -> None:
    knobs = Knobs(numeric_noise=0.3)
    ties = [oracle_of(knobs, "m", (1, 2), None, noise_key=str(request)).tie_at for request in range(500)]
    assert len(set(ties)) == 2
    assert 0.2 < sum(tie is not None for tie in ties) / len(ties) < 0.4
