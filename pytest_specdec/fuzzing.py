"""Prompts that are hard on speculation, as Hypothesis strategies; for tests that use the fixture ``assert_lossless``.

::

    from hypothesis import given
    from pytest_specdec.fuzzing import fuzz_settings, specdec_prompts

    @fuzz_settings(max_examples=50)
    @given(prompt=specdec_prompts())
    def test_answers_stay_the_targets_own(assert_lossless, prompt):
        assert_lossless(prompt, max_tokens=32)

Needs the extra ``fuzz``: ``pip install 'pytest-specdec[fuzz]'``.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

__all__ = ["SPECIAL_TOKENS", "fuzz_settings", "specdec_prompts"]

SPECIAL_TOKENS = (
    *(
        "<|im_start|>",
        "<|im_end|>",
        "<|endoftext|>",
        "<|eot_id|>",
        "<|begin_of_text|>",
        "<s>",
        "</s>",
        "<pad>",
        "<unk>",
    ),
    *("[INST]", "[/INST]", "<think>", "</think>", "<tool_call>"),
)
"""Of well-known models, written out as text."""
_SPACES = (" ", "  ", "\n", "\r\n", "\t", "\u00a0", "\u2028", "\u200b", "\u3000")
_NAMES = ("x", "total", "items", "get_user", "parse", "i", "node", "value")


def fuzz_settings(max_examples: int = 50) -> settings:
    """Settings for tests that ask servers: without a deadline, as an answer takes as long as it takes."""
    return settings(max_examples=max_examples, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def specdec_prompts(
    *,
    max_characters: int = 200,
    context_tokens: int | None = None,
    special_tokens: Sequence[str] = SPECIAL_TOKENS,
) -> SearchStrategy[str]:
    """Prompts of the kinds that have broken drafts, caches and samplers before; none is empty.

    Text of any script, white space, long repeats, code, JSON, special tokens as text, and mixtures of these.

    Args:
        max_characters: The longest prompt, but for repeats (ten times that) and those near the context limit.
        context_tokens: ``--max-model-len`` of the servers; with it, some prompts come close to it or exceed it.
        special_tokens: Those of the target belong here, where they are others.
    """
    text = st.text(st.characters(codec="utf-8"), min_size=1, max_size=max_characters)
    pieces = st.one_of(
        st.text(st.characters(codec="ascii"), min_size=1, max_size=20),
        st.sampled_from(_SPACES),
        st.sampled_from(special_tokens) if special_tokens else st.sampled_from(_SPACES),
        st.text(st.characters(codec="utf-8"), min_size=1, max_size=5),
    )
    mixed = st.lists(pieces, min_size=1, max_size=max(1, max_characters // 10)).map("".join)
    kinds = [text, _spaces(max_characters), _repeats(10 * max_characters)]
    # Cut where they are too long: a prompt that stops in the middle is one that the answer goes on with.
    kinds += [one.map(lambda text: text[:max_characters]) for one in (mixed, _code(), _json())]
    if context_tokens is not None:
        kinds.append(_near_the_limit(context_tokens))
    return st.one_of(kinds)


def _spaces(max_characters: int) -> SearchStrategy[str]:
    return st.lists(st.sampled_from(_SPACES), min_size=1, max_size=max(1, max_characters // 2)).map("".join)


def _repeats(max_characters: int) -> SearchStrategy[str]:
    """A short unit many times: what ngram and suffix proposers find again at once."""
    unit = st.text(st.characters(codec="utf-8"), min_size=1, max_size=min(12, max_characters))
    return unit.flatmap(lambda one: st.integers(1, max(1, max_characters // len(one))).map(lambda times: one * times))


def _code() -> SearchStrategy[str]:
    name = st.sampled_from(_NAMES)
    line = st.one_of(
        st.builds("def {}({}):\n    return {} + {}\n".format, name, name, name, st.integers(0, 99)),
        st.builds("for {} in range({}):\n    {}.append({})\n".format, name, st.integers(0, 99), name, name),
        st.builds("const {} = ({}) => {{ return {} * {}; }};\n".format, name, name, name, st.integers(0, 99)),
        st.builds("SELECT {} FROM {} WHERE {} > {};\n".format, name, name, name, st.integers(0, 99)),
    )
    return st.lists(line, min_size=1, max_size=8).map("".join)


def _json() -> SearchStrategy[str]:
    leaf = st.one_of(st.none(), st.booleans(), st.integers(-999, 999), st.text(max_size=10))
    tree = st.recursive(
        leaf, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(_NAMES), inner, max_size=4)
    )
    whole = st.builds(json.dumps, tree, ensure_ascii=st.booleans(), indent=st.sampled_from([None, 2]))
    encodable = whole.filter(lambda text: not any("\ud800" <= character <= "\udfff" for character in text))
    return st.builds(lambda text, cut: text[: max(1, len(text) - cut)], encodable, st.integers(0, 20))


def _near_the_limit(context_tokens: int) -> SearchStrategy[str]:
    """A word that is one token nearly everywhere, as often as fits, or a little too often."""
    return st.integers(max(1, context_tokens - 64), context_tokens + 1).map(lambda words: "the" + " the" * (words - 1))
