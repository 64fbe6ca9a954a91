"""What was observed: requests, the runs they belong to, and the comparison that holds the runs.

All times are seconds of one monotonic clock; those in a :class:`RequestSample` count from the start of its run's window.
These records are written to the result file as they are, so that a verdict can be reached again without a GPU.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence  # noqa: TC003 - pydantic resolves the annotations at run time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from pytest_specdec.core.answer_form import AnswerForm  # noqa: TC001 - pydantic resolves the annotations at run time
from pytest_specdec.core.course import (  # noqa: TC001 - as above
    PlacementRecord,
    TimeSpent,
    WarmUpRecord,
)
from pytest_specdec.core.distributions import SampledOutputs  # noqa: TC001 - as above
from pytest_specdec.core.load_spec import LoadSpec  # noqa: TC001 - as above
from pytest_specdec.core.outputs import Outputs  # noqa: TC001 - as above
from pytest_specdec.core.server_facts import ServerFacts  # noqa: TC001 - as above

if TYPE_CHECKING:
    from pytest_specdec.core.run_table import RunTable

Arm = Literal["baseline", "specdec"]
ARMS: tuple[Arm, Arm] = ("baseline", "specdec")


@dataclass(frozen=True)
class RequestSpecStats:
    """Speculation of one request as the server itself counted it (vLLM >= 0.29 reports it on demand)."""

    drafts: int
    draft_tokens: int
    accepted_tokens: int
    accepted_per_step: tuple[int, ...] | None = None
    drafted_per_step: tuple[int, ...] | None = None


@dataclass(frozen=True)
class RequestSample:
    """One request as the client saw it."""

    index: int
    """Place in the plan of requests; the same index is the same request in both arms, and in every round unless the plan is fresh."""
    prompt: int
    """Which prompt of the workload."""
    category: str | None
    due_s: float | None
    """Planned arrival under an open loop; None in a closed loop."""
    sent_s: float
    token_times_s: tuple[float, ...] = ()
    """Arrival of each token chunk (non-empty ``choices``, role-only chunk of a chat left out, whatever its text)."""
    chunk_tokens: tuple[int, ...] | None = None
    """Tokens in each token chunk, same length as ``token_times_s``; None where the server sent no token ids."""
    prompt_tokens: int | None = None
    completion_tokens: int = 0
    """From the server's ``usage``, never counted from chunks."""
    finish_reason: str | None = None
    token_ids: tuple[int, ...] | None = None
    spec: RequestSpecStats | None = None
    error: str | None = None
    """Why the request failed (``HTTP 500: ...``, ``stream cut after 3 chunks``); None for a success."""
    form: AnswerForm | None = None
    """What its text looked like; None for failures, and in results of versions that did not look."""
    conversation: int | None = None
    """Which conversation of the workload this is a turn of; None for a prompt that stands alone."""

    @property
    def content(self) -> int:
        """What bootstraps resample: the prompt, or the whole conversation, whose turns resemble each other. Below 0 for the latter."""
        return self.prompt if self.conversation is None else -1 - self.conversation


@dataclass(frozen=True)
class ServerCounters:
    """vLLM's counters, summed over engines: one scrape, or the difference of two.

    A field is None where the server does not expose the family; the speculation fields are None on a plain server.
    """

    drafts: int | None = None
    draft_tokens: int | None = None
    accepted_tokens: int | None = None
    accepted_per_position: tuple[int, ...] | None = None
    """Joint and 0-based: steps that had at least ``i + 1`` tokens accepted."""
    decode_steps: int | None = None
    """``vllm:inter_token_latency_seconds_count``: one per decode step of a request."""
    generation_tokens: int | None = None
    prompt_tokens: int | None = None
    finished_requests: int | None = None
    preemptions: int | None = None
    prefix_cache_queries: int | None = None
    prefix_cache_hits: int | None = None
    tpot_sum_s: float | None = None
    tpot_count: int | None = None
    ttft_sum_s: float | None = None
    ttft_count: int | None = None


@dataclass(frozen=True)
class ClientHealth:
    """Was the load generator itself in time?"""

    max_loop_lag_s: float
    """Longest time for which the event loop did not come round, sampled every 10 ms."""
    p99_loop_lag_s: float
    cpu_share: float
    """CPU seconds of the client process per second of the window."""
    offered_rate: float | None = None
    """Requests per second planned (open loop)."""
    achieved_rate: float | None = None
    """Requests per second sent over the same arrivals (open loop)."""
    p99_send_delay_s: float | None = None
    """Sent minus due, open loop."""


@dataclass(frozen=True)
class DeviceReading:
    """Health of one device around a run; what cannot be read stays None."""

    index: int
    name: str | None = None
    sm_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    memory_used_gib: float | None = None
    throttle_reasons: tuple[str, ...] = ()
    foreign_processes: tuple[str, ...] = ()
    server_memory_gib: float | None = None
    """Of ``memory_used_gib``, what the measured server's processes hold."""


@dataclass(frozen=True)
class ArmRun:
    """One arm under the load once: half a round."""

    arm: Arm
    round: int
    order: int
    """0 when this arm ran first in its round, 1 when second."""
    started_unix_s: float
    duration_s: float
    """From the start of the window to the last chunk of the last request."""
    samples: Sequence[RequestSample]
    counters: ServerCounters
    """Difference of two scrapes, both taken while no request was running."""
    client: ClientHealth
    prefix_cache_reset: bool = False
    devices: tuple[DeviceReading, ...] = ()
    server_counters: ServerCounters | None = None
    """Where foreign traffic was allowed, what the server counted of everybody's requests; ``counters`` are then those of this
    client's alone, as its streams tell them."""

    @property
    def counted_by_server(self) -> ServerCounters:
        """What the server itself counted."""
        return self.server_counters or self.counters

    @property
    def successes(self) -> tuple[RequestSample, ...]:
        """The requests that completed."""
        return tuple(sample for sample in self.samples if sample.error is None)

    @functools.cached_property
    def table(self) -> RunTable:
        """All requests as arrays."""
        from pytest_specdec.core.run_table import RunTable

        return RunTable(self.samples)


@dataclass(frozen=True)
class ServerRecord:
    """A server as it was started, for the report."""

    arm: Arm
    command: tuple[str, ...]
    """The argv, secrets masked."""
    env: dict[str, str]
    """What the config added, and every ``VLLM_*`` variable in force; secrets masked."""
    model: str
    version: str | None
    """From ``GET /version``."""
    log: str
    startup_s: float
    launch: int = 0
    """0 for the first launch of this arm, 1 for the next, ..."""
    started_beside: bool = False
    """It started at the same time as others: each took longer than alone, and all together less."""
    startup_phases_s: dict[str, float] = field(default_factory=dict)
    """Seconds of ``startup_s`` by what vLLM's log showed it to be doing; empty where nobody saw the log."""
    attached: str | None = None
    """Address of a server that something else started: nobody here saw its start, its command or its log."""
    attested_method: str | None = None
    """The method in force, as the server's own log says; None where it does not."""
    attested_tokens: int | None = None
    """K in force, likewise."""
    stop_s: float | None = None
    """Seconds that ending it took; None while it ran when this was written."""
    facts: ServerFacts | None = None
    """The settings in force, likewise."""
    changed_by_vllm: tuple[str, ...] = ()
    """What vLLM changed by itself while this server started, one sentence each."""


@dataclass(frozen=True)
class WorkloadRecord:
    """Which prompts were sent."""

    name: str
    path: str
    sha256: str
    prompts: int
    weights: dict[str, float] | None = None
    """Share of each category in production, where the config states it."""


@dataclass(frozen=True)
class Comparison:
    """Everything measured for one (config, load): the input of every objective."""

    config_id: str
    method: str | None
    """As the config states it; None when vLLM was left to guess."""
    num_speculative_tokens: int | None
    """K as the config states it."""
    load: LoadSpec
    workload: WorkloadRecord
    servers: tuple[ServerRecord, ...]
    runs: tuple[ArmRun, ...]
    warmup_s: float = 0.0
    changes: tuple[str, ...] = ()
    """What the plugin set on both sides beyond the config ("what we changed")."""
    notes: tuple[str, ...] = ()
    """Labels every report must carry (synthetic acceptance, suffix cache set to 0, merged chunks, ...)."""
    device: str | None = None
    """``NVIDIA H200``, or the CPU's name."""
    plan_is_fresh: bool = False
    """True when each round drew prompts that no earlier round had."""
    extra: dict[str, str] = field(default_factory=dict)
    placement: PlacementRecord | None = None
    """None in results of versions that did not record it."""
    warm_ups: tuple[WarmUpRecord, ...] = ()
    """Of every launch, whoever needed it first: another comparison under the same load may have."""
    time: TimeSpent | None = None
    outputs: Outputs | None = None
    """None where no objective asked for answers to be compared."""
    sampled: SampledOutputs | None = None
    """The same for answers at a temperature above 0."""

    @property
    def is_self_test(self) -> bool:
        """Whether both arms are the plain server, to see what a machine's noise alone does."""
        return self.extra.get("purpose") == "self-test"

    @property
    def foreign_traffic(self) -> bool:
        """Whether others were allowed to use the servers meanwhile."""
        return self.extra.get("traffic") == "foreign"

    @property
    def refused(self) -> str:
        """Why measuring was given up before there was as much as was asked for; its rounds prove nothing. Empty for all others."""
        return self.extra.get("refused", "")

    def arm(self, arm: Arm) -> tuple[ArmRun, ...]:
        """The runs of one arm in order of rounds."""
        return tuple(sorted((run for run in self.runs if run.arm == arm), key=lambda run: run.round))

    @property
    def rounds(self) -> int:
        """How many rounds have both arms."""
        return min(len(self.arm("baseline")), len(self.arm("specdec")))
