"""The plan of requests is fixed by the seed and the same for both arms."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.arrivals import PlannedRequest, plan_notes, plan_requests
from pytest_specdec.load.workload import Prompt, Workload


def workload_of(count: int) -> Workload:
    prompts = tuple(
        Prompt(index=index, prompt=f"prompt {index}", max_tokens=7 if index == 0 else None) for index in range(count)
    )
    return Workload(name="w", path=Path("w.jsonl"), sha256="", prompts=prompts)


def plan(count: int, load: LoadSpec, *, round_index: int = 0, fresh: bool = False) -> tuple[PlannedRequest, ...]:
    return plan_requests(workload_of(count), load, round_index=round_index, fresh=fresh)


OPEN = LoadSpec(concurrency=None, request_rate=4.0, num_requests=50)


def test_every_round_gets_the_same_requests() -> None:
    assert plan(20, OPEN, round_index=0) == plan(20, OPEN, round_index=3)


def test_another_seed_gives_another_plan() -> None:
    one, other = plan(100, OPEN), plan(100, replace(OPEN, seed=1))
    assert [request.prompt for request in one] != [request.prompt for request in other]
    assert [request.due_s for request in one] != [request.due_s for request in other]
    assert [request.seed for request in one] != [request.seed for request in other]


@settings(deadline=None)
@given(st.integers(1, 30), st.integers(1, 100), st.integers(0, 2**32))
def test_prompts_repeat_only_when_all_were_sent(prompts: int, requests: int, seed: int) -> None:
    chosen = [request.prompt.index for request in plan(prompts, LoadSpec(num_requests=requests, seed=seed))]
    assert len(chosen) == requests
    for start in range(0, requests, prompts):
        one_pass = chosen[start : start + prompts]
        assert len(set(one_pass)) == len(one_pass)


def test_prompts_are_shuffled() -> None:
    chosen = [request.prompt.index for request in plan(100, LoadSpec(num_requests=100))]
    assert chosen != sorted(chosen)


def test_repeats_are_noted() -> None:
    load = LoadSpec(num_requests=5)
    assert plan_notes(workload_of(5), load) == ()
    assert plan_notes(workload_of(4), load) == (
        "5 requests from 4 prompts of workload w: prompts are sent more than once in a round",
    )


def test_a_line_may_set_its_own_max_tokens() -> None:
    assert {
        request.prompt.index: request.max_tokens for request in plan(3, LoadSpec(num_requests=3, max_tokens=50))
    } == {
        0: 7,
        1: 50,
        2: 50,
    }


def test_a_closed_loop_has_no_arrivals() -> None:
    assert {request.due_s for request in plan(5, LoadSpec(num_requests=5))} == {None}


@settings(deadline=None)
@given(st.integers(2, 200), st.floats(0.01, 1000), st.integers(0, 2**32))
def test_arrivals_keep_the_declared_rate(requests: int, rate: float, seed: int) -> None:
    planned = plan(3, LoadSpec(concurrency=None, request_rate=rate, num_requests=requests, seed=seed))
    due_s = [request.due_s for request in planned if request.due_s is not None]
    assert len(due_s) == requests
    assert due_s[0] == 0
    assert due_s == sorted(due_s)
    assert due_s[-1] == pytest.approx((requests - 1) / rate)


def test_arrivals_are_a_poisson_process() -> None:
    due_s = [request.due_s or 0.0 for request in plan(3, replace(OPEN, num_requests=2000))]
    gaps_s = sorted(later - earlier for earlier, later in itertools.pairwise(due_s))
    mean_s = sum(gaps_s) / len(gaps_s)
    spread_s = (sum((gap_s - mean_s) ** 2 for gap_s in gaps_s) / len(gaps_s)) ** 0.5
    assert spread_s / mean_s == pytest.approx(1, abs=0.1)  # exponential gaps
    assert gaps_s[len(gaps_s) // 2] / mean_s == pytest.approx(0.693, abs=0.05)


def test_arrivals_do_not_depend_on_the_workload() -> None:
    assert [request.due_s for request in plan(5, OPEN)] == [request.due_s for request in plan(70, OPEN)]


def test_a_single_request_arrives_at_once() -> None:
    assert [request.due_s for request in plan(3, replace(OPEN, num_requests=1))] == [0.0]


def test_fresh_rounds_share_no_prompt() -> None:
    load = LoadSpec(num_requests=4)
    rounds = [{request.prompt.index for request in plan(12, load, round_index=index, fresh=True)} for index in range(3)]
    assert set.union(*rounds) == set(range(12))


def test_a_fresh_round_without_prompts_says_how_many_it_needs() -> None:
    load = LoadSpec(num_requests=4, max_rounds=6)
    with pytest.raises(
        WorkloadError, match=r"round 4 needs .* 16 in all, the workload has 12(.|\n)*Provide 24 prompts"
    ):
        plan(12, load, round_index=3, fresh=True)
