"""Whether a schedule is worth more than one K at every load: it may cost what no single K costs.

A server that follows a schedule can lose more by it than a fitting K brings: vLLM 0.26.0 gives up full CUDA graphs for it, and
an 8B shape that gained 54 % with K = 3 gained nothing with the schedule that was derived from that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pytest_specdec.core.advice import with_interval
from pytest_specdec.core.ranking import rankings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.duel import Duel
    from pytest_specdec.core.samples import Comparison


def better_fixed(scheduled: Sequence[Comparison], fixed: Sequence[Comparison]) -> str:
    """Which single K is faster under some load beyond doubt, and slower under none, in words; empty where there is none.

    Args:
        scheduled: What was measured of the config with the schedule.
        fixed: What was measured of those without; only what had the same requests, load and baseline is compared.
    """
    with_schedule = {one.config_id for one in scheduled}
    ks = {one.config_id: one.num_speculative_tokens for one in fixed}
    proven: dict[str, list[tuple[str, Duel]]] = {config_id: [] for config_id in ks}
    for ranking in rankings([*scheduled, *fixed]):
        where = f"on {ranking.workload} at {ranking.load.at}"
        for config_id in ks:
            for duel in (ranking.duel(config_id, other) for other in with_schedule):
                if duel is not None and duel.told_apart:
                    proven[config_id].append((where, duel))
    better = [
        (sum(duel.less_time.value for _, duel in duels), config_id)
        for config_id, duels in proven.items()
        if duels and all(duel.ahead == config_id for _, duel in duels)
    ]
    if not better:
        return ""
    _, best = max(better)
    each = ", ".join(f"{with_interval(duel.less_time, 'fraction')} {where}" for where, duel in proven[best])
    return f"K = {ks[best]} without a schedule takes less time per token, {each}, and more nowhere"
