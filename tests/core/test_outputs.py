"""Records of compared answers: the noise floor, the tie margin that follows from it, and hard divergences."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_specdec.core.outputs import MAX_TIE_MARGIN, MIN_TIE_MARGIN, divergences, noise_floor, tie_margin
from tests.core.output_builder import outputs_of, pair


def test_a_baseline_that_never_leaves_itself_gives_the_least_margin() -> None:
    margin, basis = tie_margin(outputs_of(load={1: 6.0}).pairs)
    assert margin == MIN_TIE_MARGIN
    assert "never left itself" in basis


def test_the_margin_follows_the_baselines_own_margins() -> None:
    margin, basis = tie_margin(outputs_of(noise={1: 0.1, 2: 0.2, 3: 0.4}).pairs)
    assert margin == pytest.approx(0.8)
    assert "3 margins" in basis


def test_a_broken_baseline_cannot_make_everything_a_tie() -> None:
    assert tie_margin(outputs_of(noise={1: 9.0}).pairs)[0] == MAX_TIE_MARGIN


@given(st.lists(st.floats(0, 30), max_size=40))
def test_the_margin_stays_within_its_bounds(margins: list[float]) -> None:
    pairs = [pair(n, margin=m, compared="baseline", condition="composition") for n, m in enumerate(margins)]
    assert MIN_TIE_MARGIN <= tie_margin(pairs)[0] <= MAX_TIE_MARGIN


def test_the_noise_floor_counts_the_baseline_alone() -> None:
    floor = noise_floor(outputs_of(prompts=10, noise={3: 0.1}, load={1: 0.1, 2: 0.1}).pairs)
    assert (floor.compared, floor.differing, floor.share) == (10, 1, 0.1)


def test_a_difference_within_the_margin_is_no_divergence() -> None:
    assert divergences(outputs_of(load={1: 0.4}).pairs, 0.5) == ()


def test_a_divergence_of_every_round_repeats() -> None:
    (found,) = divergences(outputs_of(rounds=3, load={1: 6.0}).pairs, 0.5)
    assert (found.prompt, found.position, found.margin_nats, found.by) == (1, 5, 6.0, "specdec")
    assert (found.under_load, found.alone, found.repeats) == ((3, 3), (0, 1), True)


def test_what_was_seen_under_load_and_alone_repeats() -> None:
    (found,) = divergences(outputs_of(once={1: 6.0}, alone={1: 6.0}).pairs, 0.5)
    assert found.repeats


def test_what_was_seen_in_one_of_several_rounds_does_not_repeat_and_needs_no_further_test() -> None:
    (found,) = divergences(outputs_of(once={1: 6.0}).pairs, 0.5)
    assert (found.repeats, found.tested_again) == (False, True)


def test_what_was_seen_alone_and_tried_alone_once_is_to_be_tested_again() -> None:
    (found,) = divergences(outputs_of(alone={1: 6.0}).pairs, 0.5)
    assert (found.repeats, found.tested_again) == (False, False)


def test_the_side_with_the_unlikely_token_is_named() -> None:
    (found,) = divergences([pair(1, margin=6.0, by=0)], 0.5)
    assert found.by == "baseline"


def test_an_answer_that_stops_short_is_a_hard_divergence_of_its_side() -> None:
    short = replace(pair(1, margin=1.0, at=20), lengths=(32, 20), gaps_nats=None)
    (found,) = divergences([short], 2.0)
    assert (found.margin_nats, found.by) == (math.inf, "specdec")


def test_repeating_divergences_come_first() -> None:
    found = divergences(outputs_of(load={1: 3.0}, once={2: 9.0}).pairs, 0.5)
    assert [one.prompt for one in found] == [1, 2]
