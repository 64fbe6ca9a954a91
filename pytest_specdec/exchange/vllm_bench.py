"""Results of ``vllm bench serve``: ``--save-result`` writes one object, ``--append-result`` one a line.

Its names against ours: ``ttfts``, ``itls`` and ``start_times`` are seconds, everything that ends in ``_ms`` milliseconds; its ITL is our
chunk gap; ``spec_decode_acceptance_rate`` is percent, the rates per position are joint fractions. Its TPOT is ours where the first
chunk holds one token, which is all that either can know here.
"""

from __future__ import annotations

import itertools
import math
from datetime import datetime, timezone
from typing import Any

from pydantic import BaseModel, ConfigDict

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.core.samples import RequestSample, ServerCounters
from pytest_specdec.exchange.foreign_run import Fact, ForeignRun, checked, failed_sample, sample

TOOL = "vllm bench serve"
_DETAILS = ("input_lens", "output_lens", "ttfts", "itls", "start_times", "errors")
_PERCENT = 100


class _Result(BaseModel):
    """What is read of it; anything else is ignored."""

    model_config = ConfigDict(allow_inf_nan=False, protected_namespaces=())

    date: str = ""
    model_id: str = ""
    request_rate: float | str = "inf"
    max_concurrency: int | None = None
    duration: float
    completed: int
    failed: int | None = None
    num_prompts: int
    input_lens: list[int] | None = None
    output_lens: list[int] | None = None
    ttfts: list[float] | None = None
    itls: list[list[float]] | None = None
    start_times: list[float] | None = None
    errors: list[str | None] | None = None
    spec_decode_acceptance_rate: float | None = None
    spec_decode_num_drafts: int | None = None
    spec_decode_draft_tokens: int | None = None
    spec_decode_accepted_tokens: int | None = None
    spec_decode_per_position_acceptance_rates: list[float] | None = None


def is_vllm_bench(data: Any) -> bool:
    """Whether an object looks like one of its results."""
    return isinstance(data, dict) and {"completed", "duration", "num_prompts"} <= data.keys()


def read_vllm_bench(data: Any, where: str) -> ForeignRun:
    """One run.

    Raises:
        ResultFileError: It holds no single requests, or contradicts itself.
    """
    result = checked(_Result, data, where)
    counters = _counters(result, where)
    missing: dict[Fact, str] = {}
    if counters.drafts is None:
        missing["acceptance"] = "the run found no vllm:spec_decode_* counters at the server's /metrics"
    if not counters.accepted_per_position:
        missing["positions"] = missing.get("acceptance", "this version of vllm bench writes no rates per position")
    closed = _rate(result) is None
    return ForeignRun(
        tool=TOOL,
        where=where,
        model=result.model_id,
        samples=_samples(result, where),
        counters=counters,
        missing=missing,
        counts_drafts=True,
        concurrency=(result.max_concurrency or result.num_prompts) if closed else None,
        request_rate=_rate(result),
        started_unix_s=_unix_s(result.date),
        duration_s=result.duration,
    )


def _samples(result: _Result, where: str) -> tuple[RequestSample, ...]:
    if not result.completed:  # nothing to tell of any request but that it failed, details or not
        errors = result.errors or []
        padded = itertools.chain((text or "" for text in errors), itertools.repeat(""))
        return tuple(
            failed_sample(i, sent_s=0.0, error=text) for i, text in zip(range(result.num_prompts), padded, strict=False)
        )
    absent = [name for name in _DETAILS if getattr(result, name) is None]
    if absent:
        raise ResultFileError(
            f"holds totals only: {', '.join(absent)} of the single requests are missing, and without them nothing has an interval",
            where=where,
            remedy="Run vllm bench serve again with --save-detailed beside --save-result (or --append-result).",
        )
    columns = [getattr(result, name) for name in _DETAILS]
    if len({len(column) for column in columns}) > 1:
        sizes = ", ".join(f"{name} {len(column)}" for name, column in zip(_DETAILS, columns, strict=True))
        raise ResultFileError(
            f"its lists differ in length: {sizes}", where=where, remedy="Is the file whole and unedited?"
        )
    rows = list(zip(*columns, strict=True))
    first_s = min(start_s for *_, start_s, _ in rows)
    samples = tuple(_sample(index, row, first_s) for index, row in enumerate(rows))
    completed = sum(one.error is None for one in samples)
    if completed != result.completed:
        raise ResultFileError(
            f"says that {result.completed} requests completed, but {completed} of its requests have tokens and no error",
            where=where,
            remedy="Is the file whole and unedited?",
        )
    return samples


def _sample(index: int, row: tuple[Any, ...], first_s: float) -> RequestSample:
    prompt_tokens, tokens, ttft_s, gaps_s, start_s, error = row
    sent_s = start_s - first_s
    if error or not tokens:
        return failed_sample(index, sent_s=sent_s, error=error or "")
    times_s = tuple(itertools.accumulate(gaps_s, initial=sent_s + ttft_s))
    return sample(index, sent_s=sent_s, token_times_s=times_s, prompt_tokens=prompt_tokens, completion_tokens=tokens)


def _counters(result: _Result, where: str) -> ServerCounters:
    drafts, drafted, accepted = (
        result.spec_decode_num_drafts,
        result.spec_decode_draft_tokens,
        result.spec_decode_accepted_tokens,
    )
    if drafts is None or drafted is None or accepted is None:
        return ServerCounters()
    stated = result.spec_decode_acceptance_rate
    if (
        stated is not None
        and drafted
        and not math.isclose(stated, _PERCENT * accepted / drafted, rel_tol=1e-3, abs_tol=1e-9)
    ):
        raise ResultFileError(
            f"says that {stated:g} % of the draft tokens were accepted, but counts {accepted} of {drafted}",
            where=where,
            remedy="Is the file whole and unedited?",
        )
    rates = result.spec_decode_per_position_acceptance_rates
    return ServerCounters(
        drafts=drafts,
        draft_tokens=drafted,
        accepted_tokens=accepted,
        accepted_per_position=tuple(round(rate * drafts) for rate in rates) if rates else None,
    )


def _rate(result: _Result) -> float | None:
    rate = float(result.request_rate)
    return rate if math.isfinite(rate) else None


def _unix_s(date: str) -> float:
    """Its local time without a zone: good for the order of runs on one machine."""
    try:
        return datetime.strptime(date, "%Y%m%d-%H%M%S").replace(tzinfo=timezone.utc).timestamp()
    except ValueError:
        return 0.0
