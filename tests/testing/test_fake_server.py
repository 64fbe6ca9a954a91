"""What the running stand-in server does when nothing is wrong: answers, time and counters."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

PROMPTS = [f"Explain number {number} to a child" for number in range(12)]


def test_health_version_and_models(serve: Any) -> None:
    client = serve(served_name="arm-a", version="0.32.0")
    assert client.get("/health") == (200, "")
    assert json.loads(client.get("/version")[1]) == {"version": "0.32.0"}
    assert [card["id"] for card in json.loads(client.get("/v1/models")[1])["data"]] == ["arm-a"]


def test_both_arms_give_the_same_answers(baseline: Any, specdec: Any) -> None:
    assert [baseline.tokens(prompt) for prompt in PROMPTS] == [specdec.tokens(prompt) for prompt in PROMPTS]


def test_streamed_and_whole_answers_are_equal(specdec: Any) -> None:
    assert specdec.stream(PROMPTS[0], max_tokens=40).tokens == specdec.tokens(PROMPTS[0], max_tokens=40)


def test_a_seed_decides_a_sampled_answer(baseline: Any) -> None:
    first, same, other = (baseline.tokens(temperature=0.8, seed=seed) for seed in (1, 1, 2))
    assert first == same != other


def test_a_seed_means_nothing_to_a_greedy_answer(baseline: Any) -> None:
    assert baseline.tokens(seed=1) == baseline.tokens(seed=2)


def test_usage_counts_the_end_token(serve: Any) -> None:
    stream = serve(answer_tokens=7).stream(max_tokens=20)
    assert len(stream.tokens) == stream.last["usage"]["completion_tokens"] == 7


def test_max_tokens_cuts_an_answer(serve: Any) -> None:
    choice = serve(answer_tokens=30).complete(max_tokens=5)["choices"][0]
    assert (len(choice["token_ids"]), choice["finish_reason"]) == (5, "length")


def test_ignore_eos_goes_on_to_max_tokens(serve: Any) -> None:
    choice = serve(answer_tokens=4).complete(max_tokens=9, ignore_eos=True)["choices"][0]
    assert (len(choice["token_ids"]), choice["token_ids"][3], choice["finish_reason"]) == (9, 2, "length")


def test_a_prompt_with_part_of_its_answer_is_continued(baseline: Any) -> None:
    choice = baseline.complete(max_tokens=20)["choices"][0]
    prompt = [*choice["prompt_token_ids"], *choice["token_ids"][:8]]
    assert baseline.tokens(prompt, max_tokens=12) == choice["token_ids"][8:]


def test_log_probabilities_tell_the_runner_up(baseline: Any) -> None:
    choice = baseline.complete(max_tokens=3, logprobs=2, return_tokens_as_token_ids=True)["choices"][0]
    token = f"token_id:{choice['token_ids'][0]}"
    best = choice["logprobs"]["top_logprobs"][0]
    assert choice["logprobs"]["tokens"][0] == token == max(best, key=best.__getitem__)
    assert len(best) == 2


def test_prompt_log_probabilities_judge_a_given_answer(baseline: Any) -> None:
    choice = baseline.complete(max_tokens=1)["choices"][0]
    prompt = [*choice["prompt_token_ids"], *choice["token_ids"]]
    rows = baseline.complete(prompt, max_tokens=1, prompt_logprobs=1)["choices"][0]["prompt_logprobs"]
    assert rows[0] is None
    assert rows[-1][str(prompt[-1])]["rank"] == 1


def test_chat_log_probabilities_come_with_each_token(baseline: Any) -> None:
    body = {"model": baseline.server.served_name, "messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
    body |= {"temperature": 0, "logprobs": True, "top_logprobs": 2}
    answer = json.loads(baseline.post("/v1/chat/completions", body)[1])
    content = answer["choices"][0]["logprobs"]["content"]
    assert [len(each["top_logprobs"]) for each in content] == [2, 2]


@pytest.mark.parametrize(
    ("change", "status"),
    [
        ({"model": "other"}, 404),
        ({"prompt": None}, 400),
        ({"max_tokens": 0}, 400),
        ({"max_tokens": 100_000}, 400),
        ({"temperature": -1}, 400),
        ({"n": 2}, 400),
    ],
)
def test_what_vllm_refuses_is_refused(baseline: Any, change: dict[str, Any], status: int) -> None:
    body = {"model": baseline.server.served_name, "prompt": "Hi", **change}
    code, text = baseline.post("/v1/completions", body)
    assert (code, json.loads(text)["error"]["code"]) == (status, status)


def test_min_p_is_refused_only_with_speculation(baseline: Any, specdec: Any) -> None:
    statuses = []
    for client in (baseline, specdec):
        body = {"model": client.server.served_name, "prompt": "Hi", "min_p": 0.1}
        statuses.append(client.post("/v1/completions", body)[0])
    assert statuses == [200, 400]


def test_counters_agree_exactly_with_what_was_streamed(serve: Any, eagle: dict[str, Any]) -> None:
    flags = ["--per-request-spec-decode-metrics", "detailed"]
    client = serve(speculative_config=eagle, version="0.32.0", flags=flags, draft_coverage=0.8, engines=2)
    streams = [client.stream(prompt, max_tokens=60) for prompt in PROMPTS]
    counters = client.counters()
    stats = [stream.last["metrics"]["speculative_decoding"] for stream in streams]
    usages = [stream.last["usage"] for stream in streams]
    assert {
        "tokens": counters["vllm:generation_tokens_total"],
        "prompt tokens": counters["vllm:prompt_tokens_total"],
        "steps": counters["vllm:inter_token_latency_seconds_count"],
        "requests": counters["vllm:request_success_total"],
        "drafts": counters["vllm:spec_decode_num_drafts_total"],
        "draft tokens": counters["vllm:spec_decode_num_draft_tokens_total"],
        "accepted": counters["vllm:spec_decode_num_accepted_tokens_total"],
        "accepted per position": counters["vllm:spec_decode_num_accepted_tokens_per_pos_total"],
        "running": counters["vllm:num_requests_running"],
    } == {
        "tokens": sum(usage["completion_tokens"] for usage in usages),
        "prompt tokens": sum(usage["prompt_tokens"] for usage in usages),
        "steps": sum(len(stream.token_chunks) - 1 for stream in streams),
        "requests": len(PROMPTS),
        "drafts": sum(each["num_spec_steps"] for each in stats),
        "draft tokens": sum(each["num_draft_tokens"] for each in stats),
        "accepted": sum(each["num_accepted_draft_tokens"] for each in stats),
        "accepted per position": sum(each["num_accepted_draft_tokens"] for each in stats),
        "running": 0,
    }


def test_acceptance_length_is_counted_as_set(serve: Any, eagle: dict[str, Any]) -> None:
    """Its standard error over some 3000 drafts is 0.02."""
    client = serve(speculative_config=eagle, acceptance_length=2.4, tpot_ms=0)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda index: client.complete(f"{index}", max_tokens=200, ignore_eos=True), range(36)))
    counters = client.counters()
    drafts = counters["vllm:spec_decode_num_drafts_total"]
    assert drafts > 2500
    assert 1 + counters["vllm:spec_decode_num_accepted_tokens_total"] / drafts == pytest.approx(2.4, abs=0.1)


@pytest.mark.parametrize(("config", "ratio"), [(None, 1.0), ({"method": "ngram"}, 1.5)])
def test_tpot_in_the_counters_is_as_set(serve: Any, config: dict[str, Any] | None, ratio: float) -> None:
    client = serve(speculative_config=config, tpot_ms=2, step_ratio=1.5, acceptance=0.0)
    client.complete(max_tokens=20, ignore_eos=True)
    counters = client.counters()
    assert counters["vllm:request_time_per_output_token_seconds_sum"] == pytest.approx(0.002 * ratio, rel=1e-6)
    assert counters["vllm:inter_token_latency_seconds_sum"] == pytest.approx(19 * 0.002 * ratio, rel=1e-6)


def test_the_prefix_cache_is_counted_and_can_be_reset(serve: Any) -> None:
    client = serve(env={"VLLM_SERVER_DEV_MODE": "1"})
    prompt = "one two three four " * 10
    hits = []
    for _ in range(2):
        client.complete(prompt, max_tokens=1)
        hits.append(client.counters()["vllm:prefix_cache_hits_total"])
    assert json.loads(client.post("/reset_prefix_cache")[1]) == {"success": True}
    client.complete(prompt, max_tokens=1)
    hits.append(client.counters()["vllm:prefix_cache_hits_total"])
    assert hits == [0, 32, 32]


def test_sleep_needs_its_flag_and_dev_mode(serve: Any) -> None:
    without_flag = serve(env={"VLLM_SERVER_DEV_MODE": "1"})
    without_mode = serve(flags=["--enable-sleep-mode"], env={"VLLM_SERVER_DEV_MODE": "0"})
    assert [client.post("/sleep")[0] for client in (without_flag, without_mode)] == [404, 404]


def test_a_sleeping_server_answers_again_after_waking(serve: Any) -> None:
    client = serve(flags=["--enable-sleep-mode"], env={"VLLM_SERVER_DEV_MODE": "1"})
    body = {"model": client.server.served_name, "prompt": "Hi", "max_tokens": 1}
    client.post("/sleep?level=1")
    asleep = json.loads(client.get("/is_sleeping")[1])["is_sleeping"], client.post("/v1/completions", body)[0]
    client.post("/wake_up")
    awake = json.loads(client.get("/is_sleeping")[1])["is_sleeping"], client.post("/v1/completions", body)[0]
    assert (asleep, awake) == ((True, 500), (False, 200))


def test_the_start_is_logged_as_by_vllm(serve: Any, eagle: dict[str, Any]) -> None:
    log = serve(speculative_config=eagle, kv_cache_tokens=98_304, flags=["--max-model-len", "4096"]).server.log
    assert "non-default args: {'model': 'fake/model'" in log
    assert "speculative_config=SpeculativeConfig(method='eagle3', model='some/head', num_spec_tokens=3)" in log
    assert "GPU KV cache size: 98,304 tokens" in log
    assert "Maximum concurrency for 4,096 tokens per request: 24.00x" in log


def test_text_and_tokens_convert_both_ways(baseline: Any) -> None:
    choice = baseline.complete(max_tokens=4)["choices"][0]
    text = json.loads(baseline.post("/detokenize", {"tokens": choice["token_ids"]})[1])["prompt"]
    count = json.loads(baseline.post("/tokenize", {"prompt": "Tell me"})[1])["count"]
    assert (text, count) == (choice["text"], len(choice["prompt_token_ids"]))
