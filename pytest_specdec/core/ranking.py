"""Configs against each other under the same load: a ranking, and a winner where there is one beyond doubt.

The confidence is shared by all pairs of a ranking and by the looks at its measurements (Bonferroni), because the leader is
picked after the fact.
"""

from __future__ import annotations

import itertools
import math
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pytest_specdec.core.duel import Duel, duel
from pytest_specdec.core.judge import Figures
from pytest_specdec.core.summary import summarise

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Comparison
    from pytest_specdec.core.verdict import Estimate


@dataclass(frozen=True)
class Contender:
    """One config under a ranking's load; None for what could not be measured."""

    config_id: str
    method: str | None
    num_speculative_tokens: int | None
    rounds: int
    gain: Estimate | None
    """TPOT gain over the baseline, at the level of a gate's verdict."""
    problem: str
    """Why there is no gain; else empty."""
    acceptance_length: float | None
    tokens_per_step: float | None
    throughput: Estimate | None
    """Throughput gain at the highest load that was measured on this workload."""
    throughput_load: LoadSpec | None
    kv_capacity_loss: float | None
    gpu_memory_gib: float | None
    startup_s: float | None


@dataclass(frozen=True)
class Ranking:
    """Configs under one load, the largest gain first; those without a gain last."""

    workload: str
    load: LoadSpec
    contenders: tuple[Contender, ...]
    duels: tuple[Duel, ...]
    """Of all pairs that have a gain, in the order of the contenders."""

    @property
    def winner(self) -> str | None:
        """The config that is faster than every other beyond doubt; None where there is none."""
        against = [duel for duel in self.duels if self.contenders[0].config_id in (duel.ahead, duel.behind)]
        return self.contenders[0].config_id if against and all(duel.told_apart for duel in against) else None

    def duel(self, one: str, other: str) -> Duel | None:
        """How two configs compare; None where one of them has no gain."""
        return next((duel for duel in self.duels if {duel.ahead, duel.behind} == {one, other}), None)


def rankings(comparisons: Iterable[Comparison]) -> tuple[Ranking, ...]:
    """One ranking for every load under which two or more configs were measured against an equal baseline.

    Never raises: what cannot be judged is listed with its reason.

    Args:
        comparisons: Of a session; self-tests and what has no complete round are left out.
    """
    measured = [Figures(one) for one in comparisons if one.rounds and not one.is_self_test]
    groups: dict[tuple[object, ...], dict[str, Figures]] = {}
    for figures in measured:
        one = figures.comparison
        # The last one counts where a config was measured twice under conditions that differ in effort only.
        groups.setdefault((*_common(one), *one.load.asked.values()), {})[one.config_id] = figures
    return tuple(_ranked(list(group.values()), measured) for group in groups.values() if len(group) > 1)


def busyness(load: LoadSpec) -> tuple[bool, float]:
    """By which loads are put in order: arrivals at a rate before closed loops, each by size."""
    return (not load.open_loop, load.request_rate or load.concurrency or 0)


def unranked(comparisons: Iterable[Comparison]) -> tuple[tuple[str, ...], ...]:
    """Configs that were measured on the same requests, but against different baselines, so that no ranking holds them all."""
    baselines: dict[tuple[object, ...], dict[str, tuple[object, ...]]] = {}
    for one in comparisons:
        if one.rounds and not one.is_self_test:
            key = (one.workload.name, one.workload.sha256, *one.load.asked.values())
            baselines.setdefault(key, {})[one.config_id] = baseline_of(one)
    return tuple(dict.fromkeys(tuple(group) for group in baselines.values() if len(set(group.values())) > 1))


def _common(one: Comparison) -> tuple[object, ...]:
    """What configs must share beside the load: the prompts, and the server without speculation."""
    return (one.workload.name, one.workload.sha256, *baseline_of(one))


def baseline_of(one: Comparison) -> tuple[object, ...]:
    """The plain server that a comparison was made with, without what differs from launch to launch."""
    servers = [server for server in one.servers if server.arm == "baseline"]
    return (one.device, *((s.model, s.version, _lasting(s.command)) for s in servers[:1]))


def _lasting(command: Sequence[str]) -> tuple[str, ...]:
    """Words of a command line without its port and served name, which each launch has of its own."""
    text = "\0".join(command)
    for option in ("--port", "--served-model-name"):
        found = re.search(rf"{option}[=\0]([^\0]+)", text)
        text = text.replace(found[1], "") if found else text
    return tuple(text.split("\0"))


def _ranked(group: list[Figures], measured: Sequence[Figures]) -> Ranking:
    contenders = [_contender(figures, measured) for figures in group]
    order = sorted(range(len(group)), key=lambda place: -_value(contenders[place].gain))
    with_gain = [group[place].comparison for place in order if contenders[place].gain is not None]
    pairs = list(itertools.combinations(with_gain, 2))
    return Ranking(
        workload=group[0].comparison.workload.name,
        load=group[0].comparison.load,
        contenders=tuple(contenders[place] for place in order),
        duels=tuple(duel(one, other, pairs=len(pairs)) for one, other in pairs),
    )


def _value(estimate: Estimate | None) -> float:
    return -math.inf if estimate is None else estimate.value


def _contender(figures: Figures, measured: Sequence[Figures]) -> Contender:
    one = figures.comparison
    gain, problem = figures.of("tpot_gain")
    summary = summarise(one)
    same = [
        other
        for other in measured
        if other.comparison.config_id == one.config_id and _common(other.comparison) == _common(one)
    ]
    busiest = max(same, key=lambda other: busyness(other.comparison.load))
    return Contender(
        config_id=one.config_id,
        method=one.method,
        num_speculative_tokens=one.num_speculative_tokens,
        rounds=one.rounds,
        gain=gain,
        problem=problem,
        acceptance_length=summary.acceptance.acceptance_length if summary.acceptance else None,
        tokens_per_step=summary.tokens_per_step,
        throughput=busiest.of("throughput_gain")[0],
        throughput_load=busiest.comparison.load,
        kv_capacity_loss=_known(figures, "max_kv_capacity_loss"),
        gpu_memory_gib=_known(figures, "max_gpu_memory_gib"),
        startup_s=_known(figures, "max_startup_s"),
    )


def _known(figures: Figures, objective: str) -> float | None:
    estimate, _ = figures.of(objective)
    return None if estimate is None else estimate.value
