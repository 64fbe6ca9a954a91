"""When a server is warm: its figures have stopped drifting from one batch of thrown-away requests to the next.

The first batches compile kernels, capture graphs and fill caches (TPOT 9.2 ms, then 6.2 ms; TTFT 1190 ms, then 195 ms). A batch
agrees with another one when

- its TPOT differs by at most :data:`TPOT_CHANGE`, or by :data:`TPOT_FLOOR_S`,
- and its TTFT by at most :data:`TTFT_CHANGE`, or by :data:`TTFT_FLOOR_S`; a first token waits for its turn, so it scatters more.

The server is warm when the last batch agrees with the one before. A noisy machine never gets there, although nothing drifts any
more: from the fourth batch on it is enough that the mean of the last two agrees with the mean of the two before, and that no
neighbours among the four are further apart than :data:`NOISE` times what is allowed.

TPOT of a batch is its decoding time over its decoded tokens, so that one answer of two tokens does not weigh as much as a long
one; with fewer than :data:`MIN_TOKENS` of them it says nothing, and TTFT alone decides.
"""

from __future__ import annotations

import itertools
import statistics
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.samples import RequestSample

TPOT_CHANGE = 0.1
TTFT_CHANGE = 0.25
TPOT_FLOOR_S = 0.0001
TTFT_FLOOR_S = 0.005
"""Differences below these are the client's and the scheduler's, not the server's."""
NOISE = 2.0
MIN_TOKENS = 32
"""Decoded tokens of a batch, the first ones of the answers not counted, from which on its TPOT means something."""
_PAIRS = 4


@dataclass(frozen=True)
class BatchPace:
    """How fast one batch of the warm-up was."""

    tpot_s: float | None
    """None where the answers were too short to tell."""
    ttft_s: float
    """Median."""


def pace_of(samples: Sequence[RequestSample]) -> BatchPace:
    """The pace of a batch.

    Args:
        samples: Its successful requests, at least one.
    """
    decoding = [
        (sample.token_times_s[-1] - sample.token_times_s[0], after)
        for sample in samples
        if (after := sample.completion_tokens - (sample.chunk_tokens[0] if sample.chunk_tokens else 1)) > 0
    ]
    tokens = sum(after for _, after in decoding)
    return BatchPace(
        tpot_s=sum(seconds for seconds, _ in decoding) / tokens if tokens >= MIN_TOKENS else None,
        ttft_s=statistics.median(sample.token_times_s[0] - sample.sent_s for sample in samples),
    )


def has_settled(batches: Sequence[BatchPace]) -> bool:
    """Whether the last batches say that the server is warm; never after a single one."""
    if len(batches) < 2:  # noqa: PLR2004 - a drift is seen between two
        return False
    if _agree(batches[-2], batches[-1]):
        return True
    if len(batches) < _PAIRS:
        return False
    last = batches[-_PAIRS:]
    return _agree(_mean(last[:2]), _mean(last[2:])) and all(
        _agree(before, after, times=NOISE) for before, after in itertools.pairwise(last)
    )


def _agree(before: BatchPace, after: BatchPace, *, times: float = 1.0) -> bool:
    if before.tpot_s is not None and after.tpot_s is not None:
        allowed_s = times * max(TPOT_CHANGE * min(before.tpot_s, after.tpot_s), TPOT_FLOOR_S)
        if abs(after.tpot_s - before.tpot_s) > allowed_s:
            return False
    allowed_s = times * max(TTFT_CHANGE * min(before.ttft_s, after.ttft_s), TTFT_FLOOR_S)
    return abs(after.ttft_s - before.ttft_s) <= allowed_s


def _mean(batches: Sequence[BatchPace]) -> BatchPace:
    tpots_s = [batch.tpot_s for batch in batches if batch.tpot_s is not None]
    return BatchPace(
        tpot_s=statistics.fmean(tpots_s) if tpots_s else None,
        ttft_s=statistics.fmean(batch.ttft_s for batch in batches),
    )
