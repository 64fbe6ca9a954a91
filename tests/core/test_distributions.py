"""Two-sample tests of sampled answers, and the verdict on them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from pytest_specdec.core.distribution_tests import compare_distributions, holm
from pytest_specdec.core.distributions import DistributionComparison, DistributionTest, SampledOutputs, TokenShift
from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.sampled_lossless import judge_distributions, sampled_verdict
from pytest_specdec.testing.token_choice import TokenChoice

if TYPE_CHECKING:
    from pytest_specdec.core.verdict import Outcome

P = (0.5, 0.2, 0.12, 0.08, 0.06, 0.04)


def drawn(
    seed: int, *, p: tuple[float, ...] = P, prompts: int = 4, samples: int = 128, tokens: int = 4
) -> dict[int, list[list[int]]]:
    rng = np.random.default_rng(seed)
    return {prompt: rng.choice(len(p), p=p, size=(samples, tokens)).tolist() for prompt in range(prompts)}


def test_by_name(comparison: DistributionComparison) -> dict[str, float]:
    return {test.name: test.p_value for test in comparison.tests}


test_by_name.__test__ = False  # type: ignore[attr-defined] # a lookup, not a test


def compared(
    first: dict[int, list[list[int]]], second: dict[int, list[list[int]]], tokens: int = 4
) -> DistributionComparison:
    return compare_distributions(first, second, tokens=tokens, alpha=0.025)


def test_equal_samples_show_nothing() -> None:
    comparison = compared(drawn(1), drawn(1))
    assert comparison.least.corrected == 1
    assert comparison.shift.value == 0


def test_another_distribution_of_one_token_is_found_at_its_position_only() -> None:
    first, second = drawn(1), drawn(2)
    for answers in first.values():
        for answer in answers[:40]:
            answer[2] = 5
    found = test_by_name(compared(first, second))
    assert found["token 2"] < 1e-9
    assert min(p for name, p in found.items() if name in ("token 0", "token 1", "token 3")) > 0.01


def test_another_order_of_the_same_tokens_is_found_by_sequences_and_strata_only() -> None:
    rng = np.random.default_rng(1)
    first: dict[int, list[list[int]]] = {}
    second: dict[int, list[list[int]]] = {}
    for prompt in range(4):
        beginnings = rng.integers(2, size=(2, 128))
        first[prompt] = [[int(one), int(one)] for one in beginnings[0]]  # the second token repeats the first
        second[prompt] = [
            [int(one), int(other)] for one, other in zip(beginnings[1], rng.integers(2, size=128), strict=True)
        ]
    found = test_by_name(compared(first, second, tokens=2))
    assert found["sequences"] == 0.001
    assert min(found["token 0"], found["token 1"]) > 0.01


def test_a_shift_of_the_most_likely_token_is_measured() -> None:
    biased = (0.65, *(p * 0.35 / 0.5 for p in P[1:]))
    comparison = compared(drawn(1, p=biased), drawn(2))
    assert comparison.shift.value == pytest.approx(0.15, abs=0.04)
    assert comparison.least.name == "most likely token"


def test_chi_squared_is_that_of_scipy() -> None:
    first, second = (drawn(seed, prompts=1, samples=500) for seed in (1, 2))
    table = [[sum(answer[0] == token for answer in arm[0]) for token in range(6)] for arm in (first, second)]
    expected = stats.chi2_contingency(table, correction=False).pvalue
    assert test_by_name(compared(first, second))["token 0"] == pytest.approx(expected)


def test_the_shift_of_one_position_is_that_of_mantel_and_haenszel() -> None:
    first, second = drawn(1, tokens=1, samples=100), drawn(2, tokens=1, samples=80)
    hits = [[sum(answer[0] == 0 for answer in arm[prompt]) for arm in (first, second)] for prompt in range(4)]
    difference = sum((a * 80 - b * 100) / 180 for a, b in hits) / (4 * 100 * 80 / 180)
    assert compared(first, second, tokens=1).shift.value == pytest.approx(difference)


def test_tokens_that_are_all_rare_are_no_evidence() -> None:
    first = {0: [[number] for number in range(50)]}
    second = {0: [[1000 + number] for number in range(50)]}
    assert test_by_name(compared(first, second, tokens=1))["token 0"] == 1


def test_an_answer_that_ended_is_another_one_than_its_beginning() -> None:
    first = {0: [[1, 2]] * 50}
    second = {0: [[1]] * 50}
    assert compared(first, second, tokens=2).least.corrected < 0.01


def test_arms_can_have_different_numbers_of_samples() -> None:
    comparison = compared(drawn(1, samples=60), drawn(2, samples=130))
    assert comparison.samples == (240, 520)
    assert comparison.least.corrected > 0.05


def test_prompts_that_only_one_side_has_are_left_out() -> None:
    assert compared(drawn(1, prompts=3), drawn(2, prompts=5)).prompts == 3


def test_nothing_to_compare_is_an_error() -> None:
    with pytest.raises(CannotMeasure, match="two sampled answers"):
        compared({0: [[1]]}, {0: [[1]]})


def test_the_same_samples_give_the_same_p_values() -> None:
    assert compared(drawn(1), drawn(2)) == compared(drawn(1), drawn(2))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_holm_is_between_the_p_value_and_bonferroni(p_values: list[float]) -> None:
    corrected = holm(p_values)
    for p, one in zip(p_values, corrected, strict=True):
        assert p <= one <= min(1.0, p * len(p_values)) or one == max(corrected)
    order = sorted(range(len(p_values)), key=p_values.__getitem__)
    assert [corrected[index] for index in order] == sorted(corrected)


def test_holm_is_as_in_its_paper() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])


@settings(max_examples=30, deadline=None)
@given(st.data())
def test_arms_can_be_exchanged(data: st.DataObject) -> None:
    answers = st.lists(st.lists(st.integers(0, 3), max_size=3), min_size=2, max_size=20)
    first, second = ({0: data.draw(answers)} for _ in range(2))
    one, other = compared(first, second, tokens=3), compared(second, first, tokens=3)
    assert one.shift.value == pytest.approx(-other.shift.value)
    for name in ("token 0", "token 1", "token 2", "most likely token"):
        assert test_by_name(one)[name] == pytest.approx(test_by_name(other)[name])


def result(p_value: float = 1.0, *, own: float = 1.0, detectable: float = 0.03) -> SampledOutputs:
    calm = DistributionComparison((DistributionTest("token 0", own, own),), TokenShift(0, 0.01, 0.05), 16, (1024, 1024))
    found = replace(
        calm,
        tests=(DistributionTest("token 1", p_value, p_value),),
        shift=TokenShift(0.04, 0.01, detectable),
        samples=(2048, 2048),
    )
    return SampledOutputs(found, calm, temperature=0.8, tokens=6, concurrency=8)


@pytest.mark.parametrize(
    ("sampled", "outcome", "reason"),
    [
        (result(), "ok", "no difference"),
        (result(0.02), "FAIL", "sampled tokens differ (token 1: p = 0.0200)"),
        (result(0.03), "ok", "most likely token +4.0 pp (a shift of 3.0 pp would show)"),
        (result(1e-9), "FAIL", "p < 0.0001"),
        (result(0.02, own=0.02), "unsure", "the baseline's samples differ from its own"),
        (result(own=0.02), "ok", "no difference"),
        (result(own=0.001), "unsure", "the baseline's samples differ from its own"),
        (result(detectable=0.1), "unsure", "2048 samples of 16 prompts show a bias of 10.0 pp at best, not of 5"),
    ],
)
def test_verdicts(sampled: SampledOutputs, outcome: Outcome, reason: str) -> None:
    verdict = sampled_verdict(sampled, 0.95)
    assert verdict.outcome == outcome
    assert reason in verdict.reason


def test_too_few_samples_say_how_many_it_takes() -> None:
    assert sampled_verdict(result(detectable=0.1), 0.95).needed_samples == 512


def test_halves_of_the_baseline_calibrate() -> None:
    base = drawn(2, samples=100)
    sampled = judge_distributions(drawn(1), base, tokens=4, confidence=0.95, temperature=0.8, concurrency=8)
    assert sampled.calibration.samples == (200, 200)


def stand_in(bias: float, draws: str) -> dict[int, list[list[int]]]:
    """What the stand-in server would answer."""
    return {
        prompt: [
            [TokenChoice(f"prompt {prompt}", f"{seed}|{draws}", 0.8, bias).token(position) for position in range(6)]
            for seed in range(128)
        ]
        for prompt in range(16)
    }


@pytest.mark.parametrize(("bias", "outcome"), [(0.0, "ok"), (0.05, "FAIL")])
def test_the_default_budget_sees_a_bias_of_five_points_and_nothing_without(bias: float, outcome: Outcome) -> None:
    sampled = judge_distributions(
        stand_in(bias, "specdec"), stand_in(0, ""), tokens=6, confidence=0.95, temperature=0.8, concurrency=8
    )
    assert sampled_verdict(sampled, 0.95).outcome == outcome
