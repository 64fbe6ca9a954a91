"""The warm-up: requests that are thrown away, until the server's figures have stopped drifting.

The first requests of a server compile kernels, capture graphs and fill caches. The warm-up uses the load's sampling and
concurrency (an open loop is warmed at :data:`OPEN_LOOP_CONCURRENCY`), and prompts that the measured rounds do not use.
Where the workload has none left, it takes the round's prompts with their words in reverse order: as long and of the same
vocabulary, but neither their prefixes nor their answers are of use to a cache later on.

It ends when :func:`pytest_specdec.core.warming.has_settled` says so of TPOT and TTFT, after :data:`MAX_BATCHES` batches, or when
:data:`MAX_S` seconds have passed at the end of a batch.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from pytest_specdec.core.errors import RequestsFailed
from pytest_specdec.core.request_failures import remedy_for
from pytest_specdec.core.warming import BatchPace, has_settled, pace_of
from pytest_specdec.load.answer import read_answer
from pytest_specdec.load.arrivals import SPARE_PLANS, PlannedRequest, prompt_order
from pytest_specdec.load.prompt_reader import text_of
from pytest_specdec.load.window import run_window

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pytest_specdec.core.load_spec import LoadSpec
    from pytest_specdec.core.samples import RequestSample
    from pytest_specdec.load.client import Client
    from pytest_specdec.load.prompt_reader import Prompt
    from pytest_specdec.load.workload import Workload

MAX_BATCHES = 8
MAX_S = 120.0
"""No further batch starts after so long: a server that still drifts then is measured with a note."""
MIN_BATCH = 8
MAX_TOKENS = 128
"""Longest answer of a warm-up request: what a server compiles depends on the batch, not on how far its answers have got."""
OPEN_LOOP_CONCURRENCY = 8


@dataclass(frozen=True)
class WarmUp:
    """What a warm-up took and saw."""

    duration_s: float
    requests: int
    """In each batch."""
    batches: tuple[BatchPace, ...]
    settled: bool
    """False when a limit came before the figures had settled."""


def in_flight(load: LoadSpec) -> int:
    """At which concurrency a load is warmed up."""
    return OPEN_LOOP_CONCURRENCY if load.concurrency is None else load.concurrency


async def warm(client: Client, workload: Workload, load: LoadSpec, *, fresh: bool, stall_timeout_s: float) -> WarmUp:
    """Runs the batches.

    Raises:
        RequestsFailed: No request of a batch succeeded.
    """
    load = replace(load, request_rate=None, concurrency=in_flight(load))
    size = max(in_flight(load), MIN_BATCH)
    prompts = warm_up_prompts(workload, load, fresh=fresh)
    batches: list[BatchPace] = []
    began = time.perf_counter()
    while not (settled := has_settled(batches)) and len(batches) < MAX_BATCHES and time.perf_counter() - began < MAX_S:
        plan = [
            PlannedRequest(
                index=index,
                prompt=prompt,
                due_s=None,
                max_tokens=min(prompt.max_tokens or load.max_tokens, MAX_TOKENS),
                seed=load.seed + len(batches) * size + index,
            )
            for index, prompt in enumerate(itertools.islice(prompts, size))
        ]
        window = await run_window(client, plan, load, on_progress=lambda *_: None, stall_timeout_s=stall_timeout_s)
        samples = [read_answer(transfer, window_start=window.started) for transfer in window.transfers]
        batches.append(pace_of(_successes(samples, client)))
    return WarmUp(time.perf_counter() - began, size, tuple(batches), settled)


def warm_up_prompts(workload: Workload, load: LoadSpec, *, fresh: bool) -> Iterator[Prompt]:
    """Endless: the prompts that no round uses, then the others, altered, each time differently."""
    rounds = load.max_rounds + SPARE_PLANS if fresh else 1
    used = min(load.num_requests * rounds, len(workload.prompts))
    measured = {prompt.index for prompt in prompt_order(workload, load, count=used)}
    order = prompt_order(workload, load, count=len(workload.prompts))
    yield from (prompt for prompt in order if prompt.index not in measured)
    for turn, prompt in enumerate(itertools.cycle(order)):
        yield _altered(prompt, turn)


def _altered(prompt: Prompt, turn: int) -> Prompt:
    def reverse(text: str) -> str:
        return f"{turn} " + " ".join(reversed(text.split()))

    if prompt.messages is None:
        return replace(prompt, prompt=reverse(prompt.text))
    messages = tuple(message | {"content": reverse(text_of(message.get("content")))} for message in prompt.messages)
    return replace(prompt, messages=messages)


def _successes(samples: Sequence[RequestSample], client: Client) -> list[RequestSample]:
    successes = [sample for sample in samples if sample.error is None]
    if not successes:
        raise RequestsFailed(
            f"all {len(samples)} requests of the warm-up failed, the first with: {samples[0].error}",
            where=client.endpoint.base_url,
            remedy=remedy_for(samples[0].error or "") or "The server's log says more.",
        )
    return successes
