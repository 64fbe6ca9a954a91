"""From answers to compared pairs: who is held against whom, and which places the baseline must be asked about."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING, Literal

from pytest_specdec.core.outputs import OutputPair

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from pytest_specdec.core.outputs import Compared, Condition
    from pytest_specdec.core.samples import Arm, ArmRun, Comparison, RequestSample

Given = Literal["load", "alone", "other"]
"""Under the declared load, one at a time, or (the baseline only, where the load is one at a time) several at once."""


@dataclass(frozen=True)
class Answers:
    """What one arm said to a number of requests."""

    arm: Arm
    given: Given
    round: int
    """Of the timed rounds; the number of the pass for the others."""
    samples: Sequence[RequestSample]

    @property
    def complete(self) -> bool:
        """Whether the tokens of every answer are known."""
        return all(sample.token_ids is not None for sample in self.samples if sample.error is None)


@dataclass(frozen=True)
class ComparedAnswers:
    """A pair with the answers behind it, which do not leave the process."""

    pair: OutputPair
    first: RequestSample
    second: RequestSample


@dataclass(frozen=True)
class Fork:
    """A place where two answers to one prompt part, once per distinct continuation."""

    prompt: int
    common: tuple[int, ...]
    """What both said before."""
    tokens: tuple[int, int]


def compared(answers: Sequence[Answers]) -> Iterator[ComparedAnswers]:
    """Every pair of answers to the same request that tells something.

    Baseline with speculating server under the same conditions, round by round; baseline with itself from one round to the next,
    and between the load and the other way of asking, which is the noise floor.
    """
    base = {given: _passes(answers, "baseline", given) for given in ("load", "alone", "other")}
    for given in ("load", "alone"):
        spec = _passes(answers, "specdec", given)
        for number in sorted(base[given].keys() & spec.keys()):
            yield from _pairs("speculation", given, number, base[given][number], spec[number])
        for one, other in pairwise(sorted(base[given])):
            yield from _pairs("baseline", given, one, base[given][one], base[given][other])
    reference = base["alone"] or base["other"]
    for number in sorted(base["load"]) if reference else ():
        yield from _pairs("baseline", "composition", number, base["load"][number], reference[min(reference)])


def _passes(answers: Iterable[Answers], arm: Arm, given: Given) -> dict[int, Answers]:
    return {one.round: one for one in answers if (one.arm, one.given) == (arm, given)}


def _pairs(
    kind: Compared, condition: Condition, number: int, one: Answers, other: Answers
) -> Iterator[ComparedAnswers]:
    """Answers to the same request, where both servers gave one."""
    others = {sample.index: sample for sample in other.samples if sample.error is None}
    for first in one.samples:
        second = others.get(first.index)
        if first.error is None and second is not None and second.prompt == first.prompt:
            yield ComparedAnswers(_pair(kind, condition, number, first, second), first, second)


def _pair(kind: Compared, condition: Condition, number: int, first: RequestSample, second: RequestSample) -> OutputPair:
    one, other = first.token_ids or (), second.token_ids or ()
    return OutputPair(
        compared=kind,
        condition=condition,
        round=number,
        index=first.index,
        prompt=first.prompt,
        lengths=(len(one), len(other)),
        finish_reasons=(first.finish_reason, second.finish_reason),
        digests=(digest(one), digest(other)),
        first_difference=first_difference(one, other),
    )


def first_difference(one: Sequence[int], other: Sequence[int]) -> int | None:
    """Where two answers part, from 0: the length of the shorter one where it is the beginning of the other; None for equal ones."""
    if one == other:
        return None
    shorter = min(len(one), len(other))
    return next((i for i in range(shorter) if one[i] != other[i]), shorter)


def digest(tokens: Iterable[int]) -> str:
    """Sixteen hexadecimal digits that stand for an answer."""
    return hashlib.blake2b(",".join(map(str, tokens)).encode(), digest_size=8).hexdigest()


def fork_of(one: ComparedAnswers) -> Fork | None:
    """Where the pair parts and both go on; None for equal answers, and where one of them stops there."""
    at = one.pair.first_difference
    first, second = one.first.token_ids or (), one.second.token_ids or ()
    if at is None or one.pair.cut:
        return None
    return Fork(one.pair.prompt, first[:at], (first[at], second[at]))


def told(one: ComparedAnswers, gaps: Callable[[Fork], tuple[tuple[float, float] | None, bool, str]]) -> ComparedAnswers:
    """The pair with what the baseline says about the place where it parts."""
    fork = fork_of(one)
    if fork is None:
        return one
    nats, least, why = gaps(fork)
    return replace(one, pair=replace(one.pair, gaps_nats=nats, gap_is_least=least, unscored=why))


def without_tokens(comparison: Comparison) -> Comparison:
    """The comparison as results keep it: answers are private, and nothing that is judged needs their tokens."""

    def bare(run: ArmRun) -> ArmRun:
        return replace(run, samples=tuple(replace(sample, token_ids=None) for sample in run.samples))

    return replace(comparison, runs=tuple(map(bare, comparison.runs)))
