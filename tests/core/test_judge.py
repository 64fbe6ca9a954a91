"""Verdicts: what decides, what never passes, what settles an unsure one."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core import gains
from pytest_specdec.core.advice import shown
from pytest_specdec.core.errors import CannotMeasure, RequestsFailed
from pytest_specdec.core.judge import decided, judge, level_for, outcome_of, planned_looks
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Estimate, Requirement, Verdict
from tests.core.comparison_builder import build_comparison, change_samples, scaled_in_time

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison

ORDER = {"ok": 0, "unsure": 1, "FAIL": 2}
NOISY = build_comparison(noise=0.1, prompt_spread=0.1, round_drift=0.02, requests=12)


def verdicts(comparison: Comparison, **slo: object) -> tuple[Verdict, ...]:
    requirements = [one for name, value in slo.items() for one in REGISTRY[name].parse(value)]
    return judge(comparison, requirements)


def verdict(comparison: Comparison, **slo: object) -> Verdict:
    (only,) = verdicts(comparison, **slo)
    return only


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (0.31, 0.35, "ok"),
        (0.30, 0.35, "ok"),
        (0.29, 0.35, "unsure"),
        (0.25, 0.30, "unsure"),
        (0.25, 0.29, "FAIL"),
        (None, 0.29, "FAIL"),
        (None, 0.35, "unsure"),
        (0.31, None, "ok"),
        (None, None, "unsure"),
    ],
)
def test_the_whole_interval_decides(low: float | None, high: float | None, outcome: str) -> None:
    assert outcome_of(Estimate(0.3, low, high, 0.95), 0.30, "higher") == outcome


@pytest.mark.parametrize(
    ("low", "high", "outcome"),
    [
        (15.0, 18.0, "ok"),
        (15.0, 18.1, "unsure"),
        (18.0, 19.0, "unsure"),
        (18.1, 19.0, "FAIL"),
        (15.0, None, "unsure"),
        (19.0, None, "FAIL"),
    ],
)
def test_limits_are_met_from_below(low: float, high: float | None, outcome: str) -> None:
    assert outcome_of(Estimate(17.0, low, high, 0.95), 18.0, "lower") == outcome


@pytest.mark.parametrize(("value", "outcome"), [(60.0, "ok"), (60.1, "FAIL")])
def test_a_fact_is_judged_by_its_value(value: float, outcome: str) -> None:
    assert outcome_of(Estimate(value), 60.0, "lower") == outcome


def test_a_clear_gain_is_ok_and_a_clear_miss_fails() -> None:
    outcomes = [one.outcome for one in verdicts(build_comparison(tpot_spec_ms=7, noise=0.01), tpot_gain=0.2)]
    assert outcomes == ["ok"]
    assert verdict(build_comparison(tpot_spec_ms=9, noise=0.01), tpot_gain=0.2).outcome == "FAIL"


def test_noise_makes_a_close_call_unsure() -> None:
    assert verdict(NOISY, tpot_gain=0.3).outcome == "unsure"


def test_every_objective_gets_its_own_verdict_in_order() -> None:
    judged = verdicts(
        build_comparison(requests=16), tpot_gain=0.2, min_acceptance_at={0: 0.2, 1: 0.1}, max_startup_s=10
    )
    assert [one.requirement.label for one in judged] == [
        "tpot_gain",
        "min_acceptance_at[0]",
        "min_acceptance_at[1]",
        "max_startup_s",
    ]
    assert [one.outcome for one in judged] == ["ok", "ok", "ok", "FAIL"]


@pytest.mark.parametrize(
    ("rounds", "max_rounds", "looks"),
    [
        (4, 12, (4, 6, 8, 12)),
        (2, 12, (2, 4, 6, 12)),
        (4, 4, (4,)),
        (6, 4, (6,)),
        (3, 9, (3, 6, 9)),
        (4, 20, (4, 6, 8, 12, 20)),
    ],
)
def test_looks_are_planned_from_the_rounds(rounds: int, max_rounds: int, looks: tuple[int, ...]) -> None:
    assert planned_looks(LoadSpec(rounds=rounds, max_rounds=max_rounds)) == looks


def test_looks_share_the_chance_of_error() -> None:
    assert level_for(0.95, 4) == pytest.approx(0.9875)
    assert verdict(NOISY, tpot_gain=0.2).estimate.level == pytest.approx(0.9875)


def test_more_looks_make_a_wider_interval() -> None:
    requirement = [Requirement("tpot_gain", 0.2)]
    one, ten = (judge(NOISY, requirement, looks=looks)[0].estimate for looks in (1, 10))
    assert one.low is not None
    assert ten.low is not None
    assert ten.low < one.low


@pytest.mark.parametrize(
    ("outcomes", "done"),
    [(("ok", "ok"), True), (("ok", "unsure"), False), (("FAIL", "unsure"), True), ((), True)],
)
def test_rounds_end_when_all_is_decided_or_something_failed(outcomes: tuple[str, ...], done: bool) -> None:  # noqa: FBT001 - a table
    judged = [
        Verdict(Requirement("tpot_gain", 0.3), Estimate(0.3), outcome, "higher", "fraction")  # type: ignore[arg-type] # from the table
        for outcome in outcomes
    ]
    assert decided(judged) is done


@pytest.mark.parametrize("bad", ["value", "low", "high"])
def test_nan_never_passes(bad: str, monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = {"value": 0.9, "low": 0.8, "high": 0.95} | {bad: math.nan}
    estimate = Estimate(numbers["value"], numbers["low"], numbers["high"], level=0.95)
    monkeypatch.setattr(gains, "time_gain", lambda *_: estimate)
    with pytest.raises(CannotMeasure, match="no number to judge"):
        verdict(NOISY, tpot_gain=0.3)


def test_an_invalid_comparison_is_not_judged() -> None:
    failed = change_samples(
        NOISY, lambda one: replace(one, error="HTTP 500: out of memory") if one.index == 1 else one, arm="specdec"
    )
    with pytest.raises(RequestsFailed, match="out of memory"):
        verdict(failed, tpot_gain=-0.5)


def test_an_objective_that_the_load_cannot_measure_is_an_error() -> None:
    with pytest.raises(CannotMeasure, match="ignore_eos"):
        verdict(NOISY, e2el_gain=0.1)


def test_one_round_decides_by_its_prompts() -> None:
    comparison = build_comparison(rounds=1, requests=64, noise=0.05)
    judged = verdict(comparison, tpot_gain=0.1)
    assert judged.outcome == "ok"
    assert "prompts" in judged.estimate.basis


def test_one_request_decides_nothing() -> None:
    comparison = build_comparison(rounds=1, requests=1)
    assert verdict(comparison, tpot_gain=0.1).outcome == "unsure"


def test_unsure_says_what_is_provable_and_how_many_rounds_would_settle_it() -> None:
    comparison = build_comparison(noise=0.005, round_drift=0.05, rounds=4, requests=16)
    judged = verdict(comparison, tpot_gain=0.27)
    assert judged.outcome == "unsure"
    assert "provable now: tpot_gain >= " in judged.advice
    assert "rounds would settle it (4 run, max_rounds 12)" in judged.advice


@pytest.mark.parametrize("seed", range(8))
def test_what_is_called_provable_is_ok(seed: int) -> None:
    comparison = build_comparison(noise=0.1, prompt_spread=0.1, requests=12, seed=seed)
    judged = verdict(comparison, tpot_gain=0.4)
    provable = float(judged.advice.partition(">= ")[2].partition(" %")[0]) / 100
    assert verdict(comparison, tpot_gain=provable).outcome == "ok"


def test_unsure_for_want_of_prompts_says_that_rounds_do_not_help() -> None:
    comparison = build_comparison(prompt_spread=0.2, rounds=4, requests=16)
    judged = verdict(comparison, tpot_gain=0.27)
    assert "more rounds do not help; about " in judged.advice


def test_a_percentile_of_too_few_requests_asks_for_more() -> None:
    judged = verdict(build_comparison(requests=16, noise=0.05), ttft_p99_ms=100)
    assert judged.outcome == "unsure"
    assert "different requests a round (num_requests; 16 now)" in judged.advice


def test_a_miss_says_what_is_provable() -> None:
    assert "provable now: tpot_gain >= " in verdict(NOISY, tpot_gain=0.6).advice


def test_ok_needs_no_advice() -> None:
    assert verdict(NOISY, tpot_gain=0.1).advice == ""


def test_numbers_are_rounded_to_what_can_be_promised() -> None:
    assert shown(0.2719, "fraction", towards="lower") == "27.1 %"
    assert shown(246.01, "ms", towards="higher") == "246.1 ms"
    assert shown(0.3, "fraction", towards="lower") == "30.0 %"


@settings(max_examples=30, deadline=None)
@given(st.floats(-0.9, 0.9), st.floats(0.0, 0.5))
def test_a_stricter_threshold_never_gives_a_better_verdict(required: float, stricter: float) -> None:
    mild, strict = (verdict(NOISY, tpot_gain=min(one, 0.99)).outcome for one in (required, required + stricter))
    assert ORDER[mild] <= ORDER[strict]


@settings(max_examples=15, deadline=None)
@given(st.floats(1.0, 30.0), st.floats(0.0, 10.0))
def test_a_stricter_limit_never_gives_a_better_verdict(limit: float, stricter: float) -> None:
    strict, mild = (verdict(NOISY, tpot_p50_ms=one).outcome for one in (limit, limit + stricter))
    assert ORDER[mild] <= ORDER[strict]


@settings(max_examples=10, deadline=None)
@given(seed=st.integers(0, 1000))
def test_the_same_comparison_is_judged_the_same_twice(seed: int) -> None:
    slo = {"tpot_gain": 0.3, "min_acceptance_length": 2.0, "ttft_p50_ms": 50, "throughput_gain": 0.2}
    first, again = (
        verdicts(build_comparison(seed=seed, noise=0.1, prompt_spread=0.1, requests=8, rounds=3), **slo)
        for _ in range(2)
    )
    assert first == again


@settings(max_examples=10, deadline=None)
@given(factor=st.floats(0.2, 10.0))
def test_gains_do_not_depend_on_how_fast_the_machine_is(factor: float) -> None:
    slo = {"tpot_gain": 0.25, "ttft_gain": -0.2, "throughput_gain": 0.1}
    here = verdicts(NOISY, **slo)
    there = verdicts(scaled_in_time(NOISY, factor), **slo)
    assert [one.outcome for one in there] == [one.outcome for one in here]
    assert [one.estimate.value for one in there] == pytest.approx([one.estimate.value for one in here])
