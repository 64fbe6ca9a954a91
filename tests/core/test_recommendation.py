"""Enable, weigh, stop, make it dynamic: which figures lead to which advice, and that nothing unproven does."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.answer_form import AnswerForm
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.procedure import Thresholds
from pytest_specdec.core.recommendation import advice_on, in_flight, recommendations
from tests.core.comparison_builder import build_comparison, change_counters
from tests.core.output_builder import outputs_of

if TYPE_CHECKING:
    from pytest_specdec.core.recommendation import Recommendation
    from pytest_specdec.core.samples import Comparison

LOW, HIGH = LoadSpec(concurrency=1), LoadSpec(concurrency=8)


def at(load: LoadSpec, tpot_spec_ms: float, **changes: Any) -> Comparison:
    settings: dict[str, Any] = {"noise": 0.02, "round_drift": 0.01, "requests": 32} | changes
    return build_comparison(load=load, tpot_spec_ms=tpot_spec_ms, **settings)


def advice(*comparisons: Comparison, **thresholds: float) -> Recommendation:
    (found,) = recommendations(comparisons, Thresholds(**thresholds))
    return found


def test_a_large_gain_that_holds_at_high_load_is_enabled() -> None:
    found = advice(at(LOW, 5.0), at(HIGH, 8.0))
    assert found.action == "enable"
    assert found.missing == ""
    assert found.reason.startswith("TPOT gain 49.4 % (46.1 .. 52.5 %) at concurrency 1, throughput gain 20.")


def test_a_small_gain_is_weighed_against_the_measured_cost() -> None:
    found = advice(at(LOW, 8.5), at(HIGH, 8.5))
    assert found.action == "weigh"
    assert "less than 30.0 %, so weigh it against the cost of a second model: +15 s at start" in found.reason


def test_ngram_has_no_second_model_to_weigh() -> None:
    found = advice(at(LOW, 8.5, method="ngram"), at(HIGH, 8.5, method="ngram"))
    assert "there is no second model" in found.reason


def test_short_acceptance_stops_whatever_the_gain() -> None:
    found = advice(at(LOW, 5.0, acceptance=(0.2, 0.05, 0.01)), at(HIGH, 5.0, acceptance=(0.2, 0.05, 0.01)))
    assert found.action == "stop"
    assert "is below 1.50" in found.reason


def test_slower_even_at_low_load_stops() -> None:
    found = advice(at(LOW, 12.0), at(HIGH, 12.0))
    assert found.action == "stop"
    assert "slower than without speculation even there" in found.reason


@pytest.mark.parametrize(
    ("version", "remedy"),
    [
        ("0.26.0", "num_speculative_tokens_per_batch_size (vLLM >= 0.24), or limit the load"),
        ("0.23.1", "limit the load or lower K (from vLLM 0.24 on K can depend on the batch size)"),
        (None, "num_speculative_tokens_per_batch_size (vLLM >= 0.24), or limit the load"),
    ],
)
def test_throughput_that_drops_at_high_load_is_made_dynamic(version: str | None, remedy: str) -> None:
    low, high = (
        replace(one, servers=tuple(replace(server, version=version) for server in one.servers))
        for one in (at(LOW, 6.0), at(HIGH, 12.0))
    )
    found = advice(low, high)
    assert found.action == "make it dynamic"
    assert found.reason.endswith(remedy)


def test_what_is_dynamic_already_is_not_to_be_made_so() -> None:
    low, high = (
        replace(one, extra=one.extra | {"schedule": "[[1, 4, 3], [5, 8, 1]]"}) for one in (at(LOW, 6.0), at(HIGH, 12.0))
    )
    found = advice(low, high)
    assert found.action == "weigh"
    assert found.reason.endswith("already, so lower it for such batches, to 0 at the least, or limit the load")


def test_what_noise_leaves_open_is_unsure() -> None:
    found = advice(at(LOW, 7.0, noise=0.4, round_drift=0.2), at(HIGH, 7.0, noise=0.4, round_drift=0.2))
    assert found.action == "unsure"
    assert "is not proven to reach 30.0 %" in found.reason
    assert "more rounds or requests would tell" in found.reason


def test_throughput_that_is_not_proven_to_hold_is_not_enabled() -> None:
    found = advice(at(LOW, 5.0), at(HIGH, 10.0, noise=0.2, round_drift=0.2))
    assert found.action == "unsure"
    assert "throughput gain" in found.reason


def test_the_lowest_load_alone_never_enables() -> None:
    found = advice(at(LOW, 5.0))
    assert (found.action, found.missing) == ("unsure", "a high load")
    assert found.text.endswith("; missing: a high load")


def test_one_load_in_between_misses_both() -> None:
    assert advice(at(HIGH, 5.0)).missing == "a low and a high load"
    assert advice(at(HIGH, 8.5)).action == "weigh"


def test_slower_at_a_load_in_between_does_not_stop() -> None:
    found = advice(at(HIGH, 12.0))
    assert (found.action, found.missing) == ("unsure", "a low and a high load")


def test_thresholds_are_the_caller_s() -> None:
    assert advice(at(LOW, 8.0), at(HIGH, 8.0), tpot_gain=0.1).action == "enable"
    assert advice(at(LOW, 5.0), at(HIGH, 8.0), acceptance_length=3.5).action == "stop"
    assert advice(at(LOW, 5.0), at(HIGH, 8.0), throughput_gain=0.9).action == "make it dynamic"


def test_a_threshold_below_zero_enables_nothing_that_may_be_slower() -> None:
    noisy = {"noise": 0.4, "round_drift": 0.3}
    found = advice(at(LOW, 9.0, **noisy), at(HIGH, 5.0), tpot_gain=-0.9)
    assert found.action == "unsure"
    assert "is not proven to reach 0.0 %" in found.reason


def test_made_up_acceptance_advises_nothing() -> None:
    synthetic = [replace(one, extra={"verification": "synthetic"}) for one in (at(LOW, 5.0), at(HIGH, 5.0))]
    found = advice(*synthetic)
    assert found.action == "unsure"
    assert "verification is synthetic" in found.reason


def test_a_lookup_that_never_drafts_stops() -> None:
    silent = [
        change_counters(
            at(load, 10.0, method="ngram", coverage=0.0),
            drafts=0,
            draft_tokens=0,
            accepted_tokens=0,
            accepted_per_position=(0, 0, 0),
        )
        for load in (LOW, HIGH)
    ]
    found = advice(*silent)
    assert found.action == "stop"
    assert "no step drafted" in found.reason


def test_workloads_are_advised_on_separately() -> None:
    chat = [at(LOW, 8.5), at(HIGH, 8.5)]
    code = [replace(one, workload=replace(one.workload, name="code")) for one in (at(LOW, 5.0), at(HIGH, 8.0))]
    assert [(one.workload, one.action) for one in recommendations([*chat, *code])] == [
        ("chat", "weigh"),
        ("code", "enable"),
    ]


def test_a_gate_s_advice_takes_in_what_else_was_measured() -> None:
    low, high = at(LOW, 5.0), at(HIGH, 8.0)
    assert advice_on(low, [low]).action == "unsure"
    assert advice_on(low, [low, high]).action == "enable"


def test_arrivals_at_a_rate_count_by_what_they_keep_in_flight() -> None:
    one = at(LoadSpec(request_rate=2.0, concurrency=None), 7.0, noise=0.0, round_drift=0.0)
    # 32 requests every 0.5 s, each busy for 50 ms + 32 tokens of 10 ms.
    assert in_flight(one) == pytest.approx(2.0 * 0.37, rel=0.05)


def with_form(one: Comparison, arm: str, form: AnswerForm) -> Comparison:
    runs = tuple(
        replace(run, samples=tuple(replace(sample, form=form) for sample in run.samples)) if run.arm == arm else run
        for run in one.runs
    )
    return replace(one, runs=runs)


def test_broken_answers_stop_whatever_the_gain() -> None:
    fine, broken = (AnswerForm(0.0, blank=False, damaged=False, as_asked=as_asked) for as_asked in (True, False))
    good = with_form(with_form(at(HIGH, 5.0), "baseline", fine), "specdec", fine)
    assert advice(at(LOW, 5.0), good).action == "enable"
    found = advice(at(LOW, 5.0), with_form(good, "specdec", broken))
    assert found.action == "stop"
    assert found.reason.startswith("100.0 % of its answers, and 0.0 % of the baseline's, do not have the form")
    assert found.reason.endswith("at concurrency 8")
    # What only the baseline does wrong speaks for nothing.
    assert advice(at(LOW, 5.0), with_form(good, "baseline", broken)).action == "enable"


def test_tokens_that_the_target_would_not_have_said_stop_whatever_the_gain() -> None:
    found = advice(replace(at(LOW, 5.0), outputs=outputs_of(load={3: 6.0})), at(HIGH, 8.0))
    assert (found.action, found.missing) == ("stop", "")
    assert found.reason == "answers of 1 prompt hold tokens that the target would not have said, again and again"
    tied = advice(replace(at(LOW, 5.0), outputs=outputs_of(load={3: 0.01})), at(HIGH, 8.0))
    assert tied.action == "enable"
