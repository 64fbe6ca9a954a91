"""Prompts that are hard on speculation, sent to both servers: the answers must be the target's own, up to numerics."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from hypothesis import given

from pytest_specdec.fuzzing import fuzz_settings, specdec_prompts

if TYPE_CHECKING:
    from pytest_specdec.lossless_probe import LosslessProbe

EXAMPLES = int(os.environ.get("FUZZ_EXAMPLES", "50"))


@fuzz_settings(max_examples=EXAMPLES)
@given(prompt=specdec_prompts(context_tokens=2048))
def test_answers_are_the_targets_own(assert_lossless: LosslessProbe, prompt: str) -> None:
    assert_lossless(prompt, max_tokens=24)


@fuzz_settings(max_examples=EXAMPLES // 5 or 1)
@given(prompt=specdec_prompts())
def test_answers_stay_so_beside_each_other(assert_lossless: LosslessProbe, prompt: str) -> None:
    assert_lossless(prompt, max_tokens=24, concurrency=4)


@fuzz_settings(max_examples=EXAMPLES // 5 or 1)
@given(question=specdec_prompts())
def test_chats_too(assert_lossless: LosslessProbe, question: str) -> None:
    assert_lossless([{"role": "user", "content": question}], max_tokens=24)
