"""The steady window of a run, its output throughput, and whether a request rate was the limit instead of the server."""

from __future__ import annotations

import bisect
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from pytest_specdec.core.intervals import Floats
    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import Arm, ArmRun, Comparison, RequestSample

KEPT_UP = 0.95
"""From this share of the offered rate on, a server kept up with it."""


def steady_window(run: ArmRun, load: LoadSpec) -> tuple[float, float] | None:
    """Start and end of the time in which the server was as busy as the load makes it; None when there is no such time.

    Closed loop: from the moment when the first ``concurrency`` requests have all got their first token (until then slots
    are still being filled) to the moment when the last request is sent (after it, finished ones are not replaced).
    At a request rate, which only matters when arrivals saturate the server: from the first completion to the last arrival.
    """
    samples = sorted(run.successes, key=lambda sample: sample.sent_s)
    if not samples:
        return None
    if load.concurrency is None:
        start = min(sample.token_times_s[-1] for sample in samples)
    else:
        if len(samples) < 2 * load.concurrency:
            return None
        start = max(sample.token_times_s[0] for sample in samples[: load.concurrency])
    end = samples[-1].sent_s
    return (start, end) if end > start else None


def output_throughput(run: ArmRun, load: LoadSpec) -> float | None:
    """Tokens per second that arrived within the steady window, each at the time of its chunk; None without a window."""
    window = steady_window(run, load)
    if window is None:
        return None
    start, end = window
    return sum(_tokens_between(sample, start, end) for sample in run.successes) / (end - start)


def _tokens_between(sample: RequestSample, start: float, end: float) -> float:
    """Tokens of the chunks in ``(start, end]``; where chunks do not tell theirs, those after the first share evenly."""
    times_s, tokens = sample.token_times_s, sample.completion_tokens
    first, last = bisect.bisect_right(times_s, start), bisect.bisect_right(times_s, end)
    if last - first == len(times_s):
        return tokens
    if sample.chunk_tokens is not None:
        return sum(sample.chunk_tokens[first:last])
    if first == last:
        return 0.0
    later = (tokens - 1) / (len(times_s) - 1)
    return (last - first) * later + (1 - later if first == 0 else 0.0)


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
    samples = [sample for sample in run.successes if sample.due_s is not None]
    due_s = np.sort([sample.due_s for sample in samples if sample.due_s is not None])
    done_s = np.sort([sample.token_times_s[-1] for sample in samples])
    if len(samples) < 2:  # noqa: PLR2004 - one arrival has no rate, and cannot saturate anything
        return 1.0
    return _seconds_per_request(due_s) / _seconds_per_request(done_s)


def _seconds_per_request(ascending: Floats) -> float:
    rank = np.arange(len(ascending)) - (len(ascending) - 1) / 2
    return float((rank * ascending).sum() / (rank**2).sum())
