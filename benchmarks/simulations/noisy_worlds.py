"""Simulated worlds whose truth is known: comparisons as noisy as real ones, growing round by round.

A world fixes how prompts, rounds and requests vary. All noise is symmetric in the logarithm and hits both arms alike, so that
the true gain stays what was asked for. Requests have two chunks (first and last), which is all that TPOT, TTFT and throughput
need; acceptance comes as the server's figures per request.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.samples import (
    ArmRun,
    ClientHealth,
    Comparison,
    RequestSample,
    RequestSpecStats,
    ServerCounters,
    WorkloadRecord,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from pytest_specdec.core.samples import Arm

    Floats = NDArray[np.float64]

TPOT_BASE_S = 0.010
TTFT_S = 0.050
TOKENS = 64
K = 3
STEPS = 24
TRUE_GAIN = 0.30
TRUE_ACCEPTANCE = 0.5
"""Of each drafted token; the true acceptance length is 1 + 3 x 0.5."""


@dataclass(frozen=True)
class World:
    """Sigmas of lognormal factors, unless said otherwise."""

    prompt_s: float
    """How fast a prompt is, the same in both arms: pairing removes it."""
    prompt_gain: float
    """How much a prompt's ratio of the arms differs from the mean one."""
    request: float
    """Every request anew."""
    run: float
    """Every run (half of a round) anew."""
    wander: float = 0.0
    """Steps of a random walk through the runs, as of a machine that warms up or cools down."""
    outliers: float = 0.0
    """Share of requests that take two to six times as long, in either arm."""
    slow_runs: float = 0.0
    """Share of runs that are 15 % slower as a whole."""
    prompt_acceptance: float = 8.0
    """Concentration of the Beta distribution of a prompt's acceptance: less is more different prompts."""
    requests: int = 64


WORLDS = {
    "calm": World(prompt_s=0.10, prompt_gain=0.08, request=0.02, run=0.003),
    "noisy": World(prompt_s=0.20, prompt_gain=0.15, request=0.08, run=0.02, wander=0.01),
    "outliers": World(prompt_s=0.20, prompt_gain=0.15, request=0.05, run=0.01, outliers=0.03, slow_runs=0.05),
    "small": World(prompt_s=0.20, prompt_gain=0.05, request=0.05, run=0.01, wander=0.01, requests=16),
    "few prompts": World(prompt_s=0.20, prompt_gain=0.20, request=0.05, run=0.01, requests=8, prompt_acceptance=4.0),
}


class SimulatedGate:
    """One gate in one world: a comparison that gets more rounds on demand."""

    def __init__(self, world: World, seed: int, load: LoadSpec | None = None) -> None:
        self.world = world
        self.rng = np.random.default_rng(seed)
        count = world.requests
        load = replace(load or LoadSpec(concurrency=4), num_requests=count, max_tokens=TOKENS)
        self.prompt = world.prompt_s * self.rng.standard_normal(count)
        self.prompt_gain = world.prompt_gain * self.rng.standard_normal(count)
        a = world.prompt_acceptance * TRUE_ACCEPTANCE
        share = self.rng.beta(a, world.prompt_acceptance - a, size=count)
        self.accepted = self.rng.binomial(K, np.repeat(share[:, None], STEPS, axis=1))
        self.walk = 0.0
        self.comparison = Comparison(
            config_id="simulated",
            method="eagle3",
            num_speculative_tokens=K,
            load=load,
            workload=WorkloadRecord("simulated", "", "", count),
            servers=(),
            runs=(),
        )

    def run_rounds(self, up_to: int) -> Comparison:
        """The comparison with so many rounds."""
        while self.comparison.rounds < up_to:
            index = self.comparison.rounds
            order: tuple[Arm, Arm] = ("baseline", "specdec") if index % 2 == 0 else ("specdec", "baseline")
            runs = tuple(self._run(arm, index, place) for place, arm in enumerate(order))
            self.comparison = replace(self.comparison, runs=self.comparison.runs + runs)
        return self.comparison

    def _factors(self) -> Floats:
        world, count = self.world, self.world.requests
        self.walk += world.wander * self.rng.standard_normal()
        shared = self.walk + world.run * self.rng.standard_normal()
        if self.rng.random() < world.slow_runs:
            shared += np.log(1.15)
        return np.asarray(np.exp(self.prompt + shared + _request_noise(world, count, self.rng)))

    def _run(self, arm: Arm, index: int, place: int) -> ArmRun:
        factors = self._factors()
        tpot_s = TPOT_BASE_S * factors
        if arm == "specdec":
            tpot_s = tpot_s * (1 - TRUE_GAIN) * np.exp(self.prompt_gain)
        ttft_s = TTFT_S * self._factors()
        samples = self._samples(arm, tpot_s.tolist(), ttft_s.tolist())
        speculating = arm == "specdec"
        count = len(samples)
        return ArmRun(
            arm=arm,
            round=index,
            order=place,
            started_unix_s=0.0,
            duration_s=max(sample.token_times_s[-1] for sample in samples),
            samples=tuple(samples),
            counters=ServerCounters(
                drafts=STEPS * count if speculating else None,
                draft_tokens=K * STEPS * count if speculating else None,
                accepted_tokens=int(self.accepted.sum()) if speculating else None,
                decode_steps=STEPS * count if speculating else TOKENS * count - count,
                generation_tokens=TOKENS * count,
                finished_requests=count,
            ),
            client=ClientHealth(0.0, 0.0, 0.0),
        )

    def _samples(self, arm: Arm, tpot_s: list[float], ttft_s: list[float]) -> list[RequestSample]:
        slots = [0.0] * (self.comparison.load.concurrency or 1)
        samples = []
        for index, (tpot, ttft) in enumerate(zip(tpot_s, ttft_s, strict=True)):
            slot = slots.index(min(slots))
            sent_s, first_s = slots[slot], slots[slot] + ttft
            slots[slot] = first_s + tpot * (TOKENS - 1)
            samples.append(
                RequestSample(
                    index=index,
                    prompt=index,
                    category=None,
                    due_s=None,
                    sent_s=sent_s,
                    token_times_s=(first_s, slots[slot]),
                    completion_tokens=TOKENS,
                    spec=RequestSpecStats(STEPS, K * STEPS, int(self.accepted[index].sum()))
                    if arm == "specdec"
                    else None,
                )
            )
        return samples


def _request_noise(world: World, count: int, rng: np.random.Generator) -> Floats:
    own = world.request * rng.standard_normal(count)
    slow = rng.random(count) < world.outliers
    own[slow] += np.log(rng.uniform(2, 6, size=int(slow.sum())))
    return own


def marginal_factors(world: World, count: int) -> Floats:
    """Factors of so many requests, each of another prompt in another run: the distribution that percentiles are taken of."""
    rng = np.random.default_rng(0)
    shared = world.run * rng.standard_normal(count) + np.log(1.15) * (rng.random(count) < world.slow_runs)
    prompt = world.prompt_s * rng.standard_normal(count)
    return np.asarray(np.exp(prompt + shared + _request_noise(world, count, rng)))
