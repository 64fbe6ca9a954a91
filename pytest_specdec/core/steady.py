"""The steady window of a run, its output throughput, and whether a request rate was the limit instead of the server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from pytest_specdec.core.sample_columns import Numbers

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.run_table import RunTable
    from pytest_specdec.core.samples import Arm, ArmRun, Comparison

KEPT_UP = 0.95
"""From this share of the offered rate on, a server kept up with it."""


def steady_window(run: ArmRun, load: LoadSpec) -> tuple[float, float] | None:
    """Start and end of the time in which the server was as busy as the load makes it; None when there is no such time.

    Closed loop: from the moment when the first ``concurrency`` requests have all got their first token (until then slots
    are still being filled) to the moment when the last request is sent (after it, finished ones are not replaced).
    At a request rate, which only matters when arrivals saturate the server: from the first completion to the last arrival.
    """
    table = run.table
    ok = np.flatnonzero(table.ok)
    if not len(ok):
        return None
    in_order = ok[np.argsort(table.sent_s[ok], kind="stable")]
    if load.concurrency is None:
        start = float(table.last_s[ok].min())
    else:
        if len(ok) < 2 * load.concurrency:
            return None
        start = float(table.first_s[in_order[: load.concurrency]].max())
    end = float(table.sent_s[in_order[-1]])
    return (start, end) if end > start else None


def output_throughput(run: ArmRun, load: LoadSpec) -> float | None:
    """Tokens per second that arrived within the steady window, each at the time of its chunk; None without a window."""
    window = steady_window(run, load)
    if window is None:
        return None
    start, end = window
    return float(sum(_tokens_between(run.table, start, end)[run.table.ok].tolist())) / (end - start)


def _tokens_between(table: RunTable, start: float, end: float) -> Floats:
    """Tokens of each request's chunks in ``(start, end]``; where chunks do not tell theirs, those after the first share evenly."""
    times = table.times
    inside = (times.flat > start) & (times.flat <= end)
    chunks = times.sums(inside)
    each = (table.tokens - 1) / np.maximum(times.sizes - 1, 1)
    with_first = (table.first_s > start) & (table.first_s <= end)
    tokens = np.where(chunks > 0, chunks * each + np.where(with_first, 1 - each, 0.0), 0.0)
    told = table.ok & table.chunk_tokens.told
    told_tokens = table.chunk_tokens.only(told)
    of_told = told_tokens.sums(told_tokens.flat * Numbers(times.counts, inside).of(told))
    tokens = np.where(told, of_told, tokens)
    return np.where(chunks == times.sizes, table.tokens, tokens)


def keeps_up(comparison: Comparison, arm: Arm) -> bool:
    """Whether an arm completed requests as fast as they arrived, to 95 %; never in a closed loop."""
    if not comparison.load.open_loop:
        return False
    shares = [completed_per_arrival(run) for run in comparison.arm(arm)]
    return sum(shares) / len(shares) >= KEPT_UP


def completed_per_arrival(run: ArmRun) -> float:
    """Rate of completions divided by the rate of arrivals.

    Both rates are slopes of a straight line through all sorted times, so the first wait and the final drain do not count: an
    arm that answers everything a second late still keeps up.
    """
    table = run.table
    planned = table.ok & ~np.isnan(table.due_s)
    due_s, done_s = np.sort(table.due_s[planned]), np.sort(table.last_s[planned])
    if len(due_s) < 2:  # noqa: PLR2004 - one arrival has no rate, and cannot saturate anything
        return 1.0
    return _seconds_per_request(due_s) / _seconds_per_request(done_s)


def _seconds_per_request(ascending: Floats) -> float:
    rank = np.arange(len(ascending)) - (len(ascending) - 1) / 2
    return float((rank * ascending).sum() / (rank**2).sum())
