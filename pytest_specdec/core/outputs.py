"""Whether two servers said the same: records of compared answers, the noise floor, and the places where answers part.

Answers are private. These records hold lengths, digests, positions and log-probabilities; texts only where they were asked for.
Two plain servers do not agree on every greedy answer either, since a batch of another composition rounds in another way. So
differences are held against those of the baseline with itself (the noise floor), and at each one the baseline says how far
each of the two tokens lies below the one it finds most likely.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

Compared = Literal["speculation", "baseline"]
"""The baseline with the speculating server, or the baseline with itself."""
Condition = Literal["load", "alone", "composition"]
"""Both answers under the declared load; both one at a time; or one of each, so that the batches were composed differently."""

MIN_TIE_MARGIN = 0.5
"""Logits from 16 to 32 are 1/8 apart in bfloat16; two of them, rounded in two computations, can swap over four such steps."""
MAX_TIE_MARGIN = 2.0
"""A token that is seven times less likely is no tie, however noisy a machine is."""
NOISE_QUANTILE = 0.95
NOISE_FACTOR = 2.0
"""One margin in twenty lies beyond the 95th percentile by definition; hardly any beyond twice that, as margins fall off quickly."""


@dataclass(frozen=True)
class OutputPair:
    """Two answers to one request, compared token by token."""

    compared: Compared
    condition: Condition
    round: int
    index: int
    """Place in the plan."""
    prompt: int
    """Which prompt of the workload: the unit of content."""
    lengths: tuple[int, int]
    """Tokens of both answers; the first is always the baseline's."""
    finish_reasons: tuple[str | None, str | None]
    digests: tuple[str, str]
    """Of the token ids: equal for equal answers."""
    first_difference: int | None = None
    """Position of the first token that differs, from 0; None for equal answers. Where one answer is the beginning of the other
    it is the length of the shorter."""
    gaps_nats: tuple[float, float] | None = None
    """How far the baseline finds each of the two tokens below the most likely one, after what both answers share; None where
    nobody asked, or where one answer has no token there."""
    gap_is_least: bool = False
    """The gaps are at least that large: a token was too unlikely for the server to list it."""
    unscored: str = ""
    """Why the baseline did not tell the gaps."""
    texts: tuple[str, str] | None = None
    """How both answers go on from there; only where outputs are kept."""

    @property
    def equal(self) -> bool:
        """Whether both answers are the same tokens."""
        return self.first_difference is None

    @property
    def cut(self) -> bool:
        """Whether one answer stops where the other goes on, without a token that ends it."""
        return self.first_difference is not None and self.first_difference == min(self.lengths)

    @property
    def margin_nats(self) -> float | None:
        """How unlikely the less likely of the two tokens is; None for equal answers and where it is not known."""
        if self.cut:
            return math.inf
        return None if self.gaps_nats is None else max(self.gaps_nats)

    def is_hard(self, tie_margin_nats: float) -> bool:
        """Whether the answers differ by more than numerics explain."""
        margin = self.margin_nats
        return margin is not None and margin > tie_margin_nats


@dataclass(frozen=True)
class OutputPass:
    """Requests that were sent for their answers alone, beside the timed rounds."""

    arm: Literal["baseline", "specdec"]
    conditions: str
    """``one at a time``, ``at concurrency 8, in another order``."""
    requests: int
    duration_s: float


@dataclass(frozen=True)
class Outputs:
    """What the comparison of answers found: everything that objectives of outputs are judged by."""

    pairs: tuple[OutputPair, ...]
    under_load: str
    """The declared load: ``at concurrency 8``."""
    otherwise: str
    """What the noise floor's other batch was: ``one at a time``."""
    tie_margin_nats: float
    """Beyond it a difference is a hard divergence, unless an objective states its own."""
    tie_margin_basis: str
    """Where it comes from."""
    passes: tuple[OutputPass, ...] = ()
    source: Literal["token ids", "tokens of logprobs"] = "token ids"
    kept: str | None = None
    """The private file with prompts and answers; None where they were not to be kept."""

    def of(self, compared: Compared, condition: Condition | None = None) -> tuple[OutputPair, ...]:
        """The pairs of one comparison."""
        return tuple(pair for pair in self.pairs if pair.compared == compared and condition in (None, pair.condition))


@dataclass(frozen=True)
class NoiseFloor:
    """How often the baseline contradicts itself when its batches are composed differently."""

    compared: int
    differing: int
    margins_nats: tuple[float, ...]

    @property
    def share(self) -> float:
        """Of the pairs that differ."""
        return self.differing / self.compared if self.compared else 0.0


@dataclass(frozen=True)
class Divergence:
    """One prompt on which the speculating server left the baseline by more than numerics explain, over all its answers."""

    prompt: int
    position: int
    """Of the first differing token of the first such answer."""
    margin_nats: float
    """Infinite where one answer stops without an end token."""
    margin_is_least: bool
    by: Literal["specdec", "baseline", "both"]
    """Whose token is the unlikely one."""
    under_load: tuple[int, int]
    """In how many answers, and of how many."""
    alone: tuple[int, int]
    texts: tuple[str, str] | None = None

    @property
    def repeats(self) -> bool:
        """Whether it was seen more than once."""
        return self.under_load[0] + self.alone[0] > 1

    @property
    def tested_again(self) -> bool:
        """Whether every way in which it was seen was tried at least twice."""
        return all(tried > 1 for seen, tried in (self.under_load, self.alone) if seen)


def noise_floor(pairs: Iterable[OutputPair]) -> NoiseFloor:
    """What the baseline does by itself in batches of another composition."""
    own = [pair for pair in pairs if pair.compared == "baseline" and pair.condition == "composition"]
    differing = [pair for pair in own if not pair.equal]
    margins = sorted(pair.margin_nats for pair in differing if pair.margin_nats is not None)
    return NoiseFloor(len(own), len(differing), tuple(margins))


def tie_margin(pairs: Iterable[OutputPair]) -> tuple[float, str]:
    """From which log-probability difference on a difference is a hard divergence, in nats, and where that comes from.

    Twice the 95th percentile of the margins at which the baseline leaves itself, within :data:`MIN_TIE_MARGIN` and
    :data:`MAX_TIE_MARGIN`.
    """
    margins = sorted(pair.margin_nats for pair in pairs if pair.compared == "baseline" and pair.margin_nats is not None)
    if not margins:
        return MIN_TIE_MARGIN, "the least: the baseline never left itself"
    high = margins[max(0, math.ceil(NOISE_QUANTILE * len(margins)) - 1)]
    of = f"{len(margins)} margin{'' if len(margins) == 1 else 's'} of the baseline with itself, 95th percentile {high:.2f}"
    derived = NOISE_FACTOR * high
    if derived <= MIN_TIE_MARGIN:
        return MIN_TIE_MARGIN, f"the least; {of}"
    if derived >= MAX_TIE_MARGIN:
        return MAX_TIE_MARGIN, f"the most; {of}"
    return derived, f"twice that of {of}"


def divergences(pairs: Sequence[OutputPair], tie_margin_nats: float) -> tuple[Divergence, ...]:
    """The hard divergences of the speculating server, one per prompt, those that repeat and the widest first."""
    by_prompt: dict[int, list[OutputPair]] = {}
    for pair in pairs:
        if pair.compared == "speculation":
            by_prompt.setdefault(pair.prompt, []).append(pair)
    found = []
    for prompt, own in by_prompt.items():
        hard = [pair for pair in own if pair.is_hard(tie_margin_nats)]
        if hard:
            first = max(hard, key=lambda pair: pair.margin_nats or 0.0)
            found.append(
                Divergence(
                    prompt=prompt,
                    position=first.first_difference or 0,
                    margin_nats=first.margin_nats or 0.0,
                    margin_is_least=first.gap_is_least,
                    by=_to_blame(first, tie_margin_nats),
                    under_load=_seen(own, hard, "load"),
                    alone=_seen(own, hard, "alone"),
                    texts=first.texts,
                )
            )
    return tuple(sorted(found, key=lambda one: (not one.repeats, -one.margin_nats, one.prompt)))


def _seen(own: Iterable[OutputPair], hard: Iterable[OutputPair], condition: Condition) -> tuple[int, int]:
    return (
        sum(pair.condition == condition for pair in hard),
        sum(pair.condition == condition for pair in own),
    )


def _to_blame(pair: OutputPair, tie_margin_nats: float) -> Literal["specdec", "baseline", "both"]:
    if pair.gaps_nats is None:  # one answer stops short: the shorter one
        return "baseline" if pair.lengths[0] < pair.lengths[1] else "specdec"
    unlikely = tuple(gap > tie_margin_nats for gap in pair.gaps_nats)
    return "both" if all(unlikely) else "baseline" if unlikely[0] else "specdec"
