"""How often is a verdict wrong, and how many rounds does a right one take? Simulated gates whose truth is known.

    python benchmarks/simulations/false_alarms.py --gates 2000

Every simulated gate runs rounds and looks as a real one does, until its objective is decided or the rounds are used up. It is
judged against several thresholds at once, each as if it were the only one: some the truth meets, some it misses. A FAIL where
the truth meets the threshold is a wrong FAIL, an ok where it misses is a wrong ok.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from noisy_worlds import TRUE_ACCEPTANCE, TRUE_GAIN, TTFT_S, WORLDS, K, SimulatedGate, World, marginal_factors

from pytest_specdec.core.evidence import Evidence
from pytest_specdec.core.judge import level_for, outcome_of, planned_looks
from pytest_specdec.core.objectives import REGISTRY
from pytest_specdec.core.verdict import Requirement

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.verdict import Outcome

MARGINS = (-0.05, -0.03, -0.02, -0.01, 0.0, 0.01, 0.02, 0.03, 0.05)
"""By how much the truth beats the threshold: pp for gains, a share of the value for the rest."""


@dataclass(frozen=True)
class Tally:
    """What became of the gates at one margin."""

    world: str
    objective: str
    margin: float
    gates: int
    ok: int
    failed: int
    unsure: int
    mean_rounds: float
    decided_after: dict[int, float]
    """Share of gates decided by each look."""

    @property
    def wrong(self) -> int:
        """Wrong verdicts; at a margin of 0 every ok and every FAIL is a coin's side, so the more frequent one counts."""
        if self.margin > 0:
            return self.failed
        return self.ok if self.margin < 0 else max(self.ok, self.failed)


def world_for(name: str, objective: str) -> World:
    """The world in which an objective's truth is defined.

    An absolute latency has none on a machine that wanders off, and throughput is judged for the prompts that were sent.
    """
    world = WORLDS[name]
    if objective == "throughput_gain":
        return replace(world, prompt_s=0.0, prompt_gain=0.0)
    return replace(world, wander=0.0) if objective == "ttft_p95_ms" else world


def true_value(objective: str, world: World) -> float:
    """What an endless measurement would find; in the objective's unit."""
    if objective == "tpot_gain":
        return TRUE_GAIN
    if objective == "min_acceptance_length":
        return 1 + K * TRUE_ACCEPTANCE
    if objective == "ttft_p95_ms":
        return 1000 * TTFT_S * float(np.quantile(marginal_factors(world, 2_000_000), 0.95))
    if objective == "throughput_gain":
        endless = SimulatedGate(replace(world, wander=0.0), seed=0).run_rounds(1500)
        return REGISTRY[objective].estimate(Evidence(endless, 0.95), Requirement(objective, 0.0)).value
    raise SystemExit(f"the truth about {objective} is not known here")


def threshold(objective: str, truth: float, margin: float) -> float:
    """The requirement that the truth beats by ``margin``."""
    if objective.endswith("_gain"):
        return truth - margin
    return truth * (1 - margin) if REGISTRY[objective].direction == "higher" else truth * (1 + margin)


def run_gate(seed: int, *, world: World, objective: str, truth: float) -> list[tuple[Outcome, int]]:
    """Outcome and rounds of one gate at each margin."""
    gate = SimulatedGate(world, seed)
    looks = planned_looks(gate.comparison.load)
    level = level_for(gate.comparison.load.confidence, len(looks))
    required = [threshold(objective, truth, margin) for margin in MARGINS]
    results: list[tuple[Outcome, int]] = [("unsure", looks[-1])] * len(MARGINS)
    open_ones = set(range(len(MARGINS)))
    for look in looks:
        # As judge() does it; a simulated measurement needs no check of its validity.
        estimate = REGISTRY[objective].estimate(Evidence(gate.run_rounds(look), level), Requirement(objective, truth))
        for one in sorted(open_ones):
            outcome = outcome_of(estimate, required[one], REGISTRY[objective].direction)
            if outcome != "unsure":
                results[one] = (outcome, look)
                open_ones.discard(one)
        if not open_ones:
            break
    return results


def simulate(world_name: str, objective: str, gates: int, seed: int, jobs: int) -> list[Tally]:
    """Tallies at every margin."""
    world = world_for(world_name, objective)
    one = functools.partial(run_gate, world=world, objective=objective, truth=true_value(objective, world))
    seeds = range(seed * 1_000_000, seed * 1_000_000 + gates)
    if jobs > 1:
        with ProcessPoolExecutor(jobs) as pool:
            results = list(pool.map(one, seeds, chunksize=20))
    else:
        results = [one(number) for number in seeds]
    looks = planned_looks(SimulatedGate(world, 0).comparison.load)
    return [
        _tally(world_name, objective, margin, [result[place] for result in results], looks)
        for place, margin in enumerate(MARGINS)
    ]


def _tally(
    world: str, objective: str, margin: float, results: Sequence[tuple[Outcome, int]], looks: Sequence[int]
) -> Tally:
    outcomes = [outcome for outcome, _ in results]
    decided = [rounds for outcome, rounds in results if outcome != "unsure"]
    return Tally(
        world=world,
        objective=objective,
        margin=margin,
        gates=len(results),
        ok=outcomes.count("ok"),
        failed=outcomes.count("FAIL"),
        unsure=outcomes.count("unsure"),
        mean_rounds=sum(rounds for _, rounds in results) / len(results),
        decided_after={look: sum(rounds <= look for rounds in decided) / len(results) for look in looks},
    )


def main(arguments: Sequence[str]) -> None:
    """Print a table, or JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--gates", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--world", action="append", choices=WORLDS, help="default: all but the small one")
    parser.add_argument("--objective", action="append", help="default: tpot_gain")
    parser.add_argument("--json", action="store_true", help="one object per line")
    given = parser.parse_args(arguments)
    if not given.json:
        print("world        objective              margin  wrong     ok    FAIL  unsure  rounds  decided after")
    for objective in given.objective or ["tpot_gain"]:
        for world in given.world or [name for name in WORLDS if name != "small"]:
            for tally in simulate(world, objective, given.gates, given.seed, given.jobs):
                print(_line(tally, as_json=given.json), flush=True)


def _line(tally: Tally, *, as_json: bool) -> str:
    if as_json:
        return json.dumps({**asdict(tally), "wrong": tally.wrong})
    count = tally.gates
    after = "  ".join(f"{look}: {share:4.0%}" for look, share in tally.decided_after.items())
    return (
        f"{tally.world:<12} {tally.objective:<22} {tally.margin:>+6.2f} {tally.wrong / count:>6.1%} {tally.ok / count:>6.1%} "
        f"{tally.failed / count:>7.1%} {tally.unsure / count:>7.1%} {tally.mean_rounds:>7.1f}  {after}"
    )


if __name__ == "__main__":
    main(sys.argv[1:])
