"""Changes between two runs: right on data with a known answer, and wrong as seldom as they say."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specdec.core.two_runs import Sums, apart, difference, over_prompts, welch
from pytest_specdec.core.verdict import Estimate

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats


def run(rng: np.random.Generator, *, shift: float, rounds: int, prompts: Floats) -> Sums:
    """Logarithms: prompts have levels of their own, rounds drift, requests are noisy."""
    drift = 0.02 * rng.standard_normal((rounds, 1))
    noise = 0.05 * rng.standard_normal((rounds, len(prompts)))
    return Sums(shift + prompts + drift + noise, np.ones((rounds, len(prompts))))


def test_welch_is_the_textbook_interval() -> None:
    # scipy.stats.ttest_ind([1, 2, 3, 4], [2, 4, 6], equal_var=False).confidence_interval(0.95)
    found = welch(np.array([1.0, 2, 3, 4]), np.array([2.0, 4, 6]), -1.5, 0.95, of="rounds")
    assert found.low == pytest.approx(-5.54233, abs=1e-4)
    assert found.high == pytest.approx(2.54233, abs=1e-4)


def test_one_round_on_a_side_bounds_nothing() -> None:
    one, four = (Sums(np.zeros((rounds, 5)), np.ones((rounds, 5))) for rounds in (1, 4))
    assert difference(one, four, 0.95)[1].low is None
    assert difference(four, one, 0.95)[1].high is None


def test_equal_runs_differ_by_nothing() -> None:
    equal = Sums(np.tile([1.0, 2, 3], (4, 1)), np.ones((4, 3)))
    value, interval = difference(equal, equal, 0.95)
    assert (value, interval.low, interval.high) == (0.0, 0.0, 0.0)


def test_what_prompts_have_of_their_own_cancels() -> None:
    def width(prompts: Floats) -> float:
        now, before = (run(np.random.default_rng(seed), shift=0, rounds=6, prompts=prompts) for seed in (2, 3))
        return difference(now, before, 0.95)[1].width

    unlike = np.random.default_rng(1).standard_normal(40)
    assert width(unlike) == pytest.approx(width(np.zeros(40)), rel=1e-6)


@pytest.mark.parametrize("shift", [0.0, 0.05])
def test_interval_misses_the_truth_no_more_often_than_it_says(shift: float) -> None:
    rng = np.random.default_rng(7)
    missed = 0
    for _ in range(300):
        prompts = 0.3 * rng.standard_normal(24)
        now, before = (run(rng, shift=by, rounds=4, prompts=prompts) for by in (shift, 0.0))
        _, interval = difference(now, before, 0.95)
        assert interval.low is not None
        assert interval.high is not None
        missed += not interval.low <= shift <= interval.high
    assert missed <= 20  # 15 expected at 95 %; a t interval over pooled requests misses 102


def test_a_prompt_alone_tells_nothing() -> None:
    assert over_prompts(np.zeros(1), 0.0, 0.95) is None


def test_figures_that_cannot_be_matched_are_compared_by_both_intervals() -> None:
    value, interval = apart(Estimate(2.2, 2.0, 2.42, level=0.95), Estimate(2.0, 1.8, 2.2, level=0.95))
    assert value == pytest.approx(math.log(1.1))
    assert interval.low == pytest.approx(math.log(1.1) - math.hypot(math.log(1.1), math.log(1.1)))
    assert interval.high == pytest.approx(math.log(1.1) + math.hypot(math.log(1.1), math.log(2 / 1.8)))


def test_figures_without_a_bound_leave_the_change_open() -> None:
    _, interval = apart(Estimate(2.2, None, 2.4, level=0.95), Estimate(2.0, 1.8, 2.2, level=0.95))
    assert (interval.low, interval.high) == (None, None)
