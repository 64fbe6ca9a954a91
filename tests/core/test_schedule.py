"""From gains by load and K to a schedule that vLLM takes."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.k_choice import with_k
from pytest_specdec.core.schedule import KPoint, Schedule, derive_schedule, with_schedule
from pytest_specdec.core.spec_check import speculative_problems
from pytest_specdec.core.vllm_versions import exactly


def points(gains: dict[int, dict[int, float]]) -> list[KPoint]:
    """From ``{K: {concurrency: gain}}``."""
    return [KPoint(load, k, gain) for k, of_k in gains.items() for load, gain in of_k.items()]


def test_long_drafts_alone_short_ones_in_company_none_in_a_crowd() -> None:
    schedule = derive_schedule(points({4: {1: 0.4, 8: 0.1, 32: -0.3}, 2: {1: 0.3, 8: 0.2, 32: -0.1}}))
    # 4 and 2 are equal half-way from 1 to 8 in the logarithm, at 2.8; 2 is gone two thirds of the way from 8 to 32, at 20.2.
    assert schedule == ((1, 2, 4), (3, 20, 2), (21, 32, 0))


def test_one_k_that_is_best_everywhere_needs_no_schedule() -> None:
    assert derive_schedule(points({4: {1: 0.4, 32: 0.2}, 2: {1: 0.3, 32: 0.1}})) == ((1, 32, 4),)


def test_what_never_pays_is_switched_off_everywhere() -> None:
    assert derive_schedule(points({3: {1: -0.1, 8: -0.2}})) == ((1, 8, 0),)


def test_a_k_that_rises_with_the_load_is_taken_for_noise() -> None:
    schedule = derive_schedule(points({4: {1: 0.30, 8: 0.20, 32: 0.11}, 2: {1: 0.31, 8: 0.15, 32: 0.10}}))
    assert schedule == ((1, 32, 4),)


def test_equals_go_to_the_smaller_k() -> None:
    assert derive_schedule(points({4: {1: 0.2, 8: 0.2}, 2: {1: 0.2, 8: 0.2}})) == ((1, 8, 2),)


@pytest.mark.parametrize(
    "incomplete",
    [[], [KPoint(1, 4, 0.1), KPoint(8, 2, 0.1)], [KPoint(1, 4, 0.1), KPoint(1, 4, 0.2)]],
)
def test_every_k_is_needed_at_every_load(incomplete: list[KPoint]) -> None:
    with pytest.raises(ValueError, match="one gain for every K at every load"):
        derive_schedule(incomplete)


@st.composite
def measured(draw: st.DrawFn) -> list[KPoint]:
    loads = draw(st.lists(st.integers(1, 80), min_size=1, max_size=4, unique=True))
    ks = draw(st.lists(st.integers(1, 8), min_size=1, max_size=4, unique=True))
    return [KPoint(load, k, draw(st.floats(-1, 1))) for load in loads for k in ks]


def value(schedule: Schedule, gains: dict[tuple[int, int], float], loads: list[int]) -> float:
    """What a schedule is worth, computed the long way."""
    total = 0.0
    for first, last, k in schedule:
        for size in range(first, last + 1):
            inside = min(max(size, loads[0]), loads[-1])
            at = next(place for place, load in enumerate(loads) if load >= inside)
            low, high = loads[max(at - 1, 0)], loads[at]
            share = 1.0 if low == high else math.log(inside / low) / math.log(high / low)
            one = gains.get((low, k), 0.0) * (1 - share) + gains.get((high, k), 0.0) * share
            total += one * math.log((size + 0.5) / (size - 0.5))
    return total


@settings(deadline=None)
@given(measured())
def test_a_schedule_covers_every_batch_size_and_never_rises(given_points: list[KPoint]) -> None:
    schedule = derive_schedule(given_points)
    assert schedule[0][0] == 1
    assert schedule[-1][1] == max(point.concurrency for point in given_points)
    assert all(first <= last for first, last, _ in schedule)
    assert all(after[0] == before[1] + 1 and after[2] < before[2] for before, after in pairwise(schedule))
    assert {k for _, _, k in schedule} <= {0, *(point.k for point in given_points)}


@settings(deadline=None)
@given(measured(), st.data())
def test_no_other_falling_schedule_is_worth_more(given_points: list[KPoint], data: st.DataObject) -> None:
    schedule = derive_schedule(given_points)
    gains = {(point.concurrency, point.k): point.gain for point in given_points}
    loads = sorted({point.concurrency for point in given_points})
    cut = data.draw(st.integers(0, loads[-1]))
    high, low = sorted(data.draw(st.tuples(*[st.sampled_from([0, *{point.k for point in given_points}])] * 2)))[::-1]
    other = ((1, cut, high), (cut + 1, loads[-1], low))
    assert value(schedule, gains, loads) >= value(other, gains, loads) - 1e-9


def test_a_config_with_a_schedule_is_one_that_vllm_takes_and_drafts_no_more_than_it_needs() -> None:
    given_config = {"method": "ngram", "num-speculative-tokens": 6, "prompt_lookup_max": 4, "prompt_lookup_min": 2}
    config = with_schedule(given_config, ((1, 4, 4), (5, 32, 0)))
    assert config == {
        "method": "ngram",
        "num_speculative_tokens": 4,
        "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
        "num_speculative_tokens_per_batch_size": [[1, 4, 4], [5, 32, 0]],
    }
    newest = exactly("0.32.0")
    assert newest is not None
    assert [problem.what for problem in speculative_problems(config, newest)] == []


def test_made_up_acceptance_is_cut_to_k_positions() -> None:
    config = {"rejection_sample_method": "synthetic", "synthetic_acceptance_rates": [0.8, 0.6, 0.4]}
    assert with_k(config, 2)["synthetic_acceptance_rates"] == [0.8, 0.6]
