"""What each prompt contributed to acceptance, from the server's figures per request or from the stream.

Only for the width of intervals: the point values come from the server's counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.metrics import draft_coverage

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pytest_specdec.core.chunks import ChunkTable
    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.samples import RequestSpecStats, ServerCounters

MERGED_SHARE = 0.05
"""Up to this share of decode steps may have been merged into other chunks before the stream no longer shows how prompts differ."""
EVERY_STEP = 0.99
"""Draft coverage from which on every step is taken to draft."""


@dataclass(frozen=True)
class Contributions:
    """Sums over all rounds; arrays of shape (prompts,)."""

    drafts: Floats
    draft_tokens: Floats
    accepted: Floats
    steps: Floats
    later_tokens: Floats
    """Tokens after the first chunk."""
    reached: tuple[Floats, ...]
    """By position: drafts with at least ``i + 1`` tokens accepted; empty where nothing tells."""
    drafts_known: bool
    """False where drafts were shared out among the steps, because the stream does not show which of them drafted."""
    source: str


def contributions(
    stats: Sequence[RequestSpecStats | None], unit: Ints, chunks: ChunkTable, counters: ServerCounters
) -> Contributions | None:
    """Contributions by unit (prompt); None where neither the server nor the stream tells.

    The stream tells while the API server keeps up: then chunks after a request's first are decode steps, and they add up
    to the server's count of them.

    Args:
        stats: What the speculating server says of each successful request by itself.
        unit: Shape (requests,), the prompt of each as a number from 0.
        chunks: Of the same requests.
        counters: Of the same runs.
    """
    known = [one for one in stats if one is not None]
    if len(known) == len(stats):
        return _from_server(known, unit, chunks)
    steps = len(chunks.time_s) - len(stats)
    counted = counters.decode_steps
    merged = counted is None or abs(counted - steps) > MERGED_SHARE * counted
    if merged or not chunks.told:
        return None
    return _from_stream(unit, chunks, counters)


def _from_server(known: Sequence[RequestSpecStats], unit: Ints, chunks: ChunkTable) -> Contributions:
    lists = [one.accepted_per_step for one in known if one.accepted_per_step is not None]
    positions = max((max(one, default=0) for one in lists), default=0) if len(lists) == len(known) else 0
    of_chunk, later = unit[chunks.request], ~chunks.first
    size = int(unit.max()) + 1
    return Contributions(
        drafts=_sums(unit, [one.drafts for one in known], size),
        draft_tokens=_sums(unit, [one.draft_tokens for one in known], size),
        accepted=_sums(unit, [one.accepted_tokens for one in known], size),
        steps=_sums(of_chunk[later], np.ones(int(later.sum())), size),
        later_tokens=_sums(of_chunk[later], chunks.tokens[later], size),
        reached=tuple(_sums(unit, [sum(count > i for count in one) for one in lists], size) for i in range(positions)),
        drafts_known=True,
        source="the server's figures per request",
    )


def _from_stream(unit: Ints, chunks: ChunkTable, counters: ServerCounters) -> Contributions:
    """One chunk after the first is one decode step, which accepted all its tokens but one.

    A step that delivered a single token may have drafted in vain, or not at all. Such steps are shared out so that drafts
    add up to the counters'.
    """
    size = int(unit.max()) + 1
    later = ~chunks.first
    of_step, tokens = unit[chunks.request][later], chunks.tokens[later]
    steps = _sums(of_step, np.ones(len(tokens)), size)
    accepting = _sums(of_step, tokens > 1, size)
    silent = float((steps - accepting).sum())
    drafting = ((counters.drafts or 0) - float(accepting.sum())) / silent if silent else 0.0
    drafts = accepting + (steps - accepting) * min(max(drafting, 0.0), 1.0)
    tokens_per_draft = counters.draft_tokens / counters.drafts if counters.drafts and counters.draft_tokens else 0.0
    coverage = draft_coverage(counters)
    return Contributions(
        drafts=drafts,
        draft_tokens=drafts * tokens_per_draft,
        accepted=_sums(of_step, np.maximum(tokens - 1, 0), size),
        steps=steps,
        later_tokens=_sums(of_step, tokens, size),
        reached=tuple(_sums(of_step, tokens > i + 1, size) for i in range(len(counters.accepted_per_position or ()))),
        drafts_known=coverage is not None and coverage >= EVERY_STEP,
        source="the stream's tokens per step",
    )


def _sums(unit: Ints, values: Sequence[float] | np.ndarray, size: int) -> Floats:
    return np.bincount(unit, weights=np.asarray(values, dtype=np.float64), minlength=size).astype(np.float64)
