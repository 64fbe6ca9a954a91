"""From measured Ks to predictions: what was measured is reproduced, the truth lies in the intervals, and the recommendation follows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.k_advice import advise, extended
from pytest_specdec.core.k_measured import MeasuredK, from_arrays, measured_k
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats

CONDITIONAL = st.lists(st.floats(0.05, 0.99), min_size=1, max_size=6)


def joint_of(conditional: list[float]) -> Floats:
    return np.cumprod(np.array([conditional]), axis=1).astype(np.float64)


def exact(
    k: int, conditional: list[float], *, cost: tuple[float, float] = (1.0, 0.1), coverage: float = 1.0
) -> MeasuredK:
    """A measurement without noise: ``cost`` are the step ratio at K = 0 and what each drafted token adds."""
    joint = extended(joint_of(conditional), k)[0]
    ratio = (cost[0] + cost[1] * k) / (1 + coverage * joint.sum())
    draws = np.full(50, np.log(ratio))
    return MeasuredK(k, float(np.log(ratio)), tuple(joint), coverage, draws, np.tile(joint, (50, 1)))


@settings(deadline=None)
@given(CONDITIONAL, st.floats(0, 0.5), st.floats(0.1, 1))
def test_without_noise_every_k_within_the_longest_draft_is_predicted_exactly(
    conditional: list[float], cost: float, coverage: float
) -> None:
    longest = len(conditional) + 2
    known = [exact(k, conditional, cost=(1.0, cost), coverage=coverage) for k in (1, longest)]
    for row in advise(known, range(1, longest + 1), 0.95).predicted:
        truth = 1 - np.exp(exact(row.k, conditional, cost=(1.0, cost), coverage=coverage).log_ratio)
        assert row.gain == pytest.approx(truth, abs=1e-9)
        assert not row.extrapolated


@settings(deadline=None)
@given(CONDITIONAL, CONDITIONAL, st.floats(-0.5, 0.5), st.floats(-0.5, 0.5))
def test_a_measured_k_is_reproduced_whatever_the_other_one_says(
    first: list[float], second: list[float], ratio: float, other: float
) -> None:
    draws = np.zeros(20)
    known = [
        MeasuredK(1, ratio, (first[0],), 1.0, ratio + draws, np.full((20, 1), first[0])),
        MeasuredK(3, other, tuple(extended(joint_of(second), 3)[0]), 1.0, other + draws, np.zeros((20, 3))),
    ]
    advice = advise(known, [2], 0.95)
    assert advice.of(1).gain == pytest.approx(1 - np.exp(ratio))
    assert advice.of(3).gain == pytest.approx(1 - np.exp(other))


@settings(deadline=None)
@given(CONDITIONAL, st.floats(0.0, 0.3), st.integers(2, 8))
def test_better_acceptance_predicts_more_gain_at_the_same_step_cost(
    conditional: list[float], better: float, k: int
) -> None:
    raised = [min(1.0, share + better) for share in conditional]
    assert exact(k, raised).log_ratio <= exact(k, conditional).log_ratio + 1e-12
    worse, improved = (advise([exact(1, one), exact(3, one)], [k], 0.95).of(k) for one in (conditional, raised))
    assert improved.gain >= worse.gain - 1e-9
    assert improved.acceptance_length >= worse.acceptance_length - 1e-9


@settings(deadline=None)
@given(st.integers(1, 6), st.integers(1, 12), st.data())
def test_positions_beyond_the_longest_draft_keep_the_last_conditional(
    positions: int, k: int, data: st.DataObject
) -> None:
    conditional = data.draw(st.lists(st.floats(0.1, 1), min_size=positions, max_size=positions))
    joint = extended(joint_of(conditional), k)[0]
    wanted = np.cumprod([*conditional, *([conditional[-1]] * 12)])[:k]
    assert joint == pytest.approx(wanted)


def test_a_step_is_not_taken_to_be_cheaper_with_more_drafts_where_noise_says_so() -> None:
    # As it came about on a machine that was disturbed while K = 1 was measured: K = 5 was said to gain 100 %.
    disturbed, longer = exact(1, [0.74], cost=(3.24, 0.0)), exact(3, [0.74, 0.74, 0.73], cost=(1.57, 0.0))
    advice = advise([disturbed, longer], range(1, 9), 0.95)
    for row in advice.predicted:
        if not row.measured:
            assert row.step_ratio == pytest.approx((3.24 + 1.57) / 2)
            assert row.low == pytest.approx(row.high) == pytest.approx(row.gain)
            assert row.gain == pytest.approx(1 - row.step_ratio / row.acceptance_length)


def test_predictions_beyond_the_longest_draft_are_marked() -> None:
    advice = advise([exact(1, [0.8, 0.6]), exact(3, [0.8, 0.6])], range(1, 6), 0.95)
    assert [row.extrapolated for row in advice.predicted] == [False, False, False, True, True]
    assert [row.measured for row in advice.predicted] == [True, False, True, False, False]


def test_one_k_tells_nothing_about_another() -> None:
    with pytest.raises(CannotMeasure, match="two are needed"):
        advise([exact(3, [0.8])], [1, 2], 0.95)


def test_the_best_k_is_recommended_where_nothing_is_noisy() -> None:
    advice = advise([exact(1, [0.8, 0.5, 0.2]), exact(4, [0.8, 0.5, 0.2, 0.1])], range(1, 9), 0.95)
    truth = {k: float(np.exp(exact(k, [0.8, 0.5, 0.2, 0.1]).log_ratio)) for k in range(1, 9)}
    assert advice.recommended == advice.best == min(truth, key=truth.__getitem__)
    assert advice.pays


def noisy(*log_ratios: tuple[int, float]) -> list[MeasuredK]:
    """Ks whose gains cannot be told apart, whatever they are: noise that grows with K."""
    return [
        MeasuredK(k, ratio, (0.5,) * k, 1.0, ratio + k * np.linspace(-1, 1, 50), np.full((50, k), 0.5))
        for k, ratio in log_ratios
    ]


def test_within_noise_a_smaller_k_is_recommended_where_it_gives_little_away() -> None:
    almost = advise(noisy((1, -0.67), (4, -0.70)), [1, 4], 0.95)  # 48.8 and 50.3 %
    assert (almost.best, almost.recommended) == (4, 1)
    much = advise(noisy((1, -0.60), (4, -0.70)), [1, 4], 0.95)  # 45.1 and 50.3 %
    assert (much.best, much.recommended) == (4, 4)


def test_where_every_k_loses_none_is_recommended() -> None:
    advice = advise([exact(k, [0.1], cost=(1.2, 0.2)) for k in (1, 3)], range(1, 5), 0.95)
    assert advice.recommended is None
    assert not advice.pays


TRUTH_C = (0.8, 0.65, 0.55, 0.5, 0.5)
TRUTH_COST = (1.05, 0.09)


def true_gain(k: int) -> float:
    joint = np.cumprod(TRUTH_C[:k])
    return float(1 - (TRUTH_COST[0] + TRUTH_COST[1] * k) / (1 + joint.sum()))


def world(rng: np.random.Generator, *, noise: float = 0.02, prompts: int = 24, rounds: int = 4) -> list[MeasuredK]:
    """Ks 1 and 5 measured on the same prompts, which differ in how well they can be drafted; rounds differ in speed."""
    mood = 0.8 * rng.standard_normal(prompts)
    known = []
    for k in (1, 5):
        shares = 1 / (1 + np.exp(-(np.log(np.array(TRUTH_C[:k]) / (1 - np.array(TRUTH_C[:k])))[:, None] + mood)))
        steps = np.full(prompts, 40)
        reached, left = [], steps
        for share in shares:
            left = rng.binomial(left, share)
            reached.append(left.astype(np.float64))
        accepted = np.sum(reached, axis=0)
        ratio = (TRUTH_COST[0] + TRUTH_COST[1] * k) / (1 + accepted / steps)
        drift = noise * rng.standard_normal((rounds, 1))
        log_ratio = np.log(ratio) + drift + 0.02 * rng.standard_normal((rounds, prompts))
        known.append(
            from_arrays(
                log_ratio=log_ratio,
                pairs=np.ones_like(log_ratio),
                joint=[float(one.sum() / steps.sum()) for one in reached],
                coverage=1.0,
                drafts=steps.astype(np.float64),
                reached=reached,
            )
        )
    return known


def population_gain(k: int) -> float:
    """The geometric mean over very many prompts of :func:`world`, which is what a paired gain estimates."""
    rng = np.random.default_rng(11)
    mood = 0.8 * rng.standard_normal(20_000)
    logits = np.log(np.array(TRUTH_C[:k]) / (1 - np.array(TRUTH_C[:k])))
    shares = 1 / (1 + np.exp(-(logits[:, None] + mood)))
    steps, accepted = np.full(len(mood), 40), np.zeros(len(mood))
    left = steps
    for share in shares:
        left = rng.binomial(left, share)
        accepted = accepted + left
    ratio = (TRUTH_COST[0] + TRUTH_COST[1] * k) / (1 + accepted / steps)
    return float(1 - np.exp(np.log(ratio).mean()))


def test_intervals_of_predictions_hold_the_truth_in_a_simulated_world() -> None:
    worlds = 150
    truth = {k: population_gain(k) for k in range(1, 6)}
    held = dict.fromkeys(truth, 0)
    for seed in range(worlds):
        advice = advise(world(np.random.default_rng(seed)), range(1, 6), 0.95)
        for k, gain in truth.items():
            held[k] += advice.of(k).low <= gain <= advice.of(k).high
    shares = {k: count / worlds for k, count in held.items()}
    assert min(shares.values()) >= 0.9, shares


@settings(deadline=None, max_examples=10)
@given(st.integers(0, 1000))
def test_a_comparison_gives_its_own_gain_and_acceptance(seed: int) -> None:
    from pytest_specdec.core.judge import estimate

    comparison = build_comparison(k=3, noise=0.02, round_drift=0.01, seed=seed)
    known = measured_k(comparison)
    assert 1 - np.exp(known.log_ratio) == pytest.approx(estimate(comparison, "tpot_gain").value)
    assert known.acceptance_length == pytest.approx(estimate(comparison, "min_acceptance_length").value)
    assert known.joint_draws.mean(axis=0) == pytest.approx(known.joint, abs=0.02)


def test_a_single_round_is_refused() -> None:
    with pytest.raises(CannotMeasure, match="single round"):
        measured_k(build_comparison(rounds=1))


def test_a_k_that_another_was_measured_to_beat_is_not_recommended() -> None:
    known = noisy((1, -0.69), (4, -0.70))
    assert advise(known, [1, 4], 0.95).recommended == 1
    assert advise(known, [1, 4], 0.95, beaten=[1]).recommended == 4
    assert advise(known, [1, 4], 0.95, beaten=[4]).recommended == 1
    assert advise(known, [1, 4], 0.95, beaten=[1, 4]).recommended == 1
