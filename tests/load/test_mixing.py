"""Several workloads as one: how many of each in every round, and which prompts."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.load.arrivals import plan_notes, plan_requests
from pytest_specdec.load.mixing import mixed
from pytest_specdec.load.prompt_reader import Prompt
from pytest_specdec.load.warmup import warm_up_prompts
from pytest_specdec.load.workload import Workload

if TYPE_CHECKING:
    from collections.abc import Mapping


def mix_of(shares: Mapping[str, float], *, prompts: int = 40, weights: Mapping[str, float] | None = None) -> Workload:
    parts = [
        Workload(
            name,
            Path(f"{name}.jsonl"),
            "0" * 64,
            tuple(Prompt(i, prompt=f"{name} {i}", category="own") for i in range(prompts)),
        )
        for name in shares
    ]
    return mixed("the mix", parts, shares=shares, weights=weights)


def load_of(requests: int, **other: int) -> LoadSpec:
    return LoadSpec(workload="the mix", num_requests=requests, **other)  # type: ignore[arg-type] # passed on


def classes(workload: Workload, load: LoadSpec, round_index: int = 0, *, fresh: bool = False) -> Counter[str | None]:
    return Counter(one.prompt.category for one in plan_requests(workload, load, round_index=round_index, fresh=fresh))


def test_the_name_of_a_workload_becomes_the_class_of_its_prompts() -> None:
    assert {prompt.category for prompt in mix_of({"code": 0.5, "chat": 0.5}).prompts} == {"code", "chat"}


def test_prompts_are_numbered_through() -> None:
    assert [prompt.index for prompt in mix_of({"code": 0.5, "chat": 0.5}).prompts] == list(range(80))


@given(shares=st.lists(st.floats(0.1, 1), min_size=2, max_size=4), requests=st.integers(12, 60))
@settings(max_examples=30, deadline=None)
def test_every_round_has_its_share_of_each(shares: list[float], requests: int) -> None:
    total = sum(shares)
    workload = mix_of({f"class{n}": share / total for n, share in enumerate(shares)}, prompts=60)
    try:
        counted = classes(workload, load_of(requests))
    except WorkloadError as error:
        assert "leave none" in error.what  # noqa: PT017 - a share so small is refused
        return
    assert counted.total() == requests
    assert all(abs(counted[name] - share * requests) < 1 for name, share in (workload.mix or {}).items())


def test_the_plan_is_the_same_for_both_arms_and_every_round_and_another_for_another_seed() -> None:
    workload = mix_of({"code": 0.5, "chat": 0.5})
    first, again = (plan_requests(workload, load_of(16), round_index=n, fresh=False) for n in (0, 3))
    assert [one.prompt for one in first] == [one.prompt for one in again]
    other = plan_requests(workload, load_of(16, seed=1), round_index=0, fresh=False)
    assert [one.prompt for one in first] != [one.prompt for one in other]


def test_classes_take_turns_within_a_round() -> None:
    """One after the other they would meet different moments of the server."""
    order = [
        one.prompt.category
        for one in plan_requests(mix_of({"code": 0.5, "chat": 0.5}), load_of(32), round_index=0, fresh=False)
    ]
    assert len(set(order[:8])) == 2
    assert len(set(order[-8:])) == 2


def test_prompts_are_not_repeated_while_there_are_others() -> None:
    plan = plan_requests(mix_of({"code": 0.5, "chat": 0.5}), load_of(80), round_index=0, fresh=False)
    assert len({one.prompt.index for one in plan}) == 80


def test_a_class_that_gets_no_request_is_an_error() -> None:
    with pytest.raises(WorkloadError, match="leave none for rare") as raised:
        classes(mix_of({"code": 0.95, "rare": 0.05}), load_of(8))
    assert "at least 20" in raised.value.remedy


def test_fresh_rounds_share_no_prompt_and_have_the_same_classes() -> None:
    workload = mix_of({"code": 0.75, "chat": 0.25})
    plans = [plan_requests(workload, load_of(8), round_index=n, fresh=True) for n in range(4)]
    assert len({one.prompt.index for plan in plans for one in plan}) == 32
    assert all(Counter(one.prompt.category for one in plan) == {"code": 6, "chat": 2} for plan in plans)


def test_fresh_rounds_beyond_a_class_are_an_error_although_the_others_have_prompts_left() -> None:
    workload = mix_of({"code": 0.75, "chat": 0.25}, prompts=20)
    with pytest.raises(WorkloadError, match="24 of code, which has 20"):
        classes(workload, load_of(8), 3, fresh=True)


def test_a_class_that_repeats_prompts_is_said() -> None:
    (note,) = plan_notes(mix_of({"code": 0.75, "chat": 0.25}, prompts=20), load_of(32))
    assert "24 of code, which has 20" in note


def test_warming_up_uses_prompts_that_are_not_measured() -> None:
    workload = mix_of({"code": 0.5, "chat": 0.5})
    measured = {one.prompt.index for one in plan_requests(workload, load_of(16), round_index=0, fresh=False)}
    warm = warm_up_prompts(workload, load_of(16), fresh=False)
    first = [next(warm) for _ in range(16)]
    assert not measured & {prompt.index for prompt in first}
    assert {prompt.category for prompt in first} == {"code", "chat"}


def test_other_shares_are_another_checksum() -> None:
    assert mix_of({"code": 0.5, "chat": 0.5}).sha256 != mix_of({"code": 0.6, "chat": 0.4}).sha256


def test_conversations_that_go_on_with_own_answers_stay_alone() -> None:
    turn = Prompt(0, messages=({"role": "user", "content": "a"}, {"role": "assistant", "content": ""}), answers=(1,))
    part = Workload("talk", Path("talk.jsonl"), "0" * 64, (turn,))
    with pytest.raises(WorkloadError, match="multi_turn: own"):
        mixed("the mix", [part, part], shares={"talk": 1.0}, weights=None)
