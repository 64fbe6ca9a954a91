"""Which token the pretended model samples at a temperature above 0.

Every position of a prompt's answer has a few candidates whose probabilities follow from (model, prompt, position) alone,
so that servers with and without speculation sample from the same distribution. The draws follow from the request's seed
and from the kind of server: as in vLLM, a speculating server spends its randomness in another way.
"""

from __future__ import annotations

import hashlib
import math
import zlib
from dataclasses import dataclass
from functools import lru_cache

ANSWER_TOKENS = range(30_000, 40_000)
"""Apart from those of prompts, so that a prompt that ends in part of an answer is continued where it stopped."""
_CANDIDATES = 6
_NEAREST, _FARTHEST = 0.5, 3.0
"""Logits of the other candidates lie so far below the first; its probability is then about 0.4 to 0.6 at temperature 1."""
IMPOSSIBLE = math.log(1e-6)


@dataclass(frozen=True)
class TokenChoice:
    """The sampler of one request."""

    prompt: str
    """Identity of (model, prompt)."""
    draws: str
    """Identity of the stream of random numbers."""
    temperature: float
    bias: float = 0.0
    """Added to the first candidate's probability, taken from the others in proportion: a sampler that is wrong."""

    def candidates(self, position: int) -> tuple[tuple[int, float], ...]:
        """Tokens and probabilities, most likely first; without the bias."""
        return _candidates(self.prompt, position, self.temperature)

    def token(self, position: int) -> int:
        """The drawn token."""
        (first, p), *others = self.candidates(position)
        biased = min(1.0, max(0.0, p + self.bias))
        left = share(f"{self.prompt}|{self.draws}|{position}|draw") - biased
        if left < 0:
            return first
        for token, other in others:
            left -= other * (1 - biased) / (1 - p)
            if left < 0:
                return token
        return others[-1][0]

    def log_probability(self, position: int, token: int) -> float:
        """Of the model, whatever the sampler makes of it."""
        p = dict(self.candidates(position)).get(token)
        return IMPOSSIBLE if p is None else math.log(p)


@lru_cache(maxsize=4096)
def _candidates(prompt: str, position: int, temperature: float) -> tuple[tuple[int, float], ...]:
    spread = _FARTHEST - _NEAREST
    others = (share(f"{prompt}|{position}|logit {rank}") for rank in range(1, _CANDIDATES))
    weights = [math.exp(logit / temperature) for logit in (0.0, *(-_NEAREST - spread * each for each in others))]
    tokens = [answer_token(f"{prompt}|{position}")]
    for rank in range(1, _CANDIDATES):
        token = answer_token(f"{prompt}|{position}|candidate {rank}")
        while token in tokens:
            token = ANSWER_TOKENS[(token - ANSWER_TOKENS.start + 1) % len(ANSWER_TOKENS)]
        tokens.append(token)
    total = sum(weights)
    pairs = ((token, weight / total) for token, weight in zip(tokens, weights, strict=True))
    return tuple(sorted(pairs, key=lambda each: -each[1]))


def answer_token(key: str) -> int:
    """One of the tokens that answers are made of."""
    return ANSWER_TOKENS[zlib.crc32(key.encode()) % len(ANSWER_TOKENS)]


def share(key: str) -> float:
    """A number from 0 to 1 that follows from the key."""
    return int.from_bytes(hashlib.blake2b(key.encode(), digest_size=6).digest(), "big") / 2**48
