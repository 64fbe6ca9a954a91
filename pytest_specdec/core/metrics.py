"""What one request and one set of counters amount to: the definitions of vLLM's own tools, and nothing statistical.

Times are seconds. ``t_1 .. t_m`` are the arrivals of a request's token chunks, ``s`` is when it was sent, ``n`` is its number
of completion tokens as the server's usage tells it.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

from pytest_specdec.core.samples import ServerCounters

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pytest_specdec.core.samples import RequestSample


def ttft_s(sample: RequestSample) -> float:
    """Time to first token, ``t_1 - s``."""
    return sample.token_times_s[0] - sample.sent_s


def e2el_s(sample: RequestSample) -> float:
    """End-to-end latency, ``t_m - s``; the usage chunk and ``[DONE]`` do not count."""
    return sample.token_times_s[-1] - sample.sent_s


def decode_span_s(sample: RequestSample) -> float:
    """``t_m - t_1``: the time in which all tokens after the first chunk arrived."""
    return sample.token_times_s[-1] - sample.token_times_s[0]


def tpot_s(sample: RequestSample) -> float | None:
    """Time per output token after the first chunk, ``(t_m - t_1) / (n - n_1)``.

    ``n_1`` is the number of tokens in the first chunk, 1 where it is unknown. Tokens are the server's count: with
    speculation one chunk carries several, so the number of chunks says nothing. None (undefined) for ``n <= n_1``.
    """
    first = sample.chunk_tokens[0] if sample.chunk_tokens else 1
    later = sample.completion_tokens - first
    return decode_span_s(sample) / later if later > 0 else None


def chunk_gaps_s(sample: RequestSample) -> tuple[float, ...]:
    """``t_i - t_(i-1)``: what ``vllm bench serve`` calls ITL. It rises under speculation while TPOT falls: smoothness only."""
    times_s = sample.token_times_s
    return tuple(later - earlier for earlier, later in itertools.pairwise(times_s))


def pooled_counters(parts: Iterable[ServerCounters]) -> ServerCounters:
    """The sum of counters of several windows; a field that any of them lacks is None."""
    known = list(parts)

    def total(name: str) -> int | None:
        values = [getattr(counters, name) for counters in known]
        return None if not values or None in values else sum(values)

    def seconds(name: str) -> float | None:
        values = [getattr(counters, name) for counters in known]
        return None if not values or None in values else float(sum(values))

    positions = [counters.accepted_per_position for counters in known if counters.accepted_per_position is not None]
    complete = bool(positions) and len(positions) == len(known) and len({len(one) for one in positions}) == 1
    return ServerCounters(
        drafts=total("drafts"),
        draft_tokens=total("draft_tokens"),
        accepted_tokens=total("accepted_tokens"),
        accepted_per_position=tuple(map(sum, zip(*positions, strict=True))) if complete else None,
        decode_steps=total("decode_steps"),
        generation_tokens=total("generation_tokens"),
        prompt_tokens=total("prompt_tokens"),
        finished_requests=total("finished_requests"),
        preemptions=total("preemptions"),
        prefix_cache_queries=total("prefix_cache_queries"),
        prefix_cache_hits=total("prefix_cache_hits"),
        tpot_sum_s=seconds("tpot_sum_s"),
        tpot_count=total("tpot_count"),
        ttft_sum_s=seconds("ttft_sum_s"),
        ttft_count=total("ttft_count"),
    )


def tokens_per_step(counters: ServerCounters) -> float | None:
    """Tokens after each request's first, per decode step; steps without a draft count too.

    None where the server does not count steps, or made none.
    """
    if not counters.decode_steps or counters.generation_tokens is None or counters.finished_requests is None:
        return None
    return (counters.generation_tokens - counters.finished_requests) / counters.decode_steps


def draft_coverage(counters: ServerCounters) -> float | None:
    """Drafting steps per decode step, at most 1; None where either is not counted, or there was no step.

    An asynchronous scheduler may verify a draft of an answer that has just ended; such a draft has no step of its own, hence
    the cap.
    """
    if not counters.decode_steps or counters.drafts is None:
        return None
    return min(1.0, counters.drafts / counters.decode_steps)


def step_ratio(*, tpot_base_s: float, tpot_spec_s: float, tokens_per_step: float) -> float:
    """What a decode step of the speculating server costs in plain steps, ``TPOT_spec x tokens per step / TPOT_base``.

    It is also the break-even: with fewer tokens per step than this, speculation loses.
    """
    return tpot_spec_s * tokens_per_step / tpot_base_s


def tokens_per_step_for_gain(gain: float, *, step_ratio: float) -> float:
    """Tokens per step that a TPOT gain needs at a given step ratio, ``r / (1 - g)``."""
    return step_ratio / (1 - gain)


def acceptance_length_for(tokens_per_step: float, *, coverage: float) -> float:
    """The acceptance length that yields so many tokens per step when only a share of the steps drafts."""
    return 1 + (tokens_per_step - 1) / coverage
