"""The baseline against itself: how noisy a machine is, what it could prove, how often it would have been wrong.

Both arms are plain servers of the same command, so every true gain is 0 and every verdict's right answer is known.
"""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import CannotMeasure
from pytest_specdec.core.judge import judge, level_for, planned_looks
from pytest_specdec.core.verdict import Requirement

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pytest_specdec.core.samples import ArmRun, Comparison

METRICS = ("tpot_gain", "ttft_gain", "throughput_gain")
MARGIN = 0.05
"""Gates that ask for 5 points more than the truth, and for 5 points less, are judged."""
_MOST_GATES = 120
_TELLING = 10
"""Fewer gates say nothing about how often a verdict is wrong."""


@dataclass(frozen=True)
class MetricNoise:
    """One gain, whose true value is 0."""

    objective: str
    measured: float
    """Over all rounds: the bias between two equal servers."""
    half_width_first: float
    """Half the interval at the first look: a threshold nearer to the truth than this stays unsure."""
    half_width_last: float
    """The same after ``max_rounds``."""


@dataclass(frozen=True)
class SelfTest:
    """What the machine's own noise does to verdicts."""

    rounds: int
    metrics: tuple[MetricNoise, ...]
    gates: int
    """Gates of ``load.rounds`` rounds each, drawn from the measured rounds."""
    wrong_fail: int
    """Of them, how many said FAIL to ``tpot_gain=-0.05``, which is met."""
    wrong_ok: int
    """How many said ok to ``tpot_gain=0.05``, which is missed."""


def self_test(comparison: Comparison) -> SelfTest:
    """Judge rounds of two equal servers.

    Args:
        comparison: More rounds than ``load.rounds``, so that several gates can be drawn from them.

    Raises:
        CannotMeasure: Fewer rounds than one gate needs.
    """
    load = comparison.load
    if comparison.rounds < load.rounds:
        raise CannotMeasure(f"a self-test needs at least {load.rounds} rounds, there are {comparison.rounds}")
    wrong_fail = wrong_ok = gates = 0
    for drawn in _draws(comparison):
        met, missed = judge(drawn, [Requirement("tpot_gain", -MARGIN), Requirement("tpot_gain", MARGIN)])
        wrong_fail += met.outcome == "FAIL"
        wrong_ok += missed.outcome == "ok"
        gates += 1
    return SelfTest(comparison.rounds, tuple(_noises(comparison)), gates, wrong_fail, wrong_ok)


def _noises(comparison: Comparison) -> Iterator[MetricNoise]:
    from pytest_specdec.core.evidence import Evidence
    from pytest_specdec.core.objectives import REGISTRY

    load = comparison.load
    evidence = Evidence(comparison, level_for(load.confidence, len(planned_looks(load))))
    for name in METRICS:
        try:
            REGISTRY[name].precheck(load)
            estimate = REGISTRY[name].estimate(evidence, Requirement(name, 0.0))
        except CannotMeasure:
            continue
        if estimate.low is not None and estimate.high is not None:
            half = (estimate.high - estimate.low) / 2

            def at(rounds: int, half: float = half) -> float:
                return half * math.sqrt(comparison.rounds / rounds)

            yield MetricNoise(name, estimate.value, at(load.rounds), at(load.max_rounds))


def _draws(comparison: Comparison) -> Iterator[Comparison]:
    """Gates of ``load.rounds`` rounds: all choices, or a fixed random part of them."""
    rounds = range(comparison.rounds)
    choices = list(itertools.combinations(rounds, comparison.load.rounds))
    random.Random(0).shuffle(choices)  # noqa: S311 - a fixed choice, so that the same file is judged the same
    for chosen in choices[:_MOST_GATES]:
        number = {old: new for new, old in enumerate(chosen)}
        runs: tuple[ArmRun, ...] = tuple(
            replace(run, round=number[run.round]) for run in comparison.runs if run.round in number
        )
        yield replace(comparison, runs=runs)


def self_test_lines(comparison: Comparison, result: SelfTest) -> list[str]:
    """The result in words, for a terminal."""
    load = comparison.load
    lines = [
        f"{comparison.config_id}, workload {load.workload}, {load.describe()}: {result.rounds} rounds of two equal servers",
        f"  {'':<17} measured   provable after {load.rounds:>2} rounds   after {load.max_rounds:>2}",
    ]
    lines += [
        f"  {metric.objective:<17} {100 * metric.measured:>+6.1f} %   {100 * metric.half_width_first:>14.1f} pp"
        f"   {100 * metric.half_width_last:>11.1f} pp"
        for metric in result.metrics
    ]
    tpot = next((metric for metric in result.metrics if metric.objective == "tpot_gain"), None)
    if tpot is not None:
        lines.append(
            f"  by this machine's noise alone, a TPOT gain has to differ from its threshold by {100 * tpot.half_width_first:.1f} points to be "
            f"decided at the first look, by {100 * tpot.half_width_last:.1f} at the last; prompts that gain more or less than others add to it"
        )
    if result.gates < _TELLING:
        lines.append(
            f"  {load.max_rounds} rounds hold too few gates of {load.rounds} to say how often a verdict would be wrong: raise max_rounds"
        )
        return lines
    lines.append(
        f"  of {result.gates} gates of {load.rounds} rounds drawn from these: {result.wrong_fail} said FAIL to tpot_gain={-MARGIN:g} (true), "
        f"{result.wrong_ok} said ok to tpot_gain={MARGIN:g} (false)"
    )
    return lines
