"""What can be seen of an answer without reading it: does it loop, is it empty, is its text damaged?

Answers are private. They are looked at once, when they arrive, and only these facts are kept.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.asked_form import AskedForm, has_form, is_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.asked_form import ToolCall

NGRAM = 4
END_TOKENS = 32
"""An answer loops at its end: that many last tokens are looked at."""
SHORTEST = 48
"""Shorter answers have too little before their end that could be repeated."""
LOOPING = 0.8
"""Share of repeated n-grams at the end from which on an answer counts as a loop; lists and tables stay well below it."""
REPLACEMENT = "\ufffd"
"""What a tokenizer puts in place of bytes that are no UTF-8."""

NOTHING_ASKED = AskedForm()

_JSON_BEGINS = re.compile(r'\{\s*["}]|\[\s*[{"]')
"""Not any bracket: ``[Your Name]`` and ``{name}`` stand in ordinary letters."""


@dataclass(frozen=True)
class AnswerForm:
    """Facts about one answer."""

    repeated_share: float | None
    """Of the 4-grams at its end, those that had occurred before in the same answer; None for a short answer, and without token ids."""
    blank: bool
    """Nothing but white space."""
    damaged: bool
    """Replacement characters in the text, where bytes were no UTF-8."""
    parses: bool | None = None
    """Whether an answer that begins as JSON is JSON; None for one that does not begin so or whose form was asked for, and where
    ``max_tokens`` cut it."""
    as_asked: bool | None = None
    """Whether it has the form that the request asked for: JSON, one of the choices, calls of the tools whose arguments are JSON. None
    where none was asked for, and where ``max_tokens`` cut it."""
    calls: bool | None = None
    """Whether it calls a tool; None where none is offered, and where ``max_tokens`` cut it."""

    @property
    def loops(self) -> bool:
        """Whether its end only repeats what came before."""
        return self.repeated_share is not None and self.repeated_share >= LOOPING


def repeated_share(tokens: Sequence[int] | None) -> float | None:
    """Share of the 4-grams among the last 32 tokens that had occurred before; None for fewer than 48 tokens.

    Args:
        tokens: The whole answer; None where the server sent no token ids.
    """
    if tokens is None or len(tokens) < SHORTEST:
        return None
    seen: set[tuple[int, ...]] = set()
    repeated = 0
    first_at_end = len(tokens) - END_TOKENS
    for start in range(len(tokens) - NGRAM + 1):
        ngram = tuple(tokens[start : start + NGRAM])
        repeated += start >= first_at_end and ngram in seen
        seen.add(ngram)
    return repeated / (END_TOKENS - NGRAM + 1)


def parses_as_json(text: str) -> bool | None:
    """Whether an answer that begins as an object or a list of objects or strings is JSON, in a fence or without; None for others."""
    inner = text.strip()
    if inner.startswith("```"):
        inner = inner.partition("\n")[2].strip().removesuffix("```").strip()
    if not _JSON_BEGINS.match(inner):
        return None
    return is_json(inner)


def form_of(
    text: str,
    tokens: Sequence[int] | None,
    *,
    cut: bool = False,
    asked: AskedForm = NOTHING_ASKED,
    content: str = "",
    calls: Sequence[ToolCall] = (),
) -> AnswerForm:
    """The facts about an answer.

    Args:
        text: All of it, arguments of tool calls included.
        tokens: Its token ids, where they are known.
        cut: Whether ``max_tokens`` ended it, so that what it was going to be cannot be told.
        asked: The form that the request asked for.
        content: The text without reasoning and calls.
        calls: Of tools.
    """
    as_asked = None if cut else has_form(asked, content, calls)
    return AnswerForm(
        repeated_share=repeated_share(tokens),
        blank=not text.strip() and not calls,
        damaged=REPLACEMENT in text,
        parses=None if cut or as_asked is not None else parses_as_json(text),
        as_asked=as_asked,
        calls=bool(calls) if asked.tools and not cut else None,
    )
