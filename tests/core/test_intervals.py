"""Intervals against textbook values, and what they must never do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.intervals import (
    Interval,
    effective_size,
    ratio_of_sums,
    ratio_over_prompts,
    t_over,
    t_quantile,
    widest,
    wilson,
    wilson_needs,
)
from pytest_specdec.core.quantiles import order_statistic_ranks, quantile_needs, quantile_of, ranked_interval

FLOATS = st.floats(0.1, 10.0)


def binomial_cdf(k: int, n: int, p: float) -> float:
    return sum(math.comb(n, i) * p**i * (1 - p) ** (n - i) for i in range(k + 1))


def test_t_quantiles_are_those_of_the_tables() -> None:
    assert t_quantile(0.95, 3) == pytest.approx(3.182, abs=1e-3)


def test_t_interval_of_four_rounds() -> None:
    interval = t_over(np.array([1.0, 2.0, 3.0, 4.0]), 2.5, 0.95, of="rounds", limited_by="rounds")
    assert interval is not None
    # The standard error is 1.2910 / 2.
    assert interval.low == pytest.approx(2.5 - 2.0542, abs=1e-3)
    assert interval.high == pytest.approx(2.5 + 2.0542, abs=1e-3)


def test_a_single_value_has_no_t_interval() -> None:
    assert t_over(np.array([1.0]), 1.0, 0.95, of="rounds", limited_by="rounds") is None


def test_wilson_is_the_textbook_one() -> None:
    interval = wilson(0.9, 10, 0.95, of="requests")
    assert interval.low == pytest.approx(0.5958, abs=1e-4)
    assert interval.high == pytest.approx(0.9821, abs=1e-4)


def test_wilson_of_a_faultless_sample_is_not_certain() -> None:
    interval = wilson(1.0, 64, 0.95, of="requests")
    assert interval.low == pytest.approx(0.9434, abs=1e-4)


def test_as_many_faultless_requests_as_needed_prove_a_share() -> None:
    needed = wilson_needs(0.99, 0.95)
    below = wilson(1.0, needed - 1, 0.95, of="requests").low
    enough = wilson(1.0, needed, 0.95, of="requests").low
    assert below is not None
    assert enough is not None
    assert below < 0.99 <= enough


@pytest.mark.parametrize(("n", "quantile"), [(64, 0.5), (64, 0.95), (100, 0.95), (600, 0.99), (20, 0.9)])
def test_order_statistics_cover_the_quantile_by_the_binomial_distribution(n: int, quantile: float) -> None:
    lower, upper = order_statistic_ranks(n, quantile, 0.95)
    assert lower is not None
    assert binomial_cdf(lower - 1, n, quantile) <= 0.025 < binomial_cdf(lower, n, quantile)
    if upper is None:
        assert 1 - binomial_cdf(n - 1, n, quantile) > 0.025
    else:
        assert 1 - binomial_cdf(upper - 1, n, quantile) <= 0.025 < 1 - binomial_cdf(upper - 2, n, quantile)


def test_a_95th_percentile_is_bounded_from_72_values_on() -> None:
    assert quantile_needs(0.95, 0.95) == 72
    assert order_statistic_ranks(71, 0.95, 0.95)[1] is None
    assert order_statistic_ranks(72, 0.95, 0.95)[1] == 72


def test_repeated_values_do_not_narrow_a_percentile() -> None:
    once = np.arange(100, dtype=np.float64)
    repeated = np.repeat(once, 4)
    assert ranked_interval(repeated, 100, 0.9, 0.95) == ranked_interval(once, 100, 0.9, 0.95)


@settings(deadline=None)
@given(st.lists(FLOATS, min_size=1, max_size=40), st.floats(0, 1))
def test_quantiles_are_numpys(values: list[float], quantile: float) -> None:
    ascending = np.sort(values)
    assert quantile_of(ascending, quantile) == pytest.approx(float(np.quantile(ascending, quantile)))


def worth(hits: object, prompts: int, rounds: int) -> int:
    """Effective size of ``rounds`` rounds with the same prompts in each."""
    grid = np.asarray(hits, dtype=np.float64).reshape(rounds, prompts)
    return effective_size(grid, np.ones_like(grid), 0.95)


def test_requests_that_repeat_each_other_count_once() -> None:
    assert worth(np.tile(np.arange(50) < 10, 4), prompts=50, rounds=4) <= 50


def test_independent_requests_count_almost_fully() -> None:
    assert worth(np.random.default_rng(0).random(2000) < 0.2, prompts=500, rounds=4) > 1500


def test_requests_of_a_bad_round_are_worth_less() -> None:
    hits = np.random.default_rng(0).random((4, 500)) < np.array([0.1, 0.1, 0.1, 0.5])[:, None]
    assert worth(hits.ravel(), prompts=500, rounds=4) < 1500


def test_one_prompt_is_one_however_often_it_is_sent() -> None:
    assert worth([True, False, True], prompts=1, rounds=3) == 1


def test_without_a_miss_only_prompts_count() -> None:
    assert worth(np.ones(12), prompts=3, rounds=4) == 3


def test_a_ratio_of_sums_weighs_cells_by_size() -> None:
    value, _ = ratio_of_sums(np.array([[1.0, 6.0]]), np.array([[1.0, 2.0]]), 0.95)
    assert value == pytest.approx(7 / 3)


def test_rounds_that_differ_widen_the_interval_by_t() -> None:
    # All prompts move together, so prompts tell nothing about the noise and only two rounds do.
    numerator = np.array([[1.0] * 20, [2.0] * 20])
    _, interval = ratio_of_sums(numerator, np.ones_like(numerator), 0.95)
    assert interval.basis == "t over 2 rounds"
    assert interval.high == pytest.approx(1.5 + 12.706 * 0.5, abs=1e-2)


def test_prompts_that_differ_widen_the_interval_although_rounds_agree() -> None:
    numerator = np.tile(np.linspace(0, 1, 64), (4, 1))
    _, interval = ratio_of_sums(numerator, np.ones_like(numerator), 0.95)
    assert interval.limited_by == "requests"
    assert interval.width > 0.1


def test_one_round_is_labelled() -> None:
    numerator = np.random.default_rng(1).random((1, 200))
    _, interval = ratio_of_sums(numerator, np.ones_like(numerator), 0.95)
    assert "prompts" in interval.basis
    assert interval.limited_by == "requests"


def test_a_single_cell_is_unbounded() -> None:
    _, interval = ratio_of_sums(np.array([[2.0]]), np.array([[1.0]]), 0.95)
    assert (interval.low, interval.high) == (None, None)


def test_missing_cells_do_not_count() -> None:
    numerator = np.array([[1.0, 0.0, 3.0], [1.0, 2.0, 0.0]])
    value, interval = ratio_of_sums(numerator, (numerator > 0).astype(float), 0.95)
    assert value == pytest.approx(7 / 4)
    assert interval.low is not None


@settings(max_examples=25, deadline=None)
@given(st.lists(st.lists(FLOATS, min_size=5, max_size=5), min_size=2, max_size=6))
def test_the_same_numbers_give_the_same_interval_and_it_holds_the_value(rows: list[list[float]]) -> None:
    numerator = np.array(rows)
    first = ratio_of_sums(numerator, np.ones_like(numerator), 0.95)
    assert ratio_of_sums(numerator.copy(), np.ones_like(numerator), 0.95) == first
    value, interval = first
    assert interval.low is not None
    assert interval.high is not None
    assert interval.low - 1e-9 <= value <= interval.high + 1e-9


@settings(max_examples=25, deadline=None)
@given(st.lists(FLOATS, min_size=3, max_size=30), st.sampled_from([0.8, 0.9, 0.95]))
def test_a_higher_level_never_gives_a_narrower_interval(values: list[float], level: float) -> None:
    numerator = np.array(values)
    narrow = ratio_over_prompts(numerator, np.ones_like(numerator), level)[1]
    wide = ratio_over_prompts(numerator, np.ones_like(numerator), 0.99)[1]
    assert narrow.width <= wide.width


def test_the_widest_is_the_one_without_a_bound() -> None:
    open_ended = Interval(0.0, None, "open")
    assert widest(Interval(0.0, 9.0, "closed"), open_ended, None) is open_ended


def test_clipping_keeps_an_open_side_open() -> None:
    assert Interval(-1.0, None, "x").clipped(0.0, 1.0) == Interval(0.0, None, "x")
