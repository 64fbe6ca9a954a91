"""The model that the stand-in server pretends to run: what it answers, what a draft gets right, and how long steps take.

Pure: no clock, no sockets. The same prompt has the same answer on every server, with and without speculation.
"""

from __future__ import annotations

import hashlib
import math
import random
import re
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.testing.knobs import KnobError
from pytest_specdec.testing.token_choice import ANSWER_TOKENS, TokenChoice, answer_token, share

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.testing.knobs import Knobs

END_TOKEN = 2
"""Ends an answer; its text is empty, as in vLLM's stream."""
_START_TOKEN = 1
_PROMPT_TOKENS = range(100, 30_000)
_CONSONANTS = "bcdfghjklmnprstvwxyz"
_VOWELS = "aeiou"
_DEFAULT_ACCEPTANCE = 0.7
_TIE_GAP = 0.01
_CLEAR_GAP = 6.0
_EARLY = 16
"""Answers diverge within their first tokens, so that short ones do too."""


def token_text(token: int) -> str:
    """Text of one token: a word of two syllables with a leading space, or nothing for the end token."""
    if token not in ANSWER_TOKENS:
        return "" if token <= END_TOKEN else f" <{token}>"
    syllables = divmod(token - ANSWER_TOKENS.start, len(_CONSONANTS) * len(_VOWELS))
    return " " + "".join(_CONSONANTS[part // len(_VOWELS)] + _VOWELS[part % len(_VOWELS)] for part in syllables)


def tokens_of_text(text: str) -> tuple[int, ...]:
    """Token ids of a prompt: one per word or punctuation mark."""
    width = len(_PROMPT_TOKENS)
    return tuple(_PROMPT_TOKENS.start + zlib.crc32(word.encode()) % width for word in re.findall(r"\w+|[^\w\s]", text))


def tokens_of_chat(messages: Sequence[tuple[str, str]]) -> tuple[int, ...]:
    """Token ids of (role, content) pairs in a chat template, with the generation prompt at the end."""
    tokens: list[int] = []
    for role, content in messages:
        tokens += [_START_TOKEN, *tokens_of_text(role), *tokens_of_text(content), END_TOKEN]
    return (*tokens, _START_TOKEN, *tokens_of_text("assistant"))


def split_context(tokens: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Split a prompt of token ids into the prompt proper and the part of an answer that it ends with."""
    end = len(tokens)
    while end > 1 and tokens[end - 1] in ANSWER_TOKENS:
        end -= 1
    return tuple(tokens[:end]), tuple(tokens[end:])


@dataclass(frozen=True)
class Oracle:
    """Everything the model would say to one prompt: ``identity`` is of (model, prompt, sampling seed)."""

    identity: str
    natural_tokens: int
    """Length of the natural answer, end token included."""
    corrupt_at: int | None = None
    """Position of the first wrong token of a corrupted answer."""
    tie_at: int | None = None
    """Position at which the other of two equally likely tokens is taken."""
    choice: TokenChoice | None = None
    """Samples the tokens; None for greedy decoding."""

    def token(self, position: int) -> int:
        """The token at a position, the end token where the natural answer ends."""
        diverged = [at for at in (self.corrupt_at, self.tie_at) if at is not None and at <= position]
        if not diverged:
            return self.greedy(position)
        first = min(diverged)
        if position == first:
            return self.alternative(position)
        if position == self.natural_tokens - 1:
            return END_TOKEN
        return answer_token(f"{self.identity}|after {first}|{position}")

    def greedy(self, position: int) -> int:
        """The token of an undisturbed answer; a sampled one at a temperature above 0."""
        if position == self.natural_tokens - 1:
            return END_TOKEN
        return self.choice.token(position) if self.choice else answer_token(f"{self.identity}|{position}")

    def best(self, position: int, count: int) -> list[tuple[int, float]]:
        """The most likely tokens and their log-probabilities."""
        if self.choice and position != self.natural_tokens - 1:
            return [(token, math.log(p)) for token, p in self.choice.candidates(position)[:count]]
        tokens = [self.greedy(position), self.alternative(position)][:count]
        return [(token, self.log_probability(position, token)) for token in tokens]

    def alternative(self, position: int) -> int:
        """The runner-up."""
        other = answer_token(f"{self.identity}|instead of {position}")
        return other if other != self.greedy(position) else ANSWER_TOKENS[other - ANSWER_TOKENS.start - 1]

    def log_probability(self, position: int, token: int) -> float:
        """Log-probability of a token at a position: the runner-up is as likely at one position, and far off elsewhere."""
        if self.choice and position != self.natural_tokens - 1:
            return self.choice.log_probability(position, token)
        gap = _TIE_GAP if position == tie_position(self.identity, self.natural_tokens) else _CLEAR_GAP
        best = -math.log1p(math.exp(-gap))
        if token == self.greedy(position):
            return best
        return best - gap if token == self.alternative(position) else best - 2 * _CLEAR_GAP


def oracle_of(
    knobs: Knobs,
    model: str,
    prompt: Sequence[int],
    sampling_seed: int | None,
    *,
    temperature: float = 1.0,
    draws: str = "",
    noise_key: str = "",
) -> Oracle:
    """What ``model`` would say to ``prompt``.

    Args:
        knobs: Of the server.
        model: Its target.
        prompt: Token ids.
        sampling_seed: None for greedy decoding.
        temperature: Of sampling.
        draws: Distinguishes servers that draw other tokens from the same seed.
        noise_key: Distinguishes requests for which numerics may decide otherwise.
    """
    digest = hashlib.blake2b(",".join(map(str, prompt)).encode(), digest_size=8).hexdigest()
    greedy = f"{model}|{digest}|greedy"
    identity = greedy if sampling_seed is None else f"{model}|{digest}|{sampling_seed}"
    shortest, longest = knobs.answer_tokens
    natural = random.Random(f"{identity}|length").randint(shortest, longest)  # noqa: S311 - a simulation
    tie = tie_position(identity, natural)
    wrong = (tie + 1) % max(1, min(_EARLY, natural - 1))
    tied = share(f"{identity}|tie") < knobs.near_ties or share(f"{identity}|{noise_key}|noise") < knobs.numeric_noise
    choice = None
    if sampling_seed is not None:
        choice = TokenChoice(greedy, f"{sampling_seed}|{draws}", temperature, bias=knobs.sampler_bias)
    return Oracle(
        identity=identity,
        natural_tokens=natural,
        corrupt_at=wrong if share(f"{identity}|corrupt") < knobs.corrupt_output else None,
        tie_at=tie if tied else None,
        choice=choice,
    )


def tie_position(identity: str, natural_tokens: int) -> int:
    """The one position of an answer at which two tokens are as likely."""
    return int(share(f"{identity}|where") * max(1, min(_EARLY, natural_tokens - 1)))


def conditional_acceptance(knobs: Knobs, k: int, config: dict[str, object] | None = None) -> tuple[float, ...]:
    """Conditional acceptance of the ``k`` draft positions.

    Synthetic rejection in the speculative config comes first, as on a real server; then ``acceptance_length``, spread
    evenly; then ``acceptance``, whose last value holds for further positions.

    Raises:
        KnobError: ``acceptance_length`` cannot be reached with ``k`` positions.
    """
    synthetic = _synthetic_joint(config or {}, k)
    if synthetic is not None:
        return tuple(p / before if before else 0.0 for before, p in zip((1.0, *synthetic), synthetic, strict=False))
    if knobs.acceptance_length is not None and k:
        if not 1 <= knobs.acceptance_length <= k + 1:
            raise KnobError(f"acceptance_length must be from 1 to {k + 1} (K + 1), not {knobs.acceptance_length:g}")
        return (_even_acceptance(knobs.acceptance_length, k),) * k
    given = _DEFAULT_ACCEPTANCE if knobs.acceptance is None else knobs.acceptance
    values = given if isinstance(given, tuple) else (given,)
    return tuple(values[min(position, len(values) - 1)] for position in range(k))


@dataclass(frozen=True)
class Step:
    """One decode step of a request."""

    delivered: int
    """Tokens the client gets: fewer than accepted + 1 where the answer ends inside the step."""
    drafted: int
    accepted: int


def plan_steps(
    tokens: int, *, k: int, conditional: Sequence[float], coverage: float, rng: random.Random
) -> tuple[Step, ...]:
    """Decode steps of an answer of ``tokens`` tokens; the first token is the prefill's and has no step."""
    steps: list[Step] = []
    left = tokens - 1
    while left > 0:
        drafted = k if k and (coverage >= 1.0 or rng.random() < coverage) else 0
        accepted = 0
        while accepted < drafted and rng.random() < conditional[accepted]:
            accepted += 1
        delivered = min(left, accepted + 1)
        steps.append(Step(delivered=delivered, drafted=drafted, accepted=accepted))
        left -= delivered
    return tuple(steps)


class Pace:
    """Durations of one request's first token and decode steps, noise included."""

    def __init__(self, knobs: Knobs, *, arm: str, nth: int, identity: str, speculating: bool) -> None:
        self._knobs = knobs
        self._rng = random.Random(f"{knobs.seed}|{arm}|{identity}|{nth}")  # noqa: S311 - a simulation
        self._ratio = knobs.step_ratio if speculating else 1.0
        prompt_rng = random.Random(f"{identity}|pace")  # noqa: S311 - a simulation
        self._factor = noise(self._rng, knobs.request_jitter) * noise(prompt_rng, knobs.prompt_spread)

    def first_token_s(self, *, uptime_s: float, cached: bool) -> float:
        """Seconds from admission to the first token."""
        knobs = self._knobs
        ttft_ms = knobs.ttft_ms_cached if cached and knobs.ttft_ms_cached is not None else knobs.ttft_ms
        return ttft_ms / 1000 * self._noise(uptime_s)

    def step_s(self, *, uptime_s: float, running: int) -> float:
        """Seconds of the next decode step beside ``running - 1`` other requests."""
        plain_ms = self._knobs.tpot_ms + self._knobs.tpot_ms_per_running * max(0, running - 1)
        return plain_ms / 1000 * self._ratio * self._factor * self._noise(uptime_s)

    def _noise(self, uptime_s: float) -> float:
        return noise(self._rng, self._knobs.jitter) * max(0.0, 1 + self._knobs.drift * uptime_s / 60)


def noise(rng: random.Random, sigma: float) -> float:
    """A lognormal factor with mean 1."""
    return math.exp(rng.gauss(0.0, sigma) - sigma * sigma / 2) if sigma else 1.0


def _even_acceptance(length: float, k: int) -> float:
    """The ``c`` with ``1 + c + c^2 + ... + c^k = length``, by bisection."""
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        if sum(middle**power for power in range(k + 1)) < length:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _synthetic_joint(config: dict[str, object], k: int) -> tuple[float, ...] | None:
    """Joint acceptance that ``rejection_sample_method: synthetic`` asks for (vLLM's minimum-variance schedule for a length)."""
    if config.get("rejection_sample_method") != "synthetic":
        return None
    length, rates = config.get("synthetic_acceptance_length"), config.get("synthetic_acceptance_rates")
    if isinstance(length, (int, float)):
        return tuple(min(1.0, max(0.0, length - 1 - position)) for position in range(k))
    if isinstance(rates, list):
        return tuple(float(rate) for rate in rates[:k])
    return None
