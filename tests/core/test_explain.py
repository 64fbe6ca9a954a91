"""Causes that the figures support."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.answer_form import AnswerForm
from pytest_specdec.core.explain import explain
from pytest_specdec.core.judge import judge
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.objectives import REGISTRY
from tests.core.comparison_builder import build_comparison

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison


def explained(comparison: Comparison, gain: float = 0.3) -> str:
    return " ".join(explain(comparison, judge(comparison, REGISTRY["tpot_gain"].parse(gain))))


def test_met_objectives_need_no_explanation() -> None:
    assert explained(build_comparison(acceptance=(0.2, 0.02, 0.01), tpot_spec_ms=5), gain=0.3) == ""


def test_a_draft_that_seldom_agrees_is_named() -> None:
    text = explained(build_comparison(acceptance=(0.24, 0.1, 0.06), tpot_spec_ms=9, requests=64))
    assert text.startswith("Most drafts are rejected at their first token (accepted 2")
    assert "chat template" in text


def test_a_lookup_that_is_seldom_right_is_not_told_to_be_trained() -> None:
    text = explained(build_comparison(acceptance=(0.24, 0.1, 0.06), tpot_spec_ms=9, method="ngram"))
    assert "prompt_lookup_min" in text
    assert "trained" not in text


def test_nothing_accepted_at_all_points_at_context_and_head() -> None:
    text = explained(build_comparison(acceptance=(0.0, 0.0, 0.0), tpot_spec_ms=12))
    assert "acceptance length exactly 1" in text
    assert "context limit" in text


def test_made_up_acceptance_explains_nothing_and_a_costly_step_does() -> None:
    never = replace(build_comparison(acceptance=(0.0, 0.0, 0.0), tpot_spec_ms=20), extra={"verification": "synthetic"})
    assert explained(never).startswith("A speculative step costs 2.00 plain steps")
    assert "accepted" not in explained(never)


def test_a_gain_that_is_only_not_proven_is_not_blamed_on_the_step() -> None:
    enough = build_comparison(acceptance=(0.9, 0.8, 0.7), tpot_spec_ms=6)  # step ratio 2.0, a gain of 40 %
    verdicts = judge(enough, REGISTRY["tpot_gain"].parse(0.3))
    unsure = [replace(verdict, outcome="unsure") for verdict in verdicts]
    assert not any("plain steps" in line for line in explain(enough, unsure))
    missed = judge(enough, REGISTRY["tpot_gain"].parse(0.5))
    assert any("a gain of 50% needs" in line for line in explain(enough, missed))


def test_a_schedule_explains_steps_without_a_draft_and_nothing_else() -> None:
    def scheduled(**built: Any) -> str:
        return explained(replace(build_comparison(**built), extra={"schedule": "[[1, 4, 3], [5, 64, 0]]"}))

    seldom = scheduled(coverage=0.12, tpot_spec_ms=9.5, requests=64)
    assert seldom.startswith("Only 1")
    assert "that is what the schedule says for this load, [[1, 4, 3], [5, 64, 0]]." in seldom
    assert "schedule says so, [[1, 4, 3]" in scheduled(coverage=0.0, tpot_spec_ms=10)
    assert "never" not in scheduled(acceptance=(0.7, 0.5, 0.0), tpot_spec_ms=9)
    assert scheduled(acceptance=(0.24, 0.1, 0.06), tpot_spec_ms=9, requests=64).startswith("Most drafts are rejected")


def test_no_draft_at_all_is_named() -> None:
    text = explained(build_comparison(coverage=0.0, method="ngram", tpot_spec_ms=10))
    assert text.startswith("Not one step drafted")


def test_steps_that_seldom_draft_are_named_with_what_they_yield() -> None:
    text = explained(build_comparison(coverage=0.12, method="ngram", requests=64, tpot_spec_ms=9.5))
    assert text.startswith("Only 1")
    assert "of the steps draft at all, so an acceptance length of" in text
    assert "ngram proposes only where text repeats" in text


def test_a_step_that_costs_more_than_it_yields_is_named() -> None:
    # Good acceptance and slower all the same: the draft is too expensive.
    text = explained(build_comparison(acceptance=(0.7, 0.5, 0.3), tpot_spec_ms=15))
    assert "A speculative step costs 3." in text
    assert "smaller draft" in text


def test_a_busy_device_is_told_from_an_expensive_draft() -> None:
    load = LoadSpec(concurrency=64)
    text = explained(build_comparison(acceptance=(0.7, 0.5, 0.3), tpot_spec_ms=11, requests=128, load=load))
    assert "At concurrency 64" in text


def test_positions_that_are_never_accepted_are_named_with_a_better_k() -> None:
    comparison = build_comparison(k=5, acceptance=(0.7, 0.4, 0.02, 0.01, 0.01), tpot_spec_ms=6, requests=64)
    assert "try num_speculative_tokens 2" in explained(comparison, gain=0.6)


def test_two_sentences_are_enough() -> None:
    comparison = build_comparison(k=5, acceptance=(0.2, 0.04, 0.02, 0.01, 0.01), coverage=0.3, tpot_spec_ms=30)
    comparison = replace(comparison, method="ngram")
    assert len(explain(comparison, judge(comparison, REGISTRY["tpot_gain"].parse(0.3)))) == 2


@settings(max_examples=20, deadline=None)
@given(
    acceptance=st.lists(st.floats(0, 1), min_size=3, max_size=3),
    coverage=st.floats(0, 1),
    tpot_ms=st.floats(1, 50),
)
def test_whatever_was_measured_can_be_explained(acceptance: list[float], coverage: float, tpot_ms: float) -> None:
    joint = sorted(acceptance, reverse=True)
    comparison = build_comparison(
        acceptance=joint, coverage=coverage, tpot_spec_ms=tpot_ms, method="ngram", rounds=2, requests=4
    )
    for sentence in explain(comparison, judge(comparison, REGISTRY["tpot_gain"].parse(0.9))):
        assert sentence.endswith(".")
        assert "nan" not in sentence


def test_drafts_that_a_grammar_forbids_are_named_as_the_cause() -> None:
    seldom = build_comparison(coverage=0.4, method="eagle3", requests=64, tpot_spec_ms=9.5)
    assert "something keeps the draft from running" in explained(seldom)
    asked = AnswerForm(None, blank=False, damaged=False, as_asked=True)
    runs = tuple(replace(run, samples=tuple(replace(one, form=asked) for one in run.samples)) for run in seldom.runs)
    assert "drafts that break the form that was asked for are dropped" in explained(replace(seldom, runs=runs))
