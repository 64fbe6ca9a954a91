"""Acceptance per class: each class's own figures, which together are those of the whole."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.class_acceptance import ClassAcceptance, by_class, shares_of
from pytest_specdec.core.class_sums import class_sums
from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.judge import estimate
from tests.core.class_builder import build_classes, two_classes
from tests.core.comparison_builder import build_comparison, change_samples

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate

SHARES = st.tuples(*[st.floats(0.02, 0.98)] * 3).map(lambda shares: tuple(sorted(shares, reverse=True)))


def named(comparison: Comparison) -> dict[str, ClassAcceptance]:
    return {one.name: one for one in by_class(comparison)}


def value(estimate: Estimate | None) -> float:
    assert estimate is not None
    return estimate.value


def width(estimate: Estimate | None) -> float:
    assert estimate is not None
    assert estimate.low is not None
    assert estimate.high is not None
    return estimate.high - estimate.low


def test_prompts_without_a_class_have_no_classes() -> None:
    assert by_class(build_comparison()) == ()


@pytest.mark.parametrize("per_request_stats", [True, False], ids=["server", "stream"])
@given(acceptance=SHARES, seed=st.integers(0, 1000))
@settings(max_examples=20, deadline=None)
def test_one_class_is_the_whole(per_request_stats: bool, acceptance: tuple[float, ...], seed: int) -> None:  # noqa: FBT001 - a parameter
    whole = build_comparison(acceptance=acceptance, seed=seed, rounds=2, per_request_stats=per_request_stats)
    classed = change_samples(whole, lambda sample: replace(sample, category="chat"))
    (only,) = by_class(classed)
    assert only.share == 1.0
    for name, figure in [
        ("min_acceptance_length", only.acceptance_length),
        ("min_acceptance_rate", only.acceptance_rate),
        ("min_tokens_per_step", only.tokens_per_step),
        ("min_draft_coverage", only.draft_coverage),
        ("tpot_gain", only.tpot_gain),
    ]:
        assert value(figure) == pytest.approx(estimate(whole, name).value), name
    for position, figure in enumerate(only.per_position):
        assert figure.value == pytest.approx(estimate(whole, "min_acceptance_at", {position: 0.1}).value)


@pytest.mark.parametrize("per_request_stats", [True, False], ids=["server", "stream"])
def test_one_class_has_the_interval_of_the_whole(per_request_stats: bool) -> None:  # noqa: FBT001 - a parameter
    whole = build_comparison(requests=48, per_request_stats=per_request_stats)
    (only,) = by_class(change_samples(whole, lambda sample: replace(sample, category="chat")))
    assert width(only.acceptance_length) == pytest.approx(width(estimate(whole, "min_acceptance_length")), rel=0.1)


@pytest.mark.parametrize("per_request_stats", [True, False], ids=["server", "stream"])
def test_classes_add_up_to_the_counters(per_request_stats: bool) -> None:  # noqa: FBT001 - a parameter
    comparison = two_classes(code=10, chat=22, per_request_stats=per_request_stats, tokens=17)
    evidence = Evidence(comparison, 0.95)
    sums, counters = class_sums(evidence), evidence.counters
    for name, total in [
        ("drafts", counters.drafts),
        ("draft_tokens", counters.draft_tokens),
        ("accepted", counters.accepted_tokens),
        ("steps", counters.decode_steps),
    ]:
        assert sum(getattr(one, name).sum() for one in sums) == pytest.approx(total), name
    assert [sum(one.reached[i].sum() for one in sums) for i in range(3)] == pytest.approx(
        list(counters.accepted_per_position or ())
    )


def test_each_class_has_its_own_figures() -> None:
    classes = named(two_classes(code=64, chat=64, tokens=65, per_request_stats=True))
    assert value(classes["code"].acceptance_length) == pytest.approx(1 + 0.9 + 0.8 + 0.7, abs=0.1)
    assert value(classes["chat"].acceptance_length) == pytest.approx(1 + 0.4 + 0.2 + 0.1, abs=0.1)
    assert value(classes["code"].tpot_gain) == pytest.approx(0.5)
    assert value(classes["chat"].tpot_gain) == pytest.approx(0.1)
    assert [value(one) for one in classes["chat"].per_position] == pytest.approx([0.4, 0.2, 0.1], abs=0.05)


def test_the_stream_tells_nearly_what_the_server_does() -> None:
    """The stream does not show what the end of an answer cut off; that is given out among the classes."""
    server, stream = (named(two_classes(code=48, chat=48, per_request_stats=told)) for told in (True, False))
    for name in ("code", "chat"):
        assert value(stream[name].acceptance_length) == pytest.approx(value(server[name].acceptance_length), abs=0.02)


def test_the_share_is_that_of_the_traffic_where_it_is_stated() -> None:
    comparison = two_classes(code=10, chat=30)
    assert shares_of(comparison) == {"code": 0.25, "chat": 0.75}
    stated = two_classes(code=10, chat=30, weights={"code": 0.6, "chat": 0.4})
    assert {one.name: one.share for one in by_class(stated)} == {"code": 0.6, "chat": 0.4}


def test_weights_of_other_classes_are_not_taken_for_these() -> None:
    comparison = two_classes(code=10, chat=30, weights={"code": 0.6, "tables": 0.4})
    assert shares_of(comparison) == {"code": 0.25, "chat": 0.75}


def test_more_prompts_of_a_class_make_it_more_certain_and_more_of_another_do_not() -> None:
    few = named(two_classes(code=16, chat=16))
    many_chat = named(two_classes(code=16, chat=128))
    assert width(many_chat["chat"].acceptance_length) < 0.6 * width(few["chat"].acceptance_length)
    assert width(many_chat["code"].acceptance_length) == pytest.approx(width(few["code"].acceptance_length), rel=0.05)


def test_rounds_that_repeat_each_other_do_not_make_a_class_certain() -> None:
    once, often = (named(two_classes(rounds=rounds))["chat"].acceptance_length for rounds in (2, 8))
    assert width(often) == pytest.approx(width(once), rel=0.05)


def test_without_token_ids_acceptance_of_classes_is_unknown_and_gains_are_not() -> None:
    chat = named(two_classes(token_ids=False))["chat"]
    assert chat.acceptance_length is None
    assert "unknown" in chat.unknown
    assert value(chat.tpot_gain) == pytest.approx(0.1)


def test_where_the_stream_hides_which_steps_drafted_the_interval_holds_the_truth_all_the_same() -> None:
    seldom: dict[str, dict[str, Any]] = {
        "code": {"acceptance": (0.9, 0.8, 0.7), "coverage": 0.8, "requests": 64},
        "chat": {"acceptance": (0.5, 0.3, 0.2), "coverage": 0.1, "requests": 64},
    }
    truth, hidden = (
        named(build_classes(seldom, method="ngram", tokens=65, per_request_stats=told)) for told in (True, False)
    )
    for name in ("code", "chat"):
        interval = hidden[name].acceptance_length
        assert interval is not None
        assert interval.low is not None
        assert interval.high is not None
        assert interval.low < value(truth[name].acceptance_length) < interval.high
        assert hidden[name].draft_coverage is None
        assert value(hidden[name].tokens_per_step) == pytest.approx(value(truth[name].tokens_per_step))


def test_a_class_that_never_drafts_is_undefined_beside_one_that_does() -> None:
    classes: dict[str, dict[str, Any]] = {
        "code": {"acceptance": (0.9, 0.8, 0.7), "requests": 16},
        "chat": {"coverage": 0.0, "requests": 16},
    }
    chat = named(build_classes(classes, method="ngram", per_request_stats=True))["chat"]
    assert chat.acceptance_length is None
    assert "no step drafted" in chat.unknown
    assert value(chat.tokens_per_step) == 1.0
    assert width(chat.tokens_per_step) > 0


def test_made_up_acceptance_is_not_shown_per_class() -> None:
    chat = named(replace(two_classes(), extra={"verification": "synthetic"}))["chat"]
    assert chat.acceptance_length is None
    assert "synthetic" in chat.unknown


def test_rounds_of_fresh_prompts_all_count() -> None:
    assert named(two_classes(code=8, chat=8, rounds=4, fresh=True))["chat"].prompts == 32


def test_intervals_hold_the_truth_as_often_as_they_say() -> None:
    """Prompts of a class differ: each has an acceptance rate of its own. The truth is the class's, over all its prompts."""
    rng = np.random.default_rng(1)
    rates = rng.beta(4, 6, size=4000)
    step_tokens = 32
    everything = rng.binomial(step_tokens, rates)
    truth = 1 + everything.sum() / (step_tokens * len(everything))
    held = 0
    worlds = 120
    for _ in range(worlds):
        chosen = rng.choice(everything, size=12, replace=False)
        (one,) = by_class(of_accepted(chosen.tolist(), step_tokens))
        assert one.acceptance_length is not None
        assert one.acceptance_length.low is not None
        assert one.acceptance_length.high is not None
        held += one.acceptance_length.low <= truth <= one.acceptance_length.high
    assert 0.92 <= held / worlds <= 1.0


def of_accepted(accepted: list[int], drafts: int) -> Comparison:
    """A comparison whose requests accepted so many of ``drafts`` drafts of one token each, as the server tells."""
    comparison = build_comparison(
        rounds=1, requests=len(accepted), k=1, acceptance=(0.0,), tokens=drafts + 1, per_request_stats=True
    )

    def told(sample: object) -> object:
        spec = replace(sample.spec, accepted_tokens=accepted[sample.index], accepted_per_step=None)  # type: ignore[attr-defined] # built with figures
        return replace(sample, category="chat", spec=spec)  # type: ignore[type-var] # as above

    changed = change_samples(comparison, told, arm="specdec")  # type: ignore[arg-type] # as above
    (run,) = changed.arm("specdec")
    counters = replace(run.counters, accepted_tokens=sum(accepted), accepted_per_position=(sum(accepted),))
    return replace(changed, runs=tuple(replace(one, counters=counters) if one is run else one for one in changed.runs))
