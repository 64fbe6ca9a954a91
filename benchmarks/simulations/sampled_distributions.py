"""How often do the tests of sampled answers call equal servers different, and how often do they find a sampler that is wrong?

    python benchmarks/simulations/sampled_distributions.py --runs 500

Every run draws a new model: what follows a beginning has probabilities of its own. Both servers sample from it, one of them
with its most likely token's probability shifted, or at another temperature. The verdict is that of ``lossless=True``.
"""

from __future__ import annotations

import argparse
import functools
import json
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.distributions import PROMPTS, SAMPLES, TOKENS
from pytest_specdec.core.sampled_lossless import judge_distributions, sampled_verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    Floats = NDArray[np.float64]

CONFIDENCE = 0.95


@dataclass(frozen=True)
class World:
    """Logits of what may follow a beginning: ``nodes`` to an array of ``(nodes, candidates)``."""

    name: str
    logits: Callable[[np.random.Generator, int], Floats]


def _even(rng: np.random.Generator, nodes: int) -> Floats:
    """Six candidates, the first at 0.4 to 0.6: what the stand-in server samples from."""
    logits = -rng.uniform(0.5, 3.0, size=(nodes, 6))
    logits[:, 0] = 0
    return logits


def _long_tail(rng: np.random.Generator, nodes: int) -> Floats:
    """A small model's hesitation: 200 candidates with Zipf-like weights, the first at about 0.3."""
    exponent = rng.uniform(1.2, 1.8, size=(nodes, 1))
    weights: Floats = -exponent * np.log(np.arange(1, 201))
    return weights


def _mostly_sure(rng: np.random.Generator, nodes: int) -> Floats:
    """A large model: seven positions in ten are all but decided, the others open."""
    logits = _long_tail(rng, nodes)
    sure = rng.random(nodes) < 0.7
    logits[sure, 0] += rng.uniform(3, 7, size=sure.sum())
    return logits


WORLDS = {
    world.name: world for world in (World("even", _even), World("long tail", _long_tail), World("sure", _mostly_sure))
}


@dataclass(frozen=True)
class Sampler:
    """What one server does with the model's logits."""

    bias: float = 0.0
    temperature: float = 0.8

    def probabilities(self, logits: Floats) -> Floats:
        """Of each candidate, a row per node."""
        weights = np.exp((logits - logits.max(axis=1, keepdims=True)) / self.temperature)
        p: Floats = weights / weights.sum(axis=1, keepdims=True)
        rows, top = np.arange(len(p)), p.argmax(axis=1)
        first = p[rows, top]
        biased = np.minimum(1.0, first + self.bias)
        p *= ((1 - biased) / np.maximum(1 - first, 1e-12))[:, None]
        p[rows, top] = biased
        return p


def draw(world: World, rng: np.random.Generator, arms: list[tuple[Sampler, int]], tokens: int) -> list[list[list[int]]]:
    """Answers of each arm to one prompt, from one tree of beginnings."""
    sizes = [size for _, size in arms]
    nodes = np.zeros(sum(sizes), dtype=np.int64)
    answers = np.empty((len(nodes), tokens), dtype=np.int64)
    for position in range(tokens):
        logits = world.logits(rng, int(nodes.max()) + 1)
        start = 0
        for sampler, size in arms:
            rows = slice(start, start + size)
            cumulative = np.cumsum(sampler.probabilities(logits), axis=1)[nodes[rows]]
            answers[rows, position] = np.minimum((cumulative < rng.random((size, 1))).sum(axis=1), logits.shape[1] - 1)
            start += size
        nodes = np.unique(nodes * 1000 + answers[:, position], return_inverse=True)[1]
    return [part.tolist() for part in np.split(answers, np.cumsum(sizes)[:-1])]


def one_run(world: str, sampler: Sampler, budget: tuple[int, int, int], seed: int) -> tuple[str, str]:
    """Outcome and the test that spoke loudest."""
    prompts, samples, tokens = budget
    rng = np.random.default_rng(seed)
    spec, base = {}, {}
    for prompt in range(prompts):
        spec[prompt], base[prompt] = draw(WORLDS[world], rng, [(sampler, samples), (Sampler(), samples)], tokens)
    sampled = judge_distributions(
        spec, base, tokens=tokens, confidence=CONFIDENCE, temperature=Sampler().temperature, concurrency=1
    )
    return sampled_verdict(sampled, CONFIDENCE).outcome, sampled.speculation.least.name


def main() -> None:
    """Print one line of JSON per world and sampler."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument(
        "--budget", type=int, nargs=3, default=(PROMPTS, SAMPLES, TOKENS), help="prompts, samples, tokens"
    )
    parser.add_argument("--bias", type=float, nargs="+", default=[0.0, 0.03, 0.05], help="of the most likely token")
    parser.add_argument("--temperature", type=float, nargs="*", default=[1.0], help="of a server that should use 0.8")
    parser.add_argument("--worlds", nargs="+", choices=sorted(WORLDS), default=list(WORLDS))
    parser.add_argument("--processes", type=int, default=1)
    arguments = parser.parse_args()
    samplers = [Sampler(bias=bias) for bias in arguments.bias] + [
        Sampler(temperature=one) for one in arguments.temperature
    ]
    with ProcessPoolExecutor(arguments.processes) as pool:
        for world in arguments.worlds:
            for sampler in samplers:
                run = functools.partial(one_run, world, sampler, tuple(arguments.budget))
                results = list(pool.map(run, range(arguments.runs), chunksize=10))
                shares = {name: count / arguments.runs for name, count in Counter(one for one, _ in results).items()}
                loudest = Counter(test for outcome, test in results if outcome == "FAIL").most_common(3)
                row = {"world": world, "bias": sampler.bias, "temperature": sampler.temperature, "runs": arguments.runs}
                print(json.dumps(row | shares | {"found by": loudest}), flush=True)


if __name__ == "__main__":
    main()
