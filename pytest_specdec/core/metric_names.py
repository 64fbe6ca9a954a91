"""vLLM's families at ``/metrics``, by what we call their values."""

from __future__ import annotations

PREFIX = "vllm:"
COUNTS = {
    "drafts": "vllm:spec_decode_num_drafts_total",
    "draft_tokens": "vllm:spec_decode_num_draft_tokens_total",
    "accepted_tokens": "vllm:spec_decode_num_accepted_tokens_total",
    "decode_steps": "vllm:inter_token_latency_seconds_count",
    "generation_tokens": "vllm:generation_tokens_total",
    "prompt_tokens": "vllm:prompt_tokens_total",
    "finished_requests": "vllm:request_success_total",
    "preemptions": "vllm:num_preemptions_total",
    "prefix_cache_queries": "vllm:prefix_cache_queries_total",
    "prefix_cache_hits": "vllm:prefix_cache_hits_total",
    "tpot_count": "vllm:request_time_per_output_token_seconds_count",
    "ttft_count": "vllm:time_to_first_token_seconds_count",
}
SECONDS = {
    "tpot_sum_s": "vllm:request_time_per_output_token_seconds_sum",
    "ttft_sum_s": "vllm:time_to_first_token_seconds_sum",
}
PER_POSITION = "vllm:spec_decode_num_accepted_tokens_per_pos_total"
HISTOGRAMS = {
    "ttft": "vllm:time_to_first_token_seconds",
    "tpot": "vllm:request_time_per_output_token_seconds",
    "e2el": "vllm:e2e_request_latency_seconds",
}
"""Of requests, in seconds; each has ``_bucket``, ``_sum`` and ``_count``."""
HTTP_REQUESTS = "http_requests_total"
"""Of vLLM's API server, by ``handler`` and ``status`` (``2xx``, ``5xx``)."""
GENERATING = "/v1/(chat/)?completions"
"""The handlers that generate, as a regular expression."""
