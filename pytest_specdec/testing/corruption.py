"""Defects that are planted in answers, and when: what a comparison of outputs has to find."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from pytest_specdec.testing.token_choice import share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.testing.knobs import Knobs, Loop
    from pytest_specdec.testing.simulation import Step


def knobs_of_answer(knobs: Knobs, *, prompt: str, alone: bool) -> Knobs:
    """The knobs that hold for one answer: without any corruption where the knobs limit it to other answers.

    Args:
        knobs: Of the server.
        prompt: Text of the prompt; empty for token ids.
        alone: Whether no other request was under way when this one came.
    """
    spared = knobs.corrupt_only_concurrent and alone
    spared = spared or (knobs.corrupt_only_with is not None and knobs.corrupt_only_with not in prompt)
    if not spared:
        return knobs
    return dataclasses.replace(knobs, corrupt_output=0.0, swap_at_drafts=0.0, loop=None, sampler_bias=0.0)


def swapped_at_a_draft(tokens: Sequence[int], steps: Sequence[Step]) -> tuple[int, ...]:
    """The last token of the first drafting step that another step follows, and that one's first token, swapped."""
    sent = 1
    for step in steps[:-1]:
        sent += step.delivered
        if step.drafted and tokens[sent - 1] != tokens[sent]:
            return (*tokens[: sent - 1], tokens[sent], tokens[sent - 1], *tokens[sent + 1 :])
    return tuple(tokens)


def loops(knobs: Knobs, identity: str, natural_tokens: int) -> Loop | None:
    """The loop that this answer falls into; None where it does not, or ends before."""
    loop = knobs.loop
    if loop is None or natural_tokens <= loop.after or share(f"{identity}|loop") >= loop.share:
        return None
    return loop
