"""From gains at several loads and K to ``num_speculative_tokens_per_batch_size``: how many tokens to draft at which batch size.

vLLM (0.24 and later, ``vllm/v1/spec_decode/dynamic/utils.py``) takes ``[[first, last, K], ...]``: batch sizes from 1 on, both ends
included, K of 0 for no drafts. The batch size is the number of requests that a step schedules, those in prefill included. Above
the last range its K holds, a gap keeps the K before it, and no K exceeds ``num_speculative_tokens``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pytest_specdec.core.k_choice import SCHEDULE_KEY, with_k

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

Schedule = tuple[tuple[int, int, int], ...]
"""``(first batch size, last batch size, K)``, contiguous from 1 on."""


@dataclass(frozen=True)
class KPoint:
    """The TPOT gain of one K at one load."""

    concurrency: int
    k: int
    gain: float
    """Over plain decoding at the same load; K of 0 gains 0 and need not be given."""


def derive_schedule(points: Sequence[KPoint]) -> Schedule:
    """The K of every batch size that gains most, over all batch sizes from 1 to the highest load.

    Between loads a gain is interpolated over the logarithm of the batch size, below the lowest it is that of the lowest. K never
    rises with the batch size: a larger batch leaves less compute for verifying drafts, so a rise is noise. Among the
    schedules that keep to that, it is the one whose gain, summed over the logarithm of the batch size, is largest; equals go to
    the smaller K.

    Args:
        points: Every K at every load, none twice.

    Raises:
        ValueError: There is no point, one is missing, or one is there twice.
    """
    table = {(point.concurrency, point.k): point.gain for point in points}
    loads = sorted({point.concurrency for point in points})
    ks = sorted({0, *(point.k for point in points)})
    table |= {(load, 0): 0.0 for load in loads}
    given = {(point.concurrency, point.k) for point in points}
    if not points or len(given) < len(points) or len(table) < len(loads) * len(ks):
        raise ValueError("a schedule needs one gain for every K at every load")
    sizes = range(1, loads[-1] + 1)
    gains = {k: [_between(loads, [table[load, k] for load in loads], size) for size in sizes] for k in ks}
    chosen = _falling(ks, gains, [math.log((size + 0.5) / (size - 0.5)) for size in sizes])
    return _ranges(chosen)


def with_schedule(speculative_config: Mapping[str, Any], schedule: Schedule) -> dict[str, Any]:
    """A speculative config that follows the schedule and drafts no more than its largest K."""
    return {
        **with_k(speculative_config, max(k for _, _, k in schedule)),
        SCHEDULE_KEY: [list(entry) for entry in schedule],
    }


def _between(loads: Sequence[int], gains: Sequence[float], size: int) -> float:
    if size <= loads[0]:
        return gains[0]
    after = next(place for place, load in enumerate(loads) if load >= size)
    low, high = math.log(loads[after - 1]), math.log(loads[after])
    share = (math.log(size) - low) / (high - low)
    return gains[after - 1] + share * (gains[after] - gains[after - 1])


def _falling(ks: Sequence[int], gains: Mapping[int, Sequence[float]], weights: Sequence[float]) -> list[int]:
    """The K of each batch size, never rising, with the largest weighted sum of gains."""
    # best[k]: the largest sum of a schedule up to here that ends in k or more, and the K it ends in.
    trail: list[dict[int, int]] = []
    totals = dict.fromkeys(ks, 0.0)
    for size, weight in enumerate(weights):
        best: dict[int, float] = {}
        before: dict[int, int] = {}
        reached, ending = -math.inf, ks[-1]
        for k in reversed(ks):
            if totals[k] >= reached:
                reached, ending = totals[k], k
            best[k], before[k] = reached + weight * gains[k][size], ending
        totals = best
        trail.append(before)
    last = min(ks, key=lambda k: (-totals[k], k))
    chosen = [last]
    for before in reversed(trail[1:]):
        chosen.append(before[chosen[-1]])
    return chosen[::-1]


def _ranges(chosen: Sequence[int]) -> Schedule:
    ranges: list[tuple[int, int, int]] = []
    for size, k in enumerate(chosen, start=1):
        if ranges and ranges[-1][2] == k:
            ranges[-1] = (ranges[-1][0], size, k)
        else:
            ranges.append((size, size, k))
    return tuple(ranges)
