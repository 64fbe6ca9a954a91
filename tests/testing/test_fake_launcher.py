"""FakeVllm as users' tests handle it."""

from __future__ import annotations

import gc
from typing import Any

import psutil
import pytest

from pytest_specdec.testing import FakeVllm, FakeVllmError
from pytest_specdec.testing.knobs import KnobError


def test_the_process_is_gone_after_the_with_block() -> None:
    with FakeVllm() as server:
        process = psutil.Process(server.pid)
        assert process.is_running()
    assert not process.is_running()


def test_stopping_twice_is_harmless() -> None:
    with FakeVllm() as server:
        server.stop()


def test_a_wrong_knob_is_refused_before_anything_starts() -> None:
    with pytest.raises(KnobError, match="did you mean 'tpot_ms'"):
        FakeVllm(tpot_m=3)


def test_an_acceptance_length_beyond_k_is_refused_by_the_server() -> None:
    server = FakeVllm(speculative_config={"method": "ngram", "num_speculative_tokens": 2}, acceptance_length=3.5)
    with pytest.raises(FakeVllmError, match=r"acceptance_length must be from 1 to 3"):
        server.start()


def test_knobs_can_be_changed_while_the_server_runs(serve: Any) -> None:
    client = serve(tpot_ms=1)
    client.server.set(tpot_ms=3)
    client.complete(max_tokens=5, ignore_eos=True)
    assert client.counters()["vllm:inter_token_latency_seconds_sum"] == pytest.approx(4 * 0.003)


def test_a_refused_change_leaves_the_knobs_as_they_were(serve: Any) -> None:
    client = serve(tpot_ms=1)
    with pytest.raises(KnobError, match="unknown knob nonsense"):
        client.server.set(tpot_ms=3, nonsense=1)
    client.complete(max_tokens=5, ignore_eos=True)
    assert client.counters()["vllm:inter_token_latency_seconds_sum"] == pytest.approx(4 * 0.001)


def test_the_log_can_be_read_after_the_end() -> None:
    with FakeVllm() as server:
        pass
    assert "Application startup complete" in server.log


def test_a_server_that_was_never_started_leaves_nothing_open() -> None:
    server = FakeVllm()
    with pytest.raises(FakeVllmError, match="was not started"):
        server.pid  # noqa: B018 - reading it is the test
    server.stop()
    del server
    gc.collect()
