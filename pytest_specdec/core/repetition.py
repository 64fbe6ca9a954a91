"""How much of an answer could be looked up: what ngram and suffix decoding live on."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_WORD = re.compile(r"\w+|[^\w\s]")
_CONTEXT = 2
"""Words that must have stood together before, for the next one to be looked up behind them."""


def lookup_share(pairs: Iterable[tuple[str, str]]) -> float | None:
    """Share of the answers' words that a lookup of the two words before them, in prompt and answer so far, would have found.

    This is what prompt lookup (ngram) does with tokens; words, being larger, make it a little harsher. The latest place where
    the two words stood counts.

    Args:
        pairs: Prompt and answer.

    Returns:
        None where the answers hold no word.
    """
    found = total = 0
    for prompt, answer in pairs:
        words = _WORD.findall(prompt)
        start = len(words)
        words += _WORD.findall(answer)
        followers: dict[tuple[str, ...], str] = {}
        for place in range(_CONTEXT, len(words)):
            context = tuple(words[place - _CONTEXT : place])
            if place >= start:
                total += 1
                found += followers.get(context) == words[place]
            followers[context] = words[place]
    return found / total if total else None
