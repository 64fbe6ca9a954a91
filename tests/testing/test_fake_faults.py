"""Every fault that can be set on the stand-in server does what its name says."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
from typing import Any

import psutil
import pytest

from pytest_specdec.testing import FakeVllm, FakeVllmError

MODULE = [sys.executable, "-m", "pytest_specdec.testing.fake_vllm"]


def test_a_wrong_knob_in_the_environment_ends_with_status_2() -> None:
    ended = subprocess.run(
        [*MODULE, "--model", "m"],
        env={**os.environ, "FAKE_VLLM": '{"tpot": 3}'},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (2, "fake_vllm: unknown knob tpot, did you mean 'tpot_ms'?\n")


def test_a_taken_port_ends_with_errno_98() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        ended = subprocess.run([*MODULE, "--model", "m", "--port", port], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "Errno 98" in ended.stderr


def test_an_exit_at_start_has_its_code_and_message() -> None:
    server = FakeVllm(exit_at_start={"code": 7, "message": "No available memory for the cache blocks."})
    with pytest.raises(FakeVllmError, match=r"(?s)status 7.*No available memory for the cache blocks"):
        server.start()


def test_a_hanging_start_never_becomes_ready() -> None:
    server = FakeVllm(hang_at_start=True, startup_timeout_s=1.0)
    with pytest.raises(FakeVllmError, match="was not ready in time"):
        server.start()


def test_a_slow_start_logs_its_progress(serve: Any) -> None:
    assert serve(startup_s=0.2).server.log.count("Loading weights") == 1


def test_a_silent_start_logs_nothing_before_it_is_ready(serve: Any) -> None:
    log = serve(startup_s=0.2, silent_start=True).server.log
    assert "Starting vLLM server" in log.splitlines()[0]


def test_extra_lines_are_in_the_log(serve: Any) -> None:
    assert "WARNING: the draft is odd\n" in serve(log_lines=["WARNING: the draft is odd"]).server.log


def test_a_server_can_die_in_the_middle_of_an_answer(serve: Any) -> None:
    client = serve(die_after_requests=1, answer_tokens=20)
    assert client.stream(max_tokens=20).done
    stream = client.stream(max_tokens=20)
    assert not stream.done
    assert 0 < len(stream.tokens) < 20
    assert client.server.wait(60) == 1
    assert "illegal memory access" in client.server.log


def test_a_server_can_stop_answering(serve: Any) -> None:
    client = serve(hang_after_requests=1)
    client.complete()
    body = {"model": client.server.served_name, "prompt": "Hi"}
    with pytest.raises(TimeoutError):
        client.post("/v1/completions", body, timeout_s=0.3)
    assert client.get("/health")[0] == 200


def test_every_nth_request_can_fail(serve: Any) -> None:
    client = serve(http_error={"status": 503, "every": 3})
    body = {"model": client.server.served_name, "prompt": "Hi"}
    assert [client.post("/v1/completions", body)[0] for _ in range(6)] == [200, 200, 503, 200, 200, 503]


def test_every_nth_stream_can_be_cut(serve: Any) -> None:
    client = serve(cut_stream={"every": 2}, answer_tokens=20)
    streams = [client.stream(max_tokens=20) for _ in range(4)]
    assert [stream.done for stream in streams] == [True, False, True, False]
    assert all(stream.tokens for stream in streams)


def test_an_answer_that_the_client_leaves_counts_as_aborted(serve: Any) -> None:
    client = serve(cut_stream={"every": 1}, answer_tokens=20)
    client.stream(max_tokens=20)
    page = client.get("/metrics")[1]
    assert 'vllm:request_success_total{engine="0",finished_reason="abort",model_name="fake/model"} 1.0' in page
    assert client.counters()["vllm:num_requests_running"] == 0


def test_merged_chunks_carry_several_steps(serve: Any, eagle: dict[str, Any]) -> None:
    client = serve(speculative_config=eagle, acceptance=1.0, merged_chunks=2)
    chunks = client.stream(max_tokens=17, ignore_eos=True).token_chunks
    assert [len(chunk["token_ids"]) for chunk in chunks] == [1, 8, 8]
    assert client.counters()["vllm:inter_token_latency_seconds_count"] == 4


def test_a_buffered_stream_has_the_same_chunks(serve: Any, baseline: Any) -> None:
    plain, buffered = baseline.stream(), serve(buffered=True).stream()
    assert [each["token_ids"] for each in plain.token_chunks] == [each["token_ids"] for each in buffered.token_chunks]


@pytest.mark.parametrize("buffered", [True, False])
def test_only_a_buffered_stream_holds_its_chunks_back(serve: Any, *, buffered: bool) -> None:
    client = serve(buffered=buffered, tpot_ms=50)
    with client.endless(stream=True) as connection:
        client.counters_once("vllm:generation_tokens_total", 3)
        connection.settimeout(0 if buffered else 60)
        received = b""
        with contextlib.suppress(BlockingIOError):
            while b"data:" not in received:
                received += connection.recv(2**16)
    assert (b"data:" not in received) is buffered


def test_foreign_traffic_moves_counters_without_a_request(serve: Any, eagle: dict[str, Any]) -> None:
    client = serve(speculative_config=eagle, foreign_traffic=500)
    counters = client.counters_once("vllm:request_success_total", 1)
    assert counters["vllm:generation_tokens_total"] == 32 * counters["vllm:request_success_total"]
    assert counters["vllm:spec_decode_num_drafts_total"] > 0


def test_counters_can_start_again(serve: Any) -> None:
    client = serve(reset_counters_after=3)
    finished = []
    for _ in range(4):
        client.complete(max_tokens=2)
        finished.append(client.counters()["vllm:request_success_total"])
    assert finished == [1, 2, 0, 1]


def test_inconsistent_counters_accept_more_than_was_drafted(serve: Any, eagle: dict[str, Any]) -> None:
    client = serve(speculative_config=eagle, inconsistent_counters=True)
    client.complete()
    counters = client.counters()
    assert (
        counters["vllm:spec_decode_num_accepted_tokens_total"] > counters["vllm:spec_decode_num_draft_tokens_total"] > 0
    )


@pytest.mark.parametrize("how", [{"disable_log_stats": True}, {"flags": ["--disable-log-stats"]}])
def test_without_log_stats_there_is_no_line_of_vllm(serve: Any, how: dict[str, Any]) -> None:
    assert "vllm:" not in serve(**how).get("/metrics")[1]


def test_a_server_that_never_drafts_shows_zeros(serve: Any, eagle: dict[str, Any]) -> None:
    client = serve(speculative_config=eagle, no_drafts=True)
    client.complete()
    counters = client.counters()
    assert counters["vllm:spec_decode_num_drafts_total"] == 0 < counters["vllm:inter_token_latency_seconds_count"]


def test_a_baseline_can_speculate(serve: Any) -> None:
    client = serve(speculates_on_baseline=True)
    client.complete()
    assert client.counters()["vllm:spec_decode_num_drafts_total"] > 0


def test_the_log_can_name_another_method(serve: Any, eagle: dict[str, Any]) -> None:
    assert "method='draft_model'" in serve(speculative_config=eagle, wrong_method="draft_model").server.log


def test_the_server_can_use_another_k(serve: Any, eagle: dict[str, Any]) -> None:
    page = serve(speculative_config=eagle, num_speculative_tokens=1).get("/metrics")[1]
    assert 'position="0"' in page
    assert 'position="1"' not in page


@pytest.mark.parametrize("knob", ["corrupt_output", "near_ties"])
def test_answers_of_a_share_of_prompts_can_differ(serve: Any, eagle: dict[str, Any], knob: str) -> None:
    right, wrong = serve(), serve(speculative_config=eagle, **{knob: 0.5})
    prompts = [f"prompt {number}" for number in range(40)]
    differing = sum(right.tokens(prompt, max_tokens=17) != wrong.tokens(prompt, max_tokens=17) for prompt in prompts)
    assert 8 <= differing <= 32


def test_more_requests_than_max_num_seqs_wait(serve: Any) -> None:
    client = serve(flags=["--max-num-seqs", "1"], tpot_ms=500)
    with client.endless(), client.endless():
        counters = client.counters_once("vllm:num_requests_waiting", 1)
        assert counters["vllm:num_requests_running"] == 1


def test_the_prefix_cache_is_not_reset_while_a_request_runs(serve: Any) -> None:
    client = serve(tpot_ms=500, env={"VLLM_SERVER_DEV_MODE": "1"})
    with client.endless():
        client.counters_once("vllm:num_requests_running", 1)
        assert json.loads(client.post("/reset_prefix_cache")[1]) == {"success": False}


def test_requests_are_spread_over_the_engines(serve: Any) -> None:
    client = serve(engines=2)
    for _ in range(4):
        client.complete(max_tokens=1)
    page = client.get("/metrics")[1]
    for engine in (0, 1):
        assert f'vllm:generation_tokens_total{{engine="{engine}",model_name="fake/model"}} 2.0' in page


def test_a_child_outlives_a_terminated_server(serve: Any) -> None:
    client = serve(spawn_child=True)
    server = psutil.Process(client.server.pid)
    [child] = server.children()
    server.send_signal(signal.SIGTERM)
    server.wait(60)
    child.send_signal(signal.SIGTERM)
    assert child.is_running()
    assert os.getpgid(child.pid) == client.server.pid
    client.server.stop()
    assert psutil.wait_procs([child], timeout=60)[1] == []


def test_a_server_can_ignore_sigterm(serve: Any) -> None:
    client = serve(ignore_sigterm=True)
    os.kill(client.server.pid, signal.SIGTERM)
    assert client.get("/health")[0] == 200


def test_the_server_imports_neither_numpy_nor_pytest() -> None:
    code = "import sys, pytest_specdec.testing.http_api, pytest_specdec.testing.fake_vllm; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"numpy", "scipy", "pydantic", "pytest", "prometheus_client"} & set(modules)
    assert "aiohttp" in modules


def test_a_dead_server_refuses_connections(serve: Any) -> None:
    client = serve()
    client.server.stop()
    with pytest.raises(urllib.error.URLError):
        client.get("/health")
