"""Which rounds are run when, and what each block of them showed on its own.

Arms alternate where both servers can be used in turn; where changing them costs a start, rounds are grouped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.metrics import tpot_s
from pytest_specdec.core.samples import ARMS

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pytest_specdec.core.course import BlockRecord, PlacedKind
    from pytest_specdec.core.samples import Arm, ArmRun

STARTS = 4
"""Of a sequential comparison in which each arm is launched twice."""


@dataclass(frozen=True)
class Block:
    """Rounds ``start`` to ``stop - 1``, run without any change of the launches."""

    start: int
    stop: int
    first: Arm
    """The arm that begins."""
    grouped: bool = False
    """All rounds of one arm, then all of the other's."""
    renewed: bool = False
    """Both servers are launched anew for it."""
    exchanged: bool = False
    """The arms take each other's devices before it; they are launched anew, too."""

    @property
    def order(self) -> tuple[Arm, Arm]:
        """The arms, the one that begins first."""
        return in_order(self.first)

    @property
    def steps(self) -> tuple[tuple[int, int, Arm], ...]:
        """Every run as (round, position of the arm in its round, arm), in the order of time."""
        if self.grouped:
            return tuple(
                (index, position, arm)
                for position, arm in enumerate(self.order)
                for index in range(self.start, self.stop)
            )
        # AB, BA, AB, ...: whatever drifts along with time falls on both arms alike.
        return tuple(
            (index, position, arm)
            for index in range(self.start, self.stop)
            for position, arm in enumerate(self.order if (index - self.start) % 2 == 0 else self.order[::-1])
        )


def in_order(first: Arm) -> tuple[Arm, Arm]:
    """Both arms, ``first`` first."""
    return ARMS if first == "baseline" else (ARMS[1], ARMS[0])


def plan_blocks(
    kind: PlacedKind, done: int, up_to: int, *, first: Arm = "baseline", twice: bool = True
) -> tuple[Block, ...]:
    """The blocks that lead from ``done`` rounds to ``up_to``.

    - ``together`` and ``swap``: one block, arms alternating; the parity of the round says who begins.
    - ``sequential``: the first time two blocks, A then B, and B then A on new launches; later one, since every block costs
      another start.
    - ``split``: two halves, the second with the devices exchanged, each time.

    Args:
        kind: The placement.
        done: Rounds that are complete in both arms.
        up_to: Rounds that there shall be, more than ``done``.
        first: For ``sequential``, the arm that begins: the one whose server is up already, if there is one.
        twice: For ``sequential``, whether the budget allows two launches of each arm.
    """
    alternating: Arm = ARMS[done % 2]
    half = done + (up_to - done + 1) // 2
    if kind == "sequential":
        if done == 0 and twice and half < up_to:
            second = in_order(first)[1]
            return (
                Block(done, half, first, grouped=True),
                Block(half, up_to, second, grouped=True, renewed=True),
            )
        return (Block(done, up_to, first, grouped=True),)
    if kind == "split" and half < up_to:
        return (Block(done, half, alternating), Block(half, up_to, ARMS[half % 2], exchanged=True))
    return (Block(done, up_to, alternating),)


def affords_two_launches(startup_s: float, budget_s: float) -> bool:
    """Whether all starts of a comparison with two launches of each arm stay within the budget of its rounds."""
    return STARTS * startup_s <= budget_s


def tpot_ratio(runs: Iterable[ArmRun]) -> float | None:
    """TPOT with speculation over TPOT without: the geometric mean over requests that both arms answered in the same round."""
    times_s: dict[tuple[int, int], dict[Arm, float]] = {}
    for run in runs:
        for sample in run.successes:
            value = tpot_s(sample)
            if value:
                times_s.setdefault((run.round, sample.index), {})[run.arm] = value
    logs = [math.log(pair["specdec"] / pair["baseline"]) for pair in times_s.values() if len(pair) == len(ARMS)]
    return math.exp(sum(logs) / len(logs)) if logs else None


def with_gains(blocks: Iterable[BlockRecord], runs: Sequence[ArmRun]) -> tuple[BlockRecord, ...]:
    """The blocks with the TPOT gain of each on its own."""
    filled = []
    for block in blocks:
        ratio = tpot_ratio(run for run in runs if 0 <= run.round - block.first_round < block.rounds)
        filled.append(replace(block, tpot_gain=None if ratio is None else 1 - ratio))
    return tuple(filled)


def device_difference(blocks: Sequence[BlockRecord]) -> str | None:
    """What exchanging the devices has shown, in a sentence; None where they were not exchanged.

    With one device ``s`` times slower than the other, the ratio of TPOTs is ``r s`` one way round and ``r / s`` the other, so
    ``s`` is the root of their quotient; in their geometric mean it cancels.
    """
    ratios: dict[tuple[tuple[int, ...], ...], list[tuple[int, float]]] = {}
    for block in blocks:
        if block.devices[1] and block.tpot_gain is not None and block.tpot_gain < 1:
            ratios.setdefault(block.devices, []).append((block.rounds, math.log(1 - block.tpot_gain)))
    if len(ratios) != 2:  # noqa: PLR2004 - one way round, and the other
        return None
    one, other = (
        sum(rounds * log for rounds, log in halves) / sum(rounds for rounds, _ in halves) for halves in ratios.values()
    )
    (base, spec), _ = ratios
    slower, factor = (spec, math.exp((one - other) / 2)) if one >= other else (base, math.exp((other - one) / 2))
    gains = (
        f"TPOT gain {100 * -math.expm1(one):.1f} % with the baseline on {_named(base)} and specdec on {_named(spec)}"
    )
    return (
        f"{gains}, {100 * -math.expm1(other):.1f} % with the devices exchanged: "
        f"{_named(slower)} {'are' if len(slower) > 1 else 'is'} {100 * (factor - 1):.1f} % slower, which cancels"
    )


def _named(devices: tuple[int, ...]) -> str:
    return f"device{'s' if len(devices) > 1 else ''} {', '.join(map(str, devices))}"
