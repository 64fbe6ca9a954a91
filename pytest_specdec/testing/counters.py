"""What the stand-in server counts, and under which families of vLLM's it shows on ``GET /metrics``.

Same families, labels, help texts and buckets as vLLM.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pytest_specdec.testing.exposition import Histogram

if TYPE_CHECKING:
    from pytest_specdec.testing.exposition import Exposition, Samples

_STEP_BUCKETS = (
    0.01,
    0.025,
    0.05,
    0.075,
    0.1,
    0.15,
    0.2,
    0.3,
    0.4,
    0.5,
    0.75,
    1.0,
    2.5,
    5.0,
    7.5,
    10.0,
    20.0,
    40.0,
    80.0,
)
_TTFT_BUCKETS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_REQUEST_BUCKETS = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0),
    *(960.0, 1920.0, 7680.0),
)
_TOKEN_BUCKETS = (1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0)
_FINISHED_REASONS = ("stop", "length", "abort", "error", "repetition")

_SLEEP_HELP = (
    "Engine sleep state; awake = 0 means engine is sleeping; awake = 1 means engine is awake; weights_offloaded = 1 means "
    "sleep level 1; discard_all = 1 means sleep level 2."
)


def _steps() -> Histogram:
    return Histogram(_STEP_BUCKETS)


def _requests() -> Histogram:
    return Histogram(_REQUEST_BUCKETS)


def _tokens() -> Histogram:
    return Histogram(_TOKEN_BUCKETS)


@dataclass
class EngineCounters:
    """What one engine has counted since its start."""

    positions: int = 0
    """K; 0 on a server without speculation, which has no ``spec_decode`` family at all."""
    running: int = 0
    waiting: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    preemptions: int = 0
    prefix_cache_queries: int = 0
    prefix_cache_hits: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted_tokens: int = 0
    accepted_per_position: list[int] = field(default_factory=list)
    finished: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_FINISHED_REASONS, 0))
    ttft: Histogram = field(default_factory=lambda: Histogram(_TTFT_BUCKETS))
    step: Histogram = field(default_factory=_steps)
    tpot: Histogram = field(default_factory=_steps)
    e2e: Histogram = field(default_factory=_requests)
    queue: Histogram = field(default_factory=_requests)
    prompt_lengths: Histogram = field(default_factory=_tokens)
    generation_lengths: Histogram = field(default_factory=_tokens)

    def __post_init__(self) -> None:
        self.accepted_per_position = self.accepted_per_position or [0] * self.positions

    def count_step(self, *, delivered: int, drafted: int, accepted: int, duration_s: float) -> None:
        """Count one decode step of one request."""
        self.generation_tokens += delivered
        self.step.observe(duration_s)
        if drafted and self.positions:
            self.drafts += 1
            self.draft_tokens += drafted
            self.accepted_tokens += accepted
            for position in range(accepted):
                self.accepted_per_position[position] += 1

    def count_finished(self, reason: str, *, prompt_tokens: int, tokens: int, decode_s: float, e2e_s: float) -> None:
        """Count one finished request; ``decode_s`` is from its first token to its last."""
        self.finished[reason] += 1
        self.tpot.observe(decode_s / (tokens - 1) if tokens > 1 else 0.0)
        self.e2e.observe(e2e_s)
        self.prompt_lengths.observe(prompt_tokens)
        self.generation_lengths.observe(tokens)


def vllm_families(engines: list[EngineCounters], *, model_name: str, asleep: bool, page: Exposition) -> None:
    """Add every ``vllm:`` family; those of speculation only where an engine has draft positions."""
    labelled = [({"engine": str(index), "model_name": model_name}, engine) for index, engine in enumerate(engines)]

    def values(attribute: str) -> Samples:
        return [(labels, float(getattr(engine, attribute))) for labels, engine in labelled]

    if any(engine.positions for engine in engines):
        page.counter("vllm:spec_decode_num_drafts", "Number of spec decoding drafts.", values("drafts"))
        page.counter("vllm:spec_decode_num_draft_tokens", "Number of draft tokens.", values("draft_tokens"))
        page.counter("vllm:spec_decode_num_accepted_tokens", "Number of accepted tokens.", values("accepted_tokens"))
        page.counter(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "Accepted tokens per draft position.",
            [
                ({**labels, "position": str(position)}, float(count))
                for labels, engine in labelled
                for position, count in enumerate(engine.accepted_per_position)
            ],
        )
    page.gauge("vllm:num_requests_running", "Number of requests in model execution batches.", values("running"))
    page.gauge("vllm:num_requests_waiting", "Number of requests waiting to be processed.", values("waiting"))
    page.gauge(
        "vllm:engine_sleep_state",
        _SLEEP_HELP,
        [({**labels, "sleep_state": "awake"}, float(not asleep)) for labels, _ in labelled]
        + [({**labels, "sleep_state": "weights_offloaded"}, float(asleep)) for labels, _ in labelled]
        + [({**labels, "sleep_state": "discard_all"}, 0.0) for labels, _ in labelled],
    )
    page.gauge(
        "vllm:kv_cache_usage_perc", "KV-cache usage. 1 means 100 percent usage.", [(each, 0.0) for each, _ in labelled]
    )
    page.counter(
        "vllm:prefix_cache_queries",
        "Prefix cache queries, in terms of number of queried tokens.",
        values("prefix_cache_queries"),
    )
    page.counter(
        "vllm:prefix_cache_hits", "Prefix cache hits, in terms of number of cached tokens.", values("prefix_cache_hits")
    )
    page.counter("vllm:num_preemptions", "Cumulative number of preemption from the engine.", values("preemptions"))
    page.counter("vllm:prompt_tokens", "Number of prefill tokens processed.", values("prompt_tokens"))
    page.counter("vllm:generation_tokens", "Number of generation tokens processed.", values("generation_tokens"))
    page.counter(
        "vllm:request_success",
        "Count of successfully processed requests.",
        [
            ({**labels, "finished_reason": reason}, float(count))
            for labels, engine in labelled
            for reason, count in engine.finished.items()
        ],
    )
    for name, documentation, attribute in _HISTOGRAMS:
        page.histogram(name, documentation, [(labels, getattr(engine, attribute)) for labels, engine in labelled])


_HISTOGRAMS = (
    ("vllm:request_prompt_tokens", "Number of prefill tokens processed.", "prompt_lengths"),
    ("vllm:request_generation_tokens", "Number of generation tokens processed.", "generation_lengths"),
    ("vllm:time_to_first_token_seconds", "Histogram of time to first token in seconds.", "ttft"),
    ("vllm:inter_token_latency_seconds", "Histogram of inter-token latency in seconds.", "step"),
    (
        "vllm:request_time_per_output_token_seconds",
        "Histogram of time_per_output_token_seconds per request.",
        "tpot",
    ),
    ("vllm:e2e_request_latency_seconds", "Histogram of e2e request latency in seconds.", "e2e"),
    ("vllm:request_queue_time_seconds", "Histogram of time spent in WAITING phase for request.", "queue"),
)
