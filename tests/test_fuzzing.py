"""Prompts for fuzzing: what the strategies make, and what they never make."""

from __future__ import annotations

import json

import pytest
from hypothesis import find, given
from hypothesis import strategies as st
from hypothesis.errors import NoSuchExample

from pytest_specdec.fuzzing import SPECIAL_TOKENS, fuzz_settings, specdec_prompts


@given(specdec_prompts(context_tokens=300))
def test_every_prompt_can_be_sent(prompt: str) -> None:
    assert prompt
    assert json.loads(json.dumps({"prompt": prompt}).encode())["prompt"] == prompt
    assert prompt.encode().decode() == prompt


@given(st.integers(1, 50).flatmap(lambda most: st.tuples(st.just(most), specdec_prompts(max_characters=most))))
def test_prompts_are_as_short_as_was_asked_for(drawn: tuple[int, str]) -> None:
    most, prompt = drawn
    assert len(prompt) <= 10 * most


@pytest.mark.parametrize(
    ("kind", "is_so"),
    [
        ("white space only", lambda text: not text.strip()),
        ("a line separator", lambda text: "\u2028" in text),
        ("long repeats", lambda text: len(text) > 500 and len(set(text)) < 5),
        ("code", lambda text: "def " in text),
        ("JSON", lambda text: '{"' in text),
        ("special tokens as text", lambda text: any(token in text for token in SPECIAL_TOKENS)),
        ("another script", lambda text: any(ord(character) > 0x3000 for character in text)),
        ("near the context limit", lambda text: text.count(" the") > 230),
    ],
)
def test_every_kind_is_made(kind: str, is_so: object) -> None:
    assert callable(is_so), kind
    find(specdec_prompts(context_tokens=300), is_so, settings=fuzz_settings(3000))


def test_without_a_limit_no_prompt_goes_for_it() -> None:
    with pytest.raises(NoSuchExample):
        find(
            specdec_prompts(), lambda text: text.startswith("the the the the the the the"), settings=fuzz_settings(200)
        )


def test_special_tokens_can_be_ones_own() -> None:
    assert "<|mine|>" in find(specdec_prompts(special_tokens=["<|mine|>"]), lambda text: "<|mine|>" in text)
