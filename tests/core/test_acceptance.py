"""Acceptance figures of known counts, and counts that contradict each other."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.acceptance import acceptance_of, inconsistencies
from pytest_specdec.core.errors import ScrapeError
from pytest_specdec.core.samples import ServerCounters

NGRAM = ServerCounters(drafts=133, draft_tokens=512, accepted_tokens=290, accepted_per_position=(110, 70, 60, 50))
"""A real window of an ngram server with K = 4; the last drafts were cut, so 512 draft tokens and not 532."""
TWO_ENGINES = ServerCounters(drafts=513, draft_tokens=1014, accepted_tokens=741, accepted_per_position=(429, 312))
NO_DRAFTS = ServerCounters(drafts=0, draft_tokens=0, accepted_tokens=0, accepted_per_position=(0, 0))


@pytest.mark.parametrize(("counters", "length"), [(NGRAM, 3.1805), (TWO_ENGINES, 2.4444)])
def test_acceptance_length_includes_the_bonus_token(counters: ServerCounters, length: float) -> None:
    assert acceptance_of(counters).acceptance_length == pytest.approx(length, abs=5e-5)


def test_acceptance_rate_is_a_fraction_of_the_tokens_really_drafted() -> None:
    assert acceptance_of(NGRAM).acceptance_rate == pytest.approx(0.5664, abs=5e-5)


def test_positions_are_joint_shares_of_the_drafts() -> None:
    assert acceptance_of(NGRAM).per_position == pytest.approx((0.827, 0.526, 0.451, 0.376), abs=5e-4)
    assert acceptance_of(TWO_ENGINES).per_position == pytest.approx((0.8363, 0.6082), abs=5e-5)


def test_conditional_positions_are_shares_of_the_position_before() -> None:
    assert acceptance_of(NGRAM).conditional == pytest.approx((110 / 133, 70 / 110, 60 / 70, 50 / 60))


def test_conditional_is_undefined_where_no_draft_came_so_far() -> None:
    counters = ServerCounters(drafts=4, draft_tokens=12, accepted_tokens=0, accepted_per_position=(0, 0, 0))
    assert acceptance_of(counters).conditional == (0.0, None, None)


def test_without_drafts_every_figure_is_undefined() -> None:
    acceptance = acceptance_of(NO_DRAFTS)
    assert (acceptance.acceptance_length, acceptance.acceptance_rate) == (None, None)
    assert (acceptance.per_position, acceptance.conditional) == (None, None)


def test_server_without_speculation_has_no_acceptance_at_all() -> None:
    with pytest.raises(ScrapeError, match="without speculative decoding"):
        acceptance_of(ServerCounters(generation_tokens=100))


def test_real_counts_agree_with_each_other() -> None:
    assert inconsistencies(NGRAM, 4) == []
    assert inconsistencies(TWO_ENGINES, None) == []
    assert inconsistencies(NO_DRAFTS, 2) == []


def test_server_without_speculation_contradicts_nothing() -> None:
    assert inconsistencies(ServerCounters(generation_tokens=100), 3) == []


@pytest.mark.parametrize(
    ("change", "k", "sentence"),
    [
        ({"accepted_tokens": 513}, 4, "513 tokens were accepted, but only 512 drafted"),
        ({"accepted_tokens": -1}, 4, "a count is negative"),
        ({"draft_tokens": 533}, 4, "533 draft tokens are more than 133 drafts of at most 4"),
        ({"draft_tokens": 533}, None, "533 draft tokens are more than 133 drafts of at most 4"),
        ({}, 3, "512 draft tokens are more than 133 drafts of at most 3"),
        ({}, 2, "the acceptance length 3.180 is outside 1 .. 3"),
        ({"drafts": 0}, None, "512 tokens were drafted in no draft"),
        ({"accepted_per_position": (110, 70, 60, 49)}, 4, "adds up to 289, but 290 tokens were accepted"),
        (
            {"accepted_per_position": (110, 60, 70, 50)},
            4,
            "position 2 was accepted 70 times, more than the 60 at position 1",
        ),
        (
            {"accepted_per_position": (134, 70, 50, 36)},
            4,
            "position 0 was accepted 134 times, more than the 133 drafts",
        ),
    ],
)
def test_contradiction_is_named(change: dict[str, Any], k: int | None, sentence: str) -> None:
    found = inconsistencies(dataclasses.replace(NGRAM, **change), k)
    assert any(sentence in text for text in found), found


steps = st.integers(1, 6).flatmap(
    lambda k: st.tuples(
        st.just(k),
        st.lists(st.integers(1, k).flatmap(lambda drafted: st.tuples(st.just(drafted), st.integers(0, drafted)))),
    )
)


@settings(deadline=None)
@given(steps)
def test_counts_of_any_decoding_are_consistent_and_bounded(drawn: tuple[int, list[tuple[int, int]]]) -> None:
    k, drafts = drawn
    counters = ServerCounters(
        drafts=len(drafts),
        draft_tokens=sum(drafted for drafted, _ in drafts),
        accepted_tokens=sum(accepted for _, accepted in drafts),
        accepted_per_position=tuple(sum(accepted > position for _, accepted in drafts) for position in range(k)),
    )
    acceptance = acceptance_of(counters)
    assert inconsistencies(counters, k) == []
    if drafts:
        assert acceptance.acceptance_length is not None
        assert acceptance.per_position is not None
        assert 1 <= acceptance.acceptance_length <= k + 1
        assert sum(acceptance.per_position) == pytest.approx(acceptance.acceptance_length - 1)
