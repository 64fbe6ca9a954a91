"""Classes weighted as the traffic has them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.class_acceptance import by_class
from pytest_specdec.core.class_mixture import Mixture, flip, mixture
from pytest_specdec.core.judge import estimate
from tests.core.class_builder import CHAT, CODE, build_classes, two_classes
from tests.core.comparison_builder import build_comparison


def mixed(*args: object, **kwargs: object) -> Mixture:
    found = mixture(two_classes(*args, **kwargs))  # type: ignore[arg-type] # passed on
    assert found is not None
    return found


def test_without_classes_there_is_no_mixture() -> None:
    assert mixture(build_comparison()) is None


@pytest.mark.parametrize("per_request_stats", [True, False], ids=["server", "stream"])
@given(code=st.integers(2, 12), chat=st.integers(2, 12))
@settings(max_examples=15, deadline=None)
def test_weights_equal_to_shares_sent_give_the_unweighted_value(per_request_stats: bool, code: int, chat: int) -> None:  # noqa: FBT001 - a parameter
    weights = {"code": code / (code + chat), "chat": chat / (code + chat)}
    comparison = two_classes(code=code, chat=chat, weights=weights, rounds=2, per_request_stats=per_request_stats)
    found = mixture(comparison)
    assert found is not None
    assert found.acceptance_length is not None
    assert found.tokens_per_step is not None
    assert found.acceptance_length.value == pytest.approx(estimate(comparison, "min_acceptance_length").value)
    assert found.tokens_per_step.value == pytest.approx(estimate(comparison, "min_tokens_per_step").value)


def test_the_whole_of_a_mix_lies_between_its_classes() -> None:
    comparison = two_classes(weights={"code": 0.3, "chat": 0.7})
    code, chat = sorted(by_class(comparison), key=lambda one: one.name, reverse=True)
    found = mixture(comparison)
    assert found is not None
    assert chat.acceptance_length is not None
    assert code.acceptance_length is not None
    assert found.acceptance_length is not None
    assert chat.acceptance_length.value < found.acceptance_length.value < code.acceptance_length.value


def test_by_requests_a_class_with_more_drafts_counts_for_more() -> None:
    """Accepting much, code needs fewer drafts for as many tokens: by requests the mix accepts less than the plain mean says."""
    found = mixed(code=32, chat=32, weights={"code": 0.5, "chat": 0.5})
    assert found.acceptance_length is not None
    assert found.mean_acceptance_length is not None
    assert found.acceptance_length.value < found.mean_acceptance_length.value - 0.1


def test_the_plain_mean_weighs_the_classes_own_lengths() -> None:
    comparison = two_classes(weights={"code": 0.9, "chat": 0.1})
    lengths = {one.name: one.acceptance_length.value for one in by_class(comparison) if one.acceptance_length}
    found = mixture(comparison)
    assert found is not None
    assert found.mean_acceptance_length is not None
    assert found.mean_acceptance_length.value == pytest.approx(0.9 * lengths["code"] + 0.1 * lengths["chat"])


def test_the_worst_class_is_named() -> None:
    assert mixed().worst == "chat"


def test_stated_shares_are_told_from_those_that_were_sent() -> None:
    assert not mixed().stated
    assert mixed(weights={"code": 0.5, "chat": 0.5}).stated


def test_a_class_of_the_traffic_that_was_not_sent_is_named() -> None:
    found = mixed(weights={"code": 0.4, "chat": 0.4, "tables": 0.2})
    assert found.unmeasured == ("tables",)
    assert found.shares == {"code": 0.5, "chat": 0.5}


def test_the_share_that_flips_the_verdict_is_exact() -> None:
    comparison = two_classes(code=40, chat=40, weights={"code": 0.8, "chat": 0.2})
    found = flip(comparison, 2.0)
    assert found is not None
    assert found.name == "chat"
    assert found.falls
    at = mixed(code=40, chat=40, weights={"code": 1 - found.share, "chat": found.share})
    assert at.acceptance_length is not None
    assert at.acceptance_length.value == pytest.approx(2.0)


def test_a_mix_that_misses_says_how_little_of_the_worst_class_it_takes() -> None:
    found = flip(two_classes(weights={"code": 0.05, "chat": 0.95}), 2.5)
    assert found is not None
    assert not found.falls
    assert found.share < 0.95


def test_with_three_classes_the_others_keep_their_proportions() -> None:
    classes = {
        "code": CODE | {"requests": 24},
        "tables": {"acceptance": (0.7, 0.5, 0.3), "requests": 24},
        "chat": CHAT | {"requests": 24},
    }
    weights = {"code": 0.2, "tables": 0.6, "chat": 0.2}
    found = flip(build_classes(classes, weights=weights), 2.2)
    assert found is not None
    rest = 1 - found.share
    there = mixture(build_classes(classes, weights={"code": 0.25 * rest, "tables": 0.75 * rest, "chat": found.share}))
    assert there is not None
    assert there.acceptance_length is not None
    assert there.acceptance_length.value == pytest.approx(2.2)


@pytest.mark.parametrize("required", [1.05, 3.9])
def test_where_all_classes_agree_no_mix_flips_the_verdict(required: float) -> None:
    assert flip(two_classes(), required) is None


def test_the_flip_in_tokens_per_step_is_that_of_tokens_per_step() -> None:
    comparison = two_classes(code=40, chat=40, weights={"code": 0.8, "chat": 0.2})
    found = flip(comparison, 2.0, steps=True)
    assert found is not None
    at = mixed(code=40, chat=40, weights={"code": 1 - found.share, "chat": found.share})
    assert at.tokens_per_step is not None
    assert at.tokens_per_step.value == pytest.approx(2.0)


def test_the_interval_of_the_mix_holds_the_truth_as_often_as_it_says() -> None:
    """Classes of 10 prompts with many more behind them; weights that differ widely from what was sent."""
    weights = {"code": 0.8, "chat": 0.2}
    truth_of = mixture(two_classes(code=800, chat=800, rounds=1, tokens=33, per_request_stats=True, weights=weights))
    assert truth_of is not None
    assert truth_of.acceptance_length is not None
    truth, held, worlds = truth_of.acceptance_length.value, 0, 60
    for world in range(worlds):
        classes = {
            "code": CODE | {"requests": 10, "seed": 2 * world},
            "chat": CHAT | {"requests": 10, "seed": 2 * world + 1},
        }
        found = mixture(build_classes(classes, rounds=1, tokens=33, per_request_stats=True, weights=weights))
        assert found is not None
        assert found.acceptance_length is not None
        assert found.acceptance_length.low is not None
        assert found.acceptance_length.high is not None
        held += found.acceptance_length.low <= truth <= found.acceptance_length.high
    assert held / worlds >= 0.88
    assert np.isfinite(truth)
