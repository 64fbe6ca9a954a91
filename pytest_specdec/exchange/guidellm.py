"""Results of GuideLLM: its ``benchmarks.json``.

Its names against ours: ``time_per_output_token_ms`` is the whole latency, TTFT included, over all tokens; our TPOT is its
``inter_token_latency_ms``. Both are worked out anew here from the times of each request's first and last token, which are Unix seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import BaseModel, ConfigDict, Field

from pytest_specdec.core.errors import ResultFileError
from pytest_specdec.exchange.foreign_run import Fact, ForeignRun, checked, failed_sample, sample
from pytest_specdec.exchange.server_stats import WHERE_FROM, RequestStats, counters_of

if TYPE_CHECKING:
    from pytest_specdec.core.samples import RequestSample

TOOL = "GuideLLM"


class _Part(BaseModel):
    model_config = ConfigDict(allow_inf_nan=False)


class _Timings(_Part):
    request_start: float | None = None
    first_token_iteration: float | None = None
    last_token_iteration: float | None = None


class _Info(_Part):
    timings: _Timings
    error: str | None = None


class _Usage(_Part):
    total_tokens: int | None = None


class _ResponseMetrics(_Part):
    speculative_decoding: RequestStats | None = None


class _Request(_Part):
    info: _Info
    request_args: str | None = None
    input_metrics: _Usage
    output_metrics: _Usage
    response_metrics: _ResponseMetrics | None = None

    @property
    def sent_unix_s(self) -> float:
        return self.info.timings.request_start or 0.0

    @property
    def stats(self) -> RequestStats | None:
        return self.response_metrics.speculative_decoding if self.response_metrics else None


class _Requests(_Part):
    successful: list[_Request] = Field(default_factory=list)
    errored: list[_Request] = Field(default_factory=list)
    incomplete: list[_Request] = Field(default_factory=list)


class _Strategy(_Part):
    type_: str = ""
    kind: str = ""
    rate: float | None = None
    streams: int | None = None
    max_concurrency: int | None = None


class _Config(_Part):
    strategy: _Strategy = Field(default_factory=_Strategy)
    sample_size: int | None = None


class _Totals(_Part):
    successful: int | None = None
    errored: int | None = None


class _Metrics(_Part):
    request_totals: _Totals = Field(default_factory=_Totals)


class _Benchmark(_Part):
    config: _Config = Field(default_factory=_Config)
    metrics: _Metrics = Field(default_factory=_Metrics)
    requests: _Requests
    duration: float = 0.0


class _Report(_Part):
    benchmarks: list[_Benchmark]


def is_guidellm(data: Any) -> bool:
    """Whether an object looks like one of its reports."""
    return isinstance(data, dict) and isinstance(data.get("benchmarks"), list)


def read_guidellm(data: Any, where: str) -> ForeignRun:
    """The one run that the report holds.

    Raises:
        ResultFileError: It holds several loads, or not every request.
    """
    report = checked(_Report, data, where)
    if len(report.benchmarks) != 1:
        raise ResultFileError(
            f"holds {len(report.benchmarks)} benchmarks, and a run is one under one load",
            where=where,
            remedy="Run GuideLLM with one load, such as --profile concurrent --rate 8, and give one file per run.",
        )
    (benchmark,) = report.benchmarks
    requests = benchmark.requests
    kept, counted = len(requests.successful) + len(requests.errored), benchmark.metrics.request_totals
    total = (counted.successful or 0) + (counted.errored or 0)
    if not kept or kept < total:
        raise ResultFileError(
            f"keeps {kept} of {total} requests, and a sample of them does not tell failures and percentiles",
            where=where,
            remedy="Run GuideLLM without a limit on the requests that it keeps (sample size).",
        )
    strategy = benchmark.config.strategy
    # They are kept in the order in which they ended. What was asked is the same in both arms, and puts them side by side.
    rows = sorted((*requests.successful, *requests.errored), key=lambda one: (one.request_args or "", one.sent_unix_s))
    start_s = min(one.sent_unix_s for one in rows)
    open_loop = strategy.rate is not None
    counters = counters_of([one.stats for one in requests.successful])
    missing: dict[Fact, str] = {"chunk times": "GuideLLM keeps the times of the first and the last token only"}
    if counters.drafts is None:
        missing["acceptance"] = f"GuideLLM has it only from {WHERE_FROM}"
    if counters.accepted_per_position is None:
        missing["positions"] = missing.get("acceptance", "the server told no histogram")
    return ForeignRun(
        tool=TOOL,
        where=where,
        model="",
        samples=tuple(_sample(index, row, start_s, where) for index, row in enumerate(rows)),
        counters=counters,
        missing=missing,
        counts_drafts=False,
        concurrency=None if open_loop else strategy.streams or _closed_loop(strategy, kept),
        request_rate=strategy.rate,
        started_unix_s=start_s,
        duration_s=benchmark.duration,
    )


def _closed_loop(strategy: _Strategy, requests: int) -> int:
    return 1 if "synchronous" in (strategy.type_, strategy.kind) else strategy.max_concurrency or requests


def _sample(index: int, row: _Request, start_s: float, where: str) -> RequestSample:
    times, tokens = row.info.timings, row.output_metrics.total_tokens
    sent_s = row.sent_unix_s - start_s
    if row.info.error is not None:
        return failed_sample(index, sent_s=sent_s, error=row.info.error)
    if times.first_token_iteration is None or times.last_token_iteration is None or not tokens:
        raise ResultFileError(
            f"request {index} has no time of a first and last token, or no number of tokens",
            where=where,
            remedy="Was it streamed? TTFT and TPOT need a streamed answer.",
        )
    ends = (times.first_token_iteration - start_s, times.last_token_iteration - start_s)
    return sample(
        index,
        sent_s=sent_s,
        token_times_s=ends if ends[1] > ends[0] else ends[:1],
        prompt_tokens=row.input_metrics.total_tokens,
        completion_tokens=tokens,
        spec=row.stats.stats() if row.stats else None,
    )
