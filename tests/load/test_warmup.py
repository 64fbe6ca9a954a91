"""The warm-up stops when the pace has settled, and leaves the measured prompts alone."""

from __future__ import annotations

import asyncio
import itertools
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pytest_specdec.core.errors import RequestsFailed
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.warming import BatchPace
from pytest_specdec.load import warmup
from pytest_specdec.load.arrivals import plan_requests
from pytest_specdec.load.client import connect
from pytest_specdec.load.warmup import WarmUp, warm, warm_up_prompts
from pytest_specdec.load.workload import Prompt, Workload
from tests.load.stub_server import ANSWER, Exchange, Stub


def workload_of(*prompts: str | tuple[dict[str, Any], ...]) -> Workload:
    made = tuple(
        Prompt(index=index, prompt=prompt) if isinstance(prompt, str) else Prompt(index=index, messages=prompt)
        for index, prompt in enumerate(prompts)
    )
    return Workload(name="w", path=Path("w.jsonl"), sha256="", prompts=made)


WORKLOAD = workload_of(*(f"say the word {index}" for index in range(12)))


def warmed(stub: Stub, load: LoadSpec) -> WarmUp:
    async def work() -> WarmUp:
        async with connect(stub.endpoint) as client:
            return await warm(client, WORKLOAD, load, fresh=False, stall_timeout_s=10)

    return asyncio.run(work())


@pytest.fixture
def paces(monkeypatch: pytest.MonkeyPatch) -> list[BatchPace]:
    """The paces that the batches will show, whatever the stub's real one."""
    left: list[BatchPace] = []
    monkeypatch.setattr(warmup, "pace_of", lambda _: left.pop(0))
    return left


STEADY = BatchPace(0.01, 0.1)


def test_two_batches_of_one_pace_are_enough(stub: Stub, paces: list[BatchPace]) -> None:
    paces += [STEADY, STEADY]
    record = warmed(stub, LoadSpec(concurrency=2))
    assert (record.batches, record.settled, record.requests) == ((STEADY, STEADY), True, warmup.MIN_BATCH)
    assert len(stub.seen_at("/v1/completions")) == 2 * warmup.MIN_BATCH


def test_a_slow_start_is_warmed_away(stub: Stub, paces: list[BatchPace]) -> None:
    paces += [BatchPace(0.0092, 1.19), BatchPace(0.0062, 0.195), BatchPace(0.0061, 0.19)]
    record = warmed(stub, LoadSpec(concurrency=2))
    assert [batch.ttft_s for batch in record.batches] == [1.19, 0.195, 0.19]
    assert record.settled


def test_figures_that_never_settle_end_the_warm_up_all_the_same(stub: Stub, paces: list[BatchPace]) -> None:
    paces += [BatchPace(float(2**number), 0.1) for number in range(20, 20 - warmup.MAX_BATCHES, -1)]
    record = warmed(stub, LoadSpec(concurrency=2))
    assert (len(record.batches), record.settled) == (warmup.MAX_BATCHES, False)


def test_no_batch_starts_when_the_time_is_over(
    stub: Stub, paces: list[BatchPace], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(warmup, "MAX_S", 0.0)
    paces += [STEADY]
    assert not warmed(stub, LoadSpec(concurrency=2)).settled


def test_a_batch_fills_the_concurrency(stub: Stub, paces: list[BatchPace]) -> None:
    paces += [STEADY, STEADY]
    warmed(stub, LoadSpec(concurrency=11))
    assert len(stub.seen_at("/v1/completions")) == 2 * 11


def test_warm_up_requests_sample_like_the_load_and_are_short(stub: Stub, paces: list[BatchPace]) -> None:
    paces += [STEADY, STEADY]
    warmed(stub, LoadSpec(concurrency=None, request_rate=0.01, temperature=0.7, max_tokens=500))
    bodies = [seen.json for seen in stub.seen_at("/v1/completions")]
    assert {(body["temperature"], body["max_tokens"]) for body in bodies} == {(0.7, warmup.MAX_TOKENS)}
    assert len({body["seed"] for body in bodies}) == len(bodies)


def test_answers_of_one_token_are_paced_by_their_first(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(warmup, "MAX_BATCHES", 1)
    usage = ANSWER[-1].replace(b'"completion_tokens": 2', b'"completion_tokens": 1')
    stub.routes["/v1/completions"] = lambda exchange: exchange.stream(ANSWER[0], usage)
    (pace,) = warmed(stub, LoadSpec(concurrency=1)).batches
    assert pace.tpot_s is None
    assert pace.ttft_s > 0


def test_a_server_that_answers_nothing_ends_the_warm_up(stub: Stub) -> None:
    stub.routes["/v1/completions"] = lambda exchange: exchange.reply(400, "too long")
    with pytest.raises(
        RequestsFailed, match="all 8 requests of the warm-up failed, the first with: HTTP 400: too long"
    ):
        warmed(stub, LoadSpec(concurrency=2))
    assert len(stub.seen_at("/v1/completions")) == 8


def test_a_few_failures_do_not_end_the_warm_up(stub: Stub) -> None:
    failures = iter([True] * 3)

    def route(exchange: Exchange) -> None:
        if next(failures, False):
            exchange.reply(500, "no")
        else:
            exchange.stream(*ANSWER)

    stub.routes["/v1/completions"] = route
    assert warmed(stub, LoadSpec(concurrency=2)).batches


def first(count: int, workload: Workload, load: LoadSpec, *, fresh: bool = False) -> list[Prompt]:
    return list(itertools.islice(warm_up_prompts(workload, load, fresh=fresh), count))


@settings(deadline=None)
@given(st.integers(1, 20), st.integers(0, 99))
def test_prompts_of_no_round_come_first(requests: int, seed: int) -> None:
    load = LoadSpec(num_requests=requests, seed=seed)
    planned = {request.prompt.index for request in plan_requests(WORKLOAD, load, round_index=0, fresh=False)}
    unused = [prompt for prompt in WORKLOAD.prompts if prompt.index not in planned]
    taken = first(len(unused), WORKLOAD, load)
    assert sorted(prompt.index for prompt in taken) == [prompt.index for prompt in unused]
    assert all(prompt in unused for prompt in taken)


def test_fresh_rounds_keep_the_prompts_of_all_rounds_and_of_two_that_may_be_measured_again() -> None:
    load = LoadSpec(num_requests=2, max_rounds=3)
    planned = {
        request.prompt.index
        for round_index in range(3 + 2)
        for request in plan_requests(WORKLOAD, load, round_index=round_index, fresh=True)
    }
    assert {prompt.index for prompt in first(2, WORKLOAD, load, fresh=True)} == set(range(12)) - planned


def test_altered_prompts_are_like_none_before() -> None:
    taken = [prompt.text for prompt in first(40, WORKLOAD, LoadSpec(num_requests=12))]
    assert len(set(taken)) == 40
    assert not set(taken) & {prompt.text for prompt in WORKLOAD.prompts}


def test_an_altered_prompt_has_its_words_reversed() -> None:
    assert first(1, workload_of("say the word"), LoadSpec())[0].prompt == "0 word the say"


def test_an_altered_chat_stays_a_chat() -> None:
    chat = ({"role": "user", "content": [{"type": "text", "text": "say it"}]},)
    assert first(1, workload_of(chat), LoadSpec())[0].messages == ({"role": "user", "content": "0 it say"},)
