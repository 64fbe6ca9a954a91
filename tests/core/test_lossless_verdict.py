"""When greedy outputs count as lossless: hard divergences, and mismatches against the noise floor."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.judge import estimate, judge
from pytest_specdec.core.lossless import lossless_verdict, paired_difference
from pytest_specdec.core.objectives import REGISTRY
from tests.core.comparison_builder import build_comparison
from tests.core.output_builder import outputs_of, pair

if TYPE_CHECKING:
    from pytest_specdec.core.outputs import Outputs


def outcome(outputs: Outputs) -> str:
    return lossless_verdict(outputs, 0.95, 0.5).outcome


def test_equal_answers_are_lossless() -> None:
    assert outcome(outputs_of()) == "ok"


def test_ties_as_often_as_the_baselines_own_are_lossless() -> None:
    assert outcome(outputs_of(load={1: 0.1, 2: 0.2, 3: 0.1}, alone={4: 0.1}, noise={7: 0.1, 8: 0.1, 2: 0.2})) == "ok"


def test_one_hard_divergence_that_repeats_is_a_miss_whatever_the_rates() -> None:
    verdict = lossless_verdict(outputs_of(prompts=500, load={1: 6.0}), 0.95, 0.5)
    assert (verdict.outcome, verdict.reason) == ("FAIL", "1 hard divergence repeats")


def test_ties_far_more_often_than_the_baselines_own_are_a_miss() -> None:
    verdict = lossless_verdict(outputs_of(load=dict.fromkeys(range(20), 0.1), noise={1: 0.1}), 0.95, 0.5)
    assert verdict.outcome == "FAIL"
    assert "more answers differ than noise explains, at concurrency 8" in verdict.reason


def test_what_differs_one_at_a_time_counts_as_much() -> None:
    verdict = lossless_verdict(outputs_of(alone=dict.fromkeys(range(20), 0.1)), 0.95, 0.5)
    assert verdict.outcome == "FAIL"
    assert "one at a time" in verdict.reason


def test_a_token_that_no_rounding_explains_leaves_it_open_even_when_seen_once() -> None:
    assert outcome(outputs_of(once={1: 6.0})) == "unsure"


def test_a_margin_just_beyond_a_tie_seen_once_is_counted_only() -> None:
    assert outcome(outputs_of(once={1: 0.7})) == "ok"


def test_many_that_were_seen_once_are_a_miss() -> None:
    assert outcome(outputs_of(rounds=2, once=dict.fromkeys(range(30), 6.0))) == "FAIL"


def test_few_prompts_prove_nothing() -> None:
    verdict = lossless_verdict(outputs_of(prompts=8), 0.95, 0.5)
    assert verdict.outcome == "unsure"
    assert verdict.needed_requests is not None
    assert verdict.needed_requests > 8


def test_differences_that_nobody_could_weigh_are_no_verdict() -> None:
    outputs = outputs_of(load={1: 0.1})
    blind = tuple(replace(one, gaps_nats=None, unscored="HTTP 400") for one in outputs.pairs)
    with pytest.raises(CannotMeasure, match="HTTP 400"):
        lossless_verdict(replace(outputs, pairs=blind), 0.95, 0.5)


def test_a_stated_tie_margin_replaces_the_derived_one() -> None:
    comparison = replace(build_comparison(rounds=2), outputs=outputs_of(load={1: 0.8}))
    strict = judge(comparison, REGISTRY["lossless"].parse(value=True))
    lenient = judge(comparison, REGISTRY["lossless"].parse({"tie_margin": 1.0}))
    assert (strict[0].outcome, lenient[0].outcome) == ("FAIL", "ok")


@pytest.mark.parametrize(("equal", "expected"), [(64, "ok"), (32, "FAIL"), (58, "unsure")])
def test_the_match_rate_is_held_against_its_threshold(equal: int, expected: str) -> None:
    outputs = outputs_of(load=dict.fromkeys(range(64 - equal), 0.1), noise={1: 0.1})
    comparison = replace(build_comparison(rounds=2), outputs=outputs)
    (verdict,) = judge(comparison, REGISTRY["min_output_match"].parse(0.9))
    assert verdict.outcome == expected
    assert verdict.estimate.value == equal / 64
    assert "63 of 64" in verdict.estimate.remark


def test_rounds_that_repeat_each_other_do_not_narrow_the_match_rate() -> None:
    def width(rounds: int) -> float:
        outputs = outputs_of(prompts=32, rounds=rounds, load={1: 0.1, 2: 0.1, 3: 0.1})
        found = estimate(replace(build_comparison(rounds=2), outputs=outputs), "min_output_match", 0.9)
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(8) == pytest.approx(width(2), rel=0.02)


def test_outputs_that_were_not_compared_are_no_verdict() -> None:
    with pytest.raises(CannotMeasure, match="not compared"):
        judge(build_comparison(), REGISTRY["lossless"].parse(value=True))


@pytest.mark.parametrize("name", ["synthetic", "fly"])
def test_verification_that_is_not_the_real_one_is_no_verdict(name: str) -> None:
    comparison = replace(build_comparison(rounds=2), outputs=outputs_of(), extra={"verification": name})
    with pytest.raises(CannotMeasure, match=name):
        judge(comparison, REGISTRY["lossless"].parse(value=True))


def test_newcombes_example_is_reproduced() -> None:
    """Newcombe (1998), table II: 36, 12, 2 and 0 pairs; method 10 gives 0.0569 to 0.3404."""
    one = [1.0] * 36 + [1.0] * 12 + [0.0] * 2
    other = [1.0] * 36 + [0.0] * 12 + [1.0] * 2
    low, high = paired_difference(one, other, 0.95)
    assert (low, high) == pytest.approx((0.0569, 0.3404), abs=0.002)


def test_hardly_any_run_without_corruption_is_called_a_miss() -> None:
    rng = np.random.default_rng(1)
    found = []
    for _ in range(400):
        instable = np.flatnonzero(rng.random(64) < 0.3)

        def drawn(instable: np.ndarray = instable) -> dict[int, float]:
            return {int(p): float(rng.exponential(0.05)) for p in instable if rng.random() < 0.5}

        found.append(outcome(outputs_of(load=drawn(), alone=drawn(), noise=drawn())))
    assert found.count("FAIL") <= 8
    assert found.count("ok") + found.count("FAIL") == 400


def test_the_paired_interval_never_loses_the_difference() -> None:
    rng = np.random.default_rng(2)
    for _ in range(200):
        one, other = ((rng.random(30) < 0.2).astype(float).tolist() for _ in range(2))
        low, high = paired_difference(one, other, 0.95)
        assert low <= np.mean(one) - np.mean(other) <= high


def test_a_pair_is_not_hard_without_a_margin() -> None:
    assert not replace(pair(1, margin=1.0), gaps_nats=None).is_hard(0.5)
