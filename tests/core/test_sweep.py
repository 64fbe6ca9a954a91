"""Loads of a sweep, and the load at which a gain is gone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import CannotMeasure, MarkError
from pytest_specdec.core.load_spec import load_problems
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.sweep import Crossover, check_requirement, crossover, loads_of
from pytest_specdec.core.verdict import Estimate, Requirement

LOADS = (1.0, 8.0, 32.0)


def gain(value: float, half: float = 0.02) -> Estimate:
    return Estimate(value, value - half, value + half, level=0.95)


def found(*gains: float, half: float = 0.02) -> Crossover:
    return crossover(LOADS[: len(gains)], [gain(value, half) for value in gains])


# -- which loads


def test_one_load_is_no_sweep() -> None:
    (load,) = loads_of([{"concurrency": 4}])
    assert (load.concurrency, load.num_requests) == (4, 64)


def test_every_value_of_a_list_is_a_load_with_enough_requests_for_a_steady_window() -> None:
    loads = loads_of([{"workload": "code", "num_requests": 48}, {"concurrency": [1, 8, 32]}])
    assert [(load.concurrency, load.num_requests, load.workload) for load in loads] == [
        (1, 48, "code"),
        (8, 48, "code"),
        (32, 128, "code"),
    ]


def test_rates_get_as_many_requests_as_arrive_in_twenty_seconds() -> None:
    loads = loads_of([{"request_rate": (0.5, 5, 20)}])
    assert [(load.request_rate, load.concurrency, load.num_requests) for load in loads] == [
        (0.5, None, 64),
        (5, None, 100),
        (20, None, 400),
    ]


def test_a_load_of_a_sweep_equals_the_same_load_alone_so_that_tests_share_it() -> None:
    assert loads_of([{"concurrency": [2, 8]}])[1] == loads_of([{"concurrency": 8}])[0]


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        ([{"concurrency": [1, 8]}, {"concurrency": 4}], [(4, None)]),
        ([{"concurrency": [1, 8]}, {"request_rate": 2}], [(None, 2)]),
        ([{"concurrency": 4}, {"request_rate": [1, 2]}], [(None, 1), (None, 2)]),
        ([{"request_rate": 4}, {"concurrency": [1, 2]}, {"max_tokens": 9}], [(1, None), (2, None)]),
        ([{"concurrency": [1, 2]}, {"concurrency": [4, 8]}], [(4, None), (8, None)]),
    ],
)
def test_the_nearest_load_wins_be_it_a_list_or_not(
    layers: list[dict[str, object]], expected: list[tuple[object, object]]
) -> None:
    assert [(load.concurrency, load.request_rate) for load in loads_of(layers)] == expected


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"concurrency": [8]}, "two values or more that rise"),
        ({"concurrency": []}, "two values or more"),
        ({"concurrency": [8, 1]}, "rise"),
        ({"concurrency": [8, 8]}, "rise"),
        ({"concurrency": [1, 0]}, "in every place of the list a whole number of at least 1"),
        ({"concurrency": [1, True]}, "in every place"),
        ({"concurrency": [1, 2.5]}, "in every place"),
        ({"request_rate": [1, "2"]}, "in every place of the list requests per second, above 0"),
        ({"request_rate": [1, 2], "concurrency": [1, 2]}, "exclude each other"),
        ({"num_requests": [8, 16]}, "whole number"),
    ],
)
def test_a_list_that_is_no_sweep_is_refused(given: dict[str, object], words: str) -> None:
    (problem,) = load_problems(given)
    assert words in problem


# -- objectives that need one


def test_a_crossover_needs_several_loads() -> None:
    with pytest.raises(CannotMeasure, match="several loads, and this test has one: concurrency 8") as raised:
        check_requirement(Requirement("min_crossover_concurrency", 16), loads_of([{}]))
    assert "spec_load(concurrency=[1, 8, 32])" in str(raised.value)


def test_a_crossover_in_the_other_unit_is_refused_with_the_one_that_fits() -> None:
    with pytest.raises(CannotMeasure, match="sweeps request_rate") as raised:
        check_requirement(Requirement("min_crossover_concurrency", 4), loads_of([{"request_rate": [1, 5]}]))
    assert "Declare min_crossover_rate" in str(raised.value)


def test_a_crossover_beyond_the_highest_load_is_refused_with_the_list_to_extend() -> None:
    with pytest.raises(CannotMeasure, match="above the highest load") as raised:
        check_requirement(Requirement("min_crossover_concurrency", 64), loads_of([{"concurrency": [1, 8, 32]}]))
    assert "Add 64 to concurrency=[1, 8, 32]" in str(raised.value)


def test_other_objectives_are_checked_at_every_load() -> None:
    with pytest.raises(CannotMeasure, match="natural ends"):
        check_requirement(Requirement("e2el_gain", 0.1), loads_of([{"concurrency": [1, 8]}]))
    check_requirement(Requirement("throughput_gain", 0.1), loads_of([{"concurrency": [1, 64]}]))


def test_a_crossover_may_name_the_gain() -> None:
    one, two = REGISTRY["min_crossover_concurrency"].parse({"throughput_gain": 8, "tpot_gain": 16})
    assert (one.label, one.required) == ("min_crossover_concurrency[tpot_gain]", 16)
    assert (two.label, two.required) == ("min_crossover_concurrency[throughput_gain]", 8)


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ({}, "needs gains and loads"),
        ({"tpot": 8}, "did you mean 'tpot_gain'"),
        ({"ttft_gain": 8}, "unknown gain"),
        ({"tpot_gain": 0}, "above 0"),
        (-1, "above 0"),
    ],
)
def test_a_crossover_that_cannot_be_meant_is_refused(value: object, words: str) -> None:
    with pytest.raises(MarkError, match="min_crossover_concurrency") as raised:
        REGISTRY["min_crossover_concurrency"].parse(value)
    assert words in str(raised.value)


# -- where the gain is gone


def test_the_crossover_is_interpolated_over_the_logarithm_of_the_load() -> None:
    where = found(0.3, 0.1, -0.1)
    assert where.value == pytest.approx(16)  # half-way between 8 and 32
    assert (where.low, where.high, where.censored) == (8, 32, "")
    assert str(where) == "16 (8 .. 32)"


def test_a_gain_that_lasts_puts_the_crossover_above_the_highest_load() -> None:
    where = found(0.3, 0.2, 0.1)
    assert (where.low, where.high, where.censored) == (32, None, "above")
    assert str(where) == "above 32"


def test_a_gain_that_never_was_puts_it_below_the_lowest() -> None:
    where = found(-0.1, -0.2, -0.3)
    assert (where.low, where.high, where.censored) == (None, 1, "below")
    assert str(where) == "below 1"


def test_what_is_not_proven_bounds_nothing() -> None:
    where = found(0.3, 0.01, -0.01)
    assert (where.low, where.high) == (1, None)
    assert 8 < where.value < 32


def test_a_gain_lost_and_found_again_is_lost() -> None:
    where = found(-0.2, 0.3, 0.3)
    assert (where.low, where.high, where.censored) == (None, 1, "below")


gains = st.lists(
    st.tuples(st.floats(-0.9, 0.9), st.floats(0, 0.5), st.floats(0, 0.5)).map(
        lambda one: Estimate(one[0], one[0] - one[1], one[0] + one[2], level=0.95)
    ),
    min_size=1,
    max_size=7,
)


@settings(deadline=None)
@given(gains)
def test_the_value_never_lies_outside_its_bounds_nor_outside_what_was_measured(estimates: list[Estimate]) -> None:
    loads = [2.0**place for place in range(len(estimates))]
    where = crossover(loads, estimates)
    assert loads[0] <= where.value <= loads[-1]
    assert where.low is None or where.low <= where.value
    assert where.high is None or where.value <= where.high
    assert where.low is None or where.high is None or where.low < where.high


@settings(deadline=None)
@given(gains)
def test_a_crossover_is_censored_just_where_no_estimate_turns_negative_behind_a_positive_one(
    estimates: list[Estimate],
) -> None:
    falling = sorted(estimates, key=lambda one: -one.value)
    where = crossover([2.0**place for place in range(len(falling))], falling)
    assert (where.censored == "above") == (falling[-1].value > 0)
    assert (where.censored == "below") == (falling[0].value <= 0)


@settings(deadline=None)
@given(gains, st.floats(0.001, 0.3))
def test_a_larger_gain_everywhere_never_moves_the_crossover_down(estimates: list[Estimate], more: float) -> None:
    falling = sorted(estimates, key=lambda one: -one.value)
    raised = [Estimate(one.value + more, one.value, one.value + 2 * more, level=0.95) for one in falling]
    exact = [Estimate(one.value, one.value - more, one.value + more, level=0.95) for one in falling]
    loads = [2.0**place for place in range(len(falling))]
    before, after = crossover(loads, exact), crossover(loads, raised)
    rank = {"below": -math.inf, "": 0.0, "above": math.inf}
    assert (rank[after.censored], after.value) >= (rank[before.censored], before.value - 1e-9)
