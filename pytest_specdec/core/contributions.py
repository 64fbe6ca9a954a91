"""What each prompt contributed to acceptance, from the server's figures per request or from the stream.

Only for the width of intervals: the point values come from the server's counters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from pytest_specdec.core.metrics import draft_coverage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from pytest_specdec.core.intervals import Floats, Ints
    from pytest_specdec.core.run_table import RunTable
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
    stats: Sequence[RequestSpecStats | None], unit: Ints, runs: Sequence[RunTable], counters: ServerCounters
) -> Contributions | None:
    """Contributions by unit (prompt); None where neither the server nor the stream tells.

    The stream tells while the API server keeps up: then chunks after a request's first are decode steps, and they add up
    to the server's count of them.

    Args:
        stats: What the speculating server says of each successful request by itself.
        unit: Shape (requests,), the prompt of each as a number from 0.
        runs: Those that the requests belong to, in the same order.
        counters: Of the same runs.
    """
    known = [one for one in stats if one is not None]
    if len(known) == len(stats):
        return _from_server(known, unit, runs)
    steps = sum(int(run.times.sizes[run.ok].sum()) for run in runs) - len(stats)
    counted = counters.decode_steps
    merged = counted is None or abs(counted - steps) > MERGED_SHARE * counted
    if merged or not all(run.chunk_tokens.told[run.ok].all() for run in runs):
        return None
    return _from_stream(unit, runs, counters)


def _from_server(known: Sequence[RequestSpecStats], unit: Ints, runs: Sequence[RunTable]) -> Contributions:
    lists = [one.accepted_per_step for one in known if one.accepted_per_step is not None]
    positions = max((max(one, default=0) for one in lists), default=0) if len(lists) == len(known) else 0
    size = int(unit.max()) + 1
    return Contributions(
        drafts=_sums(unit, [one.drafts for one in known], size),
        draft_tokens=_sums(unit, [one.draft_tokens for one in known], size),
        accepted=_sums(unit, [one.accepted_tokens for one in known], size),
        steps=_sums(unit, _steps(runs), size),
        later_tokens=_sums(unit, _later_tokens(runs), size),
        reached=tuple(_sums(unit, [sum(count > i for count in one) for one in lists], size) for i in range(positions)),
        drafts_known=True,
        source="the server's figures per request",
    )


def _from_stream(unit: Ints, runs: Sequence[RunTable], counters: ServerCounters) -> Contributions:
    """One chunk after the first is one decode step, which accepted all its tokens but one.

    A step that delivered a single token may have drafted in vain, or not at all. Such steps are shared out so that drafts
    add up to the counters'.
    """
    size = int(unit.max()) + 1

    def summed(count: Callable[[NDArray[Any]], NDArray[Any]]) -> Floats:
        return _sums(unit, _after_first(runs, count), size)

    def reaching(least: int) -> Floats:
        return summed(lambda tokens: tokens >= least)

    steps = _sums(unit, _steps(runs), size)
    accepting = reaching(2)
    silent = float((steps - accepting).sum())
    drafting = ((counters.drafts or 0) - float(accepting.sum())) / silent if silent else 0.0
    drafts = accepting + (steps - accepting) * min(max(drafting, 0.0), 1.0)
    tokens_per_draft = counters.draft_tokens / counters.drafts if counters.drafts and counters.draft_tokens else 0.0
    coverage = draft_coverage(counters)
    return Contributions(
        drafts=drafts,
        draft_tokens=drafts * tokens_per_draft,
        accepted=summed(lambda tokens: np.maximum(tokens - 1, 0)),
        steps=steps,
        later_tokens=summed(lambda tokens: tokens),
        reached=tuple(reaching(i + 2) for i in range(len(counters.accepted_per_position or ()))),
        drafts_known=coverage is not None and coverage >= EVERY_STEP,
        source="the stream's tokens per step",
    )


def _steps(runs: Sequence[RunTable]) -> Ints:
    """Chunks after the first of each successful request; shape (requests,)."""
    return np.concatenate([(run.times.sizes - 1).clip(0)[run.ok] for run in runs])


def _later_tokens(runs: Sequence[RunTable]) -> Ints:
    """Tokens after the first chunk of each successful request, whose first chunk has one where it does not tell; shape (requests,)."""
    told = np.concatenate([run.chunk_tokens.told[run.ok] for run in runs])
    untold = np.concatenate([np.where(run.times.sizes > 1, run.tokens - 1, 0)[run.ok] for run in runs])
    return np.where(told, _after_first(runs, lambda tokens: tokens), untold)


def _after_first(runs: Sequence[RunTable], count: Callable[[NDArray[Any]], NDArray[Any]]) -> Ints:
    """Sums of ``count``, which is 0 for no tokens, over the chunks after the first of each successful request; shape (requests,)."""
    chunks = [(run.chunk_tokens, run.ok) for run in runs]
    return np.concatenate([(of.sums(count(of.flat)) - count(of.first(missing=0)))[ok] for of, ok in chunks])


def _sums(unit: Ints, values: Sequence[float] | np.ndarray, size: int) -> Floats:
    return np.bincount(unit, weights=np.asarray(values, dtype=np.float64), minlength=size).astype(np.float64)
