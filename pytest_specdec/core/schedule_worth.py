"""Whether a schedule is worth more than one K at every load: it may cost what no single K costs.

A server that follows a schedule can lose more by it than a fitting K brings: vLLM 0.26.0 gives up full CUDA graphs for it, and
an 8B shape that gained 54 % with K = 3 gained nothing with the schedule that was derived from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.advice import with_interval
from pytest_specdec.core.duel import duel
from pytest_specdec.core.errors import CannotMeasure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specdec.core.samples import Comparison


def better_fixed(scheduled: Iterable[Comparison], fixed: Iterable[Comparison]) -> str:
    """Which single K is faster at some load beyond doubt, and slower at none, in words; empty where there is none.

    Args:
        scheduled: The config with the schedule, one comparison for each load.
        fixed: Those without, likewise, in any order.
    """
    by_load = {one.load.concurrency: one for one in scheduled}
    of_config: dict[str, list[Comparison]] = {}
    for one in fixed:
        if one.load.concurrency in by_load:
            of_config.setdefault(one.config_id, []).append(one)
    pairs = sum(map(len, of_config.values()))
    better: list[tuple[float, str]] = []
    for config_id, points in of_config.items():
        try:
            duels = {one.load.at: duel(one, by_load[one.load.concurrency], pairs=pairs) for one in points}
        except CannotMeasure:
            continue
        proven = {at: found for at, found in duels.items() if found.told_apart}
        if proven and all(found.ahead == config_id for found in proven.values()):
            each = ", ".join(f"{with_interval(found.less_time, 'fraction')} at {at}" for at, found in proven.items())
            k = points[0].num_speculative_tokens
            text = f"K = {k} without a schedule takes less time per token, {each}, and more at no load"
            better.append((sum(found.less_time.value for found in proven.values()), text))
    return max(better, default=(0.0, ""))[1]
