"""Figures about the prompts of a workload that need no tokenizer, counted while they pass by."""

from __future__ import annotations

import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.load.asked_reader import FORM_KEYS

if TYPE_CHECKING:
    from pytest_specdec.load.prompt_reader import Prompt

_QUANTILES = (0.0, 0.5, 0.9, 1.0)


@dataclass(frozen=True)
class WorkloadSummary:
    """Figures about a workload."""

    prompts: int
    chats: int
    """Prompts that are lists of messages; the others are plain text for the completions endpoint."""
    categories: tuple[tuple[str | None, int], ...]
    """Category (None for prompts without one) and its number of prompts, most frequent first."""
    characters: tuple[tuple[float, int], ...]
    """Quantile (0.0 is the shortest, 1.0 the longest prompt) and length in characters, all messages together."""
    max_tokens: tuple[int, int] | None
    """Smallest and largest ``max_tokens`` stated by a line; None when no line states one."""
    own_max_tokens: int
    """Prompts that state ``max_tokens``; the others use the load's."""
    forms: int = 0
    """Prompts that ask for a form of the answer: ``response_format`` or ``structured_outputs``."""
    tools: int = 0
    """Prompts that offer tools."""


class Tally:
    """Counts prompts one by one, and keeps none."""

    def __init__(self) -> None:
        self._lengths: list[int] = []
        self._stated: list[int] = []
        self._categories: Counter[str | None] = Counter()
        self._chats = 0
        self._forms = 0
        self._tools = 0
        self._contents: set[bytes] = set()

    def add(self, prompt: Prompt) -> None:
        """Counts a prompt."""
        self._lengths.append(len(prompt.text))
        if prompt.max_tokens is not None:
            self._stated.append(prompt.max_tokens)
        self._categories[prompt.category] += 1
        self._chats += prompt.messages is not None
        self._forms += any(key in prompt.asked for key in FORM_KEYS)
        self._tools += "tools" in prompt.asked
        content = repr((prompt.prompt, prompt.messages, prompt.asked))
        self._contents.add(hashlib.blake2b(content.encode("utf-8", "replace"), digest_size=8).digest())

    def summary(self) -> WorkloadSummary:
        """Of what was counted, at least one prompt."""
        lengths = sorted(self._lengths)
        return WorkloadSummary(
            prompts=len(lengths),
            chats=self._chats,
            categories=tuple(sorted(self._categories.items(), key=lambda item: (-item[1], item[0] or ""))),
            characters=tuple((share, lengths[round(share * (len(lengths) - 1))]) for share in _QUANTILES),
            max_tokens=(min(self._stated), max(self._stated)) if self._stated else None,
            own_max_tokens=len(self._stated),
            forms=self._forms,
            tools=self._tools,
        )

    def notes(self) -> tuple[str, ...]:
        """Whether prompts repeat one another."""
        total = len(self._lengths)
        repeats = total - len(self._contents)
        if not repeats:
            return ()
        return (f"{repeats} of {total} prompts repeat another one; the interval counts them as different content",)
