"""Definitions of single quantities, by hand and by the figures of a real window."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pytest_specdec.core.metrics import (
    acceptance_length_for,
    chunk_gaps_s,
    draft_coverage,
    e2el_s,
    pooled_counters,
    step_ratio,
    tokens_per_step,
    tokens_per_step_for_gain,
    tpot_s,
    ttft_s,
)
from pytest_specdec.core.samples import RequestSample, ServerCounters

# Sent at 1 s; chunks of 1, 4 and 3 tokens.
SAMPLE = RequestSample(
    index=0,
    prompt=0,
    category=None,
    due_s=None,
    sent_s=1.0,
    token_times_s=(1.5, 1.9, 2.2),
    chunk_tokens=(1, 4, 3),
    completion_tokens=8,
)
# A real window of ngram speculation, K = 4: one scrape minus the one before.
NGRAM = ServerCounters(
    drafts=133,
    draft_tokens=512,
    accepted_tokens=290,
    accepted_per_position=(110, 70, 60, 50),
    decode_steps=254,
    generation_tokens=545,
    finished_requests=8,
)


def test_ttft_is_the_wait_for_the_first_token_chunk() -> None:
    assert ttft_s(SAMPLE) == pytest.approx(0.5)


def test_e2el_ends_with_the_last_token_chunk() -> None:
    assert e2el_s(SAMPLE) == pytest.approx(1.2)


def test_tpot_divides_by_tokens_and_not_by_chunks() -> None:
    assert tpot_s(SAMPLE) == pytest.approx(0.7 / 7)


def test_tpot_leaves_the_tokens_of_the_first_chunk_out() -> None:
    assert tpot_s(replace(SAMPLE, chunk_tokens=(4, 1, 3))) == pytest.approx(0.7 / 4)


def test_tpot_takes_one_token_in_the_first_chunk_where_chunks_do_not_tell() -> None:
    assert tpot_s(replace(SAMPLE, chunk_tokens=None)) == pytest.approx(0.7 / 7)


@pytest.mark.parametrize(("chunks", "tokens"), [((1,), 1), ((3,), 3)])
def test_tpot_is_undefined_when_everything_came_in_the_first_chunk(chunks: tuple[int, ...], tokens: int) -> None:
    assert tpot_s(replace(SAMPLE, token_times_s=(1.5,), chunk_tokens=chunks, completion_tokens=tokens)) is None


def test_chunk_gaps_do_not_care_about_tokens() -> None:
    assert chunk_gaps_s(SAMPLE) == pytest.approx((0.4, 0.3))


def test_tokens_per_step_of_a_real_window_count_steps_without_a_draft() -> None:
    assert tokens_per_step(NGRAM) == pytest.approx(2.114, abs=5e-4)


def test_draft_coverage_of_a_real_window() -> None:
    assert draft_coverage(NGRAM) == pytest.approx(0.524, abs=5e-4)


def test_coverage_times_acceptance_explains_tokens_per_step() -> None:
    # 1 + coverage x (AL - 1), but for tokens that were accepted and then cut by the end of an answer.
    assert tokens_per_step(NGRAM) == pytest.approx(1 + 133 / 254 * 290 / 133, abs=0.03)


def test_a_draft_of_an_answer_that_has_ended_does_not_raise_coverage_above_one() -> None:
    assert draft_coverage(replace(NGRAM, drafts=255)) == 1.0


@pytest.mark.parametrize("missing", ["decode_steps", "generation_tokens", "finished_requests"])
def test_tokens_per_step_are_undefined_without_their_counters(missing: str) -> None:
    assert tokens_per_step(replace(NGRAM, **{missing: None})) is None


def test_no_steps_give_no_figures() -> None:
    idle = replace(NGRAM, decode_steps=0)
    assert (tokens_per_step(idle), draft_coverage(idle)) == (None, None)


def test_pooled_counters_add_up() -> None:
    pooled = pooled_counters([NGRAM, NGRAM])
    assert pooled.drafts == 266
    assert pooled.accepted_per_position == (220, 140, 120, 100)


def test_pooled_counters_lack_what_one_of_them_lacks() -> None:
    pooled = pooled_counters([NGRAM, replace(NGRAM, drafts=None, accepted_per_position=None)])
    assert (pooled.drafts, pooled.accepted_per_position, pooled.decode_steps) == (None, None, 508)


def test_step_ratio_is_the_break_even() -> None:
    # 2.5 tokens per step at the same TPOT: a step costs 2.5 plain ones.
    assert step_ratio(tpot_base_s=0.010, tpot_spec_s=0.010, tokens_per_step=2.5) == pytest.approx(2.5)


def test_a_gain_needs_more_than_the_break_even() -> None:
    assert tokens_per_step_for_gain(0.3, step_ratio=1.03) == pytest.approx(1.4714, abs=1e-4)


def test_an_acceptance_length_has_to_make_up_for_steps_that_do_not_draft() -> None:
    assert acceptance_length_for(2.114, coverage=0.524) == pytest.approx(3.126, abs=1e-3)
