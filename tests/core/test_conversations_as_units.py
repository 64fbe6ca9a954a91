"""Turns of one conversation resemble each other: intervals must resample conversations."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.judge import estimate
from tests.core.comparison_builder import build_comparison, change_samples

if TYPE_CHECKING:
    from pytest_specdec.core.samples import Comparison, RequestSample

TURNS = 4


def in_conversations(comparison: Comparison, turns: int = TURNS) -> Comparison:
    """The same figures, the prompts being turns: as many in a row as ``turns`` make one conversation."""

    def change(sample: RequestSample) -> RequestSample:
        return replace(sample, conversation=sample.prompt // turns)

    return change_samples(comparison, change)


def test_a_conversation_is_one_unit() -> None:
    evidence = Evidence(in_conversations(build_comparison(requests=16)), 0.95)
    assert len(np.unique(evidence.pairs("tpot").unit)) == 4
    assert len(np.unique(evidence.values("ttft").prompt)) == 4
    assert evidence.contributions is not None
    assert len(evidence.contributions.drafts) == 4


def test_a_conversation_and_a_prompt_of_the_same_number_are_two_units() -> None:
    def change(sample: RequestSample) -> RequestSample:
        return replace(sample, conversation=0) if sample.prompt in (1, 2) else sample

    evidence = Evidence(change_samples(build_comparison(requests=16), change), 0.95)
    assert len(np.unique(evidence.pairs("tpot").unit)) == 15


def test_alike_turns_are_worth_no_more_than_their_conversation() -> None:
    """All turns of a conversation being copies of each other, only the number of conversations may count."""
    comparison = build_comparison(requests=32, rounds=4, noise=0.0, prompt_spread=0.2)
    ratios = {sample.prompt: sample for run in comparison.arm("specdec") for sample in run.samples}

    def copied(sample: RequestSample) -> RequestSample:
        twin = ratios[sample.prompt - sample.prompt % TURNS]
        return replace(
            sample,
            token_times_s=tuple(time - twin.sent_s + sample.sent_s for time in twin.token_times_s),
            chunk_tokens=twin.chunk_tokens,
            completion_tokens=twin.completion_tokens,
        )

    alike = change_samples(comparison, copied, arm="specdec")

    def width(one: Comparison) -> float:
        found = estimate(one, "tpot_gain")
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(in_conversations(alike)) > 1.3 * width(alike)


def test_a_fresh_plan_with_conversations_resamples_them() -> None:
    evidence = Evidence(in_conversations(build_comparison(requests=16, rounds=2, fresh=True)), 0.95)
    assert len(np.unique(evidence.pairs("tpot").unit)) == 8
