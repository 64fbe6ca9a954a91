"""Samples: in proportion within one, without repetition, the same for the same seed, and honest about what they leave."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import WorkloadError
from pytest_specdec.load.prompt_reader import Prompt
from pytest_specdec.load.sampling import MAX_CATEGORIES, Sampler, largest_remainder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

CATEGORIES = st.lists(st.sampled_from(["code", "chat", "structured", None]), min_size=1, max_size=60)


def drawn(
    categories: Sequence[str | None],
    size: int,
    *,
    seed: int = 0,
    by_category: bool = True,
    shares: Mapping[str, float] | None = None,
) -> tuple[list[Prompt], Sampler]:
    sampler = Sampler(size, seed=seed, by_category=by_category, shares=shares)
    for index, category in enumerate(categories):
        sampler.add(Prompt(index, prompt=f"prompt {index}", category=category))
    return sampler.sample(), sampler


@settings(deadline=None)
@given(categories=CATEGORIES, size=st.integers(1, 80), seed=st.integers(0, 5), by_category=st.booleans())
def test_a_sample_has_the_size_asked_for_and_no_prompt_twice(
    categories: list[str | None], size: int, seed: int, *, by_category: bool
) -> None:
    sample, _ = drawn(categories, size, seed=seed, by_category=by_category)
    places = [prompt.index for prompt in sample]
    assert len(sample) == min(size, len(categories))
    assert places == sorted(set(places))


@settings(deadline=None)
@given(CATEGORIES, st.integers(1, 80), st.integers(0, 5))
def test_each_category_is_within_one_of_its_proportion(categories: list[str | None], size: int, seed: int) -> None:
    sample, _ = drawn(categories, size, seed=seed)
    counts = Counter(prompt.category for prompt in sample)
    for category, there in Counter(categories).items():
        assert abs(counts[category] - len(sample) * there / len(categories)) < 1


@settings(deadline=None)
@given(categories=CATEGORIES, size=st.integers(1, 80), seed=st.integers(0, 5), by_category=st.booleans())
def test_the_same_seed_draws_the_same(categories: list[str | None], size: int, seed: int, *, by_category: bool) -> None:
    one, _ = drawn(categories, size, seed=seed, by_category=by_category)
    other, _ = drawn(categories, size, seed=seed, by_category=by_category)
    assert one == other


def test_another_seed_draws_others() -> None:
    categories: list[str | None] = ["chat"] * 100
    assert drawn(categories, 10, seed=1)[0] != drawn(categories, 10, seed=2)[0]


def test_the_draw_of_a_seed_stays_what_it_was() -> None:
    """A saved result is compared with later runs: a new release must not draw other prompts."""
    sample, _ = drawn(["code", "chat"] * 10, 6, seed=7)
    assert [prompt.index for prompt in sample] == PINNED


PINNED = [1, 3, 6, 8, 10, 11]


def test_every_prompt_is_drawn_equally_often() -> None:
    counts = Counter(
        prompt.index for seed in range(2000) for prompt in drawn(["chat"] * 10, 3, seed=seed, by_category=False)[0]
    )
    assert min(counts.values()) > 500  # 600 expected, standard deviation 20
    assert max(counts.values()) < 700


def test_stated_shares_win_over_the_files() -> None:
    sample, sampler = drawn(["code"] * 20 + ["chat"] * 80 + ["other"] * 5, 20, shares={"code": 0.6, "chat": 0.4})
    assert Counter(prompt.category for prompt in sample) == {"code": 12, "chat": 8}
    assert sampler.weights() == {"code": 0.6, "chat": 0.4}
    assert sampler.notes() == (
        "20 of 105 prompts drawn: code 12 of 20, chat 8 of 80",
        "5 prompts of categories without a share are left out: other",
    )


def test_shares_that_cannot_be_met_are_refused_with_what_can() -> None:
    with pytest.raises(WorkloadError) as refused:
        drawn(["code"] * 6 + ["chat"] * 80, 20, shares={"code": 0.6, "chat": 0.4})
    assert "12 of 'code' (6 there)" in str(refused.value)
    assert "`sample: 10`" in str(refused.value)
    sample, _ = drawn(["code"] * 6 + ["chat"] * 80, 10, shares={"code": 0.6, "chat": 0.4})
    assert len(sample) == 10


def test_a_share_of_no_category_is_refused() -> None:
    with pytest.raises(WorkloadError, match="'cod', and no prompt has it; did you mean 'code'"):
        drawn(["code"] * 6, 3, shares={"cod": 1.0})


def test_shares_of_untagged_prompts_point_to_the_rules() -> None:
    with pytest.raises(WorkloadError, match="classify: true"):
        drawn([None] * 6, 3, shares={"code": 1.0})


def test_weights_are_the_datas_own_unless_stated() -> None:
    _, sampler = drawn(["code"] * 3 + ["chat"], 2)
    assert sampler.weights() == {"code": 0.75, "chat": 0.25}


def test_there_are_no_weights_where_not_every_prompt_has_a_category() -> None:
    assert drawn(["code", None], 2)[1].weights() is None
    assert drawn(["code", "chat"], 2, by_category=False)[1].weights() is None


def test_a_sample_larger_than_the_file_is_all_of_it_and_says_so() -> None:
    sample, sampler = drawn(["code"] * 3, 300)
    assert len(sample) == 3
    assert sampler.notes() == ("all 3 prompts are used; the sample asked for 300",)


def test_categories_that_get_nothing_are_named() -> None:
    _, sampler = drawn(["code"] * 99 + ["chat"], 10)
    assert sampler.notes() == ("10 of 100 prompts drawn: code 10 of 99, chat 0 of 1",)


def test_an_id_is_no_category() -> None:
    with pytest.raises(WorkloadError, match=f"more than {MAX_CATEGORIES} categories, such as 'id 0'"):
        drawn([f"id {n}" for n in range(MAX_CATEGORIES + 1)], 10)


@pytest.mark.parametrize(
    ("size", "weights", "expected"),
    [
        (10, {"a": 1, "b": 1, "c": 1}, {"a": 4, "b": 3, "c": 3}),
        (100, {"a": 0.07, "b": 0.93}, {"a": 7, "b": 93}),
        (1, {"a": 0.4, "b": 0.6}, {"a": 0, "b": 1}),
        (3, {"a": 0.5, "b": 0.3, "c": 0.2}, {"a": 1, "b": 1, "c": 1}),
        (5, {}, {}),
    ],
)
def test_remainders_go_to_the_largest(size: int, weights: dict[str, float], expected: dict[str, int]) -> None:
    assert largest_remainder(size, weights) == expected


@given(st.integers(0, 1000), st.dictionaries(st.text(max_size=2), st.floats(0.001, 1), min_size=1, max_size=9))
def test_whole_numbers_sum_up_and_stay_within_one(size: int, weights: dict[str, float]) -> None:
    quotas = largest_remainder(size, weights)
    assert sum(quotas.values()) == size
    for name, weight in weights.items():
        assert abs(quotas[name] - size * weight / sum(weights.values())) < 1 + 1e-6
