"""Builds compared answers: so many prompts, some of which differ, at a margin."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.outputs import OutputPair, Outputs, tie_margin

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pytest_specdec.core.outputs import Compared, Condition

LENGTH = 32


def pair(
    prompt: int,
    *,
    margin: float | None = None,
    compared: Compared = "speculation",
    condition: Condition = "load",
    number: int = 0,
    at: int = 5,
    by: int = 1,
) -> OutputPair:
    """An equal pair, or one that parts at ``at`` where the token of answer ``by`` is ``margin`` nats below the best."""
    differs = margin is not None
    gaps = (0.0, margin or 0.0) if by else (margin or 0.0, 0.0)
    return OutputPair(
        compared=compared,
        condition=condition,
        round=number,
        index=prompt,
        prompt=prompt,
        lengths=(LENGTH, LENGTH),
        finish_reasons=("length", "length"),
        digests=("a", "b" if differs else "a"),
        first_difference=at if differs else None,
        gaps_nats=gaps if differs else None,
    )


def outputs_of(
    *,
    prompts: int = 64,
    rounds: int = 2,
    load: Mapping[int, float] | None = None,
    alone: Mapping[int, float] | None = None,
    noise: Mapping[int, float] | None = None,
    once: Mapping[int, float] | None = None,
) -> Outputs:
    """A comparison of answers.

    Args:
        prompts: Each asked in every round, and alone.
        rounds: Under load.
        load: Prompts that differ in every round, with the margin.
        alone: Likewise for answers one at a time.
        noise: Likewise for the baseline with itself.
        once: Prompts that differ in the first round only.
    """
    load, alone, noise, once = (which or {} for which in (load, alone, noise, once))
    pairs = [
        pair(prompt, margin=load.get(prompt, once.get(prompt) if number == 0 else None), number=number)
        for number in range(rounds)
        for prompt in range(prompts)
    ]
    pairs += [pair(prompt, margin=alone.get(prompt), condition="alone") for prompt in range(prompts)]
    pairs += [
        pair(prompt, margin=noise.get(prompt), compared="baseline", condition="composition")
        for prompt in range(prompts)
    ]
    margin, basis = tie_margin(pairs)
    return Outputs(tuple(pairs), "at concurrency 8", "one at a time", margin, basis)
