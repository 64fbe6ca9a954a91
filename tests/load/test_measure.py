"""One arm measured from outside: what comes back, and what ends it early."""

from __future__ import annotations

import math
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from pytest_specdec.core.errors import InvalidMeasurement, ServerDied
from pytest_specdec.core.load_spec import LoadSpec
from pytest_specdec.core.samples import ArmRun, ServerCounters
from pytest_specdec.load import idle, measure
from pytest_specdec.load.arrivals import plan_requests
from pytest_specdec.load.measure import Endpoint, run_arm, warm_up
from pytest_specdec.load.warmup import MAX_BATCHES
from pytest_specdec.load.workload import Prompt, Workload
from pytest_specdec.serving.prometheus import difference, parse_scrape, running_requests
from pytest_specdec.testing import FakeVllm
from tests.load.stub_server import CHUNK, WAIT_S, Exchange, Stub, planned, stub_counters, stub_running

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pytest_specdec.load.answer import Transfer

LOAD = LoadSpec(concurrency=4, num_requests=12, max_tokens=24)
EAGLE3 = {"method": "eagle3", "model": "d", "num_speculative_tokens": 3}
WORKLOAD = Workload(
    name="w",
    path=Path("w.jsonl"),
    sha256="",
    prompts=tuple(Prompt(index=index, prompt=f"tell me about number {index}") for index in range(30)),
)


def measured(server: FakeVllm, load: LoadSpec = LOAD, **more: Any) -> ArmRun:
    def alive() -> None:
        if server.exit_code is not None:
            raise ServerDied(f"exit status {server.exit_code}")

    arguments: dict[str, Any] = {
        "arm": "specdec",
        "round_index": 2,
        "order": 1,
        "alive": alive,
        "on_progress": lambda *_: None,
        "read_counters": parse_scrape,
        "running": running_requests,
        "difference": difference,
    }
    plan = plan_requests(WORKLOAD, load, round_index=0, fresh=False)
    return run_arm(Endpoint(server.base_url, server.served_name), plan, load, **{**arguments, **more})


def measured_stub(stub: Stub, *, requests: int = 2, alive: Callable[[], None] = lambda: None, **more: Any) -> ArmRun:
    return run_arm(
        stub.endpoint,
        planned(requests),
        LoadSpec(concurrency=2),
        arm="baseline",
        round_index=0,
        order=0,
        alive=alive,
        on_progress=lambda *_: None,
        read_counters=stub_counters,
        running=stub_running,
        difference=lambda before, after: ServerCounters(
            generation_tokens=(after.generation_tokens or 0) - (before.generation_tokens or 0)
        ),
        **more,
    )


@pytest.fixture(scope="module")
def speculating() -> Any:
    with FakeVllm(speculative_config=EAGLE3, tpot_ms=2, ttft_ms=4, env={"VLLM_SERVER_DEV_MODE": "1"}) as server:
        yield server


def test_every_planned_request_is_a_sample(speculating: FakeVllm) -> None:
    run = measured(speculating)
    plan = plan_requests(WORKLOAD, LOAD, round_index=0, fresh=False)
    assert [(sample.index, sample.prompt) for sample in run.samples] == [
        (request.index, request.prompt.index) for request in plan
    ]
    assert [sample.error for sample in run.samples] == [None] * 12
    assert (run.arm, run.round, run.order) == ("specdec", 2, 1)


def test_the_counters_are_those_of_the_window(speculating: FakeVllm) -> None:
    run = measured(speculating)
    assert run.counters.generation_tokens == sum(sample.completion_tokens for sample in run.samples)
    assert run.counters.finished_requests == 12
    assert run.counters.drafts == sum(len(sample.token_times_s) - 1 for sample in run.samples)


def test_token_ids_are_complete(speculating: FakeVllm) -> None:
    for sample in measured(speculating).samples:
        assert sample.token_ids is not None
        assert len(sample.token_ids) == sample.completion_tokens == sum(sample.chunk_tokens or ())


def test_the_duration_ends_with_the_last_chunk(speculating: FakeVllm) -> None:
    run = measured(speculating)
    assert run.duration_s == max(sample.token_times_s[-1] for sample in run.samples)


def test_an_open_loop_reports_its_rates(speculating: FakeVllm) -> None:
    run = measured(speculating, LoadSpec(concurrency=None, request_rate=40, num_requests=8, max_tokens=4))
    assert run.client.offered_rate == pytest.approx(40)
    assert run.client.achieved_rate is not None
    assert run.client.p99_send_delay_s is not None


def test_the_prefix_cache_is_reset_where_it_can_be(speculating: FakeVllm) -> None:
    assert measured(speculating).prefix_cache_reset
    with FakeVllm(tpot_ms=1, ttft_ms=1) as plain:
        assert not measured(plain).prefix_cache_reset


def test_a_shared_server_is_neither_waited_for_nor_reset(
    speculating: FakeVllm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(idle, "IDLE_TIMEOUT_S", 0.0)
    run = measured(speculating, shared=True, running=lambda _: 1)
    assert run.counters.finished_requests == 12
    assert not run.prefix_cache_reset


def test_both_arms_get_the_same_work(speculating: FakeVllm) -> None:
    with FakeVllm(tpot_ms=2, ttft_ms=4) as plain:
        base, spec = measured(plain, arm="baseline"), measured(speculating)
    assert [sample.token_ids for sample in base.samples] == [sample.token_ids for sample in spec.samples]
    assert [sample.prompt_tokens for sample in base.samples] == [sample.prompt_tokens for sample in spec.samples]


def test_chats_are_measured_too(speculating: FakeVllm) -> None:
    chat = Prompt(index=0, messages=({"role": "user", "content": "Hi"},))
    workload = Workload(name="w", path=Path("w.jsonl"), sha256="", prompts=(chat,))
    load = LoadSpec(num_requests=1, max_tokens=8)
    run = run_arm(
        Endpoint(speculating.base_url, speculating.served_name),
        plan_requests(workload, load, round_index=0, fresh=False),
        load,
        arm="specdec",
        round_index=0,
        order=0,
        alive=lambda: None,
        on_progress=lambda *_: None,
        read_counters=parse_scrape,
        running=running_requests,
        difference=difference,
    )
    (sample,) = run.samples
    assert sample.error is None
    assert sum(sample.chunk_tokens or ()) == sample.completion_tokens


def test_failed_requests_are_samples_with_an_error() -> None:
    with FakeVllm(tpot_ms=1, ttft_ms=1, http_error={"status": 500, "every": 3}) as server:
        errors = [sample.error for sample in measured(server).samples]
    assert errors.count("HTTP 500: EngineCore encountered an issue.") == 4
    assert errors.count(None) == 8


def test_cut_streams_are_samples_with_an_error() -> None:
    with FakeVllm(tpot_ms=1, ttft_ms=1, cut_stream={"every": 6}) as server:
        errors = [sample.error for sample in measured(server).samples if sample.error is not None]
    assert len(errors) == 2
    assert all(error.startswith("stream cut after ") for error in errors)


def test_a_hanging_server_ends_in_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = [0]

    def silence_s(transfers: Sequence[Transfer], _: float) -> float:
        """Without end once five requests have ended and four more are under way; until then the server is only slow."""
        under_way = sum(one.ended is None for one in transfers)
        return math.inf if (ended[-1], under_way) == (5, 4) else 0.0

    monkeypatch.setattr("pytest_specdec.load.window._silence_s", silence_s)
    with FakeVllm(tpot_ms=1, ttft_ms=1, hang_after_requests=5) as server:
        run = measured(server, stall_timeout_s=2.0, on_progress=lambda done, _: ended.append(done))
    assert len(run.successes) == 5
    assert {sample.error for sample in run.samples[9:]} == {"not sent: the server had given no data for 2 s"}


def test_a_dying_server_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "DEATH_NOTICE_S", WAIT_S)
    with FakeVllm(tpot_ms=1, ttft_ms=1, die_after_requests=5) as server, pytest.raises(ServerDied):
        measured(server)


def test_death_during_a_hang_ends_the_run(stub: Stub) -> None:
    started: list[bool] = []

    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        started.append(True)
        exchange.wait_for_client_to_close()

    def alive() -> None:
        if started:
            raise ServerDied("gone")

    stub.routes["/v1/completions"] = route
    with pytest.raises(ServerDied, match="gone"):
        measured_stub(stub, alive=alive)
    assert stub.abandoned.wait(WAIT_S), "the connection stays open"


def test_death_explains_lost_connections(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sockets close before the process is gone; the connection's own words would hide the cause."""
    monkeypatch.setattr(measure, "DEATH_NOTICE_S", WAIT_S)
    polls_after_loss: list[bool] = []

    def alive() -> None:
        if stub.seen_at("/v1/completions"):
            polls_after_loss.append(True)
            if len(polls_after_loss) == 3:
                raise ServerDied("gone")

    stub.routes["/v1/completions"] = Exchange.close
    with pytest.raises(ServerDied, match="gone"):
        measured_stub(stub, alive=alive)


def test_death_explains_a_question_that_fails(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "DEATH_NOTICE_S", WAIT_S)
    polls_after_loss: list[bool] = []

    def alive() -> None:
        if stub.seen_at("/reset_prefix_cache"):
            polls_after_loss.append(True)
            if len(polls_after_loss) == 3:
                raise ServerDied("gone")

    stub.routes["/reset_prefix_cache"] = Exchange.close
    with pytest.raises(ServerDied, match="gone"):
        measured_stub(stub, alive=alive)


def test_a_question_that_fails_ends_the_run(stub: Stub) -> None:
    stub.routes["/metrics"] = Exchange.close
    with pytest.raises(InvalidMeasurement, match="GET /metrics failed: the server closed the connection"):
        measured_stub(stub)


def test_foreign_requests_before_the_window_are_refused(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "IDLE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(measure, "DEATH_NOTICE_S", 0.0)
    stub.routes["/metrics"] = lambda exchange: exchange.reply(200, "running 2 tokens 0")
    with pytest.raises(InvalidMeasurement, match="2 requests are running on the server although we sent none"):
        measured_stub(stub)
    assert not stub.seen_at("/v1/completions")


def test_foreign_requests_after_the_window_are_refused(stub: Stub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle, "IDLE_TIMEOUT_S", 0.1)
    monkeypatch.setattr(measure, "DEATH_NOTICE_S", 0.0)
    stub.routes["/metrics"] = lambda exchange: exchange.reply(
        200, f"running {len(stub.seen_at('/v1/completions'))} tokens 0"
    )
    with pytest.raises(
        InvalidMeasurement, match="2 requests are running on the server although all of ours have ended"
    ):
        measured_stub(stub)


def test_the_scrapes_enclose_the_window(stub: Stub) -> None:
    stub.routes["/metrics"] = lambda exchange: exchange.reply(
        200, f"running 0 tokens {100 + 2 * len(stub.seen_at('/v1/completions'))}"
    )
    assert measured_stub(stub, requests=5).counters.generation_tokens == 10


def test_an_interrupt_closes_the_connections(stub: Stub) -> None:
    def route(exchange: Exchange) -> None:
        exchange.stream(CHUNK, end=False)
        os.kill(os.getpid(), signal.SIGINT)
        exchange.wait_for_client_to_close()

    stub.routes["/v1/completions"] = route
    with pytest.raises(KeyboardInterrupt):
        measured_stub(stub, requests=1)
    assert stub.abandoned.wait(WAIT_S), "the connection stays open"


def test_a_warm_up_tells_its_time_and_trail(speculating: FakeVllm) -> None:
    warmed = warm_up(Endpoint(speculating.base_url, speculating.served_name), WORKLOAD, LOAD, alive=lambda: None)
    assert warmed.duration_s > 0
    assert 2 <= len(warmed.batches) <= MAX_BATCHES
    assert all(0 < batch.ttft_s < warmed.duration_s for batch in warmed.batches)


def test_a_warm_up_ends_with_its_server() -> None:
    def dead() -> None:
        raise ServerDied("gone")

    with FakeVllm() as server, pytest.raises(ServerDied, match="gone"):
        warm_up(Endpoint(server.base_url, server.served_name), WORKLOAD, LOAD, alive=dead)
