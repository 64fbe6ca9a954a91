"""Which samples are asked for, and how."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.arrivals import prompt_order
from pytest_specdec.load.prompt_reader import Prompt
from pytest_specdec.load.workload import Workload
from pytest_specdec.sampling_pass import sampling_load, sampling_plan

LOAD = LoadSpec(temperature=0.8, seed=3)


def workload(prompts: int) -> Workload:
    return Workload(
        "w", Path("w.jsonl"), "0" * 64, tuple(Prompt(index=n, prompt=f"prompt {n}") for n in range(prompts))
    )


@pytest.mark.parametrize(("prompts", "used", "each"), [(40, 16, 128), (16, 16, 128), (5, 5, 410), (1, 1, 512)])
def test_the_budget_is_spread_over_the_prompts_there_are(prompts: int, used: int, each: int) -> None:
    plan = sampling_plan(workload(prompts), LOAD)
    assert set(Counter(request.prompt.index for request in plan).values()) == {each}
    assert len(plan) == used * each


def test_the_prompts_are_those_of_the_load() -> None:
    chosen = [prompt.index for prompt in prompt_order(workload(40), LOAD, count=16)]
    assert [request.prompt.index for request in sampling_plan(workload(40), LOAD)[:16]] == chosen


def test_every_request_has_a_seed_of_its_own() -> None:
    assert len({request.seed for request in sampling_plan(workload(16), LOAD)}) == 2048


def test_the_plan_follows_from_the_seed() -> None:
    one, same = (sampling_plan(workload(16), LOAD) for _ in range(2))
    other = sampling_plan(workload(16), LoadSpec(temperature=0.8, seed=4))
    assert one == same
    assert [request.seed for request in one] != [request.seed for request in other]


def test_both_halves_of_the_plan_have_every_prompt_as_often() -> None:
    plan = sampling_plan(workload(16), LOAD)
    halves = (plan[:1024], plan[1024:])
    assert Counter(request.prompt.index for request in halves[0]) == Counter(r.prompt.index for r in halves[1])


@pytest.mark.parametrize(
    ("load", "concurrency"),
    [({"concurrency": 1}, 32), ({"concurrency": 64}, 64), ({"concurrency": None, "request_rate": 2.0}, 32)],
)
def test_samples_are_asked_for_several_at_a_time(load: dict[str, float | None], concurrency: int) -> None:
    asked = sampling_load(LoadSpec(temperature=0.8, **load), 2048)  # type: ignore[arg-type] # numbers of both kinds
    assert (asked.concurrency, asked.request_rate, asked.max_tokens) == (concurrency, None, 6)
    assert asked.temperature == 0.8


def test_answers_are_not_longer_than_the_load_allows() -> None:
    assert {r.max_tokens for r in sampling_plan(workload(4), LoadSpec(temperature=0.8, max_tokens=2))} == {2}
